package victims

import (
	"cmp"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/internal/heap"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// memberCost is what one more member costs on a node.
type memberCost struct {
	cost    UnitCost
	awaited int // for so many pods that leave anyway
}

func (a *memberCost) compare(b *memberCost) int {
	return cmp.Or(a.cost.Compare(b.cost), cmp.Compare(a.awaited, b.awaited))
}

// memberFiller gives members of one class places on some nodes, the cheapest node first. It keeps the nodes in a heap by what one more member
// cost there when it was last asked; before a node is taken it is asked again, so that an outdated cost decides nothing.
type memberFiller struct {
	r         *Reclaimer
	groups    *victimGroups
	attempt   *attempt
	evaluator *nodeEvaluator

	costs    []memberCost // by slot
	position []int32      // by slot: where it is in the heap
	heap     *heap.Heap[cluster.Slot]
	inScope  []uint32 // by slot: the run that it was in scope of
	runs     uint32
	// bound is what a better set must cost less than, if bounded.
	bound   UnitCost
	bounded bool
}

// open extends the columns to all slots.
func (f *memberFiller) open(slots int) {
	f.bounded = false
	for len(f.costs) < slots {
		f.costs, f.position, f.inScope = append(f.costs, memberCost{}), append(f.position, notInHeap), append(f.inScope, 0)
	}
}

// costsLess is the order of the heap. Among equals the profile's tie break decides.
func (f *memberFiller) costsLess(a, b cluster.Slot) bool {
	if order := f.costs[a].compare(&f.costs[b]); order != 0 {
		return order < 0
	}
	return f.r.prefers(a, b)
}

// fill gives up to want of the members places on some nodes at the least cost, one after the other, and returns how many have one. It gives up
// when it costs too much.
func (f *memberFiller) fill(slots []cluster.Slot, members []*cluster.Pod, want int) (count int) {
	for from := 0; from < len(members) && count < want; {
		to := from + 1
		for to < len(members) && members[to].Class == members[from].Class {
			to++
		}
		f.collect(slots, members[from].Class)
		for _, pod := range members[from:to] {
			if count == want || f.tooExpensive() || !f.placeOne(pod) {
				break
			}
			count++
		}
		from = to
	}
	return count
}

func (f *memberFiller) tooExpensive() bool { return f.bounded && f.attempt.cost.Compare(f.bound) >= 0 }

// collect asks all nodes what a member of a class costs there.
func (f *memberFiller) collect(slots []cluster.Slot, class *cluster.Class) {
	for f.heap.Len() > 0 {
		f.heap.Remove(f.heap.Len() - 1)
	}
	f.runs++
	f.evaluator.class, f.evaluator.domainFilters = class, rules.UsesDomainFilters(class)
	for _, slot := range slots {
		f.inScope[slot] = f.runs
		f.reevaluate(slot)
	}
}

// reevaluate asks a node again.
func (f *memberFiller) reevaluate(slot cluster.Slot) {
	made, ok := f.evaluator.evaluate(slot)
	at := f.position[slot]
	switch {
	case !ok && at != notInHeap:
		f.heap.Remove(int(at))
	case !ok:
	case at != notInHeap:
		f.costs[slot] = made
		f.heap.Fix(int(at))
	default:
		f.costs[slot] = made
		f.heap.Push(slot)
	}
}

// placeOne places a pod of the class on the cheapest node. The costs of other nodes may be outdated. They can only have risen, with two
// exceptions: where a gang has left, nodes are evaluated again at once; where constraints between pods are in play, the result is verified
// in the end.
func (f *memberFiller) placeOne(pod *cluster.Pod) bool {
	for f.heap.Len() > 0 {
		slot := f.heap.First()
		made, ok := f.evaluator.evaluate(slot)
		if !ok {
			f.heap.Pop()
			continue
		}
		if made.compare(&f.costs[slot]) > 0 {
			f.costs[slot] = made
			f.heap.Fix(0)
			continue
		}
		f.accept(slot, made, pod)
		return true
	}
	return false
}

// accept evicts the groups of the latest evaluation and places the pod.
func (f *memberFiller) accept(slot cluster.Slot, made memberCost, pod *cluster.Pod) {
	first := len(f.attempt.victims)
	f.apply(slot, made, pod)
	f.reevaluate(slot)
	for i := first; i < len(f.attempt.victims); i++ {
		if f.attempt.victims[i].gang == nil {
			continue
		}
		for _, gone := range f.attempt.victims[i].pods {
			if other := f.r.store.Slot(gone.Node()); other != slot && f.inScope[other] == f.runs {
				f.reevaluate(other)
			}
		}
	}
}

// apply does what the latest evaluation says, and places the pod.
func (f *memberFiller) apply(slot cluster.Slot, made memberCost, pod *cluster.Pod) {
	for i := range f.evaluator.taken {
		f.attempt.take(f.evaluator.taken[i])
	}
	for _, leaving := range f.evaluator.awaits {
		f.attempt.await(leaving)
	}
	f.attempt.cost = f.attempt.cost.plus(made.cost)
	f.attempt.assume(slot, pod)
}

// prefers decides between nodes that cost the same.
func (r *Reclaimer) prefers(a, b cluster.Slot) bool {
	if x, y := r.index.Tie(a), r.index.Tie(b); x != y {
		return x > y
	}
	return a < b
}
