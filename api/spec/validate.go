package spec

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

// Validate returns every mistake in a configuration that has its defaults set, joined; each names the field and the fix.
// Score names are checked by schedule/place, which owns the table.
func Validate(c *Configuration) error {
	var errs []error
	bad := collector(&errs)
	if c.APIVersion != ConfigurationAPIVersion {
		notOneOf(bad, "apiVersion", c.APIVersion, ConfigurationAPIVersion)
	}
	if c.Kind != ConfigurationKind {
		notOneOf(bad, "kind", c.Kind, ConfigurationKind)
	}
	validateRoles(c.Roles, bad)
	validatePeers(c, bad)
	for _, x := range []struct{ field, value string }{
		{"schedulerName", c.SchedulerName},
		{"leaderElection.namespace", c.LeaderElection.Namespace},
		{"leaderElection.name", c.LeaderElection.Name},
		{"server.bindAddress", c.Server.BindAddress},
	} {
		if x.value == "" {
			bad(x.field, "it is empty; write a value, or leave the field out for its default")
		}
	}
	validateLeaderElection(c, bad)
	if slices.Contains(c.Roles, RoleController) && c.LeaderElection.Name == New().LeaderElection.Name {
		bad("leaderElection.name", "%q is the scheduler's Lease; write hilbert-controller for the role controller", c.LeaderElection.Name)
	}
	if (c.Server.TLSCertFile == "") != (c.Server.TLSPrivateKeyFile == "") {
		bad("server.tlsCertFile", "it and server.tlsPrivateKeyFile belong together; name both or neither")
	}
	oneOf(bad, "logging.level", c.Logging.Level, "debug", "info", "warn", "error")
	oneOf(bad, "logging.format", c.Logging.Format, "text", "json")
	validateTracing(&c.Tracing, bad)
	validateMetrics(c, bad)
	validateScheduling(&c.Scheduling, bad)
	validateSchedulingProfiles(c, bad)
	validateRescheduling(&c.Rescheduling, bad)
	validateController(&c.Controller, bad)
	validateNode(&c.Node, bad)
	return errors.Join(errs...)
}

func validateRoles(roles []Role, bad report) {
	if len(roles) == 1 && alone(roles[0]) || IsScheduler(roles) || IsLeader(roles) {
		return
	}
	for _, role := range []Role{RoleDispatcher, RoleScheduler, RoleBinder} {
		if !slices.Contains(roles, role) {
			bad("roles", "%s is missing; one process runs dispatcher, scheduler and binder together, or dispatcher and binder beside schedulers, or scheduler, agent, watchdog, controller or metrics alone", role)
		}
	}
	for i, role := range roles {
		if role != RoleDispatcher && role != RoleScheduler && role != RoleBinder {
			field := fmt.Sprintf("roles[%d]", i)
			if alone(role) {
				bad(field, "%s runs in a process of its own; name it alone", role)
			} else {
				notOneOf(bad, field, string(role), string(RoleDispatcher), string(RoleScheduler), string(RoleBinder), string(RoleAgent), string(RoleWatchdog), string(RoleController), string(RoleMetrics))
			}
		}
	}
}

// alone reports whether a role runs in a process of its own.
func alone(r Role) bool {
	return r == RoleAgent || r == RoleWatchdog || r == RoleController || r == RoleMetrics
}

