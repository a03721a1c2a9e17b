package parse

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/topology"
)

// rulers are the values of NodeStatus.Mode.
var rulers = map[string]topology.Ruler{spec.ModeAgent: topology.RulerAgent, spec.ModeKubelet: topology.RulerKubelet}

// maxThreads is the most logical CPUs of a core that a report may name.
const maxThreads = 8

// NodeNUMANodes turns what a node's agent says into the ledger's terms: what can be promised by NUMA node, and who holds what, by UID.
//
// The NUMA nodes are the NUMA nodes, by ascending number. Where the kubelet rules nothing is promised and nobody is said to hold anything; a
// machine with more than topology.MaxNUMANodes NUMA nodes has no NUMA nodes at all. What is missing is an error and never zero; the error names
// the NUMA node, and nothing of such a report may be acted on.
func NodeNUMANodes(s *spec.NodeStatus) (shape topology.NUMAShape, held []facts.HeldNUMA, err error) {
	ruler, ok := rulers[s.Mode]
	switch {
	case !ok:
		return shape, nil, fmt.Errorf("mode %q: want %s or %s", s.Mode, spec.ModeAgent, spec.ModeKubelet)
	case s.ThreadsPerCore < 1 || s.ThreadsPerCore > maxThreads:
		return shape, nil, fmt.Errorf("threadsPerCore %d: want 1 to %d", s.ThreadsPerCore, maxThreads)
	}
	numaNodes, err := numaNodes(s.Topology)
	if err != nil {
		return shape, nil, err
	}
	shape.Ruler, shape.Threads = ruler, uint8(s.ThreadsPerCore)
	if len(numaNodes) > topology.MaxNUMANodes {
		return shape, nil, nil
	}
	shape.NUMANodes, shape.BindsShared = uint8(len(numaNodes)), s.BindsShared && ruler == topology.RulerAgent
	shape.SeparatesBandwidth = s.SeparatesBandwidth && ruler == topology.RulerAgent
	grants := make(map[string]*topology.NUMAGrant)
	for i := range numaNodes {
		z := &numaNodes[i]
		if shape.NUMANode[i], err = z.capacity(); err == nil {
			err = z.charge(i, grants)
		}
		if err != nil {
			return topology.NUMAShape{}, nil, fmt.Errorf("NUMA node %s: %w", z.Name, err)
		}
		if z.Closed {
			shape.Closed |= 1 << i
		}
	}
	if ruler == topology.RulerKubelet {
		return shape, nil, nil
	}
	for uid, grant := range grants {
		held = append(held, facts.HeldNUMA{UID: facts.UID(uid), Grant: *grant})
	}
	slices.SortFunc(held, func(a, b facts.HeldNUMA) int { return cmp.Compare(a.UID, b.UID) })
	return shape, held, nil
}

// numaNode is a NUMA node of a report.
type numaNode struct {
	*spec.TopologyElement
	number int
	socket uint8
}

// numaNodes lists the NUMA nodes by number.
func numaNodes(tree []spec.TopologyElement) (out []numaNode, err error) {
	for i := range tree {
		socket := &tree[i]
		if socket.Type != spec.ElementSocket {
			if socket.Type == spec.ElementNUMANode {
				return nil, fmt.Errorf("NUMA node %s: it stands in no socket", socket.Name)
			}
			continue
		}
		number, err := strconv.ParseUint(socket.Name, 10, 8)
		if err != nil {
			return nil, fmt.Errorf("socket %q: the name is no number of a socket", socket.Name)
		}
		for j := range socket.Children {
			child := &socket.Children[j]
			if child.Type != spec.ElementNUMANode {
				continue
			}
			n, err := strconv.ParseUint(child.Name, 10, 16)
			if err != nil {
				return nil, fmt.Errorf("NUMA node %q: the name is no number of a NUMA node", child.Name)
			}
			out = append(out, numaNode{child, int(n), uint8(number)})
		}
	}
	slices.SortFunc(out, func(a, b numaNode) int { return cmp.Compare(a.number, b.number) })
	for i := 1; i < len(out); i++ {
		if out[i].number == out[i-1].number {
			return nil, fmt.Errorf("NUMA node %s: it stands twice", out[i].Name)
		}
	}
	return out, nil
}

// capacity is what may be promised of the NUMA node.
func (z *numaNode) capacity() (c topology.NUMACapacity, err error) {
	if z.Capacity == nil || z.Allocatable == nil {
		return c, errors.New("capacity or allocatable is missing")
	}
	for _, a := range []*spec.NUMAAmounts{z.Capacity, z.Allocatable} {
		if err := checkAmounts(a.CPUs, a.MemoryMiB, a.CPUSet); err != nil {
			return c, err
		}
	}
	if z.Allocatable.CPUs > z.Capacity.CPUs || z.Allocatable.MemoryMiB > z.Capacity.MemoryMiB {
		return c, errors.New("allocatable is more than capacity")
	}
	return topology.NUMACapacity{CPUs: uint16(z.Allocatable.CPUs), Socket: z.socket, Memory: uint32(z.Allocatable.MemoryMiB)}, nil
}

// charge adds what the pods hold of the NUMA node to their grants.
func (z *numaNode) charge(index int, grants map[string]*topology.NUMAGrant) error {
	for i := range z.Allocations {
		a := &z.Allocations[i]
		err := checkAmounts(a.CPUs, a.MemoryMiB, a.CPUSet)
		bandwidth, known := topology.ParseBandwidth(a.Bandwidth)
		g := grants[a.UID]
		switch {
		case a.UID == "":
			return fmt.Errorf("the allocation of %s/%s has no UID", a.Namespace, a.Name)
		case err != nil:
			return fmt.Errorf("the allocation of %s/%s: %w", a.Namespace, a.Name, err)
		case a.CPUs == 0 && a.MemoryMiB == 0:
			return fmt.Errorf("the allocation of %s/%s says not how much it is", a.Namespace, a.Name)
		case !known:
			return fmt.Errorf("the allocation of %s/%s: bandwidth %q: want %s or %s", a.Namespace, a.Name, a.Bandwidth, spec.BandwidthIntensive, spec.BandwidthSensitive)
		case g == nil:
			g = &topology.NUMAGrant{Bandwidth: bandwidth}
			grants[a.UID] = g
		case g.Bandwidth != bandwidth:
			return fmt.Errorf("the allocation of %s/%s: bandwidth %q here and %q in another NUMA node", a.Namespace, a.Name, bandwidth, g.Bandwidth)
		case g.NUMANodes()&(1<<index) != 0:
			return fmt.Errorf("the allocation of %s/%s stands twice", a.Namespace, a.Name)
		}
		g.CPUs[index], g.Memory[index] = uint16(a.CPUs), uint32(a.MemoryMiB)
	}
	return nil
}

// checkAmounts refuses amounts that no machine has, and a set of CPUs, where there is one, that are not as many as is said.
func checkAmounts(cpus int, memory int64, cpuset string) error {
	switch {
	case cpus < 0 || cpus > topology.MaxCPUs:
		return fmt.Errorf("%d CPUs: want 0 to %d", cpus, topology.MaxCPUs)
	case memory < 0 || memory > math.MaxUint32:
		return fmt.Errorf("%d MiB of memory: want 0 to %d", memory, uint32(math.MaxUint32))
	case cpuset == "":
		return nil
	}
	set, err := topology.ParseCPUSet(cpuset)
	if err == nil && set.Len() != cpus {
		err = fmt.Errorf("cpuset %q has %d CPUs, not %d", cpuset, set.Len(), cpus)
	}
	return err
}
