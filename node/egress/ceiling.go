package egress

import (
	"math"
	"time"

	"hilbert.dev/hilbert/node/advise"
)

// Params are the settings of Ceiling.
type Params struct {
	// Share is how much of the link online and reclaimed pods may fill together, from 0 to 1.
	Share float64
	// Headroom is how much more than they send online pods are left, as a share of it: 0.2 is a fifth more.
	Headroom float64
	// Floor is what reclaimed pods always have, in bytes per second, and all that they have where the link is not known.
	Floor float64
	// Rise is how much of the link the ceiling rises by in a second. It falls at once.
	Rise float64
	// HalfLife is the time in which a peak of online traffic loses half of its weight.
	HalfLife time.Duration
	// Hold is how long the ceiling stays where online traffic is not known; then it falls to Floor.
	Hold time.Duration
}

// Defaults are settings for any link.
func Defaults() Params {
	return Params{Share: 0.9, Headroom: 0.2, Floor: 1 << 20, Rise: 0.02, HalfLife: 30 * time.Second, Hold: 30 * time.Second}
}

// Observation is what Ceiling sees. Rates are in bytes per second.
type Observation struct {
	// At is the time since the node's boot.
	At time.Duration
	// Link is what the uplink carries, Online what online pods send, since the last observation.
	Link, Online advise.Sample
}

// Memory is what Ceiling keeps from one observation to the next. The zero value is the start.
type Memory struct {
	// Peak is the recent peak of online traffic, and Ceiling the last ceiling, in bytes per second.
	Peak, Ceiling float64
	// At is the last observation's time, Seen that of the last one with known online traffic.
	At, Seen time.Duration
	// Begun: there was an observation.
	Begun bool
}

// Ceiling is what reclaimed pods may send together, in bytes per second: what the link's share leaves beside online pods, and never less
// than the floor. It falls at once and rises slowly. Where the link is not known it is the floor; where online traffic is not known, it stays
// for a while and then is the floor. It begins at the floor.
func Ceiling(o Observation, p Params, m Memory) (ceiling float64, next Memory) {
	elapsed := max(o.At-m.At, 0)
	if !m.Begun {
		elapsed = 0
		m = Memory{Ceiling: p.Floor, Seen: o.At, Begun: true}
	}
	m.At = max(o.At, m.At)
	link, linkKnown := rate(o.Link)
	online, onlineKnown := rate(o.Online)
	if onlineKnown {
		m.Seen = m.At
		m.Peak = max(online, m.Peak-(m.Peak-online)*(1-math.Exp2(-elapsed.Seconds()/max(p.HalfLife.Seconds(), 1e-3))))
	}
	switch {
	case !linkKnown || !onlineKnown && m.At-m.Seen > p.Hold:
		m.Ceiling = p.Floor
	case !onlineKnown: // it stays
		m.Ceiling = min(m.Ceiling, max(link*p.Share, p.Floor))
	default:
		target := max(link*p.Share-m.Peak*(1+p.Headroom), p.Floor)
		m.Ceiling = max(min(target, m.Ceiling+p.Rise*link*elapsed.Seconds()), p.Floor)
	}
	return m.Ceiling, m
}

// rate is a rate that can be reckoned with: what is not a number, infinite or below zero is not known.
func rate(s advise.Sample) (value float64, known bool) {
	if !s.Known || !(s.Value >= 0) || math.IsInf(s.Value, 0) {
		return 0, false
	}
	return s.Value, true
}

const (
	// waitMost is the longest that a reclaimed packet waits, in time and in bytes that may wait at one moment. At 64 bytes charged for the least
	// packet, waitBytes are 65,536 packets, which is less than the qdisc's limit.
	waitMost  = 500 * time.Millisecond
	waitBytes = 4 << 20
	// leastCharge is what the least packet is charged.
	leastCharge = 64
)

// horizon is how long packets may wait at a rate in bytes per second.
func horizon(bytesPerSecond uint64) time.Duration {
	if bytesPerSecond == 0 {
		return waitMost
	}
	return min(waitMost, time.Duration(float64(waitBytes)/float64(bytesPerSecond)*float64(time.Second)))
}

// burst is by how much time what comes in may be ahead of its rate: a tenth of a second, and at most waitBytes.
func burst(bytesPerSecond uint64) time.Duration {
	return min(100*time.Millisecond, horizon(bytesPerSecond))
}