func validateNode(n *Node, bad report) {
	oneOf(bad, "node.mode", n.Mode, ModeAuto, ModeAgent, ModeKubelet)
	for _, x := range []struct {
		field string
		path  string
	}{
		{"stateDirectory", n.StateDirectory},
		{"kubeletDirectory", n.KubeletDirectory},
		{"nriSocket", n.NRISocket},
		{"devices.toolkitConfig", n.Devices.ToolkitConfig},
		{"plugins.directory", n.Plugins.Directory},
	} {
		if !strings.HasPrefix(x.path, "/") {
			bad("node."+x.field, "%q is no absolute path", x.path)
		}
	}
	validateLogDirectories(n.LogDirectories, bad)
	for _, x := range []struct {
		field string
		value int
		least int
	}{{"reservedCores", *n.ReservedCores, 0}, {"reservedMemoryMiB", *n.ReservedMemory, 0}, {"reclaimedCores", n.ReclaimedCores, 1}} {
		if x.value < x.least {
			bad("node."+x.field, "%d is less than %d", x.value, x.least)
		}
	}
	for _, x := range []struct {
		field string
		value Duration
	}{{"tickInterval", n.TickInterval}, {"observeInterval", n.ObserveInterval}, {"writeInterval", n.WriteInterval}} {
		if x.value <= 0 {
			bad("node."+x.field, "%v is not positive", x.value.D())
		}
	}
	if n.RefreshInterval < n.WriteInterval {
		bad("node.refreshInterval", "%v must not be shorter than writeInterval (%v)", n.RefreshInterval.D(), n.WriteInterval.D())
	}
	oneOf(bad, "node.devices.owner", n.Devices.Owner, OwnerAuto, OwnerHilbert, OwnerKubelet)
	for i, name := range n.Devices.OtherResources {
		below, ok := strings.CutPrefix(name, "nvidia.com/")
		if !ok || below == "" || below == "gpu" || below == "gpu.shared" || strings.HasPrefix(below, "mig-") {
			bad(fmt.Sprintf("node.devices.otherResources[%d]", i), "%q: write a name below nvidia.com/ that does not stand for GPUs, such as nvidia.com/hostdev", name)
		}
	}
	if n.Devices.Interval < Duration(time.Second) {
		bad("node.devices.interval", "%v: want at least 1s", n.Devices.Interval.D())
	}
	validatePlugins(&n.Plugins, bad)
	validateLending(n, bad)
	validateNodeMetrics(&n.Metrics, bad)
	validateNodeRules(n, bad)
}

func validatePlugins(p *NodePlugins, bad report) {
	const least, most = Duration(100 * time.Millisecond), Duration(1500 * time.Millisecond)
	if p.Timeout < least || p.Timeout > most {
		bad("node.plugins.timeout", "%v: want %v to %v, for the container runtime waits 2s for the agent", p.Timeout.D(), least.D(), most.D())
	}
	if p.Interval < Duration(time.Second) {
		bad("node.plugins.interval", "%v: want at least 1s", p.Interval.D())
	}
	for i, m := range p.Mounts {
		if !strings.HasPrefix(m, "/") || path.Clean(m) != m || m == "/" {
			bad(fmt.Sprintf("node.plugins.mounts[%d]", i), "%q: want the absolute path of a directory below /", m)
		}
	}
}

