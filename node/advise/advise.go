package advise

import "time"

// Sample is a number that may be unknown. The zero value is unknown, so a value that was never filled in cannot pass for 0: a law without its input lends
// nothing more, where a 0 of CPU use would have lent everything.
type Sample struct {
	Value float64 `json:"value"`
	Known bool    `json:"known"`
}

// Known is a known number.
func Known(value float64) Sample { return Sample{Value: value, Known: true} }

// Observation is what the laws see at one tick. CPU is in logical CPUs (1 is a CPU busy all the time), memory in bytes, pressure and shares
// from 0 to 1.
type Observation struct {
	// At is the time since the node's boot, Wall the time of day, for what is read beside the laws.
	At   time.Duration `json:"at"`
	Wall time.Time     `json:"wall"`
	// NUMANodes are the NUMA nodes by index of topology.NUMAShape.
	NUMANodes []NUMANode `json:"numaNodes"`
	Node      Node       `json:"node"`
	// Services are the online pods, Reclaimed the reclaimed ones, by ID.
	Services  []Service   `json:"services,omitempty"`
	Reclaimed []Reclaimed `json:"reclaimed,omitempty"`
	// Profiles are those that services name. Pools are the pools that such services run in.
	Profiles []Profile `json:"profiles,omitempty"`
	Pools    []Pool    `json:"pools,omitempty"`
	// StopLending: the eviction manager wants nothing more lent.
	StopLending bool `json:"stopLending,omitempty"`
	// NoMemory: no memory is lent beyond what the reclaimed pods that run asked for, because the kubelet might evict for it before the agent does.
	NoMemory bool `json:"noMemory,omitempty"`
}

// Node is the machine as a whole.
type Node struct {
	MemoryTotal     Sample `json:"memoryTotal"`
	MemoryAvailable Sample `json:"memoryAvailable"`
	// EvictBelow is the available memory below which the eviction manager acts. Headroom leaves ReserveFactor times as much. Not known: the shares of Params
	// alone bound the headroom.
	EvictBelow Sample `json:"evictBelow,omitzero"`
	// MemoryPressure is the share of the last 10 s in which some task of an online pod waited for memory: the worst pod's.
	MemoryPressure Sample `json:"memoryPressure"`
	// CPUPressure is the same of CPU: the worst shared pod's, between the last two readings.
	CPUPressure Sample `json:"cpuPressure"`
}

// NUMANode is one NUMA node.
type NUMANode struct {
	// Divisible are the CPUs that pools share: neither held by a pod nor reserved. Threads of them make a core. Lent are those that
	// the reclaimed pool has now.
	Divisible int `json:"divisible"`
	Threads   int `json:"threads"`
	Lent      int `json:"lent"`
	// SharedUse is how much of the shared pools' CPUs is busy, SharedDelay how many runnable threads wait there for a CPU on average;
	// LentUse is of the reclaimed pool's CPUs.
	SharedUse   Sample `json:"sharedUse"`
	SharedDelay Sample `json:"sharedDelay"`
	LentUse     Sample `json:"lentUse"`
	// SharedRequests is what the shared pods of the node asked for, by the NUMA node's part of the divisible CPUs.
	SharedRequests Sample `json:"sharedRequests"`

	MemoryTotal Sample `json:"memoryTotal"`
	MemoryFree  Sample `json:"memoryFree"`
	// InactiveFile is page cache that the kernel would drop first, without that of reclaimed pods. ReclaimedMemory is what reclaimed pods hold,
	// page cache included; Promised what was bound to dedicated pods and Reserved what is kept back, each whether touched or not. PromisedUse is what
	// of Promised is touched.
	InactiveFile    Sample `json:"inactiveFile"`
	ReclaimedMemory Sample `json:"reclaimedMemory"`
	Promised        int64  `json:"promised"`
	PromisedUse     Sample `json:"promisedUse"`
	Reserved        int64  `json:"reserved"`
	// EvictBelow is Node.EvictBelow of what is free or in inactive page cache here.
	EvictBelow Sample `json:"evictBelow,omitzero"`
	// MemoryOnly: it has no CPUs. It is the memory of a GPU, or a slower tier, and none of it is lent.
	MemoryOnly bool `json:"memoryOnly,omitempty"`
}

