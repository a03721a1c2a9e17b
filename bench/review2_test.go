package bench

import (
	"fmt"
	"testing"

	"hilbert.dev/hilbert/cluster/facts"
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
}
