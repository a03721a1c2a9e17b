package schedule

import (
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/schedule/place"
	"hilbert.dev/hilbert/schedule/queue"
)

// Step makes at most limit decisions and returns how many it made; fewer than limit means that there is nothing more to decide now, or
// that as many placements as may be wait for a place in flight.
func (s *Scheduler) Step(now time.Time, limit int) (decisions int) {
	s.queue.Expire(now)
	s.wake()
	for decisions < limit && !s.binder.Full() {
		u := s.queue.Pop()
		if u == nil {
			break
		}
		s.decide(u, now)
		decisions++
	}
	return decisions
}

// decide lets one instance place one unit, and commits its Plan.
func (s *Scheduler) decide(u *queue.Unit, now time.Time) {
	in := s.instances[s.dispatcher.Choose()]
	lagging := s.lag(in.number) && in.snapshot.Revision() >= u.NotBefore
	if !lagging {
		in.snapshot.Advance(s.store)
	}
	choice, ok := in.placer.Place(u.Class)
	if !ok && lagging { // "fits nowhere" is said of the newest state only
		in.snapshot.Advance(s.store)
		lagging = false
		choice, ok = in.placer.Place(u.Class)
	}
	if !ok {
		s.park(u, in, now)
		return
	}
	pod := s.store.Pod(u.Pod)
	plan := cluster.Plan{
		Placements: []cluster.Placement{{Pod: u.Pod, Node: in.snapshot.Node(choice.Slot).Name, Grant: choice.Grant}},
		Revision:   in.snapshot.Revision(), Scheduler: in.number,
	}
	verdict := s.binder.Propose(&plan)
	if s.auditor != nil {
		s.auditor.Judged(&plan, verdict)
	}
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

// rejected sends a unit back: at once, to be decided on a newer snapshot, or after several rejections in a row with a backoff.
func (s *Scheduler) rejected(u *queue.Unit, v cluster.Verdict, now time.Time) {
	s.observer.Rejected(v.Reason, now)
	u.NotBefore = v.Revision
	u.Attempts++
	if u.Attempts%maxRejections == 0 {
		s.queue.Delay(u, s.backoff(u.Pod, now))
		return
	}
	s.queue.Return(u)
}

// park puts a unit's class to sleep and tells why. The explanation is computed, and told to all units of the class, at most once per
// conditions.minInterval.
func (s *Scheduler) park(u *queue.Unit, in *instance, now time.Time) {
	v := s.verdicts[u.Class]
	fresh := v == nil || !now.Before(v.at.Add(s.cfg.Conditions.MinInterval.D()))
	if fresh {
		v = explain(in.placer.Explain(u.Class), now)
		s.remember(u.Class, v)
	}
	s.queue.Park(u, queue.Seen{Revision: in.snapshot.Revision(), Domains: s.store.DomainsVersion(u.Class)})
	pod := s.store.Pod(u.Pod)
	s.observer.Unschedulable(pod, v.counts, now)
	s.binder.Report(pod, v.condition, now)
	if fresh {
		s.queue.EachWaiting(u.Class, func(u *queue.Unit) {
			s.binder.Report(s.store.Pod(u.Pod), v.condition, now)
		})
	}
}

// maxVerdicts is how many explanations are kept before the outdated ones are dropped.
const maxVerdicts = 4096

func (s *Scheduler) remember(class *cluster.Class, v *verdict) {
	s.verdicts[class] = v
	if len(s.verdicts) <= maxVerdicts {
		return
	}
	for other, old := range s.verdicts {
		if !v.at.Before(old.at.Add(s.cfg.Conditions.MinInterval.D())) {
			delete(s.verdicts, other)
		}
	}
}

func explain(e place.Explanation, now time.Time) *verdict {
	v := &verdict{at: now, condition: cluster.Condition{Reason: spec.ReasonUnschedulable, Message: e.String()}}
	byFilter := make(map[string]int)
	for _, r := range e.Reasons {
		byFilter[r.Filter] += r.Nodes
	}
	for i := range place.Filters {
		if n := byFilter[place.Filters[i].Name]; n > 0 {
			v.counts = append(v.counts, FilterCount{Filter: place.Filters[i].Name, Nodes: n})
		}
	}
	return v
}

// wake readies the parked classes that a change since they were parked would now let in somewhere. What stands in other places than the
// node itself matters only through the censuses that a class reads; when those have changed, one decision settles it.
func (s *Scheduler) wake() {
	newest := s.store.Revision()
	if s.looked == newest {
		return
	}
	s.looked = newest
	log := s.store.Log()
	s.queue.Parked(func(class *cluster.Class, seen queue.Seen) (queue.Seen, bool) {
		now := queue.Seen{Revision: newest, Domains: s.store.DomainsVersion(class)}
		if !log.Covers(seen.Revision) || now.Domains != seen.Domains {
			return now, true // too long ago, or too far away, to tell without a decision
		}
		for r := seen.Revision; r < newest; r++ {
			change := log.At(r)
			if change.Kind&(cluster.Freed|cluster.Redefined) != 0 && place.Fits(&s.store.State, change.Slot, class) {
				return now, true
			}
		}
		return now, false
	})
}
