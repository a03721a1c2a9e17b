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

// The roles that exist. The first three run in one process, or dispatcher and binder in one and scheduler in others; a Plan is the only message between them.
const (
	RoleDispatcher Role = "dispatcher"
	RoleScheduler  Role = "scheduler"
	RoleBinder     Role = "binder"
	// RoleAgent is the node's; it runs in a process of its own, one on each node.
	RoleAgent Role = "agent"
	// RoleWatchdog stands in for a node's agent that is silent; it runs in a process of its own too.
	RoleWatchdog Role = "watchdog"
	// RoleController carries NodeConfigurations to the nodes, and recommends what pods ask for; it runs in a process of its own, with a Lease of its own.
	RoleController Role = "controller"
	// RoleMetrics serves autoscalers what pods use; it runs in a process of its own, without a Lease: each replica has everything.
	RoleMetrics Role = "metrics"
)

// Configuration is the whole of hilbertd's configuration: the file, and the value that runs. Unknown fields are refused when it is read.
type Configuration struct {
	// APIVersion is the version of the file.
	APIVersion string `json:"apiVersion"`
	// Kind is always HilbertConfiguration.
	Kind string `json:"kind"`

	// Roles are the parts of Hilbert that this process runs: dispatcher, scheduler and binder together; or dispatcher and binder, with processes of the role scheduler beside it; or scheduler, agent, watchdog, controller or metrics alone.
	Roles []Role `json:"roles,omitempty"`
	// SchedulerName is the spec.schedulerName of the pods that Hilbert places. It leaves all other pods alone.
	SchedulerName string `json:"schedulerName" needs:"roles=binder|roles=controller"`

	ClientConnection ClientConnection `json:"clientConnection,omitzero" needs:"roles=binder|roles=agent|roles=controller|roles=metrics"`
	LeaderElection   LeaderElection   `json:"leaderElection" needs:"roles=binder|roles=controller"`
	Server           Server           `json:"server"`
	Peers            Peers            `json:"peers,omitzero"`
	Logging          Logging          `json:"logging"`
	Tracing          Tracing          `json:"tracing" needs:"roles=binder"`
	Scheduling       Scheduling       `json:"scheduling" needs:"roles=binder"`
	Metrics          Metrics          `json:"metrics" needs:"roles=metrics"`
	Rescheduling     Rescheduling     `json:"rescheduling" needs:"roles=controller,rescheduling.mode!=Off|controller.tides.enabled"`
	Controller       Controller       `json:"controller" needs:"roles=controller"`
	Node             Node             `json:"node" needs:"roles=agent|roles=watchdog"`
}

// ClientConnection says how to reach the API server.
type ClientConnection struct {
	// Kubeconfig is the path of a kubeconfig file. Empty: the service account of the pod that hilbertd runs in. The flag --kubeconfig overrides it.
	Kubeconfig string `json:"kubeconfig,omitempty"`
}

// LeaderElection is the Lease that makes one process the leader. A standby is warm: it watches, and takes over when the Lease expires.
// LeaseDuration must be longer than RenewDeadline, and RenewDeadline longer than RetryPeriod.
type LeaderElection struct {
	// Namespace is the namespace of the Lease.
	Namespace string `json:"namespace"`
	// Name is the name of the Lease.
	Name string `json:"name"`
	// LeaseDuration is how long a standby waits for a silent leader before it takes over, in whole seconds.
	LeaseDuration Duration `json:"leaseDuration"`
	// RenewDeadline is how long a leader tries to renew the Lease before it gives up. No write starts that could outlive it.
	RenewDeadline Duration `json:"renewDeadline"`
	// RetryPeriod is the pause between two tries.
	RetryPeriod Duration `json:"retryPeriod"`
}

// Server is where health, metrics and answers about scheduling are served, with TLS.
type Server struct {
	// BindAddress is HOST:PORT. Port 0 takes a free port; "-" serves nothing.
	BindAddress string `json:"bindAddress"`
	// TLSCertFile is a PEM file with the certificate, read again when it changes. All replicas have the same one, and know each other by it; with it,
	// hilbertd serves the aggregated API. Empty: hilbertd makes a self-signed certificate at the start, which is enough for probes.
	TLSCertFile string `json:"tlsCertFile,omitempty"`
	// TLSPrivateKeyFile is a PEM file with the key of that certificate.
	TLSPrivateKeyFile string `json:"tlsPrivateKeyFile,omitempty"`
	// Profiling serves Go's profiles below /debug/pprof/: the scheduler's to users who may get the path, those of the other roles to their own host.
	Profiling bool `json:"profiling,omitempty" needs:"server.bindAddress!=-"`
}

