package numa

import (
	"errors"
	"fmt"

	"hilbert.dev/hilbert/topology"
)

// Machine is what a node has. All NUMA nodes are equal.
type Machine struct {
	Sockets   int     `json:"sockets"`
	NUMANodes int     `json:"zonesPerSocket"`
	CPUs      int     `json:"cpusPerNUMANode"`      // logical
	Threads   int     `json:"threadsPerCore"`       //
	Memory    int     `json:"memoryPerNUMANodeMiB"` //
	Bandwidth float64 `json:"zoneGBps"`             // of a NUMA node's channels
	Link      float64 `json:"linkGBps"`             // into a socket from another
	Near      float64 `json:"near"`                 // latency of memory in another NUMA node of the socket, over the local one's
	Far       float64 `json:"far"`                  // of memory on another socket
}

// Params are what servers are like, and what they cost one another.
type Params struct {
	MemoryBound float64 `json:"memoryBound"` // share of a service that waits for memory, on an idle machine with local memory
	Flow        float64 `json:"flowGBps"`    // that a thread draws while it serves and is not slowed
	Congestion  float64 `json:"congestion"`  // slope of memory's latency over the bandwidth in use
	Sibling     float64 `json:"sibling"`     // how much slower a thread is whose core's other thread is busy
	Balanced    float64 `json:"balanced"`    // share of accesses elsewhere that the kernel has made local
	Load        float64 `json:"load"`        // busy share of a server's CPUs, were all memory local and nobody else there
	Burst       float64 `json:"burst"`       // 0: Poisson; else the rate is 1±Burst of the mean in turn
	Phase       float64 `json:"phaseSeconds"`
	Variability float64 `json:"variability"` // squared coefficient of variation of services, which are lognormal
	Service     float64 `json:"serviceMs"`   // mean
	Fixed       float64 `json:"fixedMs"`     // of a latency that is not the server's: network, client
	OneLoader   bool    `json:"oneLoader"`   // stock: one thread loads a server's memory, not all of them
}

// Options say what is run.
type Options struct {
	Machine Machine `json:"machine"`
	Params  Params  `json:"params"`
	Seeds   int     `json:"seeds"`
	Seed    uint64  `json:"seed"`    // the first
	Nodes   int     `json:"nodes"`   // machines of a seed
	Seconds float64 `json:"seconds"` // in which requests come; the first tenth is not counted
	Full    float64 `json:"full"`    // share of a machine's CPUs and memory that servers may ask for
	Churn   int     `json:"churn"`   // servers that leave, and make room for others, before requests come
	// Sweep plays each parameter with other values, with this many seeds of one machine each; 0: not.
	Sweep int `json:"sweepSeeds"`
}

// DefaultOptions are those of the package's documentation.
func DefaultOptions() Options {
	return Options{
		Machine: Machine{Sockets: 2, NUMANodes: 2, CPUs: 48, Threads: 2, Memory: 256 << 10, Bandwidth: 102.4, Link: 62.4, Near: 1.15, Far: 1.7},
		Params: Params{
			MemoryBound: 0.5, Flow: 2, Congestion: 0.12, Sibling: 0.5, Balanced: 0.25, Load: 0.5, Phase: 0.1, Variability: 1, Service: 5,
		},
		Seeds: 10, Seed: 1, Nodes: 4, Seconds: 5, Full: 0.85, Churn: 60, Sweep: 3,
	}
}

// validate says what is wrong with the options.
func (o *Options) validate() error {
	m, p := &o.Machine, &o.Params
	switch {
	case o.Seeds < 1 || o.Seeds > 1000:
		return fmt.Errorf("numa: %d seeds: want 1 to 1000", o.Seeds)
	case o.Sweep < 0 || o.Sweep > 1000:
		return fmt.Errorf("numa: a sweep with %d seeds: want 0 to 1000", o.Sweep)
	case o.Nodes < 1 || o.Nodes > 1000:
		return fmt.Errorf("numa: %d nodes: want 1 to 1000", o.Nodes)
	case !(o.Seconds > 0 && o.Seconds <= 3600):
		return fmt.Errorf("numa: %g seconds: want more than 0 and at most 3600", o.Seconds)
	case m.Sockets < 1 || m.NUMANodes < 1 || m.Sockets*m.NUMANodes > topology.MaxNUMANodes:
		return fmt.Errorf("numa: %d sockets of %d NUMA nodes: want 1 to %d NUMA nodes", m.Sockets, m.NUMANodes, topology.MaxNUMANodes)
	case !(o.Full > 0 && o.Full <= 1) || o.Churn < 0:
		return fmt.Errorf("numa: full %g, churn %d: want more than 0 and at most 1; not negative", o.Full, o.Churn)
	case !(p.Load > 0 && p.Load < 1):
		return fmt.Errorf("numa: load %g: want more than 0 and less than 1", p.Load)
	case !(p.Balanced >= 0 && p.Balanced <= 1 && p.Burst >= 0 && p.Burst < 1 && p.MemoryBound >= 0 && p.MemoryBound <= 1):
		return errors.New("numa: balanced, burst and memoryBound are shares, from 0 to 1")
	}
	return nil
}

// NUMA nodes is how many NUMA nodes the machine has.
func (m *Machine) numaNodes() int { return m.Sockets * m.NUMANodes }

// socket is the socket of a NUMA node.
func (m *Machine) socket(numa int) int { return numa / m.NUMANodes }

// distance is the latency of memory of a NUMA node from another, over the local one's.
func (m *Machine) distance(from, to int) float64 {
	switch {
	case from == to:
		return 1
	case m.socket(from) == m.socket(to):
		return m.Near
	}
	return m.Far
}

// shape is the machine as the allocator sees it.
func (m *Machine) shape() *topology.NUMAShape {
	s := &topology.NUMAShape{Ruler: topology.RulerAgent, NUMANodes: uint8(m.numaNodes()), Threads: uint8(m.Threads), BindsShared: true}
	for z := range m.numaNodes() {
		s.NUMANode[z] = topology.NUMACapacity{CPUs: uint16(m.CPUs), Socket: uint8(m.socket(z)), Memory: uint32(m.Memory)}
	}
	return s
}
