package spec

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// leafTypes are the types of the fields that are no structs, by their paths in JSON.
func leafTypes(t reflect.Type, at string, out map[string]reflect.Type) map[string]reflect.Type {
	for name, field := range fieldsOf(t) {
		if path := at + "." + name; field.Kind() == reflect.Struct {
			leafTypes(field, path, out)
		} else {
			out[path] = field
		}
	}
	return out
}

// Parameters that come through the API server have the paths and types of those in the file, and replacing them replaces every one.
func TestParametersAreTheFiles(t *testing.T) {
	file := leafTypes(reflect.TypeFor[Node](), "", map[string]reflect.Type{})
	for path, typ := range leafTypes(reflect.TypeFor[NodeParameters](), "", map[string]reflect.Type{}) {
		if file[path] != typ {
			t.Errorf("%s is a %v in parameters, and a %v in the file", path, typ, file[path])
		}
	}
	var other NodeParameters
	other.Lending.Step, other.CPU.Margin, other.Memory.Reclaim.At, other.Eviction.WatermarkFactor, other.MemoryBandwidth.Groups = 3, 4, 0.5, 6, 7
	n := Default().Node
	n.SetParameters(&other)
	if got := n.Parameters(); !reflect.DeepEqual(got, other) {
		t.Errorf("set %+v, got %+v", other, got)
	}
	if want := Default().Node; n.Name != want.Name || n.TickInterval != want.TickInterval || *n.Lending.Enabled != *want.Lending.Enabled {
		t.Error("setting parameters has changed other fields")
	}
}

func TestWrittenParametersOn(t *testing.T) {
	file := Default().Node
	file.Lending.TargetUtilization, file.Lending.IO.CostDevices = 70, []string{"sda", "sdb"}
	file.Lending.IO.Ceilings = []IOCeiling{{Device: "sda", ReadsPerSecond: 7}}
	for _, c := range []struct {
		text, fault string // fault: "" is none
		want        func(*Node)
	}{
		{"", "", func(*Node) {}},
		{"{}", "", func(*Node) {}},
		{`{"lending":{"step":5}}`, "", func(n *Node) { n.Lending.Step = 5 }},
		{`{"cpu":{"margin":0,"profile":{"above":0}}}`, "", func(n *Node) { n.CPU.Margin, n.CPU.Profile.Above = 0, 0 }},
		{`{"cpu":{"margin":0,"forecast":{"enabled":false}}}`, "node.cpu.forecast: it was removed", nil},
		{`{"eviction":{"escalation":{"noticeGrace":"0s"}}}`, "", func(n *Node) { n.Eviction.Escalation.NoticeGrace = 0 }},
		{`{"lending":{"io":{"costDevices":["nvme0n1"]}}}`, "", func(n *Node) { n.Lending.IO.CostDevices = []string{"nvme0n1"} }},
		{`{"lending":{"io":{"ceilings":[{"device":"sdb"}]}}}`, "", func(n *Node) { n.Lending.IO.Ceilings = []IOCeiling{{Device: "sdb"}} }},
		{`{"memoryBandwidth":{"groups":8}}`, "", func(n *Node) { n.MemoryBandwidth.Groups = 8 }},
		{`{"memoryBandwidth":{"groups":600}}`, "node.memoryBandwidth.groups: 600: want 0 to 512", nil},
		{`{"lending":{"step":50}}`, "node.lending.step: 50: want 1 to 25", nil},
		{`{"lending":{"Step":5}}`, `node.lending.Step: "Step" is not known; write`, nil},
		{`{"lending":{"enabled":false}}`, `node.lending.enabled: "enabled" is not known`, nil},
		{`{"tickInterval":"1s"}`, `node.tickInterval: "tickInterval" is not known; write cpu, cpuBurst, eviction, interference, lending, memory, memoryBandwidth, overcommit, quietCPUs or usage`, nil},
		{`{"lending":{"io":{"ceilings":[{"device":"sda","colour":"red"}]}}}`, `node.lending.io.ceilings[0].colour`, nil},
		{`{"lending":{"step":"five"}}`, "node.lending.step: string: want a value of type int", nil},
		{`{"lending":[]}`, "node.lending", nil},
		{`[]`, "not an object in JSON", nil},
		{`{} {}`, "more than one object", nil},
		{`{"memory":{"headroom":{"growthReserve":0}}}`, "node.memory.headroom.growthReserve", nil},
		{`{"cpu":{"delayLow":2}}`, "node.cpu.delayLow: it is above node.cpu.delayHigh", nil},
	} {
		before := file
		got, err := WrittenParameters(c.text).On(&file)
		if c.fault != "" {
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s: %v, want %q", c.text, err, c.fault)
			}
			continue
		}
		want := file
		c.want(&want)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v", c.text, err)
		}
		if !reflect.DeepEqual(file, before) || !slices.Equal(file.Lending.IO.CostDevices, []string{"sda", "sdb"}) {
			t.Errorf("%s has changed the file's", c.text)
		}
	}
	if _, err := WrittenParameters(strings.Repeat(" ", MaxWrittenParameters) + "{}").On(&file); err == nil {
		t.Error("parameters without a bound are taken")
	}
}

// The hash depends on the values, not on how they are written; different values differ.
func TestWrittenParametersHash(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.MapOfN(rapid.SampledFrom([]string{"step", "interval", "evictions", "io", "suspended"}), rapid.IntRange(-9, 9), 1, 5).Draw(t, "values")
		write := func(names []string, space string) WrittenParameters {
			fields := make([]string, len(names))
			for i, name := range names {
				value, err := json.Marshal(values[name])
				if err != nil {
					t.Fatal(err)
				}
				fields[i] = `"` + name + `":` + space + string(value)
			}
			return WrittenParameters(`{"lending":{` + strings.Join(fields, space+",") + `}}`)
		}
		names := slices.Sorted(maps.Keys(values))
		a, b := write(names, ""), write(rapid.Permutation(names).Draw(t, "order"), rapid.SampledFrom([]string{"", " ", "\n\t"}).Draw(t, "space"))
		if a.Hash() != b.Hash() {
			t.Fatalf("%s and %s have different hashes", a, b)
		}
		values[names[0]]++
		if write(names, "").Hash() == a.Hash() {
			t.Fatal("another value has the same hash")
		}
	})
	if WrittenParameters(nil).Hash() != WrittenParameters(" { }").Hash() {
		t.Error("nothing has two hashes")
	}
}

// Whatever arrives, it is refused with a field's name or gives a configuration that the daemon would start with.
func FuzzWrittenParameters(f *testing.F) {
	for _, s := range []string{"", "{}", `{"lending":{"step":5}}`, `{"cpu":{"margin":1e999}}`, `null`, `{"memory":null}`, `{"eviction":{"maxGap":"-1s"}}`} {
		f.Add([]byte(s))
	}
	file := Default().Node
	f.Fuzz(func(t *testing.T, data []byte) {
		w := WrittenParameters(data)
		got, err := w.On(&file)
		switch {
		case err == nil:
			if err := CheckNode(&got); err != nil {
				t.Errorf("%q gives a configuration that the daemon refuses: %v", data, err)
			}
			canonical, err := w.Canonical()
			if err != nil || canonical.Hash() != w.Hash() {
				t.Errorf("%q has another hash in canonical form: %v", data, err)
			}
		case len(FieldErrors(err)) == 0:
			t.Errorf("%q: %v names no field", data, err)
		}
	})
}
