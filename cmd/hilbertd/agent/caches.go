package agent

import (
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/endpoints"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/bandwidth"
	"hilbert.dev/hilbert/node/enforce"
	"hilbert.dev/hilbert/node/rdt"
	"hilbert.dev/hilbert/node/rdt/throttle"
)

// The metrics of what moves in the memory, and of what follows. There are as many as domains, whatever pods there are.
var (
	memoryMoved    = agentDesc("memory_domain_bytes_per_second", "Memory bandwidth of the whole machine by domain of the last-level cache, and of that what reclaimed pods move (all, reclaimed). What is not known is missing.", "domain", "pods")
	memoryPercent  = agentDesc("memory_throttle_percent", "Share of the memory bandwidth that the hardware allows reclaimed pods, by domain of the last-level cache.", "domain")
	memoryState    = agentDesc("memory_throttle_state", "1 for how a domain of the last-level cache stands: free, throttled, full (and reclaimed pods cannot be slowed down further), unknown for a moment, or stale, so that node.lending.rdt.bandwidthPercent counts.", "domain", "state")
	memoryGrowth   = agentDesc("memory_growth_held", "1 while no more is lent because memory is full and reclaimed pods cannot be slowed down further.")
	memoryThrottle = []*prometheus.Desc{memoryMoved, memoryPercent, memoryState, memoryGrowth}
)

// caches governs the last-level cache and the memory bandwidth, where the processor can divide them.
type caches struct {
	tree    rdt.Tree
	cgroups string // where the hierarchy is mounted
	wanted  spec.LendingRDT
	log     *slog.Logger
	control *rdt.Control // nil: it is not open
	removed bool         // no group of ours is there
	looked  time.Duration
	notes   []allocate.Note

	domains bandwidth.Domains
	known   []int // the domains that were read last
	law     throttle.State
	seen    atomic.Pointer[throttled] // nil: nothing is followed
}

// throttled is the last reading and what followed.
type throttled struct {
	moved []bandwidth.Traffic
	fixed bool
	throttle.Decision
}

func newCaches(t rdt.Tree, cgroups string, wanted spec.LendingRDT, log *slog.Logger) *caches {
	return &caches{tree: t, cgroups: cgroups, wanted: wanted, log: log, domains: bandwidth.Domains{Tree: t}}
}

// cachesEvery is how often new threads are looked for, and what moves is read.
const cachesEvery = 10 * time.Second

// Adjust implements node.Adjustable: other parameters count from the next call on.
func (c *caches) Adjust(p *spec.LendingParameters) {
	if c.wanted != p.RDT {
		c.wanted, c.looked = p.RDT, 0
	}
}

// MemoryFull implements node.MemoryObserver.
func (c *caches) MemoryFull() bool {
	seen := c.seen.Load()
	return seen != nil && seen.HoldGrowth
}

func (c *caches) Tick(at time.Duration, pods []enforce.Pod) ([]enforce.DesiredKnob, []allocate.Note) {
	if !c.wanted.Enabled {
		c.off()
		return nil, nil
	}
	if c.looked != 0 && at-c.looked < cachesEvery {
		return nil, c.notes
	}
	c.looked, c.notes, c.removed = at, nil, false
	err := c.open()
	shares := c.follow(at)
	if err == nil {
		err = c.step(shares, pods)
	}
	if err != nil {
		c.notes = append(c.notes, allocate.Note{Reason: spec.ReasonRDTFailed, Message: err.Error()})
	}
	return nil, c.notes
}

// off removes the groups, those of an agent before this one too.
func (c *caches) off() {
	if c.removed {
		return
	}
	c.looked, c.notes, c.control, c.removed = 0, nil, nil, true
	c.forget()
	if err := rdt.Remove(c.tree); err != nil {
		c.log.Warn("remove the cache groups", "err", err)
	}
}

func (c *caches) forget() {
	c.law, c.known = throttle.State{}, nil
	c.seen.Store(nil)
}

func (c *caches) open() (err error) {
	if c.control == nil {
		if c.control, err = rdt.Open(c.tree); err != nil {
			c.control = nil
		}
	}
	return err
}

