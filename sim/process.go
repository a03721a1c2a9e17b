package sim

import (
	"cmp"
	"fmt"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/schedule/bind"
	"hilbert.dev/hilbert/schedule/dispatch"
	"hilbert.dev/hilbert/sim/check"
	"hilbert.dev/hilbert/sim/trace"
)

// process is the scheduler's process: a Scheduler, what it is fed, and its wake-up timer. It does what the real shell's loop does. A crash ends
// the Scheduler; its successor starts from lists.
type process struct {
	o        *Options
	w        *trace.Workload
	features *features
	lag      *stream // decides which of several instances decides on an old state

	clock      *clock
	violations *violations
	meter      *meter
	api        *model
	watches    *watches
	writer     *writer
	check      *check.Checker // nil: not checked
	seams      seams
	elsewhere  *elsewhere // nil: all schedulers are in this process

	scheduler *schedule.Scheduler   // nil while none runs
	term      int                   // how many have begun
	divided   Partitioned           // by schedulers that have ended
	beside    schedule.WorkerCounts // so too
	wakeAt    int64                 // the earliest wake-up on the agenda, 0 for none
	flushes   bool                  // sleeping units are tried again now and then; not in a scenario, because its script expects each step at a certain time
	flushAt   int64                 // when that is next
	mark      time.Duration         // when the decision under way began, by the wall clock
}

// start makes a new Scheduler, fed with a consistent list.
func (p *process) start() error {
	p.term++
	options := schedule.Options{Config: p.o.Config, Instances: p.o.Schedulers, Observer: observer{p, p.term}, NoPodEvents: true}
	if p.o.Schedulers > 1 {
		// Three times in four an instance decides on what it has.
		options.Lag = func(int) bool { return p.lag.IntN(4) > 0 }
		if p.o.Partitions {
			options.Partitions = partitionRules()
		}
	}
	if n := p.o.Config.Schedulers; n > 1 {
		options.Runner = make(late, n)
	}
	scheduler, err := schedule.New(options)
	if err != nil {
		return fmt.Errorf("new scheduler: %w", err)
	}
	p.scheduler, p.watches.open = scheduler, true
	if p.elsewhere != nil {
		p.elsewhere.begin(scheduler)
	}
	if p.check != nil {
		p.check.Forget()
	}
	if len(p.w.Controllers) > 0 {
		p.give(facts.WorkloadsListed{Kind: facts.ReplicaSet, Workloads: p.w.Controllers})
	}
	if p.features.tenants {
		p.list(watchNamespaces)
		p.list(watchQueues)
		p.list(watchUnits)
		p.list(watchFinished)
	}
	if p.features.reports {
		p.list(watchReports)
	}
	if p.features.storage {
		p.give(p.api.storage.list(facts.StorageClassKind))
		p.list(watchClaims)
		p.list(watchVolumes)
	}
	if p.features.kept {
		p.list(watchReservations)
	}
	p.list(watchNodes)
	p.list(watchPods)
	return nil
}

// crash ends the process: its watches close, and nothing reads the answers to its writes.
func (p *process) crash() {
	p.countPartitions()
	if p.elsewhere != nil {
		p.elsewhere.end(p.scheduler)
	}
	p.scheduler = nil
	p.term++ // what it reports from now on is ignored
	p.wakeAt = 0
	p.writer.abandon()
	p.watches.close()
}

// list starts a watch over: the scheduler gets everything as it is now.
func (p *process) list(which int) { p.give(p.watches.list(which)) }

// give hands an event to the scheduler.
func (p *process) give(e facts.Event) {
	if p.check != nil {
		p.check.Told(e)
	}
	if p.seams.told != nil {
		if e = p.seams.told(e); e == nil {
			return
		}
	}
	p.scheduler.Apply(e, p.time())
}

// time is the process's clock. Where schedulers are elsewhere, it is not the API server's.
func (p *process) time() time.Time {
	if p.elsewhere == nil {
		return p.clock.time()
	}
	return p.clock.time().Add(p.elsewhere.skew)
}

