package cores

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"hilbert.dev/hilbert/topology"
)

// layout is the machine as the allocator sees it. It does not change.
type layout struct {
	all       topology.CPUSet
	reserved  topology.CPUSet
	threads   int // of a whole core
	numaNodes []numaCores
}

// numaCores is one NUMA node, by cores in ascending order of their lowest CPU.
type numaCores struct {
	cpus    topology.CPUSet
	givable topology.CPUSet // whole cores that are not reserved
	cores   []coreCPUs
}

// coreCPUs is a core: its CPUs, and the L3 group of the NUMA node that it belongs to.
type coreCPUs struct {
	cpus topology.CPUSet
	l3   int
}

func newLayout(m *topology.Machine, reserved topology.CPUSet) (*layout, error) {
	if len(m.CPUs) == 0 {
		return nil, errors.New("it has no CPU")
	}
	byNUMANode, err := coresByNUMANode(m)
	if err != nil {
		return nil, err
	}
	l := &layout{all: m.AllCPUs(), threads: m.Threads(), numaNodes: byNUMANode}
	l.reserved = reserved.Intersection(l.all)
	for z := range l.numaNodes {
		numa := &l.numaNodes[z]
		for _, c := range numa.cores {
			numa.cpus = numa.cpus.Union(c.cpus)
			if c.cpus.Len() == l.threads && c.cpus.Intersection(l.reserved).IsEmpty() {
				numa.givable = numa.givable.Union(c.cpus)
			}
		}
	}
	return l, nil
}

// coresByNUMANode sorts the cores into NUMA nodes: one for each NUMA node, one alone if there are none or too many.
func coresByNUMANode(m *topology.Machine) ([]numaCores, error) {
	index := make(map[int]int, len(m.NUMA))
	for i, n := range m.NUMA {
		index[n.ID] = i
	}
	numaNodes := make([]numaCores, max(len(m.NUMA), 1))
	if len(m.NUMA) > topology.MaxNUMANodes {
		numaNodes = numaNodes[:1]
	}
	type place struct{ numa, at int }
	seen := make(map[int]place)
	cpus := slices.SortedFunc(slices.Values(m.CPUs), func(x, y topology.CPU) int { return x.ID - y.ID })
	for i, c := range cpus {
		z, ok := index[c.NUMA]
		switch {
		case c.ID < 0 || c.ID >= topology.MaxCPUs:
			return nil, fmt.Errorf("CPU %d is not from 0 to %d", c.ID, topology.MaxCPUs-1)
		case i > 0 && cpus[i-1].ID == c.ID:
			return nil, fmt.Errorf("CPU %d stands twice", c.ID)
		case !ok && len(m.NUMA) > 0:
			return nil, fmt.Errorf("CPU %d is in NUMA node %d, which is not there", c.ID, c.NUMA)
		case len(numaNodes) == 1:
			z = 0
		}
		p, known := seen[c.Core]
		if !known {
			p = place{numa: z, at: len(numaNodes[z].cores)}
			seen[c.Core] = p
			numaNodes[z].cores = append(numaNodes[z].cores, coreCPUs{l3: c.L3})
		}
		if p.numa != z {
			return nil, fmt.Errorf("core %d is in two NUMA nodes", c.Core)
		}
		numaNodes[z].cores[p.at].cpus.Add(c.ID)
	}
	return numaNodes, nil
}

// promise is what an allocator of the layout can promise.
func (l *layout) promise(m *topology.Machine, reservedMemory uint32) topology.NUMAShape {
	if len(m.NUMA) > topology.MaxNUMANodes {
		return topology.NUMAShape{Threads: uint8(l.threads)}
	}
	socket := make(map[int]int, len(m.CPUs))
	for _, c := range m.CPUs {
		socket[c.ID] = c.Socket
	}
	s := topology.NUMAShape{Ruler: topology.RulerAgent, NUMANodes: uint8(len(l.numaNodes)), Threads: uint8(l.threads), BindsShared: true, SeparatesBandwidth: true}
	for z := range l.numaNodes {
		s.NUMANode[z].CPUs = uint16(l.numaNodes[z].givable.Len())
		if first := l.numaNodes[z].cpus.Next(0); first >= 0 {
			s.NUMANode[z].Socket = uint8(socket[first])
		}
		if z < len(m.NUMA) {
			s.NUMANode[z].Memory = uint32(max(m.NUMA[z].Memory/topology.Mebibyte-int64(reservedMemory), 0))
		}
	}
	return s
}

