package schedule

import (
	"slices"
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/queue"
)

// strategy is one way to get a unit its places. It reports whether the unit's turn is over: a Plan was proposed, or the unit was put to sleep.
type strategy struct {
	name string
	try  func(*attempt) bool
}

// The strategies are tried in this order; the last one always ends the unit's turn.
//
// strategies are for a cluster with queues or gangs, where a pod is a unit like a gang.
var strategies = []strategy{
	{"1. place it on free nodes, or on those reserved for it", (*attempt).place},
	{"2. take nodes that are reserved for gangs of lower rank", (*attempt).takeReserved},
	{"3. reclaim: evict pods of lower priority, or of queues beyond their guarantee", (*attempt).reclaim},
	{"4. backfill nodes that are reserved for another gang", (*attempt).backfill},
	{"5. let an equal unit backfill that may do so, and try this one again", (*attempt).backfillEqual},
	{"6. let an equal unit evict others that may do so, and try this one again", (*attempt).reclaimEqual},
	{"7. park it until a change may help", (*attempt).park},
}

// singlePodStrategies are for a cluster of single pods in one queue. There kube-scheduler's preemption decides.
var singlePodStrategies = []strategy{
	{"1. place it on the node that a preemption promised it, or on a free one", (*attempt).place},
	{"2. preempt: evict pods of lower priority from one node", (*attempt).preempt},
	{"3. park it until a change may help", (*attempt).park},
}

// overQuotaStrategies are for a unit for which the limits of its queues leave no room.
var overQuotaStrategies = []strategy{
	{"1. reclaim: evict pods of lower priority in the queue whose limit it is", (*attempt).reclaim},
	{"2. block it until the limit leaves room", (*attempt).blockByQuota},
}

// maxLooks bounds the nodes that the decisions of one Step look at beyond what their indexes keep up: to explain, to search victims, to build the index of a
// class that has none. It is some tens of milliseconds, so that nobody who asks the scheduler something waits for long, whatever has come.
const maxLooks = 250_000

// looksPerEffect is how many looks it counts as to judge a pod anew, beside one for each term that it has or that is about it.
const looksPerEffect = 64

// Step makes at most limit decisions and returns how many it made; none means that there is nothing to decide now, or that as many
// placements as may be wait for a place in flight. Decisions that look at many nodes end it early. Where several schedulers decide, what they have is counted too: another
// Step takes it in.
func (s *Scheduler) Step(now time.Time, limit int) (decisions int) {
	s.workers.step++
	if s.partitions.due(now) {
		s.workers.idle()
		s.partitions.observe(now)
	}
	s.outsiders.expire(now)
	s.queue.Expire(now)
	s.runTimers(now)
	s.endPlaces(now)
	s.turns.Follow(s.queue.SetEarly)
	decisions = s.redecideObliged(now)
	s.blocked.recheck()
	for s.looked = 0; decisions < limit && s.looked < maxLooks && !s.binder.Full(); {
		s.applyConsequences(now)
		if n := s.serveOwners(now); n > 0 {
			decisions += n
			s.blocked.recheck()
			continue
		}
		if s.redecideNext(now) {
			decisions += 1 + s.redecideObliged(now)
			s.blocked.recheck()
			continue
		}
		s.blocked.wakeNext()
		if len(s.workers.list) > 0 {
			if n, more := s.shareWork(now); more {
				decisions += n
				continue
			}
		}
		n, next := s.shareOutside(now)
		if next == goesOn {
			decisions += n
			continue
		}
		if next == awaits {
			break
		}
		u := s.nextUnit()
		if u == nil {
			more := s.redecideObliged(now)
			if decisions += more; more == 0 && !s.obliged.ready() {
				break
			}
			s.blocked.recheck()
			continue
		}
		if s.market.Due() {
			s.workers.idle()
			s.market.Learn(s.store)
		}
		s.decide(u, now)
		s.blocked.decided()
		decisions++
	}
	if s.looked >= maxLooks {
		s.endedSteps++
	}
	return decisions + s.endSharing()
}

// applyConsequences lets pods that wait know what earlier placements mean for them: what is left of the volumes, and terms that are about them.
func (s *Scheduler) applyConsequences(now time.Time) {
	for _, e := range slices.Clone(s.store.Consequences()) {
		s.looked += looksPerEffect + e.Pod.Class.Terms()
		s.applyEffect(e, now)
	}
}

// decide lets one instance place one unit, and commits its Plan.
func (s *Scheduler) decide(u *queue.Unit, now time.Time) {
	a := &s.attempt // kept, so that a decision allocates none
	*a = attempt{s: s, unit: u, in: s.instances[s.dispatcher.Choose()], now: now}
	list := strategies
	switch {
	case !a.admitted():
		a.in.snapshot.Advance(s.store)
		list = overQuotaStrategies
	case a.mayLag():
		a.lagging = true
	default:
		a.in.snapshot.Advance(s.store)
	}
	if a.quotaAdmits && u.Gang == nil && s.singlePods() {
		list = singlePodStrategies
	}
	for i := range list {
		if list[i].try(a) {
			return
		}
	}
}

// singlePods reports whether there is nothing but single pods in one queue.
func (s *Scheduler) singlePods() bool {
	return !s.store.Quota().Configured() && !s.store.Units().Gangs()
}

// propose lets the committer judge a Plan. why is reported of the pod while its victims are on their way out.
func (s *Scheduler) propose(plan *cluster.Plan, why facts.Condition) cluster.Verdict {
	verdict := s.binder.Propose(plan, why)
	s.partitions.judged(plan, verdict)
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
		s.queue.Delay(u, s.retries.next(u.Members()[0].UID, now))
		return
	}
	s.queue.Return(u)
}