// follow reads what moves in the memory, and returns the shares of reclaimed pods that follow, by domain. Nil: the configured one counts.
func (c *caches) follow(at time.Duration) map[int]float64 {
	const percent = 100
	f := &c.wanted.Feedback
	if f.DomainBytesPerSecond == 0 {
		c.forget()
		return nil
	}
	list, err := c.domains.Read(at)
	if err == nil {
		c.known = c.known[:0]
		for i := range list {
			c.known = append(c.known, list[i].Domain)
		}
	} else {
		list = make([]bandwidth.Traffic, len(c.known))
		for i, domain := range c.known {
			list[i].Domain = domain
		}
	}
	o := throttle.Observation{At: at, Fixed: c.control == nil || c.control.Hardware.Bandwidth == nil}
	for i := range list {
		o.Domains = append(o.Domains, throttle.Domain{ID: list[i].Domain, Total: list[i].Total, Reclaimed: list[i].Reclaimed})
	}
	p := throttle.Params{
		Carries: float64(f.DomainBytesPerSecond), High: float64(f.HighPercent) / percent, Low: float64(f.LowPercent) / percent,
		Most: c.wanted.BandwidthPercent, Least: f.LeastPercent, Step: throttle.DefaultStep, Hold: f.Hold.D(), Stale: throttle.DefaultStale,
	}
	seen := &throttled{moved: list, fixed: o.Fixed}
	seen.Decision, c.law = throttle.Step(&o, &p, c.law)
	c.seen.Store(seen)
	c.notes = append(c.notes, seen.notes(err)...)
	shares := make(map[int]float64, len(seen.Domains))
	for _, s := range seen.Domains {
		shares[s.Domain] = float64(s.Percent) / percent
	}
	return shares
}

// notes are what people should know. err is why nothing could be read now.
func (s *throttled) notes(err error) (out []allocate.Note) {
	var stale []int
	for _, d := range s.Domains {
		if d.Kind == throttle.Stale {
			stale = append(stale, d.Domain)
		}
	}
	const static = "reclaimed pods have node.lending.rdt.bandwidthPercent"
	switch {
	case len(s.Domains) == 0 && err != nil:
		out = append(out, allocate.Note{Reason: spec.ReasonBandwidthUnread, Message: fmt.Sprintf("what moves in the memory cannot be read: %s: %v", static, err)})
	case len(stale) > 0:
		out = append(out, allocate.Note{Reason: spec.ReasonBandwidthUnread, Message: fmt.Sprintf("what moves in the memory has not been known for %v in the domains %v: %s there", throttle.DefaultStale, stale, static)})
	}
	if s.fixed && len(s.Domains) > 0 {
		out = append(out, allocate.Note{Reason: spec.ReasonBandwidthFixed, Message: "the processor counts memory bandwidth and cannot limit it: while a domain is full with what reclaimed pods move, no more is lent"})
	}
	return out
}

// step brings the groups to what is wanted.
func (c *caches) step(shares map[int]float64, pods []enforce.Pod) error {
	const percent = 100
	groups := make(map[rdt.Group][]string)
	for _, p := range pods {
		group := rdt.Online
		if p.Level == spec.QoSReclaimed {
			group = rdt.Reclaimed
		}
		groups[group] = append(groups[group], p.Cgroup)
	}
	p := rdt.Params{CacheShare: float64(c.wanted.CachePercent) / percent, BandwidthShare: float64(c.wanted.BandwidthPercent) / percent, Domains: shares}
	return c.control.Step(p, c.cgroups, groups)
}

func (c *caches) Close() {
	if c.control == nil {
		return
	}
	if err := c.control.Close(); err != nil {
		c.log.Warn("remove the cache groups", "err", err)
	}
}

// Describe implements prometheus.Collector.
func (c *caches) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range memoryThrottle {
		out <- desc
	}
}

// Collect implements prometheus.Collector. It sends nothing where nothing is followed.
func (c *caches) Collect(out chan<- prometheus.Metric) {
	seen := c.seen.Load()
	if seen == nil {
		return
	}
	send := func(desc *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	for _, t := range seen.moved {
		domain := strconv.Itoa(t.Domain)
		if t.Total.Known {
			send(memoryMoved, t.Total.Value, domain, "all")
		}
		if t.Reclaimed.Known {
			send(memoryMoved, t.Reclaimed.Value, domain, "reclaimed")
		}
	}
	for _, s := range seen.Domains {
		domain := strconv.Itoa(s.Domain)
		if !seen.fixed {
			send(memoryPercent, float64(s.Percent), domain)
		}
		for _, kind := range throttle.Kinds {
			send(memoryState, endpoints.OneIf(s.Kind == kind), domain, string(kind))
		}
	}
	send(memoryGrowth, endpoints.OneIf(seen.HoldGrowth))
}
