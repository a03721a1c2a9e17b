package evict

import "time"

// Closure is the node's last closing, as long as it makes the next one longer.
type Closure struct {
	On     bool          `json:"on"`
	Until  time.Duration `json:"until"`
	For    time.Duration `json:"for"` // how long it was, or is
	Reason string        `json:"reason"`
}

// evicted closes the node. While it is closed, another eviction restarts the time. An eviction soon after it was opened closes it for twice as
// long.
func (c *Closure) evicted(at time.Duration, p *Closing, reason string) {
	switch {
	case !c.On:
		c.For = p.First.D()
	case at >= c.Until:
		c.For *= 2
	}
	c.For = min(max(c.For, p.First.D()), p.Most.D())
	c.On, c.Until, c.Reason = true, max(c.Until, at+c.For), reason
}

// decay halves the time for each Again that passed since the node was opened, and forgets it where the next closing would be as the first.
func (c *Closure) decay(at time.Duration, p *Closing) {
	for c.On && at-c.Until >= p.Again.D() {
		c.Until += p.Again.D()
		c.For /= 2
		if 2*c.For <= p.First.D() {
			*c = Closure{}
		}
	}
}

func (c *Closure) shift(d time.Duration) {
	if c.On {
		c.Until += d
	}
}

// status is what the report says of it.
func (c *Closure) status(at time.Duration) Closed {
	if !c.On || at >= c.Until {
		return Closed{}
	}
	return Closed{Reason: c.Reason, Until: c.Until}
}
