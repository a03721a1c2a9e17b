package node

import (
	"fmt"
	"log/slog"
	"path"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/devices"
	"hilbert.dev/hilbert/node/enforce"
	"hilbert.dev/hilbert/node/runtime"
	"hilbert.dev/hilbert/node/watchdog"
	"hilbert.dev/hilbert/topology"
)

// classNode is a node without a loop, on which pods come and go.
type classNode struct {
	*nodeState
	absence *absenceController
	next    int
}

func newClassNode(t *rapid.T) *classNode {
	o := &Options{
		Machine: machine(), Mode: spec.ModeAgent, Config: spec.Default().Node, Log: slog.New(slog.DiscardHandler),
	}
	manager, err := allocate.New(o.Machine, allocate.Params{
		ReservedCores: rapid.IntRange(0, 1).Draw(t, "reserved"), ReclaimedCores: 1, Mode: o.Mode,
	})
	if err != nil {
		t.Fatal(err)
	}
	n := &classNode{nodeState: newNodeState(o, manager)}
	n.absence = &absenceController{node: n.nodeState, devices: devices.NewInjector(devices.NewController(n.Node, devices.Ports{}))}
	return n
}

// step has a pod come, go, or be resized; or something is lent.
func (n *classNode) step(t *rapid.T) {
	uids := n.Manager.UIDs()
	switch rapid.IntRange(0, 6).Draw(t, "step") {
	case 0:
		if len(uids) > 0 {
			uid := rapid.SampledFrom(uids).Draw(t, "ends")
			n.Pods.Forget(n.Pods.Of(uid))
			n.Manager.Release(uid)
		}
	case 1:
		if len(uids) > 0 {
			n.Manager.Resize(rapid.SampledFrom(uids).Draw(t, "resized"), rapid.Int64Range(0, 5000).Draw(t, "to"))
		}
	case 2:
		n.Manager.Pools.SetReclaimed([topology.MaxNUMANodes]int{rapid.IntRange(0, 4).Draw(t, "lent"), rapid.IntRange(0, 4).Draw(t, "lent")})
	default:
		n.come(t)
	}
}

func (n *classNode) come(t *rapid.T) {
	n.next++
	level := rapid.SampledFrom([]spec.QoSLevel{spec.QoSDedicated, spec.QoSDedicated, spec.QoSShared, spec.QoSReclaimed, spec.QoSSystem}).Draw(t, "level")
	dir := rapid.SampledFrom([]string{"kubepods/", "kubepods/burstable/", "kubepods/besteffort/"}).Draw(t, "class")
	p := allocate.Pod{UID: fmt.Sprint(n.next), Namespace: "a", Name: fmt.Sprint(n.next), QoS: spec.QoS{Level: level, Said: true}}
	if level == spec.QoSReclaimed {
		dir = "kubepods/besteffort/"
	}
	if p.BestEffort = strings.HasSuffix(dir, "besteffort/"); !p.BestEffort {
		p.MilliCPU = rapid.Int64Range(0, 4000).Draw(t, "milli")
	}
	if level == spec.QoSDedicated {
		p.Request.CPUs = uint16(rapid.IntRange(1, 4).Draw(t, "cpus"))
		p.Request.Binding = topology.Binding(rapid.IntRange(0, 2).Draw(t, "binding"))
	}
	if v := n.Manager.Admit(p); v.Refused == nil {
		n.Pods.Remember(&runtime.Sandbox{ID: "s" + p.UID, UID: p.UID, Cgroup: dir + "pod" + p.UID, BestEffort: p.BestEffort})
	}
}

// own are the CPUs of dedicated pods that are not in a class.
func (n *classNode) own(class string) (out topology.CPUSet) {
	for _, p := range n.Pods.All() {
		if place, _ := n.Placement(p); place.Pool == "" && path.Dir(p.Cgroup) != class {
			out = out.Union(place.CPUs)
		}
	}
	return out
}

