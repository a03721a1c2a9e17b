package explain

import (
	"cmp"
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/schedule/place/index"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// Ranking returns the judgements of the nodes that are feasible, the best first.
func Ranking(ix *index.Index, judgements []rules.Judgement) []rules.Judgement {
	list := slices.DeleteFunc(judgements, func(j rules.Judgement) bool { return j.Refusal != "" })
	slices.SortStableFunc(list, func(a, b rules.Judgement) int {
		return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(ix.Tie(b.Slot), ix.Tie(a.Slot)))
	})
	return list
}

// Best is the node with the greatest total score of those that are feasible, and of those with the greatest tie-break hash.
func Best(ix *index.Index, judgements []rules.Judgement) cluster.Slot {
	best, total := cluster.NoSlot, int64(0)
	for _, j := range judgements {
		if j.Refusal != "" {
			continue
		}
		if best == cluster.NoSlot || j.Total > total || j.Total == total && ix.Tie(j.Slot) > ix.Tie(best) {
			best, total = j.Slot, j.Total
		}
	}
	return best
}
