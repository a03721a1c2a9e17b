package topology

import "math/bits"

// OfferNUMA chooses NUMA nodes for a request: as few as hold it, on as few sockets, and of those the ones that it leaves the least of (best
// fit), then the lowest indices. Several NUMA nodes share it as evenly as their room allows. ok is false when it does not fit.
func OfferNUMA(s *NUMAShape, f *NUMAFree, r NUMARequest) (g NUMAGrant, ok bool) {
	if r.IsZero() {
		return NUMAGrant{}, true
	}
	switch s.Ruler {
	case RulerKubelet: // the kubelet chooses the cores, and promises nothing
		return NUMAGrant{}, r.Binding == Unbound
	case RulerNone:
		return NUMAGrant{}, false
	case RulerAgent: // we choose, below
	}
	if !s.serves(r) {
		return NUMAGrant{}, false
	}
	open := f.open(s, r)
	best, found := uint8(0), false
	var least numaWaste
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
		return NUMAGrant{}, false
	}
	return f.share(s, r, best), true
}

// open is the set of NUMA nodes that may give anything to a pod with the request.
func (f *NUMAFree) open(s *NUMAShape, r NUMARequest) (set uint8) {
	for z := range int(s.NUMANodes) {
		usable := f[z].CPUs >= s.grain(r.Binding)
		if r.Binding == Exclusive {
			usable = f[z].Claims == 0 && f[z].CPUs == int32(s.NUMANode[z].CPUs) && f[z].CPUs > 0
		}
		if usable && s.Closed&(1<<z) == 0 && f[z].suits(r.Bandwidth) {
			set |= 1 << z
		}
	}
	return set
}

// numaWaste orders the sets of NUMA nodes that hold a request; less is better.
type numaWaste struct {
	sockets int
	cpus    int64
	memory  int64
	set     uint8
}

func (a numaWaste) less(b numaWaste) bool {
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

// waste is what a set of NUMA nodes would have left of the request, and whether it holds it at all.
func (f *NUMAFree) waste(s *NUMAShape, r NUMARequest, set uint8) (numaWaste, bool) {
	w := numaWaste{set: set}
	var sockets uint64
	for left := set; left != 0; left &= left - 1 {
		z := bits.TrailingZeros8(left)
		w.cpus += int64(f[z].CPUs - f[z].CPUs%s.grain(r.Binding))
		w.memory += max(f[z].Memory, 0)
		sockets |= 1 << (s.NUMANode[z].Socket % 64)
	}
	w.sockets = bits.OnesCount64(sockets)
	w.cpus -= s.Charged(r)
	if r.Binding == Unbound {
		w.memory = 0
		return w, w.cpus >= 0
	}
	w.memory -= int64(r.Memory)
	return w, w.cpus >= 0 && w.memory >= 0
}

// share divides a request that the set holds over its NUMA nodes.
func (f *NUMAFree) share(s *NUMAShape, r NUMARequest, set uint8) (g NUMAGrant) {
	g.Bandwidth = r.Bandwidth
	if r.Binding == Exclusive {
		for ; set != 0; set &= set - 1 {
			z := bits.TrailingZeros8(set)
			g.CPUs[z], g.Memory[z] = s.NUMANode[z].CPUs, s.NUMANode[z].Memory
		}
		return g
	}
	grain := int64(s.grain(r.Binding))
	parts := SpreadEvenly(set, s.Charged(r)/grain, func(z int) int64 { return int64(f[z].CPUs) / grain })
	var memory [MaxNUMANodes]int64
	if r.Binding != Unbound {
		memory = SpreadEvenly(set, int64(r.Memory), func(z int) int64 { return max(f[z].Memory, 0) })
	}
	for z := range MaxNUMANodes {
		g.CPUs[z], g.Memory[z] = uint16(parts[z]*grain), uint32(memory[z])
	}
	return g
}

// SpreadEvenly pours an amount into the NUMA nodes of a set as evenly as their room allows: NUMA nodes with little room are filled first, the others share
// the rest, and what cannot be divided goes to the lowest indices.
func SpreadEvenly(set uint8, amount int64, room func(numa int) int64) (parts [MaxNUMANodes]int64) {
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
