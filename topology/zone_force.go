package topology

// ForceZones chooses zones for a request that already runs though nobody recorded where (a foreign scheduler placed it): those of the offer
// if there is one, else the emptiest zone, which Commit then drives negative. It is exactly what is asked for, so that there is no Excess.
// Where nothing is promised by zone it is nothing.
func ForceZones(s *ZoneShape, f *ZoneFree, r ZoneRequest) (g ZoneGrant) {
	if r.IsZero() || s.Ruler != RulerAgent || s.Zones == 0 {
		return g
	}
	offer, ok := OfferZones(s, f, r)
	if !ok {
		best := 0
		for z := 1; z < int(s.Zones); z++ {
			if f[z].CPUs > f[best].CPUs {
				best = z
			}
		}
		offer.CPUs[best], offer.Memory[best] = r.CPUs, r.Memory
	}
	cpus, memory := r.CPUs, r.Memory
	if r.Binding == Unbound {
		memory = 0
	}
	for z := range int(s.Zones) {
		g.CPUs[z], g.Memory[z] = min(offer.CPUs[z], cpus), min(offer.Memory[z], memory)
		cpus, memory = cpus-g.CPUs[z], memory-g.Memory[z]
	}
	return g
}
