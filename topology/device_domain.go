package topology

// domain is what hangs together at a level: sets of GPUs, network cards and zones.
type domain struct {
	gpus, nics uint16
	zones      uint8
}

// has reports whether everything that a grant names is in the domain.
func (d domain) has(g *Grant, zones uint8) bool {
	return g.GPUs&^d.gpus == 0 && g.NICs&^d.nics == 0 && zones&^d.zones == 0
}

// within is what of a domain is in another one too; zones are the other's.
func (d domain) within(wider domain) domain {
	return domain{d.gpus & wider.gpus, d.nics & wider.nics, wider.zones}
}

// domains are the domains of one level: of the lowest GPU first, then of those without GPUs the lowest card's, then the lowest zone's.
type domains struct {
	of    [MaxGPUs + MaxNICs + MaxZones]domain
	place [MaxGPUs + MaxNICs + MaxZones]uint8
	n     int
}

// at returns the domain of a place; a place that is not known has one of its own each time.
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

// fill makes the domains of a level. GPUs that somebody else gives out hang nowhere: which ones it will give is not known.
//
// The zones of a switch are those that its devices are near to. At the level of the machine there is one domain, of everything.
func (l *domains) fill(v *View, level Level) {
	l.n = 0
	if level == Anywhere {
		l.of[0], l.n = domain{1<<MaxGPUs - 1, 1<<MaxNICs - 1, 1<<MaxZones - 1}, 1
		return
	}
	known := v.zoneSet()
	d := v.Shape.Devices
	for i := range v.Shape.count() {
		if d == nil || d.Owner != OwnerHilbert {
			l.at(NoPlace).gpus |= 1 << i
			continue
		}
		g := &d.GPU[i]
		in := l.at(placeAt(level, g.Switch, g.Zone, g.Socket))
		in.gpus |= 1 << i
		if level == SameSwitch && g.Zone < MaxZones {
			in.zones |= known & (1 << g.Zone)
		}
	}
	if d != nil {
		for i := range min(len(d.NIC), MaxNICs) {
			n := &d.NIC[i]
			in := l.at(placeAt(level, n.Switch, n.Zone, n.Socket))
			in.nics |= 1 << i
			if level == SameSwitch && n.Zone < MaxZones {
				in.zones |= known & (1 << n.Zone)
			}
		}
	}
	if level == SameSwitch || v.Zones == nil {
		return
	}
	for z := range min(v.Zones.Zones, MaxZones) {
		l.at(placeAt(level, NoPlace, z, v.Zones.Zone[z].Socket)).zones |= 1 << z
	}
}

func placeAt(level Level, pciSwitch, zone, socket uint8) uint8 {
	switch level {
	case SameSwitch:
		return pciSwitch
	case SameNUMA:
		return zone
	default:
		return socket
	}
}

// zoneSet is the set of zones that there are.
func (v *View) zoneSet() uint8 {
	if v.Zones == nil {
		return 0
	}
	return uint8(1<<min(v.Zones.Zones, MaxZones) - 1)
}
