package reserve

import (
	"cmp"
	"slices"
	"strings"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
)

// Turns says which pods have their turn before others: those that replace pods which were evicted for a move, and whose targets were lost after that. They had a place, gave it
// up for the cluster's sake, and got nothing for it.
//
// Example: a pod of the ReplicaSet web is moved. Its target is reserved, the pod is evicted, and the node of the target dies. The first pod of web that was created since the
// target was asked for, and waits, comes before all of its priority in its queue, until it is bound somewhere.
//
// It is bounded: one pod for each lost target, which overtakes no higher priority where priority counts, and until the Reservation expires or is deleted. Whose Reservations
// count is held by a policy: tenants create none of that name.
type Turns struct {
	store *cluster.Store
	seen  changes.Revision
	lost  []*cluster.PlaceholderSet // targets that were lost, by UID
	has   map[*cluster.PlaceholderSet]facts.UID
	fresh map[*cluster.PlaceholderSet]bool // the pods that wait are to be looked through
}

// NewTurns returns the turns of a ledger that has no Reservations yet.
func NewTurns(store *cluster.Store) *Turns {
	return &Turns{store: store, has: make(map[*cluster.PlaceholderSet]facts.UID), fresh: make(map[*cluster.PlaceholderSet]bool)}
}

// Arrived takes note that a pod waits.
func (t *Turns) Arrived(pod *cluster.Pod) {
	for _, set := range t.lost {
		if t.has[set] == "" && t.may(set, pod) {
			t.fresh[set] = true
		}
	}
}

// Follow says whose turn has come, and whose is over.
func (t *Turns) Follow(early func(pod facts.UID, is bool)) {
	// Whether a turn is over is asked of the sets themselves: a reader of Changed that has fallen behind is not told which are gone.
	t.lost = slices.DeleteFunc(t.lost, func(set *cluster.PlaceholderSet) bool {
		over := !set.LostTarget()
		if over {
			t.end(set, early)
			delete(t.fresh, set)
		}
		return over
	})
	for _, set := range t.store.Placeholders().Changed(&t.seen, nil) {
		at, known := slices.BinarySearchFunc(t.lost, set, func(a, b *cluster.PlaceholderSet) int {
			return strings.Compare(string(a.Facts.UID), string(b.Facts.UID))
		})
		if !known && set.LostTarget() {
			t.lost, t.fresh[set] = slices.Insert(t.lost, at, set), true
		}
	}
	for _, set := range t.lost {
		t.follow(set, early)
	}
}

func (t *Turns) follow(set *cluster.PlaceholderSet, early func(facts.UID, bool)) {
	if uid := t.has[set]; uid != "" {
		switch pod := t.store.Pod(uid); {
		case pod != nil && (pod.Phase == cluster.Assumed || pod.Phase == cluster.Pending && !pod.Deleting):
			return
		case pod != nil && pod.Phase >= cluster.Bound:
			t.end(set, early)
			t.store.Placeholders().ServedElsewhere(set, pod) // Follow takes the set out next time
			return
		}
		t.end(set, early) // it is gone: the next has the turn
		t.fresh[set] = true
	}
	if moved := t.store.Pod(set.Facts.Moves); moved != nil && !moved.Deleting || !t.fresh[set] {
		return // nobody was evicted
	}
	delete(t.fresh, set)
	var first *cluster.Pod
	t.store.EachWaiting(set.Facts.Namespace, func(pod *cluster.Pod) {
		if t.may(set, pod) && (first == nil || cmp.Or(cmp.Compare(pod.Created, first.Created), strings.Compare(string(pod.UID), string(first.UID))) < 0) {
			first = pod
		}
	})
	if first != nil {
		t.has[set] = first.UID
		early(first.UID, true)
	}
}

// may reports whether a pod may be the one that replaces whoever was moved.
func (t *Turns) may(set *cluster.PlaceholderSet, pod *cluster.Pod) bool {
	if pod.Unit != nil || pod.Created < set.Facts.Created || !t.store.Placeholders().Owns(set, pod) {
		return false
	}
	for _, uid := range t.has {
		if uid == pod.UID {
			return false // for another lost target
		}
	}
	return true
}

func (t *Turns) end(set *cluster.PlaceholderSet, early func(facts.UID, bool)) {
	if uid := t.has[set]; uid != "" {
		delete(t.has, set)
		early(uid, false)
	}
}