// pump lets the scheduler do all it can now, and sets the timer by which it wants to be woken.
func (p *process) pump() {
	if p.scheduler == nil {
		return
	}
	now := p.time()
	if p.flushes && p.clock.now >= p.flushAt {
		p.scheduler.Flush()
		p.flushAt = p.clock.now + int64(flushEvery)
	}
	busy := true
	for rounds := 0; busy && p.violations.first == nil; rounds++ {
		if rounds > cmp.Or(p.seams.rounds, maxRounds+len(p.w.Tasks)) {
			p.violations.add("the scheduler does not come to rest within one instant: %+v", p.scheduler.Pending())
		}
		p.settle(now)
		p.mark = p.o.wall()
		decisions := p.scheduler.Step(now, StepLimit)
		p.meter.decisions += decisions
		writes := p.scheduler.Ready(now)
		for i := range writes {
			p.send(&writes[i])
		}
		busy = decisions > 0 || len(writes) > 0 || len(p.writer.results)+len(p.watches.inbox) > 0
		if p.o.Faults != nil && p.elsewhere == nil && p.scheduler.Workers().Pending > 0 && p.lag.IntN(2) == 0 { // much else happens before they have decided
			p.clock.add(event{at: p.clock.now + p.lag.Int64N(int64(time.Second)), kind: evWake})
			return
		}
	}
	if p.elsewhere != nil {
		p.elsewhere.send(p.elsewhere.leader(p.elsewhere.terms))
	}
	at, ok := p.scheduler.NextWake(now)
	if !ok || p.seams.asleep {
		return
	}
	wake := max(p.clock.now+int64(at.Sub(now)), p.clock.now+minSleep)
	if p.wakeAt == 0 || wake < p.wakeAt {
		p.wakeAt = wake
		p.clock.add(event{at: wake, kind: evWake})
	}
}

// woken takes note that the timer has fired.
func (p *process) woken() { p.wakeAt = 0 }

// settle hands over the answers and the events of this instant.
func (p *process) settle(now time.Time) {
	for i := 0; i < len(p.writer.results); i++ {
		p.finish(p.writer.results[i], now)
	}
	p.writer.results = p.writer.results[:0]
	inbox := &p.watches.inbox
	for i := 0; i < len(*inbox); i++ {
		p.give((*inbox)[i])
		(*inbox)[i] = nil
	}
	*inbox = (*inbox)[:0]
}

// send starts a write of the scheduler's.
func (p *process) send(w *bind.Write) {
	if p.check != nil {
		p.check.Sent(w)
	}
	p.writer.send(w)
}

// finish hands over the answer to a write.
func (p *process) finish(r bind.Result, now time.Time) {
	if p.check != nil {
		p.check.Answered(r)
	}
	if p.seams.answered != nil {
		r = p.seams.answered(r)
	}
	p.scheduler.Finish(r, now)
}

// seams are where tests break a run, to see that the checks notice. All are nil or false otherwise.
type seams struct {
	told     func(facts.Event) facts.Event // what the scheduler is told instead; nil: nothing
	answered func(bind.Result) bind.Result // what it is answered instead
	asleep   bool                          // it is never woken
	rounds   int                           // of one instant, at most; 0: maxRounds
}

// observer hears what the scheduler reports while it leads. A deposed one may go on for a while; its reports are ignored.
type observer struct {
	p    *process
	term int
}

// over reports whether the scheduler that reports no longer leads.
func (o observer) over() bool { return o.term != o.p.term }

// decided times the decision that has just ended, and begins the next.
func (o observer) decided() {
	if o.p.o.Wall == nil {
		return
	}
	now := o.p.o.wall()
	o.p.meter.latency.add(now - o.p.mark)
	o.p.mark = now
}

// saw notes what the scheduler had been told when it committed itself.
func (o observer) saw(pod *cluster.Pod) {
	if i, ok := o.p.api.byUID[pod.UID]; ok {
		w, p := &o.p.watches.streams, &o.p.api.pods[i]
		p.seenPods, p.seenNodes, p.seenReports = w[watchPods].delivered, w[watchNodes].delivered, w[watchReports].delivered
		p.seenClaims = w[watchClaims].delivered
	}
}

// Placed is part of schedule.Observer.
func (o observer) Placed(pod *cluster.Pod, _ time.Time) {
	if o.over() {
		return
	}
	o.decided()
	o.p.meter.committed++
	delete(o.p.meter.latest, pod.Class.Requirements)
	o.saw(pod)
	if o.p.check != nil {
		o.p.check.Committed(pod)
		o.p.mark = o.p.o.wall()
	}
}

