package observe

import "time"

// track is when the counters of one file were read, and which of three places holds those of the last reading, of the one that rates are
// taken against, and which is free for the next. A reading that fails leaves what was read before as it was.
type track struct {
	at, before       time.Duration // of the last reading, of the one before
	good, pair       bool          // there is a last one, there is one before
	fault            Reason        // of the last attempt; fine if it was good
	last, base, free uint8
}

func newTrack() track { return track{fault: NotRead, base: 0, last: 1, free: 2} }

// accept makes what was parsed into the free place the last reading. A last reading that stands too close to its base is not made the base of
// the next, so that a caller that reads too often still gets rates.
func (t *track) accept(now, least time.Duration) {
	if t.good && (!t.pair || t.at-t.before >= least) {
		t.before, t.pair = t.at, true
		t.base, t.last, t.free = t.last, t.free, t.base
	} else {
		t.last, t.free = t.free, t.last
	}
	t.at, t.good, t.fault = now, true, fine
}

// forget drops what was read: the clock that it was read by is not to be compared with any more.
func (t *track) forget() {
	t.good, t.pair = false, false
	if t.fault == fine {
		t.fault = NotRead
	}
}

// fail notes that a reading gave nothing.
func (t *track) fail(why Reason) { t.fault = why }

// limits bound what a rate may be taken over, and how old a value may get.
type limits struct{ least, most, maxAge time.Duration }

// span is what samples of one file are good for at one observation.
type span struct {
	state    State
	reason   Reason
	age      time.Duration
	interval time.Duration // between the readings of a rate; 0: there is none, and why says so
	why      Reason
	reversed uint64 // counters found to have gone backwards
}

// span judges the file at a time.
func (t *track) span(now time.Duration, l limits) span {
	if !t.good {
		return span{reason: t.fault}
	}
	s := span{state: Valid, age: now - t.at, why: First}
	if t.fault != fine {
		s.state, s.reason = Stale, t.fault
		if s.age > l.maxAge || t.fault == Gone || t.fault == Absent {
			return span{reason: t.fault}
		}
	}
	if t.pair {
		s.interval, s.why = t.at-t.before, fine
		if s.interval < l.least || s.interval > l.most {
			s.interval, s.why = 0, Interval
		}
	}
	return s
}

// gauge is a value as it was read.
func gauge[T any](s *span, value T, seen bool) Sample[T] {
	switch {
	case s.state == Missing:
		return MissingSample[T](s.reason)
	case !seen:
		return MissingSample[T](Absent)
	}
	return Sample[T]{value: value, age: s.age, state: s.state, reason: s.reason}
}

// counter is a value of two readings. seen and was say whether its line was there, now and before.
type counter struct {
	value, base int64
	seen, was   bool
}

// minus is what the counter grew by. If its Sample is neither Valid nor Stale, the growth is unknown, and the Sample has the reason.
func (c counter) minus(s *span) (growth int64, quality Sample[float64]) {
	switch {
	case s.state == Missing:
		return 0, MissingSample[float64](s.reason)
	case !c.seen:
		return 0, MissingSample[float64](Absent)
	case s.interval == 0:
		return 0, MissingSample[float64](s.why)
	case !c.was:
		return 0, MissingSample[float64](First)
	case c.value < c.base:
		s.reversed++
		return 0, ReversedSample[float64]()
	}
	return c.value - c.base, Sample[float64]{age: s.age, state: s.state, reason: s.reason}
}

// rate is the growth of a counter per second, times a scale.
func rate(s *span, c counter, scale float64) Sample[float64] {
	growth, out := c.minus(s)
	if out.state == Valid || out.state == Stale {
		out.value = float64(growth) * scale / s.interval.Seconds()
	}
	return out
}

// share is the growth of one counter as a part of the growth of another. Without growth of the whole there is no share.
func share(s *span, part, whole counter) Sample[float64] {
	grown, out := part.minus(s)
	if out.state != Valid && out.state != Stale {
		return out
	}
	of, out := whole.minus(s)
	if out.state != Valid && out.state != Stale {
		return out
	}
	if of == 0 {
		return MissingSample[float64](Absent)
	}
	out.value = min(1, float64(grown)/float64(of))
	return out
}

// total is a counter as it stands; it cannot be trusted where it has gone backwards.
func total(s *span, c counter) Sample[int64] {
	if s.state != Missing && c.seen && c.was && s.interval != 0 && c.value < c.base {
		s.reversed++
		return ReversedSample[int64]()
	}
	return gauge(s, c.value, c.seen)
}
