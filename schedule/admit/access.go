package admit

import (
	"slices"
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/schedule/queue"
)

// Access is the reservations that are open to a unit: the one through which its Plan goes (nil: none), and those of lower rank that are
// given up if it takes a node.
type Access struct {
	Through *Reservation
	Lower   []*Reservation
}

// Open lets a decision see the nodes as free.
func (a *Access) Open(snapshot *cluster.Snapshot) {
	a.Through.Open(snapshot)
	for _, x := range a.Lower {
		x.Open(snapshot)
	}
}

// Access returns what is reserved for a unit, and for gangs that come after it: it may have their nodes.
func (r *Reservations) Access(u *queue.Unit, members []*cluster.Pod) Access {
	a := Access{Through: r.Own(u)}
	for _, x := range r.list {
		other := r.waiting[x.Unit].unit
		if other == nil || other == u {
			continue
		}
		mine, its := WithinGuarantee(u.Queue(), ChargeOf(members)), WithinGuarantee(x.queue, other.Shape.Ask)
		if mine && !its || mine == its && u.Priority > x.priority {
			a.Lower = append(a.Lower, x)
		}
	}
	return a
}

// GiveUp opens the nodes of reservations to a unit of higher rank. Others are chosen for those gangs later.
func (r *Reservations) GiveUp(lower []*Reservation) {
	for _, x := range lower {
		r.store.Reserve(x.Slots, cluster.NoReservation)
	}
	r.list = slices.DeleteFunc(slices.Clone(r.list), func(x *Reservation) bool { return slices.Contains(lower, x) })
}

// Backfills reports whether a unit may use what is reserved for some other.
func (r *Reservations) Backfills(u *queue.Unit, now time.Time) bool {
	return slices.ContainsFunc(r.list, func(x *Reservation) bool { return x.Backfills(u, u.Members(), now) })
}

// Backfills reports whether members of a unit may use the reserved nodes meanwhile: the gang may preempt them when its time has come, or they
// have ended before it could start.
func (x *Reservation) Backfills(u *queue.Unit, members []*cluster.Pod, now time.Time) bool {
	if u.Gang != nil && u.Gang.UnitName == x.Unit {
		return false
	}
	preemptible := u.Priority < x.priority && u.Queue() == x.queue && (x.queue.Facts == nil || !x.queue.Facts.NeverPreempts)
	return preemptible || !slices.ContainsFunc(members, func(pod *cluster.Pod) bool {
		return pod.Deadline == 0 || now.UnixNano()+pod.Deadline > x.Until
	})
}

// MayUse reports whether the units of a line may use a node that is reserved, by its own right or by another's leave.
func (r *Reservations) MayUse(l *queue.ShapeQueue, id cluster.ReservationID, slot cluster.Slot) bool {
	for _, x := range r.list {
		if x.ID != id {
			continue
		}
		if u := r.waiting[x.Unit].unit; u != nil && u.ShapeQueue() == l {
			return true
		}
		return (x.queue == l.Queue() || x.Until > 0 || WithinGuarantee(l.Queue(), l.Shape.Ask)) && l.Shape.Class != nil && rules.FitsThrough(&r.store.State, slot, l.Shape.Class)
	}
	return false
}
