package spec

import (
	"encoding/json"
	"fmt"
	"time"
)

// Duration is a time.Duration that reads and writes as "15s" in JSON and YAML.
type Duration time.Duration

// D returns d as a time.Duration.
func (d Duration) D() time.Duration { return time.Duration(d) }

// MarshalJSON writes the duration as a string such as "1m30s".
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalJSON reads a string such as "1m30s"; a bare number is refused, because its unit would be a guess.
func (d *Duration) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("duration %s: want a string with a unit, for example \"15s\"", data)
	}
	parsed, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("duration %q: want a number with a unit, for example \"15s\"", text)
	}
	*d = Duration(parsed)
	return nil
}

// Role is a part of Hilbert that a hilbertd process can run.
type Role string

// The roles that exist. The first three run in one process for now; a Plan is the only message between them.
const (
	RoleDispatcher Role = "dispatcher"
	RoleScheduler  Role = "scheduler"
	RoleBinder     Role = "binder"
	// RoleAgent is the node's; it runs in a process of its own, one on each node.
	RoleAgent Role = "agent"
)

// Configuration is the whole of hilbertd's configuration: the file, and the value that runs. Unknown fields are refused when it is read.
type Configuration struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`

	// Roles that this process runs: dispatcher, scheduler and binder together, or agent alone.
	Roles []Role `json:"roles,omitempty"`
	// SchedulerName is the spec.schedulerName that marks a pod as ours.
	SchedulerName string `json:"schedulerName,omitempty"`

	ClientConnection ClientConnection `json:"clientConnection,omitzero"`
	LeaderElection   LeaderElection   `json:"leaderElection,omitzero"`
	Server           Server           `json:"server,omitzero"`
	Logging          Logging          `json:"logging,omitzero"`
	Scheduling       Scheduling       `json:"scheduling,omitzero"`
	Node             Node             `json:"node,omitzero"`
}

// ClientConnection says how to reach the API server.
type ClientConnection struct {
	// Kubeconfig is a file; empty means the service account of the pod that hilbertd runs in.
	Kubeconfig string `json:"kubeconfig,omitempty"`
}

// LeaderElection is the Lease that makes one process the leader. A standby is warm: it watches, and takes over when the Lease expires.
type LeaderElection struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// LeaseDuration > RenewDeadline > RetryPeriod. No write starts that could outlive RenewDeadline after the last renewal.
	LeaseDuration Duration `json:"leaseDuration,omitempty"`
	RenewDeadline Duration `json:"renewDeadline,omitempty"`
	RetryPeriod   Duration `json:"retryPeriod,omitempty"`
}

// Server is where health, metrics and answers about scheduling are served, with TLS.
type Server struct {
	// BindAddress is host:port; port 0 takes a free one. "-" serves nothing.
	BindAddress string `json:"bindAddress,omitempty"`
	// TLSCertFile and TLSPrivateKeyFile are PEM files, read again when they change. Without them a certificate is made at the start, which
	// nobody vouches for: enough for probes and for the API server's proxy.
	TLSCertFile       string `json:"tlsCertFile,omitempty"`
	TLSPrivateKeyFile string `json:"tlsPrivateKeyFile,omitempty"`
}

// Logging is quiet by default: at "info" a healthy cluster logs start, leadership and stop.
type Logging struct {
	// Level is debug, info, warn or error.
	Level string `json:"level,omitempty"`
	// Format is text or json.
	Format string `json:"format,omitempty"`
}

// Scheduling configures the pure core; the simulator runs with the same struct.
type Scheduling struct {
	// Scores chooses score functions by name (schedule/place lists them) and weighs them; a weight of 0 switches one off.
	// A name that is left out keeps its default weight.
	Scores map[string]int64 `json:"scores,omitempty"`
	// CapacityRatio is the broken line of the score RequestedToCapacityRatio, by ascending utilization.
	CapacityRatio []RatioPoint `json:"capacityRatio,omitempty"`
	// DefaultSpread is what pods without a spread constraint of their own get: System (kube-scheduler's soft constraints on host and zone
	// for the pods of one service or controller) or None.
	DefaultSpread string `json:"defaultSpread,omitempty"`
	// Seed orders nodes of equal score.
	Seed uint64 `json:"seed,omitempty"`
	// Backoff of a unit whose Plan was refused or whose Binding failed.
	Backoff Backoff `json:"backoff,omitzero"`
	// Binding bounds the API writes.
	Binding Binding `json:"binding,omitzero"`
	// Conditions bounds the status writes for pods that do not fit.
	Conditions Conditions `json:"conditions,omitzero"`
	// Units says how gangs are waited for.
	Units Units `json:"units,omitzero"`
	// Topology is the network as node labels tell it.
	Topology Topology `json:"topology,omitzero"`
	// Zones says how what the nodes' agents report is used.
	Zones ZoneReports `json:"zones,omitzero"`
	// Reclaimed says how what the nodes lend is used.
	Reclaimed LentReports `json:"reclaimed,omitzero"`
	// Evictions bounds what the nodes' agents want evicted.
	Evictions Evictions `json:"evictions,omitzero"`
	// MaxClassIndexes bounds the rankings (one for each size of pod), and as many indexes (one for each class with constraints between pods),
	// that a scheduler keeps, at about 20 bytes a node each; the least recently used goes first.
	MaxClassIndexes int `json:"maxClassIndexes,omitempty"`
}

// ZoneReports says how what the nodes' agents report is used.
type ZoneReports struct {
	// StaleAfter is the age from which a CustomNodeResource is no longer acted on: its node is promised nothing by zone. Agents refresh it
	// every Node.RefreshInterval.
	StaleAfter Duration `json:"staleAfter,omitempty"`
}

// LentReports says how what the nodes lend is used.
type LentReports struct {
	// StaleAfter is the age from which a CustomNodeResource's headroom counts for nothing: no reclaimed pod goes to its node. Agents that lend
	// refresh it every Node.Lending.RefreshInterval.
	StaleAfter Duration `json:"staleAfter,omitempty"`
}

// Evictions bounds, over the whole cluster, the evictions of reclaimed pods that agents ask for. Urgent ones are not held back by it.
type Evictions struct {
	// PercentPerMinute of the reclaimed pods may be evicted in a minute, but always one.
	PercentPerMinute float64 `json:"percentPerMinute,omitempty"`
	// Burst is how many of them may be evicted at once.
	Burst int `json:"burst,omitempty"`
}

// Node configures the agent.
type Node struct {
	// Name of the Node object; empty means the environment's NODE_NAME, else the host's name.
	Name string `json:"name,omitempty"`
	// Mode is auto (kubelet where one of the kubelet's managers is on, else agent), agent or kubelet.
	Mode string `json:"mode,omitempty"`
	// StateDirectory keeps the checkpoint, KubeletDirectory is the kubelet's --root-dir.
	StateDirectory   string `json:"stateDirectory,omitempty"`
	KubeletDirectory string `json:"kubeletDirectory,omitempty"`
	// NRISocket is where the container runtime serves NRI.
	NRISocket string `json:"nriSocket,omitempty"`
	// ReservedCores is how many physical cores are kept for the node's own services and system_cores pods: the lowest-numbered ones, in turn
	// from each NUMA node. ReservedMemory, in MiB, is kept back from promises in each NUMA node.
	ReservedCores  *int `json:"reservedCores,omitempty"`
	ReservedMemory *int `json:"reservedMemoryMiB,omitempty"`
	// ReclaimedCores is the least number of physical cores that reclaimed pods have in each NUMA node that they run in.
	ReclaimedCores int `json:"reclaimedCores,omitempty"`
	// TickInterval is how often the kernel is compared with what is wanted, ObserveInterval how often its counters are read.
	TickInterval    Duration `json:"tickInterval,omitempty"`
	ObserveInterval Duration `json:"observeInterval,omitempty"`
	// WriteInterval is the least time between two writes of the CustomNodeResource, RefreshInterval the most.
	WriteInterval   Duration `json:"writeInterval,omitempty"`
	RefreshInterval Duration `json:"refreshInterval,omitempty"`
	// Lending says what the node lends to reclaimed pods.
	Lending Lending `json:"lending,omitzero"`
	// Devices is about GPUs and network cards.
	Devices NodeDevices `json:"devices,omitzero"`
}

// NodeDevices says who gives the node's GPUs out, and how they are looked at.
type NodeDevices struct {
	// Owner is auto (we, where nobody else offers them and they can be put into containers), hilbert (we, unless somebody else offers them) or kubelet
	// (never we).
	Owner string `json:"owner,omitempty"`
	// Interval is how often GPUs and network cards are looked at.
	Interval Duration `json:"interval,omitempty"`
	// SeveralUsers: soft slices of one GPU may be of pods of several users, because deploy/mps.yaml runs with MPS_MULTIUSER=1.
	SeveralUsers bool `json:"severalUsers,omitempty"`
	// OtherResources are names below nvidia.com/ by which a node's status offers something else than GPUs. Unset is nvidia.com/hostdev: so NVIDIA's
	// Network Operator calls network cards. By any other name there somebody else sells the GPUs, and we give out none.
	OtherResources []string `json:"otherResources,omitzero"`
}

// OwnerAuto of NodeDevices.Owner looks at who offers the GPUs.
const OwnerAuto = "auto"

// Lending says what a node lends to reclaimed pods. It needs mode agent.
type Lending struct {
	// Enabled: unset is true. A node that does not lend offers reclaimed pods nothing; those that run keep the floor.
	Enabled *bool `json:"enabled,omitempty"`
	// TargetUtilization is how busy the CPUs that the online pods keep may be, in percent. The rest is lent.
	TargetUtilization int `json:"targetUtilization,omitempty"`
	// Interval is the least time between two steps of lending, Step the most of the shared pools' CPUs that one step moves, in percent. What is lent
	// is given back at once.
	Interval Duration `json:"interval,omitempty"`
	Step     int      `json:"step,omitempty"`
	// RefreshInterval is how often a node that lends vouches for what it lends. It must be well below Reclaimed.StaleAfter of the scheduler.
	RefreshInterval Duration `json:"refreshInterval,omitempty"`
	// Evictions says what is done when reclaimed pods have to go: EvictionsOn or EvictionsDryRun.
	Evictions string `json:"evictions,omitempty"`
	// IO, Network and RDT hold reclaimed pods back where cores and memory do not.
	IO      LendingIO      `json:"io,omitzero"`
	Network LendingNetwork `json:"network,omitzero"`
	RDT     LendingRDT     `json:"rdt,omitzero"`
	// Record is a file that what the laws saw and said is written to, for hilbert node replay; empty: none is. It holds at most 64 MiB.
	Record string `json:"record,omitempty"`
}

// LendingIO is about disks. Pods have weights in any case.
type LendingIO struct {
	// CostDevices are the disks, by the kernel's names, on which io.cost is turned on: without it most disks heed no weight.
	CostDevices []string `json:"costDevices,omitempty"`
	// Ceilings bound what each reclaimed pod reads and writes.
	Ceilings []IOCeiling `json:"ceilings,omitempty"`
}

// IOCeiling is of one disk; 0: no bound.
type IOCeiling struct {
	Device              string `json:"device"`
	ReadBytesPerSecond  uint64 `json:"readBytesPerSecond,omitempty"`
	WriteBytesPerSecond uint64 `json:"writeBytesPerSecond,omitempty"`
	ReadsPerSecond      uint64 `json:"readsPerSecond,omitempty"`
	WritesPerSecond     uint64 `json:"writesPerSecond,omitempty"`
}

// LendingNetwork is about what pods send off the node.
type LendingNetwork struct {
	// Enabled bounds what reclaimed pods send together by what online pods leave. It needs the host's network, CAP_BPF and CAP_NET_ADMIN.
	Enabled bool `json:"enabled,omitempty"`
	// Uplink is the interface; empty: that of the default route. LinkMbps is what it carries; 0: what its driver says.
	Uplink   string `json:"uplink,omitempty"`
	LinkMbps int64  `json:"linkMbps,omitempty"`
}

// LendingRDT is about the last-level cache and the memory bandwidth, where the processor can divide them.
type LendingRDT struct {
	Enabled bool `json:"enabled,omitempty"`
	// CachePercent and BandwidthPercent are what reclaimed pods may use.
	CachePercent     int `json:"cachePercent,omitempty"`
	BandwidthPercent int `json:"bandwidthPercent,omitempty"`
}

// The values of Lending.Evictions.
const (
	EvictionsOn     = "on"
	EvictionsDryRun = "dry-run" // it is told who would have to go, and why; nobody goes
)

// ModeAuto of Node.Mode looks at what the kubelet does.
const ModeAuto = "auto"

// The values of Scheduling.DefaultSpread.
const (
	DefaultSpreadSystem = "System"
	DefaultSpreadNone   = "None"
)

// RatioPoint is a point of a broken line: the score (0 to 100) of a node that is used to that share (percent).
type RatioPoint struct {
	Utilization int64 `json:"utilization"`
	Score       int64 `json:"score"`
}

// Units says how gangs are waited for.
type Units struct {
	// Timeout is how long a unit may take to become whole before its condition says that it has timed out; a PodGroup can say its own.
	Timeout Duration `json:"timeout,omitempty"`
	// ReserveAfter is how long a unit that is first in its queue waits for room before nodes are kept free for it.
	ReserveAfter Duration `json:"reserveAfter,omitempty"`
	// RepairTimeout is how long a unit that was never whole may hold some of its places, when the Bindings of the others were refused. Then
	// its members are evicted, so that it starts again as a whole.
	RepairTimeout Duration `json:"repairTimeout,omitempty"`
	// MaxReservations bounds the units for which nodes are kept free at once.
	MaxReservations int `json:"maxReservations,omitempty"`
}

// MaxTopologyLevels bounds Topology.Levels.
const MaxTopologyLevels = 8

// Topology is the network as node labels tell it.
type Topology struct {
	// Levels are node labels from the widest domain to the narrowest. Units may ask for packing at each.
	Levels []string `json:"levels,omitempty"`
}

// Backoff doubles from Initial to Max.
type Backoff struct {
	Initial Duration `json:"initial,omitempty"`
	Max     Duration `json:"max,omitempty"`
}

// Binding bounds the writes of Bindings.
type Binding struct {
	// MaxInFlight Bindings are under way at once; 64 is the knee of a kube-apiserver on two cores.
	MaxInFlight int `json:"maxInFlight,omitempty"`
	// MaxAhead decisions may wait for a place in flight; more would be decided on older state than need be.
	MaxAhead int `json:"maxAhead,omitempty"`
	// WriteTimeout bounds one write. Leadership must outlast it, or the write is not started.
	WriteTimeout Duration `json:"writeTimeout,omitempty"`
	// MaxAttempts is how often a Binding with an unknown outcome is repeated before the pod itself is read.
	MaxAttempts int `json:"maxAttempts,omitempty"`
}

// Conditions bounds the writes of PodScheduled=False.
type Conditions struct {
	// PerSecond and Burst are a token bucket over the whole process.
	PerSecond float64 `json:"perSecond,omitempty"`
	Burst     int     `json:"burst,omitempty"`
	// MinInterval is the least time between two messages of one pod with the same reason.
	MinInterval Duration `json:"minInterval,omitempty"`
}
