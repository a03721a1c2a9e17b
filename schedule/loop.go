package schedule

import "time"

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

// Step makes at most limit decisions and returns how many it made; none means that there is nothing to decide now, or that as many
// placements as may be wait for a place in flight. Decisions that look at many nodes end it early. Where several schedulers decide, what they have is counted too: another
// Step takes it in.
func (s *Scheduler) Step(now time.Time, limit int) (decisions int) {
	s.sharing.workers.step++
	if s.partitions.due(now) {
		s.sharing.workers.idle()
		s.partitions.observe(now)
	}
	s.sharing.outsiders.expire(now)
	s.queue.Expire(now)
	s.gangs.checkDue(now)
	s.blocked.retryReclaims(now)
	s.gangs.reserve(now)
	s.places.end(now)
	s.places.turns.Follow(s.queue.SetEarly)
	s.places.owners.FollowConstraints()
	decisions = s.redecider.changed(now)
	s.blocked.recheck()
	for s.decisions.looked = 0; decisions < limit && s.decisions.looked < maxLooks && !s.binder.Full(); {
		s.decisions.applyConsequences(now)
		if n := s.places.serve(now); n > 0 {
			decisions += n
			s.blocked.recheck()
			continue
		}
		if s.redecider.next(now) {
			decisions += 1 + s.redecider.changed(now)
			s.blocked.recheck()
			continue
		}
		s.blocked.wakeNext()
		if len(s.sharing.workers.list) > 0 {
			if n, more := s.sharing.withWorkers(now); more {
				decisions += n
				continue
			}
		}
		n, next := s.sharing.withOutsiders(now)
		if next == goesOn {
			decisions += n
			continue
		}
		if next == awaits {
			break
		}
		u := s.sharing.next()
		if u == nil {
			more := s.redecider.changed(now)
			if decisions += more; more == 0 && !s.obliged.ready() {
				break
			}
			s.blocked.recheck()
			continue
		}
		if s.market.Due() {
			s.sharing.workers.idle()
			s.market.Learn(s.store)
		}
		s.decisions.decide(u, now)
		s.blocked.decided()
		decisions++
	}
	if s.decisions.looked >= maxLooks {
		s.endedSteps++
	}
	return decisions + s.sharing.end()
}
