package sim

import (
	"fmt"
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/schedule/bind"
)

// start makes a process: a new Scheduler, fed with a consistent list.
func (s *simulation) start() error {
	options := schedule.Options{Config: s.o.Config, Instances: s.o.Schedulers, Observer: observer{s}}
	if s.o.Schedulers > 1 {
		// Three times in four an instance decides on what it has.
		options.Lag = func(int) bool { return s.lag.IntN(4) > 0 }
	}
	scheduler, err := schedule.New(options)
	if err != nil {
		return fmt.Errorf("new scheduler: %w", err)
	}
	s.scheduler = scheduler
	if s.check != nil {
		s.check.forget()
	}
	if len(s.w.Controllers) > 0 {
		s.give(facts.WorkloadsListed{Kind: facts.ReplicaSet, Workloads: s.w.Controllers})
	}
	if s.tenanted {
		s.list(watchNamespaces)
		s.list(watchQueues)
		s.list(watchUnits)
	}
	if s.reportsNUMA() {
		s.list(watchReports)
	}
	s.list(watchNodes)
	s.list(watchPods)
	return nil
}

// crash ends the process: its watches close, and nobody reads the answers to its writes.
func (s *simulation) crash() {
	s.scheduler = nil
	s.process++
	s.wakeAt = 0
	s.results, s.inbox = s.results[:0], s.inbox[:0]
	for i := range s.watches {
		s.watches[i].close()
	}
}

// give hands an event to the scheduler.
func (s *simulation) give(e facts.Event) {
	if s.check != nil {
		s.check.told(e)
	}
	if s.seams.told != nil {
		if e = s.seams.told(e); e == nil {
			return
		}
	}
	s.scheduler.Apply(e, s.time())
}

// pump lets the scheduler do all it can now, as the real shell's loop does, and goes to sleep until it wants to be woken.
func (s *simulation) pump() {
	if s.scheduler == nil {
		return
	}
	now := s.time()
	busy := true
	for rounds := 0; busy && s.err == nil; rounds++ {
		if rounds > maxRounds+len(s.w.Tasks) {
			s.violate("the scheduler does not come to rest within one instant: %+v", s.scheduler.Pending())
		}
		s.settle(now)
		s.mark = s.wall()
		decisions := s.scheduler.Step(now, StepLimit)
		s.meter.decisions += decisions
		writes := s.scheduler.Ready(now)
		for i := range writes {
			s.send(&writes[i])
		}
		busy = decisions > 0 || len(writes) > 0 || len(s.results)+len(s.inbox) > 0
	}
	at, ok := s.scheduler.NextWake(now)
	if !ok || s.seams.asleep {
		return
	}
	wake := max(at.UnixNano(), s.now+minSleep)
	if s.wakeAt == 0 || wake < s.wakeAt {
		s.wakeAt = wake
		s.agenda.add(event{at: wake, kind: evWake})
	}
}

// settle hands over the answers and the events of this instant.
func (s *simulation) settle(now time.Time) {
	for i := 0; i < len(s.results); i++ {
		s.finishWrite(s.results[i], now)
	}
	s.results = s.results[:0]
	for i := 0; i < len(s.inbox); i++ {
		s.give(s.inbox[i])
		s.inbox[i] = nil
	}
	s.inbox = s.inbox[:0]
}

func (s *simulation) finishWrite(r bind.Result, now time.Time) {
	if s.check != nil {
		s.check.answered(r)
	}
	if s.seams.answered != nil {
		r = s.seams.answered(r)
	}
	s.scheduler.Finish(r, now)
}

// answerName names an answer for the count of faults.
func answerName(w *bind.Write, r bind.Result) string {
	kind := [...]string{
		bind.WriteBinding: "binding", bind.WriteCondition: "condition", bind.ReadPod: "read", bind.WriteNomination: "nomination",
		bind.WriteDisruption: "disruption", bind.DeletePod: "deletion", bind.WriteUnitCondition: "unit condition",
		bind.EvictPod: "eviction", bind.WriteEvent: "event",
	}[w.Kind]
	outcome := [...]string{
		bind.Written: "done", bind.Gone: "gone", bind.Conflict: "conflict", bind.Refused: "refused", bind.Unknown: "unknown",
		bind.NotSent: "not sent", bind.Withheld: "withheld",
	}[r.Outcome]
	switch {
	case w.Kind == bind.ReadPod && r.Outcome == bind.Written && r.Node == "":
		outcome = "unbound"
	case w.Kind == bind.ReadPod && r.Outcome == bind.Written && r.Node != w.Node:
		outcome = "elsewhere"
	}
	return kind + " " + outcome
}

// flight is a write on its way.
type flight struct {
	write   bind.Write
	result  bind.Result
	process uint32
}

// send starts a write. Without faults it takes no time.
func (s *simulation) send(w *bind.Write) {
	if s.check != nil {
		s.check.sent(w)
	}
	if s.o.Faults == nil {
		result := s.execute(w)
		s.results = append(s.results, result)
		return
	}
	s.launch(w)
}

