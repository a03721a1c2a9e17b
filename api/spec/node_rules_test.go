package spec

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// leaf is a number of the parameters of memory or eviction, by its path in the file.
type leaf struct {
	path  string
	value reflect.Value
}

// leaves are all numbers of node.memory and node.eviction.
func leaves(n *Node) []leaf {
	return append(leavesOf("node.memory", reflect.ValueOf(&n.Memory).Elem()), leavesOf("node.eviction", reflect.ValueOf(&n.Eviction).Elem())...)
}

func leavesOf(path string, v reflect.Value) (out []leaf) {
	if v.Kind() != reflect.Struct {
		if v.Kind() == reflect.Bool || v.Kind() == reflect.String {
			return nil
		}
		return []leaf{{path, v}}
	}
	for _, field := range reflect.VisibleFields(v.Type()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		out = append(out, leavesOf(path+"."+name, v.FieldByIndex(field.Index))...)
	}
	return out
}

// Each number of the parameters has a bound on both sides, and the error names it: a field that is added without one fails here.
func TestEachNodeRuleIsBounded(t *testing.T) {
	count := len(leaves(&Default().Node))
	if count < 120 {
		t.Fatalf("%d numbers are found", count)
	}
	for i := range count {
		for _, spoil := range []float64{-1, math.Inf(1), math.NaN()} {
			c := Default()
			l := leaves(&c.Node)[i]
			switch {
			case l.value.CanFloat():
				l.value.SetFloat(spoil)
			case spoil < 0:
				l.value.SetInt(-1)
			default:
				l.value.SetInt(math.MaxInt64)
			}
			if err := Validate(c); err == nil || !strings.Contains(err.Error(), l.path+": ") || !strings.Contains(err.Error(), "write ") {
				t.Fatalf("%s is %v: %v", l.path, l.value.Interface(), err)
			}
		}
	}
}

// A 0 that is written is 0, and what is not written keeps its default, for each number.
func TestZeroOfNodeRuleIsZero(t *testing.T) {
	defaults := leaves(&Default().Node)
	for i, l := range defaults {
		words := strings.Split(l.path, ".")
		text := "0"
		if l.value.Type() == reflect.TypeFor[Duration]() {
			text = `"0s"`
		}
		for _, word := range slices.Backward(words) {
			text = `{"` + word + `":` + text + "}"
		}
		c := New()
		if err := json.Unmarshal([]byte(text), c); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		Complete(c)
		for k, other := range leaves(&c.Node) {
			want := defaults[k].value.Interface()
			if k == i {
				want = reflect.Zero(other.value.Type()).Interface()
			}
			if got := other.value.Interface(); got != want {
				t.Fatalf("%s gives %s = %v, want %v", text, other.path, got, want)
			}
		}
	}
}

// What belongs together is checked together, and the message names both fields and what to do.
func TestNodeRulesTogether(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*Node)
		want  []string
	}{
		"a reserve within the eviction's threshold": {
			func(n *Node) { n.Memory.Headroom.GrowthReserve = 0.05 },
			[]string{"node.memory.headroom.growthReserve: 5 %", "raise growthReserve to 8 %, or lower node.eviction.memory.soft.share"},
		},
		"a threshold above the reserve": {
			func(n *Node) { n.Eviction.NUMANode.Soft.Share = 0.09 }, []string{"node.memory.headroom.growthReserve", "or lower node.eviction.numaNode.soft.share"},
		},
		"pressure that counts at the setpoint": {
			func(n *Node) { n.Eviction.Pressure.Below.Share = 0.11 }, []string{"or lower node.eviction.pressure.below.share"},
		},
		"soft below hard": {
			func(n *Node) { n.Eviction.Memory.Soft.Share = 0.01 }, []string{"node.eviction.memory.soft: share 0.01", "raise the soft threshold or lower the hard one"},
		},
		"soft amount below hard": {func(n *Node) { n.Eviction.Memory.Soft.Amount = 1 }, []string{"node.eviction.memory.soft: ", "node.eviction.memory.hard"}},
		"soft is hard":           {func(n *Node) { n.Eviction.Root.Soft = n.Eviction.Root.Hard }, []string{"node.eviction.root.soft: "}},
		"closed for less than at first": {
			func(n *Node) { n.Eviction.Close.Most = Duration(time.Second) }, []string{"node.eviction.close.most: 1s is less than node.eviction.close.first, 5m0s"},
		},
		"reclaimed down to more than from": {func(n *Node) { n.Memory.Reclaim.To = 0.95 }, []string{"node.memory.reclaim.to: ", "node.memory.reclaim.at"}},
		"pressures the wrong way round": {
			func(n *Node) { n.Memory.Headroom.MemoryPressureHigh = 0.3 }, []string{"node.memory.headroom.memoryPressureHigh: 0.3 is above memoryPressureCritical"},
		},
		"stops without a pause": {
			func(n *Node) { n.Eviction.Escalation.StopInterval = seconds(9) }, []string{"node.eviction.escalation.stopInterval: 9s is out of range; write 10s to 24h0m0s"},
		},
		"where thresholds are read": {func(n *Node) { n.KubeletThresholds = "Guess" }, []string{`node.kubeletThresholds: "Guess" is not known; write Ask or File`}},
		"all of a struct is zero":   {func(n *Node) { n.Memory.Writes = MemoryWrites{} }, []string{"node.memory.writes.step: 0 is out of range; write"}},
	} {
		d := Default()
		c.spoil(&d.Node)
		err := Validate(d)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: want %q in\n%v", name, want, err)
			}
		}
	}
}
