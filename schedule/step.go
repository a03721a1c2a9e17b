package schedule

import (
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/place/explain"
	"hilbert.dev/hilbert/schedule/place/index"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/schedule/queue"
)

// Step makes at most limit decisions and returns how many it made; fewer than limit means that there is nothing more to decide now, or
// that as many placements as may be wait for a place in flight.
func (s *Scheduler) Step(now time.Time, limit int) (decisions int) {
	s.queue.Expire(now)
	s.tend(now)
	s.wake()
	for decisions < limit && !s.binder.Full() {
		s.encourage()
		u := s.queue.Pop()
		if u == nil {
			break
		}
		if s.market.Due() {
			s.market.Learn(&s.store.State)
		}
		s.decide(u, now)
		s.hope.awake = false
		decisions++
	}
	return decisions
}

// decide lets one instance place one unit, and commits its Plan.
func (s *Scheduler) decide(u *queue.Unit, now time.Time) {
	if u.Gang != nil {
		s.decideUnit(u, now)
		return
	}
	if _, admitted := s.admits(u, u.Class.Charge); !admitted {
		s.decideUnit(u, now)
		return
	}
	in := s.instances[s.dispatcher.Choose()]
	lagging := s.lag(in.number) && in.snapshot.Revision() >= u.NotBefore && in.snapshot.Knows(u.Class)
	if !lagging {
		in.snapshot.Advance(s.store)
	}
	pod := s.store.Pod(u.Pod)
	choice, ok := s.place(pod, in)
	if !ok && lagging { // "fits nowhere" is said of the newest state only
		in.snapshot.Advance(s.store)
		lagging = false
		choice, ok = s.place(pod, in)
	}
	if !ok && s.plain() {
		s.preemptOrPark(u, in, now)
		return
	}
	if !ok {
		ask, _, _ := s.ask(u)
		s.makeRoom(u, ask, in, now)
		return
	}
	plan := in.plan(pod, choice)
	verdict := s.propose(plan, facts.Condition{})
	if !verdict.Committed {
		s.rejected(u, verdict, now)
		return
	}
	if lagging {
		in.snapshot.Assume(choice.Slot, pod, choice.Grant)
	}
	s.queue.Done(u)
	s.observer.Placed(pod, now)
}

// plain reports whether there is nothing but single pods in one queue, among which upstream's preemption decides.
func (s *Scheduler) plain() bool { return !s.store.Quota().Configured() && !s.store.Gangs() }

// place chooses a node for a pod: the one that a preemption has promised it, if it fits there now, else the best.
func (s *Scheduler) place(pod *cluster.Pod, in *instance) (index.Choice, bool) {
	if pod.Nominated != "" {
		if choice, ok := in.placer.PlaceOn(s.store.Slot(pod.Nominated), pod.Class); ok {
			return choice, true
		}
	}
	return in.placer.Place(pod.Class)
}

func (in *instance) plan(pod *cluster.Pod, choice index.Choice) *cluster.Plan {
	return &cluster.Plan{
		Placements: []cluster.Placement{{Pod: pod.UID, Node: in.snapshot.Node(choice.Slot).Name, Grant: choice.Grant}},
		Revision:   in.snapshot.Revision(), Scheduler: in.number,
	}
}

// propose lets the committer judge a Plan. why is told to the pod while its victims are on their way out.
func (s *Scheduler) propose(plan *cluster.Plan, why facts.Condition) cluster.Verdict {
	verdict := s.binder.Propose(plan, why)
	if s.auditor != nil {
		s.auditor.Judged(plan, verdict)
	}
	return verdict
}

// rejected sends a unit back: at once, to be decided on a newer snapshot, or after several rejections in a row with a backoff.
func (s *Scheduler) rejected(u *queue.Unit, v cluster.Verdict, now time.Time) {
	s.observer.Rejected(v.Reason, now)
	u.NotBefore = v.Revision
	u.Attempts++
	if u.Attempts%maxRejections == 0 {
		s.queue.Delay(u, s.backoff(u.Members()[0].UID, now))
		return
	}
	s.queue.Return(u)
}

// park puts a unit's class to sleep and tells why. The explanation is computed, and told to all units of the class, at most once per
// conditions.minInterval.
func (s *Scheduler) park(u *queue.Unit, in *instance, now time.Time) {
	v, fresh := s.explained(u, in, now)
	s.queue.Park(u, s.seen(u, in))
	pod := s.store.Pod(u.Pod)
	s.observer.Unschedulable(pod, v.counts, now)
	s.binder.SetCondition(pod, v.condition, now)
	if fresh {
		s.queue.EachAlike(u, func(u *queue.Unit) {
			s.binder.SetCondition(s.store.Pod(u.Pod), v.condition, now)
		})
	}
}

// explained returns why the class of a single pod fits nowhere; fresh says that it was worked out just now.
func (s *Scheduler) explained(u *queue.Unit, in *instance, now time.Time) (v *verdict, fresh bool) {
	v = s.verdicts[u.Shape]
	if v != nil && now.Before(v.at.Add(s.cfg.Conditions.MinInterval.D())) {
		return v, false
	}
	v = newVerdict(in.placer.Explain(u.Class), now)
	s.remember(u.Shape, v)
	return v, true
}

