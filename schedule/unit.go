package schedule

import (
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place/pack"
	"hilbert.dev/hilbert/schedule/queue"
)

// decideUnit lets one instance place a unit of several members, or one of a cluster with queues, and commits its Plan.
func (s *Scheduler) decideUnit(u *queue.Unit, now time.Time) {
	in := s.instances[s.dispatcher.Choose()]
	ask, short, admitted := s.ask(u)
	if !admitted {
		in.snapshot.Advance(s.store)
		s.outOfQuota(u, ask, short, in, now)
		return
	}
	lagging := s.lag(in.number) && in.snapshot.Revision() >= u.NotBefore && s.knowsAll(in, ask)
	if !lagging {
		in.snapshot.Advance(s.store)
	}
	own := passage{through: s.reserved.own(u)}
	if s.placeUnit(u, ask, in, own, now) {
		return
	}
	if lagging { // "fits nowhere" is said of the newest state only
		in.snapshot.Advance(s.store)
		if s.placeUnit(u, ask, in, own, now) {
			return
		}
	}
	s.makeRoom(u, ask, in, now)
}

// placeUnit looks for places and proposes them, as if the nodes of some reservations were open. It answers false, and gives none of them up,
// when there are no places.
func (s *Scheduler) placeUnit(u *queue.Unit, ask *pack.Ask, in *instance, opened passage, now time.Time) bool {
	mark := in.snapshot.Mark()
	opened.open(in.snapshot)
	placed, ok := in.placer.PlaceUnit(ask)
	if !ok {
		in.snapshot.Rollback(mark)
		return false
	}
	s.yield(opened.lower)
	plan := in.unitPlan(placed)
	plan.Through = opened.through.number()
	if !s.commitUnit(u, plan, facts.Condition{}, now) {
		in.snapshot.Rollback(mark)
	}
	return true
}

// knowsAll reports whether the instance's snapshot has heard of all the classes.
func (s *Scheduler) knowsAll(in *instance, ask *pack.Ask) bool {
	return !slices.ContainsFunc(ask.Members, func(pod *cluster.Pod) bool { return !in.snapshot.Knows(pod.Class) })
}

// ask says what a unit wants now: as many of its members as the limits of its queues leave room for. admitted is false when that is fewer
// than it needs; the ask is then for those that it needs.
func (s *Scheduler) ask(u *queue.Unit) (ask *pack.Ask, short shortfall, admitted bool) {
	members, need := u.Members(), u.Need()
	ask = &pack.Ask{Members: members, Need: need}
	if u.Gang != nil {
		ask.Topology, ask.Subgroups = u.Gang.Facts.Topology, u.Gang.Facts.SubgroupTopology
		for _, pod := range u.Gang.Pods() {
			if !pod.Placed() {
				continue
			}
			if slot := s.store.Slot(pod.Node()); slot != cluster.NoSlot { // else its node is gone, and it will be
				ask.Anchors = append(ask.Anchors, pack.Anchor{Slot: slot, Subgroup: pod.Subgroup})
			}
		}
	}
	if _, ok := s.admits(u, chargeOf(members)); ok {
		return ask, short, true
	}
	if short, admitted = s.admits(u, chargeOf(members[:need])); !admitted {
		ask.Members = members[:need]
		return ask, short, false
	}
	low, high := need, len(members) // the first are admitted, all are not
	for low+1 < high {
		middle := (low + high) / 2
		if _, ok := s.admits(u, chargeOf(members[:middle])); ok {
			low = middle
		} else {
			high = middle
		}
	}
	ask.Members = members[:low]
	return ask, short, true
}

// chargeOf is what some pods would be charged to their queue. Pods of one class stand side by side.
func chargeOf(pods []*cluster.Pod) (sum resource.List) {
	for len(pods) > 0 {
		class, n := pods[0].Class, 1
		for n < len(pods) && pods[n].Class == class {
			n++
		}
		sum, pods = sum.Plus(class.Charge, int64(n)), pods[n:]
	}
	return sum
}