// Tracing sends, for some of the pods, a trace of their way from the moment they could be placed to their Binding, as OpenTelemetry's OTLP over HTTP. The ID of a pod's trace
// is its UID without the dashes.
type Tracing struct {
	// Endpoint is the URL of a collector, such as https://otel-collector.observability:4318. Empty: nothing is traced. Its headers and certificates are set by the
	// environment variables that OpenTelemetry's specification names, such as OTEL_EXPORTER_OTLP_HEADERS and OTEL_EXPORTER_OTLP_CERTIFICATE.
	Endpoint string `json:"endpoint,omitempty"`
	// SamplingRatePerMillion is how many of a million pods are traced.
	SamplingRatePerMillion int `json:"samplingRatePerMillion" needs:"tracing.endpoint"`
}

// Logging is quiet by default: at "info" a healthy cluster logs start, leadership and stop.
type Logging struct {
	// Level is the least severe level to log: debug, info, warn or error.
	Level string `json:"level"`
	// Format is how lines are written to stderr: text or json.
	Format string `json:"format"`
}

// Scheduling configures the decisions; the simulator runs with the same struct.
type Scheduling struct {
	// Scores is the weight of score functions by name. A weight of 0 switches one off; a function that is not named
	// keeps its default weight.
	Scores map[string]int64 `json:"scores,omitempty"`
	// CapacityRatio is the curve of the score RequestedToCapacityRatio: points by ascending utilization, with straight lines between them.
	CapacityRatio []RatioPoint `json:"capacityRatio,omitempty" needs:"scheduling.scores.RequestedToCapacityRatio|scheduling.profiles"`
	// Profiles score the nodes for some pods by other weights than those above. A pod takes the profile that names its spec.schedulerName, else the
	// one that names its queue or the nearest queue above it, else scores and capacityRatio.
	Profiles []SchedulingProfile `json:"profiles,omitempty"`
	// DefaultSpread is what pods without a topology spread constraint get: System (kube-scheduler's default soft constraints on host and zone,
	// for the pods of one service or controller) or None.
	DefaultSpread string `json:"defaultSpread"`
	// Seed decides the order of nodes that score the same.
	Seed uint64 `json:"seed,omitempty"`
	// Backoff of a unit whose Plan was refused or whose Binding failed.
	Backoff Backoff `json:"backoff"`
	// Binding bounds the API writes.
	Binding Binding `json:"binding"`
	// Conditions bounds the status writes for pods that do not fit.
	Conditions Conditions `json:"conditions"`
	// Units bounds how long gangs wait.
	Units Units `json:"units"`
	// Topology is the network as node labels tell it.
	Topology Topology `json:"topology,omitzero"`
	// NodeReports says how what the nodes' agents report is used.
	NodeReports NodeReports `json:"nodeReports"`
	// Reclaimed says how what the nodes lend is used.
	Reclaimed LentReports `json:"reclaimed"`
	// Overcommit says whether what agents say of over-commitment is gone by.
	Overcommit Overcommit `json:"overcommit"`
	// Events says which Events are written about pods.
	Events SchedulingEvents `json:"events,omitzero"`
	// Evictions bounds what the nodes' agents want evicted.
	Evictions Evictions `json:"evictions"`
	// Schedulers is how many schedulers place pods at the same time, each in a part of the nodes, on a CPU of its own. With 2 or more, what a part of the nodes cannot show
	// (gangs, constraints between pods, volumes, claims, preemption, pods for which a part has no room) is decided as with 1, with all nodes in view. Each takes about as
	// much memory for nodes as the ledger does.
	Schedulers int `json:"schedulers"`
	// Partitions says when each of several schedulers, in this process or in others, has a part of the nodes for itself.
	Partitions Partitions `json:"partitions" needs:"scheduling.schedulers!=1|roles!=scheduler"`
	// MaxClassIndexes bounds the rankings that a scheduler keeps (one for each size of pod), and separately the indexes of classes with
	// constraints between pods. Each takes about 20 bytes a node. The least recently used one is dropped first.
	MaxClassIndexes int `json:"maxClassIndexes"`
	// MaxWaitingClasses bounds, for each namespace, how many pods that differ from one another wait at once: by requests, node selectors, affinity,
	// spread, tolerations, host ports, images, or by what terms of other pods say about their labels. Equal pods count as one, however many there are; as four
	// more for each term about other pods that they have, and as one more for each 16 terms that others have about them. Pods beyond it are held back with the condition TooManyDifferentPods, and are taken in when there is room, the oldest first. 0: no bound.
	MaxWaitingClasses *int `json:"maxWaitingClasses,omitempty"`
}

