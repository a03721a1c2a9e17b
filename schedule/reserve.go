package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/schedule/place"
	"hilbert.dev/hilbert/schedule/queue"
)

const (
	// gatherGrace is how long members may come one after another before it is said that some are missing.
	gatherGrace = 5 * time.Second
	// reserveShare of ReserveAfter is the least time between two choices of nodes to keep free.
	reserveShare = 8
)

// reservation keeps nodes free for a unit that has waited long. They are chosen anew as pods leave; a node on which much is free already
// is chosen first, so that the choice stays where it has begun to pay.
type reservation struct {
	id       cluster.ReservationID
	unit     cluster.UnitName
	queue    *cluster.Queue
	priority int32
	slots    []cluster.Slot
	// until is the latest end of a pod on the nodes, as far as pods say when they end: the unit cannot start before. 0: none says.
	until int64
}

// reservations are few and ranked, so that they cannot lock one another out: each may take what those of lower rank have.
type reservations struct {
	list []*reservation // the highest rank first
	next cluster.ReservationID

	overdue map[cluster.UnitName]*queue.Unit // waited long enough
	chosen  cluster.Revision                 // the ledger's, when nodes were last chosen
	at      time.Time
	fresh   bool // somebody is overdue who was not then
}

func (r *reservations) of(name cluster.UnitName) *reservation {
	for _, x := range r.list {
		if x.unit == name {
			return x
		}
	}
	return nil
}

// open lets a unit see the nodes that are kept free for it as free.
func (r *reservations) open(u *queue.Unit, snapshot *cluster.Snapshot) cluster.ReservationID {
	if u.Gang == nil || len(r.list) == 0 {
		return cluster.NoReservation
	}
	x := r.of(u.Gang.UnitName)
	if x == nil {
		return cluster.NoReservation
	}
	x.open(snapshot)
	return x.id
}

func (x *reservation) open(snapshot *cluster.Snapshot) {
	for _, slot := range x.slots {
		if snapshot.Reservation(slot) == x.id {
			snapshot.Open(slot)
		}
	}
}

// drop ends what is done for a unit.
func (r *reservations) drop(name cluster.UnitName, store *cluster.Store) {
	delete(r.overdue, name)
	if x := r.of(name); x != nil {
		store.Reserve(x.slots, cluster.NoReservation)
		r.list = slices.DeleteFunc(r.list, func(other *reservation) bool { return other == x })
	}
}

// patience is what is known of a gang that waits: since when it fits nowhere, and when it is looked at again.
type patience struct {
	unit     *queue.Unit
	since    time.Time // it came to wait
	parked   time.Time // it was found to fit nowhere; zero: not yet
	review   time.Time
	position int // among the reviews
	told     bool
}

// await takes note that a gang waits; parked that it fits nowhere.
func (s *Scheduler) await(u *queue.Unit, parked bool, now time.Time) {
	if u.Gang == nil {
		return
	}
	p := s.patient[u.Gang.UnitName]
	if p == nil {
		p = &patience{unit: u, since: now, position: -1}
		s.patient[u.Gang.UnitName] = p
	}
	p.unit = u
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
	consider := func(at time.Time) {
		if at.After(now) && (p.review.IsZero() || at.Before(p.review)) {
			p.review = at
		}
	}
	consider(p.since.Add(gatherGrace))
	consider(s.deadline(p.unit.Gang))
	if !p.parked.IsZero() {
		consider(p.parked.Add(s.cfg.Units.ReserveAfter.D()))
	}
	if !p.review.IsZero() {
		s.reviews.Push(p)
	}
}

// settled forgets a gang of which nobody waits any more.
func (s *Scheduler) settled(name cluster.UnitName) {
	if p := s.patient[name]; p != nil {
		if p.position >= 0 {
			s.reviews.Remove(p.position)
		}
		delete(s.patient, name)
	}
	s.reserved.drop(name, s.store)
	s.unclaim(name)
}

// deadline is when a unit has timed out.
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

