package spec

import "time"

// NodeAPIVersion, NodeKind and NodePlural name the CustomNodeResource.
const (
	NodeGroup      = "node.hilbert.dev"
	NodeAPIVersion = NodeGroup + "/v1alpha1"
	NodeKind       = "CustomNodeResource"
	NodePlural     = "customnoderesources"
)

// The values of NodeStatus.Mode: which process assigns the CPUs and memory of the node's containers.
const (
	ModeAgent   = "agent"
	ModeKubelet = "kubelet"
)

// +kubebuilder:object:generate=true

// NodeStatus is the report of a node's agent: the status of a CustomNodeResource, which has the node's name. Times are in the type that
// embeds this.
//
// A field that is nil or missing is unknown, and unknown is never read as zero: the scheduler promises nothing of it.
type NodeStatus struct {
	// Mode is ModeAgent where NUMA nodes can be promised, ModeKubelet where a manager of the kubelet is on.
	Mode string `json:"mode"`
	// ThreadsPerCore is the logical CPUs of a core. Exclusive CPUs are given by whole cores.
	ThreadsPerCore int `json:"threadsPerCore"`
	// BindsShared: the agent keeps pods of level QoSShared in the NUMA nodes that they were promised. Without it none is promised any.
	BindsShared bool `json:"bindsShared,omitempty"`
	// SeparatesBandwidth: the agent keeps pods that load a NUMA node's memory apart from those that suffer from it. Without it none that says so is promised any.
	SeparatesBandwidth bool `json:"separatesBandwidth,omitempty"`
	// Topology are the sockets, their NUMA nodes, and the devices near those.
	Topology []TopologyElement `json:"topology,omitempty"`
	// Pools are the CPUs that several pods share.
	Pools []Pool `json:"pools,omitempty"`
	// Colocation is what reclaimed pods may have of the node; nil: the agent does not report it, and nothing may be lent.
	Colocation *Colocation `json:"colocation,omitempty"`
	// Usage is what the node uses; nil: the agent does not report it, or does not know it yet.
	Usage *NodeUsage `json:"usage,omitempty"`
	// BrokenPromises are the pods that were promised something of this node and cannot have it, the first broken first. hilbertd evicts them.
	BrokenPromises []BrokenPromise `json:"brokenPromises,omitempty"`
	// Devices are the node's GPUs and network cards; nil: the agent does not report them, and none is promised.
	Devices *Devices `json:"devices,omitempty"`
	// Resources are what plugins of the agent bring, by name.
	Resources []NodeResource `json:"resources,omitempty"`
	// Events are what the agent has to tell people about pods and the node, the oldest first. hilbertd writes them as Events.
	Events []NodeEvent `json:"events,omitempty"`
	// Configuration is what the agent has made of the configuration that it was told; nil: it was told none.
	Configuration *AppliedConfiguration `json:"configuration,omitempty"`
	// Health is how pods have fared lately; nil: it is not known.
	Health *NodeHealth `json:"health,omitempty"`
	// Interference is what harms services of the node; nil: it is not watched.
	Interference *Interference `json:"interference,omitempty"`
	// Overcommit is how much of the node's CPUs may be promised to services a second time; nil: nothing is said of it.
	Overcommit *NodeOvercommitStatus `json:"overcommit,omitempty"`
	// Summary is what the printer columns show.
	Summary NodeSummary `json:"summary"`
}

// +kubebuilder:object:generate=true

// NodeResource is a resource that a plugin of the node's agent brings. Pods request it under its name, as any other; the scheduler counts it, and the agent chooses
// where on the node it comes from.
type NodeResource struct {
	Name   string `json:"name"`
	Plugin string `json:"plugin"`
	// Amount is what pods may hold together. While the plugin does not serve it is what they hold, so that nothing more is given.
	Amount int64 `json:"amount"`
	// NUMANodes are the NUMA nodes' parts of it, by number; what is near none of them is not in it.
	NUMANodes []NUMAAmount `json:"numaNodes,omitempty"`
	// Allocations are what pods hold of it, by NUMA node; the scheduler believes them even where they differ from its promise.
	Allocations []ResourceAllocation `json:"allocations,omitempty"`
	// Message says why the plugin does not serve; empty: it does.
	Message string `json:"message,omitempty"`
}

