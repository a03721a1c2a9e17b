package facts

import (
	"slices"

	"hilbert.dev/hilbert/resource"
)

// SortPolicy says in which order a queue serves what is directly under it: its child queues, or as a leaf its units.
type SortPolicy uint8

// The sort policies. schedule/queue holds them as a table.
const (
	// SortDefault: Fair between child queues, PriorityFIFO between units.
	SortDefault SortPolicy = iota
	// PriorityFIFO: the highest priority first, then the oldest.
	PriorityFIFO
	// FIFO: the oldest first.
	FIFO
	// Fair: the one that has the least of its share comes first, by its dominant resource. In a leaf the sharers are namespaces.
	Fair
	// FairHistory: as Fair, with what was used lately counted in, halved every HalfLife.
	FairHistory
	// SmallestFirst: the unit that asks for the least of the cluster first.
	SmallestFirst
)

// Queue is a Queue as a door saw it. It is immutable: a change is a new Queue.
type Queue struct {
	Name, Parent string // Parent empty: directly under the root
	UID          UID
	Generation   int64
	// Guaranteed is what the queue gets back from borrowers whenever it wants it. A resource that is not named has no guarantee.
	// GPUs of every kind are counted as spec.ResourceGPUMilli.
	Guaranteed []resource.Quantity
	// Max is never exceeded. A resource that is not named has no limit.
	Max []resource.Quantity
	// Weight of its part of what is not guaranteed to any queue, against its siblings'; at least 1.
	Weight int64
	Sort   SortPolicy
	// HalfLife in nanoseconds, of FairHistory.
	HalfLife int64
	// BorrowsNothing: no more than Guaranteed of the resources named there.
	BorrowsNothing bool
	// KeepsBorrowed: what it has borrowed is not taken back by force, only as it ends.
	KeepsBorrowed bool
	// ReclaimMinRuntime in nanoseconds is for how long a pod of the queue has run before it may be evicted for another queue; nil: as the queue above
	// says. What it points to is never changed.
	ReclaimMinRuntime *int64
	// NeverPreempts: units of higher priority do not evict those of lower priority within the queue.
	NeverPreempts bool
	// Namespaces whose labels match feed the queue, if no label of theirs names one. nil: none.
	Namespaces *LabelSelector
}

// SameQueue reports whether two observations of a queue ask for the same.
func SameQueue(a, b *Queue) bool {
	if (a.Namespaces == nil) != (b.Namespaces == nil) || a.Namespaces != nil && !a.Namespaces.Equal(b.Namespaces) {
		return false
	}
	return a.Parent == b.Parent && slices.Equal(a.Guaranteed, b.Guaranteed) && slices.Equal(a.Max, b.Max) && a.Weight == b.Weight &&
		a.Sort == b.Sort && a.HalfLife == b.HalfLife &&
		a.BorrowsNothing == b.BorrowsNothing && a.KeepsBorrowed == b.KeepsBorrowed && a.NeverPreempts == b.NeverPreempts &&
		sameDuration(a.ReclaimMinRuntime, b.ReclaimMinRuntime)
}

// sameDuration reports whether both are named, with one value, or neither is.
func sameDuration(a, b *int64) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// EachResource visits the names of the resources that the queue is guaranteed or limited to, each as often as it stands there.
func (q *Queue) EachResource(visit func(name string)) {
	for _, list := range [...][]resource.Quantity{q.Guaranteed, q.Max} {
		for _, a := range list {
			visit(a.Name)
		}
	}
}

// Names of queues that always exist.
const (
	// RootQueue is the name of the root, which cannot be configured.
	RootQueue = ""
	// DefaultQueue takes the pods of namespaces that no other queue wants. It may be configured like any other.
	DefaultQueue = "default"
)
