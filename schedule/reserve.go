package schedule

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/schedule/place/pack"
	"hilbert.dev/hilbert/schedule/queue"
)

// reserveShare of ReserveAfter is the least time between two choices of nodes to keep free.
const reserveShare = 8

// reservation keeps nodes free for a unit that has waited long. They are chosen anew as pods leave; a node on which much is free already
// is chosen first, so that the choice stays where it has begun to pay.
type reservation struct {
	id       cluster.ReservationID
	unit     facts.UnitName
	queue    *quota.Queue
	priority int32
	slots    []cluster.Slot
	// until is the latest end of a pod on the nodes, as far as pods say when they end: the unit cannot start before. 0: none says.
	until int64
}

// reservations are few and ranked, so that they cannot lock one another out: each may take what those of lower rank have.
type reservations struct {
	list []*reservation // the highest rank first
	next cluster.ReservationID

	overdue map[facts.UnitName]*queue.Unit // waited long enough
	chosen  cluster.Revision               // the ledger's, when nodes were last chosen
	at      time.Time
	fresh   bool // somebody is overdue who was not then
}

func (r *reservations) of(name facts.UnitName) *reservation {
	for _, x := range r.list {
		if x.unit == name {
			return x
		}
	}
	return nil
}

// own returns what is kept free for a unit, nil for nothing.
func (r *reservations) own(u *queue.Unit) *reservation {
	if u.Gang == nil {
		return nil
	}
	return r.of(u.Gang.UnitName)
}

// open lets a decision see the nodes that are kept free as free; of nil there are none.
func (x *reservation) open(snapshot *cluster.Snapshot) {
	if x == nil {
		return
	}
	for _, slot := range x.slots {
		if snapshot.Reservation(slot) == x.id {
			snapshot.Open(slot)
		}
	}
}

func (x *reservation) number() cluster.ReservationID {
	if x == nil {
		return cluster.NoReservation
	}
	return x.id
}

// drop ends what is done for a unit.
func (r *reservations) drop(name facts.UnitName, store *cluster.Store) {
	delete(r.overdue, name)
	if x := r.of(name); x != nil {
		store.Reserve(x.slots, cluster.NoReservation)
		r.list = slices.DeleteFunc(r.list, func(other *reservation) bool { return other == x })
	}
}

// tend looks after the gangs whose time has come, and keeps nodes free for those that have waited long.
func (s *Scheduler) tend(now time.Time) {
	for s.reviews.Len() > 0 && !s.reviews.First().review.After(now) {
		p := s.reviews.Pop()
		p.position = -1
		s.review(p, now)
		s.schedule(p, now)
	}
	s.retryReclaims(now)
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
	if next, due := s.nextReclaim(); due && (!ok || next.Before(at)) {
		at, ok = next, true
	}
	r := &s.reserved
	if len(r.overdue)+len(r.list) > 0 && r.chosen != s.store.Revision() {
		if next := r.at.Add(s.reserveEvery()); !ok || next.Before(at) {
			at, ok = next, true
		}
	}
	return at, ok
}

