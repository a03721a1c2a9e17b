package observe

import (
	"encoding/json"
	"time"

	"hilbert.dev/hilbert/topology"
)

// Observation is what was seen at one Read. It does not change until its holder gives it back with Reader.Recycle.
//
// Rates are per second of the time between two readings; a rate of time by time is in cores (CPU) or a share from 0 to 1 (pressure).
// Memory is in bytes.
type Observation struct {
	// At is the time that Read was given.
	At time.Duration `json:"at"`
	// Node is the machine as a whole.
	Node Node `json:"node"`
	// Cgroups are in the order in which Read was given them. Those beyond MaxListed are left out, and counted.
	Cgroups []CgroupUse `json:"cgroups"`
	Counts  Counts      `json:"counts"`
}

// Counts is what went wrong since the Reader was made, and what it holds open.
type Counts struct {
	// Faults counts readings of a file that gave nothing, by Reason.
	Faults Faults `json:"faults"`
	// Reversed counts differences of a counter that went backwards.
	Reversed uint64 `json:"reversed"`
	// ClockJumps counts reads whose time was before that of the read before.
	ClockJumps uint64 `json:"clockJumps"`
	// DroppedCgroups, DroppedCPUs and DroppedNUMANodes count what was beyond a bound at a read.
	DroppedCgroups   uint64 `json:"droppedCgroups"`
	DroppedCPUs      uint64 `json:"droppedCPUs"`
	DroppedNUMANodes uint64 `json:"droppedNUMANodes"`
	// Replaced counts cgroups that were removed and created again under the same name.
	Replaced uint64 `json:"replaced"`
	// ThreadReads counts readings of what one thread waited.
	ThreadReads uint64 `json:"threadReads"`
	// OpenFiles is how many files are held open now; Uncached counts readings that had to open and close one for want of room.
	OpenFiles int    `json:"openFiles"`
	Uncached  uint64 `json:"uncached"`
}

// Node is the machine as a whole.
type Node struct {
	CPU CPUTime `json:"cpu"`
	// RunDelay is how many runnable threads waited for a CPU on average (seconds of waiting per second).
	RunDelay Sample[float64] `json:"runDelay"`
	// CPUs is by CPU number. CPUs that are offline or do not exist are Missing.
	CPUs     []CPU           `json:"cpus"`
	Load1    Sample[float64] `json:"load1"`
	Load5    Sample[float64] `json:"load5"`
	Load15   Sample[float64] `json:"load15"`
	Runnable Sample[int64]   `json:"runnable"`
	Threads  Sample[int64]   `json:"threads"`
	Memory   NodeMemory      `json:"memory"`
	Paging   Paging          `json:"paging"`

	CPUPressure    Pressure `json:"cpuPressure"`
	MemoryPressure Pressure `json:"memoryPressure"`
	IOPressure     Pressure `json:"ioPressure"`

	// NUMANodes is by number of NUMA node.
	NUMANodes []NUMAMemory `json:"numaNodes"`
}

// CPUTime is what CPUs did, in cores. The kernel counts it in hundredths of a second.
type CPUTime struct {
	// Busy is user, nice, system and interrupts, guests included.
	Busy   Sample[float64] `json:"busy"`
	User   Sample[float64] `json:"user"`   // with nice
	System Sample[float64] `json:"system"` // with interrupts
	IOWait Sample[float64] `json:"iowait"`
	// Steal is what the hypervisor kept.
	Steal Sample[float64] `json:"steal"`
}

// CPU is one logical CPU.
type CPU struct {
	CPUTime
	RunDelay Sample[float64] `json:"runDelay"`
}

// NodeMemory is /proc/meminfo.
type NodeMemory struct {
	Total       Sample[int64] `json:"total"`
	Free        Sample[int64] `json:"free"`
	Available   Sample[int64] `json:"available"`
	Buffers     Sample[int64] `json:"buffers"`
	Cached      Sample[int64] `json:"cached"`
	Anon        Sample[int64] `json:"anon"`
	Shmem       Sample[int64] `json:"shmem"`
	Reclaimable Sample[int64] `json:"slabReclaimable"`
	Slab        Sample[int64] `json:"slab"`
	Dirty       Sample[int64] `json:"dirty"`
	Writeback   Sample[int64] `json:"writeback"`
	SwapTotal   Sample[int64] `json:"swapTotal"`
	SwapFree    Sample[int64] `json:"swapFree"`
}