// maxVerdicts is how many explanations are kept before the outdated ones are dropped.
const maxVerdicts = 4096

func (s *Scheduler) remember(shape *queue.Shape, v *verdict) {
	s.verdicts[shape] = v
	if len(s.verdicts) <= maxVerdicts {
		return
	}
	for other, old := range s.verdicts {
		if !v.at.Before(old.at.Add(s.cfg.Conditions.MinInterval.D())) {
			delete(s.verdicts, other)
		}
	}
}

func newVerdict(e explain.Explanation, now time.Time) *verdict {
	v := &verdict{at: now, condition: facts.Condition{Reason: spec.ReasonUnschedulable, Message: e.String()}}
	byFilter := make(map[string]int)
	for _, r := range e.Reasons {
		byFilter[r.Filter] += r.Nodes
	}
	for i := range rules.Filters {
		if n := byFilter[rules.Filters[i].Name]; n > 0 {
			v.counts = append(v.counts, FilterCount{Filter: rules.Filters[i].Name, Nodes: n})
		}
	}
	return v
}

// wake readies the units that sleep and that a change since then would now let in somewhere. What stands in other places than the node
// itself matters only through the censuses that a class reads; when those have changed, one decision settles it.
func (s *Scheduler) wake() {
	newest := s.store.Revision()
	if s.looked == newest {
		return
	}
	s.looked = newest
	s.hope.follow(s.queue)
	s.queue.Parked(func(l *queue.ShapeQueue, seen queue.Version) (queue.Version, bool) {
		now := queue.Version{Revision: newest, Domains: s.domains(l.Shape)}
		wakes := s.helped(l, seen, now)
		if wakes {
			key := sleepers(l)
			delete(s.vain, key)
			delete(s.gained, key)
		}
		return now, wakes
	})
}

// helped reports whether what has changed since may let a unit that sleeps in somewhere, or let it preempt.
func (s *Scheduler) helped(l *queue.ShapeQueue, seen, now queue.Version) bool {
	log := s.store.Log()
	if !log.Covers(seen.Revision) || now.Domains != seen.Domains {
		return true // too long ago, or too far away, to tell without a decision
	}
	hopes, frees := false, frees(l.Shape)
	for r := seen.Revision; r < now.Revision; r++ {
		change := log.At(r)
		if change.Kind&frees == 0 {
			continue
		}
		if s.helps(l, change.Slot) {
			return true
		}
		if l.Shape.Class != nil && rules.Fits(&s.store.State, change.Slot, l.Shape.Class) {
			s.hope.add(change.Slot)
			hopes = true
		}
	}
	if hopes {
		s.hope.lines = append(s.hope.lines, l)
	}
	return false
}

// frees is the kinds of changes after which there may be more room for a shape.
func frees(shape *queue.Shape) cluster.ChangeKind {
	kinds := cluster.Freed | cluster.Redefined
	asks := func(p queue.Part) bool { return p.Class.AsksReclaimed() }
	if shape.Class != nil && shape.Class.AsksReclaimed() || slices.ContainsFunc(shape.Parts, asks) {
		kinds |= cluster.Lent
	}
	return kinds
}

// helps reports whether a node on which more is free than before wakes those who sleep at once; where a single pod fits, it only has hope. A gang has to find room for as many members as found
// none: so much is gained with each node at most.
func (s *Scheduler) helps(l *queue.ShapeQueue, slot cluster.Slot) bool {
	key := sleepers(l)
	vain, preempts := s.vain[key]
	if id := s.store.Reservation(slot); id != cluster.NoReservation && s.uses(l, id, slot) {
		return true
	}
	if class := l.Shape.Class; class != nil {
		return preempts && rules.FitsWithoutLower(s.store, slot, class, vain.most)
	}
	for i := range l.Shape.Parts {
		class := l.Shape.Parts[i].Class
		if preempts && rules.FitsWithoutLower(s.store, slot, class, vain.most) {
			return true
		}
		if rules.Fits(&s.store.State, slot, class) {
			s.gained[key] += rules.PodsThatFit(&s.store.State, slot, class)
		}
	}
	v := s.verdicts[l.Shape]
	return s.gained[key] > 0 && (v == nil || s.gained[key] >= v.missing)
}

// uses reports whether a unit may use a node that is kept free, for itself or for another.
func (s *Scheduler) uses(l *queue.ShapeQueue, id cluster.ReservationID, slot cluster.Slot) bool {
	for _, x := range s.reserved.list {
		if x.id != id {
			continue
		}
		if u := s.reserved.overdue[x.unit]; u != nil && u.ShapeQueue() == l {
			return true
		}
		return (x.queue == l.Queue() || x.until > 0 || withinGuarantee(l.Queue(), l.Shape.Ask)) && l.Shape.Class != nil && rules.FitsThrough(&s.store.State, slot, l.Shape.Class)
	}
	return false
}
