package topology

// domain is what is close together at a level: sets of GPUs, network cards and NUMA nodes.
type domain struct {
	gpus, nics uint16
	numaNodes  uint8
}

// has reports whether everything that a grant names is in the domain.
func (d domain) has(g *Grant, numaNodes uint8) bool {
	return g.GPUs&^d.gpus == 0 && g.NICs&^d.nics == 0 && numaNodes&^d.numaNodes == 0
}

// within is what of a domain is in another one too; NUMA nodes are the other's.
func (d domain) within(wider domain) domain {
	return domain{d.gpus & wider.gpus, d.nics & wider.nics, wider.numaNodes}
}

// domains are the domains of one level: of the lowest GPU first, then of those without GPUs the lowest card's, then the lowest NUMA node's.
type domains struct {
	of    [MaxGPUs + MaxNICs + MaxNUMANodes]domain
	place [MaxGPUs + MaxNICs + MaxNUMANodes]uint8
	n     int
}

// at returns the domain of a place; an unknown place gets a new domain each time.
func (l *domains) at(place uint8) *domain {
	if place != NoPlace {
		for i := range l.n {
			if l.place[i] == place {
				return &l.of[i]
			}
		}
	}
	l.of[l.n], l.place[l.n] = domain{}, place
	l.n++
	return &l.of[l.n-1]
}

// fill makes the domains of a level. GPUs that another party gives out are in no domain, because it is unknown which of them a pod will
// get.
//
// The NUMA nodes of a switch are those that its devices are near to. At the level of the machine there is one domain, of everything.
func (l *domains) fill(v *View, level Level) {
	l.n = 0
	if level == Anywhere {
		l.of[0], l.n = domain{1<<MaxGPUs - 1, 1<<MaxNICs - 1, 1<<MaxNUMANodes - 1}, 1
		return
	}
	known := v.numaSet()
	d := v.Shape.Devices
	for i := range v.Shape.count() {
		if d == nil || d.Owner != OwnerHilbert {
			l.at(NoPlace).gpus |= 1 << i
			continue
		}
		g := &d.GPU[i]
		in := l.at(placeAt(level, g.Switch, g.NUMANode, g.Socket))
		in.gpus |= 1 << i
		if level == SameSwitch && g.NUMANode < MaxNUMANodes {
			in.numaNodes |= known & (1 << g.NUMANode)
		}
	}
	if d != nil {
		for i := range min(len(d.NIC), MaxNICs) {
			n := &d.NIC[i]
			in := l.at(placeAt(level, n.Switch, n.NUMANode, n.Socket))
			in.nics |= 1 << i
			if level == SameSwitch && n.NUMANode < MaxNUMANodes {
				in.numaNodes |= known & (1 << n.NUMANode)
			}
		}
	}
	if level == SameSwitch || v.NUMANodes == nil {
		return
	}
	for z := range min(v.NUMANodes.NUMANodes, MaxNUMANodes) {
		l.at(placeAt(level, NoPlace, z, v.NUMANodes.NUMANode[z].Socket)).numaNodes |= 1 << z
	}
}

func placeAt(level Level, pciSwitch, numa, socket uint8) uint8 {
	switch level {
	case SameSwitch:
		return pciSwitch
	case SameNUMA:
		return numa
	default:
		return socket
	}
}

// numaSet is the set of NUMA nodes that there are.
func (v *View) numaSet() uint8 {
	if v.NUMANodes == nil {
		return 0
	}
	return uint8(1<<min(v.NUMANodes.NUMANodes, MaxNUMANodes) - 1)
}
