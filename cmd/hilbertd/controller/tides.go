package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/control/reschedule"
	"hilbert.dev/hilbert/control/tide"
	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/lease"
	"hilbert.dev/hilbert/kube/tides"
	"hilbert.dev/hilbert/schedule/inspect"
	"hilbert.dev/hilbert/sim/whatif"
)

const (
	// maxTidePools bounds the TidePools that are served, the oldest first: each is a view of its nodes, and a few metrics.
	maxTidePools = 64
	// maxTideChanging bounds the nodes that a status names.
	maxTideChanging = 32
)

// tider has nodes of TidePools change hands, beside a mover, whose carrier and budget it uses.
type tider struct {
	client *tides.Client
	config spec.Tides
	log    *slog.Logger
	meter  *tideMeter
	// together is how many pods can be evicted together, and so how many members a gang has at the most that is moved.
	together int

	at      time.Time // of the next round
	history map[string]*tide.History
}

// newTider returns nil where no nodes change hands.
func newTider(c *spec.Configuration, connection *apiserver.Connection, fence *lease.Fence, log *slog.Logger, meter *tideMeter) (*tider, error) {
	if !c.Controller.Tides.Enabled {
		return nil, nil
	}
	client, err := tides.New(connection, fence, controllerTimeout)
	if err != nil {
		return nil, err
	}
	together := min(c.Rescheduling.MaxInFlight, c.Controller.Disturbances.Burst)
	return &tider{client: client, config: c.Controller.Tides, log: log, meter: meter, together: together, history: make(map[string]*tide.History)}, nil
}

func (t *tider) close() {
	if t != nil {
		t.client.Close()
	}
}

// lead begins anew: what was decided before may be another leader's. What that has learnt is in the pools' status.
func (t *tider) lead() {
	if t != nil {
		t.at = time.Time{}
		clear(t.history)
	}
}

// round decides about all pools when it is time.
func (t *tider) round(ctx context.Context, m *mover, now time.Time) {
	if t == nil || now.Before(t.at) {
		return
	}
	t.at = now.Add(t.config.Interval.D())
	result := "done"
	if err := t.decide(ctx, m, now.Truncate(time.Second)); err != nil {
		result = "failed"
		if ctx.Err() == nil {
			t.log.Warn("nothing was decided about TidePools; it is tried again", "err", err)
		}
	}
	t.meter.rounds.WithLabelValues(result).Inc()
}

// standing is a pool in one round.
type standing struct {
	pool     *tides.Pool
	belongs  map[string]whatif.Belongs
	overlaps string // a node that an older pool has
	view     tide.View
	decision tide.Decision
	history  string            // what the forecast has learnt, for the next leader
	stays    map[string]string // why pods on nodes of the other side stay, by node
	failed   error             // why nothing was decided: then its nodes stay as they are
}

func (t *tider) decide(ctx context.Context, m *mover, now time.Time) error {
	pools, err := t.client.Pools(ctx)
	if err != nil {
		return err
	}
	marked, err := t.client.Nodes(ctx)
	if err != nil {
		return err
	}
	t.forget(pools)
	if len(pools) == 0 && len(marked) == 0 {
		return nil
	}
	dump, err := m.snapshot(ctx)
	if err != nil {
		t.unknown(ctx, pools, err, now)
		return err
	}
	list := t.standings(pools, marked, dump)
	t.release(ctx, pools, marked, list, dump)
	sides := make(map[string]tide.Side)
	for _, s := range list {
		for name, b := range s.belongs {
			sides[name] = b.Side
		}
	}
	dump = whatif.HandOver(dump, sides) // the scheduler's watch may be behind what the nodes say
	var failed []error
	for _, s := range list {
		if s.failed = t.choose(ctx, m, s, dump, now); s.failed != nil {
			if failed = append(failed, s.failed); ctx.Err() != nil {
				return ctx.Err()
			}
			continue // others are decided about all the same
		}
		t.hand(ctx, s, now)
	}
	t.leave(ctx, m, list, dump, now)
	for _, s := range list {
		t.report(ctx, s, now)
	}
	return errors.Join(append(failed, ctx.Err())...)
}

// forget forgets what was learnt of pools that are gone.
func (t *tider) forget(pools []tides.Pool) {
	for name := range t.history {
		if !slices.ContainsFunc(pools, func(p tides.Pool) bool { return p.Object.Name == name }) {
			delete(t.history, name)
		}
	}
	t.meter.keep(pools)
}

