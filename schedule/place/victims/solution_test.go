package victims

import (
	"fmt"
	"testing"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place/index"
	"hilbert.dev/hilbert/schedule/place/pack"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// Victims on whose nodes nothing is placed after all stay, unless a limit needs them gone.
func TestReclaimDropsIdle(t *testing.T) {
	for _, limited := range []bool{false, true} {
		store := cluster.NewStore()
		seen := &facts.Queue{Name: facts.DefaultQueue}
		if limited {
			seen.Max = cpus(8)
		}
		store.Apply(facts.QueueUpserted{Queue: seen})
		for i := range 2 {
			name := fmt.Sprint("n", i)
			store.Apply(facts.NodeUpserted{Node: &facts.Node{Name: name, Allocatable: append(cpus(4), resource.Quantity{Name: resource.NamePods, Amount: 9})}})
			store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: facts.UID("v" + name), Node: name, Requirements: &facts.Requirements{Requests: cpus(4)}}})
		}
		store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: "p", Ours: true, Priority: 5, Requirements: &facts.Requirements{Requests: cpus(4)}}})
		store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: "q", Ours: true, Priority: 5, Requirements: &facts.Requirements{Requests: cpus(4)}}})
		profile, err := rules.NewProfile(nil)
		if err != nil {
			t.Fatal(err)
		}
		r := NewReclaimer(pack.New(index.New(cluster.NewSnapshot(), profile, 7, 4)), store)
		ask := &pack.Ask{Members: []*cluster.Pod{store.Pod("p"), store.Pod("q")}, Need: 2}
		r.begin(ask, 0)
		s := &r.search
		base := s.attempt.checkpoint()
		if s.filler.fill(s.within(), ask.Members, 2) != 2 {
			t.Fatal("two members, two victims")
		}
		keep := s.attempt.placed[0].Slot
		s.attempt.placed[1].Slot = keep // as if both had found room there
		if ok := s.dropIdle(); ok == limited {
			t.Errorf("limited: %v, ok: %v", limited, ok)
		}
		if want := 1; !limited && (len(s.attempt.victims) != want || s.attempt.victims[0].pod.Node() != store.Node(keep).Name) {
			t.Errorf("%d victims, want the one that makes room", len(s.attempt.victims))
		}
		s.snapshot.Rollback(base.assumed)
	}
}

func cpus(n int64) []resource.Quantity {
	return []resource.Quantity{{Name: resource.NameCPU, Amount: n * 1000}}
}