// Preempting is part of schedule.Observer.
func (o observer) Preempting(pod *cluster.Pod, victims []*cluster.Pod, _ time.Time) {
	if o.over() {
		return
	}
	o.decided()
	o.p.meter.committed++
	delete(o.p.meter.latest, pod.Class.Requirements)
	if o.p.check != nil {
		o.p.check.Preempting(pod, victims)
		o.p.mark = o.p.o.wall()
	}
}

// Cleared is part of schedule.Observer.
func (o observer) Cleared(pod *cluster.Pod, _ time.Time) {
	if o.over() {
		return
	}
	o.saw(pod)
	if o.p.check != nil {
		o.p.check.Cleared(pod)
	}
}

// Rejected is part of schedule.Observer.
func (o observer) Rejected(string, time.Time) {
	if o.over() {
		return
	}
	o.decided()
	o.p.meter.rejected++
}

// Unschedulable is part of schedule.Observer.
func (o observer) Unschedulable(pod *cluster.Pod, reasons []schedule.FilterCount, _ time.Time) {
	if o.over() {
		return
	}
	o.decided()
	o.p.meter.explain(pod.Class.Requirements, reasons)
	if o.p.check != nil {
		o.p.check.Unschedulable(pod)
		o.p.mark = o.p.o.wall()
	}
}

// Bound is part of schedule.Observer.
func (o observer) Bound(*cluster.Pod, time.Time) {}

// Released is part of schedule.Observer.
func (o observer) Released(pod *cluster.Pod, _ string, _ time.Time) {
	if o.over() {
		return
	}
	o.p.meter.released++
	if o.p.check != nil {
		o.p.check.Released(pod.UID)
	}
}

// MissedWakeup is part of schedule.Observer.
func (o observer) MissedWakeup(pod *cluster.Pod, _ time.Time) {
	if o.over() {
		return
	}
	o.p.violations.add("pod %s found a place only because it was tried again by a flush", pod.UID)
}

// Judged is told of every Plan and its Verdict, by schedulers that offer it.
func (o observer) Judged(plan *cluster.Plan, verdict cluster.Verdict) {
	if o.over() {
		return
	}
	if o.p.check != nil {
		o.p.check.Judged(plan, verdict)
	}
}

// whyPending says why a pod that was never placed was not.
func (p *process) whyPending(pod *pod, otherwise string) string {
	r := p.api.requirements(pod)
	switch {
	case r.Impossible != "":
		return spec.ReasonImpossibleRequest
	case len(r.Unsupported) > 0:
		return spec.ReasonUnsupportedConstraint
	case p.scheduler == nil:
		return otherwise
	}
	known := p.scheduler.Store().Pod(pod.uid)
	if known == nil {
		return otherwise
	}
	if known.Class.Impossible != "" {
		return spec.ReasonImpossibleRequest
	}
	if reason, ok := p.meter.latest[known.Class.Requirements]; ok {
		return reason
	}
	return otherwise
}

// countPartitions adds what the scheduler that runs has done to those before it.
func (p *process) countPartitions() {
	if p.scheduler != nil {
		c := p.scheduler.Partitions()
		p.divided.add(&Partitioned{c.Splits, c.Merges, c.Rebalances})
		p.beside.Add(p.scheduler.Workers())
	}
}

// partitionRules divide the nodes among several schedulers much sooner than a cluster would, and merge them again: so that runs of minutes see both.
func partitionRules() *dispatch.Rules {
	rules := dispatch.LoadRules()
	rules.SplitAllocated, rules.MergeAllocated, rules.SplitPerSecond, rules.MergePerSecond = 0.5, 0.4, 5, 1
	rules.SplitAfter, rules.MergeAfter = 20*time.Second, time.Minute
	return &rules
}

// late runs the decisions of schedulers beside the process's own as late as they may be: when they are waited for. What has happened meanwhile must not show.
type late []func()

func (l late) Start(scheduler int, work func()) { l[scheduler] = work }

func (l late) Wait(scheduler int) {
	l[scheduler]()
	l[scheduler] = nil
}
