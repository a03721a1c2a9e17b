package cluster

import (
	"hilbert.dev/hilbert/topology"
)

// parts is a set of the things that a grant gives.
type parts uint8

const (
	partGPUs parts = 1 << iota
	partNICs
	partNUMANodes
	partResources
)

// holding is what a pod holds of its node beside the amounts of its class. It is a Grant that is cheap to pass on: few pods have more than
// some GPUs as a count has them.
type holding struct {
	gpus  uint16
	milli int16
	all   *topology.Grant // nil: gpus and milli are all; never changed
}

func (p *Pod) holding() holding { return holding{p.gpus, p.milli, p.held} }

// hold makes the pod hold something.
func (p *Pod) hold(h holding) { p.gpus, p.milli, p.held = h.gpus, h.milli, h.all }

// holdingOf is the holding that a grant gives.
func holdingOf(g *topology.Grant) holding {
	if *g == (topology.Grant{}) { // most pods: spare them the copies
		return holding{}
	}
	normal := *g
	normalize(&normal)
	h := holding{gpus: normal.GPUs, milli: normal.Milli}
	if normal == h.grant() { // before anything else: the usual case is not to allocate
		return h
	}
	copied := normal
	h.all = &copied
	return h
}

// normalize makes equal what gives the same. The amounts of a MIG instance are the instance's, and are known where it is; so are they left out, as the
// Binding leaves them out.
func normalize(g *topology.Grant) {
	account(g)
	if g.Instance > 0 {
		g.Milli, g.Memory, g.Isolation = 0, 0, topology.Hard
	}
}

// account makes a part of a GPU of which nothing is said of isolation one that is kept account of.
func account(g *topology.Grant) {
	if g.Milli > 0 && g.Milli < topology.FullGPU && g.Isolation == topology.IsolationAny {
		g.Isolation = topology.Accounting
	}
}

func (h holding) isZero() bool { return h.gpus == 0 && h.all == nil }

func (h holding) grant() topology.Grant {
	if h.all != nil {
		return *h.all
	}
	g := topology.Grant{GPUs: h.gpus, Milli: h.milli}
	normalize(&g)
	return g
}

// NUMA nodes is the part of it that is of NUMA nodes, nil for nothing.
func (h holding) numaNodes() *topology.NUMAGrant {
	if h.all == nil || h.all.NUMANodes.IsZero() {
		return nil
	}
	return &h.all.NUMANodes
}

// same reports whether two holdings give the same.
func (h holding) same(o holding) bool {
	return h.gpus == o.gpus && h.milli == o.milli && (h.all == o.all || h.all != nil && o.all != nil && *h.all == *o.all)
}

// take replaces the parts of a grant by those of another.
func take(g, from *topology.Grant, which parts) {
	if which&partGPUs != 0 {
		g.GPUs, g.Milli, g.Memory, g.Isolation, g.Instance, g.Tenant = from.GPUs, from.Milli, from.Memory, from.Isolation, from.Instance, from.Tenant
	}
	if which&partNICs != 0 {
		g.NICs, g.NIC = from.NICs, from.NIC
	}
	if which&partNUMANodes != 0 {
		g.NUMANodes = from.NUMANodes
	}
	if which&partResources != 0 {
		g.Resources = from.Resources
	}
}

// forget takes away what the pod was guessed to hold of some parts.
func (p *Pod) forget(which parts) {
	if which == 0 {
		return
	}
	g := p.Grant()
	take(&g, &topology.Grant{}, which)
	p.hold(holdingOf(&g))
}

// lacking lists what the class asks for and the grant says nothing of.
func (c *Class) lacking(g *topology.Grant) (lacks parts) {
	if !c.AsksGrant() {
		return 0
	}
	if g.GPUs == 0 && !c.GPU.IsZero() {
		lacks |= partGPUs
	}
	if g.NICs == 0 && c.GPU.NIC.Count > 0 {
		lacks |= partNICs
	}
	if !c.NUMANodes.IsZero() && g.NUMANodes.IsZero() {
		lacks |= partNUMANodes
	}
	if c.GPU.Resources != "" && g.Resources == "" {
		lacks |= partResources
	}
	return lacks
}

// AsksGrant reports whether pods of the class may be given anything beside amounts: GPUs, network cards, exclusive CPUs, or what plugins bring by NUMA node.
func (c *Class) AsksGrant() bool {
	return !c.GPU.IsZero() || c.GPU.NIC.Count > 0 || !c.NUMANodes.IsZero() || c.GPU.Resources != ""
}

// guessed lists what of the pod's holding is a guess: its Binding did not record it, and its node has not said it.
func (p *Pod) guessed() parts { return p.unrecorded &^ p.said }

