package sim

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/sim/check"
	"hilbert.dev/hilbert/sim/trace"
)

// Streams of the seed.
const (
	streamFaults = 101 + iota
	streamLag
	streamAgents
	streamStorage
	streamElsewhere
)

const (
	// StepLimit is how many decisions the process asks for at a time, as the real shell does.
	StepLimit = 128
	// progressEvery and cancelEvery count steps.
	progressEvery = 1024
	cancelEvery   = 256
	// flushEvery is how often some of what sleeps is tried again, if anything happens at all.
	flushEvery = 10 * time.Second
	// minSleep is the shortest wait for a wake-up, as timers have one.
	minSleep = int64(time.Microsecond)
	// maxIdleSteps and idleStepsPerTask bound the steps after the last task and fault, and maxRounds those within one instant: a scheduler
	// that never comes to rest is defective, and the run has to say so within reasonable time. Runs take less than a tenth.
	maxIdleSteps     = 100_000
	idleStepsPerTask = 100
	maxRounds        = 100_000
)

// simulation is one run. It owns the loop and nothing else: each part owns its state, and reaches the others by name.
//
//	clock        virtual time and the agenda of events
//	violations   the first broken invariant
//	meter        what is counted for the report
//	api          the API server's objects
//	watches      api -> process: events, with lag
//	process      the Scheduler and its timer
//	elsewhere    process <-> schedulers in processes of their own: messages, with latency and loss
//	writer       process -> api: writes, with latency and loss
//	server       does the writes on api, and keeps the digest
//	pods         creates pods and lets them end, as controllers and kubelets do
//	agents       the agents of the nodes: admission, reports, headroom
//	admin        changes nodes, queues, namespaces and PodGroups
//	other        another scheduler
//	injector     strikes with faults at intervals
//	check        follows what the scheduler is told and says
//	audit        counts everything anew, after a step and at rest
type simulation struct {
	o          *Options
	w          *trace.Workload
	features   *features
	clock      *clock
	violations *violations
	meter      *meter

	api      *model
	watches  *watches
	process  *process
	writer   *writer
	server   *executor
	pods     *podLifecycle
	agents   *nodeAgents
	admin    *admin
	other    *otherScheduler
	injector *faultInjector
	check    *check.Checker // nil: not checked
	audit    *auditor
}

// Run replays a workload. A cancelled context ends it early, with what was reached; the Report says so. The error is a *Violation when an
// invariant broke.
func Run(ctx context.Context, w *trace.Workload, o Options) (*Report, error) {
	s, err := newSimulation(w, o)
	if err != nil {
		return nil, fmt.Errorf("simulate %s: %w", w.Name, err)
	}
	return s.run(ctx)
}

func newSimulation(w *trace.Workload, o Options) (*simulation, error) {
	o.Schedulers = max(o.Schedulers, 1)
	o.Config.Seed = o.Seed
	if err := o.validate(); err != nil {
		return nil, err
	}
	s := assemble(w, &o)
	if o.Elsewhere > 0 {
		var err error
		if s.process.elsewhere, err = newElsewhere(&o, s.process); err != nil {
			return nil, err
		}
	}
	if err := s.process.start(); err != nil {
		return nil, err
	}
	if len(w.Tasks) > 0 {
		s.clock.add(event{at: w.Tasks[0].Created, kind: evArrive})
	}
	for i := range w.Units {
		s.clock.add(event{at: w.Units[i].Facts.Created, kind: evUnit, arg: int32(i)})
	}
	for i := range w.Reservations {
		s.clock.add(event{at: w.Reservations[i].Facts.Created, kind: evReservation, arg: int32(i)})
	}
	s.injector.planAll()
	s.agents.planLending()
	return s, nil
}

// assemble makes the parts of a run and shows them to one another.
func assemble(w *trace.Workload, o *Options) *simulation {
	draws, f := newStream(o.Seed, streamFaults), o.Faults
	timeout := int64(o.Config.Binding.WriteTimeout.D())
	has := &features{constraints: w.Tied(), tenants: w.Tenanted(), reports: len(w.Reports) > 0, storage: w.Storage != nil, kept: len(w.Reservations) > 0}
	clock, meter := newClock(), newMeter(w)
	broken := &violations{seed: o.Seed, clock: clock}
	api := newModel(w, meter)
	api.preempt = o.Preempt
	api.addAgents(w.Reports)
	watches := &watches{faults: f, draws: draws, clock: clock, api: api, features: has}
	watches.forgetPods()
	keeper := api.storage
	keeper.faults, keeper.draws, keeper.clock, keeper.violations, keeper.meter = f, newStream(o.Seed, streamStorage), clock, broken, meter
	keeper.api, keeper.watches = api, watches
	agents := &nodeAgents{
		faults: f, draws: newStream(o.Seed, streamAgents), clock: clock, violations: broken, meter: meter, api: api, watches: watches,
	}
	pods := &podLifecycle{faults: f, draws: draws, clock: clock, meter: meter, w: w, api: api, watches: watches, agents: agents}
	agents.pods = pods
	admin := &admin{clock: clock, w: w, api: api, watches: watches}
	server := &executor{
		faults: f, draws: draws, clock: clock, violations: broken, meter: meter, api: api, watches: watches, pods: pods, agents: agents,
		digest: sha256.New(),
	}
	writer := &writer{faults: f, draws: draws, timeout: timeout, clock: clock, meter: meter, server: server}
	process := &process{
		o: o, w: w, features: has, lag: newStream(o.Seed, streamLag), clock: clock, violations: broken, meter: meter, api: api, watches: watches,
		writer: writer,
	}
	pods.process = process
	if o.CheckEvery > 0 {
		process.check = check.New(checked{has, process, broken, api}, &o.Config.Evictions)
	}
	return &simulation{
		o: o, w: w, features: has, clock: clock, violations: broken, meter: meter, api: api, watches: watches, process: process, writer: writer,
		server: server, pods: pods, agents: agents, admin: admin, check: process.check,
		other: &otherScheduler{
			draws: draws, clock: clock, violations: broken, meter: meter, api: api, watches: watches, pods: pods, agents: agents,
		},
		injector: &faultInjector{
			faults: f, draws: draws, timeout: timeout, clock: clock, violations: broken, meter: meter, w: w, api: api, watches: watches,
			process: process, pods: pods, agents: agents, admin: admin,
		},
		audit: &auditor{
			o: o, w: w, features: has, clock: clock, violations: broken, api: api, process: process, check: process.check,
		},
	}
}

