package kube

import (
	"context"
	"sync"
	"time"

	nodev1alpha1 "hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/topology"
)

// nodeReport is a CustomNodeResource as far as the ledger is concerned, and when the agent vouched for it by the node's clock.
type nodeReport struct {
	node     string
	report   *cluster.NodeReport
	observed time.Time
}

// NodeReport parses a CustomNodeResource. What cannot be read promises nothing.
func (p *Parser) NodeReport(n *nodev1alpha1.CustomNodeResource) *cluster.NodeReport {
	shape, held, err := ParseNodeReport(&n.Status.NodeStatus)
	if err != nil {
		p.warner.warn("customnoderesource "+n.Name, "the report is malformed, so that nothing is promised by zone", "err", err)
		return &cluster.NodeReport{Why: cluster.ReportMalformed}
	}
	return &cluster.NodeReport{Zones: shape, Held: held}
}

// freshness turns reports into events, and tells of those that nobody has vouched for in time. That an agent has looked once more is known
// from its clock having moved, how long ago from ours; only of the first report that is seen of a node both clocks are compared.
type freshness struct {
	out   receiver
	after time.Duration
	now   func() time.Time

	mu    sync.Mutex // held while anything is sent, so that "stale" never overtakes what is fresh
	nodes map[string]*vouched
}

// vouched is what was last said of a node, and until when it counts.
type vouched struct {
	nodeReport
	until time.Time
	stale bool
}

func newFreshness(out receiver, after time.Duration) *freshness {
	return &freshness{out: out, after: after, now: time.Now, nodes: make(map[string]*vouched)}
}

func (f *freshness) send(e cluster.Event) error { return f.out.send(e) }

// upserted takes in a report.
func (f *freshness) upserted(r nodeReport) cluster.Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.note(r)
}

func (f *freshness) removed(n objectName) cluster.Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.nodes, n.name)
	return cluster.NodeReportRemoved{Node: n.name}
}

func (f *freshness) listed(list []nodeReport) cluster.Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.nodes
	f.nodes = make(map[string]*vouched, len(list))
	var out cluster.ReportsListed
	for _, r := range list {
		if known := before[r.node]; known != nil {
			f.nodes[r.node] = known
		}
		out.Reports = append(out.Reports, f.note(r))
	}
	return out
}

// absent tells that nobody reports.
func (f *freshness) absent() error { return f.send(f.listed(nil)) }

// note works out until when a report counts.
func (f *freshness) note(r nodeReport) cluster.NodeReported {
	now := f.now()
	known := f.nodes[r.node]
	switch {
	case known == nil:
		age := max(now.Sub(r.observed), 0)
		known = &vouched{until: now.Add(f.after - age)}
		f.nodes[r.node] = known
	case !known.observed.Equal(r.observed):
		known.until = now.Add(f.after)
	}
	known.nodeReport, known.stale = r, !known.until.After(now)
	return known.event()
}

func (v *vouched) event() cluster.NodeReported {
	if !v.stale || v.report.Zones.Ruler == topology.RulerNone {
		return cluster.NodeReported{Node: v.node, Report: v.report}
	}
	stale := *v.report
	stale.Zones.Ruler, stale.Why = topology.RulerNone, cluster.ReportStale
	return cluster.NodeReported{Node: v.node, Report: &stale}
}

// expire tells of the reports that have become stale.
func (f *freshness) expire() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	for _, v := range f.nodes {
		if v.stale || v.until.After(now) {
			continue
		}
		v.stale = true
		if err := f.out.send(v.event()); err != nil {
			return err
		}
	}
	return nil
}

// run expires reports until ctx ends. A report counts for at most an eighth longer than it should.
func (f *freshness) run(ctx context.Context) {
	ticker := time.NewTicker(max(f.after/8, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
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
func mirrorReports(f *freshness, p *Parser) *mirror[*nodev1alpha1.CustomNodeResource, nodeReport] {
	return &mirror[*nodev1alpha1.CustomNodeResource, nodeReport]{
		out: f, resource: nodev1alpha1.CustomNodeResources, known: make(map[objectName]nodeReport),
		parse: func(n *nodev1alpha1.CustomNodeResource) (nodeReport, bool) {
			if unwritten(n) {
				return nodeReport{}, false
			}
			return nodeReport{p.strings.get(n.Name), p.NodeReport(n), n.Status.ObservedAt.Time}, true
		},
		equal: func(a, b nodeReport) bool {
			return a.observed.Equal(b.observed) && cluster.SameReport(a.report, b.report)
		},
		upserted: func(r nodeReport) cluster.Event { return f.upserted(r) },
		removed:  f.removed,
		listed:   f.listed,
	}
}