// validateLogDirectories checks where log files are. A wildcard in the first part of a path would take in all of the host.
func validateLogDirectories(directories []string, bad report) {
	const most = 16
	if len(directories) > most {
		bad("node.logDirectories", "%d directories; write at most %d", len(directories), most)
	}
	for i, directory := range directories {
		first, _, _ := strings.Cut(strings.TrimPrefix(directory, "/"), "/")
		_, err := path.Match(directory, "")
		if !strings.HasPrefix(directory, "/") || path.Clean(directory) != directory || first == "" || strings.ContainsAny(first, `*?[\`) || err != nil {
			bad(fmt.Sprintf("node.logDirectories[%d]", i), "%q: want the absolute path of a directory below /, with wildcards in its later parts alone", directory)
		}
	}
}

// CheckNode returns every mistake in a node's configuration that has its defaults set, as Validate does. The controller and the agents hold parameters that come through
// the API server to it.
func CheckNode(n *Node) error { return collect(func(bad report) { validateNode(n, bad) }) }

// validateIO checks what is said of disks.
func validateIO(o *LendingIO, bad report) {
	const most = 10_000
	for _, x := range []struct {
		field  string
		weight int
	}{{"dedicated", o.Weights.Dedicated}, {"shared", o.Weights.Shared}, {"reclaimed", o.Weights.Reclaimed}} {
		if x.weight < 1 || x.weight > most {
			bad("node.lending.io.weights."+x.field, "%d: want 1 to %d", x.weight, most)
		}
	}
	if w := o.Weights.Pods; w < 0 || w > most {
		bad("node.lending.io.weights.pods", "%d: want 1 to %d, or 0 to leave it alone", w, most)
	}
	checkDisks("node.lending.io.costDevices", o.CostDevices, bad)
	names := make([]string, len(o.Ceilings))
	for i := range o.Ceilings {
		names[i] = o.Ceilings[i].Device
	}
	checkDisks("node.lending.io.ceilings", names, bad)
	names = make([]string, len(o.Disks))
	for i := range o.Disks {
		d := &o.Disks[i]
		names[i] = d.Device
		d.check(fmt.Sprintf("node.lending.io.disks[%d]", i), slices.Contains(o.CostDevices, d.Device), bad)
	}
	checkDisks("node.lending.io.disks", names, bad)
}

func validateLending(n *Node, bad report) {
	l := &n.Lending
	if l.TargetUtilization < 5 || l.TargetUtilization > 100 {
		bad("node.lending.targetUtilization", "%d: want 5 to 100 percent", l.TargetUtilization)
	}
	if l.Step < 1 || l.Step > 25 {
		bad("node.lending.step", "%d: want 1 to 25 percent: a pool that shrinks faster has hung machines", l.Step)
	}
	if l.Interval < Duration(10*time.Second) {
		bad("node.lending.interval", "%v: want at least 10s", l.Interval.D())
	}
	if n.Usage.RefreshInterval < n.WriteInterval {
		bad("node.usage.refreshInterval", "%v must not be shorter than node.writeInterval (%v)", n.Usage.RefreshInterval.D(), n.WriteInterval.D())
	}
	if l.RefreshInterval < n.WriteInterval {
		bad("node.lending.refreshInterval", "%v must not be shorter than node.writeInterval (%v)", l.RefreshInterval.D(), n.WriteInterval.D())
	}
	oneOf(bad, "node.lending.evictions", l.Evictions, EvictionsOn, EvictionsDryRun)
	validateIO(&l.IO, bad)
	l.Network.check(bad)
	if l.Record != "" && !strings.HasPrefix(l.Record, "/") {
		bad("node.lending.record", "%q is no absolute path", l.Record)
	}
	l.RDT.check("node.lending.rdt.", bad)
}

func validateTracing(t *Tracing, bad report) {
	if t.Endpoint != "" {
		scheme, at, _ := strings.Cut(t.Endpoint, "://")
		if at == "" || scheme != "http" && scheme != "https" {
			bad("tracing.endpoint", "%q is no URL of http or https; write one such as https://otel-collector.observability:4318", t.Endpoint)
		}
	}
	if t.SamplingRatePerMillion < 0 || t.SamplingRatePerMillion > 1_000_000 {
		bad("tracing.samplingRatePerMillion", "%d is not between 0 and 1000000", t.SamplingRatePerMillion)
	}
}

func validateLeaderElection(c *Configuration, bad report) {
	le := c.LeaderElection
	if le.RetryPeriod <= 0 {
		bad("leaderElection.retryPeriod", "%v is not positive", le.RetryPeriod.D())
	}
	if le.RenewDeadline <= le.RetryPeriod {
		bad("leaderElection.renewDeadline", "%v must be longer than retryPeriod (%v)", le.RenewDeadline.D(), le.RetryPeriod.D())
	}
	if le.LeaseDuration <= le.RenewDeadline {
		bad("leaderElection.leaseDuration", "%v must be longer than renewDeadline (%v)", le.LeaseDuration.D(), le.RenewDeadline.D())
	}
	timeout := c.Scheduling.Binding.WriteTimeout
	if timeout+le.RetryPeriod >= le.RenewDeadline {
		bad("scheduling.binding.writeTimeout", "%v plus leaderElection.retryPeriod (%v) must be shorter than renewDeadline (%v), or no write could ever start",
			timeout.D(), le.RetryPeriod.D(), le.RenewDeadline.D())
	}
}

func validateUnits(u *Units, t *Topology, bad report) {
	for _, x := range []struct {
		field string
		value Duration
	}{{"timeout", u.Timeout}, {"reserveAfter", u.ReserveAfter}, {"repairTimeout", u.RepairTimeout}} {
		if x.value <= 0 {
			bad("scheduling.units."+x.field, "%v is not positive", x.value.D())
		}
	}
	if len(t.Levels) > MaxTopologyLevels {
		bad("scheduling.topology.levels", "%d are too many; write at most %d", len(t.Levels), MaxTopologyLevels)
	}
	for i, level := range t.Levels {
		if level == "" || slices.Contains(t.Levels[:i], level) {
			bad(fmt.Sprintf("scheduling.topology.levels[%d]", i), "%q is empty or stands twice; name each node label once, the widest first", level)
		}
	}
}

func validateScheduling(s *Scheduling, bad report) {
	positive := func(field string, value int) {
		if value <= 0 {
			bad("scheduling."+field, "%d is not positive", value)
		}
	}
	positive("binding.maxInFlight", s.Binding.MaxInFlight)
	positive("binding.maxAhead", s.Binding.MaxAhead)
	positive("binding.maxAttempts", s.Binding.MaxAttempts)
	if s.Binding.VolumeTimeout <= 0 {
		bad("scheduling.binding.volumeTimeout", "%v is not positive", s.Binding.VolumeTimeout.D())
	}
	positive("conditions.burst", s.Conditions.Burst)
	positive("maxClassIndexes", s.MaxClassIndexes)
	if n := s.Schedulers; n < 1 || n > MaxSchedulers {
		bad("scheduling.schedulers", "%d is out of range; write 1 to %d, at most as many as there are CPUs", n, MaxSchedulers)
	}
	validatePartitions(&s.Partitions, bad)
	if most := s.MaxWaitingClasses; most != nil && *most < 0 {
		bad("scheduling.maxWaitingClasses", "%d is negative; write 0 for no bound", *most)
	}
	positive("evictions.burst", s.Evictions.Burst)
	if p := s.Evictions.PercentPerMinute; !(p >= 0 && p <= 100) {
		bad("scheduling.evictions.percentPerMinute", "%v is out of range; write 0 to 100", p)
	}
	validateOvercommit(&s.Overcommit, bad)
	oneOf(bad, "scheduling.nodeReports.policies", s.NodeReports.Policies, PoliciesRequire, PoliciesIgnore)
	for _, x := range []struct {
		field string
		value Duration
	}{
		{"nodeReports.staleAfter", s.NodeReports.StaleAfter}, {"nodeReports.usageStaleAfter", s.NodeReports.UsageStaleAfter}, {"reclaimed.staleAfter", s.Reclaimed.StaleAfter},
	} {
		if x.value <= 0 {
			bad("scheduling."+x.field, "%v is not positive", x.value.D())
		}
	}
	if s.Conditions.MinInterval < 0 {
		bad("scheduling.conditions.minInterval", "%v is negative; write 0s for no least time", s.Conditions.MinInterval.D())
	}
	positive("units.maxReservations", s.Units.MaxReservations)
	validateUnits(&s.Units, &s.Topology, bad)
	if s.Binding.WriteTimeout <= 0 {
		bad("scheduling.binding.writeTimeout", "%v is not positive", s.Binding.WriteTimeout.D())
	}
	if s.Conditions.PerSecond <= 0 {
		bad("scheduling.conditions.perSecond", "%v is not positive", s.Conditions.PerSecond)
	}
	if s.Backoff.Initial <= 0 || s.Backoff.Max < s.Backoff.Initial {
		bad("scheduling.backoff", "initial (%v) must be positive and at most max (%v)", s.Backoff.Initial.D(), s.Backoff.Max.D())
	}
	oneOf(bad, "scheduling.defaultSpread", s.DefaultSpread, DefaultSpreadSystem, DefaultSpreadNone)
	validateScores("scheduling", s.Scores, s.CapacityRatio, bad)
}

func validateScores(at string, scores map[string]int64, ratio []RatioPoint, bad report) {
	for i, point := range ratio {
		field := fmt.Sprintf("%s.capacityRatio[%d]", at, i)
		if point.Utilization < 0 || point.Utilization > 100 || point.Score < 0 || point.Score > 100 {
			bad(field, "utilization %d and score %d must be from 0 to 100", point.Utilization, point.Score)
		}
		if i > 0 && point.Utilization <= ratio[i-1].Utilization {
			bad(field, "utilization %d must be greater than that of the point before it (%d)", point.Utilization, ratio[i-1].Utilization)
		}
	}
	for name, weight := range scores {
		if weight < 0 || weight > MaxScoreWeight {
			bad(at+".scores."+name, "%d is out of range; write 0 to %d", weight, MaxScoreWeight)
		}
	}
}

// MaxScoreWeight bounds one score's weight, so that a weighted sum fits the index's 31-bit keys.
const MaxScoreWeight = 10_000