// tend looks after the gangs whose time has come, and keeps nodes free for those that have waited long.
func (s *Scheduler) tend(now time.Time) {
	for s.reviews.Len() > 0 && !s.reviews.First().review.After(now) {
		p := s.reviews.Pop()
		p.position = -1
		s.review(p, now)
		s.schedule(p, now)
	}
	if len(s.reserved.overdue) == 0 && len(s.reserved.list) == 0 {
		return
	}
	r := &s.reserved
	if !r.fresh && (r.chosen == s.store.Revision() || now.Before(r.at.Add(s.reserveEvery()))) {
		return
	}
	s.reserve(now)
	r.chosen, r.at, r.fresh = s.store.Revision(), now, false
}

func (s *Scheduler) reserveEvery() time.Duration { return s.cfg.Units.ReserveAfter.D() / reserveShare }

// nextTend is when tend has something to do though nothing happens.
func (s *Scheduler) nextTend() (at time.Time, ok bool) {
	if s.reviews.Len() > 0 {
		at, ok = s.reviews.First().review, true
	}
	r := &s.reserved
	if len(r.overdue)+len(r.list) > 0 && r.chosen != s.store.Revision() {
		if next := r.at.Add(s.reserveEvery()); !ok || next.Before(at) {
			at, ok = next, true
		}
	}
	return at, ok
}

// review tells a gang that its members are missing or its time is up, and counts it among those for whom nodes may be kept free.
func (s *Scheduler) review(p *patience, now time.Time) {
	u := p.unit
	members := u.Members()
	if len(members) == 0 || u.Gang.Facts == nil {
		return
	}
	if s.timedOut(u.Gang, now) {
		s.reserved.drop(u.Gang.UnitName, s.store)
	}
	switch {
	case len(members) < u.Need():
		s.tell(u, s.missing(u), now)
	case s.timedOut(u.Gang, now):
		if v := s.verdicts[u.Shape]; v != nil {
			s.tell(u, v.condition, now)
		}
	case !p.parked.IsZero() && !now.Before(p.parked.Add(s.cfg.Units.ReserveAfter.D())):
		s.reserved.overdue[u.Gang.UnitName] = u
		s.reserved.fresh = true
	}
}

func (s *Scheduler) missing(u *queue.Unit) cluster.Condition {
	return cluster.Condition{
		Reason: spec.ReasonWaitingForMembers,
		Message: fmt.Sprintf("%d members wait and %d have places, but %d are needed together; it goes on when the others have been created",
			len(u.Members()), u.Gang.Placed(), u.Gang.MinMember()),
	}
}

// reserve chooses the nodes to keep free, for the units of highest rank first.
func (s *Scheduler) reserve(now time.Time) {
	r := &s.reserved
	var wanting []*queue.Unit
	for name, u := range r.overdue {
		if members := u.Members(); len(members) == 0 || len(members) < u.Need() || !u.Gang.Ready() {
			s.reserved.drop(name, s.store)
			continue
		}
		wanting = append(wanting, u)
	}
	slices.SortFunc(wanting, s.compareClaims)
	var list []*reservation
	claims := make(map[*cluster.Queue]claim)
	taken := make(map[cluster.Slot]bool)
	for _, u := range wanting {
		if len(list) >= s.cfg.Units.MaxReservations {
			break
		}
		ask, short, admitted := s.ask(u)
		if !admitted && short.hopeless() {
			continue // no room would help it
		}
		slots, ok := place.Keep(s.store, ask, func(slot cluster.Slot) bool { return !admitted || !taken[slot] })
		if !ok {
			continue
		}
		s.claim(u, claims)
		if !admitted {
			continue // nodes are of no use before the limit leaves room
		}
		for _, slot := range slots {
			taken[slot] = true
		}
		list = append(list, s.renew(u, slots))
	}
	s.setClaims(claims)
	s.replace(list, now)
}

// compareClaims ranks units for whom nodes may be kept free: those whose queues are within their guarantee, then higher priority, then
// longer waiting.
func (s *Scheduler) compareClaims(a, b *queue.Unit) int {
	entitled := func(u *queue.Unit) int {
		if u.Queue().Entitled(chargeOf(u.Members()[:u.Need()])) {
			return 0
		}
		return 1
	}
	x, y := s.patient[a.Gang.UnitName], s.patient[b.Gang.UnitName]
	return cmp.Or(cmp.Compare(entitled(a), entitled(b)), cmp.Compare(b.Priority, a.Priority), x.parked.Compare(y.parked),
		cmp.Compare(a.Gang.Namespace, b.Gang.Namespace), cmp.Compare(a.Gang.Name, b.Gang.Name))
}

