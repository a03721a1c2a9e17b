package egress

import (
	"time"

	"hilbert.dev/hilbert/node/advise"
)

// Traffic is what an interface has carried since it was made: bytes each way, and packets that it lost, Unsent of them on the way out. Link is what it carries each way, in bytes per
// second.
type Traffic struct{ Received, Sent, Lost, Unsent, Link advise.Sample }

// sending is the traffic as if nothing came in.
func (t *Traffic) sending() Traffic {
	return Traffic{Received: advise.Known(0), Sent: t.Sent, Lost: t.Unsent, Link: t.Link}
}

// PressureMemory is what Pressure keeps of an interface. The zero value is the start.
type PressureMemory struct {
	Begun bool
	At    time.Duration
	Last  Traffic
	// Since is since when it is under pressure, or, while Pressed, since when it is not; -1: it is not, or is.
	Since   time.Duration
	Pressed bool
}

const (
	// fullShare of its link makes an interface full, and freeShare of it free again.
	fullShare, freeShare = 0.95, 0.8
	// lostMost is how many packets a second may be lost: some are, on any interface.
	lostMost = 10
	// pressedAfter is how long it must be full, or free, to count.
	pressedAfter = 10 * time.Second
)

// Pressure reports whether an interface is full either way, or loses packets, for a while. What is not known begins nothing and ends nothing.
func Pressure(at time.Duration, t Traffic, m PressureMemory) (pressed bool, next PressureMemory) {
	elapsed := at - m.At
	if !m.Begun {
		return false, PressureMemory{Begun: true, At: at, Last: t, Since: -1}
	}
	if elapsed <= 0 {
		return m.Pressed, m
	}
	share, lost, known := use(&t, &m.Last, elapsed.Seconds())
	m.At, m.Last = at, t
	if !known {
		m.Since = -1
		return m.Pressed, m
	}
	other := share >= fullShare || lost > lostMost
	if m.Pressed {
		other = share < freeShare && lost <= lostMost
	}
	switch {
	case !other:
		m.Since = -1
	case m.Since < 0:
		m.Since = at
	case at-m.Since >= pressedAfter:
		m.Pressed, m.Since = !m.Pressed, -1
	}
	return m.Pressed, m
}

// use is the greater share of the link that was used either way, and the packets lost per second. Where the link is not known, what was lost alone counts.
func use(now, before *Traffic, seconds float64) (share, lost float64, known bool) {
	grown := func(a, b advise.Sample) float64 {
		known = known && a.Known && b.Known && a.Value >= b.Value
		return (a.Value - b.Value) / seconds
	}
	known = true
	most := max(grown(now.Received, before.Received), grown(now.Sent, before.Sent))
	lost = grown(now.Lost, before.Lost)
	if link, ok := rate(now.Link); ok && link > 0 {
		share = most / link
	}
	return share, lost, known
}
