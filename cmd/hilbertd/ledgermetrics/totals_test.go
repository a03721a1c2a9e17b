package ledgermetrics

import (
	"testing"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
)

func TestOvercommittedNodesAreCounted(t *testing.T) {
	w := newWorld(t)
	w.apply(facts.NodeUpserted{Node: &facts.Node{Name: "n1", Allocatable: append(cores(4), resource.Quantity{Name: resource.NamePods, Amount: 10})}})
	for _, name := range []string{"a", "b", "c", "d"} {
		w.apply(facts.PodUpserted{Pod: bound(name, "n1")})
	}
	w.expect("a full node", `hilbert_overcommitted_nodes 0`, `hilbert_cache_nodes 1`, `hilbert_cache_pods 4`)
	w.apply(facts.PodUpserted{Pod: bound("e", "n1")})
	w.expect("a node with one pod too many", `hilbert_overcommitted_nodes 1`)
}
