package schedule

import (
	"fmt"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/queue"
)

// gatherGrace is how long members may come one after another before it is said that some are missing.
const gatherGrace = 5 * time.Second

// patience is what is known of a gang that is not done: since when it waits, and when it is looked at again.
type patience struct {
	gang     *cluster.Unit
	since    time.Time // a member came to wait
	parked   time.Time // it was found to fit nowhere; zero: not yet
	partial  time.Time // it came to have some places, but fewer than it needs; zero: it has none, or enough
	review   time.Time
	position int // among the reviews
}

func (s *Scheduler) patience(gang *cluster.Unit, now time.Time) *patience {
	p := s.patient[gang.UnitName]
	if p == nil || p.gang != gang {
		s.settled(gang.UnitName)
		p = &patience{gang: gang, since: now, position: -1}
		s.patient[gang.UnitName] = p
	}
	return p
}

// await takes note that a gang waits; parked that it fits nowhere.
func (s *Scheduler) await(u *queue.Unit, parked bool, now time.Time) {
	if u.Gang == nil {
		return
	}
	p := s.patience(u.Gang, now)
	if parked && p.parked.IsZero() {
		p.parked = now
	}
	s.schedule(p, now)
}

// schedule files when a gang is looked at again, if ever.
func (s *Scheduler) schedule(p *patience, now time.Time) {
	if p.position >= 0 {
		s.reviews.Remove(p.position)
		p.position = -1
	}
	p.review = time.Time{}
	consider := func(since time.Time, after time.Duration) {
		if at := since.Add(after); !since.IsZero() && at.After(now) && (p.review.IsZero() || at.Before(p.review)) {
			p.review = at
		}
	}
	consider(p.since, gatherGrace)
	consider(s.deadline(p.gang), 0)
	consider(p.parked, s.cfg.Units.ReserveAfter.D())
	consider(p.partial, s.cfg.Units.RepairTimeout.D())
	if !p.review.IsZero() {
		s.reviews.Push(p)
	}
}

// settled forgets a gang of which nothing is open any more.
func (s *Scheduler) settled(name facts.UnitName) {
	if p := s.patient[name]; p != nil {
		if p.position >= 0 {
			s.reviews.Remove(p.position)
		}
		delete(s.patient, name)
	}
	s.reserved.drop(name, s.store)
	s.unclaim(name)
}

// deadline is when a unit has timed out; zero: never.
func (s *Scheduler) deadline(u *cluster.Unit) time.Time {
	if u.Facts == nil {
		return time.Time{}
	}
	timeout := time.Duration(u.Facts.Timeout)
	if timeout == 0 {
		timeout = s.cfg.Units.Timeout.D()
	}
	return time.Unix(0, u.Facts.Created).Add(timeout)
}

// timedOut reports whether a unit should have been whole by now. One that runs has been.
func (s *Scheduler) timedOut(u *cluster.Unit, now time.Time) bool {
	return u.Facts != nil && !u.Running() && !now.Before(s.deadline(u))
}

// follow takes note of the units that have changed: what they need, and whether they are whole, or hold places in part.
func (s *Scheduler) follow(now time.Time) {
	for _, u := range s.store.ChangedUnits() {
		s.queue.Refresh(u)
		if u.Facts == nil {
			s.binder.ForgetUnit(u.UnitName)
		} else if u.Bound() >= u.MinMember() {
			s.binder.SetUnitCondition(u, facts.UnitCondition{
				Met: true, Reason: spec.ReasonScheduled, Message: fmt.Sprintf("%d members have places, %d are needed", u.Bound(), u.MinMember()),
			}, now)
		}
		p := s.patient[u.UnitName]
		switch partial := u.Partial(); {
		case partial && (p == nil || p.partial.IsZero()):
			p = s.patience(u, now)
			p.partial = now
			s.schedule(p, now)
		case p != nil && !partial && s.queue.Gang(u) == nil:
			s.settled(u.UnitName)
		case p != nil && !partial:
			p.partial = time.Time{}
		}
	}
}

// review tells a gang that its members are missing or its time is up, counts it among those for whom nodes may be kept free, and gives up
// the places that it holds in part.
func (s *Scheduler) review(p *patience, now time.Time) {
	if !p.partial.IsZero() && !now.Before(p.partial.Add(s.cfg.Units.RepairTimeout.D())) {
		s.dissolve(p.gang)
	}
	u := s.queue.Gang(p.gang)
	if u == nil || !p.gang.Ready() {
		return
	}
	late := s.timedOut(p.gang, now)
	if late {
		s.reserved.drop(p.gang.UnitName, s.store)
		s.unclaim(p.gang.UnitName)
	}
	switch {
	case len(u.Members()) < u.Need():
		if !now.Before(p.since.Add(gatherGrace)) {
			s.tell(u, s.missing(u), now)
		}
	case late:
		if v := s.verdicts[u.Shape]; v != nil {
			s.tell(u, v.condition, now)
		}
	case !p.parked.IsZero() && !now.Before(p.parked.Add(s.cfg.Units.ReserveAfter.D())):
		s.reserved.overdue[p.gang.UnitName] = u
		s.reserved.fresh = true
	}
}

// dissolve evicts the members of a unit that has some places, but too few to begin, and cannot get the others: nobody else may have
// them meanwhile, and two such units could lock each other out.
func (s *Scheduler) dissolve(gang *cluster.Unit) {
	for _, pod := range gang.Pods() {
		if pod.Phase == cluster.Bound && pod.Ours && !pod.Deleting {
			s.binder.Evict(pod.UID, facts.Condition{
				Reason:  spec.ReasonGangDissolved,
				Message: fmt.Sprintf("%d of the %d members that the unit needs could be bound; it starts again as a whole", gang.Placed(), gang.MinMember()),
			})
		}
	}
}

func (s *Scheduler) missing(u *queue.Unit) facts.Condition {
	return facts.Condition{
		Reason: spec.ReasonWaitingForMembers,
		Message: fmt.Sprintf("%d members wait and %d have places, but %d are needed together; it goes on when the others have been created",
			len(u.Members()), u.Gang.Placed(), u.Gang.MinMember()),
	}
}
