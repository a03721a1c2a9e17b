package schedule

import (
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place/victims"
	"hilbert.dev/hilbert/schedule/queue"
)

// vain is what is known of the preemption for a parked class. Which pods could be victims depends on the priority, so a unit of a higher
// one has to be tried even though its class sleeps.
type vain struct {
	tried int32 // the highest priority for which there is no candidate
	most  int32 // the highest priority of a unit that would preempt if it could
	any   bool  // whether tried says something
}

// preemptOrPark finds victims for the unit that fits nowhere or, if it must not have any, for the next of its class that may. Else the
// class sleeps.
func (s *Scheduler) preemptOrPark(u *queue.Unit, in *instance, now time.Time) {
	next := s.contender(u, in)
	if next == nil {
		s.park(u, in, now)
		return
	}
	pod := s.store.Pod(next.Pod)
	found, ok := in.preempts.Resume(pod)
	if !ok {
		found, ok = in.preempts.Preempt(pod)
	}
	if !ok {
		s.inVain(sleeperOf(u), pod.Priority)
		s.park(u, in, now)
		return
	}
	if next != u { // the unit itself is tried again when the other has its place
		s.queue.Take(next)
		s.queue.Return(u)
	}
	s.preempt(next, found, in, now)
}

// preempt commits to a preemption for a popped unit.
func (s *Scheduler) preempt(u *queue.Unit, found victims.Preemption, in *instance, now time.Time) {
	pod := s.store.Pod(u.Pod)
	plan := in.plan(pod, found.Choice)
	for _, victim := range found.Victims {
		plan.Victims = append(plan.Victims, victim.UID)
	}
	v, _ := s.explained(u, in, now)
	verdict := s.propose(plan, v.condition)
	if !verdict.Committed {
		s.rejected(u, verdict, now)
		return
	}
	s.queue.Done(u)
	s.observer.Preempting(pod, found.Victims, now)
	s.report(now)
}

// contender returns the most important waiting unit of a class that may preempt now: as a rule the one that was popped. nil: none.
func (s *Scheduler) contender(popped *queue.Unit, in *instance) *queue.Unit {
	if s.mayPreempt(popped, in) {
		return popped
	}
	var best *queue.Unit
	s.queue.EachAlike(popped, func(u *queue.Unit) {
		if (best == nil || queue.Before(u, best)) && s.mayPreempt(u, in) {
			best = u
		}
	})
	return best
}

// mayPreempt reports whether a pod may evict others now. One whose victims of before a restart are on their way out has to wait for them,
// unless they make room enough.
func (s *Scheduler) mayPreempt(u *queue.Unit, in *instance) bool {
	pod := s.store.Pod(u.Pod)
	if pod.NeverPreempts {
		return false
	}
	if pod.Nominated == "" || !in.preempts.AwaitsVictims(pod) {
		return true
	}
	if _, ok := in.preempts.Resume(pod); ok {
		return true
	}
	s.later(sleeperOf(u), pod.Priority)
	return false
}

// hopes reports whether a unit that came to others which sleep has to be tried nevertheless.
func (s *Scheduler) hopes(u *queue.Unit, now time.Time) bool {
	if s.backfills(u, now) {
		return true
	}
	for _, pod := range u.Members() {
		if pod.NeverPreempts {
			return false
		}
	}
	v := s.vain[sleeperOf(u)]
	return !v.any || u.Priority > v.tried
}

// inVain takes note that there are no victims for those that sleep together at a priority.
func (s *Scheduler) inVain(key sleeper, priority int32) {
	s.later(key, priority)
	v := s.vain[key]
	v.tried, v.any = priority, true
	s.vain[key] = v
}

// reclaimEvery is the least time between two looks at who could reclaim by now.
const reclaimEvery = 5 * time.Second

// reclaims keeps when those were last looked at who sleep because nobody could be evicted for them.
type reclaims struct {
	looked cluster.Revision
	at     time.Time
}

// retryReclaims wakes those who found nobody to evict, and whose queue is within its guarantee: it may have been beyond it then, or the others
// within theirs. No change of a node tells of that.
func (s *Scheduler) retryReclaims(now time.Time) {
	if at, due := s.nextReclaim(); !due || now.Before(at) {
		return
	}
	s.reclaims = reclaims{s.store.Revision(), now}
	s.queue.Parked(func(l *queue.ShapeQueue, seen queue.Version) (queue.Version, bool) {
		key := sleepers(l)
		if v := s.vain[key]; !v.any || !withinGuarantee(l.Queue(), l.Shape.Ask) {
			return seen, false
		}
		delete(s.vain, key)
		return seen, true
	})
}

// nextReclaim is when retryReclaims has something to do; due is false while it has not.
func (s *Scheduler) nextReclaim() (at time.Time, due bool) {
	if !s.store.Quota().Configured() || len(s.vain) == 0 || s.reclaims.looked == s.store.Revision() {
		return time.Time{}, false
	}
	return s.reclaims.at.Add(reclaimEvery), true
}

// withinGuarantee reports whether a queue would stay within its guarantee with a request added, in every resource that has one, and has one
// at all.
func withinGuarantee(q *quota.Queue, ask resource.List) (some bool) {
	for _, a := range ask {
		guaranteed := q.Guaranteed(a.Kind)
		if guaranteed > 0 && q.Used(a.Kind)+a.Value > guaranteed {
			return false
		}
		some = some || guaranteed > 0
	}
	return some
}

// later takes note that one of those that sleep together will want to preempt when something changes.
func (s *Scheduler) later(key sleeper, priority int32) {
	v, known := s.vain[key]
	if !known || priority > v.most {
		v.most = priority
	}
	s.vain[key] = v
	if len(s.vain) > maxVerdicts { // classes that went without waking leave entries behind; the rest is found out anew
		clear(s.vain)
		s.vain[key] = v
	}
}