// standings says which nodes belong to which pool. A node that two pools select is the older one's. Of a pool with a mistake the nodes stay as they are.
func (t *tider) standings(pools []tides.Pool, marked map[string]tides.Node, dump *inspect.Dump) []*standing {
	list := make([]*standing, len(pools))
	for i := range pools {
		p := &pools[i]
		if i >= maxTidePools && p.Invalid == "" {
			p.Invalid = fmt.Sprintf("there are more than %d TidePools, and this is not one of the oldest", maxTidePools)
		}
		list[i] = &standing{pool: p, belongs: make(map[string]whatif.Belongs), stays: make(map[string]string)}
	}
	for _, n := range dump.Ledger.Nodes {
		owner := ""
		for _, s := range list {
			name := s.pool.Object.Name
			has := s.pool.Selects(n.Labels) || s.pool.Invalid != "" && marked[n.Name].Pool == name
			switch {
			case !has:
			case owner != "":
				s.overlaps = n.Name
			default:
				owner = name
				b := whatif.Belongs{}
				if was, ok := marked[n.Name]; ok {
					b = whatif.Belongs{Side: was.Side, Since: was.Since}
				}
				s.belongs[n.Name] = b
			}
		}
	}
	return list
}

// release gives back nodes that belong to no pool any more. Of a node that the snapshot lacks nothing is known, so it stays as it is.
func (t *tider) release(ctx context.Context, pools []tides.Pool, marked map[string]tides.Node, list []*standing, dump *inspect.Dump) {
	known := make(map[string]bool, len(dump.Ledger.Nodes))
	for _, n := range dump.Ledger.Nodes {
		known[n.Name] = true
	}
	for name, n := range marked {
		if !known[name] || slices.ContainsFunc(list, func(s *standing) bool { _, ok := s.belongs[name]; return ok }) || ctx.Err() != nil {
			continue
		}
		if slices.ContainsFunc(pools, func(p tides.Pool) bool { return p.Object.Name == n.Pool && p.Invalid != "" }) {
			continue // it is not known whether it belongs to the pool: it stays as it is
		}
		if err := t.client.Release(ctx, name); err != nil {
			t.log.Warn("a node that belongs to no TidePool any more was not given back; it is tried again", "node", name, "err", err)
		} else {
			t.log.Info("a node belongs to no TidePool any more", "node", name, "pool", n.Pool)
		}
	}
}

// view makes a pool's view.
func (t *tider) view(m *mover, s *standing, dump *inspect.Dump, now time.Time) {
	p, status := &s.pool.Spec, &s.pool.Object.Status
	const percent = 100.0
	v := &s.view
	v.Pool = tide.Pool{
		ReserveOnline: p.Reserve.Online, ReserveOffline: p.Reserve.Offline, Windows: s.pool.Windows, Lead: p.Lead.D(), Stay: p.Stay.D(), Hold: p.Hold.D(),
		Slack: *p.Slack, PerHour: *p.NodesPerHour, Paused: p.Paused,
	}
	if status.LowSince != nil {
		v.Low, v.Most = *status.LowSince, status.LowMost
	}
	for _, h := range status.HandOvers {
		v.HandOvers = append(v.HandOvers, tide.HandOvers{At: h.At, Nodes: h.Nodes})
	}
	v.Nodes, v.Need, v.Waits = whatif.TideView(dump, s.belongs, float64(*p.HeadroomPercent)/percent)
	m.disturbances.Lock()
	v.Budget = m.disturbances.budget.Left(now)
	m.disturbances.Unlock()
	t.predict(s, now)
}

// predict has a pool's history see what online asks for now. A leader that sees the pool for the first time goes on from what the one before it wrote.
func (t *tider) predict(s *standing, now time.Time) {
	p, name := &s.pool.Spec, s.pool.Object.Name
	if !p.Forecast {
		delete(t.history, name)
		return
	}
	h := t.history[name]
	if h == nil {
		h = tide.ReadHistory(s.pool.Object.Status.ForecastHistory, p.Lead.D(), now)
		t.history[name] = h
		if why := h.Refused(); why != "" {
			t.log.Warn("the forecast of a TidePool begins anew", "pool", name, "why", why)
		}
	}
	var err error
	if s.view.Forecast, err = h.See(s.view.Need, p.Lead.D(), now); err == nil {
		s.history, err = h.Text()
	}
	if err != nil {
		s.history = s.pool.Object.Status.ForecastHistory
		t.log.Warn("what a TidePool's pods asked for was not written down; it is tried again", "pool", name, "err", err)
	}
}

