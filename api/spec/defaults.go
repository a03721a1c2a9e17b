package spec

import (
	"cmp"
	"time"
)

// Default returns the configuration of an empty file.
func Default() *Configuration {
	c := &Configuration{}
	SetDefaults(c)
	return c
}

// New returns what a file is decoded onto. What a 0 in the file means 0 of has its default here already; SetDefaults fills in the rest.
func New() *Configuration {
	c := &Configuration{}
	c.Node.Memory, c.Node.Eviction = DefaultNodeMemory(), DefaultNodeEviction()
	return c
}

// SetDefaults fills every field that is zero, but those of Node.Memory and Node.Eviction one by one, where zero may be meant (see New). This function and those that
// it calls are the only place where defaults are defined.
func SetDefaults(c *Configuration) {
	c.APIVersion = cmp.Or(c.APIVersion, ConfigurationAPIVersion)
	c.Kind = cmp.Or(c.Kind, ConfigurationKind)
	if len(c.Roles) == 0 {
		c.Roles = []Role{RoleDispatcher, RoleScheduler, RoleBinder}
	}
	c.SchedulerName = cmp.Or(c.SchedulerName, DefaultSchedulerName)

	c.LeaderElection.Namespace = cmp.Or(c.LeaderElection.Namespace, "kube-system")
	c.LeaderElection.Name = cmp.Or(c.LeaderElection.Name, "hilbert")
	c.LeaderElection.LeaseDuration = cmp.Or(c.LeaderElection.LeaseDuration, Duration(15*time.Second))
	c.LeaderElection.RenewDeadline = cmp.Or(c.LeaderElection.RenewDeadline, Duration(10*time.Second))
	c.LeaderElection.RetryPeriod = cmp.Or(c.LeaderElection.RetryPeriod, Duration(2*time.Second))

	c.Server.BindAddress = cmp.Or(c.Server.BindAddress, "127.0.0.1:10461")
	c.Logging.Level = cmp.Or(c.Logging.Level, "info")
	c.Logging.Format = cmp.Or(c.Logging.Format, "text")

	s := &c.Scheduling
	if len(s.CapacityRatio) == 0 {
		s.CapacityRatio = DefaultRatio()
	}
	s.DefaultSpread = cmp.Or(s.DefaultSpread, DefaultSpreadSystem)
	s.Backoff.Initial = cmp.Or(s.Backoff.Initial, Duration(time.Second))
	s.Backoff.Max = cmp.Or(s.Backoff.Max, Duration(10*time.Second))
	s.Binding.MaxInFlight = cmp.Or(s.Binding.MaxInFlight, 64)
	s.Binding.MaxAhead = cmp.Or(s.Binding.MaxAhead, 2*s.Binding.MaxInFlight)
	s.Binding.WriteTimeout = cmp.Or(s.Binding.WriteTimeout, Duration(5*time.Second))
	s.Binding.MaxAttempts = cmp.Or(s.Binding.MaxAttempts, 5)
	s.Binding.VolumeTimeout = cmp.Or(s.Binding.VolumeTimeout, Duration(10*time.Minute))
	s.Conditions.PerSecond = cmp.Or(s.Conditions.PerSecond, 50)
	s.Conditions.Burst = cmp.Or(s.Conditions.Burst, 100)
	s.Conditions.MinInterval = cmp.Or(s.Conditions.MinInterval, Duration(30*time.Second))
	s.Units.Timeout = cmp.Or(s.Units.Timeout, Duration(10*time.Minute))
	s.Units.ReserveAfter = cmp.Or(s.Units.ReserveAfter, Duration(30*time.Second))
	s.Units.RepairTimeout = cmp.Or(s.Units.RepairTimeout, Duration(2*time.Minute))
	s.Units.MaxReservations = cmp.Or(s.Units.MaxReservations, 4)
	if len(s.Topology.Levels) == 0 {
		s.Topology.Levels = []string{"topology.hilbert.dev/block", "topology.hilbert.dev/rack", "kubernetes.io/hostname"}
	}
	s.NodeReports.Policies = cmp.Or(s.NodeReports.Policies, PoliciesRequire)
	s.NodeReports.StaleAfter = cmp.Or(s.NodeReports.StaleAfter, Duration(15*time.Minute))
	s.NodeReports.UsageStaleAfter = cmp.Or(s.NodeReports.UsageStaleAfter, Duration(3*time.Minute))
	s.Reclaimed.StaleAfter = cmp.Or(s.Reclaimed.StaleAfter, Duration(time.Minute))
	s.Evictions.PercentPerMinute = cmp.Or(s.Evictions.PercentPerMinute, 1)
	s.Evictions.Burst = cmp.Or(s.Evictions.Burst, 1)
	s.MaxClassIndexes = cmp.Or(s.MaxClassIndexes, 256)
	s.MaxWaitingClasses = cmp.Or(s.MaxWaitingClasses, new(2000))
	setNodeDefaults(&c.Node)
}

