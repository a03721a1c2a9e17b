package admit

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/schedule/place/pack"
	"hilbert.dev/hilbert/schedule/queue"
)

// Reservation is the nodes that are reserved for a gang that has waited long. They are chosen again as pods leave; a node on which much is
// free already is chosen first, so that the choice stays where it has begun to pay.
type Reservation struct {
	ID    cluster.ReservationID
	Unit  facts.UnitName
	Slots []cluster.Slot
	// Until is the latest end of a pod on the nodes, as far as pods say when they end: the unit cannot start before. 0: none says.
	Until int64

	queue    *quota.Queue
	priority int32
}

// Number is the reservation's number in the ledger; of nil, NoReservation.
func (x *Reservation) Number() cluster.ReservationID {
	if x == nil {
		return cluster.NoReservation
	}
	return x.ID
}

// Open lets a decision see the reserved nodes as free; of nil there are none.
func (x *Reservation) Open(snapshot *cluster.Snapshot) {
	if x == nil {
		return
	}
	for _, slot := range x.Slots {
		if snapshot.Reservation(slot) == x.ID {
			snapshot.Open(slot)
		}
	}
}

// Reservations keep large gangs from starving: a gang that has waited long gets nodes reserved, and other units use the rest or backfill. They are few
// and ranked, so that two gangs cannot block one another: each gang may take the nodes of gangs of lower rank.
//
// Example: in a cluster of 8 nodes gang a (priority 10) and gang b (priority 5) need 4 nodes each, and each has 4 reserved. b's nodes become free first.
// a may take them; b loses its reservation, and gets other nodes reserved.
type Reservations struct {
	store *cluster.Store
	gate  *Gate
	most  int // reservations at once

	list    []*Reservation // the highest rank first
	last    cluster.ReservationID
	waiting map[facts.UnitName]waiter // have waited long enough
	chosen  changes.Revision          // the ledger's, when nodes were last chosen
	at      time.Time
	added   bool          // a gang waits for nodes that did not then
	every   time.Duration // between two choices
	tried   int
}

// waiter is a gang that has waited long enough to get nodes reserved.
type waiter struct {
	unit     *queue.Unit
	since    time.Time
	failures int       // how often in a row no nodes could be reserved
	retry    time.Time // not tried before
}

// maxFailures bounds the gangs of one namespace for which Choose may look at all nodes in vain, and maxRetryFactor the pause after that, in times
// of the one between two calls. Without the bounds 300 gangs that no node can hold would cost seconds each time.
const (
	maxFailures    = 8
	maxRetryFactor = 64
)

// List returns the reservations, the highest rank first.
func (r *Reservations) List() []*Reservation { return r.list }

// Of returns what is reserved for a gang, nil for nothing.
func (r *Reservations) Of(name facts.UnitName) *Reservation {
	for _, x := range r.list {
		if x.Unit == name {
			return x
		}
	}
	return nil
}

// Own returns what is reserved for a unit, nil for nothing.
func (r *Reservations) Own(u *queue.Unit) *Reservation {
	if u.Gang == nil {
		return nil
	}
	return r.Of(u.Gang.UnitName)
}

// Restore makes a reservation of the nodes that the ledger has reserved by a number, as a dump says. It knows no rank.
func (r *Reservations) Restore(id cluster.ReservationID, name facts.UnitName) {
	x := &Reservation{ID: id, Unit: name}
	for slot := range cluster.Slot(r.store.Slots()) {
		if r.store.Reservation(slot) == id {
			x.Slots = append(x.Slots, slot)
		}
	}
	r.list = append(r.list, x)
}

// Want says that a gang has waited long enough: the next Choose may reserve nodes for it.
func (r *Reservations) Want(u *queue.Unit, since time.Time) {
	w := r.waiting[u.Gang.UnitName]
	w.unit, w.since = u, since
	r.waiting[u.Gang.UnitName] = w
	r.added = true
}

// drop ends what is done for a gang.
func (r *Reservations) drop(name facts.UnitName) {
	delete(r.waiting, name)
	if x := r.Of(name); x != nil {
		r.store.Reserve(x.Slots, cluster.NoReservation)
		r.list = slices.DeleteFunc(r.list, func(other *Reservation) bool { return other == x })
	}
}

// Due reports whether nodes are to be chosen now: a gang was added, or something has changed and the last choice was made some time ago.
func (r *Reservations) Due(now time.Time, every time.Duration) bool {
	r.every = every
	if len(r.waiting) == 0 && len(r.list) == 0 {
		return false
	}
	return r.added || r.chosen != r.store.Revision() && !now.Before(r.at.Add(every))
}