// MaxSchedulers bounds Scheduling.Schedulers.
const MaxSchedulers = 64

// SchedulingEvents says which Events are written about pods. FailedScheduling always is, within a budget.
type SchedulingEvents struct {
	// Scheduled has an Event written for each pod that is placed, as kube-scheduler does: one more write for each pod.
	Scheduled bool `json:"scheduled,omitempty"`
}

// NodeReports says which reports of agents are acted on.
type NodeReports struct {
	// Policies says what holds while the admission policies of deploy/policies are not in force, without which tenants could forge promises. Require: nothing is
	// promised by NUMA node or device, and nothing is lent. Ignore: promises are made all the same.
	Policies string `json:"policies"`
	// StaleAfter is the age from which a CustomNodeResource is ignored: pods get no exclusive cores on its node. Agents refresh it every
	// Node.RefreshInterval.
	StaleAfter Duration `json:"staleAfter"`
	// UsageStaleAfter is the age from which the use in a CustomNodeResource is ignored: the score LoadAware counts what pods request instead. Agents
	// that report use refresh it every Node.Usage.RefreshInterval.
	UsageStaleAfter Duration `json:"usageStaleAfter"`
}

// The values of NodeReports.Policies.
const (
	PoliciesRequire = "Require"
	PoliciesIgnore  = "Ignore"
)

// LentReports bounds how old the headroom may be that an agent reports.
type LentReports struct {
	// StaleAfter is the age from which the headroom in a CustomNodeResource is ignored: no reclaimed pod goes to its node. Agents that lend
	// refresh it every Node.Lending.RefreshInterval.
	StaleAfter Duration `json:"staleAfter"`
}

// Evictions bounds, over the whole cluster, the evictions of reclaimed pods that agents request. It does not delay urgent ones.
type Evictions struct {
	// PercentPerMinute is the share of the cluster's reclaimed pods that may be evicted in a minute; at least one pod may. 0: none, but for urgent evictions.
	PercentPerMinute float64 `json:"percentPerMinute"`
	// Burst is how many reclaimed pods may be evicted at once.
	Burst int `json:"burst"`
}

