package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/control/reschedule"
	"hilbert.dev/hilbert/kube/devices"
	"hilbert.dev/hilbert/kube/moves"
	"hilbert.dev/hilbert/schedule/inspect"
	"hilbert.dev/hilbert/sim/whatif"
)

const (
	// movePause is how often moves that are on their way are looked at.
	movePause = 2 * time.Second
	// moveRetry is the pause after a plan that could not be made.
	moveRetry = 30 * time.Second
)

// moveTTL is how long a target is kept: as long as a move may take, and something more.
func moveTTL(limits reschedule.Timeouts) time.Duration {
	return limits.Reserve + limits.Evict + limits.Withdraw + limits.Replace + 5*time.Minute
}

// mover says which pods should be moved, or moves them, while its process leads the controllers. One plan is carried out at a time: its first batch, for by the next one the
// cluster is another.
type mover struct {
	client  *moves.Client
	config  spec.Rescheduling
	log     *slog.Logger
	meter   *moveMeter
	carrier *reschedule.Carrier
	// disturbances guards the carrier's budget, which recommendations take from too.
	disturbances *disturbances
	// tides is nil where no nodes change hands.
	tides    *tider
	limits   reschedule.Timeouts
	planAt   time.Time
	relieved inspect.Relieved // as of the last snapshot
	adopted  bool
	// ending are moves that have ended, in order, and whose Reservations are kept until it is written down who was moved: else a leader that comes now would know it from neither.
	ending  []reschedule.Carried
	asking  map[string]time.Time // evictions that may be on their way, by the UID of the pod, and until when
	refused map[string]string    // why the last eviction was refused
}

// newMover returns a mover; nil: moves are off, and no nodes change hands.
func newMover(client *moves.Client, config spec.Rescheduling, tides *tider, log *slog.Logger, meter *moveMeter) *mover {
	if config.Mode == spec.ReschedulingOff && tides == nil {
		return nil
	}
	return &mover{client: client, config: config, tides: tides, log: log, meter: meter, limits: moveLimits(&config)}
}

// moveLimits are how long the parts of a move may take.
func moveLimits(c *spec.Rescheduling) reschedule.Timeouts {
	limits := reschedule.DefaultTimeouts()
	if d := c.EvictionRequestTimeout.D(); d > 0 {
		limits.Evict, limits.Withdraw = d, min(d, limits.Withdraw)
	}
	return limits
}

// carries reports whether it moves pods, and does not only say which should be moved.
func (m *mover) carries() bool { return m.config.Mode == spec.ReschedulingAuto || m.tides != nil }

// lead runs until ctx ends, which is when the Lease is lost at the latest.
func (m *mover) lead(ctx context.Context, d *disturbances) {
	m.disturbances = d
	// Who only says which pods should be moved knows nothing of moves before: see params.
	m.carrier = reschedule.NewCarrier(m.limits, m.config.MaxInFlight, d.budget, reschedule.UnknownHistory(time.Now()))
	m.adopted, m.ending, m.planAt = !m.carries(), nil, time.Time{}
	m.tides.lead()
	m.asking, m.refused = make(map[string]time.Time), make(map[string]string)
	before := m.carrier.Counts()
	for timer := time.NewTimer(0); ; {
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		wake := m.round(ctx, time.Now())
		counts := m.carrier.Counts()
		m.meter.add(&before, &counts, len(m.carrier.Moves()))
		before = counts
		timer.Reset(wake)
	}
}

