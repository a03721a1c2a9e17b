package victims

import (
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
)

// disruptionBudgets says which pods a PodDisruptionBudget would spare.
type disruptionBudgets struct {
	store *cluster.Store
	any   bool // there are some
}

// open looks whether there are any.
func (b *disruptionBudgets) open() {
	b.any = false
	b.store.Budgets().Each(func(*facts.Budget) { b.any = true })
}

// violations is how many of the pods would violate a disruption budget. The list has what is spent of each budget already, and violations adds to it.
func (b *disruptionBudgets) violations(list *[]budgetUse, pods []*cluster.Pod) (count int) {
	if !b.any {
		return 0
	}
	for _, pod := range pods {
		breaks := false
		b.store.Budgets().Covering(pod, func(x *facts.Budget) bool {
			at := slices.IndexFunc(*list, func(s budgetUse) bool { return s.budget == x })
			if at < 0 {
				at = len(*list)
				*list = append(*list, budgetUse{x, x.Allowed})
			}
			(*list)[at].left--
			breaks = breaks || (*list)[at].left < 0
			return true
		})
		if breaks {
			count++
		}
	}
	return count
}