// Node configures the agent.
type Node struct {
	// Name is the name of the Node object. Empty: the environment variable NODE_NAME, else the host's name.
	Name string `json:"name,omitempty"`
	// Mode says who manages the CPUs: agent, kubelet, or auto (kubelet where one of the kubelet's resource managers is on, else agent).
	Mode string `json:"mode"`
	// StateDirectory is where the agent keeps its checkpoint.
	StateDirectory string `json:"stateDirectory"`
	// KubeletDirectory is the kubelet's --root-dir.
	KubeletDirectory string `json:"kubeletDirectory"`
	// LogDirectories are where log files are whose page cache Memory.Logs may drop, on the host. A path may have wildcards as path.Match has them, but not in its first part:
	// "/var/lib/kubelet/pods/*/volumes/kubernetes.io~empty-dir/logs".
	LogDirectories []string `json:"logDirectories" needs:"node.lending.enabled,node.memory.logs.bytesPerSecond"`
	// NRISocket is the socket on which the container runtime serves NRI.
	NRISocket string `json:"nriSocket"`
	// ReservedCores is how many physical cores are kept for the node's own services and for system_cores pods: the lowest-numbered ones, in
	// turn from each NUMA node.
	ReservedCores *int `json:"reservedCores,omitempty"`
	// ReservedMemory is the memory of each NUMA node, in MiB, that is promised to no pod.
	ReservedMemory *int `json:"reservedMemoryMiB,omitempty"`
	// ReclaimedCores is the least number of physical cores that reclaimed pods have in each NUMA node that they run in.
	ReclaimedCores int `json:"reclaimedCores"`
	// TickInterval is how often the agent compares the kernel's settings with the wanted ones.
	TickInterval Duration `json:"tickInterval"`
	// ObserveInterval is how often the agent reads the kernel's counters.
	ObserveInterval Duration `json:"observeInterval"`
	// WriteInterval is the least time between two writes of the CustomNodeResource.
	WriteInterval Duration `json:"writeInterval"`
	// RefreshInterval is the most time between two writes of the CustomNodeResource.
	RefreshInterval Duration `json:"refreshInterval"`
	// Lending says what the node lends to reclaimed pods.
	Lending Lending `json:"lending" needs:"node.mode!=kubelet,node.lending.enabled"`
	// CPU tunes the laws that lend CPUs.
	CPU NodeCPU `json:"cpu" needs:"node.lending.enabled"`
	// CPUBurst lets online pods that their CPU limits throttle use some of what they left unused before.
	CPUBurst CPUBurst `json:"cpuBurst" needs:"node.lending.enabled"`
	// QuietCPUs keeps interrupts and the host's services off the CPUs that dedicated pods have for themselves.
	QuietCPUs QuietCPUs `json:"quietCPUs,omitzero" needs:"node.mode!=kubelet"`
	// Memory says how memory is lent, limited, protected and taken back.
	Memory NodeMemory `json:"memory"`
	// Eviction says when the node is short, and when reclaimed pods have to go.
	Eviction NodeEviction `json:"eviction" needs:"node.lending.enabled"`
	// KubeletThresholds says where the kubelet's eviction thresholds are read. Ask: the kubelet is asked (/configz); as long as it has not answered, the node lends
	// no memory. File: they are those of config.yaml in KubeletDirectory, though the kubelet's flags and drop-ins may say otherwise.
	KubeletThresholds string `json:"kubeletThresholds" needs:"node.lending.enabled"`
	// Usage is about the report of what the node uses.
	Usage Usage `json:"usage" needs:"node.lending.enabled"`
	// Interference says when neighbours harm a service, and what is done about it.
	Interference NodeInterference `json:"interference" needs:"node.lending.enabled,node.interference.mode!=off"`
	// MemoryBandwidth says of how many pods the memory bandwidth is read.
	MemoryBandwidth NodeMemoryBandwidth `json:"memoryBandwidth,omitzero" needs:"node.lending.enabled,node.memoryBandwidth.groups"`
	// Overcommit says how much of the node's CPUs may be promised to services a second time.
	Overcommit NodeOvercommit `json:"overcommit" needs:"node.lending.enabled,node.overcommit.mode!=off"`
	// Metrics is about what is sent to the role metrics.
	Metrics NodeMetrics `json:"metrics" needs:"node.metrics.address"`
	// Devices is about GPUs and network cards.
	Devices NodeDevices `json:"devices"`
	// Plugins is about resources that processes of their own bring.
	Plugins NodePlugins `json:"plugins" needs:"node.plugins.enabled"`
}

// Usage says whether an agent reports what its node uses. The scheduler reads that for the score LoadAware.
type Usage struct {
	// Enabled reports it. A node whose use has changed by a twentieth of its capacity writes its CustomNodeResource.
	Enabled bool `json:"enabled,omitempty"`
	// RefreshInterval is the most time between two reports of a node that reports its use. It must be well below the scheduler's
	// NodeReports.UsageStaleAfter.
	RefreshInterval Duration `json:"refreshInterval" needs:"node.usage.enabled|node.overcommit.mode!=off"`
}

// NodeDevices says who allocates the node's GPUs, and how often the agent looks at its devices.
type NodeDevices struct {
	// Owner says who allocates the GPUs. hilbert: Hilbert, unless a device plugin offers them. kubelet: never Hilbert. auto: Hilbert, if nothing
	// else offers them and the agent can put them into containers.
	Owner string `json:"owner"`
	// Interval is how often the agent looks at GPUs and network cards.
	Interval Duration `json:"interval"`
	// SeveralUsers allows soft slices of one GPU to pods that run as different users. It needs deploy/mps.yaml with MPS_MULTIUSER=1.
	SeveralUsers bool `json:"severalUsers,omitempty" needs:"node.devices.owner!=kubelet"`
	// SeveralNamespaces allows soft slices of one GPU to pods of different namespaces. MPS does not protect them from each other.
	SeveralNamespaces bool `json:"severalNamespaces,omitempty" needs:"node.devices.owner!=kubelet"`
	// ToolkitConfig is where the configuration of NVIDIA's container toolkit lies, as the agent sees it. Hilbert allocates GPUs only where the file says
	// accept-nvidia-visible-devices-envvar-when-unprivileged = false, or where there is no such file. deploy/agent.yaml mounts the directory.
	ToolkitConfig string `json:"toolkitConfig" needs:"node.devices.owner!=kubelet,node.devices.ignoreToolkit!=true"`
	// IgnoreToolkit allocates GPUs whatever ToolkitConfig says. Where containers run by NVIDIA's runtime, any of them may then have GPUs that its pod does
	// not hold.
	IgnoreToolkit bool `json:"ignoreToolkit,omitempty" needs:"node.devices.owner!=kubelet"`
	// OtherResources are resources below nvidia.com/ that are not GPUs. NVIDIA's Network Operator, for example, offers network cards as
	// nvidia.com/hostdev. Any other resource below nvidia.com/ in the node's status means that something else allocates the GPUs, and Hilbert
	// allocates none.
	OtherResources []string `json:"otherResources,omitzero"`
}

