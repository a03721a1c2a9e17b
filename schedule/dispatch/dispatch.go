// Package dispatch chooses the scheduler instance that decides on a unit, and divides the nodes among the instances.
//
// Several instances can propose Plans to the one committer. Each decides on a snapshot of its own, and the committer rejects what no longer fits. So that
// instances do not want the same nodes, a Partitioner decides how many partitions there are, and Divide which node is in which (ADR 0025). An instance looks at
// its own partition first, and at all nodes where none of these fits; so any instance will do for a unit, and the one with the fewest decisions is next.
//
// For example, with four instances over 20,000 nodes Divide gives each 5,000, of each kind as many as the others, and about as much free capacity. When an
// instance leaves, Observe says three partitions, and the nodes are divided anew.
//
// Invariants: choices are deterministic; there are never more partitions than instances.
//
// It does not look for nodes: package place does.
package dispatch

// Dispatcher spreads units over scheduler instances. The instance with the fewest decisions is next; ties go to the lowest number.
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
