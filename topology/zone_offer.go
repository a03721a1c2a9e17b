package topology

import "math/bits"

// OfferZones chooses zones for a request: as few as hold it, on as few sockets, and of those the ones that it leaves the least of (best
// fit), then the lowest indices. Several zones share it as evenly as their room allows. ok is false when it does not fit.
func OfferZones(s *ZoneShape, f *ZoneFree, r ZoneRequest) (g ZoneGrant, ok bool) {
	if r.IsZero() {
		return ZoneGrant{}, true
	}
	switch s.Ruler {
	case RulerKubelet: // the kubelet chooses the cores, and promises nothing
		return ZoneGrant{}, r.Binding == Unbound
	case RulerNone:
		return ZoneGrant{}, false
	case RulerAgent: // we choose, below
	}
	open := f.open(s, r.Binding)
	best, found := uint8(0), false
	var least zoneWaste
	for count := 1; count <= bits.OnesCount8(open) && !found; count++ {
		for set := open; set != 0; set = (set - 1) & open {
			if bits.OnesCount8(set) != count {
				continue
			}
			waste, holds := f.waste(s, r, set)
			if holds && (!found || waste.less(least)) {
				best, least, found = set, waste, true
			}
		}
	}
	if !found {
		return ZoneGrant{}, false
	}
	return f.share(s, r, best), true
}

// open is the set of zones that may give anything to a pod of the binding.
func (f *ZoneFree) open(s *ZoneShape, binding Binding) (set uint8) {
	for z := range int(s.Zones) {
		usable := f[z].CPUs >= int32(max(s.Threads, 1))
		if binding == Exclusive {
			usable = f[z].Claims == 0 && f[z].CPUs == int32(s.Zone[z].CPUs) && f[z].CPUs > 0
		}
		if usable && s.Closed&(1<<z) == 0 {
			set |= 1 << z
		}
	}
	return set
}

// zoneWaste orders the sets of zones that hold a request; less is better.
type zoneWaste struct {
	sockets int
	cpus    int64
	memory  int64
	set     uint8
}

func (a zoneWaste) less(b zoneWaste) bool {
	switch {
	case a.sockets != b.sockets:
		return a.sockets < b.sockets
	case a.cpus != b.cpus:
		return a.cpus < b.cpus
	case a.memory != b.memory:
		return a.memory < b.memory
	}
	return a.set < b.set
}

// waste is what a set of zones would have left of the request, and whether it holds it at all.
func (f *ZoneFree) waste(s *ZoneShape, r ZoneRequest, set uint8) (zoneWaste, bool) {
	w := zoneWaste{set: set}
	var sockets uint64
	for left := set; left != 0; left &= left - 1 {
		z := bits.TrailingZeros8(left)
		w.cpus += int64(f[z].CPUs - f[z].CPUs%int32(max(s.Threads, 1)))
		w.memory += max(f[z].Memory, 0)
		sockets |= 1 << (s.Zone[z].Socket % 64)
	}
	w.sockets = bits.OnesCount64(sockets)
	w.cpus -= s.WholeCores(r)
	if r.Binding == Unbound {
		w.memory = 0
		return w, w.cpus >= 0
	}
	w.memory -= int64(r.Memory)
	return w, w.cpus >= 0 && w.memory >= 0
}

// share divides a request that the set holds over its zones.
func (f *ZoneFree) share(s *ZoneShape, r ZoneRequest, set uint8) (g ZoneGrant) {
	if r.Binding == Exclusive {
		for ; set != 0; set &= set - 1 {
			z := bits.TrailingZeros8(set)
			g.CPUs[z], g.Memory[z] = s.Zone[z].CPUs, s.Zone[z].Memory
		}
		return g
	}
	threads := int64(max(s.Threads, 1))
	cores := SpreadEvenly(set, s.WholeCores(r)/threads, func(z int) int64 { return int64(f[z].CPUs) / threads })
	var memory [MaxZones]int64
	if r.Binding == Bound {
		memory = SpreadEvenly(set, int64(r.Memory), func(z int) int64 { return max(f[z].Memory, 0) })
	}
	for z := range MaxZones {
		g.CPUs[z], g.Memory[z] = uint16(cores[z]*threads), uint32(memory[z])
	}
	return g
}

// SpreadEvenly pours an amount into the zones of a set as evenly as their room allows: zones with little room are filled first, the others share
// the rest, and what cannot be divided goes to the lowest indices.
func SpreadEvenly(set uint8, amount int64, room func(zone int) int64) (parts [MaxZones]int64) {
	for set != 0 && amount > 0 {
		each := amount / int64(bits.OnesCount8(set))
		full := uint8(0)
		for left := set; left != 0; left &= left - 1 {
			if z := bits.TrailingZeros8(left); room(z) <= each {
				full |= 1 << z
				parts[z] = room(z)
				amount -= room(z)
			}
		}
		if full != 0 {
			set &^= full
			continue
		}
		rest := amount % int64(bits.OnesCount8(set))
		for left := set; left != 0; left &= left - 1 {
			z := bits.TrailingZeros8(left)
			parts[z] = each
			if rest > 0 {
				parts[z]++
				rest--
			}
		}
		return parts
	}
	return parts
}
