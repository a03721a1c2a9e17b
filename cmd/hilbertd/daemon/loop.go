package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/dra"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/internal/clock"
	"hilbert.dev/hilbert/kube"
	"hilbert.dev/hilbert/kube/lease"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/schedule/bind"
	"hilbert.dev/hilbert/schedule/intake"
)

// The ports through which the loop reaches the world. kube implements them; tests put models in their place.
type (
	watch interface {
		Events() <-chan facts.Event
		// CatchUp asks for a facts.CaughtUp among the events.
		CatchUp()
		Stop()
	}
	writer interface {
		Start(bind.Write) bool
		Results() <-chan bind.Result
		Close()
	}
	term interface {
		Takeover() lease.Takeover
		Epoch() string
		Lost() <-chan struct{}
		Release()
		Abandon()
	}
	ports struct {
		watch    func() (watch, error)
		writer   func() (writer, error)
		queues   func() (queueWriter, error) // nil: no status of Queues is written
		devices  dra.Allocator               // nil: no ResourceClaim is given devices
		campaign func(context.Context) (term, error)
		fence    interface {
			Open(now time.Time, timeout time.Duration) bool
		}
		now func() time.Time
		by  clock.Clock // of timers; nil: the machine's
	}
)

const (
	// eventsPerRound and decisionsPerRound bound a round of the loop, so that answers and questions do not wait long. Some events cost a thousand times
	// as much as others: no more are taken after eventTime.
	eventsPerRound    = 512
	eventTime         = 20 * time.Millisecond
	decisionsPerRound = 128
	// fencePoll is how often a closed fence is checked.
	fencePoll = 100 * time.Millisecond
	// flushEvery is how often the scheduler tries some of what sleeps again, to find wake-ups that were missed.
	flushEvery = time.Minute
	// idlePoll bounds the sleep of an idle loop.
	idlePoll = time.Minute
	// drainSlack is how long after a write's timeout its answer may arrive.
	drainSlack = time.Second
	// listAtMost is with how many pods a new leader lists everything rather than catch up: that takes less than the second or two that catching up takes.
	listAtMost = 2000
	// maxAsks bounds the questions (health checks, scrapes, requests to /v1) that wait for the loop.
	maxAsks = 16
)

// phase is a step on the way from following to leading.
type phase uint8

const (
	following  phase = iota // another process leads, or none yet
	waiting                 // the Lease is ours, but a write of the last leader may be under way
	catchingUp              // waiting for the watch to have told what the last leader wrote
	listing                 // applying a consistent list of everything
	leading
)

func (p phase) String() string {
	return [...]string{"following", "waiting", "catching up", "listing", "leading"}[p]
}

// loop owns the scheduler. Only its own goroutine touches it, except through ask.
type loop struct {
	config *spec.Configuration
	ports  ports
	log    *slog.Logger
	meter  *meter

	scheduler *schedule.Scheduler
	watch     watch
	intake    intake.Events // what the watch has said and the scheduler does not know yet
	writer    writer
	queues    queueReporter
	term      term
	won       chan term // the campaign's result
	asks      chan func()
	desk      *desk

	phase       phase
	flushAt     time.Time  // when some of what sleeps is tried again
	until       time.Time  // in phase waiting: the end of the wait; zero: not known until the lists are here
	lists       kube.Lists // since the watch began
	synced      bool       // all lists were complete at least once
	outstanding int        // writes without an answer
	divisions   int        // of the nodes among schedulers that were logged
	onSynced    func()
	campaigns   sync.WaitGroup
}

func newLoop(c *spec.Configuration, p ports, m *meter, log *slog.Logger) *loop {
	return &loop{config: c, ports: p, meter: m, log: log, won: make(chan term), asks: make(chan func(), maxAsks), desk: newDesk(), onSynced: func() {}}
}

