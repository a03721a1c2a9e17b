package corun

// MaxNUMANodes bounds the NUMA nodes of a Machine.
const MaxNUMANodes = 2

// Machine is what a node has. All NUMA nodes are equal.
type Machine struct {
	NUMANodes int
	// Cores of a NUMA node, and Threads of a core. Reserved of the cores are for the system: no pool has them.
	Cores, Threads, Reserved int
	// Memory of a NUMA node in bytes.
	Memory int64
	// Cache is the last-level cache of a NUMA node in MiB, Bandwidth that of its memory in GB/s.
	Cache, Bandwidth float64
}

// DefaultMachine is a machine of two sockets with 64 logical CPUs and 256 GiB.
func DefaultMachine() Machine {
	return Machine{NUMANodes: 2, Cores: 16, Threads: 2, Reserved: 1, Memory: 128 << 30, Cache: 40, Bandwidth: 110}
}

// CPUs is all logical CPUs of the machine.
func (m *Machine) CPUs() int { return m.NUMANodes * m.Cores * m.Threads }

// Divisible is the logical CPUs of a NUMA node that pools share.
func (m *Machine) Divisible() int { return (m.Cores - m.Reserved) * m.Threads }

// Params say how much neighbours cost one another. ADR 0009 tells where each comes from.
type Params struct {
	// Sibling is how much slower a thread is whose core's other thread is always busy: 0.5 is half as slow again.
	Sibling float64 `json:"sibling"`
	// Cache is how much slower a service is that has none of the cache that it wants.
	Cache float64 `json:"cache"`
	// Bandwidth is the slope of memory's latency over the bandwidth in use.
	Bandwidth float64 `json:"bandwidth"`
	// Clock is how much slower a core is while all cores of the machine are busy.
	Clock float64 `json:"clock"`
	// WakeDelay in seconds is how long a thread waits on average that wakes where a reclaimed thread runs.
	WakeDelay float64 `json:"wakeDelay"`
	// Weight is a job's thread's, beside 1 of a service's, where they share CPUs.
	Weight float64 `json:"weight"`

	// Variability is (ca²+cs²)/2 of arrivals and service times: 1 is M/M/c.
	Variability float64 `json:"variability"`
	// Search is the share of a pool's CPUs among which a waking thread finds an idle one.
	Search float64 `json:"search"`
	// MaxBacklog in seconds of the pool's work: what waits longer is given up.
	MaxBacklog float64 `json:"maxBacklog"`
	// Stall is how much slower services are while memory is all but gone.
	Stall float64 `json:"stall"`
}

// DefaultParams are those of ADR 0009.
func DefaultParams() Params {
	return Params{
		Sibling: 0.5, Cache: 0.4, Bandwidth: 0.12, Clock: 0.1, WakeDelay: 0.003, Weight: 1,
		Variability: 2, Search: 0.5, MaxBacklog: 5, Stall: 2,
	}
}

// Scaled returns the parameters with what neighbours cost times x.
func (p Params) Scaled(x float64) Params {
	p.Sibling *= x
	p.Cache *= x
	p.Bandwidth *= x
	p.Clock *= x
	p.WakeDelay *= x
	return p
}

// Service is one online pod.
type Service struct {
	// NUMANode is where all of its threads run.
	NUMANode int
	// Request in CPUs.
	Request float64
	// Mean is the service time of a request in seconds on an idle machine; it is distributed exponentially. Target in seconds is what
	// 99 of 100 requests must not exceed.
	Mean, Target float64
	// Bandwidth in GB/s and Cache in MiB are what each of its busy CPUs wants.
	Bandwidth, Cache float64
	// Memory in bytes is its working set at full load.
	Memory float64
}

// Job is a reclaimed pod.
type Job struct {
	ID int64
	// MilliCPU and MemoryBytes are what it asked for of the reclaimed resources.
	MilliCPU, MemoryBytes int64
	// Demand is how many threads it keeps running, Work the seconds that it runs at full speed.
	Demand, Work float64
	// Bandwidth in GB/s and Cache in MiB are what each of its busy CPUs wants.
	Bandwidth, Cache float64
	// Memory in bytes that it comes to use.
	Memory float64
}
