package cluster_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/topology"
)

// TestGuessedGrantsDoNotDependOnOrder shows the same pods, some with a recorded grant and some without, in many orders: every pod must
// end with the same GPUs, or a restart would see another cluster than the one before.
func TestGuessedGrantsDoNotDependOnOrder(t *testing.T) {
	node := &facts.Node{Name: "g", GPU: topology.Shape{GPUs: 4, Shareable: true}}
	var pods []facts.Pod
	for i, milli := range []int16{300, 450, 600, 200, 700, 150} {
		pod := facts.Pod{
			UID: facts.UID(fmt.Sprint(i)), Node: "g", Requirements: &facts.Requirements{GPU: topology.Request{Milli: milli}},
		}
		if i%2 == 0 {
			pod.Grant = topology.Grant{GPUs: 1 << (i / 2), Milli: milli}
		}
		pods = append(pods, pod)
	}
	var want string
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 0))
		random.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
		store := cluster.NewStore()
		late := random.IntN(len(pods) + 1) // the node is seen after so many pods
		for i, pod := range pods {
			if i == late {
				store.Apply(facts.NodeUpserted{Node: node})
			}
			store.Apply(facts.PodUpserted{Pod: pod})
		}
		store.Apply(facts.NodeUpserted{Node: node})
		if err := store.Verify(); err != nil {
			t.Fatal(err)
		}
		got := ""
		for i := range pods {
			got += store.Pod(facts.UID(fmt.Sprint(i))).Grant().String() + " "
		}
		if want == "" {
			want = got
		}
		if got != want {
			t.Fatalf("seed %d: grants %s, with another order %s", seed, got, want)
		}
	}
}

// TestPlacesBesideGuesses: a pod that others have bound is guessed to hold the first GPU that is free. When an owner takes a place beside it, the guess does not change before the
// Plan is judged: the owner may have any GPU that is free with the place lifted, as its scheduler saw it.
func TestPlacesBesideGuesses(t *testing.T) {
	t.Parallel()
	one := &facts.Requirements{GPU: topology.Request{Whole: 1}}
	for gpu := range 4 {
		if gpu == 1 {
			continue // guessed
		}
		store := cluster.NewStore()
		store.Apply(facts.NodeUpserted{Node: &facts.Node{Name: "n", GPU: topology.Shape{GPUs: 4}, Allocatable: []resource.Quantity{{Name: resource.NamePods, Amount: 10}}}})
		store.Apply(facts.ReservationUpserted{Reservation: &facts.Reservation{
			UID: "r", Name: "r", Namespace: "ns", Count: 1, Owners: []facts.ReservationOwner{{Pods: &facts.LabelSelector{}}}, Template: facts.Pod{Requirements: one},
			Places: []facts.Place{{State: facts.PlaceReserved, Node: "n", Grant: topology.Grant{GPUs: 1, Milli: topology.FullGPU}}},
		}})
		store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: "foreign", Name: "foreign", Namespace: "other", Node: "n", Requirements: one}})
		store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: "owner", Name: "owner", Namespace: "ns", Ours: true, Requirements: one}})
		if free := *store.GPUs(store.Slot("n")); free[0] != 0 || free[1] != 0 || free[2] != topology.FullGPU {
			t.Fatalf("free: %v", free)
		}
		verdict := store.Commit(&cluster.Plan{
			Placements: []cluster.Placement{{Pod: "owner", Node: "n", Grant: topology.Grant{GPUs: 1 << gpu, Milli: topology.FullGPU}}}, Takes: []facts.UID{facts.PlaceholderUID("r", 0)},
		}, rules.Commits)
		if !verdict.Committed {
			t.Errorf("GPU %d: %s", gpu, verdict.Reason)
		}
		if err := store.Verify(); err != nil {
			t.Errorf("GPU %d: %v", gpu, err)
		}
		store.Release("owner")
		if err := store.Verify(); err != nil {
			t.Errorf("GPU %d, given back: %v", gpu, err)
		}
	}
}
