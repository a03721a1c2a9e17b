package sim

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"math/rand/v2"
	"time"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/schedule/bind"
	"hilbert.dev/hilbert/sim/trace"
)

// Streams of the seed.
const (
	streamFaults = 101 + iota
	streamLag
	streamAgents
)

const (
	// StepLimit is how many decisions are asked for at a time, as the real shell does.
	StepLimit = 128
	// progressEvery and cancelEvery count steps.
	progressEvery = 1024
	cancelEvery   = 256
	// minSleep is the shortest wait for a wake-up, as timers have one.
	minSleep = int64(time.Microsecond)
	// maxIdleSteps and idleStepsPerTask bound the steps after the last task and fault, and maxRounds those within one instant: a scheduler
	// that never comes to rest is a mistake, and has to be told as one while somebody still waits for it. Runs take less than a tenth.
	maxIdleSteps     = 100_000
	idleStepsPerTask = 100
	maxRounds        = 100_000
)

// Simulation is one run.
type simulation struct {
	o    Options
	w    *trace.Workload
	now  int64
	step int

	agenda  agenda
	api     *model
	meter   *meter
	watches [watchKinds]watch
	flights []flight
	vacant  []int32 // free places in flights
	faults  *rand.Rand
	lag     *rand.Rand
	agents  *rand.Rand
	digest  hash.Hash
	line    []byte // scratch of placement
	next    int    // the first task that has not arrived

	// The process, and what it is owed within the current step.
	scheduler *schedule.Scheduler // nil while none runs
	process   uint32              // counts restarts
	wakeAt    int64               // the earliest wake-up on the agenda, 0 for none
	results   []bind.Result
	inbox     []facts.Event
	mark      time.Duration // when the decision under way began

	check *checker
	tied  bool // there are required constraints between pods
	// tenanted: there are units or queues; lasting: pods that have ended stay until somebody deletes them.
	tenanted, lasting bool
	seams             seams
	err               error
}

// seams are where tests break a run, to see that it is noticed. All are nil or false otherwise.
type seams struct {
	told     func(facts.Event) facts.Event // what the scheduler is told instead; nil: nothing
	answered func(bind.Result) bind.Result // what it is answered instead
	asleep   bool                          // it is never woken
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
	s := &simulation{
		o: o, w: w, tied: w.Tied(), tenanted: w.Tenanted(), agenda: newAgenda(), digest: sha256.New(),
		faults: rand.New(rand.NewPCG(o.Seed, streamFaults)),
		lag:    rand.New(rand.NewPCG(o.Seed, streamLag)),
		agents: rand.New(rand.NewPCG(o.Seed, streamAgents)),
	}
	s.meter = newMeter(w)
	s.api = newModel(w, s.meter)
	s.api.preempt = o.Preempt
	s.api.addAgents(w.Reports)
	if o.CheckEvery > 0 {
		s.check = newChecker(s)
	}
	if err := s.start(); err != nil {
		return nil, err
	}
	if len(w.Tasks) > 0 {
		s.agenda.add(event{at: w.Tasks[0].Created, kind: evArrive})
	}
	for i := range w.Units {
		s.agenda.add(event{at: w.Units[i].Facts.Created, kind: evUnit, arg: int32(i)})
	}
	s.planFaults()
	s.planLending()
	return s, nil
}

func (s *simulation) run(ctx context.Context) (*Report, error) {
	began := s.wall()
	interrupted := false
	idle := 0
	for s.err == nil && s.agenda.heap.Len() > 0 {
		s.now = s.agenda.heap.First().at
		for e, ok := s.agenda.next(s.now); ok; e, ok = s.agenda.next(s.now) {
			s.handle(e)
		}
		s.pump()
		s.step++
		s.inspect()
		if s.step%cancelEvery == 0 && ctx.Err() != nil {
			interrupted = true
			break
		}
		if s.o.Progress != nil && s.step%progressEvery == 0 {
			s.o.Progress(Progress{len(s.w.Tasks), s.next, s.meter.placed, time.Duration(s.now)})
		}
		if idle++; s.now <= s.meter.end {
			idle = 0
		}
		if idle > maxIdleSteps+idleStepsPerTask*len(s.w.Tasks) {
			s.violate("the scheduler does not come to rest: %+v", s.scheduler.Pending())
		}
	}
	if s.err == nil && !interrupted {
		s.atRest()
	}
	if s.err != nil {
		return nil, s.err
	}
	report := s.report(s.wall() - began)
	report.Interrupted = interrupted
	return report, nil
}