// run runs until ctx ends, and then hands leadership over. It fails only if a restart would not help.
func (l *loop) run(ctx context.Context) error {
	if err := l.start(); err != nil {
		return err
	}
	campaign, stopCampaign := context.WithCancel(ctx)
	defer stopCampaign()
	defer func() {
		l.watch.Stop()
		if l.writer != nil {
			l.writer.Close()
		}
		l.queues.close()
	}()
	l.campaign(campaign)
	timer := clock.OrReal(l.ports.by).NewTimer(idlePoll)
	defer timer.Stop()
	for {
		wake, busy := l.round()
		if busy || l.intake.Len() > 0 {
			if !l.poll(ctx) {
				break
			}
		} else {
			timer.Reset(wake)
			if !l.sleep(ctx, timer.C()) {
				break
			}
		}
		if l.term != nil && closed(l.term.Lost()) {
			if err := l.lost(campaign); err != nil {
				return err
			}
		}
	}
	stopCampaign()
	l.campaigns.Wait()
	l.desk.end()
	return l.shutdown()
}

// start makes an empty scheduler and begins to watch.
func (l *loop) start() error {
	scheduler, err := schedule.New(schedule.Options{Config: l.config.Scheduling, Observer: l.meter, Devices: l.ports.devices, Runner: newGoroutines(l.config.Scheduling.Schedulers)})
	if err != nil {
		return fmt.Errorf("scheduling: %w", err)
	}
	l.scheduler, l.phase, l.divisions = scheduler, following, 0
	l.meter.reset(scheduler.Store())
	if l.queues.writer == nil && l.ports.queues != nil {
		if l.queues.writer, err = l.ports.queues(); err != nil {
			return err
		}
	}
	if l.writer == nil {
		w, err := l.ports.writer()
		if err != nil {
			return err
		}
		l.writer = w
	}
	return l.rewatch()
}

// rewatch drops the events that wait to be applied, and lists everything again.
func (l *loop) rewatch() error {
	if l.watch != nil {
		l.watch.Stop()
	}
	w, err := l.ports.watch()
	if err != nil {
		return err
	}
	l.watch, l.intake, l.lists = w, intake.Events{}, kube.Lists{}
	return nil
}

// campaign runs for the Lease beside the loop, which takes the term from won.
func (l *loop) campaign(ctx context.Context) {
	l.campaigns.Go(func() {
		t, err := l.ports.campaign(ctx)
		if err != nil {
			if ctx.Err() == nil {
				l.log.Error("the leader election ended", "err", err)
			}
			return
		}
		select {
		case l.won <- t:
		case <-ctx.Done():
			t.Release()
		}
	})
}

// round does one bounded piece of the work that is due. busy: there is more; else the loop may sleep for wake.
func (l *loop) round() (wake time.Duration, busy bool) {
	now := l.ports.now()
	switch l.phase {
	case waiting:
		return l.handover(now)
	case listing:
		if l.lists.Complete() {
			l.leads()
			return 0, true
		}
	case leading:
		return l.lead(now)
	case following, catchingUp:
	}
	return idlePoll, false
}

// lead makes decisions and starts writes.
func (l *loop) lead(now time.Time) (wake time.Duration, busy bool) {
	if !l.ports.fence.Open(now, l.config.Scheduling.Binding.WriteTimeout.D()) {
		return fencePoll, false
	}
	if !now.Before(l.flushAt) {
		l.scheduler.Flush()
		l.flushAt = now.Add(flushEvery)
	}
	l.meter.lapBegins()
	decisions := l.scheduler.Step(now, decisionsPerRound)
	l.tellPartitions()
	l.desk.send(l.scheduler, now)
	writes := l.scheduler.Ready(now)
	for i := range writes {
		if l.writer.Start(writes[i]) {
			l.outstanding++
			continue
		}
		l.scheduler.Finish(bind.Result{ID: writes[i].ID, Outcome: bind.NotSent, Message: "too many writes are under way"}, now)
	}
	wake = min(l.queues.report(l.scheduler, now), l.flushAt.Sub(now))
	if decisions > 0 {
		return 0, true
	}
	if at, ok := l.scheduler.NextWake(now); ok {
		wake = min(max(at.Sub(now), 0), wake)
	}
	return wake, false
}

// tellPartitions says why the nodes are divided into more or fewer parts than before.
func (l *loop) tellPartitions() {
	c := l.scheduler.Partitions()
	if changes := c.Splits + c.Merges; changes != l.divisions {
		l.divisions = changes
		l.log.Info("the nodes are divided anew among the schedulers", "partitions", c.Partitions, "why", c.Why)
	}
}