// +kubebuilder:object:generate=true

// ResourceAllocation is what one pod holds of a resource.
type ResourceAllocation struct {
	PodRef `json:",inline"`
	// NUMANodes are the amounts by number of the NUMA node, Far that near none of them.
	NUMANodes []NUMAPart `json:"numaNodes,omitempty"`
	Far       int64      `json:"far,omitempty"`
}

// NUMAPart is an amount of one NUMA node.
type NUMAPart struct {
	Name   string `json:"name"`
	Amount int64  `json:"amount"`
}

// +kubebuilder:object:generate=true

// NUMAAmount is how much of a resource a NUMA node has, and how much of that pods hold.
type NUMAAmount struct {
	Name   string `json:"name"`
	Amount int64  `json:"amount"`
	Held   int64  `json:"held,omitempty"`
}

// +kubebuilder:object:generate=true

// NodeUsage is what a node uses on average, without its reclaimed pods: these give way to any other pod. The average is a little behind, so pods that
// have come lately are not fully in it.
type NodeUsage struct {
	MilliCPU  int64 `json:"milliCPU"`
	MemoryMiB int64 `json:"memoryMiB"`
	// WindowSeconds before observedAt ends the start of pods that are fully in the average.
	WindowSeconds int64 `json:"windowSeconds"`
}

// +kubebuilder:object:generate=true

// Colocation is what reclaimed pods may have of a node.
type Colocation struct {
	// Headroom is gross: all that reclaimed pods may hold, including what running ones hold.
	Headroom ReclaimedAmounts `json:"headroom"`
	// NUMANodes are the NUMA nodes' parts of it, by number, and what bounds each.
	NUMANodes []NUMAHeadroom `json:"numaNodes,omitempty"`
	// Lent is what the reclaimed pool has now: CPUs, and what its pods hold of memory.
	Lent ReclaimedAmounts `json:"lent"`
	// Closed is the reason why the node takes no new reclaimed pods. Empty: it takes them.
	Closed string `json:"closed,omitempty"`
	// Suppression is how strongly reclaimed pods are suppressed: one of the constants below.
	Suppression string `json:"suppression"`
	// Evictions are the pods that the agent wants evicted, the most important first.
	Evictions []EvictionRequest `json:"evictions,omitempty"`
}

// The values of Colocation.Suppression.
const (
	SuppressionNone   = "None"
	SuppressionWeight = "Weight"
	SuppressionFloor  = "Floor"
	SuppressionEvict  = "Evict"
)

// +kubebuilder:object:generate=true

// ReclaimedAmounts is CPU and memory for reclaimed pods.
type ReclaimedAmounts struct {
	MilliCPU  int64 `json:"milliCPU"`
	MemoryMiB int64 `json:"memoryMiB"`
}

// +kubebuilder:object:generate=true

// NUMAHeadroom is the headroom of one NUMA node.
type NUMAHeadroom struct {
	Name             string `json:"name"`
	ReclaimedAmounts `json:",inline"`
	// CPUReason and MemoryReason say what bounds the headroom; Message has the sum, for people.
	CPUReason    string `json:"cpuReason"`
	MemoryReason string `json:"memoryReason"`
	Message      string `json:"message,omitempty"`
}

// +kubebuilder:object:generate=true

// PodRef names one pod. Several pods may have had the name, one after the other; the UID tells them apart.
type PodRef struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

// String is namespace/name.
func (r PodRef) String() string { return r.Namespace + "/" + r.Name }

// +kubebuilder:object:generate=true

// EvictionRequest is a pod that an agent wants evicted.
type EvictionRequest struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	Reason    string `json:"reason"`
	Message   string `json:"message,omitempty"`
	// Urgent: a hard threshold is passed; the cluster's budget does not delay the eviction.
	Urgent bool `json:"urgent,omitempty"`
}

// +kubebuilder:object:generate=true

