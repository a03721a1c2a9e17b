package topology

// ForceNUMA chooses NUMA nodes for a pod that runs already without a record of its NUMA nodes (another scheduler placed it): those of the offer
// if there is one, else those of an offer that does not look at Bandwidth, else the emptiest NUMA node, which Commit then drives negative. It is exactly what is asked for, so that there is no Excess.
// Where nothing is promised by NUMA node, or not to such pods, it is nothing.
func ForceNUMA(s *NUMAShape, f *NUMAFree, r NUMARequest) (g NUMAGrant) {
	if r.IsZero() || s.Ruler != RulerAgent || s.NUMANodes == 0 || r.Binding == BoundShared && !s.BindsShared {
		return g
	}
	offer, ok := OfferNUMA(s, f, r)
	if !ok {
		unsaid := r
		unsaid.Bandwidth = BandwidthUnsaid
		offer, ok = OfferNUMA(s, f, unsaid)
	}
	if !ok {
		best := 0
		for z := 1; z < int(s.NUMANodes); z++ {
			if f[z].CPUs > f[best].CPUs {
				best = z
			}
		}
		offer.CPUs[best], offer.Memory[best] = r.CPUs, r.Memory
	}
	g.Bandwidth = r.Bandwidth
	cpus, memory := r.CPUs, r.Memory
	if r.Binding == Unbound {
		memory = 0
	}
	for z := range int(s.NUMANodes) {
		g.CPUs[z], g.Memory[z] = min(offer.CPUs[z], cpus), min(offer.Memory[z], memory)
		cpus, memory = cpus-g.CPUs[z], memory-g.Memory[z]
	}
	return g
}
