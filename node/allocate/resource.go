package allocate

import (
	"hilbert.dev/hilbert/topology"
)

// resource is one kind of thing that pods get on a node. The scheduler's fit function has the last word on NUMA nodes; hints only leave out those
// that the resource cannot serve the pod from, and never one that the fit function would use for it.
type resource interface {
	// hints is the set of NUMA nodes that can serve what the pod asks for itself, or a part of it.
	hints(p *pod) (numaNodes uint8)
	// admit counts a pod in, release out. Both only note it: what follows for others is reconcile's.
	admit(p *pod)
	release(p *pod)
	// reconcile brings what many pods share in line with who is there.
	reconcile()
	// place fills in its part of where a pod runs.
	place(p *pod, out *Placement)
}

// plugins are the resources, in the order in which they are asked. One of your own gets a row here: it
// is code of this package, because a promise is kept only if all that hold it decide together.
var plugins = []struct {
	name string
	new  func(m *Manager) resource
}{
	{name: "cpu", new: newCPU},
	{name: "memory", new: newMemory},
	{name: "devices", new: newDevices},
}

// among is the set of NUMA nodes that every resource can serve the pod from.
func (m *Manager) among(p *pod) uint8 {
	set := ^uint8(0)
	for _, r := range m.resources {
		set &= r.hints(p)
	}
	return set
}

// openNUMANodes are the NUMA nodes for which usable says yes.
func (m *Manager) openNUMANodes(usable func(numa int, whole topology.NUMACapacity, left topology.NUMARoom) bool) (set uint8) {
	shape, free := m.alloc.Shape(), m.alloc.Free()
	for z := range int(shape.NUMANodes) {
		if usable(z, shape.NUMANode[z], free[z]) {
			set |= 1 << z
		}
	}
	return set
}