// renew returns the reservation of a unit with other nodes.
func (s *Scheduler) renew(u *queue.Unit, slots []cluster.Slot) *reservation {
	x := &reservation{unit: u.Gang.UnitName, queue: u.Queue(), priority: u.Priority, slots: slots}
	if old := s.reserved.of(x.unit); old != nil {
		x.id = old.id
	} else {
		s.reserved.next++
		x.id = s.reserved.next
	}
	for _, slot := range slots {
		for _, pod := range s.store.PodsOn(slot) {
			if pod.Deadline > 0 && pod.Started > 0 {
				x.until = max(x.until, pod.Started+pod.Deadline)
			}
		}
	}
	return x
}

// replace opens the nodes that are kept no longer, and closes those that are.
func (s *Scheduler) replace(list []*reservation, now time.Time) {
	for _, old := range s.reserved.list {
		kept := slices.IndexFunc(list, func(x *reservation) bool { return x.id == old.id })
		s.store.Reserve(slices.DeleteFunc(slices.Clone(old.slots), func(slot cluster.Slot) bool {
			return kept >= 0 && slices.Contains(list[kept].slots, slot) || s.store.Reservation(slot) != old.id
		}), cluster.NoReservation)
	}
	for _, x := range list {
		s.store.Reserve(x.slots, x.id)
		if s.reserved.of(x.unit) == nil {
			s.tell(s.patient[x.unit].unit, cluster.Condition{
				Reason:  spec.ReasonReserved,
				Message: fmt.Sprintf("%d nodes are kept free for it; it starts when enough has ended there", len(x.slots)),
			}, now)
		}
	}
	s.reserved.list = list
}

// backfill lets a unit use nodes that are kept free for another, if that one may evict it when its time has come, or if it has ended
// before.
func (s *Scheduler) backfill(u *queue.Unit, ask *place.Ask, in *instance, now time.Time) bool {
	for _, x := range s.reserved.list {
		if !s.mayBackfill(u, ask.Members, x, now) {
			continue
		}
		mark := in.snapshot.Mark()
		x.open(in.snapshot)
		placed, ok := in.placer.PlaceUnit(ask)
		if ok {
			plan := in.unitPlan(placed)
			plan.Through = x.id
			if !s.commitUnit(u, plan, cluster.Condition{}, now) {
				in.snapshot.Rollback(mark)
			}
			return true
		}
		in.snapshot.Rollback(mark)
	}
	return false
}

// backfiller returns the first of the units that would sleep with this one which may use what is kept free for another, nil if none may.
func (s *Scheduler) backfiller(u *queue.Unit, now time.Time) (best *queue.Unit) {
	if len(s.reserved.list) == 0 {
		return nil
	}
	s.queue.EachWaiting(u, func(other *queue.Unit) {
		if other != u && (best == nil || queue.Before(other, best)) && s.backfills(other, now) {
			best = other
		}
	})
	return best
}

// backfills reports whether a unit may use what is kept free for some other.
func (s *Scheduler) backfills(u *queue.Unit, now time.Time) bool {
	return slices.ContainsFunc(s.reserved.list, func(x *reservation) bool { return s.mayBackfill(u, u.Members(), x, now) })
}

func (s *Scheduler) mayBackfill(u *queue.Unit, members []*cluster.Pod, x *reservation, now time.Time) bool {
	if u.Gang != nil && u.Gang.UnitName == x.unit {
		return false
	}
	yields := u.Priority < x.priority && u.Queue() == x.queue && (x.queue.Facts == nil || !x.queue.Facts.NeverPreempts)
	return yields || !slices.ContainsFunc(members, func(pod *cluster.Pod) bool {
		return pod.Deadline == 0 || now.UnixNano()+pod.Deadline > x.until
	})
}
