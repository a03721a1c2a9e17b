package bench

import (
	"fmt"
	"testing"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
)

func TestRevMore(t *testing.T) {
	t.Skip("issue 15: A scheduler that no cluster can surprise")
	const nodes = 20000
	w := newRevWorld(nodes, 256, "", 1, 0)
	before := heapBytes()
	ds := revClasses(1000, false, func(i int, r *facts.Requirements) {
		r.Required = []facts.Term{{Fields: []facts.Requirement{{Key: facts.FieldName, Operator: facts.In, Values: []string{fmt.Sprintf("node-%06d", i)}}}}}
		for j := range 8 {
			r.Tolerations = append(r.Tolerations, facts.Toleration{Key: fmt.Sprint("node.kubernetes.io/t", j), Exists: true})
		}
	})
	w.rate(t, "I: DaemonSet pods (matchFields metadata.name), one a node", ds[:400], 200)
	t.Logf("heap +%d MiB", (heapBytes()-before)>>20)

	w = newRevWorld(nodes, 256, "", 1, 0)
	r := &facts.Requirements{}
	for i := range 500 {
		r.Requests = append(r.Requests, resource.Quantity{Name: fmt.Sprintf("evil.example/r%d", i), Amount: 1})
	}
	before = heapBytes()
	w.store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: "evil", Namespace: "ns", Name: "evil", Ours: true, Gated: true, Requirements: r}})
	w.rate(t, "K: as A, after ONE gated pod that names 500 made-up resources", revClasses(1000, false, func(i int, r *facts.Requirements) {
		r.Tolerations = []facts.Toleration{{Key: fmt.Sprint("team-", i), Exists: true}}
	}), 5000)
	t.Logf("heap +%d MiB", (heapBytes()-before)>>20)
}
