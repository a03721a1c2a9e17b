package sim

import (
	"testing"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/topology"
)

const ownedWorkload = "nodes=8,pods=500,classes=8,load=60,minutes=5,numa=2,dedicated=10,devices=80,owners=60"

// One party gives out a node's GPUs. If that is a device plugin, the scheduler counts them and promises no indices; if no party does, it promises none. No
// pod of ours fails on a node that the scheduler could have known to be unfit, whichever plugin comes or goes.
func TestGPUsHaveOneOwner(t *testing.T) {
	t.Parallel()
	seen := make(map[string]int)
	for seed := range seedsToRun(t) {
		w := invent(t, ownedWorkload, seed)
		o := options(seed)
		o.CheckEvery = 8 // what is committed, and who fails, is judged each time
		calm, err := Run(t.Context(), w, o)
		if err != nil {
			t.Fatalf("calm, seed %d: %v", seed, err)
		}
		if calm.Faults["promise kept"] == 0 || calm.Faults["promise moved"]+calm.Faults["promise broken"]+calm.Faults["pod failed at admission"] > 0 {
			t.Fatalf("seed %d: %v", seed, calm.Faults)
		}
		o.Schedulers, o.Faults, o.Preempt = 1+3*int(seed%2), DefaultFaults(w), seed%4 > 1
		r, err := Run(t.Context(), w, o)
		if err != nil {
			t.Fatalf("%v\nreproduce it: hilbert sim --synthetic %s --faults --check --schedulers %d --seed %d", err, ownedWorkload, o.Schedulers, seed)
		}
		for name, n := range r.Faults {
			seen[name] += n
		}
	}
	t.Log(seen)
	for _, name := range []string{
		"GPUs given by a kubelet", "pod failed at admission", "GPU given out twice", "agent of another version", "GPU unhealthy", "device plugin removed",
		"device plugin added", "GPUs owned by none", "GPUs owned by hilbert", "GPUs owned by kubelet", "promise kept", "promise moved", "promise broken", "broken promise evicted",
	} {
		if seen[name] == 0 {
			t.Errorf("in all seeds there was never: %s", name)
		}
	}
}

func TestChecksFindOwnerMistakes(t *testing.T) {
	t.Parallel()
	owner := func(from, to topology.Owner) func(facts.Event) facts.Event {
		return tellReport(func(r *facts.NodeReport) {
			if r.Devices != nil && r.Devices.Owner == from {
				copied := *r.Devices
				copied.Owner = to
				r.Devices = &copied
			}
		})
	}
	for _, c := range []struct {
		name string
		told func(facts.Event) facts.Event
		want []string // one of these must be in the message
	}{
		{
			"a device plugin's GPUs are taken for ours", uncounted(owner(topology.OwnerKubelet, topology.OwnerHilbert)),
			[]string{"parts of GPUs that the kubelet", "nearness to GPUs", "on devices"},
		},
		{"GPUs of no party are taken for ours", uncounted(owner(topology.OwnerNone, topology.OwnerHilbert)), []string{"that no party gives out"}},
		{"GPUs of no party are taken for a device plugin's", counting(8, owner(topology.OwnerNone, topology.OwnerKubelet)), []string{"that no party gives out", "more GPUs than the kubelet counts"}},
		{
			"what a device plugin offers is not seen", uncounted(func(e facts.Event) facts.Event { return e }),
			[]string{"that a device plugin offers too", "waits though node"},
		},
		{"a device plugin offers more than it says", counting(2, func(e facts.Event) facts.Event { return e }), []string{"more GPUs than the kubelet counts"}},
		{"its GPUs have more memory than they have", tellReport(func(r *facts.NodeReport) {
			if r.Devices != nil && r.Devices.Owner == topology.OwnerKubelet {
				copied := *r.Devices
				copied.GPU = append([]topology.GPU(nil), copied.GPU...)
				for i := range copied.GPU {
					copied.GPU[i].Memory *= 4
				}
				r.Devices = &copied
			}
		}), []string{"memory that not all GPUs have"}},
	} {
		t.Run(c.name, func(t *testing.T) { expectViolation(t, ownedWorkload, 20, c.told, c.want) })
	}
}

// both applies two changes to an event.
func both(a, b func(facts.Event) facts.Event) func(facts.Event) facts.Event {
	return func(e facts.Event) facts.Event { return a(b(e)) }
}

// uncounted hides the GPUs in node.status.
func uncounted(rest func(facts.Event) facts.Event) func(facts.Event) facts.Event {
	return both(rest, tellNode(func(n *facts.Node) {
		if !n.GPU.Shareable {
			n.GPU = topology.Shape{}
		}
	}))
}

// counting multiplies the GPUs in node.status; nodes without any get eight.
func counting(times int, rest func(facts.Event) facts.Event) func(facts.Event) facts.Event {
	return both(rest, tellNode(func(n *facts.Node) {
		if !n.GPU.Shareable {
			n.GPU.GPUs = min(max(n.GPU.GPUs*times, 8), topology.MaxGPUs)
		}
	}))
}
