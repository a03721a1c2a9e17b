package advise

// hold takes a share of what is lent back where online pods wait: use cannot ask for more than a small pool has, waiting can. For a short while nothing
// is lent again; then, for a longer one, a little less than what made them wait. If they wait again until or soon after then, the next lasts twice as
// long: otherwise the law would try a loan that hurts for ever.
func (t *tick) hold(z *NUMANode, s *NUMAState, g waitGrade) {
	over := s.Held && t.now >= s.Until
	if g >= waiting {
		had := float64(lent(z))
		left := int(had * (1 - t.p.CutShare))
		switch {
		case t.cuttingBack(s): // they wait still
			s.Cap = min(s.Cap, left)
		case lent(z) > t.p.ReclaimedFloor && s.Hold > 0 && t.now-s.Until < s.Hold:
			s.Cap, s.Safe, s.Hold = left, int(had*t.p.SafeShare), min(2*s.Hold, t.p.HoldMax)
		default:
			s.Cap, s.Safe, s.Hold = left, int(had*t.p.SafeShare), t.p.HoldMin
		}
		s.Held, s.Waited, s.Until = true, t.now, t.now+s.Hold
	} else if over {
		s.Held = false
	}
}

// cuttingBack reports whether it is so short since online pods waited that nothing is lent again.
func (t *tick) cuttingBack(s *NUMAState) bool { return s.Held && t.now-s.Waited < t.p.HoldMin }

// lend is how many cores the reclaimed pool should have, and why it is no more. It gives back at once and lends by steps.
func (t *tick) lend(z *NUMANode, s *NUMAState, need float64) (int, Reason) {
	floor := min(t.p.ReclaimedFloor, cores(z))
	if len(t.o.Reclaimed) == 0 {
		s.Lend, s.Lending = floor, false // the first pod starts from the floor
		return floor, BoundByStep
	}
	if !s.Lending {
		s.Lend, s.Lending = lent(z), true
	}
	want, reason := t.want(z, s, need, floor)
	switch {
	case want < s.Lend:
		s.Lend = want
	case s.CPUMissing.lasted(t.now, t.p.MissingFor) && t.due(s):
		back := max(1, int(float64(s.Lend)*t.p.LendStep))
		s.Lend, s.Stepped = max(floor, s.Lend-back), t.now
	case want > s.Lend && t.mayLend(s):
		step := max(1, int(float64(cores(z)-lent(z))*t.p.LendStep))
		if next := min(want, lent(z)+step); next > s.Lend { // else the step before is not yet made
			s.Lend, s.Stepped = next, t.now
		}
	}
	s.Lend = max(s.Lend, floor)
	switch {
	case s.CPUMissing.So:
		reason = BoundByMissing
	case t.o.StopLending:
		reason = BoundByStop
	case t.m.Level > SuppressNone || t.cuttingBack(s):
		reason = BoundByPressure
	case s.Lend < want:
		reason = BoundByStep
	}
	return s.Lend, reason
}

// want is how many cores could be lent if there were no steps.
func (t *tick) want(z *NUMANode, s *NUMAState, need float64, floor int) (int, Reason) {
	reason, highest := BoundByUse, max(floor, cores(z)-t.p.SharedFloor)
	if need <= t.least(z, s) {
		reason = BoundByCapacity
	}
	want := clamp(int((float64(divisible(z))-need)/float64(threads(z))), floor, highest)
	if limit := max(s.Safe, floor); s.Held && want > limit {
		want, reason = limit, BoundByPressure
	}
	if t.cuttingBack(s) {
		want = min(want, max(s.Cap, floor))
	}
	if t.m.Level >= SuppressFloor {
		want = floor
	}
	return want, reason
}

// mayLend reports whether more may be lent now. A need counts as low after it was seen for long enough.
func (t *tick) mayLend(s *NUMAState) bool {
	held := t.cuttingBack(s) || s.CPUMissing.So || t.m.Level > SuppressNone || t.o.StopLending
	return !held && s.Began.lasted(t.now, t.p.ShrinkAfter) && t.due(s)
}

// due reports whether the next step may be made.
func (t *tick) due(s *NUMAState) bool { return t.now-s.Stepped >= t.p.LendInterval }
