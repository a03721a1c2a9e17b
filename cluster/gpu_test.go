package cluster_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
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
