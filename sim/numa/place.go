package numa

import (
	"math/rand/v2"

	"hilbert.dev/hilbert/topology"
)

// Placement is who chooses CPUs and memory.
type Placement uint8

// The placements.
const (
	Stock  Placement = iota
	Static           // the kubelet's static CPU manager
	Zoned            // shared pods with hilbert.dev/numa: bound
	Bound            // dedicated pods with hilbert.dev/numa: bound
	placements
)

// exclusive reports whether a server has cores for itself.
func (p Placement) exclusive() bool { return p == Static || p == Bound }

// String is the name of the placement.
func (p Placement) String() string { return [...]string{"stock", "static", "zoned", "bound"}[p] }

// MarshalText is the name of the placement.
func (p Placement) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// server is what is asked for.
type server struct {
	id     int
	cpus   int
	memory int // MiB
}

// seat is where a server is under one placement. Grant.CPUs is empty for a server whose threads run anywhere.
type seat struct {
	server
	grant topology.NUMAGrant
}

// node is a machine under one placement, as servers come and go.
type node struct {
	machine *Machine
	shape   *topology.NUMAShape
	by      Placement
	free    topology.NUMAFree
	seats   []seat
}

func newNode(m *Machine, by Placement) *node {
	shape := m.shape()
	return &node{machine: m, shape: shape, by: by, free: topology.NewNUMAFree(shape)}
}

// offer chooses where a server goes. Only aware placements may have no place for it: blind placements take memory from wherever it is.
func (n *node) offer(s server, oneLoader bool, draw *rand.Rand) (topology.NUMAGrant, bool) {
	switch n.by {
	case Zoned, Bound:
		r := topology.NUMARequest{CPUs: uint16(s.cpus), Binding: topology.Bound, Memory: uint32(s.memory)}
		if n.by == Zoned {
			r.Binding = topology.BoundShared
		}
		return topology.OfferNUMA(n.shape, &n.free, r)
	case Static:
		return n.offerStatic(s), true
	default:
		return n.offerStock(s, oneLoader, draw), true
	}
}

// offerStock spreads memory over all NUMA nodes, or pours it where one loader runs. No CPU is held.
func (n *node) offerStock(s server, oneLoader bool, draw *rand.Rand) (g topology.NUMAGrant) {
	numaNodes := n.machine.numaNodes()
	loader := draw.IntN(numaNodes) // drawn in any case, so that the next draw is the same
	if oneLoader {
		n.pour(&g, loader, s.memory)
		return g
	}
	for z := range numaNodes {
		n.pour(&g, z, (s.memory+z)/numaNodes)
	}
	return g
}

// offerStatic takes whole free NUMA nodes while the rest of the request fills them, then cores of the NUMA node with the fewest free
// of the socket with the fewest, as the kubelet's packed policy does.
func (n *node) offerStatic(s server) (g topology.NUMAGrant) {
	left := (s.cpus + n.machine.Threads - 1) / n.machine.Threads * n.machine.Threads
	for z := range n.machine.numaNodes() {
		if int(n.free[z].CPUs) == n.machine.CPUs && left >= n.machine.CPUs {
			g.CPUs[z] = uint16(n.machine.CPUs)
			left -= n.machine.CPUs
		}
	}
	for left > 0 {
		z, room := n.fullest(&g)
		if room == 0 {
			break // never: servers ask for less than the machine has
		}
		taken := min(left, room)
		g.CPUs[z] += uint16(taken)
		left -= taken
	}
	for z := range n.machine.numaNodes() {
		n.pour(&g, z, s.memory*int(g.CPUs[z])/s.cpus)
	}
	return g
}

