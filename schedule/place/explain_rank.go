package place

import (
	"cmp"
	"slices"

	"hilbert.dev/hilbert/cluster"
)

// Ranking returns the judgements of all nodes on which a pod of the class fits, the best first: Place takes the first.
func (p *Placer) Ranking(c *cluster.Class) []Judgement {
	list := slices.DeleteFunc(p.Judge(c), func(j Judgement) bool { return j.Refusal != "" })
	slices.SortStableFunc(list, func(a, b Judgement) int {
		return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(p.tie(b.Slot), p.tie(a.Slot)))
	})
	return list
}