// TestQoSCgroupsKeepOff: whatever pods come and go, no class of the kubelet's has a CPU of a dedicated pod outside of it, each pod's CPUs lie within its class, so
// that no pod loses any by it, and the plan for absence says the same. Without a dedicated pod the classes have all CPUs.
func TestQoSCgroupsKeepOff(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := newClassNode(t)
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			n.step(t)
		}
		knobs := n.qosKnobs()
		if want := 2; n.Pods.Len() > 0 && len(knobs) != want {
			t.Fatalf("%d classes have CPUs, want %d: %+v", len(knobs), want, knobs)
		}
		plan, err := watchdog.ParsePlan(n.absence.plan().Encode())
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range knobs {
			n.check(t, k)
			if k.File != enforce.CPUSet || !slices.Contains(plan.CPUs, watchdog.CgroupCPUs{Cgroup: k.Cgroup, CPUs: k.Value}) {
				t.Fatalf("%+v is not in the plan for absence: %+v", k, plan.CPUs)
			}
		}
	})
}

func (n *classNode) check(t *rapid.T, k enforce.DesiredKnob) {
	cpus, err := topology.ParseCPUSet(k.Value)
	if err != nil || cpus.IsEmpty() {
		t.Fatalf("%s has %q, %v", k.Cgroup, k.Value, err)
	}
	var runs topology.CPUSet // what its pods run on
	for _, p := range n.Pods.All() {
		if place, _ := n.Placement(p); path.Dir(p.Cgroup) == k.Cgroup {
			runs = runs.Union(place.CPUs)
		}
	}
	if outside := runs.Minus(cpus); !outside.IsEmpty() {
		t.Fatalf("pods of %s run on %v, and the class has %v", k.Cgroup, runs, cpus)
	}
	// Where all CPUs are held, pods that share run there all the same.
	if twice := cpus.Intersection(n.own(k.Cgroup)).Minus(runs); !twice.IsEmpty() && (!runs.IsEmpty() || !n.Manager.Shareable().IsEmpty()) {
		t.Fatalf("%s has %v, of which dedicated pods outside of it hold %v", k.Cgroup, cpus, twice)
	}
	if n.own("").IsEmpty() && cpus != n.options.Machine.AllCPUs() {
		t.Fatalf("%s has %v, and no pod holds CPUs", k.Cgroup, cpus)
	}
}

// TestQoSCgroupsInTheKernel: the kubelet's classes are narrowed before a dedicated pod's container is made, and get back what it had when it ends. Where the
// kubelet gives CPUs out they are left alone.
func TestQoSCgroupsInTheKernel(t *testing.T) {
	for _, mode := range []string{spec.ModeAgent, spec.ModeKubelet} {
		w := newWorld(t)
		w.mode = mode
		w.start()
		w.kernel.make("kubepods/burstable", "kubepods/besteffort")
		has := func(class string) string { return w.kernel.get("kubepods/" + class + "/cpuset.cpus") }
		own := sandbox("own", 2, "qos=dedicated_cores")
		own.Cgroup = "kubepods/podown"
		w.mustRun(sandbox("web", 1))
		a := w.mustRun(own)
		if mode == spec.ModeKubelet {
			w.ticks(2)
			if got := has("burstable") + has("besteffort"); got != "" {
				t.Errorf("where the kubelet gives CPUs out, its classes get %q", got)
			}
			w.stop()
			continue
		}
		want := machine().AllCPUs().Minus(a.CPUs).String()
		if a.CPUs.Len() != 2 || has("burstable") != want || has("besteffort") != want {
			t.Errorf("beside a pod on %v the classes have %q and %q, want %q", a.CPUs, has("burstable"), has("besteffort"), want)
		}
		w.kernel.set("kubepods/burstable/cpuset.cpus", "0-7") // as a reload of systemd may do
		w.eventually("the agent puts it back", func() bool { return has("burstable") == want })
		w.end(own)
		w.eventually("the classes have all CPUs", func() bool { return has("burstable") == "0-7" && has("besteffort") == "0-7" })
		w.stop()
	}
}
