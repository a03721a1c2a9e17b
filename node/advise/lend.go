package advise

// hold takes a share of what is lent back where online pods wait, and keeps it from being lent again at once. A loan that is found to hurt soon
// after it was made again is held back twice as long: otherwise the law would try again for ever.
func (t *tick) hold(z *Zone, s *ZoneState, g grade) {
	over := s.Held && t.now >= s.Until
	if g >= waiting {
		left := int(float64(lent(z)) * (1 - t.p.CutShare))
		switch {
		case s.Held && !over:
			s.Cap = min(s.Cap, left)
		case s.Hold > 0 && t.now-s.Until < t.p.HoldMax:
			s.Cap, s.Hold = left, min(2*s.Hold, t.p.HoldMax)
		default:
			s.Cap, s.Hold = left, t.p.HoldMin
		}
		s.Held, s.Until = true, t.now+s.Hold
	} else if over {
		s.Held = false
	}
}

// lend is how many cores the reclaimed pool should have. It gives back at once and lends by steps.
func (t *tick) lend(z *Zone, s *ZoneState, need float64) int {
	floor := min(t.p.ReclaimedFloor, cores(z))
	if len(t.o.Reclaimed) == 0 {
		s.Lend, s.Lending = floor, false // the first pod starts from the floor
		return floor
	}
	if !s.Lending {
		s.Lend, s.Lending = lent(z), true
	}
	want := clamp(int((float64(divisible(z))-need)/float64(threads(z))), floor, max(floor, cores(z)-t.p.SharedFloor))
	if s.Held {
		want = min(want, max(s.Cap, floor))
	}
	if t.m.Level >= SuppressFloor {
		want = floor
	}
	switch {
	case want < s.Lend:
		s.Lend = want
	case s.CPUMissing.lasted(t.now, t.p.MissingFor) && t.due(s):
		back := max(1, int(float64(s.Lend)*t.p.LendStep))
		s.Lend, s.Stepped = max(floor, s.Lend-back), t.now
	case want > s.Lend && !s.CPUMissing.So && t.m.Level == SuppressNone && !s.Held && !t.o.StopLending && t.due(s):
		step := max(1, int(float64(cores(z)-lent(z))*t.p.LendStep))
		if next := min(want, lent(z)+step); next > s.Lend { // else the step before is not yet made
			s.Lend, s.Stepped = next, t.now
		}
	}
	s.Lend = max(s.Lend, floor)
	return s.Lend
}

// due reports whether the next step may be made.
func (t *tick) due(s *ZoneState) bool { return t.now-s.Stepped >= t.p.LendInterval }
