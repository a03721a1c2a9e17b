package facts

import (
	"slices"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// NodeReport is what a node's agent says of its NUMA nodes and devices. It is immutable: a change is a new one.
type NodeReport struct {
	// NUMANodes is what can be promised. Without a ruler that is nothing.
	NUMANodes topology.NUMAShape
	// Held is what pods hold of the NUMA nodes, sorted by UID.
	Held []HeldNUMA
	// Devices is what GPUs and network cards there are; nil: nothing is said of them. Equal ones should share a pointer: those of two
	// reports count as the same only then.
	Devices *topology.Devices
	// HeldDevices is what pods hold of them, sorted by UID.
	HeldDevices []HeldDevices
	// DeviceNote says, for people, why devices give less than they could; empty where they do not.
	DeviceNote string
	// Why says, where there is no ruler, what is wrong with the report; one of a few phrases.
	Why string
	// Headroom is what reclaimed pods may hold of the node.
	Headroom Headroom
	// Usage is what the node uses.
	Usage Usage
	// Resources is what plugins of the agent bring, sorted by name, each once.
	Resources []resource.Quantity
	// ByNUMANode is what the NUMA nodes have of them, sorted by name, at most topology.MaxResources. Resources that are not in it are counted for the node alone.
	ByNUMANode []topology.Resource
	// HeldResources is what pods hold of them, sorted by UID.
	HeldResources []HeldResources
	// Overcommit is how much of the node's CPUs may be promised a second time.
	Overcommit Overcommit
	// Evictions are the pods that the agent wants evicted, the first most.
	Evictions []EvictionRequest
	// Apart are pods that are better kept apart on this node for a while.
	Apart []Apart
	// Refused are the pods whose eviction a disruption budget refuses, as the node was told last.
	Refused []UID
	// Events are what the agent has to tell people.
	Events []NodeEvent
}

// Apart says that pods like the culprit are better not placed beside the victim until then, in nanoseconds since 1970.
type Apart struct {
	Victim, Culprit UID
	Until           int64
}

// NodeEvent is something that a node's agent has to tell people, and how often it was so.
type NodeEvent struct {
	// UID, Namespace and Name are those of the pod that it is about; empty: the node.
	UID             UID
	Namespace, Name string
	Reason, Message string
	Count           int32
	// First and Last are when it was so, in nanoseconds, by the node's clock.
	First, Last int64
}

// HeldNUMA is what one pod holds, as its node says.
type HeldNUMA struct {
	UID   UID
	Grant topology.NUMAGrant
}

// HeldDevices is what one pod holds of GPUs and network cards, as its node says. The grant has no NUMA nodes.
type HeldDevices struct {
	UID   UID
	Grant topology.Grant
}

// HeldResources is what one pod holds of what plugins bring, as its node says.
type HeldResources struct {
	UID   UID
	Grant topology.ResourceGrant
}

// The Whys of a report that nothing is promised by.
const (
	ReportStale     = "stale"     // it is too old to act on
	ReportMalformed = "malformed" // it cannot be read
	// ReportUnguarded: those that keep promises true.
	ReportUnguarded = "not acted on while the admission policies are not in force"
)

// SameReport reports whether two reports say the same.
func SameReport(a, b *NodeReport) bool {
	return a.NUMANodes == b.NUMANodes && a.Why == b.Why && a.Headroom == b.Headroom && a.Usage == b.Usage && a.Overcommit == b.Overcommit && slices.Equal(a.Held, b.Held) && slices.Equal(a.Evictions, b.Evictions) && slices.Equal(a.Apart, b.Apart) && slices.Equal(a.Refused, b.Refused) && slices.Equal(a.Events, b.Events) &&
		a.Devices == b.Devices && a.DeviceNote == b.DeviceNote && slices.Equal(a.HeldDevices, b.HeldDevices) && slices.Equal(a.Resources, b.Resources) &&
		slices.Equal(a.ByNUMANode, b.ByNUMANode) && slices.Equal(a.HeldResources, b.HeldResources)
}

// Headroom is what reclaimed pods may hold of a node, those that run included.
type Headroom struct {
	State HeadroomState
	// MilliCPU in thousandths of a CPU and Memory in bytes are what the node names; they count while State is HeadroomOpen.
	MilliCPU, Memory int64
	// Note says why it is closed, or what cannot be read.
	Note string
}

// Usage is what a node uses on average, without reclaimed pods. The zero value says that it is not known.
type Usage struct {
	// MilliCPU in thousandths of a CPU and Memory in bytes.
	MilliCPU, Memory int64
	// Since is in nanoseconds since the Unix epoch, by the node's clock: pods that started by then are fully in the average. 0: it is not known.
	Since int64
}

// Overcommit is how much more than its allocatable a node takes of CPU, as pods asked for it before their requests were lowered. The zero value is nothing.
type Overcommit struct {
	// ExtraCPU is in thousandths of a CPU; Percent bounds it, as a share of the allocatable: 150 is half of that more.
	ExtraCPU int64
	Percent  int
}

// Extra is by how much a node's allocatable grows.
func (o *Overcommit) Extra(allocatable int64) int64 {
	const whole = 100
	if o.ExtraCPU <= 0 || o.Percent <= whole || allocatable <= 0 || allocatable > resource.MaxAmount {
		return 0
	}
	return min(o.ExtraCPU, allocatable/whole*int64(o.Percent-whole))
}

// Known reports whether the use is known.
func (u *Usage) Known() bool { return u.Since != 0 }

// Covers reports whether a pod that started then, by the node's clock (0: it has not, or nobody said so), is fully in the average.
func (u *Usage) Covers(started int64) bool { return u.Known() && started != 0 && started <= u.Since }

// HeadroomState is what a report's headroom is good for. Only open headroom is any.
type HeadroomState uint8

// The states of a Headroom.
const (
	HeadroomUnsaid    HeadroomState = iota // the agent says nothing of it
	HeadroomOpen                           // the amounts may be held
	HeadroomClosed                         // the agent wants no new reclaimed pods
	HeadroomStale                          // the report is too old to act on
	HeadroomMalformed                      // it cannot be read
)

// Offered is what may be held by now: thousandths of a CPU, and bytes.
func (h *Headroom) Offered() (milliCPU, memory int64) {
	if h == nil || h.State != HeadroomOpen {
		return 0, 0
	}
	return h.MilliCPU, h.Memory
}

// EvictionRequest is a pod that a node's agent wants evicted.
type EvictionRequest struct {
	UID             UID
	Namespace, Name string
	// Reason is one of a few words, Message is for people.
	Reason, Message string
	// Urgent: the cluster's budget does not hold it back.
	Urgent bool
	// Broken: the node cannot give the pod what it was promised. Such a pod may be of any level.
	Broken bool
}

// PromisedCPU is CPU as pods asked for it before their requests were lowered. Nodes have it, and pods ask for it, where the scheduler is to go by what agents say of over-commitment.
const PromisedCPU = spec.ResourcePromisedCPU

// ReclaimedKinds is how many resources only reports give: CPU, then memory.
const ReclaimedKinds = 2

// ReclaimedName is the name of one of them.
func ReclaimedName(i int) string {
	return [ReclaimedKinds]string{spec.ResourceReclaimedCPU, spec.ResourceReclaimedMemory}[i]
}

func IsReclaimed(name string) bool { return name == ReclaimedName(0) || name == ReclaimedName(1) }