// Guessed reports whether something that the pod holds is a guess, because no record says what it is.
func (p *Pod) Guessed() bool { return p.guessed() != 0 }

// Confirmed reports whether the pod's node says what the pod holds of it.
func (p *Pod) Confirmed() bool { return p.said != 0 }

// Said reports what of it the node says: what the pod holds of NUMA nodes, and of what plugins bring. It may say the one and not the other.
func (p *Pod) Said() (numaNodes, resources bool) {
	return p.said&partNUMANodes != 0, p.said&partResources != 0
}

// Moved reports whether the node gave the pod something else than its Binding promised.
func (p *Pod) Moved() bool {
	if p.said == 0 || p.recorded == nil {
		return false
	}
	g, promise, both := p.Grant(), p.recorded, p.said&^p.unrecorded
	return both&partGPUs != 0 && (g.GPUs != promise.GPUs || g.Instance != promise.Instance) ||
		both&partNICs != 0 && g.NICs != promise.NICs || both&partResources != 0 && g.Resources != promise.Resources || both&partNUMANodes != 0 && g.NUMANodes != promise.NUMANodes
}

// Promise returns what the pod's Binding said that it is given. ok is false where it said nothing.
func (p *Pod) Promise() (g topology.Grant, ok bool) {
	switch {
	case p.said == 0:
		g = p.Grant()
		take(&g, &topology.Grant{}, p.unrecorded)
	case p.recorded != nil:
		g = *p.recorded
	}
	return g, !g.IsZero()
}

// recall leaves the pod with what its Binding said.
func (p *Pod) recall() {
	if p.said == 0 && p.unrecorded == 0 {
		return
	}
	g, _ := p.Promise()
	p.hold(holdingOf(&g))
	p.recorded, p.said = nil, 0
}

// confirm makes the pod, which holds what its Binding said, hold what its node says.
func (p *Pod) confirm(held *topology.Grant, said parts) {
	if said == 0 {
		return
	}
	g, ok := p.Promise()
	if ok {
		promise := g
		p.recorded = &promise
	}
	take(&g, held, said)
	p.hold(holdingOf(&g))
	p.said = said
}

// left is what is left of a node beside amounts.
type left struct {
	gpus      topology.Free
	numaNodes topology.NUMAFree
	devices   topology.DeviceFree
	resources topology.ResourceFree
}

// is reports whether a slot has as much left.
func (l *left) is(s *State, slot Slot) bool {
	if s.gpus[slot] != l.gpus {
		return false
	}
	row := s.rows[slot]
	if row == nil {
		return l.numaNodes == topology.NUMAFree{} && l.devices == topology.DeviceFree{} && l.resources == topology.ResourceFree{}
	}
	return row.numaNodes == l.numaNodes && (row.resources == nil && l.resources == topology.ResourceFree{} || row.resources != nil && *row.resources == l.resources) && (row.devices == nil && l.devices == topology.DeviceFree{} || row.devices != nil && *row.devices == l.devices)
}

// empty fills in what a slot has left without any pod, and returns the slot with that.
func (l *left) empty(s *State, slot Slot) topology.View {
	shape := s.Shape(slot)
	v := topology.View{Shape: shape, Free: &l.gpus, NUMAFree: &l.numaNodes}
	l.gpus = topology.NewFree(*shape)
	if row := s.rows[slot]; row != nil {
		if row.devices != nil {
			l.devices = topology.NewDeviceFree(shape.Devices)
			v.Devices = &l.devices
		}
		if row.report != nil {
			v.NUMANodes = &row.report.NUMANodes
			l.numaNodes = topology.NewNUMAFree(v.NUMANodes)
		}
		if row.resources != nil {
			l.resources = topology.NewResourceFree(row.brought)
			v.Resources, v.ResourcesFree = row.brought, &l.resources
		}
	}
	return v
}

// guess chooses those parts of a grant that a pod of the class has though no record says which: what would be offered, else what is left the most of. NUMA nodes
// are exactly what is asked for.
func guess(v *topology.View, c *Class, which parts) (g topology.Grant) {
	if which&partNUMANodes != 0 && v.NUMANodes != nil {
		g.NUMANodes = topology.ForceNUMA(v.NUMANodes, v.NUMAFree, c.NUMANodes)
	}
	r := c.GPU
	if which&partGPUs == 0 {
		r.Milli, r.Whole, r.Memory, r.Isolation = 0, 0, 0, topology.IsolationAny
	}
	if which&partNICs == 0 {
		r.NIC = topology.NICRequest{}
	}
	if which&partResources == 0 {
		r.Resources = ""
	}
	if which&(partGPUs|partNICs|partResources) != 0 {
		offer := v.Force(&r, nil)
		take(&g, &offer, which&^partNUMANodes)
	}
	return g
}
