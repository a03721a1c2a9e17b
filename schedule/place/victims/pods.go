package victims

import (
	"slices"
	"strings"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
)

// evictablePods keeps, for every node, the pods that could be evicted and those that are leaving anyway, so that a search need not sort
// them. It follows the ledger's logs and sorts a node again only when something on it has changed.
type evictablePods struct {
	cursor    changeCursor
	built     bool
	evictable [][]*cluster.Pod // by slot, the least important first; without the system's own
	leaving   [][]*cluster.Pod // by slot: being deleted, then claimed by a Plan
	lowest    []int64          // by slot: the lowest priority of the evictable pods, noPod for none
	// leavingSlots are the slots that some pod is leaving.
	leavingSlots map[cluster.Slot]struct{}
}

func (l *evictablePods) follow(store *cluster.Store) {
	for len(l.evictable) < store.Slots() {
		l.evictable, l.leaving, l.lowest = append(l.evictable, nil), append(l.leaving, nil), append(l.lowest, noPod)
	}
	if l.built && l.cursor.catchUp(store, func(slot cluster.Slot) { l.sort(store, slot) }) {
		return
	}
	l.built, l.leavingSlots = true, make(map[cluster.Slot]struct{})
	l.cursor.start(store)
	for i := range l.evictable {
		l.sort(store, cluster.Slot(i))
	}
}

func (l *evictablePods) sort(store *cluster.Store, slot cluster.Slot) {
	clear(l.evictable[slot]) // so that pods which are gone can be collected
	clear(l.leaving[slot])
	stays, leaving := l.evictable[slot][:0], l.leaving[slot][:0]
	for _, pod := range store.PodsOn(slot) {
		switch {
		case pod.Deleting || pod.Claimed():
			leaving = append(leaving, pod)
		case pod.Priority < spec.CriticalPriority:
			stays = append(stays, pod)
		}
	}
	slices.SortFunc(stays, func(a, b *cluster.Pod) int { return cluster.MoreImportant(b, a) })
	slices.SortFunc(leaving, surestFirst)
	l.evictable[slot], l.leaving[slot], l.lowest[slot] = stays, leaving, noPod
	if len(stays) > 0 {
		l.lowest[slot] = int64(stays[0].Priority)
	}
	if len(leaving) > 0 {
		l.leavingSlots[slot] = struct{}{}
	} else {
		delete(l.leavingSlots, slot)
	}
}

// surestFirst orders pods that leave: first those that are being deleted, which nothing stops, then those that a Plan claims.
func surestFirst(a, b *cluster.Pod) int {
	if a.Deleting != b.Deleting {
		if a.Deleting {
			return -1
		}
		return 1
	}
	return strings.Compare(string(a.UID), string(b.UID))
}