func (in *instance) unitPlan(placed []pack.MemberChoice) *cluster.Plan {
	plan := &cluster.Plan{Revision: in.snapshot.Revision(), Scheduler: in.number, Placements: make([]cluster.Placement, len(placed))}
	for i := range placed {
		plan.Placements[i] = cluster.Placement{Pod: placed[i].Pod.UID, Node: in.snapshot.Node(placed[i].Slot).Name, Grant: placed[i].Grant}
	}
	return plan
}

// commitUnit proposes a unit's Plan. Members that are not in it wait on.
func (s *Scheduler) commitUnit(u *queue.Unit, plan *cluster.Plan, why facts.Condition, now time.Time) bool {
	verdict := s.propose(plan, why)
	if !verdict.Committed {
		s.rejected(u, verdict, now)
		return false
	}
	placed := make([]facts.UID, len(plan.Placements))
	for i := range plan.Placements {
		placed[i] = plan.Placements[i].Pod
	}
	gang := u.Gang
	s.queue.Done(u, placed...)
	if gang != nil {
		s.settled(gang.UnitName)
	}
	s.follow(now)
	for _, uid := range placed {
		pod := s.store.Pod(uid)
		if pod.Obliged() {
			s.observer.Preempting(pod, pod.Victims(), now)
		} else {
			s.observer.Placed(pod, now)
		}
	}
	s.report(now)
	return true
}

// outOfQuota lets a unit wait for a queue's limit, if nobody can make room for it there.
func (s *Scheduler) outOfQuota(u *queue.Unit, ask *pack.Ask, short shortfall, in *instance, now time.Time) {
	if !short.hopeless() && s.evict(u, ask, in, now) {
		return
	}
	s.queue.BlockByQuota(u, short.Queue)
	s.tell(u, s.quotaCondition(&short), now)
	s.await(u, true, now)
}

// tell sets the condition of a unit's PodGroup and of its members that wait.
func (s *Scheduler) tell(u *queue.Unit, why facts.Condition, now time.Time) {
	if u.Gang != nil {
		if x := s.reserved.of(u.Gang.UnitName); x != nil && (why.Reason == spec.ReasonUnschedulable || why.Reason == spec.ReasonTopologyPlacementFailed) {
			why = x.told(why)
		}
		if s.timedOut(u.Gang, now) {
			why = facts.Condition{Reason: spec.ReasonTimedOut, Message: "not whole in time. It is tried on. " + why.Message}
		}
		s.binder.SetUnitCondition(u.Gang, facts.UnitCondition{Reason: why.Reason, Message: why.Message}, now)
	}
	for _, pod := range u.Members() {
		s.binder.SetCondition(pod, why, now)
	}
}

// makeRoom gives a unit that fits nowhere what is kept free for those who come after it; else it evicts others, if it may; else it lets it use
// what is kept free for others, if that does them no harm; else its shape sleeps.
func (s *Scheduler) makeRoom(u *queue.Unit, ask *pack.Ask, in *instance, now time.Time) {
	first := s.precedence(u, ask)
	if len(first.lower) > 0 && s.placeUnit(u, ask, in, first, now) || s.evict(u, ask, in, now) || s.backfill(u, ask, in, now) {
		return
	}
	if other := s.backfiller(u, now); other != nil { // of the same shape: it sleeps when this one does
		s.queue.Take(other)
		if less, _, admitted := s.ask(other); admitted && s.backfill(other, less, in, now) {
			s.queue.Return(u)
			return
		}
		s.queue.Return(other)
	}
	s.parkUnit(u, ask, in, now)
}

