package kubelet

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/gpu"
)

// twoGPUs are a whole GPU and one with three instances, which were numbered in another order than their addresses.
func twoGPUs() []gpu.Slot {
	instance := func(uuid string, gi int) gpu.SlotInstance {
		return gpu.SlotInstance{Instance: gpu.Instance{UUID: uuid, GI: gi}}
	}
	return []gpu.Slot{
		{Address: "0000:86:00.0", GPU: gpu.GPU{Address: "0000:86:00.0", UUID: "GPU-a", Node: "/dev/nvidia1"}},
		{
			Address: "0000:3b:00.0", GPU: gpu.GPU{Address: "0000:3b:00.0", UUID: "GPU-b", Node: "/dev/nvidia0"},
			Instances: []gpu.SlotInstance{instance("MIG-x", 1), instance("MIG-y", 2), instance("MIG-z", 3)},
		},
	}
}

// TestAssignments runs the stories in testdata/assignments. Run with -rewrite to accept new output.
//
//	gpus             what becomes of twoGPUs: "INDEX closed=REASON | uuid=U | away", nothing for as they were
//	list [silent]    what the kubelet lists, "NAMESPACE/NAME [RESOURCE=ID…]" a line, while pods run: "run=UID:NAMESPACE/NAME…", oldest first
//	keep UID…        the others are gone
//	suspect          somebody offers devices
func TestAssignments(t *testing.T) {
	slots, b := twoGPUs(), &Assignments{}
	var runs []spec.PodRef
	datadriven.RunTest(t, "testdata/assignments", func(t *testing.T, d *datadriven.TestData) string {
		switch d.Cmd {
		case "gpus":
			slots = twoGPUs()
			for line := range strings.Lines(d.Input) {
				var i int
				var word string
				if _, err := fmt.Sscan(line, &i, &word); err != nil {
					d.Fatalf(t, "%v", err)
				}
				switch key, value, _ := strings.Cut(word, "="); key {
				case "closed":
					slots[i].Closed = gpu.Reason(value)
				case "uuid":
					slots[i].GPU.UUID = value
				case "away":
					slots = slices.Delete(slots, i, i+1)
				}
			}
		case "list":
			runs = runs[:0]
			for _, a := range d.CmdArgs {
				uid, name, _ := strings.Cut(a.Vals[0], ":")
				namespace, name, _ := strings.Cut(name, "/")
				runs = append(runs, spec.PodRef{UID: uid, Namespace: namespace, Name: name})
			}
			b.Update(runs, listOf(d.Input))
		case "keep":
			b.Retain(func(uid string) bool {
				return slices.ContainsFunc(d.CmdArgs, func(a datadriven.CmdArg) bool { return a.Key == uid })
			})
		case "suspect":
			b.Invalidate()
		default:
			d.Fatalf(t, "unknown command")
		}
		return describe(b, slots)
	})
}

func listOf(text string) (list []ListedPod) {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		var l ListedPod
		l.Namespace, l.Name, _ = strings.Cut(words[0], "/")
		for _, word := range words[1:] {
			resource, id, _ := strings.Cut(word, "=")
			l.Devices = append(l.Devices, Device{resource, id})
		}
		list = append(list, l)
	}
	return list
}

func describe(b *Assignments, slots []gpu.Slot) string {
	var out strings.Builder
	b.Resolve(slots, func(p spec.PodRef, d Device) {
		fmt.Fprintf(&out, "lost: %s/%s (%s) %s\n", p.Namespace, p.Name, p.UID, d)
	})
	rest := func(who string, list []Unaccounted) {
		for _, r := range list {
			fmt.Fprintf(&out, "%s: %s/%s has %s of GPU %d\n", who, r.Namespace, r.Name, r.Device, r.GPU)
		}
	}
	for _, uid := range b.UIDs() {
		h, _ := b.Pod(uid)
		fmt.Fprintf(&out, "%s: any=%t %s\n", uid, h.Any, h.Grant.GPUText())
		rest(uid, h.Unaccounted)
	}
	rest("stray", b.NotRunning())
	if why := b.Uncertainty(); why != "" {
		fmt.Fprintf(&out, "doubt: %s\n", why)
	}
	return out.String()
}

// What was read stays, whatever later lists leave out; nobody is said to have a device that no list named for him.
func TestReadingsOnlyAdd(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		m := &readingsModel{slots: twoGPUs(), named: make(map[string]map[Device]bool), found: make(map[string]gpu.Held)}
		r.Repeat(map[string]func(*rapid.T){"read": m.read, "close": m.close, "": m.check})
	})
}

// readingsModel is a Book beside all that was ever named for the pods of a node, of which two have one name.
type readingsModel struct {
	b     Assignments
	slots []gpu.Slot
	named map[string]map[Device]bool
	found map[string]gpu.Held
}

var modelPods = []spec.PodRef{{UID: "u1", Namespace: "n", Name: "a"}, {UID: "elder", Namespace: "n", Name: "b"}, {UID: "u3", Namespace: "n", Name: "b"}}

func (m *readingsModel) read(r *rapid.T) {
	ids := []string{"GPU-a", "GPU-b", "GPU-a::1", "MIG-x", "MIG-y", "nvidia0", "nvidia0/gi2", "0", "1", "9", "what", "0000:86:00.0", "0000:05:00.0"}
	var list []ListedPod
	for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.ID).Draw(r, "listed") {
		l := ListedPod{Namespace: "n", Name: name}
		for _, id := range rapid.SliceOfN(rapid.SampledFrom(ids), 0, 3).Draw(r, "ids") {
			l.Devices = append(l.Devices, Device{rapid.SampledFrom([]string{"nvidia.com/gpu", "amd.com/gpu"}).Draw(r, "resource"), id})
		}
		list = append(list, l)
		m.name(map[string]string{"a": "u1", "b": "u3"}[name], l.Devices)
	}
	m.b.Update(modelPods, list)
}

func (m *readingsModel) name(uid string, devices []Device) {
	if uid == "" {
		return
	}
	if m.named[uid] == nil {
		m.named[uid] = make(map[Device]bool)
	}
	for _, d := range devices {
		if strings.HasPrefix(d.Resource, gpu.Vendor) {
			m.named[uid][d] = true
		}
	}
}

func (m *readingsModel) close(r *rapid.T) {
	m.slots[rapid.IntRange(0, 1).Draw(r, "slot")].Closed = rapid.SampledFrom([]gpu.Reason{"", gpu.Vanished, gpu.Unhealthy, gpu.Replaced}).Draw(r, "reason")
}

func (m *readingsModel) check(r *rapid.T) {
	m.b.Resolve(m.slots, func(spec.PodRef, Device) {})
	if _, listed := m.b.Pod("elder"); listed {
		r.Fatal("the elder of two with a name is listed")
	}
	for uid, named := range m.named {
		e := m.b.pods[uid]
		if e == nil || len(e.devices) != len(named) {
			r.Fatalf("%s has %+v, named were %v", uid, e, named)
		}
		var now gpu.Held
		e.hold(&now)
		if was := m.found[uid]; was.GPUs&^now.GPUs != 0 || was.Instances[1]&^now.Instances[1] != 0 {
			r.Fatalf("%s had %+v and has %+v", uid, was, now)
		}
		m.found[uid] = now
	}
}