// reserve chooses the nodes to keep free, for the units of highest rank first.
func (s *Scheduler) reserve(now time.Time) {
	r := &s.reserved
	var wanting []*queue.Unit
	for _, name := range slices.SortedFunc(maps.Keys(r.overdue), compareNames) {
		u := r.overdue[name]
		if members := u.Members(); s.patient[name] == nil || len(members) < u.Need() || !u.Gang.Ready() {
			s.reserved.drop(name, s.store)
			continue
		}
		wanting = append(wanting, u)
	}
	slices.SortFunc(wanting, s.compareClaims)
	var list []*reservation
	claims := make(map[*quota.Queue]claim)
	taken := make(map[cluster.Slot]bool)
	for _, u := range wanting {
		if len(list) >= s.cfg.Units.MaxReservations {
			break
		}
		ask, short, admitted := s.ask(u)
		if !admitted && short.hopeless() {
			continue // no room would help it
		}
		slots, ok := pack.ReserveNodes(s.store, ask, func(slot cluster.Slot) bool { return !admitted || !taken[slot] })
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

func compareNames(a, b facts.UnitName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// compareClaims ranks units for whom nodes may be kept free: those whose queues are within their guarantee, then higher priority, then
// longer waiting.
func (s *Scheduler) compareClaims(a, b *queue.Unit) int {
	entitled := func(u *queue.Unit) int {
		if withinGuarantee(u.Queue(), chargeOf(u.Members()[:u.Need()])) {
			return 0
		}
		return 1
	}
	x, y := s.patient[a.Gang.UnitName], s.patient[b.Gang.UnitName]
	return cmp.Or(cmp.Compare(entitled(a), entitled(b)), cmp.Compare(b.Priority, a.Priority), x.parked.Compare(y.parked),
		compareNames(a.Gang.UnitName, b.Gang.UnitName))
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
	before := s.reserved
	s.reserved.list = list
	for _, x := range list {
		s.store.Reserve(x.slots, x.id)
		if before.of(x.unit) == nil {
			s.tell(s.reserved.overdue[x.unit], s.known(s.reserved.overdue[x.unit]), now)
		}
	}
}

// known is what the unit was last found to lack.
func (s *Scheduler) known(u *queue.Unit) facts.Condition {
	if v := s.verdicts[u.Shape]; v != nil {
		return v.condition
	}
	return facts.Condition{Reason: spec.ReasonUnschedulable}
}

// told is what a unit for which nodes are kept free is told: that they are, and what it lacks.
func (x *reservation) told(why facts.Condition) facts.Condition {
	return facts.Condition{
		Reason:  spec.ReasonReserved,
		Message: strings.TrimSpace(fmt.Sprintf("%d nodes are kept free for it; it starts when enough has ended there. %s", len(x.slots), why.Message)),
	}
}

// passage is whose reservations are open to a unit: the one that its Plan goes through (nil: none), and those that are given up for it.
type passage struct {
	through *reservation
	lower   []*reservation
}

func (p *passage) open(snapshot *cluster.Snapshot) {
	p.through.open(snapshot)
	for _, x := range p.lower {
		x.open(snapshot)
	}
}

// precedence opens what is kept for a unit, and for those who come after it.
func (s *Scheduler) precedence(u *queue.Unit, ask *pack.Ask) passage {
	return passage{s.reserved.own(u), s.outranked(u, ask.Members)}
}

// outranked lists the reservations of units that come after this one: it may have their nodes.
func (s *Scheduler) outranked(u *queue.Unit, members []*cluster.Pod) (lower []*reservation) {
	for _, x := range s.reserved.list {
		other := s.reserved.overdue[x.unit]
		if other == nil || other == u {
			continue
		}
		mine, its := withinGuarantee(u.Queue(), chargeOf(members)), withinGuarantee(x.queue, other.Shape.Ask)
		if mine && !its || mine == its && u.Priority > x.priority {
			lower = append(lower, x)
		}
	}
	return lower
}

// yield opens the nodes of reservations to one that comes first. Others are chosen for those units later.
func (s *Scheduler) yield(lower []*reservation) {
	for _, x := range lower {
		s.store.Reserve(x.slots, cluster.NoReservation)
	}
	s.reserved.list = slices.DeleteFunc(slices.Clone(s.reserved.list), func(x *reservation) bool { return slices.Contains(lower, x) })
}

// backfill lets a unit use nodes that are kept free for another, if that one may evict it when its time has come, or if it has ended
// before.
func (s *Scheduler) backfill(u *queue.Unit, ask *pack.Ask, in *instance, now time.Time) bool {
	for _, x := range s.reserved.list {
		if s.mayBackfill(u, ask.Members, x, now) && s.placeUnit(u, ask, in, passage{through: x}, now) {
			return true
		}
	}
	return false
}

// backfiller returns the first of the units that would sleep with this one which may use what is kept free for another, nil if none may.
func (s *Scheduler) backfiller(u *queue.Unit, now time.Time) (best *queue.Unit) {
	if len(s.reserved.list) == 0 {
		return nil
	}
	s.queue.EachAlike(u, func(other *queue.Unit) {
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