// lost waits for the writes under way, drops all state and follows again.
func (l *loop) lost(campaign context.Context) error {
	l.log.Warn("lost the Lease; dropping all state and standing by", "writesUnderWay", l.outstanding)
	l.meter.leader.Set(0)
	l.term.Abandon()
	l.term = nil
	l.desk.dismiss()
	if !l.drain() {
		l.writer.Close()
		l.writer, l.outstanding = nil, 0
	}
	if err := l.start(); err != nil {
		return err
	}
	l.campaign(campaign)
	return nil
}

// shutdown waits for the writes under way and gives the Lease back. If an answer is missing in the end, the Lease is left to expire.
func (l *loop) shutdown() error {
	l.meter.leader.Set(0)
	if l.term == nil {
		return nil
	}
	if !l.drain() {
		l.log.Warn("writes are still under way; leaving the Lease to expire", "writes", l.outstanding)
		l.writer.Close()
		l.term.Abandon()
		return nil
	}
	l.term.Release()
	l.log.Info("gave the Lease back")
	return nil
}

// drain takes answers until none is outstanding. False: some were missing at the deadline.
func (l *loop) drain() bool {
	deadline := time.NewTimer(l.config.Scheduling.Binding.WriteTimeout.D() + drainSlack)
	defer deadline.Stop()
	for l.outstanding > 0 {
		select {
		case <-l.writer.Results():
			l.outstanding--
		case question := <-l.asks:
			question()
		case <-deadline.C:
			return false
		}
	}
	return true
}

// poll takes what has arrived, without waiting. False: the process must stop.
func (l *loop) poll(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case t := <-l.won: // events may never end
		l.took(t)
	case question := <-l.asks:
		question()
	default:
	}
	l.takeResults()
	l.desk.take()
	l.takeEvents()
	return true
}

// sleep waits until something arrives, and takes all that has arrived by then. False: the process must stop.
func (l *loop) sleep(ctx context.Context, timer <-chan time.Time) bool {
	var lost <-chan struct{}
	if l.term != nil {
		lost = l.term.Lost()
	}
	select {
	case <-ctx.Done():
		return false
	case <-lost:
		return true
	case t := <-l.won:
		l.took(t)
	case question := <-l.asks:
		question()
	case event := <-l.watch.Events(): // nothing else waits to be applied
		l.intake.Add(event)
	case result := <-l.writer.Results():
		l.finish(result)
	case call := <-l.desk.calls:
		call()
	case <-timer:
	}
	l.takeResults()
	l.desk.take()
	l.takeEvents()
	return true
}

func (l *loop) takeResults() {
	for {
		select {
		case result := <-l.writer.Results():
			l.finish(result)
		default:
			return
		}
	}
}

// takeEvents applies what the watch has said, one event at least, as far as a round allows. No namespace waits for the events of another (package intake).
func (l *loop) takeEvents() {
	until := l.ports.now().Add(eventTime)
	for range eventsPerRound {
		l.collectEvents()
		event := l.intake.Take()
		if event == nil {
			return
		}
		l.apply(event)
		if !l.ports.now().Before(until) {
			return
		}
	}
}

// collectEvents takes in what has arrived, without applying any of it.
func (l *loop) collectEvents() {
	for !l.intake.Full() {
		select {
		case event := <-l.watch.Events():
			l.intake.Add(event)
		default:
			return
		}
	}
}

func (l *loop) finish(result bind.Result) {
	l.outstanding--
	l.scheduler.Finish(result, l.ports.now())
}

func (l *loop) apply(event facts.Event) {
	now := l.ports.now()
	if event, ok := event.(facts.CaughtUp); ok {
		l.caughtUp(event)
		return
	}
	l.intake.Judged(l.scheduler.Apply(event, now))
	l.meter.note(event, now)
	l.lists.Note(event)
	if !l.synced && l.lists.Complete() {
		l.synced = true
		l.onSynced()
	}
}

// ask runs f in the loop's goroutine, so that f can read the loop's state. False: the loop did not run f in time.
func (l *loop) ask(timeout time.Duration, f func()) bool {
	done := make(chan struct{})
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	select {
	case l.asks <- func() { f(); close(done) }:
	case <-deadline.C:
		return false
	}
	select {
	case <-done:
		return true
	case <-deadline.C:
		return false
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