// BrokenPromise is a pod that was promised something of a node and cannot have it.
type BrokenPromise struct {
	PodRef `json:",inline"`
	// Message says what is not there.
	Message string `json:"message,omitempty"`
}

// NodeEvent is something that an agent has to tell people, and how often it was so.
type NodeEvent struct {
	// Pod is whom it is about; nil: the node.
	Pod *PodRef `json:"pod,omitempty"`
	// Reason is one CamelCase word.
	Reason string `json:"reason"`
	// Message is what was said the first time.
	Message string `json:"message,omitempty"`
	// Count is how often it was so, from First to Last by the node's clock.
	Count int32     `json:"count"`
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
}

// DeepCopyInto copies into out. It is written by hand, for controller-gen takes a time.Time for one of its own types.
func (e *NodeEvent) DeepCopyInto(out *NodeEvent) {
	*out = *e
	out.Pod = e.Pod.DeepCopy()
}

// DeepCopy returns a copy.
func (e *NodeEvent) DeepCopy() *NodeEvent {
	if e == nil {
		return nil
	}
	out := new(NodeEvent)
	e.DeepCopyInto(out)
	return out
}

// MaxNodeEvents bounds the events of one report.
const MaxNodeEvents = 16

// MaxBrokenPromises bounds the pods that one report names. Those beyond it are named when the first have gone.
const MaxBrokenPromises = 32

// NodeReport is an agent's whole report at one time: the status, and the conditions beside it, by type.
type NodeReport struct {
	Status     NodeStatus      `json:"status"`
	Conditions []NodeCondition `json:"conditions"`
}

// NodeCondition is a condition of a CustomNodeResource, without its times: the writer adds them.
type NodeCondition struct {
	Type string `json:"type"`
	// Unknown: the agent cannot tell. Else True says which it is.
	True    bool   `json:"true"`
	Unknown bool   `json:"unknown,omitempty"`
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

// +kubebuilder:object:generate=true

// NodeSummary sums the NUMA nodes up.
type NodeSummary struct {
	NUMANodes     int    `json:"numaNodes"`
	FreeCPUs      int    `json:"freeCPUs"`      // that may still be given exclusively
	DedicatedPods int    `json:"dedicatedPods"` // with CPUs of their own
	FreeMemory    string `json:"freeMemory"`    // that may still be bound, "12Gi"
	// GPUs is how many are free, of all: "6/8 free"; empty on a node without GPUs.
	GPUs string `json:"gpus,omitempty"`
}

// The values of TopologyElement.Type.
const (
	ElementSocket   = "Socket"
	ElementNUMANode = "NUMA"
	ElementGPU      = "GPU"
	ElementNIC      = "NIC"
	ElementDisk     = "Disk"
)

// +kubebuilder:object:generate=true

// TopologyElement is a part of the machine: a socket, a NUMA node, or a device.
type TopologyElement struct {
	Type string `json:"type"`
	// Name is the number of a socket or NUMA node, the PCIe address of a device.
	Name string `json:"name"`
	// Closed: nothing new is promised here; the condition NUMANodesClosed has the reason.
	Closed bool `json:"closed,omitempty"`
	// Capacity is what is there; Allocatable what may be promised: without the reserved cores and memory. NUMA nodes have both, other
	// elements neither: nil is unknown, and never zero.
	Capacity    *NUMAAmounts `json:"capacity,omitempty"`
	Allocatable *NUMAAmounts `json:"allocatable,omitempty"`
	// Allocations are the pods that hold something of this NUMA node exclusively.
	Allocations []NUMAAllocation `json:"allocations,omitempty"`
	// Attributes of a device: its names, vendor, model, switch.
	Attributes map[string]string `json:"attributes,omitempty"`
	Children   []TopologyElement `json:"children,omitempty"`
}

// +kubebuilder:object:generate=true

// NUMAAmounts is CPUs by number, and memory.
type NUMAAmounts struct {
	CPUs      int    `json:"cpus"`             // logical
	CPUSet    string `json:"cpuset,omitempty"` // "0-3,8"
	MemoryMiB int64  `json:"memoryMiB"`        // MiB
}

// +kubebuilder:object:generate=true

// NUMAAllocation is what one pod holds of a NUMA node. It confirms the promise of the pod's Binding, and the scheduler believes it even where it
// differs from the promise.
type NUMAAllocation struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	CPUSet    string `json:"cpuset,omitempty"`
	CPUs      int    `json:"cpus,omitempty"`
	MemoryMiB int64  `json:"memoryMiB,omitempty"`
	// Exclusive: no other pod uses the NUMA node.
	Exclusive bool `json:"exclusive,omitempty"`
	// Shared: the CPUs are room that is kept in the NUMA node's shared pool, and no CPUs of its own.
	Shared bool `json:"shared,omitempty"`
	// Bandwidth is the pod's AnnotationMemoryBandwidth.
	Bandwidth string `json:"bandwidth,omitempty"`
	// Moved: the promised NUMA nodes were not free, and the pod got these instead.
	Moved bool `json:"moved,omitempty"`
}