// Next is when nodes are to be chosen though nothing happens; ok is false if never.
func (r *Reservations) Next(every time.Duration) (at time.Time, ok bool) {
	if len(r.waiting)+len(r.list) == 0 || r.chosen == r.store.Revision() {
		return time.Time{}, false
	}
	return r.at.Add(every), true
}

// SetMost says for how many gangs nodes are reserved at once from now on. With fewer, the gangs of lowest rank lose theirs when nodes are chosen next.
func (r *Reservations) SetMost(most int) { r.most = most }

// Tried counts the gangs for which all nodes were looked at.
func (r *Reservations) Tried() int { return r.tried }

// Choose chooses the nodes to reserve, and claims limits, for the gangs of highest rank first. It returns the gangs that had no nodes
// reserved before.
func (r *Reservations) Choose(now time.Time) (fresh []*queue.Unit) {
	var list []*Reservation
	claims := make(map[*quota.Queue]claim)
	taken, failed := make(map[cluster.Slot]bool), make(map[string]int)
	for _, w := range r.ranked() {
		if len(list) >= r.most {
			break
		}
		u := w.unit
		name := u.Gang.UnitName
		if r.Of(name) == nil && (now.Before(w.retry) || failed[name.Namespace] >= maxFailures) {
			continue
		}
		ask, short, admitted := r.gate.Ask(u)
		if !admitted && short.NeverFits() {
			continue // no room would help it
		}
		r.tried++
		slots, ok := pack.ReserveNodes(r.store, ask, func(slot cluster.Slot) bool { return !admitted || !taken[slot] })
		if !ok {
			failed[name.Namespace]++
			if len(taken) == 0 { // not for want of what others have reserved
				w.retry = now.Add(r.every * time.Duration(min(1<<min(w.failures, 16), maxRetryFactor)))
				w.failures++
				r.waiting[name] = w
			}
			continue
		}
		w.failures = 0
		r.waiting[name] = w
		addClaims(claims, u)
		if !admitted {
			continue // nodes are of no use before the limit leaves room
		}
		for _, slot := range slots {
			taken[slot] = true
		}
		list = append(list, r.reservation(u, slots))
	}
	r.gate.Claims.replace(claims)
	fresh = r.replace(list)
	r.chosen, r.at, r.added = r.store.Revision(), now, false
	return fresh
}

// ranked lists the gangs that wait for nodes, the highest rank first: those whose queues are within their guarantee, then higher priority,
// then longer waiting. A gang that cannot start any more, because members have gone, is dropped.
func (r *Reservations) ranked() (list []waiter) {
	for _, name := range slices.SortedFunc(maps.Keys(r.waiting), compareNames) {
		w := r.waiting[name]
		if len(w.unit.Members()) < w.unit.Need() || !w.unit.Gang.Ready() {
			r.drop(name)
			continue
		}
		list = append(list, w)
	}
	entitled := func(u *queue.Unit) int {
		if WithinGuarantee(u.Queue(), needed(u)) {
			return 0
		}
		return 1
	}
	slices.SortFunc(list, func(a, b waiter) int {
		return cmp.Or(cmp.Compare(entitled(a.unit), entitled(b.unit)), cmp.Compare(b.unit.Priority, a.unit.Priority), a.since.Compare(b.since),
			compareNames(a.unit.Gang.UnitName, b.unit.Gang.UnitName))
	})
	return list
}

func compareNames(a, b facts.UnitName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// reservation returns a gang's reservation with other nodes. It keeps its number.
func (r *Reservations) reservation(u *queue.Unit, slots []cluster.Slot) *Reservation {
	x := &Reservation{Unit: u.Gang.UnitName, queue: u.Queue(), priority: u.Priority, Slots: slots}
	if old := r.Of(x.Unit); old != nil {
		x.ID = old.ID
	} else {
		r.last++
		x.ID = r.last
	}
	for _, slot := range slots {
		for _, pod := range r.store.PodsOn(slot) {
			if pod.Deadline > 0 && pod.Started > 0 {
				x.Until = max(x.Until, pod.Started+pod.Deadline)
			}
		}
	}
	return x
}

// replace opens the nodes that are reserved no longer, and closes those that are.
func (r *Reservations) replace(list []*Reservation) (fresh []*queue.Unit) {
	for _, old := range r.list {
		still := slices.IndexFunc(list, func(x *Reservation) bool { return x.ID == old.ID })
		r.store.Reserve(slices.DeleteFunc(slices.Clone(old.Slots), func(slot cluster.Slot) bool {
			return still >= 0 && slices.Contains(list[still].Slots, slot) || r.store.Reservation(slot) != old.ID
		}), cluster.NoReservation)
	}
	for _, x := range list {
		r.store.Reserve(x.Slots, x.ID)
		if r.Of(x.Unit) == nil {
			fresh = append(fresh, r.waiting[x.Unit].unit)
		}
	}
	r.list = list
	return fresh
}
