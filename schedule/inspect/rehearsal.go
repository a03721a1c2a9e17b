package inspect

import (
	"fmt"
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/schedule/admit"
	"hilbert.dev/hilbert/schedule/place/pack"
	"hilbert.dev/hilbert/schedule/profiles"
	"hilbert.dev/hilbert/schedule/queue"
)

// rehearsal is a ledger made from a Dump, with what admits and places units on it, to find out what the scheduler would do. It commits
// nothing. What queues with a history have used in the past is not in a Dump: here they stand as if they had none.
type rehearsal struct {
	store    *cluster.Store
	queue    *queue.Queue
	gate     *admit.Gate
	snapshot *cluster.Snapshot
	placers  *profiles.Placers
	levels   []string // of the topology, the widest first
}

// rehearse loads the ledger and queues the pods that wait. It costs about a second for 200,000 pods.
func (d *Dump) rehearse() (*rehearsal, error) {
	d.Sort()
	store, err := cluster.Load(d.Ledger)
	if err != nil {
		return nil, fmt.Errorf("load the ledger: %w", err)
	}
	set, err := profiles.New(&d.Scheduling)
	if err != nil {
		return nil, err
	}
	set.Market().Recall(store)
	snapshot := cluster.NewSnapshot()
	r := &rehearsal{
		store: store, queue: queue.New(store), gate: admit.NewGate(store, d.Scheduling.Units.MaxReservations),
		snapshot: snapshot, levels: d.Scheduling.Topology.Levels,
		placers: profiles.NewPlacers(set, store, snapshot, profiles.Options{
			Seed: d.Scheduling.Seed, MaxIndexes: d.Scheduling.MaxClassIndexes, Levels: d.Scheduling.Topology.Levels,
		}),
	}
	for i := range d.Queue {
		if pod := store.Pod(d.Queue[i].UID); pod != nil && pod.Schedulable() {
			r.queue.Add(pod)
		}
	}
	r.restore(d.Kept)
	snapshot.Advance(store)
	return r, nil
}

// restore restores what is reserved for gangs.
func (r *rehearsal) restore(list []Kept) {
	for _, k := range list {
		name := facts.UnitName{Namespace: k.Namespace, Name: k.Name}
		if k.Reservation != cluster.NoReservation {
			r.gate.Reservations.Restore(k.Reservation, name)
		}
		if u := r.waiting(name); u != nil && len(u.Members()) >= u.Need() {
			for _, queue := range k.Queues {
				if q := r.store.Quota().Queue(queue); q != nil {
					r.gate.Claims.Restore(q, u)
				}
			}
		}
	}
}

// waiting returns what waits of a gang, nil if nothing does.
func (r *rehearsal) waiting(name facts.UnitName) *queue.Unit {
	if u := r.store.Units().Get(name); u != nil {
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
	ask, _, admitted := r.gate.Ask(u)
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
	_, ok := r.placers.For(u.Members()[0]).PlaceUnit(ask)
	return ok
}

// opens lets a unit see the newest state, with the nodes that are reserved for it open. end ends that, and all that was assumed since.
func (r *rehearsal) opens(u *queue.Unit) (end func()) {
	r.snapshot.Advance(r.store)
	mark := r.snapshot.Mark()
	r.gate.Reservations.Own(u).Open(r.snapshot)
	return func() { r.snapshot.Rollback(mark) }
}