// fullest is the NUMA node with the fewest free CPUs of the socket with the fewest, and how many those are.
func (n *node) fullest(g *topology.NUMAGrant) (numa, room int) {
	m := n.machine
	var numaNodes [topology.MaxNUMANodes]int
	sockets := make([]int, m.Sockets)
	for z := range m.numaNodes() {
		numaNodes[z] = int(n.free[z].CPUs) - int(g.CPUs[z])
		sockets[m.socket(z)] += numaNodes[z]
	}
	for z := range m.numaNodes() {
		if numaNodes[z] == 0 {
			continue
		}
		mine, best := sockets[m.socket(z)], sockets[m.socket(numa)]
		if room == 0 || mine < best || (mine == best && m.socket(z) == m.socket(numa) && numaNodes[z] < room) {
			numa, room = z, numaNodes[z]
		}
	}
	return numa, room
}

// pour puts memory into a NUMA node, and what has no room there into the nearest that has some.
func (n *node) pour(g *topology.NUMAGrant, into, amount int) {
	m := n.machine
	nearest := []func(z int) bool{
		func(z int) bool { return z == into },
		func(z int) bool { return m.socket(z) == m.socket(into) },
		func(int) bool { return true },
	}
	for _, near := range nearest {
		for z := range m.numaNodes() {
			if !near(z) {
				continue
			}
			part := min(amount, max(int(n.free[z].Memory)-int(g.Memory[z]), 0))
			g.Memory[z] += uint32(part)
			amount -= part
		}
	}
}

// fleet is one machine under every placement, with the same servers.
type fleet struct {
	nodes   [placements]*node
	refused int // servers that the aware placement had no place for, and that are nowhere therefore
}

// sizes are CPUs of servers: from a small shard to a whole NUMA node.
func sizes() []int { return []int{8, 12, 16, 20, 24, 32, 48} }

// newFleet lets servers come and go. draw gives the same servers to each placement.
func newFleet(o *Options, draw *rand.Rand) *fleet {
	f := &fleet{}
	for by := range placements {
		f.nodes[by] = newNode(&o.Machine, by)
	}
	id := 0
	f.fill(o, draw, &id)
	for range o.Churn {
		if here := len(f.nodes[Bound].seats); here > 0 {
			f.remove(draw.IntN(here))
		}
		f.fill(o, draw, &id)
	}
	return f
}

// fill draws servers until several in a row have no room.
func (f *fleet) fill(o *Options, draw *rand.Rand, id *int) {
	for tries := 0; tries < 4; tries++ {
		s := server{id: *id, cpus: sizes()[draw.IntN(len(sizes()))]}
		s.memory = s.cpus * (2 + draw.IntN(5)) << 10 // 2 to 6 GiB a CPU
		*id++
		if f.within(o, s) && f.place(o, s, draw) {
			tries = -1
		}
	}
}

// within reports whether the machine is not too full with a server more.
func (f *fleet) within(o *Options, s server) bool {
	cpus, memory := s.cpus, s.memory
	for i := range f.nodes[Bound].seats {
		cpus += f.nodes[Bound].seats[i].cpus
		memory += f.nodes[Bound].seats[i].memory
	}
	numaNodes := float64(o.Machine.numaNodes())
	return float64(cpus) <= o.Full*numaNodes*float64(o.Machine.CPUs) && float64(memory) <= o.Full*numaNodes*float64(o.Machine.Memory)
}

func (f *fleet) place(o *Options, s server, draw *rand.Rand) bool {
	var grants [placements]topology.NUMAGrant
	for by, n := range f.nodes {
		grant, ok := n.offer(s, o.Params.OneLoader, draw)
		if !ok {
			f.refused++
			return false
		}
		grants[by] = grant
	}
	for by, n := range f.nodes {
		n.free.Commit(&grants[by])
		n.seats = append(n.seats, seat{server: s, grant: grants[by]})
	}
	return true
}

func (f *fleet) remove(i int) {
	for _, n := range f.nodes {
		n.free.Release(&n.seats[i].grant)
		n.seats = append(n.seats[:i:i], n.seats[i+1:]...)
	}
}
