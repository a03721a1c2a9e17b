package place

import (
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/resource"
)

// price works out who has to leave a node so that one more pod of the class fits there, and what that costs: s.taken and s.waitsOn, valid until
// the next call. It takes the candidates off, the cheapest first, until the pod fits, and puts back whom it can, the most valuable first.
func (s *seeker) price(slot cluster.Slot) (offer, bool) {
	st := s.state()
	s.taken, s.waitsOn, s.off = s.taken[:0], s.waitsOn[:0], s.off[:0]
	if st.Node(slot) == nil || s.barred[slot] || !fitsIn(Static, st, slot, s.class) {
		return offer{}, false
	}
	if s.fits(slot) {
		return offer{cost: free()}, true
	}
	if s.freeOnly {
		return offer{}, false
	}
	s.trial = st.Try(slot, s.far)
	made, ok := s.bid(slot)
	s.trial.End(s.off)
	for i := range s.taken {
		s.books.take(s.taken[i].account, s.holds(&s.taken[i]), -1)
	}
	for _, pod := range s.waitsOn {
		s.books.wait(pod, -1)
	}
	return made, ok
}

// fits reports whether one more pod of the class may go to the node now, as far as what runs and the limits are concerned.
func (s *seeker) fits(slot cluster.Slot) bool {
	st := s.state()
	return fitsIn(Local, st, slot, s.class) && (!s.far || fitsIn(Domain, st, slot, s.class)) && s.books.admits(s.class)
}

// bid tries the node's candidates.
func (s *seeker) bid(slot cluster.Slot) (offer, bool) {
	for _, pod := range s.r.roll.leaving[slot] {
		if pod.Deleting && !s.lifted[pod] {
			s.takeOff(pod)
			s.books.wait(pod, 1)
			s.waitsOn = append(s.waitsOn, pod)
		}
	}
	if len(s.waitsOn) == 0 || !s.fits(slot) {
		if !s.takeUntilFits(slot) {
			return offer{}, false
		}
		s.reprieve(slot)
	}
	s.stopWaiting(slot)
	return offer{cost: s.costOf(), waits: len(s.waitsOn)}, true
}

// takeUntilFits takes candidates off, the cheapest first, those that break a disruption budget last, until the pod fits.
func (s *seeker) takeUntilFits(slot cluster.Slot) bool {
	s.candidates(slot)
	s.guarded, s.trySpent = s.guarded[:0], append(s.trySpent[:0], s.spent...)
	for i := range s.parties {
		p := &s.parties[i]
		if s.budgeted {
			before := len(s.trySpent)
			saved := slices.Clone(s.trySpent)
			if s.violations(&s.trySpent, s.pods(p)) > 0 {
				s.trySpent = append(s.trySpent[:0], saved[:before]...)
				s.guarded = append(s.guarded, *p)
				continue
			}
		}
		if s.tryTaking(slot, p) && s.fits(slot) {
			return true
		}
	}
	for i := range s.guarded {
		if s.tryTaking(slot, &s.guarded[i]) && s.fits(slot) {
			return true
		}
	}
	return false
}

// candidates lists the parties with somebody on the node, the cheapest first.
func (s *seeker) candidates(slot cluster.Slot) {
	s.parties = s.parties[:0]
	sorted := true
	for _, pod := range s.r.roll.stays[slot] {
		if !s.books.queued && pod.Priority >= s.books.priority {
			break // the rest is as important
		}
		if s.lifted[pod] {
			continue
		}
		p, ok := s.party(pod)
		if !ok || p.gang != nil && slices.ContainsFunc(s.parties, func(q party) bool { return q.gang == p.gang }) {
			continue
		}
		if n := len(s.parties); n > 0 && cheaper(&p, &s.parties[n-1]) < 0 {
			sorted = false
		}
		s.parties = append(s.parties, p)
	}
	if !sorted {
		slices.SortStableFunc(s.parties, func(a, b party) int { return cheaper(&a, &b) })
	}
}

// tryTaking takes a party off the node, if it still may be.
func (s *seeker) tryTaking(slot cluster.Slot, p *party) bool {
	if p.gang != nil {
		s.rejoin(p.gang)
	}
	holds := s.holds(p)
	if len(s.taken) > 0 && !s.books.may(p.account, holds, p.highest, p.gang != nil) {
		return false // the others have taken all that there was to take
	}
	s.books.take(p.account, holds, 1)
	s.taken = append(s.taken, *p)
	s.eachOn(slot, p, s.takeOff)
	return true
}

// rejoin puts back the members of a gang that were to leave singly, for it is to leave whole.
func (s *seeker) rejoin(g *gang) {
	s.taken = slices.DeleteFunc(s.taken, func(p party) bool {
		if p.gang != nil || p.pod.Unit != g.unit {
			return false
		}
		s.books.take(p.account, p.pod.Class.Charge, -1)
		s.putBack(p.pod)
		return true
	})
}

// reprieve puts back whom the pod leaves room for: first those that a budget spares, then the rest, each the most valuable first.
func (s *seeker) reprieve(slot cluster.Slot) {
	for i := len(s.taken) - 2; i >= 0; i-- { // without the last it did not fit
		p := s.taken[i]
		holds := s.holds(&p)
		s.books.take(p.account, holds, -1)
		s.eachOn(slot, &p, s.putBack)
		if s.fits(slot) {
			s.taken = slices.Delete(s.taken, i, i+1)
			continue
		}
		s.books.take(p.account, holds, 1)
		s.eachOn(slot, &p, s.takeOff)
	}
}

// stopWaiting puts back those who leave anyway, as far as the pod does not need their room.
func (s *seeker) stopWaiting(slot cluster.Slot) {
	for i, pod := range slices.Backward(s.waitsOn) {
		s.books.wait(pod, -1)
		s.putBack(pod)
		if s.fits(slot) {
			s.waitsOn = slices.Delete(s.waitsOn, i, i+1)
			continue
		}
		s.books.wait(pod, 1)
		s.takeOff(pod)
	}
}

// costOf sums up the parties of a price.
func (s *seeker) costOf() UnitCost {
	cost := free()
	if s.budgeted {
		s.trySpent = append(s.trySpent[:0], s.spent...)
	}
	for i := range s.taken {
		p := &s.taken[i]
		pods := s.pods(p)
		one := UnitCost{Highest: p.highest, Over: p.account.least(), Lost: p.lost, Pods: len(pods), Violations: s.violations(&s.trySpent, pods)}
		if p.gang != nil {
			one.Gangs = 1
		}
		cost = cost.plus(one)
	}
	return cost
}

// holds is what a party holds.
func (s *seeker) holds(p *party) resource.List {
	if p.gang == nil {
		return p.pod.Class.Charge
	}
	if p.gang.stale {
		s.refresh(p.gang)
	}
	return p.gang.holds
}

// eachOn visits those of a party who are on the node and have not been taken before.
func (s *seeker) eachOn(slot cluster.Slot, p *party, visit func(*cluster.Pod)) {
	if p.gang == nil {
		visit(p.pod)
		return
	}
	for _, pod := range s.r.roll.stays[slot] {
		if pod.Unit == p.gang.unit && !s.lifted[pod] {
			visit(pod)
		}
	}
}

func (s *seeker) takeOff(pod *cluster.Pod) {
	s.trial.Take(pod)
	s.off = append(s.off, pod)
}

func (s *seeker) putBack(pod *cluster.Pod) {
	s.trial.Return(pod)
	at := slices.Index(s.off, pod)
	s.off[at] = s.off[len(s.off)-1]
	s.off = s.off[:len(s.off)-1]
}