// OwnerAuto of NodeDevices.Owner depends on which party offers the GPUs.
const OwnerAuto = "auto"

// Lending says what a node lends to reclaimed pods. It needs Node.Mode agent.
type Lending struct {
	// Enabled lends what online pods do not use to reclaimed pods. A node that does not lend gets no new reclaimed pods; those that run keep
	// the floor, Node.ReclaimedCores.
	Enabled           *bool `json:"enabled,omitempty"`
	LendingParameters `json:",inline"`
	// RefreshInterval is the most time between two reports of a node that lends. It must be well below the scheduler's Reclaimed.StaleAfter.
	RefreshInterval Duration `json:"refreshInterval"`
	// Record is a file to which the agent writes what it observed and decided, for `hilbert node replay`. It holds at most 64 MiB. Empty: no
	// record.
	Record string `json:"record,omitempty"`
}

// LendingParameters are what of Lending may change while the agent runs.
type LendingParameters struct {
	// Suspended lends nothing more, takes back what is lent, but the floor, and offers nothing to new reclaimed pods, as on a node that is short. Unlike Enabled, it
	// needs no start of the agent.
	Suspended bool `json:"suspended,omitempty"`
	// TargetUtilization is how busy the CPUs of the online pods may be, in percent. The agent lends the rest.
	TargetUtilization int `json:"targetUtilization"`
	// Interval is the least time between two steps of lending more. The agent takes CPUs back at once.
	Interval Duration `json:"interval"`
	// Step is the most of the shared pools' CPUs that one step lends, in percent.
	Step int `json:"step"`
	// Evictions says what happens when reclaimed pods have to go. EvictionsOn: they are evicted. EvictionsDryRun: the report only names them, with
	// the reason.
	Evictions string `json:"evictions"`
	// IO limits what reclaimed pods do to disks.
	IO LendingIO `json:"io"`
	// Network limits what reclaimed pods send and receive.
	Network LendingNetwork `json:"network,omitzero" needs:"node.lending.network.enabled"`
	// RDT limits the cache and the memory bandwidth of reclaimed pods.
	RDT LendingRDT `json:"rdt" needs:"node.lending.rdt.enabled"`
}

// LendingIO limits what reclaimed pods do to disks. The agent sets their weights in any case.
type LendingIO struct {
	// Weights are the weights of pods on disks that heed them.
	Weights IOWeights `json:"weights"`
	// CostDevices are disks on which the agent turns io.cost on: by the kernel's name, by a path that lies on them, or "*" for all. Without it most disks ignore weights.
	CostDevices []string `json:"costDevices,omitempty"`
	// Disks say what disks can do, and what they shall keep for online pods.
	Disks []IODisk `json:"disks,omitempty"`
	// Ceilings are limits for each reclaimed pod on each of these disks. A disk has the ceiling that names it most closely: by name, then by path, then "*".
	Ceilings []IOCeiling `json:"ceilings,omitempty"`
}

// IOWeights are the weights of pods by their level, from 1 to 10,000. The kernel's default is 100.
type IOWeights struct {
	// Dedicated is the weight of a dedicated pod.
	Dedicated int `json:"dedicated"`
	// Shared is the weight of a shared pod, and of a system pod.
	Shared int `json:"shared"`
	// Reclaimed is the weight of a reclaimed pod.
	Reclaimed int `json:"reclaimed"`
	// Pods is the weight of all pods together beside the host's services, each of which has 100 as a group. The container runtime is one of them: it writes what pods print, so no
	// pod's own weight counts there. 0: the agent leaves it as it is.
	Pods int `json:"pods,omitempty"`
}

// The values of Lending.Evictions.
const (
	EvictionsOn     = "on"
	EvictionsDryRun = "dry-run" // the report names who would have to go, and why; no pod is evicted
)

