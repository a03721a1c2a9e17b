package node

import (
	"context"
	"time"

	"hilbert.dev/hilbert/api/spec"
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

// thresholdController compares our thresholds of eviction with the kubelet's, which must lie below: the kubelet may evict an online pod for what reclaimed pods hold. As
// long as the kubelet's are not known, or lie above ours, no memory is lent beyond what reclaimed pods that run asked for, and the condition AgentReady says why.
//
// Thresholds that were known stay so while the kubelet does not answer: they change only with a start of the kubelet, and lending must not end with each.
type thresholdController struct {
	node   *nodeState
	params *evict.Params
	read   ThresholdReader // nil: they are not compared
	asked  time.Time
	asking bool
	// known: they have been read. reason is why no memory is lent; empty: memory is lent.
	known  bool
	reason string
}

func newThresholdController(n *nodeState, params *evict.Params, read ThresholdReader) *thresholdController {
	c := &thresholdController{node: n, params: params, read: read}
	if c.reads() {
		c.reason = spec.ReasonKubeletUnknown // which is no problem before the first answer
	}
	return c
}

func (c *thresholdController) reads() bool { return c.read != nil && c.node.Lends() }

// Tick implements ticker.
func (c *thresholdController) Tick(now time.Time) (changed bool) {
	c.ask(now)
	return false
}

// ask has the thresholds read beside the loop when that is due.
func (c *thresholdController) ask(now time.Time) {
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
func (c *thresholdController) answered(thresholds []evict.Threshold, err error) {
	c.asking = false
	switch {
	case err != nil && c.known:
		c.node.Log.Warn("the kubelet's eviction thresholds cannot be read again; the last ones stand", "err", err)
	case err != nil:
		c.withhold(spec.ReasonKubeletUnknown, "no memory is lent: "+err.Error())
	default:
		c.known = true
		if err := c.params.Check(thresholds); err != nil {
			c.withhold(spec.ReasonKubeletEvictsFirst, "no memory is lent: "+err.Error())
			return
		}
		c.withhold("", "")
	}
}

// withhold lends no memory for a reason, or lends it where there is none.
func (c *thresholdController) withhold(reason, why string) {
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

// withholds reports whether no memory is to be lent.
func (c *thresholdController) withholds() bool { return c.reason != "" }