// Paging is of /proc/vmstat: pages or events per second, OOMKills since boot.
type Paging struct {
	MajorFaults   Sample[float64] `json:"majorFaults"`
	SwapIn        Sample[float64] `json:"swapIn"`
	SwapOut       Sample[float64] `json:"swapOut"`
	ScanKswapd    Sample[float64] `json:"scanKswapd"`
	ScanDirect    Sample[float64] `json:"scanDirect"`
	StealKswapd   Sample[float64] `json:"stealKswapd"`
	StealDirect   Sample[float64] `json:"stealDirect"`
	RefaultAnon   Sample[float64] `json:"refaultAnon"`
	RefaultFile   Sample[float64] `json:"refaultFile"`
	NUMAMigrated  Sample[float64] `json:"numaMigrated"`
	OOMKills      Sample[int64]   `json:"oomKills"`
	CompactStalls Sample[float64] `json:"compactStalls"`
}

// NUMAMemory is one NUMA node.
type NUMAMemory struct {
	Total Sample[int64] `json:"total"`
	Free  Sample[int64] `json:"free"`
	File  Sample[int64] `json:"file"`
	Anon  Sample[int64] `json:"anon"`
	Slab  Sample[int64] `json:"slab"`
	// InactiveFile is the part of File that the kernel drops first.
	InactiveFile Sample[int64] `json:"inactiveFile"`
	// Below MinWatermark tasks reclaim for themselves before they get memory; below LowWatermark kswapd begins, and it goes on up to HighWatermark. ZonesFree is
	// what the kernel compares with these: it is free in zones, and so not in the caches of CPUs.
	MinWatermark  Sample[int64] `json:"minWatermark"`
	LowWatermark  Sample[int64] `json:"lowWatermark"`
	HighWatermark Sample[int64] `json:"highWatermark"`
	ZonesFree     Sample[int64] `json:"zonesFree"`
	// Hit, Miss and Foreign are pages per second: allocated here as meant, here though meant for another node, elsewhere though meant for here.
	Hit     Sample[float64] `json:"hit"`
	Miss    Sample[float64] `json:"miss"`
	Foreign Sample[float64] `json:"foreign"`
	// Other is pages per second allocated here by a CPU of another node.
	Other Sample[float64] `json:"other"`
}

// Pressure is a file of PSI. Of the node's CPU, Full means nothing: the kernel prints zeros.
type Pressure struct {
	Some Stall `json:"some"`
	Full Stall `json:"full"`
}

// Stall is the share of time, from 0 to 1, in which some or all tasks waited.
type Stall struct {
	// Now is between the last two readings; the others are the kernel's averages over 10, 60 and 300 seconds.
	Now    Sample[float64] `json:"now"`
	Avg10  Sample[float64] `json:"avg10"`
	Avg60  Sample[float64] `json:"avg60"`
	Avg300 Sample[float64] `json:"avg300"`
}

// CgroupUse is what one cgroup uses, with all below it.
type CgroupUse struct {
	ID  string `json:"id"`
	Dir string `json:"dir"`

	CPU    CgroupCPU    `json:"cpu"`
	Memory CgroupMemory `json:"memory"`
	IO     CgroupIO     `json:"io"`

	CPUPressure    Pressure `json:"cpuPressure"`
	MemoryPressure Pressure `json:"memoryPressure"`
	IOPressure     Pressure `json:"ioPressure"`

	// CPUs are those that the kernel lets it run on.
	CPUs Sample[topology.CPUSet] `json:"cpus"`
	// Tasks is the number of its processes and threads.
	Tasks Sample[int64] `json:"tasks"`
}