// Reserve returns the lowest cores, in turn from each NUMA node: what is kept for the node's own services. A machine that NewAllocator refuses
// has none.
func Reserve(m *topology.Machine, cores int) (s topology.CPUSet) {
	numaNodes, err := coresByNUMANode(m)
	if err != nil {
		return s
	}
	for at := 0; cores > 0; at++ {
		more := false
		for z := range numaNodes {
			if at < len(numaNodes[z].cores) && cores > 0 {
				s = s.Union(numaNodes[z].cores[at].cpus)
				cores--
				more = true
			}
		}
		if !more {
			return s
		}
	}
	return s
}

// whole reports whether a part of a NUMA node is made of whole cores.
func (l *layout) whole(numa int, part topology.CPUSet) bool {
	for _, c := range l.numaNodes[numa].cores {
		if n := c.cpus.Intersection(part).Len(); n != 0 && n != l.threads {
			return false
		}
	}
	return true
}

// choose picks n whole cores of a NUMA node from those in free, which has at least that many. It fills L3 groups: first those that near has CPUs in;
// then the smallest that holds all, one that is filled exactly before all others; if none does, the largest, and so on. In a group it picks cores
// between or beside those that are not free, so that free cores stay together, then the lowest.
func (l *layout) choose(numa, n int, free, near topology.CPUSet) (picked topology.CPUSet) {
	cores := l.numaNodes[numa].cores
	var groups []l3Group
	at := make(map[int]int)
	taken := make([]bool, len(cores)) // not to be had: held, reserved, not whole, or picked
	for i, c := range cores {
		g, ok := at[c.l3]
		if !ok {
			g = len(groups)
			at[c.l3] = g
			groups = append(groups, l3Group{})
		}
		taken[i] = c.cpus.Len() != l.threads || c.cpus != c.cpus.Intersection(free)
		if !taken[i] {
			groups[g].free = append(groups[g].free, i)
		}
		groups[g].near += c.cpus.Intersection(near).Len()
	}
	for n > 0 {
		g := bestGroup(groups, n)
		if g < 0 {
			return picked // the caller has counted wrongly; Verify would say so
		}
		for ; n > 0 && len(groups[g].free) > 0; n-- {
			i := groups[g].pick(taken)
			taken[i] = true
			picked = picked.Union(cores[i].cpus)
		}
		groups[g] = l3Group{}
	}
	return picked
}

// l3Group is the cores of a NUMA node that share an L3 cache, and are free.
type l3Group struct {
	free []int // indices of cores
	near int   // CPUs of the pod that gets more
}

// bestGroup is the group to take from next, when n cores are wanted; -1 if none has any.
func bestGroup(groups []l3Group, n int) int {
	best := -1
	for i, g := range groups {
		if len(g.free) > 0 && (best < 0 || g.better(groups[best], n)) {
			best = i
		}
	}
	return best
}

func (g l3Group) better(than l3Group, n int) bool {
	if g.near != than.near {
		return g.near > than.near
	}
	holds, thanHolds := len(g.free) >= n, len(than.free) >= n
	switch {
	case holds && thanHolds:
		return len(g.free) < len(than.free)
	case holds != thanHolds:
		return holds
	}
	return len(g.free) > len(than.free)
}

// pick takes the free core with the most neighbours that are taken; of several, the lowest.
func (g *l3Group) pick(taken []bool) int {
	best, most := 0, -1
	for at, i := range g.free {
		beside := 0
		if i > 0 && taken[i-1] {
			beside++
		}
		if i+1 < len(taken) && taken[i+1] {
			beside++
		}
		if beside > most {
			best, most = at, beside
		}
	}
	i := g.free[best]
	g.free = slices.Delete(g.free, best, best+1)
	return i
}

// inNUMANodes is the CPUs of a set of NUMA nodes.
func (l *layout) inNUMANodes(set uint8) (cpus topology.CPUSet) {
	for ; set != 0; set &= set - 1 {
		cpus = cpus.Union(l.numaNodes[bits.TrailingZeros8(set)].cpus)
	}
	return cpus
}
