package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/topology"
)

// Bounds of the definition in deploy/crds. What goes beyond them is left out: a report that is refused whole would silence the node.
const (
	maxPools      = 256
	maxHeld       = 1024
	maxDevices    = 128
	maxEvictions  = 16
	maxNamed      = 5    // pods that a message names
	maxMessage    = 1024 // bytes
	maxAttribute  = 256  // bytes
	bytesInMiB    = topology.Mebibyte
	mebibytesInGi = 1024
)

// Message is a text, within the bound that the definition has for messages.
func Message(text string) string { return cut(text, maxMessage) }

// Build lays out what is to be said of a node: its machine, what the allocator has given away, what can be lent (nil: nothing is said of
// it), and the conditions that the agent knows of. NUMANodesClosed, UnlabelledBestEffort and BandwidthNotSeparated follow from the allocator's report unless they are among them. Nothing given is kept.
func Build(m *topology.Machine, r *allocate.Report, lent *spec.Colocation, conditions []spec.NodeCondition) *spec.NodeReport {
	out := &spec.NodeReport{
		Status: spec.NodeStatus{Mode: r.Mode, ThreadsPerCore: m.Threads(), BindsShared: r.Mode == spec.ModeAgent && r.Shape.BindsShared, SeparatesBandwidth: r.Mode == spec.ModeAgent && r.Shape.SeparatesBandwidth, Topology: tree(m, r), Pools: pools(r), Colocation: bounded(lent), Summary: summary(m, r)},
	}
	out.Conditions = complete(conditions, r)
	return out
}

// bounded is what is said of lending, within the bounds of the definition.
func bounded(c *spec.Colocation) *spec.Colocation {
	if c == nil {
		return nil
	}
	out := *c
	out.Closed = cut(c.Closed, maxMessage)
	out.NUMANodes = slices.Clone(c.NUMANodes)
	for i := range out.NUMANodes {
		out.NUMANodes[i].Message = cut(out.NUMANodes[i].Message, maxMessage)
	}
	out.Evictions = slices.Clone(c.Evictions[:min(len(c.Evictions), maxEvictions)])
	for i := range out.Evictions {
		out.Evictions[i].Message = cut(out.Evictions[i].Message, maxMessage)
	}
	return &out
}

// tree is the sockets with their NUMA nodes and devices, then the devices that are near none.
func tree(m *topology.Machine, r *allocate.Report) []spec.TopologyElement {
	sockets := make(map[int]*spec.TopologyElement)
	var order []int
	for i := range m.NUMA {
		number := socketOf(m, i)
		if sockets[number] == nil {
			sockets[number] = &spec.TopologyElement{Type: spec.ElementSocket, Name: strconv.Itoa(number)}
			order = append(order, number)
		}
		sockets[number].Children = append(sockets[number].Children, numaNode(m, r, i))
	}
	slices.Sort(order)
	out := make([]spec.TopologyElement, 0, len(order))
	for _, number := range order {
		out = append(out, *sockets[number])
	}
	return append(out, devices(m, func(d *topology.Device) bool {
		return !slices.ContainsFunc(m.NUMA, func(n topology.NUMANode) bool { return n.ID == d.NUMA })
	})...)
}

// socketOf is the socket of a NUMA node: that of its CPUs; of memory alone, that of the nearest CPUs.
func socketOf(m *topology.Machine, index int) int {
	nearest, best := 0, -1
	for i := range m.CPUs {
		c := &m.CPUs[i]
		if c.NUMA == m.NUMA[index].ID {
			return c.Socket
		}
		at := slices.IndexFunc(m.NUMA, func(n topology.NUMANode) bool { return n.ID == c.NUMA })
		if at < 0 || at >= len(m.NUMA[index].Distances) {
			continue
		}
		if distance := m.NUMA[index].Distances[at]; best < 0 || distance < best {
			nearest, best = c.Socket, distance
		}
	}
	return nearest
}

