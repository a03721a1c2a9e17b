package victims

import (
	"math"
	"slices"
	"sort"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/internal/heap"
)

// changeCursor follows the two logs that say on which nodes preemption might cost something else than before.
type changeCursor struct {
	changed, reranked changes.Revision
	seen              []uint32 // by slot: the round in which it was last visited
	round             uint32
}

// catchUp visits each slot that has changed since the last call, once. ok is false when the logs do not reach back that far, and all
// slots have to be looked at.
func (t *changeCursor) catchUp(store *cluster.Store, visit func(cluster.Slot)) (ok bool) {
	logs := [2]*changes.Log{store.Log(), store.VictimLog()}
	cursors := [2]*changes.Revision{&t.changed, &t.reranked}
	ok = true
	for i, log := range logs {
		ok = ok && log.Covers(*cursors[i]) && log.Len()-*cursors[i] <= changes.Revision(store.Slots())
	}
	if !ok {
		t.start(store)
		return false
	}
	t.round++
	for len(t.seen) < store.Slots() {
		t.seen = append(t.seen, 0)
	}
	for i, log := range logs {
		for r := *cursors[i]; r < log.Len(); r++ {
			if slot := log.At(r).Slot; t.seen[slot] != t.round {
				t.seen[slot] = t.round
				visit(slot)
			}
		}
	}
	t.start(store)
	return true
}

// start sets the cursors to the newest changes.
func (t *changeCursor) start(store *cluster.Store) {
	t.changed, t.reranked = store.Log().Len(), store.VictimLog().Len()
}

// podsByImportance keeps the pods of every node sorted, the most important first, so that an evaluation need not sort them.
type podsByImportance struct {
	cursor changeCursor
	built  bool
	pods   [][]*cluster.Pod
	lowest []int64 // by slot: the lowest priority, noPod for an empty node
}

const (
	// noPod is the lowest priority on a node without pods.
	noPod = int64(math.MaxInt64)
	// notInHeap is the position of a node that is no candidate.
	notInHeap = int32(-1)
)

func (sh *podsByImportance) follow(store *cluster.Store) {
	for len(sh.pods) < store.Slots() {
		sh.pods = append(sh.pods, nil)
		sh.lowest = append(sh.lowest, noPod)
	}
	if sh.built && sh.cursor.catchUp(store, func(slot cluster.Slot) { sh.sort(store, slot) }) {
		return
	}
	sh.built = true
	sh.cursor.start(store)
	for i := range sh.pods {
		sh.sort(store, cluster.Slot(i))
	}
}

func (sh *podsByImportance) sort(store *cluster.Store, slot cluster.Slot) {
	clear(sh.pods[slot]) // so that pods which are gone can be collected
	list := append(sh.pods[slot][:0], store.PodsOn(slot)...)
	slices.SortFunc(list, cluster.MoreImportant)
	sh.pods[slot] = list
	sh.lowest[slot] = noPod
	if len(list) > 0 {
		sh.lowest[slot] = int64(list[len(list)-1].Priority)
	}
}

// below returns the pods on a node that are of lower priority, the most important first.
func (sh *podsByImportance) below(slot cluster.Slot, priority int32) []*cluster.Pod {
	list := sh.pods[slot]
	at := sort.Search(len(list), func(i int) bool { return list[i].Priority < priority })
	return list[at:]
}

// costIndex orders the candidates for one class and priority in a heap, the cheapest first. A node whose pods have not changed since the
// last preemption is not evaluated again.
type costIndex struct {
	e        *Preemptor
	class    *cluster.Class
	priority int32
	cursor   changeCursor
	lastUsed uint64
	costs    []nodeCost // by slot
	position []int32
	heap     *heap.Heap[cluster.Slot]
}

// nodeCost is a candidate's cost, and its place among those that cost the same. It stays as it is until its slot is evaluated again, so that
// the heap's order holds in between.
type nodeCost struct {
	cost Cost
	tie  uint32
}

func (a nodeCost) cheaper(b nodeCost) bool {
	if c := a.cost.Compare(b.cost); c != 0 {
		return c < 0
	}
	return a.tie > b.tie
}

// table returns the index of a class and priority, up to date with the store.
func (e *Preemptor) table(class *cluster.Class, priority int32) *costIndex {
	e.clock++
	key := preemptionKey{class.ID, priority}
	x, ok := e.tables[key]
	if !ok {
		x = e.recycle()
		x.class, x.priority = class, priority
		e.tables[key] = x
		x.build()
	}
	x.lastUsed = e.clock
	x.grow()
	if !x.cursor.catchUp(e.store, x.update) {
		x.build()
	}
	return x
}

// recycle returns an index for another use: a new one, or the least recently used one when there are as many as may be.
func (e *Preemptor) recycle() *costIndex {
	if len(e.tables) < e.maxIndexes {
		x := &costIndex{e: e}
		x.heap = heap.New(
			func(a, b cluster.Slot) bool {
				return x.costs[a].cheaper(x.costs[b]) || x.costs[a] == x.costs[b] && a < b
			},
			func(slot cluster.Slot, at int) { x.position[slot] = int32(at) })
		return x
	}
	var oldest preemptionKey
	var found *costIndex
	for key, x := range e.tables {
		if found == nil || x.lastUsed < found.lastUsed {
			oldest, found = key, x
		}
	}
	delete(e.tables, oldest)
	return found
}

// build evaluates every node.
func (x *costIndex) build() {
	for x.heap.Len() > 0 {
		x.heap.Remove(x.heap.Len() - 1)
	}
	x.grow()
	x.cursor.start(x.e.store)
	for i := range x.costs {
		x.update(cluster.Slot(i))
	}
}

func (x *costIndex) grow() {
	for len(x.costs) < x.e.store.Slots() {
		x.costs = append(x.costs, nodeCost{})
		x.position = append(x.position, notInHeap)
	}
}

// update evaluates a node.
func (x *costIndex) update(slot cluster.Slot) {
	at := x.position[slot]
	made, ok := x.e.cost(slot, x.class, x.priority)
	switch {
	case !ok && at != notInHeap:
		x.heap.Remove(int(at))
	case !ok:
	case at != notInHeap:
		x.costs[slot] = made
		x.heap.Fix(int(at))
	default:
		x.costs[slot] = made
		x.heap.Push(slot)
	}
}

// best returns the cheapest candidate, NoSlot for none.
func (x *costIndex) best() cluster.Slot {
	if x.heap.Len() == 0 {
		return cluster.NoSlot
	}
	return x.heap.First()
}
