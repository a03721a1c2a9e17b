package place_test

import (
	"testing"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/topology"
)

// TestReleasedPodHearsOfNewTerms: a term that came while a pod's Binding was under way counts when the pod waits again.
func TestReleasedPodHearsOfNewTerms(t *testing.T) {
	s := cluster.NewStore()
	for _, name := range []string{"n1", "n2"} {
		s.Apply(facts.NodeUpserted{Node: &facts.Node{
			Name: name, Labels: map[string]string{facts.HostnameKey: name}, Allocatable: []resource.Quantity{{Name: resource.NamePods, Amount: 10}},
		}})
	}
	s.Apply(facts.PodUpserted{Pod: facts.Pod{
		UID: "c", Name: "c", Namespace: "d", Ours: true, Labels: []facts.Label{{Key: "kind", Value: "cache"}}, Requirements: &facts.Requirements{},
	}})
	s.Commit(&cluster.Plan{Placements: []cluster.Placement{{Pod: "c", Node: "n2"}}}, rules.Commits)
	caches := facts.PodSelector{Namespaces: []string{"d"}, Labels: facts.LabelSelector{
		Expressions: []facts.Requirement{{Key: "kind", Operator: facts.In, Values: []string{"cache"}}},
	}}
	s.Apply(facts.PodUpserted{Pod: facts.Pod{
		UID: "q", Name: "q", Namespace: "d", Node: "n1",
		Requirements: &facts.Requirements{AntiAffinity: []facts.AffinityTerm{{TopologyKey: facts.HostnameKey, Pods: caches}}},
	}})
	s.Release("c")
	if rules.Commits(&s.State, s.Slot("n1"), s.Pod("c").Class, &topology.Grant{}) == "" {
		t.Error("the released pod may join one whose anti-affinity forbids it")
	}
}
