package kube

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"

	nodev1alpha1 "hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/internal/clock"
	"hilbert.dev/hilbert/kube/parse"
	"hilbert.dev/hilbert/topology"
)

// nodeReport is a CustomNodeResource as far as the ledger is concerned, and when the agent vouched for it by the node's clock.
type nodeReport struct {
	node     string
	report   *facts.NodeReport
	observed time.Time
}

// staleAges are the ages from which parts of a report are not acted on.
type staleAges struct {
	promises time.Duration // NUMA nodes and devices, and with them all the rest
	lent     time.Duration // headroom and eviction requests
	usage    time.Duration
}

// staleParts says which parts of a report are too old to act on.
type staleParts struct{ promises, lent, usage bool }

// at is what is stale at an age.
func (a *staleAges) at(age time.Duration) staleParts {
	return staleParts{age >= a.promises, age >= min(a.lent, a.promises), age >= min(a.usage, a.promises)}
}

// freshness turns reports into events, and sends an event when a part of a report becomes stale.
// A new observation shows in the agent's clock, which has moved; its age is measured by our own clock. The two clocks are compared only for the first
// report of a node.
type freshness struct {
	out  receiver
	ages staleAges
	now  func() time.Time
	by   clock.Clock
	// inForce, if set, is told what keeps promises from being made: that some policy is not in force; empty: nothing does.
	inForce func(missing string)

	mu    sync.Mutex // held while anything is sent, so that "stale" never overtakes what is fresh
	nodes map[string]*vouched
	// unguarded is why nothing is promised; empty: the policies that keep promises true are in force, or are not asked for.
	unguarded string
}

// vouched is the last report of a node, and until when it counts.
type vouched struct {
	nodeReport
	seen     time.Time // when, by our clock, the agent had looked
	stale    staleParts
	silent   *topology.Devices
	silentOf *topology.Devices // what silent was made of
}

func newFreshness(out receiver, ages staleAges) *freshness {
	return &freshness{out: out, ages: ages, now: time.Now, by: clock.Real{}, nodes: make(map[string]*vouched)}
}

// goBy makes ages those of a clock. It is called before the first report.
func (f *freshness) goBy(c clock.Clock) { f.now, f.by = c.Now, c }

// guard takes in what is missing of the policies that keep promises true; empty: nothing. While something is, no report promises anything.
func (f *freshness) guard(missing string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.inForce != nil {
		f.inForce(missing)
	}
	if missing == f.unguarded {
		return nil
	}
	f.unguarded = missing
	for _, v := range f.nodes {
		if err := f.out.send(v.event(missing)); err != nil {
			return err
		}
	}
	return nil
}

func (f *freshness) send(e facts.Event) error { return f.out.send(e) }

// upserted takes in a report.
func (f *freshness) upserted(r nodeReport) facts.Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.note(r)
}

func (f *freshness) removed(n cache.ObjectName) facts.Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.nodes, n.Name)
	return facts.NodeReportRemoved{Node: n.Name}
}

func (f *freshness) listed(list []nodeReport) facts.Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.nodes
	f.nodes = make(map[string]*vouched, len(list))
	var out facts.ReportsListed
	for _, r := range list {
		if known := before[r.node]; known != nil {
			f.nodes[r.node] = known
		}
		out.Reports = append(out.Reports, f.note(r))
	}
	return out
}

// absent sends the event that the node has no report.
func (f *freshness) absent() error { return f.send(f.listed(nil)) }

// note works out since when a report counts.
func (f *freshness) note(r nodeReport) facts.NodeReported {
	now := f.now()
	known := f.nodes[r.node]
	switch {
	case known == nil:
		age := max(now.Sub(r.observed), 0)
		known = &vouched{seen: now.Add(-age)}
		f.nodes[r.node] = known
	case !known.observed.Equal(r.observed):
		known.seen = now
	}
	known.nodeReport = r
	f.judge(known, now)
	return known.event(f.unguarded)
}

// judge finds out what has become stale, and reports whether anything has since the last time.
func (f *freshness) judge(v *vouched, now time.Time) (more bool) {
	was := v.stale
	v.stale = f.ages.at(now.Sub(v.seen))
	return v.stale.promises && !was.promises || v.stale.lent && !was.lent || v.stale.usage && !was.usage
}