func setNodeDefaults(n *Node) {
	n.Mode = cmp.Or(n.Mode, ModeAuto)
	n.StateDirectory = cmp.Or(n.StateDirectory, "/var/lib/hilbert")
	n.KubeletDirectory = cmp.Or(n.KubeletDirectory, "/var/lib/kubelet")
	n.NRISocket = cmp.Or(n.NRISocket, "/var/run/nri/nri.sock")
	n.ReservedCores = cmp.Or(n.ReservedCores, new(1))
	n.ReservedMemory = cmp.Or(n.ReservedMemory, new(256))
	n.ReclaimedCores = cmp.Or(n.ReclaimedCores, 1)
	n.TickInterval = cmp.Or(n.TickInterval, Duration(5*time.Second))
	n.ObserveInterval = cmp.Or(n.ObserveInterval, Duration(time.Second))
	n.WriteInterval = cmp.Or(n.WriteInterval, Duration(10*time.Second))
	n.RefreshInterval = cmp.Or(n.RefreshInterval, Duration(5*time.Minute))
	n.Devices.Owner = cmp.Or(n.Devices.Owner, OwnerAuto)
	n.Devices.ToolkitConfig = cmp.Or(n.Devices.ToolkitConfig, "/etc/nvidia-container-runtime/config.toml")
	if n.Devices.OtherResources == nil {
		n.Devices.OtherResources = []string{"nvidia.com/hostdev"}
	}
	n.Devices.Interval = cmp.Or(n.Devices.Interval, Duration(15*time.Second))
	n.Lending.Enabled = cmp.Or(n.Lending.Enabled, new(true))
	n.Lending.TargetUtilization = cmp.Or(n.Lending.TargetUtilization, 80)
	n.Lending.Interval = cmp.Or(n.Lending.Interval, Duration(10*time.Second))
	n.Lending.Step = cmp.Or(n.Lending.Step, 25)
	n.Memory = cmp.Or(n.Memory, DefaultNodeMemory())
	n.Eviction = cmp.Or(n.Eviction, DefaultNodeEviction())
	n.KubeletThresholds = cmp.Or(n.KubeletThresholds, ThresholdsAsk)
	n.Usage.RefreshInterval = cmp.Or(n.Usage.RefreshInterval, Duration(time.Minute))
	n.Lending.RefreshInterval = cmp.Or(n.Lending.RefreshInterval, Duration(25*time.Second))
	n.Lending.Evictions = cmp.Or(n.Lending.Evictions, EvictionsOn)
	n.Lending.RDT.CachePercent = cmp.Or(n.Lending.RDT.CachePercent, 20)
	n.Lending.RDT.BandwidthPercent = cmp.Or(n.Lending.RDT.BandwidthPercent, 20)
}

// DefaultRatio packs: a fuller node scores higher.
func DefaultRatio() []RatioPoint { return []RatioPoint{{0, 0}, {100, 100}} }