// checked is what the checker asks of the run.
type checked struct {
	features   *features
	process    *process
	violations *violations
	api        *model
}

// Now is part of check.Run. It is by the process's clock: how long ago something was, it cannot say by another.
func (c checked) Now() int64 { return c.process.time().UnixNano() }

// Skewed is part of check.Run.
func (c checked) Skewed() bool { return c.process.elsewhere != nil && c.process.elsewhere.faults }

// Constrained is part of check.Run.
func (c checked) Constrained() bool { return c.features.constraints }

// Tenanted is part of check.Run.
func (c checked) Tenanted() bool { return c.features.tenants }

// Priority is part of check.Run.
func (c checked) Priority(pod facts.UID) int32 { return c.api.priority(pod) }

// Unbound is part of check.Run.
func (c checked) Unbound(pod facts.UID) string {
	i, ok := c.api.byUID[pod]
	if !ok {
		return ""
	}
	return c.api.storage.unbound(&c.api.pods[i])
}

// Violate is part of check.Run.
func (c checked) Violate(format string, args ...any) { c.violations.add(format, args...) }

func (s *simulation) run(ctx context.Context) (*Report, error) {
	began := s.o.wall()
	s.process.flushes = true
	interrupted := false
	idle := 0
	for s.violations.first == nil && !s.clock.empty() {
		s.advance()
		if s.clock.step%cancelEvery == 0 && ctx.Err() != nil {
			interrupted = true
			break
		}
		if s.o.Progress != nil && s.clock.step%progressEvery == 0 {
			s.o.Progress(Progress{len(s.w.Tasks), s.pods.next, s.meter.placed, time.Duration(s.clock.now)})
		}
		if idle++; s.clock.now <= s.meter.end {
			idle = 0
		}
		if idle > maxIdleSteps+idleStepsPerTask*len(s.w.Tasks) {
			s.violations.add("the scheduler does not come to rest: %+v", s.process.scheduler.Pending())
		}
	}
	if s.violations.first == nil && !interrupted {
		s.audit.atRest()
	}
	if s.violations.first != nil {
		return nil, s.violations.first
	}
	report := s.report(s.o.wall() - began)
	report.Interrupted = interrupted
	return report, nil
}

// advance moves to the time of the next event, and lets everything happen that happens then.
func (s *simulation) advance() {
	s.clock.advance()
	for e, ok := s.clock.due(); ok; e, ok = s.clock.due() {
		s.handle(e)
	}
	s.turn()
}

// turn lets the scheduler act on what has just happened, and checks what it did.
func (s *simulation) turn() {
	s.process.pump()
	if s.process.elsewhere != nil {
		s.process.elsewhere.turn()
	}
	s.clock.step++
	s.audit.inspect()
}

func (s *simulation) handle(e event) {
	switch e.kind {
	case evArrive:
		s.pods.arrive()
	case evLeave:
		s.pods.leave(e.arg)
	case evFinish:
		s.pods.finish(e.arg)
	case evForeign:
		s.other.bind(e.arg)
	case evUngate:
		s.pods.ungate(e.arg)
	case evDelete:
		s.pods.delete(e.arg)
	case evDeliver:
		if told, ok := s.watches.deliver(int(e.arg), e.epoch); ok {
			s.process.give(told)
		}
	case evEffect:
		s.writer.effect(e.arg)
	case evAnswer:
		if result, live := s.writer.answer(e.arg); live {
			s.process.finish(result, s.process.time())
		}
	case evWake:
		s.process.woken()
	case evFault:
		s.injector.strike(fault(e.arg))
	case evReturn:
		s.admin.returnNode(e.arg)
	case evReached:
		s.admin.reachNode(e.arg)
	case evUnit:
		s.admin.createUnit(e.arg)
	case evUnitGone:
		s.admin.deleteUnit(e.arg)
	case evReservation:
		s.admin.createReservation(&s.w.Reservations[e.arg], e.arg)
	case evReservationGone:
		s.admin.deleteReservation(s.w.Reservations[e.arg].Facts.UID)
	case evAdmit:
		s.agents.admit(e.arg)
	case evReport:
		s.agents.report(e.arg)
	case evHeadroom:
		s.agents.moveHeadroom(e.arg)
	case evFindOwner:
		s.agents.findOwner(e.arg)
	case evAgentBack:
		s.agents.restore(e.arg)
	case evClaim:
		s.api.storage.happen(e.arg)
	case evMessage:
		s.process.elsewhere.arrive(e.arg)
	case evJoin:
		s.process.elsewhere.join(int(e.arg))
	case evRetire:
		if d := s.process.elsewhere.deposed; d != nil && d.number == uint32(e.arg) {
			s.process.elsewhere.retire()
		}
	case evRestart:
		if err := s.process.start(); err != nil {
			s.violations.add("restart: %v", err)
		}
	}
}