// Service is an online pod.
type Service struct {
	ID   string `json:"id"`
	Pool string `json:"pool"`
	// Profile names its ServiceProfile; empty: it has none. Indicators are those that the profile wants, in its order.
	Profile     string   `json:"profile,omitempty"`
	Indicators  []Sample `json:"indicators,omitempty"`
	CPUUse      Sample   `json:"cpuUse"`
	CPUPressure Sample   `json:"cpuPressure"`
	Memory      Sample   `json:"memory"`
	// BestEffort: it requests nothing and names no level. RunDelay is how many of its threads wait for a CPU.
	BestEffort bool   `json:"bestEffort,omitempty"`
	RunDelay   Sample `json:"runDelay,omitzero"`
}

// Reclaimed is a reclaimed pod.
type Reclaimed struct {
	ID string `json:"id"`
	// MilliCPU and MemoryBytes are its amounts of the reclaimed resources.
	MilliCPU    int64  `json:"milliCPU"`
	MemoryBytes int64  `json:"memoryBytes"`
	CPUUse      Sample `json:"cpuUse"`
	RunDelay    Sample `json:"runDelay"`
	Memory      Sample `json:"memory"`
}

// Advice is what the laws want: for each NUMA node how many cores to lend and how much headroom to publish, and for the node how strongly reclaimed pods
// are suppressed. It is a state and not a list of orders: applying the same Advice twice changes nothing.
type Advice struct {
	NUMANodes []NUMAAdvice `json:"numaNodes"`
	// Pools are the CPUs that the pools of services with a profile should have in all NUMA nodes together, by pool; others follow their requests.
	Pools map[string]int `json:"pools,omitempty"`
	// Suppression is how hard reclaimed pods are held down.
	Suppression Suppression `json:"suppression"`
}

// NUMAAdvice is of one NUMA node.
type NUMAAdvice struct {
	// Lend is how many whole cores the reclaimed pool should have, LendReason why it is no more.
	Lend       int    `json:"lend"`
	LendReason Reason `json:"lendReason"`
	// CPU and Memory are what all reclaimed pods may hold in the NUMA node, running ones included: millicores and bytes. Published is what is to be
	// told; it falls at once and rises late.
	CPU    Headroom `json:"cpu"`
	Memory Headroom `json:"memory"`
}

// Headroom is an amount, and the reason that bounds it.
type Headroom struct {
	// Now is what the law finds at this tick. Published is what may be reported to the scheduler.
	Now       int64  `json:"now"`
	Published int64  `json:"published"`
	Reason    Reason `json:"reason"`
	// Terms are what it was computed from, in order, for people.
	Terms []Term `json:"terms,omitempty"`
}

// Term is a part of a sum, in the unit of the headroom.
type Term struct {
	Name  string `json:"name"`
	Value int64  `json:"value"`
}

// Reason says what bounds a headroom.
type Reason string

// The reasons.
const (
	BoundByUse      Reason = "Use"      // what online pods use now
	BoundByPressure Reason = "Pressure" // they feel pressure
	BoundByMissing  Reason = "Missing"  // something is not known; nothing new is lent
	BoundByCapacity Reason = "Capacity" // there is no more
	BoundByStop     Reason = "Stopped"  // the eviction manager has stopped lending
	BoundByKubelet  Reason = "Kubelet"  // it might evict before the agent does
	BoundByStep     Reason = "Step"     // more will be lent, but not yet
)

// Suppression is how hard reclaimed pods are held down; each level includes those below.
type Suppression int

// The levels.
const (
	SuppressNone   Suppression = iota // they have what is lent
	SuppressWeight                    // online pods wait: nothing more is lent
	SuppressFloor                     // they have the floor alone
	SuppressEvict                     // they have had the floor alone for long, and starve: the eviction manager may choose one
)