// evict finds victims for a unit and commits to them. It answers false when the unit has to wait.
func (s *Scheduler) evict(u *queue.Unit, ask *pack.Ask, in *instance, now time.Time) bool {
	if !s.mayEvict(u, ask, in) {
		return false
	}
	key := sleeperOf(u)
	mark := in.snapshot.Mark()
	first := s.precedence(u, ask)
	first.open(in.snapshot)
	found, ok := in.reclaims.Evict(ask, now.UnixNano())
	in.snapshot.Rollback(mark)
	if !ok {
		s.inVain(key, u.Priority)
		return false
	}
	s.yield(first.lower)
	plan := in.unitPlan(found.Placements)
	plan.Reclaims, plan.Through = found.Reclaims, first.through.number()
	for _, victim := range found.Victims {
		plan.Victims = append(plan.Victims, victim.UID)
	}
	why, _ := s.explainedUnit(u, ask, in, now)
	s.commitUnit(u, plan, why.condition, now) // if that is refused, the unit has its next turn
	return true
}

// mayEvict reports whether a unit may evict others now. One whose victims of before a restart are on their way out has to wait for them.
func (s *Scheduler) mayEvict(u *queue.Unit, ask *pack.Ask, in *instance) bool {
	for _, pod := range ask.Members {
		if pod.NeverPreempts {
			return false
		}
		if pod.Nominated != "" && in.preempts.AwaitsVictims(pod) {
			s.later(sleeperOf(u), u.Priority)
			return false
		}
	}
	v, known := s.vain[sleeperOf(u)]
	return !known || !v.any || u.Priority > v.tried
}

// parkUnit puts a unit's shape to sleep and tells why.
func (s *Scheduler) parkUnit(u *queue.Unit, ask *pack.Ask, in *instance, now time.Time) {
	v, fresh := s.explainedUnit(u, ask, in, now)
	s.queue.Park(u, s.seen(u, in))
	s.observer.Unschedulable(ask.Members[0], v.counts, now)
	s.tell(u, v.condition, now)
	s.await(u, true, now)
	if fresh {
		s.queue.EachAlike(u, func(other *queue.Unit) {
			if other != u {
				s.tell(other, v.condition, now)
			}
		})
	}
}

// explainedUnit returns why a unit fits nowhere; fresh says that it was worked out just now.
func (s *Scheduler) explainedUnit(u *queue.Unit, ask *pack.Ask, in *instance, now time.Time) (v *verdict, fresh bool) {
	if u.Gang == nil {
		return s.explained(u, in, now)
	}
	v = s.verdicts[u.Shape]
	if v != nil && now.Before(v.at.Add(s.cfg.Conditions.MinInterval.D())) {
		return v, false
	}
	mark := in.snapshot.Mark()
	s.reserved.own(u).open(in.snapshot)
	e := in.placer.ExplainUnit(ask)
	in.snapshot.Rollback(mark)
	v = &verdict{at: now}
	if e.Short != nil {
		v = newVerdict(e.Short.Explanation, now)
	}
	v.condition = facts.Condition{Reason: spec.ReasonUnschedulable, Message: e.String()}
	v.missing = max(e.Need-e.Anywhere, 1)
	if e.Unpacked() {
		v.condition.Reason = spec.ReasonTopologyPlacementFailed
	}
	s.remember(u.Shape, v)
	return v, true
}

// sleeper is whose units sleep and wake together: those of one line. Its name outlives the line.
type sleeper struct {
	queue  *quota.Queue
	tenant string
	shape  *queue.Shape
}

func sleeperOf(u *queue.Unit) sleeper { return sleeper{u.Queue(), u.Tenant(), u.Shape} }

func sleepers(l *queue.ShapeQueue) sleeper { return sleeper{l.Queue(), l.Tenant(), l.Shape} }

// seen is what a unit that fits nowhere has looked at.
func (s *Scheduler) seen(u *queue.Unit, in *instance) queue.Version {
	return queue.Version{Revision: in.snapshot.Revision(), Domains: s.domains(u.Shape)}
}

// domains is the version of all censuses that a shape reads.
func (s *Scheduler) domains(shape *queue.Shape) (version uint64) {
	if shape.Class != nil {
		return s.store.DomainsVersion(shape.Class)
	}
	for i := range shape.Parts {
		version += s.store.DomainsVersion(shape.Parts[i].Class)
	}
	return version
}
