package cluster

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"hilbert.dev/hilbert/cluster/facts"
)

// Budgets are the disruption budgets.
type Budgets struct {
	byKey map[budgetKey]*facts.Budget
}

type budgetKey struct{ namespace, name string }

func keyOfBudget(b *facts.Budget) budgetKey { return budgetKey{b.Namespace, b.Name} }

// covers reports whether the budget is about the pod.
func covers(b *facts.Budget, pod *Pod) bool {
	return b.Namespace == pod.Namespace && !b.Pods.MatchesAll() && b.Pods.Matches(pod.identity.Labels)
}

// disrupts reports whether the pod's eviction is counted in the budget already.
func disrupts(b *facts.Budget, pod *Pod) bool {
	_, found := slices.BinarySearch(b.Disrupted, pod.Name)
	return found
}

// Each visits the disruption budgets, in no particular order.
func (b *Budgets) Each(visit func(*facts.Budget)) {
	for _, budget := range b.byKey {
		visit(budget)
	}
}

// Covering visits the disruption budgets that are about the pod and do not count its eviction already, by name, until visit says no.
func (b *Budgets) Covering(pod *Pod, visit func(*facts.Budget) bool) {
	for _, budget := range b.covering(pod) {
		if !disrupts(budget, pod) && !visit(budget) {
			return
		}
	}
}

// keys lists the budgets, by namespace and name.
func (b *Budgets) keys() []budgetKey {
	return slices.SortedFunc(maps.Keys(b.byKey), func(a, b budgetKey) int {
		return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
	})
}

// covering returns the disruption budgets that are about a pod, by name, so that counting does not depend on the order of events. The pod's
// identity remembers them.
func (b *Budgets) covering(pod *Pod) []*facts.Budget {
	if len(b.byKey) == 0 || len(pod.identity.Labels) == 0 || pod.placeholder {
		return nil
	}
	if pod.identity.budgetsKnown {
		return pod.identity.budgets
	}
	var list []*facts.Budget
	for _, budget := range b.byKey {
		if covers(budget, pod) {
			list = append(list, budget)
		}
	}
	slices.SortFunc(list, func(a, b *facts.Budget) int { return strings.Compare(a.Name, b.Name) })
	pod.identity.budgets, pod.identity.budgetsKnown = list, true
	return list
}

// set replaces a budget (nil: by none), and marks the nodes with pods that the old or the new one is about.
func (b *Budgets) set(key budgetKey, budget *facts.Budget, identities []*identity, log *victimLog) {
	old := b.byKey[key]
	for _, id := range identities {
		if len(id.pods) == 0 || (old == nil || !covers(old, id.pods[0])) && (budget == nil || !covers(budget, id.pods[0])) {
			continue
		}
		id.budgets, id.budgetsKnown = nil, false
		for _, pod := range id.pods {
			log.note(pod.slot)
		}
	}
	if budget == nil {
		delete(b.byKey, key)
		return
	}
	b.byKey[key] = budget
}
