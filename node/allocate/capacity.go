package allocate

import (
	"fmt"
	"strings"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/topology"
	"hilbert.dev/hilbert/topology/cores"
)

// capacity is what the node has and which pods hold it: the machine, the allocator of its cores, and the NUMA nodes that are closed. It protects two
// invariants: no CPU has two holders, and no NUMA node gives more than it has.
type capacity struct {
	params  Params
	machine *topology.Machine
	alloc   *cores.Allocator
	closed  map[int]Note // why, by NUMA node
}

func newCapacity(machine *topology.Machine, p Params) (*capacity, error) {
	alloc, err := cores.NewAllocator(machine, cores.Reserve(machine, p.ReservedCores), uint32(p.ReservedMemoryMiB))
	if err != nil {
		return nil, err
	}
	if p.Mode == spec.ModeKubelet {
		if err := alloc.SetRuler(topology.RulerKubelet); err != nil {
			return nil, err
		}
	}
	return &capacity{params: p, machine: machine, alloc: alloc, closed: make(map[int]Note)}, nil
}

// kubeletRules reports whether the kubelet gives the CPUs out, and the agent only follows.
func (c *capacity) kubeletRules() bool { return c.params.Mode == spec.ModeKubelet }

// usable is the set of NUMA nodes for which judge says yes.
func (c *capacity) usable(judge func(numa int, whole topology.NUMACapacity, left topology.NUMARoom) bool) (set uint8) {
	shape, free := c.alloc.Shape(), c.alloc.Free()
	for z := range int(shape.NUMANodes) {
		if judge(z, shape.NUMANode[z], free[z]) {
			set |= 1 << z
		}
	}
	return set
}

// close keeps a NUMA node from giving anything new. A number that is no NUMA node's is ignored.
func (c *capacity) close(numa int, why Note) {
	if numa >= 0 && numa < int(c.alloc.Shape().NUMANodes) {
		c.alloc.Close(numa, true)
		c.closed[numa] = why
	}
}

// open lets a closed NUMA node give again.
func (c *capacity) open(numa int) {
	c.alloc.Close(numa, false)
	delete(c.closed, numa)
}

// runs is what the pods of a pool run on. Where the kubelet rules, that is never what it gave to one pod alone: if nothing else is left, it is nothing,
// and the kubelet knows where they run.
func (c *capacity) runs(pools *cores.Pools, part topology.CPUSet) topology.CPUSet {
	cpus := pools.Runs(part)
	if c.kubeletRules() && !cpus.Intersection(c.alloc.Held()).IsEmpty() {
		return topology.CPUSet{}
	}
	return cpus
}

// left says what the NUMA nodes have left, for messages: "free are 0:4/512Mi,1:0/0Mi".
func (c *capacity) left() string {
	shape, free := c.alloc.Shape(), c.alloc.Free()
	var numaNodes []string
	for z := range int(shape.NUMANodes) {
		text := fmt.Sprintf("%d:%d/%dMi", z, free[z].CPUs, free[z].Memory)
		if free[z].Sensitive > 0 {
			text += " (bandwidth-sensitive pods)"
		}
		if free[z].Intensive > 0 {
			text += " (memory-intensive pods)"
		}
		if shape.Closed&(1<<z) != 0 {
			text += " (closed)"
		}
		numaNodes = append(numaNodes, text)
	}
	return "free are " + strings.Join(numaNodes, ",")
}
