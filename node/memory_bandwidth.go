package node

import (
	"context"
	"errors"
	"maps"
	"strings"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/bandwidth"
)

// MemoryBandwidth says how much memory bandwidth pods take: bandwidth.Poller, or what a test has in its place.
type MemoryBandwidth interface {
	Watch(pods []bandwidth.Pod)
	Of(uid string, now time.Time) bandwidth.Use
	Status() bandwidth.Status
	Run(ctx context.Context)
}

// BandwidthPart is which memory bandwidth is added up: that of online or of reclaimed pods in a domain of the last-level cache.
type BandwidthPart struct {
	Domain    int
	Reclaimed bool
}

// memoryBandwidth has the memory bandwidth of the pods read that matter most, where that is wanted.
type memoryBandwidth struct {
	node   *nodeState
	reader MemoryBandwidth // nil: there is none
	parts  map[BandwidthPart]float64
	known  bool // of any pod in the last observation
}

// Tick implements controller.
func (c *memoryBandwidth) Tick(in *inputs) (changed bool) {
	c.parts, c.known = nil, false
	if c.reader == nil || c.node.options.Config.MemoryBandwidth.Groups == 0 {
		return false
	}
	c.parts = make(map[BandwidthPart]float64)
	sensitive := false
	var list []bandwidth.Candidate
	for _, p := range c.node.pods.sorted() {
		asked, pool, ok := c.node.manager.Pod(p.name.UID)
		if !ok || p.cgroup == "" {
			continue
		}
		word := asked.QoS.Bandwidth
		sensitive = sensitive || word == spec.BandwidthSensitive
		reclaimed := pool == spec.PoolReclaimed
		list = append(list, bandwidth.Candidate{
			Pod: bandwidth.Pod{UID: p.name.UID, Cgroup: p.cgroup, Reclaimed: reclaimed}, Said: word != "", Use: orNaN(rateOf(in.seen.use(p.cgroup).CPU.Usage)),
		})
		use := c.reader.Of(p.name.UID, in.now)
		c.known = c.known || use.Total.Known
		for domain, rate := range use.Domains {
			c.parts[BandwidthPart{domain, reclaimed}] += rate
		}
	}
	c.reader.Watch(bandwidth.Order(list, sensitive, c.node.options.Config.MemoryBandwidth.Groups))
	return false
}

// of is what a pod takes, in bytes per second.
func (c *memoryBandwidth) of(p *pod, now time.Time) advise.Sample {
	if c.reader == nil || c.parts == nil {
		return advise.Sample{}
	}
	return c.reader.Of(p.name.UID, now).Total
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
