package victims

import (
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// nodeEvaluator works out what one more member costs on one node, by trying. It takes pods off the node in a cluster.Trial, which it ends before
// it answers; the quota is as before, too. The pods that would have to leave are in taken and awaits until the next call.
type nodeEvaluator struct {
	snapshot *cluster.Snapshot
	pods     *evictablePods
	quota    *victimQuota
	groups   *victimGroups
	budgets  *disruptionBudgets
	attempt  *attempt

	excluded map[cluster.Slot]bool // nodes that turned out not to do
	// Of the class that is being placed:
	class         *cluster.Class
	domainFilters bool
	freeOnly      bool // only what is free is offered

	// The latest answer.
	taken  []victimGroup
	awaits []*cluster.Pod
	// refused: a pod that another Plan claims is not counted on, because its queue has not borrowed enough. That changes without a change on the node.
	refused bool

	// Scratch.
	trial           cluster.Trial
	candidateGroups []victimGroup
	protected       []victimGroup
	trialBudgets    []budgetUse
}

// evaluate works out which pods have to leave a node so that one more pod of the class fits there, and what that costs. It takes the
// candidates off, the cheapest first, until the pod fits, and puts back those that it can, the most valuable first.
func (e *nodeEvaluator) evaluate(slot cluster.Slot) (memberCost, bool) {
	st := &e.snapshot.State
	e.taken, e.awaits, e.refused = e.taken[:0], e.awaits[:0], false
	if st.Node(slot) == nil || e.excluded[slot] || !rules.FitsIn(rules.Static, st, slot, e.class) {
		return memberCost{}, false
	}
	if e.fits(slot) {
		return memberCost{cost: noCost()}, true
	}
	if e.freeOnly {
		return memberCost{}, false
	}
	e.trial = st.Try(slot, e.domainFilters)
	made, ok := e.findVictims(slot)
	e.trial.End()
	for i := range e.taken {
		e.quota.take(e.taken[i].account, e.groups.holds(&e.taken[i]), -1)
	}
	for _, pod := range e.awaits {
		e.quota.countOn(pod, -1)
	}
	return made, ok
}

// fits reports whether one more pod of the class may go to the node now, as far as what runs and the limits are concerned.
func (e *nodeEvaluator) fits(slot cluster.Slot) bool {
	st := &e.snapshot.State
	return rules.FitsIn(rules.Local, st, slot, e.class) && (!e.domainFilters || rules.FitsIn(rules.Domain, st, slot, e.class)) && e.quota.admits(e.class)
}

// findVictims tries the node's candidates.
func (e *nodeEvaluator) findVictims(slot cluster.Slot) (memberCost, bool) {
	for _, pod := range e.pods.leaving[slot] {
		if !e.groups.removed[pod] && (pod.Deleting || e.mayShare(pod)) {
			e.takeOff(pod)
			e.quota.countOn(pod, 1)
			e.awaits = append(e.awaits, pod)
		}
	}
	if len(e.awaits) == 0 || !e.fits(slot) {
		if !e.takeUntilFits(slot) {
			return memberCost{}, false
		}
		e.reprieve(slot)
	}
	e.stopWaiting(slot)
	return memberCost{cost: e.costOf(), awaited: len(e.awaits)}, true
}

// mayShare reports whether the unit may count on the departure of a pod that another Plan claims. A gang that leaves whole is not shared where
// rules about other pods are in play: its members on other nodes leave too, which a trial on this node does not show.
func (e *nodeEvaluator) mayShare(pod *cluster.Pod) bool {
	if e.domainFilters && e.groups.leavesWhole(pod) {
		return false
	}
	ok := e.groups.shares(pod)
	if a := e.quota.accountOf(pod); !ok && !a.ownQueue {
		e.refused = e.refused || a.priority || len(a.reclaimable) > 0
	}
	return ok
}

// takeUntilFits takes candidates off, the cheapest first, those that break a disruption budget last, until the pod fits.
func (e *nodeEvaluator) takeUntilFits(slot cluster.Slot) bool {
	e.candidates(slot)
	e.protected, e.trialBudgets = e.protected[:0], append(e.trialBudgets[:0], e.attempt.spent...)
	for i := range e.candidateGroups {
		p := &e.candidateGroups[i]
		if e.budgets.any {
			before := len(e.trialBudgets)
			saved := slices.Clone(e.trialBudgets)
			if e.budgets.violations(&e.trialBudgets, e.groups.pods(p)) > 0 {
				e.trialBudgets = append(e.trialBudgets[:0], saved[:before]...)
				e.protected = append(e.protected, *p)
				continue
			}
		}
		if e.tryTaking(slot, p) && e.fits(slot) {
			return true
		}
	}
	for i := range e.protected {
		if e.tryTaking(slot, &e.protected[i]) && e.fits(slot) {
			return true
		}
	}
	return false
}

// candidates lists the groups with a pod on the node, the cheapest first.
func (e *nodeEvaluator) candidates(slot cluster.Slot) {
	e.candidateGroups = e.candidateGroups[:0]
	sorted := true
	for _, pod := range e.pods.evictable[slot] {
		if !e.quota.queued && pod.Priority >= e.quota.priority {
			break // the rest is as important
		}
		if e.groups.removed[pod] {
			continue
		}
		p, ok := e.groups.groupOf(pod)
		if !ok || p.gang != nil && slices.ContainsFunc(e.candidateGroups, func(q victimGroup) bool { return q.gang == p.gang }) {
			continue
		}
		if n := len(e.candidateGroups); n > 0 && cheaper(&p, &e.candidateGroups[n-1]) < 0 {
			sorted = false
		}
		e.candidateGroups = append(e.candidateGroups, p)
	}
	if !sorted {
		slices.SortStableFunc(e.candidateGroups, func(a, b victimGroup) int { return cheaper(&a, &b) })
	}
}

// tryTaking takes a group off the node, if the quota still allows it.
func (e *nodeEvaluator) tryTaking(slot cluster.Slot, p *victimGroup) bool {
	if p.gang != nil {
		e.absorbMembers(p.gang)
	}
	holds := e.groups.holds(p)
	if len(e.taken) > 0 && !e.quota.mayTake(p, holds) {
		return false // the others have taken all that there was to take
	}
	e.quota.take(p.account, holds, 1)
	e.taken = append(e.taken, *p)
	e.eachOn(slot, p, e.takeOff)
	return true
}

// absorbMembers puts back the members of a gang that were to leave singly, because the gang is to leave whole.
func (e *nodeEvaluator) absorbMembers(g *gang) {
	e.taken = slices.DeleteFunc(e.taken, func(p victimGroup) bool {
		if p.gang != nil || p.pod.Unit != g.unit {
			return false
		}
		e.quota.take(p.account, p.pod.Charge(), -1)
		e.putBack(p.pod)
		return true
	})
}

// reprieve puts back the pods that there is room for after all: first those that a budget spares, then the rest, each the most valuable
// first.
func (e *nodeEvaluator) reprieve(slot cluster.Slot) {
	for i := len(e.taken) - 2; i >= 0; i-- { // without the last it did not fit
		p := e.taken[i]
		holds := e.groups.holds(&p)
		e.quota.take(p.account, holds, -1)
		e.eachOn(slot, &p, e.putBack)
		if e.fits(slot) {
			e.taken = slices.Delete(e.taken, i, i+1)
			continue
		}
		e.quota.take(p.account, holds, 1)
		e.eachOn(slot, &p, e.takeOff)
	}
}

// stopWaiting puts back pods that leave anyway, as far as the new pod does not need their room.
func (e *nodeEvaluator) stopWaiting(slot cluster.Slot) {
	for i, pod := range slices.Backward(e.awaits) {
		e.quota.countOn(pod, -1)
		e.putBack(pod)
		if e.fits(slot) {
			e.awaits = slices.Delete(e.awaits, i, i+1)
			continue
		}
		e.quota.countOn(pod, 1)
		e.takeOff(pod)
	}
}

// costOf sums up the groups that were taken.
func (e *nodeEvaluator) costOf() UnitCost {
	cost := noCost()
	if e.budgets.any {
		e.trialBudgets = append(e.trialBudgets[:0], e.attempt.spent...)
	}
	for i := range e.taken {
		p := &e.taken[i]
		pods := e.groups.pods(p)
		one := UnitCost{Highest: p.highest, Over: p.account.leastOver(), Lost: p.lost, Pods: len(pods), Violations: e.budgets.violations(&e.trialBudgets, pods)}
		if p.gang != nil {
			one.Gangs = 1
		}
		cost = cost.plus(one)
	}
	return cost
}

// eachOn visits the pods of a group that are on the node and have not been taken before.
func (e *nodeEvaluator) eachOn(slot cluster.Slot, p *victimGroup, visit func(*cluster.Pod)) {
	if p.gang == nil {
		visit(p.pod)
		return
	}
	for _, pod := range e.pods.evictable[slot] {
		if pod.Unit == p.gang.unit && !e.groups.removed[pod] {
			visit(pod)
		}
	}
}

func (e *nodeEvaluator) takeOff(pod *cluster.Pod) { e.trial.Take(pod) }

func (e *nodeEvaluator) putBack(pod *cluster.Pod) { e.trial.Return(pod) }

// capacityOn is how many pods of a class fit on a node now.
func (e *nodeEvaluator) capacityOn(slot cluster.Slot, class *cluster.Class) int {
	st := &e.snapshot.State
	if !rules.FitsIn(rules.Static, st, slot, class) || !rules.FitsIn(rules.Local, st, slot, class) {
		return 0
	}
	return rules.PodsThatFitWithout(st, slot, class, nil)
}

// fitsAt reports whether one more pod of the class may go to the node, whatever the limits.
func (e *nodeEvaluator) fitsAt(slot cluster.Slot) bool {
	st := &e.snapshot.State
	return rules.FitsIn(rules.Static, st, slot, e.class) && e.fits(slot)
}