func (s *simulation) wall() time.Duration {
	if s.o.Wall == nil {
		return 0
	}
	return s.o.Wall()
}

// violate records the first broken invariant, which ends the run.
func (s *simulation) violate(format string, args ...any) {
	if s.err == nil {
		s.err = &Violation{s.o.Seed, s.step, time.Duration(s.now), fmt.Sprintf(format, args...)}
	}
}

func (s *simulation) time() time.Time { return time.Unix(0, s.now).UTC() }

func (s *simulation) handle(e event) {
	switch e.kind {
	case evArrive:
		s.arrive()
	case evLeave:
		s.leave(e.arg)
	case evFinish:
		s.finish(e.arg)
	case evForeign:
		s.foreignBind(e.arg)
	case evUngate:
		s.ungate(e.arg)
	case evDelete:
		s.deletePod(e.arg)
	case evDeliver:
		s.deliverDue(int(e.arg), e.epoch)
	case evLand:
		s.land(e.arg)
	case evAnswer:
		s.answer(e.arg)
	case evWake:
		s.wakeAt = 0
	case evFault:
		s.strike(fault(e.arg))
	case evReturn:
		s.returnNode(e.arg)
	case evUnit:
		s.createUnit(e.arg)
	case evUnitGone:
		s.deleteUnit(e.arg)
	case evAdmit:
		s.admit(e.arg)
	case evReport:
		s.reports(e.arg)
	case evLend:
		s.lend(e.arg)
	case evLook:
		s.looks(e.arg)
	case evAgentBack:
		s.agentBack(e.arg)
	case evRestart:
		if err := s.start(); err != nil {
			s.violate("restart: %v", err)
		}
	}
}

// arrive creates the tasks of this instant, and puts the next arrival on the agenda.
func (s *simulation) arrive() {
	for ; s.next < len(s.w.Tasks) && s.w.Tasks[s.next].Created <= s.now; s.next++ {
		s.createPod(int32(s.next), 0, s.drawOwner())
	}
	if s.next < len(s.w.Tasks) {
		s.agenda.add(event{at: s.w.Tasks[s.next].Created, kind: evArrive})
	}
}

func (s *simulation) createPod(task, age int32, ours bool) {
	if ours {
		s.meter.arrived(s.w.Tasks[task].Requirements)
	}
	s.begin(task, age, ours)
}

// begin creates a pod that is no arrival of its own.
func (s *simulation) begin(task, age int32, ours bool) {
	i := s.api.create(task, age, ours, s.now)
	s.drawTroubles(i)
	if until := s.w.Tasks[task].Deleted; until != trace.Never {
		kind := evLeave
		if s.drawFinish() {
			kind = evFinish
		}
		s.agenda.add(event{at: max(until, s.now), kind: kind, arg: i})
	}
	s.tellPod(i)
}

// leave removes a pod.
func (s *simulation) leave(i int32) {
	p := &s.api.pods[i]
	if !p.exists {
		return
	}
	until := s.w.Tasks[p.task].Deleted
	again := p.evicted && !p.finished && (until == trace.Never || until > s.now)
	switch {
	case !p.ours:
	case p.bound == 0 && !again:
		s.meter.unplaced(s.whyPending(p, reasonLeft))
	case p.bound != 0 && again:
		s.meter.placed--
	}
	task, age, ours := p.task, p.age, p.ours
	s.ends(i)
	s.api.remove(i, s.now)
	s.tell(watchPods, facts.PodRemoved{UID: p.uid})
	if again {
		s.begin(task, age+1, ours)
	}
}

// tellPod lets the watch say how a pod is now.
func (s *simulation) tellPod(i int32) {
	s.tell(watchPods, facts.PodUpserted{Pod: s.api.facts(i)})
}

// placement enters a Binding of ours in the digest.
func (s *simulation) placement(i int32) {
	p := &s.api.pods[i]
	line := append(s.line[:0], p.name...)
	line = append(line, 0)
	line = append(line, s.api.nodes[p.node].object.Name...)
	line = append(line, 0)
	line = binary.LittleEndian.AppendUint16(line, p.grant.GPUs)
	if !p.grant.NUMANodes.IsZero() {
		line = append(line, p.grant.NUMANodes.String()...)
	}
	s.line = binary.LittleEndian.AppendUint64(line, uint64(s.now))
	s.digest.Write(s.line)
}