// round looks after the moves on their way, and makes a plan if there are none. It returns when to look again.
func (m *mover) round(ctx context.Context, now time.Time) time.Duration {
	if !m.adopted {
		if err := m.adopt(ctx); err != nil {
			m.log.Warn("what a leader before has moved is not known yet; nothing is moved", "err", err)
			return movePause
		}
		m.adopted = true
	}
	for _, carried := range m.carrier.Moves() {
		if ctx.Err() != nil {
			return movePause
		}
		m.advance(ctx, &carried)
	}
	m.end(ctx)
	m.tides.round(ctx, m, now)
	if m.carrier.Busy()+len(m.ending) > 0 || m.config.Mode == spec.ReschedulingOff {
		return movePause
	}
	if now.Before(m.planAt) {
		return min(m.planAt.Sub(now), movePause*5)
	}
	m.planAt = now.Add(m.config.Interval.D())
	if err := m.plan(ctx, now); err != nil {
		m.meter.plans.WithLabelValues("failed").Inc()
		m.log.Warn("no moves could be planned; it is tried again", "err", err)
		m.planAt = time.Now().Add(min(moveRetry, m.config.Interval.D()))
	}
	return movePause
}

// adopt goes on with the moves of a leader before, and with what it knew of those that have ended.
func (m *mover) adopt(ctx context.Context) error {
	history, err := m.client.History(ctx)
	if errors.Is(err, moves.ErrDamaged) {
		m.log.Warn("who was moved before is forgotten: whoever may have been is left where it is for a while", "err", err)
		history = reschedule.UnknownHistory(time.Now())
		err = m.client.Remember(ctx, history) // so that the next leader knows since when
	}
	if err != nil {
		return err
	}
	m.carrier = reschedule.NewCarrier(m.limits, m.config.MaxInFlight, m.disturbances.budget, history)
	type left struct {
		wanted  reschedule.Wanted
		created time.Time
	}
	var all []left
	if err := m.client.Left(ctx, func(w reschedule.Wanted, created time.Time) { all = append(all, left{w, created}) }); err != nil {
		return err
	}
	if asks := m.config.EvictionRequestTimeout > 0; asks || len(all) > 0 { // a leader before may have asked
		used, err := m.client.UseRequests(ctx, asks)
		if err != nil {
			return err
		}
		m.log.Info("how pods are asked to leave", "evictionRequests", used)
	}
	for _, l := range all {
		// A pod that is being deleted is taken for one that was evicted for the move: its target is kept for its replacement.
		seen, err := m.client.See(ctx, &reschedule.Carried{Wanted: l.wanted, Move: reschedule.Move{Stage: reschedule.Evicting}})
		if err != nil {
			return err
		}
		m.carrier.Adopt(l.wanted, &seen, l.created, time.Now())
		m.log.Info("going on with a move", "namespace", l.wanted.Namespace, "pod", l.wanted.Name, "from", l.wanted.From, "to", l.wanted.To)
	}
	return nil
}

// advance looks at one move and does what is next.
func (m *mover) advance(ctx context.Context, c *reschedule.Carried) {
	uid := c.Wanted.Pod
	log := m.log.With("namespace", c.Namespace, "pod", c.Name, "from", c.Wanted.From, "to", c.Wanted.To)
	if c.Gang != nil {
		log = log.With("gang", c.Gang.PodGroup, "members", c.Size())
	}
	seen, err := m.client.See(ctx, c)
	if err != nil {
		log.Warn("it is not known how a move stands; nothing is done for it", "err", err)
		return
	}
	now := time.Now()
	seen.Asking, seen.Refused = now.Before(m.asking[uid]), m.refused[uid]
	// Of a gang it is asked again just before the first eviction.
	asks := c.Stage == reschedule.Rehearsed || c.Gang != nil && c.Stage == reschedule.Reserving && seen.Place == reschedule.Reserved
	if asks && seen.Vetoed == "" && seen.Running {
		if seen.Vetoed, err = m.client.Ask(ctx, c); err != nil {
			log.Warn("whether a pod may be evicted is not known; nothing is done for its move", "err", err)
			return
		}
	}
	m.disturbances.Lock()
	after, do, noted := m.carrier.Advance(uid, &seen, now)
	m.disturbances.Unlock()
	if noted {
		m.ending, do = append(m.ending, after), nil // all that is left to do then is to give its target back
	}
	for _, what := range do {
		m.do(ctx, &after, what, log)
	}
	if after.Stage == c.Stage {
		return
	}
	log.Info("a move", "stage", after.Stage.String(), "reason", c.Reason, "why", after.Move.Why)
	if after.Stage.Final() {
		delete(m.asking, uid)
		delete(m.refused, uid)
	}
}