// choose decides about a pool.
func (t *tider) choose(ctx context.Context, m *mover, s *standing, dump *inspect.Dump, now time.Time) (err error) {
	if s.pool.Invalid != "" {
		return nil
	}
	t.view(m, s, dump, now)
	rehearsal := whatif.HandOvers{Dump: dump, Belongs: s.belongs, Params: m.params()}
	if s.decision, err = rehearsal.Decide(ctx, &s.view, now); err != nil {
		return fmt.Errorf("rehearse what TidePool %s would do: %w", s.pool.Object.Name, err)
	}
	return nil
}

// hand gives nodes to sides. One that fails is decided upon anew.
func (t *tider) hand(ctx context.Context, s *standing, now time.Time) {
	name := s.pool.Object.Name
	for _, h := range s.decision.Hands {
		if ctx.Err() != nil {
			return
		}
		since := now
		if h.First {
			since = time.Time{}
		}
		err := t.client.Hand(ctx, h.Node, name, h.To, since)
		t.meter.handed(h.To, h.First, err)
		if err != nil {
			t.log.Warn("a node was not given to its side; it is decided upon anew", "pool", name, "node", h.Node, "to", h.To.String(), "err", err)
			continue
		}
		s.belongs[h.Node] = whatif.Belongs{Side: h.To, Since: since}
		if h.First {
			continue
		}
		t.log.Info("a node changes hands", "pool", name, "node", h.Node, "to", h.To.String(), "why", h.Why)
		if err := t.client.Tell(ctx, s.pool, fmt.Sprintf("node %s belongs to %s: %s", h.Node, h.To, h.Why), now); err != nil {
			t.log.Warn("an event was not written", "err", err)
		}
	}
}

// leave begins to move pods off nodes of the other side, as far as the budget allows.
func (t *tider) leave(ctx context.Context, m *mover, list []*standing, dump *inspect.Dump, now time.Time) {
	all, sides := make(map[facts.UID]whatif.Leave), make(map[string]tide.Side)
	for _, s := range list {
		if s.pool.Invalid != "" {
			continue
		}
		for name, b := range s.belongs {
			sides[name] = b.Side
		}
		for i := range s.view.Nodes { // as the nodes are after what was just done
			n := &s.view.Nodes[i]
			n.Side, n.Since = s.belongs[n.Name].Side, s.belongs[n.Name].Since
		}
		maps.Copy(all, whatif.LeavingPods(dump, s.belongs, tide.Leaving(&s.view, now)))
	}
	for _, carried := range m.carrier.Moves() {
		for _, uid := range carried.Pods() {
			delete(all, facts.UID(uid))
		}
	}
	t.meter.leaving.Store(int64(len(all)))
	if len(all) == 0 {
		return
	}
	if len(m.ending) > 0 {
		return // who was moved last is not written down yet
	}
	params := m.params()
	params.Only = []string{reschedule.ReasonHands}
	after := whatif.HandOver(dump, sides)
	found, err := whatif.NewMoves(ctx, after, &whatif.MoveOptions{Params: params, Leaving: all, History: m.carrier.History(), WorkloadsMoving: m.carrier.WorkloadsMoving(), MostOfGang: t.together})
	if err != nil {
		t.log.Warn("no moves off nodes that have changed hands could be planned; it is tried again", "err", err)
		return
	}
	stayOn(list, found, dump, all)
	var batch []reschedule.Wanted // gangs first: they need as much of the budget at once
	for i := range found.Gangs {
		batch = append(batch, found.Gangs[i].Wanted())
	}
	if len(found.Batches) > 0 {
		batch = append(batch, wantedOf(found.Batches[0])...)
	}
	m.disturbances.Lock()
	begun := m.carrier.Begin(batch, now)
	m.disturbances.Unlock()
	if len(begun) > 0 {
		t.log.Info("pods leave nodes that have changed hands", "pods", len(all), "planned", found.Count(), "gangs", len(found.Gangs), "begun", len(begun))
	}
}

// stayOn notes for each node why its pods stay that are to leave.
func stayOn(list []*standing, found *whatif.Moves, dump *inspect.Dump, leaving map[facts.UID]whatif.Leave) {
	nodeOf := make(map[string]string)
	for i := range dump.Ledger.Pods {
		if f := &dump.Ledger.Pods[i].Facts; leaving[f.UID].Why != "" {
			nodeOf[f.Namespace+"/"+f.Name] = f.Node
		}
	}
	for i := range found.Stay {
		name := found.Stay[i].Namespace + "/" + found.Stay[i].Name
		for _, s := range list {
			if node := nodeOf[name]; node != "" && s.stays[node] == "" {
				s.stays[node] = name + ": " + found.Stay[i].Why
			}
		}
	}
}