func numaNode(m *topology.Machine, r *allocate.Report, index int) spec.TopologyElement {
	n := &m.NUMA[index]
	z := spec.TopologyElement{
		Type: spec.ElementNUMANode, Name: strconv.Itoa(n.ID),
		Capacity:    &spec.NUMAAmounts{CPUs: n.CPUs.Len(), CPUSet: n.CPUs.String(), MemoryMiB: n.Memory / bytesInMiB},
		Allocatable: &spec.NUMAAmounts{},
		Children:    devices(m, func(d *topology.Device) bool { return d.NUMA == n.ID }),
	}
	if index < int(r.Shape.NUMANodes) {
		may := r.Shape.NUMANode[index]
		z.Allocatable.CPUs, z.Allocatable.MemoryMiB = int(may.CPUs), int64(may.Memory)
		if set := n.CPUs.Minus(r.Reserved); set.Len() == int(may.CPUs) { // not so where a core has a thread offline
			z.Allocatable.CPUSet = set.String()
		}
		z.Closed = closed(r, index)
	}
	z.Allocations = allocations(n, r, index)
	return z
}

// closed reports whether a NUMA node gives nothing new.
func closed(r *allocate.Report, numa int) bool {
	return r.Shape.Closed&(1<<numa) != 0 || slices.ContainsFunc(r.Closed, func(c allocate.Closed) bool { return c.NUMANode == numa })
}

// allocations are what the pods hold of a NUMA node, by UID. CPUs of a pod's own count as they are, whatever the grant says.
func allocations(n *topology.NUMANode, r *allocate.Report, index int) (out []spec.NUMAAllocation) {
	for i := range r.Held {
		h := &r.Held[i]
		a := spec.NUMAAllocation{
			Namespace: h.Namespace, Name: h.Name, UID: h.UID,
			Exclusive: h.Request.Binding == topology.Exclusive, Moved: h.Moved, Bandwidth: h.Grant.Bandwidth.String(),
		}
		set := h.CPUs.Intersection(n.CPUs)
		a.CPUs, a.CPUSet = set.Len(), set.String()
		if a.Shared = h.Request.Binding == topology.BoundShared; a.Shared && index < topology.MaxNUMANodes {
			a.CPUs, a.CPUSet = int(h.Grant.CPUs[index]), ""
		}
		if index < topology.MaxNUMANodes {
			a.MemoryMiB = int64(h.Grant.Memory[index])
		}
		if a.CPUs > 0 || a.MemoryMiB > 0 {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b spec.NUMAAllocation) int { return cmp.Compare(a.UID, b.UID) })
	return out[:min(len(out), maxHeld)]
}

// kinds are the devices that are told of. Bridges are an attribute of what is below them.
var kinds = map[topology.DeviceKind]string{
	topology.DeviceGPU: spec.ElementGPU, topology.DeviceNIC: spec.ElementNIC, topology.DeviceDisk: spec.ElementDisk,
}

// devices lists devices by address. Virtual functions are not among them: a NIC can have hundreds, and how many is its attribute.
func devices(m *topology.Machine, among func(*topology.Device) bool) (out []spec.TopologyElement) {
	for i := range m.Devices {
		d := &m.Devices[i]
		kind := kinds[d.Kind]
		if kind == "" || d.PhysicalFunction != "" || !among(d) {
			continue
		}
		z := spec.TopologyElement{Type: kind, Name: d.Address, Attributes: make(map[string]string)}
		for name, value := range map[string]string{
			"vendor": d.Vendor, "model": d.Model, "switch": d.Parent, "names": strings.Join(d.Names, ","), "rdma": strings.Join(d.RDMA, ","),
		} {
			if value != "" {
				z.Attributes[name] = cut(value, maxAttribute)
			}
		}
		if d.MaxVirtualFunctions > 0 {
			z.Attributes["maxVirtualFunctions"] = strconv.Itoa(d.MaxVirtualFunctions)
		}
		if len(z.Attributes) == 0 {
			z.Attributes = nil
		}
		out = append(out, z)
	}
	slices.SortFunc(out, func(a, b spec.TopologyElement) int { return cmp.Compare(a.Name, b.Name) })
	return out[:min(len(out), maxDevices)]
}