// event is the report without the parts that must not be acted on: because they are stale, or because of unguarded.
func (v *vouched) event(unguarded string) facts.NodeReported {
	withheld := v.stale.promises || unguarded != ""
	numaNodes := withheld && v.report.NUMANodes.Ruler != topology.RulerNone
	lent := v.stale.lent && (len(v.report.Evictions) > 0 || v.report.Headroom.State == facts.HeadroomOpen || v.report.Headroom.State == facts.HeadroomClosed)
	closed := unguarded != "" && v.report.Headroom.State == facts.HeadroomOpen
	devices := withheld && v.report.Devices != nil
	usage := v.stale.usage && v.report.Usage.Known()
	resources := withheld && len(v.report.Resources) > 0
	apart := withheld && len(v.report.Apart) > 0
	over := (v.stale.usage || withheld) && v.report.Overcommit != (facts.Overcommit{})
	if !numaNodes && !lent && !devices && !usage && !closed && !resources && !over && !apart {
		return facts.NodeReported{Node: v.node, Report: v.report}
	}
	why := facts.ReportStale
	if !v.stale.promises {
		why = facts.ReportUnguarded
	}
	shown := *v.report
	if devices {
		shown.Devices, shown.DeviceNote = v.silenced(), why
	}
	if resources {
		shown.Resources, shown.ByNUMANode = nil, nil
	}
	if numaNodes {
		shown.NUMANodes.Ruler, shown.Why = topology.RulerNone, why
	}
	if usage {
		shown.Usage = facts.Usage{}
	}
	if apart {
		shown.Apart = nil
	}
	if over {
		shown.Overcommit = facts.Overcommit{}
	}
	if closed {
		shown.Headroom.State, shown.Headroom.Note = facts.HeadroomClosed, "the admission policies are not in force: "+unguarded
	}
	if lent {
		shown.Headroom.State, shown.Evictions = facts.HeadroomStale, nil
	}
	return facts.NodeReported{Node: v.node, Report: &shown}
}

// silenced is the report's devices while the report is stale: none gives anything new. For a node whose kubelet gives out the GPUs, which is known
// without the agent, it is nil.
func (v *vouched) silenced() *topology.Devices {
	d := v.report.Devices
	switch {
	case d.Owner == topology.OwnerKubelet:
		return nil
	case v.silentOf != d:
		v.silent, v.silentOf = new(*d), d
		v.silent.Owner = topology.OwnerNone
		v.silent.ClosedGPUs, v.silent.ClosedNICs = 1<<len(d.GPU)-1, 1<<len(d.NIC)-1
	}
	return v.silent
}

// expire sends events for the reports that have become stale.
func (f *freshness) expire() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	for _, v := range f.nodes {
		if !f.judge(v, now) {
			continue
		}
		if err := f.out.send(v.event(f.unguarded)); err != nil {
			return err
		}
	}
	return nil
}

// run expires reports until ctx ends. A report counts for at most an eighth longer than it should.
func (f *freshness) run(ctx context.Context) {
	ticker := f.by.NewTicker(max(min(f.ages.promises, f.ages.lent, f.ages.usage)/8, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			if f.expire() != nil {
				return
			}
		}
	}
}

// unwritten reports whether an object is without a status yet: an agent creates it first and then says what there is, in two writes.
func unwritten(n *nodev1alpha1.CustomNodeResource) bool {
	return n.Status.ObservedAt.IsZero() && n.Status.Mode == ""
}

// mirrorReports mirrors CustomNodeResources. One that says the same again is passed on all the same: that it was said is news.
func mirrorReports(f *freshness, p *parse.Parser) *mirror[*nodev1alpha1.CustomNodeResource, nodeReport] {
	return &mirror[*nodev1alpha1.CustomNodeResource, nodeReport]{
		out: f, resource: nodev1alpha1.CustomNodeResources, known: make(map[cache.ObjectName]nodeReport),
		parse: func(n *nodev1alpha1.CustomNodeResource) (nodeReport, bool) {
			if unwritten(n) {
				return nodeReport{}, false
			}
			return nodeReport{p.Intern(n.Name), p.NodeReport(n), n.Status.ObservedAt.Time}, true
		},
		equal: func(a, b nodeReport) bool {
			return a.observed.Equal(b.observed) && facts.SameReport(a.report, b.report)
		},
		upserted: func(r nodeReport) facts.Event { return f.upserted(r) },
		removed:  f.removed,
		listed:   f.listed,
	}
}
