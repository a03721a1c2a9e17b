package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/bandwidth"
	"hilbert.dev/hilbert/node/bandwidth/intensive"
	"hilbert.dev/hilbert/node/pods"
)

// MemoryBandwidth says how much memory bandwidth pods take: bandwidth.Poller, or what a test has in its place.
type MemoryBandwidth interface {
	Watch(pods []bandwidth.Pod)
	Of(uid string, now time.Time) bandwidth.Use
	Status() bandwidth.Status
	// Limit says how many groups may be made from now on.
	Limit(groups int)
	Run(ctx context.Context)
}

// BandwidthPart is which memory bandwidth is added up: that of the pods of a level in a domain of the last-level cache. There are no more of them than levels times domains, whatever pods come.
type BandwidthPart struct {
	Domain int
	Level  spec.QoSLevel
}

// memoryBandwidth has the memory bandwidth of the pods read that matter most, where that is wanted.
type memoryBandwidth struct {
	node   *nodeState
	reader MemoryBandwidth // nil: there is none
	parts  map[BandwidthPart]float64
	known  bool // of any pod in the last observation
	// past is what pods were measured to take, and intensive how many count as memory-intensive; nil: nobody is measured for it.
	past      intensive.State
	intensive map[string]int
}

// The sources of memoryBandwidth.intensive.
const intensiveSaid, intensiveMeasured = "annotation", "measured"

// Tick implements controller.
func (c *memoryBandwidth) Tick(in *inputs) (changed bool) {
	c.parts, c.known = nil, false
	if c.reader == nil {
		return c.judge(in.now, nil, 0)
	}
	groups := c.node.options.Config.MemoryBandwidth.Groups
	c.reader.Limit(groups)
	if groups == 0 {
		return c.judge(in.now, nil, 0)
	}
	c.parts = make(map[BandwidthPart]float64)
	sensitive := false
	said, silent := 0, []intensive.Pod(nil)
	var list []bandwidth.Candidate
	for _, p := range c.node.Pods.Sorted() {
		asked, pool, ok := c.node.Manager.Pod(p.Ref.UID)
		if !ok || p.Cgroup == "" {
			continue
		}
		word := asked.QoS.Bandwidth
		sensitive = sensitive || word == spec.BandwidthSensitive
		reclaimed, level := pool == spec.PoolReclaimed, asked.QoS.Level
		if pool == "" {
			level = spec.QoSDedicated
		}
		use, measured := c.reader.Of(p.Ref.UID, in.now), c.node.Manager.Pools.Measured(p.Ref.UID)
		list = append(list, bandwidth.Candidate{
			Pod: bandwidth.Pod{UID: p.Ref.UID, Cgroup: p.Cgroup, Reclaimed: reclaimed}, Said: word != "" || measured, Use: orNaN(rateOf(in.seen.use(p.Cgroup).CPU.Usage)),
		})
		switch word {
		case "":
			silent = append(silent, intensive.Pod{UID: p.Ref.UID, Rate: use.Total, Counted: measured})
		case spec.BandwidthIntensive:
			said++
		}
		c.known = c.known || use.Total.Known
		for domain, rate := range use.Domains {
			c.parts[BandwidthPart{domain, level}] += rate
		}
	}
	c.reader.Watch(bandwidth.Order(list, sensitive, groups))
	return c.judge(in.now, silent, said)
}

// judge takes pods that say nothing for memory-intensive, or not any more, by what was read of them. said is how many others say so themselves.
func (c *memoryBandwidth) judge(now time.Time, silent []intensive.Pod, said int) (changed bool) {
	threshold := c.node.options.Config.MemoryBandwidth.IntensiveBytesPerSecond
	var uids []string
	uids, c.past = intensive.Step(now.Sub(c.node.Started), silent, float64(threshold), c.past)
	if c.intensive = nil; threshold > 0 && c.parts != nil {
		c.intensive = map[string]int{intensiveSaid: said, intensiveMeasured: len(uids)}
	}
	for _, uid := range uids {
		if p := c.node.Pods.Of(uid); p != nil && !c.node.Manager.Pools.Measured(uid) {
			const giga = 1e9
			c.node.Events.Note(p.Ref, allocate.Note{Reason: spec.ReasonMemoryIntensive, Message: fmt.Sprintf(
				"it was read to take more memory bandwidth than %.1f GB/s (node.memoryBandwidth.intensiveBytesPerSecond) for a minute, and counts as memory-intensive on this node", float64(threshold)/giga)})
		}
	}
	return c.node.Manager.Pools.SetMeasured(uids)
}

// of is what a pod takes, in bytes per second.
func (c *memoryBandwidth) of(p *pods.Pod, now time.Time) advise.Sample {
	if c.reader == nil || c.parts == nil {
		return advise.Sample{}
	}
	return c.reader.Of(p.Ref.UID, now).Total
}

// status is what is counted.
func (c *memoryBandwidth) status() (s bandwidth.Status, parts map[BandwidthPart]float64) {
	if c.reader != nil {
		s = c.reader.Status()
	}
	return s, maps.Clone(c.parts)
}

// lacks says that bandwidth is not known, and why, in no more than the report takes; empty: it is, of some pod at least.
func (c *memoryBandwidth) lacks() string {
	const signal = "memory bandwidth"
	if c.known {
		return ""
	}
	if c.node.options.Config.MemoryBandwidth.Groups == 0 {
		return signal + ": node.memoryBandwidth.groups is 0"
	}
	switch s, _ := c.status(); {
	case s.Why == nil:
		return signal
	case errors.Is(s.Why, bandwidth.ErrAbsent):
		return signal + ": " + bandwidth.ErrAbsent.Error()
	default:
		text := signal + ": " + s.Why.Error()
		return strings.ToValidUTF8(text[:min(len(text), spec.MaxInterferenceUnknown)], "")
	}
}