// +kubebuilder:object:generate=true

// Pool is the CPUs that several pods share.
type Pool struct {
	Name   string `json:"name"`
	CPUSet string `json:"cpuset"`
	Pods   int    `json:"pods"`
}

// Types of a CustomNodeResource's conditions.
const (
	// ConditionAgentReady is True while the agent can read and control everything on the node. Otherwise the message names what it cannot.
	ConditionAgentReady = "AgentReady"
	// ConditionNUMANodesClosed: True where a promise could not be kept; the message names pod and NUMA node.
	ConditionNUMANodesClosed = "NUMANodesClosed"
	// ConditionQoSUnsaid is True where BestEffort pods without a QoS level run in the shared pool.
	ConditionQoSUnsaid = "UnlabelledBestEffort"
	// ConditionBandwidth is True where memory-intensive pods run in NUMA nodes of bandwidth-sensitive ones.
	ConditionBandwidth = "BandwidthNotSeparated"
	// ConditionOnlineOveruse is True while online pods hold more memory than they requested; the message names some of them. Else it is absent.
	ConditionOnlineOveruse = "OnlineMemoryOveruse"
	// ConditionPluginFinding is True while a detector of a plugin finds something; the message names plugins and conditions. It is absent where no plugin detects.
	ConditionPluginFinding = "PluginFinding"
)