// end writes down who was moved by the moves that have ended, and then gives their targets back. While it cannot be written nobody else is moved, and the Reservations say it.
func (m *mover) end(ctx context.Context) {
	if len(m.ending) == 0 {
		return
	}
	err := m.client.Remember(ctx, m.carrier.History())
	m.meter.remembered(m.carrier.History().Size(), err)
	if err != nil {
		m.log.Warn("who was moved could not be written down; it is tried again, and nobody else is moved before", "err", err)
		return
	}
	for i := range m.ending {
		c := &m.ending[i]
		m.do(ctx, c, reschedule.GiveBack, m.log.With("namespace", c.Namespace, "pod", c.Name, "from", c.Wanted.From, "to", c.Wanted.To))
	}
	m.ending = nil
}

// do does one thing. What fails is asked for again, or ends by the Reservation's TTL.
func (m *mover) do(ctx context.Context, c *reschedule.Carried, what reschedule.Do, log *slog.Logger) {
	var err error
	switch what {
	case reschedule.Reserve:
		err = m.client.Reserve(ctx, c)
	case reschedule.GiveBack:
		err = m.client.GiveBack(ctx, c)
	case reschedule.Withdraw:
		err = m.client.Withdraw(ctx, c)
	case reschedule.Evict:
		var refused string
		if refused, err = m.client.Evict(ctx, c); err != nil && !errors.Is(err, moves.ErrFollows) {
			m.asking[c.Wanted.Pod] = time.Now().Add(controllerTimeout)
		}
		m.refused[c.Wanted.Pod] = refused
	case reschedule.QueueFirst:
		log.Warn("the target of a move was lost after the eviction; the replacement has its turn before others of its priority in its queue", "why", c.Move.Why)
	}
	m.meter.did(what, err)
	if err != nil {
		log.Warn("a step of a move failed", "err", err)
	}
}

// plan looks for moves. In the mode Auto it begins those of the first batch.
func (m *mover) plan(ctx context.Context, now time.Time) error {
	dump, err := m.snapshot(ctx)
	if err != nil {
		return err
	}
	found, err := whatif.NewMoves(ctx, dump, &whatif.MoveOptions{Params: m.params(), History: m.carrier.History(), WorkloadsMoving: m.carrier.WorkloadsMoving(), Preempt: m.config.PreemptForGrowth})
	if err != nil {
		return fmt.Errorf("plan moves: %w", err)
	}
	m.meter.plans.WithLabelValues("made").Inc()
	m.meter.advised.Store(int64(found.Count()))
	for i := range found.Preemptions {
		m.permit(ctx, &found.Preemptions[i], now)
	}
	m.meter.restarts.Store(int64(len(found.Restarts)))
	for i := range found.Restarts {
		r := &found.Restarts[i]
		m.log.Info("a gang would be nearer together if it restarted", "gang", r.Unit, "label", r.Label, "domains", r.Now, "then", r.Then)
	}
	if found.Count() == 0 {
		return nil
	}
	batch := wantedOf(found.Batches[0])
	if m.config.Mode != spec.ReschedulingAuto {
		for _, w := range slices.Concat(batch, wantedOf(slices.Concat(found.Batches[1:]...))) {
			m.log.Info("a pod should be moved", "namespace", w.Namespace, "pod", w.Name, "from", w.From, "to", w.To, "reason", w.Reason, "why", w.Why)
		}
		return nil
	}
	m.disturbances.Lock()
	begun := m.carrier.Begin(batch, now)
	m.disturbances.Unlock()
	m.log.Info("moves are planned", "moves", found.Count(), "begun", len(begun))
	if len(begun) > 0 && found.Count() > len(begun) {
		m.planAt = now // go on as soon as these have ended
	}
	return nil
}