// The values of Node.KubeletThresholds.
const (
	ThresholdsAsk  = "Ask"
	ThresholdsFile = "File"
)

// ModeAuto of Node.Mode depends on the kubelet's resource managers.
const ModeAuto = "auto"

// The values of Scheduling.DefaultSpread.
const (
	DefaultSpreadSystem = "System"
	DefaultSpreadNone   = "None"
)

// MaxSchedulingProfiles bounds Scheduling.Profiles: each profile that is used has indexes of its own over all nodes.
const MaxSchedulingProfiles = 16

// SchedulingProfile weighs scores for the pods of some scheduler names or queues. It changes which of the nodes that fit is the best, and never which
// nodes fit.
type SchedulingProfile struct {
	// Name is a DNS label; hilbert explain says which profile scored the nodes.
	Name string `json:"name"`
	// SchedulerNames are values of spec.schedulerName. Hilbert places the pods with these names too.
	SchedulerNames []string `json:"schedulerNames,omitempty"`
	// Queues are names of Queues; queues below them are meant too, unless a profile names them.
	Queues []string `json:"queues,omitempty"`
	// Scores is the weight of score functions by name. A function that is not named has the weight that scheduling.scores gives it.
	Scores map[string]int64 `json:"scores,omitempty"`
	// CapacityRatio is the curve of the score RequestedToCapacityRatio; without one, scheduling.capacityRatio.
	CapacityRatio []RatioPoint `json:"capacityRatio,omitempty"`
}

// RatioPoint is a point of the curve CapacityRatio.
type RatioPoint struct {
	// Utilization is the share of the node that is requested, in percent.
	Utilization int64 `json:"utilization"`
	// Score is the score of such a node, 0 to 100.
	Score int64 `json:"score"`
}

// Units bounds how long gangs wait, and what is reserved for them.
type Units struct {
	// Timeout is how long a gang may take until minCount members have a place. Then its condition says TimedOut. A PodGroup can set its own.
	Timeout Duration `json:"timeout"`
	// ReserveAfter is how long a gang that is first in its queue waits for room before Hilbert reserves nodes for it.
	ReserveAfter Duration `json:"reserveAfter"`
	// RepairTimeout is how long a gang that never reached minCount may keep the places of some members after Bindings of others were refused.
	// Then those members are evicted, and the gang starts again as a whole.
	RepairTimeout Duration `json:"repairTimeout"`
	// MaxReservations is for how many gangs Hilbert reserves nodes at once.
	MaxReservations int `json:"maxReservations"`
}

// MaxTopologyLevels bounds Topology.Levels.
const MaxTopologyLevels = 8

// Topology describes the network by node labels.
type Topology struct {
	// Levels are node labels from the widest domain to the narrowest. A gang can ask to be packed at each.
	Levels []string `json:"levels,omitempty"`
}

// Backoff is the pause after a Plan was refused or a Binding failed. It doubles with each failure.
type Backoff struct {
	// Initial is the pause after the first failure.
	Initial Duration `json:"initial"`
	// Max is the longest pause.
	Max Duration `json:"max"`
}

// Binding bounds the writes of Bindings.
type Binding struct {
	// MaxInFlight is how many Bindings may be under way at once. More than 64 gave no more throughput on a kube-apiserver with two cores.
	MaxInFlight int `json:"maxInFlight"`
	// MaxAhead is how many decisions may wait for their Binding to start. Unset, it is twice MaxInFlight. More would be decided on older state
	// than necessary.
	MaxAhead int `json:"maxAhead"`
	// WriteTimeout is the longest that one write takes. A write starts only if the leadership lasts that long; with RetryPeriod it must be
	// shorter than RenewDeadline.
	WriteTimeout Duration `json:"writeTimeout"`
	// MaxAttempts is how often a Binding with an unknown outcome is sent before Hilbert reads the pod itself.
	MaxAttempts int `json:"maxAttempts"`
	// VolumeTimeout is how long a pod that has its node waits for its claims to be bound. Then it is placed anew.
	VolumeTimeout Duration `json:"volumeTimeout"`
}

// Conditions bounds the writes of the pod condition PodScheduled=False.
type Conditions struct {
	// PerSecond is how many conditions the process writes in a second.
	PerSecond float64 `json:"perSecond"`
	// Burst is how many conditions the process writes at once after a pause.
	Burst int `json:"burst"`
	// MinInterval is the least time between two messages of one pod with the same reason.
	MinInterval Duration `json:"minInterval"`
}
