package controller

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/control/tide"
	"hilbert.dev/hilbert/kube/tides"
)

// report writes how a pool stands.
func (t *tider) report(ctx context.Context, s *standing, now time.Time) {
	status := s.pool.Object.Status.TidePoolStatus
	if s.failed != nil {
		t.write(ctx, s.pool, &status, unknownFor(s.failed), now)
		return
	}
	if s.pool.Invalid == "" {
		status = statusOf(s)
		t.meter.show(s)
	}
	t.write(ctx, s.pool, &status, conditionsOf(s), now)
}

func (t *tider) write(ctx context.Context, p *tides.Pool, status *spec.TidePoolStatus, conditions []spec.NodeCondition, now time.Time) {
	if _, err := t.client.Status(ctx, p, status, conditions, now); err != nil {
		t.log.Warn("the status of a TidePool was not written; it is tried again", "pool", p.Object.Name, "err", err)
	}
}

// unknown says of all pools that nothing is known of their pods.
func (t *tider) unknown(ctx context.Context, pools []tides.Pool, err error, now time.Time) {
	for i := range pools {
		p := &pools[i]
		if p.Invalid != "" {
			continue
		}
		status := p.Object.Status.TidePoolStatus
		t.write(ctx, p, &status, unknownFor(err), now)
	}
}

// unknownFor are the conditions of a pool that is right, and about which nothing could be decided.
func unknownFor(err error) []spec.NodeCondition {
	return []spec.NodeCondition{
		{Type: spec.ConditionTideValid, True: true, Reason: spec.ReasonTideValid},
		{Type: spec.ConditionTideSatisfied, Unknown: true, Reason: spec.ReasonTideUnknown, Message: err.Error()},
	}
}

var tideReasons = map[tide.Outcome]string{
	tide.Satisfied: spec.ReasonTideSatisfied, tide.Changing: spec.ReasonTideChanging, tide.Bounded: spec.ReasonTideBounded, tide.Short: spec.ReasonTideShort, tide.Paused: spec.ReasonTidePaused,
}

func conditionsOf(s *standing) []spec.NodeCondition {
	if s.pool.Invalid != "" {
		return []spec.NodeCondition{
			{Type: spec.ConditionTideValid, Reason: spec.ReasonTideInvalid, Message: s.pool.Invalid},
			{Type: spec.ConditionTideSatisfied, Unknown: true, Reason: spec.ReasonTideInvalid, Message: "its nodes stay as they are"},
		}
	}
	valid := spec.NodeCondition{Type: spec.ConditionTideValid, True: true, Reason: spec.ReasonTideValid}
	if s.overlaps != "" {
		valid = spec.NodeCondition{Type: spec.ConditionTideValid, Reason: spec.ReasonTideOverlaps, Message: "an older TidePool has node " + s.overlaps + " and perhaps others; they are left to it"}
	}
	d := &s.decision
	return []spec.NodeCondition{valid, {Type: spec.ConditionTideSatisfied, True: d.Outcome == tide.Satisfied, Reason: tideReasons[d.Outcome], Message: d.Message}}
}

// statusOf is how a pool stands after what was done.
func statusOf(s *standing) spec.TidePoolStatus {
	d := &s.decision
	out := spec.TidePoolStatus{Nodes: d.Nodes, Wanted: d.Wanted, Why: d.Why, LowMost: d.Most}
	for i := range s.view.Nodes {
		n := &s.view.Nodes[i]
		if !n.Open {
			continue
		}
		other := n.Offline.Pods
		if n.Side == tide.Offline {
			out.Offline++
			other = n.Online.Pods
		} else {
			out.Online++
		}
		if n.Side != tide.Unassigned && other > 0 {
			out.Changing = append(out.Changing, spec.TideChanging{Node: n.Name, To: n.Side.String(), Pods: other, Why: clip(s.stays[n.Name])})
		}
	}
	slices.SortFunc(out.Changing, func(a, b spec.TideChanging) int { return cmp.Compare(a.Node, b.Node) })
	out.Changing = out.Changing[:min(len(out.Changing), maxTideChanging)]
	if d.Next != nil {
		out.Next = &spec.TideNext{Name: d.Next.Name, Begins: d.Next.Begins.UTC(), Online: d.Next.Online}
	}
	if s.pool.Spec.Forecast {
		out.Forecast, out.ForecastHistory = clip(s.view.Forecast.Reason), s.history
	}
	if !d.Low.IsZero() {
		out.LowSince = new(d.Low.UTC())
	}
	for _, h := range d.HandOvers {
		out.HandOvers = append(out.HandOvers, spec.TideHandOvers{At: h.At.UTC(), Nodes: h.Nodes})
	}
	return out
}

