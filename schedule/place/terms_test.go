package place

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// TestManyTermsAreExact: a pod about which so many terms of placed pods are that they are added up goes to the node that brute force finds. The sums may be
// anything, less than nothing too, and a node without the topology label is unlike one whose sum is small.
func TestManyTermsAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		profile, err := rules.NewProfile(nil)
		if err != nil {
			t.Fatal(err)
		}
		store, snapshot := cluster.NewStore(), cluster.NewSnapshot()
		placer := NewPlacer(snapshot, profile, rapid.Uint64().Draw(t, "seed"), 2)
		placer.SetMaxCoarseDomains(rapid.SampledFrom([]int{0, 64}).Draw(t, "coarse"))
		nodes := rapid.IntRange(2, 5).Draw(t, "nodes")
		for i := range nodes {
			labels := map[string]string{facts.HostnameKey: fmt.Sprint("n", i)}
			if zone := rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "zone"); zone != "" {
				labels["zone"] = zone
			}
			store.Apply(facts.NodeUpserted{Node: &facts.Node{
				Name: fmt.Sprint("n", i), Labels: labels, Allocatable: quantities(resource.NameCPU, 100, resource.NameMemory, 100, resource.NamePods, 100),
			}})
		}
		for i := range rapid.IntRange(15, 30).Draw(t, "terms") {
			term := facts.AffinityTerm{TopologyKey: "zone", Pods: facts.PodSelector{Namespaces: []string{"ns"}, Labels: facts.LabelSelector{
				Expressions: []facts.Requirement{{Key: "app", Operator: facts.NotIn, Values: []string{fmt.Sprint(i)}}},
			}}}
			store.Apply(facts.PodUpserted{Pod: facts.Pod{
				UID: facts.UID(fmt.Sprint("carrier", i)), Namespace: "ns", Name: fmt.Sprint("carrier", i), Node: fmt.Sprint("n", rapid.IntRange(0, nodes-1).Draw(t, "node")),
				Requirements: &facts.Requirements{PreferredPods: []facts.WeightedAffinityTerm{{Weight: rapid.Int32Range(-1, 1).Draw(t, "weight"), AffinityTerm: term}}},
			}})
		}
		for i := range 3 {
			uid := facts.UID(fmt.Sprint("pod", i))
			store.Apply(facts.PodUpserted{Pod: facts.Pod{
				UID: uid, Namespace: "ns", Name: string(uid), Ours: true, Requirements: &facts.Requirements{Requests: quantities(resource.NameCPU, 1)},
			}})
			snapshot.Advance(store)
			class := store.Pod(uid).Class
			choice, ok := placer.Place(class)
			if best := placer.Best(class); !ok || choice.Slot != best {
				t.Fatalf("with %d terms it goes to %d, and brute force finds %d", class.Terms(), choice.Slot, best)
			}
			plan := cluster.Plan{Placements: []cluster.Placement{{Pod: uid, Node: store.Node(choice.Slot).Name}}, Revision: snapshot.Revision()}
			if verdict := store.Commit(&plan, rules.Commits); !verdict.Committed {
				t.Fatalf("%+v", verdict)
			}
			store.Consequences()
		}
	})
}
