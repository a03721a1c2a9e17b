package cluster_test

import (
	"testing"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/replica"
	"hilbert.dev/hilbert/schedule/place"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/topology"
)

// fed is what FuzzReplica reads: two Deltas, and a pod after each.
type fed struct {
	First, Second *replica.Delta
	Pod           *replica.Pod
}

// FuzzReplica: whatever comes over the wire is refused or can be decided on; nothing panics.
func FuzzReplica(f *testing.F) {
	codec, err := replica.NewCodec()
	if err != nil {
		f.Fatal(err)
	}
	profile, err := rules.NewProfile(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seedOf(f, codec))
	f.Fuzz(func(t *testing.T, text []byte) {
		var in fed
		if err := codec.Decode(text, &in); err != nil {
			return
		}
		if in.First != nil && in.First.Slots > 64 || in.Second != nil && in.Second.Slots > 64 {
			return // it may be so many, and takes long
		}
		r := cluster.NewReplica()
		placer := place.NewPlacer(r.Snapshot(), profile, 7, 4)
		for _, d := range []*replica.Delta{in.First, in.Second} {
			if d == nil || r.Take(d) != nil {
				return
			}
			if in.Pod == nil || !r.Complete() {
				continue
			}
			pod, err := r.Pod(in.Pod)
			if err != nil {
				continue
			}
			if choice, ok := placer.Place(pod.Class); ok {
				r.Snapshot().Assume(choice.Slot, pod, choice.Grant)
			}
		}
	})
}

// seedOf has nodes with GPUs and a report, pods that are spread, and a change.
func seedOf(f testing.TB, codec *replica.Codec) []byte {
	w := newTown()
	w.store.Apply(facts.NodeReported{Node: "n1", Report: &facts.NodeReport{
		NUMANodes: topology.NUMAShape{Ruler: topology.RulerAgent, NUMANodes: 1, Threads: 2, NUMANode: [topology.MaxNUMANodes]topology.NUMACapacity{{CPUs: 4, Memory: 4096}}},
		Devices:   &topology.Devices{Owner: topology.OwnerHilbert, GPU: []topology.GPU{{Address: "a", UUID: "u", Memory: 1024, Clients: 4}}},
		Headroom:  facts.Headroom{State: facts.HeadroomOpen, MilliCPU: 1000, Memory: 1 << 30},
	}})
	r := &facts.Requirements{Spread: []facts.SpreadConstraint{{TopologyKey: "zone", MaxSkew: 1, MinDomains: 1, Pods: facts.PodSelector{Namespaces: []string{"x"}, Labels: facts.LabelSelector{
		Expressions: []facts.Requirement{{Key: "color", Operator: facts.Exists}},
	}}}}}
	for _, uid := range []facts.UID{"p0", "p1"} {
		w.store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: uid, Namespace: "x", Name: string(uid), Ours: true, Requirements: r, Labels: []facts.Label{{Key: "color", Value: "x"}}}})
	}
	var feed cluster.Feed
	in := fed{First: feed.Next(w.store)}
	pod := feed.Pod(in.First, w.store.Pod("p0"))
	in.Pod = &pod
	w.store.Commit(&cluster.Plan{Placements: []cluster.Placement{{Pod: "p1", Node: "n0"}}}, rules.Commits)
	in.Second = feed.Next(w.store)
	text, err := codec.Encode(in)
	if err != nil {
		f.Fatal(err)
	}
	return text
}
