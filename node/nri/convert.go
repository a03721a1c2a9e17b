package nri

import (
	"os"
	"slices"
	"strings"

	"github.com/containerd/nri/pkg/api"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/cdi"
	resources "hilbert.dev/hilbert/node/plugin"
	"hilbert.dev/hilbert/node/runtime"
	"hilbert.dev/hilbert/topology"
)

const (
	// sharesPerCPU is what the kubelet makes of one CPU; minShares and maxShares are where it stops.
	sharesPerCPU = 1024
	minShares    = 2
	maxShares    = 262_144
	// idleShares is what the kubelet gives to containers that request no CPU.
	idleShares = minShares
)

// sandboxOf is a pod in node's words.
func sandboxOf(p *api.PodSandbox) runtime.Sandbox {
	linux := p.GetLinux()
	s := runtime.Sandbox{
		ID: p.GetId(), UID: p.GetUid(), Namespace: p.GetNamespace(), Name: p.GetName(),
		Labels: p.GetLabels(), Annotations: p.GetAnnotations(), Address: addressOf(p),
		Amounts: amountsOf(linux.GetPodOverhead(), linux.GetPodResources()), Processless: p.GetPid() == 0,
	}
	var err error
	if s.Cgroup, err = podCgroup(linux.GetCgroupParent()); err != nil {
		s.Trouble = err.Error()
	}
	s.BestEffort = bestEffort(s.Cgroup, s.Amounts)
	return s
}

// addressOf is the first of a pod's addresses. A pod in the node's network has none of its own: that would be the node's.
func addressOf(p *api.PodSandbox) string {
	own := slices.ContainsFunc(p.GetLinux().GetNamespaces(), func(n *api.LinuxNamespace) bool { return n.GetType() == "network" })
	if ips := p.GetIps(); own && len(ips) > 0 {
		return ips[0]
	}
	return ""
}

// bestEffort reports whether the kubelet counts the pod as BestEffort, which the runtime is told only by the cgroup that it is to use.
// Where the kubelet makes no cgroups for its classes, a pod that asks for nothing is.
func bestEffort(cgroup string, a runtime.Amounts) bool {
	classes := false
	for element := range strings.SplitSeq(cgroup, "/") {
		name := strings.TrimSuffix(element, sliceSuffix)
		if name == "besteffort" || strings.HasSuffix(name, "-besteffort") {
			return true
		}
		classes = classes || name == "kubepods" || strings.HasSuffix(name, "-kubepods")
	}
	return !classes && a == runtime.Amounts{}
}

// amountsOf sums what a pod asks for. The sum of its containers is the kubelet's; a sandbox's overhead comes on top.
func amountsOf(resources ...*api.LinuxResources) (a runtime.Amounts) {
	for _, r := range resources {
		a.MilliCPU += milliOf(r.GetCpu())
		a.MemoryLimit += max(r.GetMemory().GetLimit().GetValue(), 0)
	}
	return a
}

// milliOf turns shares back into the CPUs that were requested. The kubelet rounds down, so this rounds up. Where the shares end, a quota
// says more.
func milliOf(cpu *api.LinuxCPU) int64 {
	shares := cpu.GetShares().GetValue()
	if shares <= idleShares {
		return 0
	}
	if quota, period := cpu.GetQuota().GetValue(), cpu.GetPeriod().GetValue(); shares >= maxShares && quota > 0 && period > 0 {
		return quota * 1000 / int64(period)
	}
	return (int64(min(shares, maxShares))*1000 + sharesPerCPU - 1) / sharesPerCPU
}

