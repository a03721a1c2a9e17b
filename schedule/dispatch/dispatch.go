// Package dispatch chooses the scheduler instance that decides on a unit.
//
// Several instances can propose Plans to the one committer. Each decides on a snapshot of its own, and the committer rejects what no longer fits.
// There are no partitions yet: every instance sees all nodes, so any of them will do, and the one with the fewest decisions is next.
//
// Invariant: choices are deterministic.
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
