package schedule

import (
	"cmp"
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/queue"
)

// maxBorrowerWakes bounds the shape queues that one look wakes because another queue borrows more. Each is a search for victims on all nodes.
const maxBorrowerWakes = 16

// borrowers notices that queues borrow more than at the last look. A unit beyond its own queue's guarantee may evict pods of lower priority of another queue as far
// as that has borrowed. So it may find victims when that queue uses more, though no node has more room.
//
// Example: queue b is guaranteed 4 CPUs and uses 4. Unit boss of queue a, which is guaranteed nothing, asks for 2 and sleeps. Two pods of b come, of one CPU each, and
// b has borrowed 2: boss is woken, and may evict a pod of b of 2 CPUs.
//
// Only use beyond a guarantee counts: what a queue without one uses, it has borrowed from the beginning, and whoever comes takes room that was free.
type borrowers struct {
	excess map[string]resource.List // of queues by name, as of the last look
	grown  map[*quota.Queue]resource.List
	lowest map[*quota.Queue]int32 // the lowest priority of pods that are in one of grown, or below one, by their queue; nil: not looked for
	round  uint64                 // counts the looks
	left   int                    // shape queues that are to be woken by a later look
}

// follow notes which queues have borrowed more since the last look.
func (b *borrowers) follow(store *cluster.Store) {
	last := b.excess
	b.excess, b.grown, b.lowest = make(map[string]resource.List), make(map[*quota.Queue]resource.List), nil
	b.round++
	store.Quota().Root().Each(func(q *quota.Queue) {
		if q.Parent() == nil {
			return // nobody is beside the root, who could take back what it borrows
		}
		for kind := range resource.Kind(store.Kinds()) {
			if kind == resource.Pods || q.Guaranteed(kind) == 0 || !q.Borrows(kind) {
				continue
			}
			excess := resource.Amount{Kind: kind, Value: q.Used(kind) - q.Guaranteed(kind)}
			b.excess[q.Name] = append(b.excess[q.Name], excess)
			if excess.Value > last[q.Name].Get(kind) {
				b.grown[q] = append(b.grown[q], excess)
			}
		}
	})
}

// help reports whether a unit of a queue may find pods of less than a priority that another queue has come to borrow.
func (b *borrowers) help(store *cluster.Store, sq *queue.ShapeQueue, priority int32) bool {
	if len(b.grown) == 0 {
		return false
	}
	if b.lowest == nil {
		b.lowest = make(map[*quota.Queue]int32)
		store.EachPod(func(pod *cluster.Pod) {
			if q := pod.Queue(); pod.Placed() && b.borrowsMore(q, nil) {
				if lowest, known := b.lowest[q]; !known || pod.Priority < lowest {
					b.lowest[q] = pod.Priority
				}
			}
		})
	}
	for q, lowest := range b.lowest {
		if q != sq.Queue() && lowest < priority && b.borrowsMore(q, sq.Shape.Ask) {
			return true
		}
	}
	return false
}

// borrowsMore reports whether a queue, or one above it, has come to borrow more of something that is asked for; nil: of anything.
func (b *borrowers) borrowsMore(q *quota.Queue, ask resource.List) bool {
	for ; q != nil; q = q.Parent() {
		grown := b.grown[q]
		if ask == nil && len(grown) > 0 || slices.ContainsFunc(grown, func(a resource.Amount) bool { return ask.Get(a.Kind) > 0 }) {
			return true
		}
	}
	return false
}

// wakeForBorrowers wakes shape queues that may find victims because another queue borrows more: at most maxBorrowerWakes, those first that have waited for it longest.
func (b *blocked) wakeForBorrowers(changed bool) {
	if changed {
		b.borrowers.follow(b.store)
	}
	if !changed && b.borrowers.left == 0 {
		return
	}
	var due []*queue.ShapeQueue
	b.queue.Parked(func(sq *queue.ShapeQueue, seen queue.Version) (queue.Version, bool) {
		key := keyOfQueue(sq)
		r := b.byQueue[key]
		if r.borrowersSince == 0 && changed && r.searched && b.borrowers.help(b.store, sq, r.wanted) {
			r.borrowersSince = b.borrowers.round
			b.byQueue[key] = r
		}
		if r.borrowersSince != 0 {
			due = append(due, sq)
		}
		return seen, false
	})
	slices.SortStableFunc(due, func(x, y *queue.ShapeQueue) int {
		return cmp.Compare(b.byQueue[keyOfQueue(x)].borrowersSince, b.byQueue[keyOfQueue(y)].borrowersSince)
	})
	woken := due[:min(len(due), maxBorrowerWakes)]
	for _, sq := range woken {
		b.forgetVictims(keyOfQueue(sq))
		b.queue.Wake(sq)
	}
	b.borrowers.left = len(due) - len(woken)
}
