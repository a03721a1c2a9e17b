package victims

import (
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// evaluate works out who has to leave a node so that one more pod of the class fits there, and what that costs: s.taken and s.awaits, valid until
// the next call. It takes the candidates off, the cheapest first, until the pod fits, and puts back whom it can, the most valuable first.
func (s *victimSearch) evaluate(slot cluster.Slot) (memberCost, bool) {
	st := s.state()
	s.taken, s.awaits, s.trialRemoved = s.taken[:0], s.awaits[:0], s.trialRemoved[:0]
	if st.Node(slot) == nil || s.excluded[slot] || !rules.FitsIn(rules.Static, st, slot, s.class) {
		return memberCost{}, false
	}
	if s.fits(slot) {
		return memberCost{cost: noCost()}, true
	}
	if s.freeOnly {
		return memberCost{}, false
	}
	s.trial = st.Try(slot, s.domainFilters)
	made, ok := s.findVictims(slot)
	s.trial.End(s.trialRemoved)
	for i := range s.taken {
		s.quota.take(s.taken[i].account, s.holds(&s.taken[i]), -1)
	}
	for _, pod := range s.awaits {
		s.quota.countOn(pod, -1)
	}
	return made, ok
}

// fits reports whether one more pod of the class may go to the node now, as far as what runs and the limits are concerned.
func (s *victimSearch) fits(slot cluster.Slot) bool {
	st := s.state()
	return rules.FitsIn(rules.Local, st, slot, s.class) && (!s.domainFilters || rules.FitsIn(rules.Domain, st, slot, s.class)) && s.quota.admits(s.class)
}

// findVictims tries the node's candidates.
func (s *victimSearch) findVictims(slot cluster.Slot) (memberCost, bool) {
	for _, pod := range s.r.pods.leaving[slot] {
		if pod.Deleting && !s.removed[pod] {
			s.takeOff(pod)
			s.quota.countOn(pod, 1)
			s.awaits = append(s.awaits, pod)
		}
	}
	if len(s.awaits) == 0 || !s.fits(slot) {
		if !s.takeUntilFits(slot) {
			return memberCost{}, false
		}
		s.reprieve(slot)
	}
	s.stopWaiting(slot)
	return memberCost{cost: s.costOf(), awaited: len(s.awaits)}, true
}

// takeUntilFits takes candidates off, the cheapest first, those that break a disruption budget last, until the pod fits.
func (s *victimSearch) takeUntilFits(slot cluster.Slot) bool {
	s.candidates(slot)
	s.protected, s.trialBudgets = s.protected[:0], append(s.trialBudgets[:0], s.budgets...)
	for i := range s.candidateGroups {
		p := &s.candidateGroups[i]
		if s.budgeted {
			before := len(s.trialBudgets)
			saved := slices.Clone(s.trialBudgets)
			if s.violations(&s.trialBudgets, s.pods(p)) > 0 {
				s.trialBudgets = append(s.trialBudgets[:0], saved[:before]...)
				s.protected = append(s.protected, *p)
				continue
			}
		}
		if s.tryTaking(slot, p) && s.fits(slot) {
			return true
		}
	}
	for i := range s.protected {
		if s.tryTaking(slot, &s.protected[i]) && s.fits(slot) {
			return true
		}
	}
	return false
}

// candidates lists the parties with somebody on the node, the cheapest first.
func (s *victimSearch) candidates(slot cluster.Slot) {
	s.candidateGroups = s.candidateGroups[:0]
	sorted := true
	for _, pod := range s.r.pods.evictable[slot] {
		if !s.quota.queued && pod.Priority >= s.quota.priority {
			break // the rest is as important
		}
		if s.removed[pod] {
			continue
		}
		p, ok := s.groupOf(pod)
		if !ok || p.gang != nil && slices.ContainsFunc(s.candidateGroups, func(q victimGroup) bool { return q.gang == p.gang }) {
			continue
		}
		if n := len(s.candidateGroups); n > 0 && cheaper(&p, &s.candidateGroups[n-1]) < 0 {
			sorted = false
		}
		s.candidateGroups = append(s.candidateGroups, p)
	}
	if !sorted {
		slices.SortStableFunc(s.candidateGroups, func(a, b victimGroup) int { return cheaper(&a, &b) })
	}
}

// tryTaking takes a party off the node, if it still may be.
func (s *victimSearch) tryTaking(slot cluster.Slot, p *victimGroup) bool {
	if p.gang != nil {
		s.absorbMembers(p.gang)
	}
	holds := s.holds(p)
	if len(s.taken) > 0 && !s.quota.mayTake(p.account, holds, p.highest, p.gang != nil) {
		return false // the others have taken all that there was to take
	}
	s.quota.take(p.account, holds, 1)
	s.taken = append(s.taken, *p)
	s.eachOn(slot, p, s.takeOff)
	return true
}

// absorbMembers puts back the members of a gang that were to leave singly, for it is to leave whole.
func (s *victimSearch) absorbMembers(g *gang) {
	s.taken = slices.DeleteFunc(s.taken, func(p victimGroup) bool {
		if p.gang != nil || p.pod.Unit != g.unit {
			return false
		}
		s.quota.take(p.account, p.pod.Class.Charge, -1)
		s.putBack(p.pod)
		return true
	})
}

// reprieve puts back whom the pod leaves room for: first those that a budget spares, then the rest, each the most valuable first.
func (s *victimSearch) reprieve(slot cluster.Slot) {
	for i := len(s.taken) - 2; i >= 0; i-- { // without the last it did not fit
		p := s.taken[i]
		holds := s.holds(&p)
		s.quota.take(p.account, holds, -1)
		s.eachOn(slot, &p, s.putBack)
		if s.fits(slot) {
			s.taken = slices.Delete(s.taken, i, i+1)
			continue
		}
		s.quota.take(p.account, holds, 1)
		s.eachOn(slot, &p, s.takeOff)
	}
}

// stopWaiting puts back those who leave anyway, as far as the pod does not need their room.
func (s *victimSearch) stopWaiting(slot cluster.Slot) {
	for i, pod := range slices.Backward(s.awaits) {
		s.quota.countOn(pod, -1)
		s.putBack(pod)
		if s.fits(slot) {
			s.awaits = slices.Delete(s.awaits, i, i+1)
			continue
		}
		s.quota.countOn(pod, 1)
		s.takeOff(pod)
	}
}

// costOf sums up the parties of a price.
func (s *victimSearch) costOf() UnitCost {
	cost := noCost()
	if s.budgeted {
		s.trialBudgets = append(s.trialBudgets[:0], s.budgets...)
	}
	for i := range s.taken {
		p := &s.taken[i]
		pods := s.pods(p)
		one := UnitCost{Highest: p.highest, Over: p.account.leastOver(), Lost: p.lost, Pods: len(pods), Violations: s.violations(&s.trialBudgets, pods)}
		if p.gang != nil {
			one.Gangs = 1
		}
		cost = cost.plus(one)
	}
	return cost
}

// holds is what a party holds.
func (s *victimSearch) holds(p *victimGroup) resource.List {
	if p.gang == nil {
		return p.pod.Class.Charge
	}
	if p.gang.stale {
		s.refresh(p.gang)
	}
	return p.gang.holds
}

// eachOn visits those of a party who are on the node and have not been taken before.
func (s *victimSearch) eachOn(slot cluster.Slot, p *victimGroup, visit func(*cluster.Pod)) {
	if p.gang == nil {
		visit(p.pod)
		return
	}
	for _, pod := range s.r.pods.evictable[slot] {
		if pod.Unit == p.gang.unit && !s.removed[pod] {
			visit(pod)
		}
	}
}

func (s *victimSearch) takeOff(pod *cluster.Pod) {
	s.trial.Take(pod)
	s.trialRemoved = append(s.trialRemoved, pod)
}

func (s *victimSearch) putBack(pod *cluster.Pod) {
	s.trial.Return(pod)
	at := slices.Index(s.trialRemoved, pod)
	s.trialRemoved[at] = s.trialRemoved[len(s.trialRemoved)-1]
	s.trialRemoved = s.trialRemoved[:len(s.trialRemoved)-1]
}
