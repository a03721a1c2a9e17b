package cluster

import (
	"fmt"

	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// amountColumns are what the slots have of each resource, and what the pods on them request, as plain sums over them.
//
// Each kind of the table has a column of as many slots as there are; one that is vacant has none. So whoever interns or releases a name has the columns fit before it reads them.
type amountColumns struct {
	kinds   *resource.Table
	fits    uint64        // the table's revision that the columns fit
	gpuKind resource.Kind // in which queues count GPUs

	allocatable           [][]int64       // by Kind, then Slot
	requested             []resource.Sums // by Kind, then Slot
	scoreCPU, scoreMemory resource.Sums   // requested, as scores count it
}

// Kinds is one more than the largest resource kind in use; some below it may be vacant.
func (c *amountColumns) Kinds() int { return len(c.allocatable) }

// ResourceNames counts the resources that nodes and queues name: those that have a kind, and those for which there is no room.
func (c *amountColumns) ResourceNames() (live, waiting int) { return c.kinds.Live() }

// KindName returns the name of a resource kind, empty for one that is vacant.
func (c *amountColumns) KindName(kind resource.Kind) string { return c.kinds.Name(kind) }

// Allocatable returns what pods on the node may request in sum.
func (c *amountColumns) Allocatable(slot Slot, kind resource.Kind) int64 {
	if int(kind) >= len(c.allocatable) || int(slot) >= len(c.allocatable[kind]) {
		return 0
	}
	return c.allocatable[kind][slot]
}

// Requested returns what the pods on the node request in sum, those whose binding is under way included.
func (c *amountColumns) Requested(slot Slot, kind resource.Kind) int64 {
	if int(kind) >= len(c.requested) {
		return 0
	}
	return c.requested[kind].At(int(slot))
}

// Free returns Allocatable − Requested. It is negative on a node that others over-committed.
func (c *amountColumns) Free(slot Slot, kind resource.Kind) int64 {
	if int(kind) >= len(c.allocatable) || int(slot) >= len(c.allocatable[kind]) {
		return 0
	}
	return c.allocatable[kind][slot] - c.requested[kind].At(int(slot))
}

// ScoreRequested returns the sums of cpu (millicores) and memory (bytes) that scores use.
func (c *amountColumns) ScoreRequested(slot Slot) (cpu, memory int64) {
	return c.scoreCPU.At(int(slot)), c.scoreMemory.At(int(slot))
}

// IsReclaimed reports whether only reports give this resource. It costs a comparison of two strings.
func (c *amountColumns) IsReclaimed(kind resource.Kind) bool {
	return facts.IsReclaimed(c.kinds.Name(kind))
}

// fit gives every kind of the table a column of as many slots as there are, with room for more, and takes those of vacant kinds away.
func (c *amountColumns) fit(slots, room int) {
	if c.fits == c.kinds.Revision() {
		return
	}
	c.fits = c.kinds.Revision()
	c.addKinds(slots, room)
	c.allocatable, c.requested = resized(c.allocatable, c.kinds.Len()), resized(c.requested, c.kinds.Len())
	for kind := range c.allocatable {
		if c.kinds.Name(resource.Kind(kind)) == "" {
			c.allocatable[kind], c.requested[kind] = nil, resource.Sums{}
		}
	}
}

// addKinds gives every kind of the table a column, and leaves those of vacant kinds alone.
func (c *amountColumns) addKinds(slots, room int) {
	n := max(len(c.allocatable), c.kinds.Len())
	c.allocatable, c.requested = resized(c.allocatable, n), resized(c.requested, n)
	for kind, column := range c.allocatable {
		if len(column) < slots && c.kinds.Name(resource.Kind(kind)) != "" {
			c.allocatable[kind] = make([]int64, slots, room)
			c.requested[kind].Grow(slots)
		}
	}
}

// grow makes room for as many slots.
func (c *amountColumns) grow(slots int) {
	for kind := range c.allocatable {
		if c.kinds.Name(resource.Kind(kind)) != "" {
			c.allocatable[kind] = append(c.allocatable[kind], 0)
			c.requested[kind].Grow(slots)
		}
	}
	c.scoreCPU.Grow(slots)
	c.scoreMemory.Grow(slots)
}

// zero empties a slot.
func (c *amountColumns) zero(slot Slot) {
	for kind, column := range c.allocatable {
		if len(column) > 0 {
			column[slot] = 0
			c.requested[kind].Zero(int(slot))
		}
	}
	c.scoreCPU.Zero(int(slot))
	c.scoreMemory.Zero(int(slot))
}

// move adds what a pod of the class requests to a slot, sign times; moveExcess, what a grant takes beyond that.
func (c *amountColumns) move(slot Slot, class *Class, sign int64) {
	for _, a := range class.Amounts {
		c.requested[a.Kind].Add(int(slot), sign*a.Value)
	}
	c.scoreCPU.Add(int(slot), sign*class.ScoreCPU)
	c.scoreMemory.Add(int(slot), sign*class.ScoreMemory)
}

func (c *amountColumns) moveExcess(slot Slot, class *Class, g *topology.NUMAGrant, sign int64) {
	cpu, memory := Excess(class, g)
	if cpu == 0 && memory == 0 {
		return
	}
	c.requested[resource.CPU].Add(int(slot), sign*cpu)
	c.requested[resource.Memory].Add(int(slot), sign*memory)
	c.scoreCPU.Add(int(slot), sign*cpu)
	c.scoreMemory.Add(int(slot), sign*memory)
}

// copySlot copies what a slot has, if that may differ, and what its pods request.
func (c *amountColumns) copySlot(from *amountColumns, slot Slot, kind changes.Kind) {
	if kind&(changes.Redefined|changes.Reimaged|changes.Lent|changes.Recalled) != 0 {
		for kind, column := range from.allocatable {
			if len(column) > 0 {
				c.allocatable[kind][slot] = column[slot]
			}
		}
	}
	for kind := range from.requested {
		if from.requested[kind].Len() > 0 {
			c.requested[kind].Copy(int(slot), &from.requested[kind])
		}
	}
	c.scoreCPU.Copy(int(slot), &from.scoreCPU)
	c.scoreMemory.Copy(int(slot), &from.scoreMemory)
}

// agrees reports whether a slot's pods request as much elsewhere. Of sums beyond all measure it says no.
func (c *amountColumns) agrees(from *amountColumns, slot Slot) bool {
	for kind := range from.requested {
		if kind >= len(c.requested) || c.requested[kind].At(int(slot)) != from.requested[kind].At(int(slot)) || from.requested[kind].At(int(slot)) >= resource.MaxSum {
			return false
		}
	}
	return c.scoreCPU.At(int(slot)) == from.scoreCPU.At(int(slot)) && c.scoreMemory.At(int(slot)) == from.scoreMemory.At(int(slot))
}

// copyAll replaces the columns by copies of others.
func (c *amountColumns) copyAll(from *amountColumns) {
	c.kinds, c.fits, c.gpuKind = from.kinds, from.fits, from.gpuKind
	c.allocatable = copyColumns(c.allocatable, from.allocatable)
	c.requested = resized(c.requested, len(from.requested))
	for kind := range from.requested {
		c.requested[kind].CopyAll(&from.requested[kind])
	}
	c.scoreCPU.CopyAll(&from.scoreCPU)
	c.scoreMemory.CopyAll(&from.scoreMemory)
}

// verifyRequested adds anew what the pods on a slot request.
func (c *amountColumns) verifyRequested(slot Slot, pods []*Pod) error {
	requested := make(quota.Exact, len(c.requested))
	scores := make(quota.Exact, 2) // CPU, memory
	for _, pod := range pods {
		for _, a := range pod.Class.Amounts {
			requested.Add(a.Kind, a.Value)
		}
		cpu, memory := Excess(pod.Class, pod.NUMANodes())
		for kind, amount := range [...]int64{cpu, memory} {
			requested.Add(resource.Kind(kind), amount)
			scores.Add(resource.Kind(kind), amount)
		}
		scores.Add(resource.CPU, pod.Class.ScoreCPU)
		scores.Add(resource.Memory, pod.Class.ScoreMemory)
	}
	for kind := range requested {
		if has := c.requested[kind].Exact(int(slot)); has != requested[kind] {
			return fmt.Errorf("%s: column says %s requested, pods say %s", c.kinds.Name(resource.Kind(kind)), has, requested[kind])
		}
	}
	for kind, column := range [...]*resource.Sums{&c.scoreCPU, &c.scoreMemory} {
		if has := column.Exact(int(slot)); has != scores[kind] {
			return fmt.Errorf("%s: score column says %s, pods say %s", c.kinds.Name(resource.Kind(kind)), has, scores[kind])
		}
	}
	return nil
}

// resized returns a list of n, which shares its beginning with another and ends with zero values; none of the rest is kept.
func resized[T any](list []T, n int) []T {
	if n < len(list) {
		clear(list[n:])
		return list[:n]
	}
	return append(list, make([]T, n-len(list))...)
}

func copyColumns(to, from [][]int64) [][]int64 {
	to = resized(to, len(from))
	for i := range from {
		to[i] = append(to[i][:0], from[i]...)
	}
	return to
}
