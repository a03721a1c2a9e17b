package schedule

import (
	"fmt"
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/schedule/place"
	"hilbert.dev/hilbert/schedule/place/pack"
	"hilbert.dev/hilbert/schedule/queue"
)

// rehearsal is a scheduler over a ledger of its own, made from a Dump, to find out what would be. It commits nothing. What queues with a
// history have used in the past is not in a Dump, so there they stand as if they had none.
type rehearsal struct {
	*Scheduler
	in *instance
}

// rehearse loads the ledger and lets wait who waits. It costs about a second for 200,000 pods.
func (d *Dump) rehearse() (*rehearsal, error) {
	d.Sort()
	store, err := cluster.Load(d.Ledger)
	if err != nil {
		return nil, fmt.Errorf("load the ledger: %w", err)
	}
	profile, err := newProfile(&d.Scheduling)
	if err != nil {
		return nil, err
	}
	profile.Market().Recall(store)
	snapshot := cluster.NewSnapshot()
	placer := place.NewPlacer(snapshot, profile, d.Scheduling.Seed, d.Scheduling.MaxClassIndexes)
	placer.SetLevels(d.Scheduling.Topology.Levels)
	r := &rehearsal{
		Scheduler: &Scheduler{cfg: d.Scheduling, store: store, queue: queue.New(store), observer: silent{}, claims: make(map[*quota.Queue]claim)},
		in:        &instance{snapshot: snapshot, placer: placer, reclaims: place.NewReclaimer(placer, store)},
	}
	for i := range d.Queue {
		if pod := store.Pod(d.Queue[i].UID); pod != nil && pod.Schedulable() {
			r.queue.Add(pod)
		}
	}
	r.keep(d.Kept)
	snapshot.Advance(store)
	return r, nil
}

// keep restores for whom something is kept.
func (r *rehearsal) keep(list []Kept) {
	for _, k := range list {
		name := facts.UnitName{Namespace: k.Namespace, Name: k.Name}
		if k.Reservation != cluster.NoReservation {
			x := &reservation{id: k.Reservation, unit: name}
			for slot := range cluster.Slot(r.store.Slots()) {
				if r.store.Reservation(slot) == x.id {
					x.slots = append(x.slots, slot)
				}
			}
			r.reserved.list = append(r.reserved.list, x)
		}
		if u := r.waiting(name); u != nil && len(u.Members()) >= u.Need() {
			for _, queue := range k.Queues {
				if q := r.store.Quota().Queue(queue); q != nil {
					r.claims[q] = claim{name, chargeOf(u.Members()[:u.Need()])}
				}
			}
		}
	}
}

// waiting returns what waits of a gang, nil if nothing does.
func (r *rehearsal) waiting(name facts.UnitName) *queue.Unit {
	if u := r.store.Unit(name); u != nil {
		return r.queue.Gang(u)
	}
	return nil
}

// positions numbers the units that have a turn, from 1 in each queue. It uses the queue up.
func (r *rehearsal) positions() map[*queue.Unit]int {
	list, counts := make(map[*queue.Unit]int), make(map[*quota.Queue]int)
	for u := r.queue.Pop(); u != nil; u = r.queue.Pop() {
		counts[u.Queue()]++
		list[u] = counts[u.Queue()]
	}
	return list
}

// fits reports whether a unit would be placed now.
func (r *rehearsal) fits(u *queue.Unit) bool {
	if members := u.Members(); len(members) < u.Need() {
		return false
	}
	ask, _, admitted := r.ask(u)
	return admitted && r.finds(u, ask, nil)
}

// finds reports whether nodes would take the unit, whatever its queues say, if its ask were altered; nil: as it is.
func (r *rehearsal) finds(u *queue.Unit, ask *pack.Ask, alter func(*pack.Ask)) bool {
	defer r.opens(u)()
	if alter != nil {
		changed := *ask
		changed.Members = slices.Clone(ask.Members)
		ask = &changed
		alter(ask)
	}
	_, ok := r.in.placer.PlaceUnit(ask)
	return ok
}

// opens lets a unit see the newest state, with the nodes that are kept free for it open. end ends that, and all that was assumed since.
func (r *rehearsal) opens(u *queue.Unit) (end func()) {
	r.in.snapshot.Advance(r.store)
	mark := r.in.snapshot.Mark()
	r.reserved.own(u).open(r.in.snapshot)
	return func() { r.in.snapshot.Rollback(mark) }
}
