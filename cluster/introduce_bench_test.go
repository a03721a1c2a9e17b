package cluster

import (
	"fmt"
	"testing"

	"hilbert.dev/hilbert/cluster/facts"
)

// BenchmarkOddPodAmongWaiting lets a pod come that has as many terms as a pod may have, about every pod of a namespace in which 20,000 wait.
func BenchmarkOddPodAmongWaiting(b *testing.B) {
	s := NewStore()
	for i := range 20_000 {
		uid := facts.UID(fmt.Sprint("w", i))
		s.Apply(facts.PodUpserted{Pod: facts.Pod{
			UID: uid, Namespace: "ns", Name: string(uid), Ours: true, Labels: []facts.Label{{Key: "app", Value: fmt.Sprint(i % 100)}}, Requirements: &facts.Requirements{ScoreCPU: int64(i % 50)},
		}})
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		uid := facts.UID(fmt.Sprint("odd", i))
		r := &facts.Requirements{}
		for k := range facts.MaxPodTerms {
			r.AntiAffinity = append(r.AntiAffinity, facts.AffinityTerm{TopologyKey: fmt.Sprintf("k%d-%d", i, k), Pods: facts.PodSelector{Namespaces: []string{"ns"}}})
		}
		s.Apply(facts.PodUpserted{Pod: facts.Pod{UID: uid, Namespace: "ns", Name: string(uid), Ours: true, Requirements: r}})
		s.Apply(facts.PodRemoved{UID: uid})
	}
}