// containerOf is a container in node's words.
func containerOf(c *api.Container) runtime.Container {
	linux := c.GetLinux()
	out := runtime.Container{ID: c.GetId(), Sandbox: c.GetPodSandboxId(), Name: c.GetName()}
	switch c.GetState() {
	case api.ContainerState_CONTAINER_STOPPED:
		out.Stopped = true
	case api.ContainerState_CONTAINER_CREATED, api.ContainerState_CONTAINER_RUNNING, api.ContainerState_CONTAINER_PAUSED:
		out.Exists = true
	default: // not made yet
	}
	var err error
	if out.Cgroup, err = containerCgroup(linux.GetCgroupsPath()); err != nil {
		out.Trouble = err.Error()
	}
	out.MemoryLimit = max(linux.GetResources().GetMemory().GetLimit().GetValue(), 0)
	if score := linux.GetOomScoreAdj(); score != nil {
		out.OOMScoreAdj = new(int(score.GetValue()))
	}
	cpu := linux.GetResources().GetCpu()
	out.CPUs, _ = topology.ParseCPUSet(cpu.GetCpus()) // the kernel has read it, or will refuse it
	out.Mems, _ = topology.ParseCPUSet(cpu.GetMems())
	out.Env = c.GetEnv()
	for _, m := range c.GetMounts() {
		out.Mounts = append(out.Mounts, m.GetDestination())
	}
	for _, d := range c.GetCDIDevices() {
		out.CDI = append(out.CDI, d.GetName())
	}
	for _, d := range linux.GetDevices() {
		out.Devices = append(out.Devices, d.GetPath())
	}
	out.MilliCPU, out.Mark = milliOf(cpu), c.GetAnnotations()[spec.AnnotationAdjusted]
	if user := c.GetUser(); user != nil { // containerd says it since 2.3
		out.User = new(user.GetUid())
	}
	out.UserNamespace = slices.ContainsFunc(linux.GetNamespaces(), func(n *api.LinuxNamespace) bool { return n.GetType() == "user" })
	return out
}

// adjustmentOf is what a new container gets. Empty sets leave the runtime's own.
func adjustmentOf(a runtime.Adjustment) *api.ContainerAdjustment {
	out := &api.ContainerAdjustment{}
	if !a.CPUs.IsEmpty() {
		out.SetLinuxCPUSetCPUs(a.CPUs.String())
	}
	if !a.Mems.IsEmpty() {
		out.SetLinuxCPUSetMems(a.Mems.String())
	}
	if a.OOMScoreAdj != nil {
		out.SetLinuxOomScoreAdj(a.OOMScoreAdj)
	}
	addEdits(out, &a.Devices)
	addContribution(out, &a.Resources)
	if a.Mark.Container != "" {
		out.AddAnnotation(spec.AnnotationAdjusted, a.Mark.String())
	}
	return out
}

// addEdits hands CDI devices on by name: the runtime resolves them, in the specifications that the agent read them from. A variable takes the place of
// one of that name, and a mount that of one at the same place.
func addEdits(out *api.ContainerAdjustment, e *cdi.Edits) {
	for _, name := range e.Devices {
		out.AddCDIDevice(&api.CDIDevice{Name: name})
	}
	for _, variable := range e.Env {
		name, value, _ := strings.Cut(variable, "=")
		out.AddEnv(name, value)
	}
	for _, place := range e.Without {
		out.RemoveMount(place)
	}
	for _, m := range e.Mounts {
		out.AddMount(&api.Mount{Source: m.Source, Destination: m.Place, Type: "bind", Options: m.Options})
	}
}

// addContribution hands on what plugins contribute.
func addContribution(out *api.ContainerAdjustment, c *resources.Contribution) {
	for _, variable := range c.Env {
		name, value, _ := strings.Cut(variable, "=")
		out.AddEnv(name, value)
	}
	for _, d := range c.Devices {
		const everybody = os.FileMode(0o666) // NRI lets a container read and write each device that it gets
		out.AddDevice(&api.LinuxDevice{Path: d.Path, Type: d.Type, Major: d.Major, Minor: d.Minor, FileMode: api.FileMode(everybody)})
	}
	for _, m := range c.Mounts {
		access := "ro"
		if m.Writable {
			access = "rw"
		}
		out.AddMount(&api.Mount{Source: m.Source, Destination: m.Place, Type: "bind", Options: []string{"rbind", "rprivate", access, "nosuid", "nodev"}})
	}
	for key, value := range c.Annotations {
		out.AddAnnotation(key, value)
	}
}

// updateOf is what a running container gets. One that has ended meanwhile is no failure.
func updateOf(u runtime.Update) *api.ContainerUpdate {
	out := &api.ContainerUpdate{}
	out.SetContainerId(u.Container)
	if !u.CPUs.IsEmpty() {
		out.SetLinuxCPUSetCPUs(u.CPUs.String())
	}
	if !u.Mems.IsEmpty() {
		out.SetLinuxCPUSetMems(u.Mems.String())
	}
	return out
}

func updatesOf(updates []runtime.Update) []*api.ContainerUpdate {
	out := make([]*api.ContainerUpdate, len(updates))
	for i := range updates {
		out[i] = updateOf(updates[i])
	}
	return out
}

// idsOf names the containers that the runtime could not update.
func idsOf(failed []*api.ContainerUpdate) []string {
	ids := make([]string, len(failed))
	for i, u := range failed {
		ids[i] = u.GetContainerId()
	}
	slices.Sort(ids)
	return ids
}
