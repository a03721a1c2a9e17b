package allocate

import (
	"math/bits"

	"hilbert.dev/hilbert/node/hint"
	"hilbert.dev/hilbert/topology"
)

// Hints says which NUMA nodes could serve a pod that is not admitted yet, by its CPUs and its devices: what it was promised is preferred, because the scheduler has
// counted on that. A resource that does not care has no hints.
func (m *Manager) Hints(p *Pod) (out []hint.Resource) {
	if p.Invalid == "" && !p.Request.IsZero() && !m.capacity.kubeletRules() {
		out = append(out, hint.Resource{Name: "cpu", Hints: m.dedicated.hints(p)})
	}
	if set := m.Devices.numaNodes(&p.Devices); set != 0 {
		out = append(out, hint.Resource{Name: "devices", Hints: []hint.Hint{{NUMANodes: set, Preferred: true}}})
	}
	return out
}

// hints are the sets of NUMA nodes that hold a pod's CPUs. Without a promise, the smallest are preferred.
func (d *dedicated) hints(p *Pod) (out []hint.Hint) {
	r, free, promised := complete(p.Request, &p.Promise), d.capacity.alloc.Free(), p.Promise.NUMANodes()
	fewest := topology.MaxNUMANodes
	for set := 1; set <= 0xff; set++ {
		s := d.capacity.alloc.Shape()
		s.Closed |= ^uint8(set)
		g, ok := topology.OfferNUMA(&s, &free, r)
		if !ok || g.NUMANodes() != uint8(set) {
			continue
		}
		out = append(out, hint.Hint{NUMANodes: uint8(set), Preferred: promised == uint8(set)})
		fewest = min(fewest, bits.OnesCount(uint(set)))
	}
	for i := range out {
		if promised == 0 {
			out[i].Preferred = bits.OnesCount8(out[i].NUMANodes) == fewest
		}
	}
	return out
}

// numaNodes are those of promised GPUs and network cards, as far as they are known.
func (ds *Devices) numaNodes(g *topology.Grant) (set uint8) {
	if ds.inventory == nil {
		return 0
	}
	add := func(numa uint8) {
		if numa < topology.MaxNUMANodes {
			set |= 1 << numa
		}
	}
	for i := range ds.inventory.GPU {
		if g.GPUs&(1<<i) != 0 {
			add(ds.inventory.GPU[i].NUMANode)
		}
	}
	for i := range ds.inventory.NIC {
		if g.NICs&(1<<i) != 0 {
			add(ds.inventory.NIC[i].NUMANode)
		}
	}
	return set
}

// near is the promise, or what is to be taken in its place because the pod has to be near something else. Where nothing fits there, it is the promise: a pod that
// can run starts.
func (d *dedicated) near(p *pod, promise topology.NUMAGrant) topology.NUMAGrant {
	if !d.away(p, &promise) {
		return promise
	}
	s, free := d.capacity.alloc.Shape(), d.capacity.alloc.Free()
	s.Closed |= ^p.Within
	if g, ok := topology.OfferNUMA(&s, &free, p.Request); ok {
		return g
	}
	return promise
}

// away reports whether what was promised is not where the pod has to be.
func (d *dedicated) away(p *pod, promise *topology.NUMAGrant) bool {
	return p.Within != 0 && (promise.IsZero() || promise.NUMANodes()&^p.Within != 0)
}

// why says why a promise was moved.
func (d *dedicated) why(p *pod, promise *topology.NUMAGrant) string {
	if d.away(p, promise) {
		return "is far from the resources of plugins that it needs on one NUMA node"
	}
	return "is gone"
}
