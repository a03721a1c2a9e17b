// Package dispatch is the door of the scheduler: it refuses what can never be placed, with a reason, and chooses the scheduler instance
// that decides on a unit.
//
// Invariants: a refusal depends on the pod's class, its PodGroup and its queue's place in the tree, never on the nodes; choices are
// deterministic.
//
// It holds no queue (that is schedule/queue) and no partitions yet: every instance sees all nodes.
package dispatch

import (
	"strings"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
)

// Refuse returns the condition of a pod that must not be placed whatever the nodes look like; refused is false when it may be.
func Refuse(pod *cluster.Pod) (condition cluster.Condition, refused bool) {
	class := pod.Class
	switch {
	case class.Impossible != "":
		return cluster.Condition{Reason: spec.ReasonImpossibleRequest, Message: class.Impossible}, true
	case len(class.Unsupported) > 0:
		return cluster.Condition{
			Reason: spec.ReasonUnsupportedConstraint,
			Message: "Hilbert does not honour this yet and places no pod in spite of it: " + strings.Join(class.Unsupported, ", ") +
				". Remove it, or set spec.schedulerName to a scheduler that does.",
		}, true
	case pod.Unit != nil && pod.Unit.Facts == nil:
		return cluster.Condition{
			Reason:  spec.ReasonWaitingForPodGroup,
			Message: "there is no PodGroup " + pod.Unit.String() + ", which the pod names. Create it, or correct the name.",
		}, true
	case pod.Unit != nil && !pod.Unit.Ready():
		return cluster.Condition{Reason: spec.ReasonInvalidPodGroup, Message: "PodGroup " + pod.Unit.String() + ": " + pod.Unit.Facts.Invalid}, true
	case pod.Queue().Refuses:
		q := pod.Queue()
		return cluster.Condition{Reason: q.Problem.Reason, Message: "Queue " + q.Name + ": " + q.Problem.Message}, true
	}
	return cluster.Condition{}, false
}

// Dispatcher spreads units over scheduler instances: the one with the fewest decisions is next, ties go to the lowest number.
type Dispatcher struct{ dispatched []uint64 }

// New returns a Dispatcher over n instances.
func New(n int) *Dispatcher { return &Dispatcher{dispatched: make([]uint64, n)} }

// Choose returns the instance that decides on the next unit.
func (d *Dispatcher) Choose() int {
	least := 0
	for i, n := range d.dispatched {
		if n < d.dispatched[least] {
			least = i
		}
	}
	d.dispatched[least]++
	return least
}
