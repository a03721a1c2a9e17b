package cluster

import (
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// nodeRow is what a state knows of a node beyond amounts. Nodes of which nothing was ever said or granted have none.
type nodeRow struct {
	report    *facts.NodeReport // nil: none
	numaNodes topology.NUMAFree
	// shape is what the node's GPUs and network cards are by its report, and devices what is left of them. Without devices the node itself
	// says how many GPUs it has.
	shape   topology.Shape
	devices *topology.DeviceFree
	from    shapeFrom // what shape was made of
	covered amounts   // what the pods request that are fully in the measured use
	// brought is what plugins bring and the report counts by NUMA node, and resources what is left of it; nil: there is none.
	brought   []topology.Resource
	resources *topology.ResourceFree
}

// deviceColumns are what is left of the slots' GPUs, NUMA nodes, network cards and plugins' resources, and what their reports say of these.
type deviceColumns struct {
	gpus    []topology.Free
	hasGPUs []bool
	rows    nodeRows
}

// NUMANodes returns what a node's NUMA nodes can promise and what is left of them; the caller must not change either. A node of which nothing is
// reported has no ruler and no NUMA nodes.
func (c *deviceColumns) NUMANodes(slot Slot) (*topology.NUMAShape, *topology.NUMAFree) {
	row := c.rows[slot]
	switch {
	case row == nil:
		return &topology.NUMAShape{}, &topology.NUMAFree{}
	case row.report == nil:
		return &topology.NUMAShape{}, &row.numaNodes
	}
	return &row.report.NUMANodes, &row.numaNodes
}

// Report returns what the node's agent says; nil: nothing.
func (c *deviceColumns) Report(slot Slot) *facts.NodeReport {
	if row := c.rows[slot]; row != nil {
		return row.report
	}
	return nil
}

// GPUs returns the GPU counters of a node; the caller must not change them.
func (c *deviceColumns) GPUs(slot Slot) *topology.Free { return &c.gpus[slot] }

// HasGPUs reports whether a node has any. It reads a column, not the node.
func (c *deviceColumns) HasGPUs(slot Slot) bool { return c.hasGPUs[slot] }

// CountsResources reports whether plugins bring a node something that its report counts by NUMA node.
func (c *deviceColumns) CountsResources(slot Slot) bool {
	row := c.rows[slot]
	return row != nil && row.resources != nil
}

// Headroom returns what the node's agent says of headroom; the zero value where it says nothing.
func (c *deviceColumns) Headroom(slot Slot) facts.Headroom {
	if r := c.Report(slot); r != nil {
		return r.Headroom
	}
	return facts.Headroom{}
}

// Shape returns what may be given of a node's GPUs and network cards: what its report says of them, or else what the node does; the caller must not
// change it.
func (s *State) Shape(slot Slot) *topology.Shape {
	if row := s.rows[slot]; row != nil && row.devices != nil {
		return &row.shape
	}
	return &s.nodes[slot].GPU
}

// View returns a node as package topology looks at it. Who changes what it points to changes the state.
func (s *State) View(slot Slot) topology.View {
	v := topology.View{Shape: &s.nodes[slot].GPU, Free: &s.gpus[slot]}
	if row := s.rows[slot]; row != nil {
		if row.devices != nil {
			v.Shape, v.Devices = &row.shape, row.devices
		}
		if row.report != nil {
			v.NUMANodes = &row.report.NUMANodes
		}
		v.NUMAFree = &row.numaNodes
		if row.resources != nil {
			v.Resources, v.ResourcesFree = row.brought, row.resources
		}
	}
	return v
}

// nodeRows is the rows by slot, nil where nothing was ever said or granted.
type nodeRows []*nodeRow

// get returns the slot's row, made if need be.
func (r nodeRows) get(slot Slot) *nodeRow {
	if r[slot] == nil {
		r[slot] = &nodeRow{}
	}
	return r[slot]
}

// copy copies a row from another state; each has its own.
func (r nodeRows) copy(slot Slot, from *nodeRow) {
	if from == nil {
		r[slot] = nil
		return
	}
	row := r.get(slot)
	devices, resources := row.devices, row.resources
	*row = *from
	row.devices, row.resources = own(devices, from.devices), own(resources, from.resources)
}

// own is a copy of what another state has, in the place of what was there.
func own[T any](before, from *T) *T {
	if from == nil {
		return nil
	}
	if before == nil {
		before = new(T)
	}
	*before = *from
	return before
}

// Offer chooses what of the node a pod of the class would be given: GPUs, network cards, and NUMA nodes. ok is false when there is not enough of one of
// them, or no room for what whole cores and whole NUMA nodes take beyond the request.
func (s *State) Offer(slot Slot, c *Class) (grant topology.Grant, ok bool) {
	if !c.AsksGrant() {
		return grant, true
	}
	v := s.View(slot)
	grant, ok = v.Offer(&c.GPU, &c.NUMANodes)
	return grant, ok && s.FitsExcess(slot, c, &grant.NUMANodes)
}

// FitsExcess reports whether a node has room for the request of the class together with what a grant takes beyond it.
func (s *State) FitsExcess(slot Slot, c *Class, g *topology.NUMAGrant) bool {
	cpu, memory := Excess(c, g)
	return (cpu == 0 || c.Amounts.Get(resource.CPU)+cpu <= s.Free(slot, resource.CPU)) &&
		(memory == 0 || c.Amounts.Get(resource.Memory)+memory <= s.Free(slot, resource.Memory))
}

// Excess is what a grant of NUMA nodes (nil: none) takes of the node beyond what pods of the class request, in millicores and bytes.
func Excess(c *Class, g *topology.NUMAGrant) (cpu, memory int64) {
	if g == nil || c.NUMANodes.IsZero() { // it holds nothing, or what it did not ask for: the NUMA nodes are charged, and they alone
		return 0, 0
	}
	cpus, mebibytes := g.Excess(c.NUMANodes)
	return 1000 * max(cpus, 0), topology.Mebibyte * max(mebibytes, 0)
}

// moveHeld charges what a pod of the class holds, sign times.
func (s *State) moveHeld(slot Slot, class *Class, held holding, sign int64) {
	if held.isZero() {
		return
	}
	numaNodes := held.numaNodes()
	if numaNodes != nil {
		s.rows.get(slot)
	}
	v, g := s.View(slot), held.grant()
	v.Shape.Devices.Complete(&g)
	if sign > 0 {
		v.Commit(&g)
	} else {
		v.Release(&g)
	}
	s.moveExcess(slot, class, numaNodes, sign)
}

// commit charges a grant to a slot of which the amounts of MIG instances are not known.
func commit(v *topology.View, g *topology.Grant) {
	complete := *g
	v.Shape.Devices.Complete(&complete)
	v.Commit(&complete)
}

// Held is what a pod on the slot holds, with the amounts of a MIG instance.
func (s *State) Held(slot Slot, pod *Pod) topology.Grant {
	g := pod.Grant()
	if g.Instance > 0 {
		s.Shape(slot).Devices.Complete(&g)
	}
	return g
}

// overdrawn reports whether more is held of a slot's devices, beside the compute of GPUs, than there is. No row has no devices.
func (r *nodeRow) overdrawn() bool {
	if r == nil || r.devices == nil {
		return false
	}
	d := r.devices
	for i := range topology.MaxGPUs {
		if d.Memory[i] < 0 || d.Clients[i] < 0 || d.Holders[i]&^0x11111111 != 0 {
			return true
		}
	}
	return slices.ContainsFunc(d.Bandwidth[:], func(left int32) bool { return left < 0 }) ||
		slices.ContainsFunc(d.Functions[:], func(left int16) bool { return left < 0 })
}

// What may be given of a node's GPUs and network cards follows from the node and from its report:
//
//	the report names no devices     as many GPUs as node.status says
//	Hilbert owns the devices        what the report says, and nothing of node.status
//	the kubelet owns them           as many whole GPUs as node.status says, which the kubelet chooses; the network cards of the report
//	nothing owns them               the network cards of the report
//	the report is too old           nothing: the agent that would hand the devices out is silent
//
// A report that says Hilbert, while node.status offers whole GPUs by number, is older than the device plugin that has come: nothing owns them
// until the agent has seen it.

// shapeFrom is what a shape was made of.
type shapeFrom struct {
	gpu     topology.Shape // the node's
	devices *topology.Devices
	silent  bool
}

// shape is what may be given where a report names devices.
func (f *shapeFrom) shape() topology.Shape {
	d := f.devices
	if d.Owner == topology.OwnerKubelet {
		d = counted(d, f.gpu.GPUs)
	}
	sold := d.Owner == topology.OwnerHilbert && f.gpu.GPUs > 0 && !f.gpu.Shareable
	if f.silent || sold {
		copied := *d
		if f.silent {
			copied.ClosedNICs = 1<<len(d.NIC) - 1
		}
		if d.Owner != topology.OwnerKubelet {
			copied.Owner = topology.OwnerNone
		}
		d = &copied
	}
	shape := topology.Shape{Model: f.gpu.Model, Devices: d}
	if d.Owner != topology.OwnerNone {
		shape.GPUs = len(d.GPU)
	}
	if shape.Model == "" && len(d.GPU) > 0 {
		shape.Model = d.GPU[0].Model
	}
	shape.Shareable = d.Owner == topology.OwnerHilbert && slices.ContainsFunc(d.GPU, func(g topology.GPU) bool { return g.Clients > 0 || len(g.Instances) > 0 })
	return shape
}

// counted is what the report says, with as many GPUs as the kubelet counts. Which of them they are is not known, so that they are nowhere, and have
// the least memory of all.
func counted(d *topology.Devices, count int) *topology.Devices {
	each := topology.GPU{Switch: topology.NoPlace, NUMANode: topology.NoPlace, Socket: topology.NoPlace}
	for i := range d.GPU {
		if i == 0 || d.GPU[i].Memory < each.Memory {
			each.Memory, each.Model = d.GPU[i].Memory, d.GPU[i].Model
		}
	}
	return &topology.Devices{
		Owner: topology.OwnerKubelet, NIC: d.NIC, ClosedNICs: d.ClosedNICs, GPU: slices.Repeat([]topology.GPU{each}, min(max(count, 0), topology.MaxGPUs)),
	}
}