// execute does a write on the model, and lets the watch tell of it.
func (s *simulation) execute(w *bind.Write) bind.Result {
	result, bound, over := s.api.execute(w, s.now)
	if bound != nowhere {
		s.meter.placed++
		s.placement(bound)
		s.runs(bound)
		s.starts(bound)
		s.tellPod(bound)
		if over != "" {
			s.overcommit(bound, over)
		}
		return result
	}
	if result.Outcome != bind.Written {
		return result
	}
	if w.Kind == bind.WriteUnitCondition {
		s.tell(watchUnits, facts.UnitUpserted{Unit: s.api.tenants.Units[w.Unit]})
		return result
	}
	switch i := s.api.byUID[w.Pod]; w.Kind {
	case bind.WriteCondition, bind.WriteNomination, bind.WriteDisruption:
		s.tellPod(i)
	case bind.DeletePod:
		s.evict(i)
	case bind.EvictPod:
		s.relieve(w, &result)
	default:
	}
	return result
}

// gracePeriod is how long a victim takes to end where nothing is drawn.
const gracePeriod = int64(time.Second)

// evict deletes a victim: it is given time to end if it runs.
func (s *simulation) evict(i int32) {
	p := &s.api.pods[i]
	if p.deleting {
		return
	}
	p.evicted = true
	s.meter.evicted++
	if p.node == nowhere {
		s.leave(i)
		return
	}
	p.deleting = true
	s.api.revision++
	s.tellPod(i)
	grace := gracePeriod
	if s.o.Faults != nil {
		grace = s.faults.Int64N(int64(5 * time.Second))
	}
	s.agenda.add(event{at: s.now + grace, kind: evLeave, arg: i})
}

// overcommit judges a Binding of ours that made a node hold more than it has. It is excused if another scheduler bound a pod there that
// ours could not know of when it decided: no scheduler can prevent that.
func (s *simulation) overcommit(i int32, over string) {
	p := &s.api.pods[i]
	n := &s.api.nodes[p.node]
	if n.raced {
		return
	}
	for _, other := range n.pods {
		if o := &s.api.pods[other]; o.foreign && o.bound > p.seen {
			n.raced = true
			s.meter.faults["node raced for"]++
			return
		}
	}
	s.violate("pod %s over-commits node %s: %s", p.uid, n.object.Name, over)
}

// observer is what the scheduler tells.
type observer struct{ s *simulation }

// decided times the decision that has just ended, and begins the next.
func (o observer) decided() {
	if o.s.o.Wall == nil {
		return
	}
	now := o.s.wall()
	o.s.meter.latency.add(now - o.s.mark)
	o.s.mark = now
}

// saw notes what the scheduler had been told when it committed itself.
func (o observer) saw(pod *cluster.Pod) {
	if i, ok := o.s.api.byUID[pod.UID]; ok {
		w, p := &o.s.watches, &o.s.api.pods[i]
		p.seen, p.seenNode, p.seenSaid = w[watchPods].delivered, w[watchNodes].delivered, w[watchReports].delivered
	}
}

// Placed is part of schedule.Observer.
func (o observer) Placed(pod *cluster.Pod, _ time.Time) {
	o.decided()
	o.s.meter.committed++
	delete(o.s.meter.latest, pod.Class.Requirements)
	o.saw(pod)
	if o.s.check != nil {
		o.s.check.committed(pod)
		o.s.mark = o.s.wall()
	}
}

// Preempting is part of schedule.Observer.
func (o observer) Preempting(pod *cluster.Pod, victims []*cluster.Pod, _ time.Time) {
	o.decided()
	o.s.meter.committed++
	delete(o.s.meter.latest, pod.Class.Requirements)
	if o.s.check != nil {
		o.s.check.preempting(pod, victims)
		o.s.mark = o.s.wall()
	}
}

// Cleared is part of schedule.Observer.
func (o observer) Cleared(pod *cluster.Pod, _ time.Time) {
	o.saw(pod)
	if o.s.check != nil {
		o.s.check.cleared(pod)
	}
}

// Rejected is part of schedule.Observer.
func (o observer) Rejected(string, time.Time) {
	o.decided()
	o.s.meter.rejected++
}

// Unschedulable is part of schedule.Observer.
func (o observer) Unschedulable(pod *cluster.Pod, reasons []schedule.FilterCount, _ time.Time) {
	o.decided()
	o.s.meter.explain(pod.Class.Requirements, reasons)
	if o.s.check != nil {
		o.s.check.unschedulable(pod)
		o.s.mark = o.s.wall()
	}
}

// Bound is part of schedule.Observer.
func (o observer) Bound(*cluster.Pod, time.Time) {}

// Released is part of schedule.Observer.
func (o observer) Released(pod *cluster.Pod, _ string, _ time.Time) {
	o.s.meter.released++
	if o.s.check != nil {
		o.s.check.released(pod.UID)
	}
}

// Judged is told of every Plan and its Verdict, by schedulers that offer it.
func (o observer) Judged(plan *cluster.Plan, verdict cluster.Verdict) {
	if o.s.check != nil {
		o.s.check.judged(plan, verdict)
	}
}