// Reasons of the node: of conditions, events and metrics. They are bounded and stable.
const (
	ReasonAgentRunning       = "AgentRunning"             // nothing is wrong
	ReasonInvalidQoS         = "InvalidQoS"               // a label or annotation cannot be read; the pod is treated as shared
	ReasonPromiseMoved       = "PromiseMoved"             // the promised NUMA nodes were gone; the pod got equivalent ones
	ReasonPromiseBroken      = "PromiseBroken"            // the promised NUMA nodes were gone, and no others fitted; the pod fails and is evicted
	ReasonForgedPlacement    = "ForgedPlacement"          // the annotation with the promised NUMA nodes does not match the pod's request
	ReasonInsufficientCores  = "InsufficientCores"        // more dedicated cores than are free
	ReasonNoNUMAInformation  = "NoNUMAInformation"        // the kernel shows no NUMA nodes: the machine counts as one NUMA node
	ReasonTopologyIncomplete = "TopologyIncomplete"       // the kernel does not say, or contradicts itself about, something that placements are better with
	ReasonDeviceUnreadable   = "DeviceUnreadable"         // a device, or something of it, is left out because its attributes are missing or malformed
	ReasonTooManyNUMANodes   = "TooManyNUMANodes"         // the machine has more NUMA nodes than Hilbert supports
	ReasonPressureMissing    = "PressureMissing"          // the kernel has no PSI
	ReasonRuntimeLost        = "RuntimeLost"              // the container runtime has closed the connection, or has NRI disabled
	ReasonKnobRefused        = "KnobRefused"              // the kernel refused a value
	ReasonCountersReversed   = "CountersReversed"         // a kernel counter went backwards
	ReasonClockJumped        = "ClockJumped"              // the node's clock jumped
	ReasonMachineChanged     = "MachineChanged"           // CPUs or memory of the node went or came; what was promised of them is revised
	ReasonCheckpointLost     = "CheckpointLost"           // the agent cannot write its state, or cannot read all of it; it adopts what runs
	ReasonBestEffortWeight   = "BestEffortWeight"         // the kubelet's BestEffort cgroup weighs so much that it does not protect others
	ReasonKubeletRules       = "KubeletRules"             // the kubelet's CPU or memory manager is on
	ReasonKubeletUnknown     = "KubeletThresholdsUnknown" // the kubelet's eviction thresholds cannot be read: no memory is lent until they are
	ReasonKubeletEvictsFirst = "KubeletEvictsFirst"       // the kubelet would evict before the agent does: no memory is lent
	ReasonEvictionNotice     = "EvictionNotice"           // a reclaimed pod will have to go if the node stays short
	ReasonInterference       = "Interference"             // a neighbour harms a service
	ReasonRunQueuesUnseen    = "RunQueuesUnseen"          // for whom services wait cannot be looked at
	ReasonCulpritLimited     = "LimitedForInterference"   // a pod gets less CPU for a while, because it harms a service
	ReasonStopped            = "StoppedForPressure"       // the agent stopped a reclaimed pod itself: a hard watermark was passed, and no eviction came
	ReasonEgressFailed       = "EgressFailed"             // the agent could not limit what reclaimed pods send
	ReasonUplinksInvalid     = "UplinksInvalid"           // the Node's annotation hilbert.dev/uplinks cannot be read
	ReasonUplinkMissing      = "UplinkMissing"            // an uplink that is named is no interface of the node
	ReasonEgressCrowded      = "EgressCrowded"            // more pods than the programs tell apart
	ReasonRDTFailed          = "RDTFailed"                // the agent could not divide the caches
	ReasonBandwidthUnread    = "MemoryBandwidthUnread"    // what moves in the memory is not known: reclaimed pods have the configured share of the bandwidth
	ReasonBandwidthFixed     = "MemoryBandwidthFixed"     // the processor cannot limit the memory bandwidth: while memory is full, no more is lent
	ReasonDeviceUncertain    = "DeviceUncertain"          // a container is not created, because it might not get the device that its pod holds
	ReasonDeviceUnknown      = "DeviceUnknown"            // the kubelet gave a pod a device, and the agent does not know which GPU that is
	ReasonSliceUnserved      = "SliceUnserved"            // a container is not created, because its pod's GPU needs MPS and no MPS daemon serves it
	ReasonSliceOfHostRoot    = "SliceOfHostRoot"          // a container with a soft slice is not created, because it runs as root of the host, who controls the MPS daemon
	ReasonSliceOfOtherUser   = "SliceOfOtherUser"         // a container is not created, because processes of another user share its pod's GPU
	ReasonPluginFailed       = "PluginFailed"             // a plugin does not serve, or said what cannot be; pods that ask for its resource are not started
	ReasonPluginLost         = "PluginLost"               // a plugin does not know what a pod holds of its resource
	ReasonMemoryOveruse      = "MemoryOveruse"            // an online pod holds more memory than it requested
	ReasonPluginFound        = "Found"                    // a detector of a plugin finds something
	ReasonNothingFound       = "NothingFound"             // no detector of a plugin finds anything
	ReasonUnlabelled         = "Unlabelled"               // BestEffort pods have no QoS level; the message names them
	ReasonAllLabelled        = "AllLabelled"              // all BestEffort pods have a QoS level
	ReasonNUMANodesOpen      = "NUMANodesOpen"            // no NUMA node is closed
	ReasonTooFewCPUs         = "TooFewCPUs"               // memory-intensive pods run beside bandwidth-sensitive ones; the message names them
	ReasonMemoryIntensive    = "MemoryIntensive"          // a pod was measured to load the memory, and is kept off NUMA nodes of bandwidth-sensitive pods where it can be
	ReasonSeparated          = "Separated"                // no memory-intensive pod runs beside a bandwidth-sensitive one

	// ReasonStartedWithoutAgent: a container started while no agent was there, with GPUs that are not its pod's, or without its pod's.
	ReasonStartedWithoutAgent = "StartedWithoutAgent"
)