func pools(r *allocate.Report) (out []spec.Pool) {
	for _, p := range r.Pools {
		out = append(out, spec.Pool{Name: p.Name, CPUSet: p.CPUs.String(), Pods: p.Pods})
	}
	slices.SortFunc(out, func(a, b spec.Pool) int { return cmp.Compare(a.Name, b.Name) })
	return out[:min(len(out), maxPools)]
}

// summary sums the NUMA nodes up that may still give something.
func summary(m *topology.Machine, r *allocate.Report) spec.NodeSummary {
	s := spec.NodeSummary{NUMANodes: len(m.NUMA)}
	for i := range r.Held {
		if r.Held[i].Request.Binding != topology.BoundShared {
			s.DedicatedPods++
		}
	}
	var memory int64
	if r.Mode == spec.ModeAgent {
		for z := range int(r.Shape.NUMANodes) {
			if !closed(r, z) {
				s.FreeCPUs += int(max(r.Free[z].CPUs, 0))
				memory += max(r.Free[z].Memory, 0)
			}
		}
	}
	s.FreeMemory = fmt.Sprintf("%dMi", memory)
	if memory >= mebibytesInGi {
		s.FreeMemory = fmt.Sprintf("%dGi", memory/mebibytesInGi)
	}
	return s
}

// complete returns the conditions by type, with those that follow from the allocator's report.
func complete(given []spec.NodeCondition, r *allocate.Report) []spec.NodeCondition {
	out := slices.Clone(given)
	for _, c := range []spec.NodeCondition{numaNodesClosed(r), unlabelled(r), unseparated(r)} {
		if !slices.ContainsFunc(out, func(o spec.NodeCondition) bool { return o.Type == c.Type }) {
			out = append(out, c)
		}
	}
	for i := range out {
		out[i].Message = cut(out[i].Message, maxMessage)
	}
	slices.SortStableFunc(out, func(a, b spec.NodeCondition) int { return cmp.Compare(a.Type, b.Type) })
	return slices.CompactFunc(out, func(a, b spec.NodeCondition) bool { return a.Type == b.Type })
}

func numaNodesClosed(r *allocate.Report) spec.NodeCondition {
	c := spec.NodeCondition{Type: spec.ConditionNUMANodesClosed, Reason: spec.ReasonNUMANodesOpen, True: len(r.Closed) > 0}
	if !c.True {
		return c
	}
	var words []string
	for _, numa := range r.Closed {
		words = append(words, fmt.Sprintf("NUMA node %d: %s", numa.NUMANode, numa.Why.Message))
	}
	c.Reason, c.Message = cmp.Or(r.Closed[0].Why.Reason, spec.ReasonPromiseBroken), strings.Join(words, "; ")
	return c
}

func unlabelled(r *allocate.Report) spec.NodeCondition {
	c := spec.NodeCondition{Type: spec.ConditionQoSUnsaid, Reason: spec.ReasonAllLabelled, True: len(r.Unlabelled) > 0}
	if !c.True {
		return c
	}
	c.Reason, c.Message = spec.ReasonUnlabelled, "BestEffort pods without a QoS level run in the shared pool: "+someOf(r.Unlabelled)
	return c
}

func unseparated(r *allocate.Report) spec.NodeCondition {
	c := spec.NodeCondition{Type: spec.ConditionBandwidth, Reason: spec.ReasonSeparated, True: len(r.Unseparated) > 0}
	if c.True {
		c.Reason, c.Message = spec.ReasonTooFewCPUs, "memory-intensive pods run in NUMA nodes of bandwidth-sensitive ones, because there are too few CPUs elsewhere or because they were promised room there: "+someOf(r.Unseparated)
	}
	return c
}

// someOf lists the first names, and says how many more there are.
func someOf(names []string) string {
	text := strings.Join(names[:min(len(names), maxNamed)], ", ")
	if more := len(names) - maxNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// cut shortens a text to a number of bytes, at the border of a character.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}
