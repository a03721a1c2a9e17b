package kubelet

import (
	"context"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/controller"
	"hilbert.dev/hilbert/node/evict"
)

const (
	// thresholdsRetry is how often the kubelet's eviction thresholds are read until they are known, and thresholdsEvery after that: a kubelet that starts again may
	// have others.
	thresholdsRetry = 10 * time.Second
	thresholdsEvery = 5 * time.Minute
)

// ThresholdReader reads the kubelet's eviction thresholds. It may take long.
type ThresholdReader func(ctx context.Context) ([]evict.Threshold, error)

// Thresholds compares our thresholds of eviction with the kubelet's, which must lie below: the kubelet may evict an online pod for what reclaimed pods hold. As
// long as the kubelet's are not known, or lie above ours, no memory is lent beyond what reclaimed pods that run asked for, and the condition AgentReady says why.
//
// Thresholds that were known stay so while the kubelet does not answer: they change only with a start of the kubelet, and lending must not end with each.
type Thresholds struct {
	node *controller.Node
	// Params are the agent's, as they are now.
	Params *evict.Params
	read   ThresholdReader // nil: they are not compared
	asked  time.Time
	asking bool
	// known: they have been read. reason is why no memory is lent; empty: memory is lent.
	known  bool
	reason string
}

// NewThresholds returns one that has not asked yet.
func NewThresholds(n *controller.Node, params *evict.Params, read ThresholdReader) *Thresholds {
	c := &Thresholds{node: n, Params: params, read: read}
	if c.reads() {
		c.reason = spec.ReasonKubeletUnknown // which is no problem before the first answer
	}
	return c
}

// AskAgain has the kubelet asked at the next tick: ours have changed.
func (c *Thresholds) AskAgain() { c.asked = time.Time{} }

// Answered reports whether the kubelet has answered, or failed to, since it was last to be asked.
func (c *Thresholds) Answered() bool { return !c.asked.IsZero() && !c.asking }

func (c *Thresholds) reads() bool { return c.read != nil && c.node.Lends() }

// Tick implements controller.Ticker.
func (c *Thresholds) Tick(now time.Time) (changed bool) {
	c.Ask(now)
	return false
}

// Ask has the thresholds read beside the loop when that is due.
func (c *Thresholds) Ask(now time.Time) {
	every := thresholdsRetry
	if c.known {
		every = thresholdsEvery
	}
	if !c.reads() || c.asking || !c.node.Loop.Running() || !c.asked.IsZero() && now.Sub(c.asked) < every {
		return
	}
	c.asking, c.asked = true, now
	c.node.Loop.Work(func(ctx context.Context) {
		thresholds, err := c.read(ctx)
		c.node.Loop.Post(func() { c.answered(thresholds, err) })
	})
}

// answered takes what was read.
func (c *Thresholds) answered(thresholds []evict.Threshold, err error) {
	c.asking = false
	switch {
	case err != nil && c.known:
		c.node.Log.Warn("the kubelet's eviction thresholds cannot be read again; the last ones stand", "err", err)
	case err != nil:
		c.withhold(spec.ReasonKubeletUnknown, "no memory is lent: "+err.Error())
	default:
		c.known = true
		if err := c.Params.Check(thresholds); err != nil {
			c.withhold(spec.ReasonKubeletEvictsFirst, "no memory is lent: "+err.Error())
			return
		}
		c.withhold("", "")
	}
}

// withhold lends no memory for a reason, or lends it where there is none.
func (c *Thresholds) withhold(reason, why string) {
	problems := c.node.Events.Problems
	if _, told := problems[c.reason]; told && reason == "" {
		c.node.Log.Info("memory is lent again")
	} else if reason != "" && problems[reason] != why {
		c.node.Log.Warn("no memory is lent", "reason", reason, "why", why)
	}
	problems.Resolve(c.reason)
	if c.reason = reason; reason != "" {
		problems.Set(reason, why)
	}
}

// Withholds reports whether no memory is to be lent.
func (c *Thresholds) Withholds() bool { return c.reason != "" }
