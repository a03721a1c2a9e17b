package dispatch

import (
	"cmp"
	"slices"
)

// Node is what dividing looks at.
type Node struct {
	// Slot is where the node is in the ledger.
	Slot int
	// Kind is equal for nodes that have the same capacity.
	Kind int64
	// Free is how much of it is free.
	Free int64
}

// MaxParts bounds the partitions: each divides the node classes of each index further.
const MaxParts = 64

// Divide gives each node a partition, in turn among the nodes of a kind, the freest first and back and forth, so that every partition has as many nodes of
// each kind as the others, and about as much free on them. The result is by slot; slots without a node are in partition 0.
func Divide(nodes []Node, parts, slots int) []uint8 {
	nodes = slices.Clone(nodes)
	slices.SortFunc(nodes, func(a, b Node) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(b.Free, a.Free), cmp.Compare(a.Slot, b.Slot))
	})
	of := make([]uint8, slots)
	first := 0 // the partition that is next, over all kinds: so those with a rest are not always the same
	for begin := 0; begin < len(nodes); {
		end := begin
		for end < len(nodes) && nodes[end].Kind == nodes[begin].Kind {
			end++
		}
		for i, n := range nodes[begin:end] {
			round, at := i/parts, i%parts
			if round%2 == 1 {
				at = parts - 1 - at
			}
			of[n.Slot] = uint8((first + at) % parts)
		}
		first = (first + (end-begin)%parts) % parts
		begin = end
	}
	return of
}

// Imbalance is how much more is free in the freest partition than in the least free one, as a part of what is free in a partition on average.
func Imbalance(nodes []Node, of []uint8, parts int) float64 {
	free := make([]int64, parts)
	sum := int64(0)
	for _, n := range nodes {
		free[of[n.Slot]] += n.Free
		sum += n.Free
	}
	if sum <= 0 {
		return 0
	}
	return float64(slices.Max(free)-slices.Min(free)) * float64(parts) / float64(sum)
}
