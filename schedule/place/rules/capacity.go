package rules

import (
	"math"
	"slices"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// How many pods of a class a node could take. Both counts, of what passes the filters and of what fits once some pods have left, offer GPUs,
// network cards and NUMA nodes to one pod after the other on a copy of what the node has left.

// unlimitedPods is the capacity of a node for pods that take nothing of it.
const unlimitedPods = int32(1) << 20

// PodsThatPass is how many pods of the class, all together, pass the filters that look at one node. The static ones have agreed.
func PodsThatPass(s *cluster.State, slot cluster.Slot, c *cluster.Class) int32 {
	if !FitsIn(Local, s, slot, c) {
		return 0
	}
	if apart(c) {
		return 1 // the second would want the same ports, or disk
	}
	most := min(int64(unlimitedPods), s.PodsAttachable(slot, c))
	for _, a := range c.Amounts {
		if a.Value > 0 {
			if free, ok := s.Room(slot, c, a.Kind); ok {
				most = min(most, free/a.Value)
			}
		}
	}
	if c.AsksGrant() {
		var left Unused
		v := left.Load(s, slot)
		most = grantsThatFit(&v, &left, c, most)
	}
	if c.Claims != nil {
		most = podsWithDevices(s, slot, c, most)
	}
	return int32(most)
}

// podsWithDevices is how many pods of the class, up to a maximum, the node can give what their ResourceClaims ask for. Pods with a claim in common have its devices in
// common.
func podsWithDevices(s *cluster.State, slot cluster.Slot, c *cluster.Class, most int64) int64 {
	view, needs := s.DeviceView(slot), s.ClaimNeeds(slot, c)
	switch {
	case len(c.Claims.Shared) == 0:
		return int64(view.Room(needs, int(most)))
	case view.Fits(s.Node(slot), needs):
		return most
	}
	return 0
}

// apart reports whether no two pods of the class can be on one node, for they take the same ports or disk.
func apart(c *cluster.Class) bool {
	return len(c.Ports) > 0 || slices.ContainsFunc(c.Disks, func(d facts.Disk) bool { return !d.ReadOnly })
}

// PodsThatFit is how many more pods of a class fit on the node by amounts, ports and devices, whatever other filters say.
func PodsThatFit(s *cluster.State, slot cluster.Slot, c *cluster.Class) int {
	return PodsThatFitWithout(s, slot, c, nil)
}

// PodsThatFitWithout is how many pods of a class fit on the node when some of those on it have left.
func PodsThatFitWithout(s *cluster.State, slot cluster.Slot, c *cluster.Class, leaving []*cluster.Pod) int {
	n := int64(math.MaxInt32)
	for _, a := range c.Amounts {
		free, takes := s.Room(slot, c, a.Kind)
		if !takes {
			continue
		}
		for _, pod := range leaving {
			if pod.Priority < spec.CriticalPriority {
				free = resource.Add(free, pod.Class.Amounts.Get(a.Kind)+excessOf(pod, a.Kind))
			}
		}
		n = min(n, max(free, 0)/a.Value)
	}
	if apart(c) {
		n = min(n, 1)
	}
	n = min(n, s.PodsAttachableWithout(slot, c, leaving))
	if c.Claims != nil && n > 0 { // who leaves gives no devices back: their claims keep them
		n = podsWithDevices(s, slot, c, n)
	}
	if n == 0 || !c.AsksGrant() {
		return int(n)
	}
	var left Unused
	v := left.Load(s, slot)
	for _, pod := range leaving {
		if pod.Priority < spec.CriticalPriority {
			giveBack(s, slot, &v, &left, pod)
		}
	}
	return int(grantsThatFit(&v, &left, c, n))
}

// Unused is what a node has left: of CPUs and memory as a whole in millicores and bytes, and of GPUs, NUMA nodes and devices.
type Unused struct {
	cpu, memory int64
	gpus        topology.Free
	numaNodes   topology.NUMAFree
	devices     topology.DeviceFree
	resources   topology.ResourceFree
}

// restOf copies what a node has left, and returns the node with that.
func (l *Unused) Load(s *cluster.State, slot cluster.Slot) topology.View {
	l.cpu, l.memory = s.Free(slot, resource.CPU), s.Free(slot, resource.Memory)
	v := s.View(slot)
	l.gpus = *v.Free
	v.Free = &l.gpus
	if v.Devices != nil {
		l.devices = *v.Devices
		v.Devices = &l.devices
	}
	if v.NUMAFree != nil {
		l.numaNodes = *v.NUMAFree
		v.NUMAFree = &l.numaNodes
	}
	if v.ResourcesFree != nil {
		l.resources = *v.ResourcesFree
		v.ResourcesFree = &l.resources
	}
	return v
}

// grantsThatFit is how often, up to a maximum, a node would offer a pod of the class GPUs, network cards and NUMA nodes, each grant committed
// before the next is asked for.
func grantsThatFit(v *topology.View, left *Unused, c *cluster.Class, most int64) (n int64) {
	switch {
	case !asksDevices(c) && c.NUMANodes.IsZero() && !c.GPU.Near.Required && !v.BringsAny(&c.GPU):
		return most // nothing but amounts
	case c.NUMANodes.IsZero() && v.Devices == nil && !v.BringsAny(&c.GPU):
		return min(most, countedThatFit(v.Shape, v.Free, &c.GPU))
	case !asksBoth(c) && v.NUMANodes != nil && v.NUMANodes.Ruler == topology.RulerKubelet && c.NUMANodes.Binding == topology.Unbound && !asksDevices(c) && !v.BringsAny(&c.GPU):
		return most
	}
	eachCPU, eachMemory := c.Amounts.Get(resource.CPU), c.Amounts.Get(resource.Memory)
	for n < most {
		grant, ok := v.Offer(&c.GPU, &c.NUMANodes)
		if !ok {
			break
		}
		if !c.NUMANodes.IsZero() {
			moreCPU, moreMemory := cluster.Excess(c, &grant.NUMANodes)
			wantCPU, wantMemory := eachCPU+moreCPU, eachMemory+moreMemory
			if wantCPU > max(left.cpu, 0) || wantMemory > max(left.memory, 0) {
				break
			}
			left.cpu, left.memory = left.cpu-wantCPU, left.memory-wantMemory
		}
		v.Commit(&grant)
		n++
	}
	return n
}

// countedThatFit is grantsThatFit where GPUs are counters.
func countedThatFit(shape *topology.Shape, free *topology.Free, r *topology.Request) int64 {
	if r.NeedsReport() || r.Milli > 0 && !shape.Shareable {
		return 0
	}
	var idle, parts int64
	for i := range shape.GPUs {
		if free[i] == topology.FullGPU {
			idle++
		}
		if r.Milli > 0 && free[i] > 0 {
			parts += int64(free[i]) / int64(r.Milli)
		}
	}
	if r.Milli > 0 {
		return parts
	}
	return idle / int64(r.Whole)
}

// giveBack gives back what a pod on a node holds, to try what would be if it had left.
func giveBack(s *cluster.State, slot cluster.Slot, v *topology.View, left *Unused, pod *cluster.Pod) {
	left.cpu = resource.Add(left.cpu, pod.Class.Amounts.Get(resource.CPU)+excessOf(pod, resource.CPU))
	left.memory = resource.Add(left.memory, pod.Class.Amounts.Get(resource.Memory)+excessOf(pod, resource.Memory))
	if g := s.Held(slot, pod); !g.IsZero() {
		v.Release(&g)
	}
}

// excessOf is what a pod takes of its node's CPUs or memory beyond what it requests.
func excessOf(pod *cluster.Pod, kind resource.Kind) int64 {
	cpu, memory := cluster.Excess(pod.Class, pod.NUMANodes())
	switch kind {
	case resource.CPU:
		return cpu
	case resource.Memory:
		return memory
	default:
		return 0
	}
}
