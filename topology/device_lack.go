package topology

import (
	"math/bits"
	"slices"
)

// Lack is what, if it came free, would let a node hold a request that it refuses: whole GPUs, or more of one GPU's compute or memory.
type Lack struct {
	// GPUs would have to be idle. For whole ones that is all.
	GPUs uint16
	// Level is how close they would be to the others that serve; Anywhere if that does not matter.
	Level Level
	// Milli or Memory (MiB), one of the two, is how much more of the GPU would have to be free for a part of it.
	Milli, Memory int32
}

// Apply makes what is lacking free.
func (l *Lack) Apply(v *View) {
	i := bits.TrailingZeros16(l.GPUs)
	switch {
	case l.Milli > 0:
		v.Free[i] += l.Milli
	case l.Memory > 0:
		v.Devices.Memory[i] += l.Memory
	default:
		v.empty(l.GPUs)
	}
}

// empty makes GPUs as they are when no pod holds them.
func (v *View) empty(gpus uint16) {
	for ; gpus != 0; gpus &= gpus - 1 {
		i := bits.TrailingZeros16(gpus)
		v.Free[i] = FullGPU
		if d := v.Shape.Devices; d != nil {
			v.Devices.Memory[i], v.Devices.Clients[i], v.Devices.Soft[i], v.Devices.Tenants[i], v.Devices.Holders[i] = d.GPU[i].memory(), d.GPU[i].clients(), 0, 0, 0
		}
	}
}

// Lacks lists, the smallest first, sets of GPUs whose becoming free might be enough for a request that the node refuses: for whole ones one set for each domain
// that is large enough, for a part each GPU that could give it. Whether network cards and NUMA nodes hold out beside it, Offer says of the View
// to which a Lack was applied. It goes no further than what an empty machine could give, and lists nothing for a part of a divided GPU.
func (v *View) Lacks(r *Request, z *NUMARequest) []Lack {
	if r.IsZero() || r.Contradiction(z) != "" || v.Shape.Devices == nil && r.NeedsReport() {
		return nil
	}
	if r.Milli > 0 {
		return v.lacksOfPart(r)
	}
	limit := v.limit(r, z)
	free, devices := NewFree(*v.Shape), NewDeviceFree(v.Shape.Devices)
	unused := View{Shape: v.Shape, Free: &free, Devices: &devices}
	idle, could := v.whole(r, v.idle()), unused.whole(r, unused.idle())
	var list []Lack
	var in domains
	for level := SameSwitch; ; level-- {
		in.fill(v, level)
		for i := range in.n {
			if l, ok := v.vacate(in.of[i].gpus, idle, could, r.Count()); ok {
				l.Level = level
				list = append(list, l)
			}
		}
		if level == limit {
			break
		}
	}
	slices.SortStableFunc(list, func(a, b Lack) int { return bits.OnesCount16(a.GPUs) - bits.OnesCount16(b.GPUs) })
	return list
}

// vacate chooses the GPUs of a domain that would have to be idle: those with the most left, then the lowest index.
func (v *View) vacate(domain, idle, could uint16, want int) (l Lack, ok bool) {
	need := want - bits.OnesCount16(domain&idle)
	could &= domain &^ idle
	if need <= 0 || bits.OnesCount16(could) < need {
		return l, false
	}
	for range need {
		best := -1
		for left := could &^ l.GPUs; left != 0; left &= left - 1 {
			if i := bits.TrailingZeros16(left); best < 0 || v.Free[i] > v.Free[best] {
				best = i
			}
		}
		l.GPUs |= 1 << best
	}
	return l, true
}

// lacksOfPart looks at each GPU by itself.
func (v *View) lacksOfPart(r *Request) (list []Lack) {
	d := v.Shape.Devices
	for i := range v.Shape.count() {
		if d == nil {
			if more := int32(r.Milli) - v.Free[i]; more > 0 && v.Shape.Shareable {
				list = append(list, Lack{GPUs: 1 << i, Milli: more})
			}
			continue
		}
		g := &d.GPU[i]
		for isolation := max(r.Isolation, Accounting); isolation < Hard && v.open(i) && len(g.Instances) == 0; isolation++ {
			part := g.part(r, isolation)
			milli, memory := int32(part.milli)-v.Free[i], int32(part.memory)-v.Devices.Memory[i]
			if int64(part.memory) > int64(g.memory()) || milli > 0 == (memory > 0) {
				continue // more than it has; or neither is all that is lacking
			}
			list = append(list, Lack{GPUs: 1 << i, Milli: max(milli, 0), Memory: max(memory, 0)})
		}
	}
	slices.SortStableFunc(list, func(a, b Lack) int { return int(a.Milli) - int(b.Milli) + int(a.Memory) - int(b.Memory) })
	return list
}