// CgroupCPU is in cores where it is a rate of time.
type CgroupCPU struct {
	Usage  Sample[float64] `json:"usage"`
	User   Sample[float64] `json:"user"`
	System Sample[float64] `json:"system"`
	// Throttled is seconds of throttling per second, ThrottledPeriods the share of its periods, from 0 to 1, in which it was.
	Throttled        Sample[float64] `json:"throttled"`
	ThrottledPeriods Sample[float64] `json:"throttledPeriods"`
	// RunDelay is seconds that its threads waited for a CPU, per second. Threads that came or went since the reading before are left out, so
	// it can be less than what was waited, never more. It is read where the Cgroup asks for it.
	RunDelay Sample[float64] `json:"runDelay"`
}

// CgroupMemory is in bytes, faults and scans in pages per second, events since the cgroup was made.
type CgroupMemory struct {
	Current      Sample[int64] `json:"current"`
	Anon         Sample[int64] `json:"anon"`
	File         Sample[int64] `json:"file"`
	InactiveFile Sample[int64] `json:"inactiveFile"`
	ActiveFile   Sample[int64] `json:"activeFile"`
	InactiveAnon Sample[int64] `json:"inactiveAnon"`
	Shmem        Sample[int64] `json:"shmem"`
	Dirty        Sample[int64] `json:"fileDirty"`
	Kernel       Sample[int64] `json:"kernel"`
	Slab         Sample[int64] `json:"slab"`
	// Sockets is what buffers of sockets take, and HugeAnon what of Anon is in transparent huge pages. Both are part of Current.
	Sockets     Sample[int64]   `json:"sockets"`
	HugeAnon    Sample[int64]   `json:"hugeAnon"`
	MajorFaults Sample[float64] `json:"majorFaults"`
	RefaultAnon Sample[float64] `json:"refaultAnon"`
	RefaultFile Sample[float64] `json:"refaultFile"`
	Scan        Sample[float64] `json:"scan"`
	Steal       Sample[float64] `json:"steal"`

	Low      Sample[int64] `json:"eventsLow"`
	High     Sample[int64] `json:"eventsHigh"`
	Max      Sample[int64] `json:"eventsMax"`
	OOM      Sample[int64] `json:"eventsOOM"`
	OOMKills Sample[int64] `json:"eventsOOMKill"`

	// Peak is the most that Current was between the last two readings, PeakInUse the most of it that was no page cache, which the kernel drops first. They are read where the
	// Cgroup asks for them, and Missing where the kernel cannot tell when the peak was.
	Peak      Sample[int64] `json:"peak"`
	PeakInUse Sample[int64] `json:"peakInUse"`

	// NUMANodes is by number of NUMA node.
	NUMANodes CgroupNUMANodes `json:"numaNodes"`
}

// CgroupNUMANodes is by number of NUMA node. As JSON it ends with the last that has a value.
type CgroupNUMANodes [topology.MaxNUMANodes]CgroupNUMANode

// CgroupNUMANode is what a cgroup has in the memory of one NUMA node.
type CgroupNUMANode struct {
	Anon Sample[int64] `json:"anon"`
	File Sample[int64] `json:"file"`
}

// MarshalJSON leaves out the NUMA nodes that no machine has.
func (z CgroupNUMANodes) MarshalJSON() ([]byte, error) {
	n := len(z)
	for n > 0 && z[n-1].Anon.State() == Missing && z[n-1].File.State() == Missing {
		n--
	}
	return json.Marshal(z[:n])
}

// Faults counts by Reason.
type Faults [reasons]uint64

// MarshalJSON writes the counts that are not 0, by name.
func (f Faults) MarshalJSON() ([]byte, error) {
	named := map[string]uint64{}
	for reason, n := range f {
		if n > 0 {
			named[Reason(reason).String()] = n
		}
	}
	return json.Marshal(named)
}

// CgroupIO is the sum over all devices, per second.
type CgroupIO struct {
	ReadBytes  Sample[float64] `json:"readBytes"`
	WriteBytes Sample[float64] `json:"writeBytes"`
	Reads      Sample[float64] `json:"reads"`
	Writes     Sample[float64] `json:"writes"`
}