// clip bounds a text of a status.
func clip(text string) string {
	const most = 1000
	return text[:min(len(text), most)]
}

// tideMeter exports how TidePools stand. There are at most maxTidePools of them.
type tideMeter struct {
	rounds  *prometheus.CounterVec
	hands   *prometheus.CounterVec
	nodes   *prometheus.GaugeVec
	wanted  *prometheus.GaugeVec
	leaving atomic.Int64
	shown   map[string]bool // pools, of the one goroutine that decides
}

var tideLeaving = prometheus.NewDesc("hilbert_tide_pods_leaving", "Pods that are to leave nodes that have changed hands, and are not on their way yet.", nil, nil)

func newTideMeter() *tideMeter {
	return &tideMeter{
		shown:  make(map[string]bool),
		rounds: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "hilbert_tide_rounds_total", Help: "Decisions about all TidePools, by result: done or failed."}, []string{"result"}),
		hands: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hilbert_tide_nodes_handed_total", Help: "Nodes that changed hands, by the side that has them (online, offline) and result (done, failed).",
		}, []string{"to", "result"}),
		nodes:  prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "hilbert_tide_nodes", Help: "Nodes of a TidePool that take pods, by side (online, offline)."}, []string{"pool", "side"}),
		wanted: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "hilbert_tide_wanted_nodes", Help: "Nodes that online should have, by TidePool."}, []string{"pool"}),
	}
}

func (m *tideMeter) handed(to tide.Side, first bool, err error) {
	if first && err == nil {
		return // it was online's before
	}
	result := "done"
	if err != nil {
		result = "failed"
	}
	m.hands.WithLabelValues(to.String(), result).Inc()
}

func (m *tideMeter) show(s *standing) {
	name, status := s.pool.Object.Name, statusOf(s)
	m.shown[name] = true
	m.nodes.WithLabelValues(name, spec.TideOnline).Set(float64(status.Online))
	m.nodes.WithLabelValues(name, spec.TideOffline).Set(float64(status.Offline))
	m.wanted.WithLabelValues(name).Set(float64(status.Wanted))
}

// keep forgets pools that are gone.
func (m *tideMeter) keep(pools []tides.Pool) {
	if len(pools) == 0 {
		m.leaving.Store(0)
	}
	for name := range m.shown {
		if !slices.ContainsFunc(pools, func(p tides.Pool) bool { return p.Object.Name == name }) {
			m.nodes.DeletePartialMatch(prometheus.Labels{"pool": name})
			m.wanted.DeleteLabelValues(name)
			delete(m.shown, name)
		}
	}
}

// Describe implements prometheus.Collector.
func (m *tideMeter) Describe(out chan<- *prometheus.Desc) {
	for _, c := range []prometheus.Collector{m.rounds, m.hands, m.nodes, m.wanted} {
		c.Describe(out)
	}
	out <- tideLeaving
}

// Collect implements prometheus.Collector.
func (m *tideMeter) Collect(out chan<- prometheus.Metric) {
	for _, c := range []prometheus.Collector{m.rounds, m.hands, m.nodes, m.wanted} {
		c.Collect(out)
	}
	out <- prometheus.MustNewConstMetric(tideLeaving, prometheus.GaugeValue, float64(m.leaving.Load()))
}