// permit lets the scheduler evict pods of lower priority for a growth, if the budget has as many left. What it has taken is given back only where nobody was named for certain: else the
// scheduler may have evicted them already.
func (m *mover) permit(ctx context.Context, p *whatif.PreemptionShown, now time.Time) {
	log := m.log.With("namespace", p.Namespace, "reservation", p.Reservation, "node", p.Node, "victims", len(p.Victims))
	if m.config.Mode != spec.ReschedulingAuto {
		log.Info("pods of lower priority should be evicted for a growth")
		return
	}
	m.disturbances.Lock()
	got := m.disturbances.budget.Take(p.Fresh, now)
	if got < p.Fresh {
		m.disturbances.budget.GiveBack(got)
	}
	m.disturbances.Unlock()
	if got < p.Fresh {
		log.Info("pods of lower priority would be evicted for a growth, and the budget for disturbed pods is used up")
		return
	}
	victims := make([]string, len(p.Victims))
	for i := range p.Victims {
		victims[i] = string(p.Victims[i].UID)
	}
	refused, err := m.client.Permit(ctx, p.Namespace, p.Reservation, string(p.UID), victims)
	m.meter.permitted(p.Fresh, err)
	if refused {
		m.disturbances.Lock()
		m.disturbances.budget.GiveBack(p.Fresh)
		m.disturbances.Unlock()
	}
	if err != nil {
		log.Warn("it could not be said who may be evicted for a growth; the next plan tries again", "err", err)
		return
	}
	log.Info("pods of lower priority may be evicted for a growth")
}

// snapshot reads what the leading scheduler knows.
func (m *mover) snapshot(ctx context.Context) (dump *inspect.Dump, err error) {
	err = m.client.Snapshot(ctx, func(r io.Reader) (err error) {
		if dump, err = inspect.ReadDump(r); err == nil {
			err = devices.Restore(ctx, dump.Ledger)
		}
		return err
	})
	if err == nil {
		m.charge(dump.Relieved, time.Now())
	}
	return dump, err
}

// params bound what a plan moves.
func (m *mover) params() reschedule.Params {
	p := reschedule.Defaults()
	p.Most, p.MinAge, p.Horizon = m.config.MaxMoves, m.config.MinAge.D(), m.config.Horizon.D()
	p.WorkloadCooldown, p.WorkloadPercent, p.LoadMark = m.config.WorkloadCooldown.D(), m.config.MaxWorkloadPercent, float64(m.config.MaxLoadPercent)/100
	p.WorkloadTimeLossPermille = m.config.MaxWorkloadTimeLossPermille
	p.PodCooldown = m.config.PodCooldown.D()
	if !m.carries() { // it moves nobody and reads no history: what it says is by the cluster as it is
		p.PodCooldown, p.WorkloadCooldown = 0, 0
	}
	return p
}

// charge takes from the budget what relief has evicted since the last snapshot. Of what was evicted before the first one, nobody knows when that was: it counts nothing.
func (m *mover) charge(relieved inspect.Relieved, now time.Time) {
	n := relieved.Evicted
	if relieved.Since.Equal(m.relieved.Since) {
		n -= m.relieved.Evicted
	} else if m.relieved.Since.IsZero() {
		n = 0
	}
	if relieved.Since.IsZero() { // nothing was evicted yet
		relieved.Since = now
	}
	m.relieved = relieved
	m.disturbances.Lock()
	m.disturbances.budget.Charge(n, now)
	m.disturbances.Unlock()
}

func wantedOf(batch []whatif.MoveShown) []reschedule.Wanted {
	list := make([]reschedule.Wanted, len(batch))
	for i := range batch {
		s := &batch[i]
		list[i] = reschedule.Wanted{
			Pod: string(s.UID), Namespace: s.Namespace, Name: s.Name, Workload: s.Workload, From: s.From, To: s.To, Reason: s.Reason, Why: s.Why,
		}
	}
	return list
}

// beside runs a mover beside a leader until its term ends; nil: there is none.
func (m *mover) beside(ctx context.Context, d *disturbances) (stop func()) {
	if m == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { m.lead(ctx, d) })
	return func() {
		cancel()
		running.Wait()
	}
}
