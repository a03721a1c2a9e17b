package place_test

import (
	"testing"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/topology"
)

// TestReleasedPodHearsOfNewTerms: a term that came while a pod's Binding was under way counts when the pod waits again.
func TestReleasedPodHearsOfNewTerms(t *testing.T) {
	s := cluster.NewStore()
	for _, name := range []string{"n1", "n2"} {
		s.Apply(cluster.NodeUpserted{Node: &cluster.Node{
			Name: name, Labels: map[string]string{cluster.HostnameKey: name}, Allocatable: []resource.Quantity{{Name: resource.NamePods, Amount: 10}},
		}})
	}
	s.Apply(cluster.PodUpserted{Pod: cluster.PodFacts{
		UID: "c", Name: "c", Namespace: "d", Ours: true, Labels: []cluster.Label{{Key: "kind", Value: "cache"}}, Requirements: &cluster.Requirements{},
	}})
	s.Commit(&cluster.Plan{Placements: []cluster.Placement{{Pod: "c", Node: "n2"}}}, rules.Commits)
	caches := cluster.PodSelector{Namespaces: []string{"d"}, Labels: cluster.LabelSelector{
		Expressions: []cluster.Requirement{{Key: "kind", Operator: cluster.In, Values: []string{"cache"}}},
	}}
	s.Apply(cluster.PodUpserted{Pod: cluster.PodFacts{
		UID: "q", Name: "q", Namespace: "d", Node: "n1",
		Requirements: &cluster.Requirements{AntiAffinity: []cluster.AffinityTerm{{TopologyKey: cluster.HostnameKey, Pods: caches}}},
	}})
	s.Release("c")
	if rules.Commits(&s.State, s.Slot("n1"), s.Pod("c").Class, &topology.Grant{}) == "" {
		t.Error("the released pod may join one whose anti-affinity forbids it")
	}
}
