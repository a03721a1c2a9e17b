package cluster

import "slices"

type budgetKey struct{ namespace, name string }

func (b *Budget) key() budgetKey { return budgetKey{b.Namespace, b.Name} }

// Covers reports whether the budget is about the pod.
func (b *Budget) Covers(pod *Pod) bool {
	return b.Namespace == pod.Namespace && !b.Pods.MatchesAll() && b.Pods.Matches(pod.identity.labels)
}

// Disrupts reports whether the pod's eviction is counted in the budget already.
func (b *Budget) Disrupts(pod *Pod) bool {
	_, found := slices.BinarySearch(b.Disrupted, pod.Name)
	return found
}

// Budgets visits the disruption budgets, in no particular order.
func (s *Store) Budgets(visit func(*Budget)) {
	for _, b := range s.budgets {
		visit(b)
	}
}
