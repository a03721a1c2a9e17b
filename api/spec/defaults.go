package spec

import (
	"cmp"
	"math"
	"time"
)

// Default returns the configuration of an empty file.
func Default() *Configuration {
	c := New()
	Complete(c)
	return c
}

// aheadUnset stands for a MaxAhead that nobody wrote: its default depends on MaxInFlight. Validate refuses it, and every number below 1, if somebody did.
const aheadUnset = math.MinInt

// New returns what a file is decoded onto: the defaults. What the file says takes their place, so that a 0 in it means 0, and never the default. Complete has to follow.
// New, Complete and what they call are the only place where defaults are defined.
func New() *Configuration {
	c := &Configuration{APIVersion: ConfigurationAPIVersion, Kind: ConfigurationKind, SchedulerName: DefaultSchedulerName}
	c.LeaderElection = LeaderElection{
		Namespace: "kube-system", Name: "hilbert",
		LeaseDuration: Duration(15 * time.Second), RenewDeadline: Duration(10 * time.Second), RetryPeriod: Duration(2 * time.Second),
	}
	c.Server.BindAddress = "127.0.0.1:10461"
	c.Tracing.SamplingRatePerMillion = 10_000
	c.Logging = Logging{Level: "info", Format: "text"}
	c.Scheduling = newScheduling()
	c.Metrics = newMetrics()
	c.Rescheduling = newRescheduling()
	c.Controller = newController()
	c.Node = newNode()
	return c
}

// Complete fills in what follows from other fields, and lists and pointers that the file leaves out or sets to null.
func Complete(c *Configuration) {
	if len(c.Roles) == 0 {
		c.Roles = []Role{RoleDispatcher, RoleScheduler, RoleBinder}
	}
	s := &c.Scheduling
	if len(s.CapacityRatio) == 0 {
		s.CapacityRatio = DefaultRatio()
	}
	if s.Binding.MaxAhead == aheadUnset {
		s.Binding.MaxAhead = 2 * s.Binding.MaxInFlight
	}
	if len(s.Topology.Levels) == 0 {
		s.Topology.Levels = []string{"topology.hilbert.dev/block", "topology.hilbert.dev/rack", "kubernetes.io/hostname"}
	}
	s.MaxWaitingClasses = cmp.Or(s.MaxWaitingClasses, new(2000))
	c.Metrics.MaxForecasts = cmp.Or(c.Metrics.MaxForecasts, new(200))
	c.Metrics.ForecastRises = cmp.Or(c.Metrics.ForecastRises, new(true))
	for i := range c.Metrics.Peaks {
		c.Metrics.Peaks[i].Kind = cmp.Or(c.Metrics.Peaks[i].Kind, "Deployment")
	}
	n := &c.Node
	n.ReservedCores = cmp.Or(n.ReservedCores, new(1))
	n.ReservedMemory = cmp.Or(n.ReservedMemory, new(256))
	n.Lending.Enabled = cmp.Or(n.Lending.Enabled, new(true))
	if n.Devices.OtherResources == nil {
		n.Devices.OtherResources = []string{"nvidia.com/hostdev"}
	}
}

func newScheduling() Scheduling {
	return Scheduling{
		DefaultSpread: DefaultSpreadSystem,
		Backoff:       Backoff{Initial: Duration(time.Second), Max: Duration(10 * time.Second)},
		Binding: Binding{
			MaxInFlight: 64, MaxAhead: aheadUnset, MaxAttempts: 5,
			WriteTimeout: Duration(5 * time.Second), VolumeTimeout: Duration(10 * time.Minute),
		},
		Conditions: Conditions{PerSecond: 50, Burst: 100, MinInterval: Duration(30 * time.Second)},
		Units: Units{
			Timeout: Duration(10 * time.Minute), ReserveAfter: Duration(30 * time.Second), RepairTimeout: Duration(2 * time.Minute), MaxReservations: 4,
		},
		NodeReports:     NodeReports{Policies: PoliciesRequire, StaleAfter: Duration(15 * time.Minute), UsageStaleAfter: Duration(3 * time.Minute)},
		Reclaimed:       LentReports{StaleAfter: Duration(time.Minute)},
		Overcommit:      Overcommit{Mode: OvercommitOff, MaxPercent: 150},
		Evictions:       Evictions{PercentPerMinute: 1, Burst: 1},
		Schedulers:      1,
		Partitions:      newPartitions(),
		MaxClassIndexes: 256,
	}
}

// newPartitions are partitions at all times, for no load was found at which sharing is better (ADR 0025); and the limits of the rules by load, where somebody wants these.
func newPartitions() Partitions {
	return Partitions{
		When: PartitionsAlways, SplitAllocatedPercent: 90, MergeAllocatedPercent: 80, SplitPodsPerSecond: 2000, MergePodsPerSecond: 1000, SplitRejectedPercent: 1,
		SplitAfter: Duration(30 * time.Second), MergeAfter: Duration(10 * time.Minute),
	}
}

func newNode() Node {
	return Node{
		Mode: ModeAuto, StateDirectory: "/var/lib/hilbert", KubeletDirectory: "/var/lib/kubelet", NRISocket: "/var/run/nri/nri.sock",
		LogDirectories: []string{"/var/log/pods"},
		ReclaimedCores: 1,
		TickInterval:   Duration(5 * time.Second), ObserveInterval: Duration(time.Second),
		WriteInterval: Duration(10 * time.Second), RefreshInterval: Duration(5 * time.Minute),
		Devices: NodeDevices{Owner: OwnerAuto, ToolkitConfig: "/etc/nvidia-container-runtime/config.toml", Interval: Duration(15 * time.Second)},
		Plugins: NodePlugins{Directory: "/run/hilbert/plugins", Timeout: Duration(time.Second), Interval: Duration(10 * time.Second)},
		Lending: Lending{
			LendingParameters: LendingParameters{
				TargetUtilization: 80, Interval: Duration(10 * time.Second), Step: 25, Evictions: EvictionsOn,
				IO:  LendingIO{Weights: IOWeights{Dedicated: 800, Shared: 400, Reclaimed: 50}},
				RDT: LendingRDT{CachePercent: 20, BandwidthPercent: 20, Feedback: DefaultRDTFeedback()},
			},
			RefreshInterval: Duration(25 * time.Second),
		},
		CPU: DefaultNodeCPU(), CPUBurst: DefaultCPUBurst(),
		Memory: DefaultNodeMemory(), Eviction: DefaultNodeEviction(), KubeletThresholds: ThresholdsAsk,
		Usage: Usage{RefreshInterval: Duration(time.Minute)}, Interference: DefaultNodeInterference(), Overcommit: DefaultNodeOvercommit(), Metrics: newNodeMetrics(),
	}
}

// DefaultRatio packs: a fuller node scores higher.
func DefaultRatio() []RatioPoint { return []RatioPoint{{0, 0}, {100, 100}} }
