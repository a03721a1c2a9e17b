package topology

import (
	"cmp"
	"math/bits"
)

// slice is what a part of one GPU is: what it charges, and what it gives.
type slice struct {
	milli     int16
	memory    uint32
	isolation Isolation
	instance  int8 // as Grant.Instance
}

// open reports whether a GPU gives anything new.
func (v *View) open(i int) bool {
	d := v.Shape.Devices
	return d == nil || d.ClosedGPUs&(1<<i) == 0
}

// idle is the set of GPUs that can be given whole.
func (v *View) idle() (set uint16) {
	for i := range v.Shape.count() {
		if v.isIdle(i) {
			set |= 1 << i
		}
	}
	if v.Shape.counted() {
		for debt := v.Free.debt(); debt > 0 && set != 0; debt -= FullGPU {
			set &^= 1 << (bits.Len16(set) - 1)
		}
	}
	return set
}

func (v *View) isIdle(i int) bool {
	d := v.Shape.Devices
	if v.Free[i] < FullGPU || d == nil {
		return v.Free[i] >= FullGPU
	}
	g := &d.GPU[i]
	return d.Owner != OwnerNone && len(g.Instances) == 0 && d.ClosedGPUs&(1<<i) == 0 &&
		v.Devices.Memory[i] >= g.memory() && v.Devices.Clients[i] >= g.clients()
}

// counted reports whether another party chooses which GPUs a pod gets. Then only their number means anything: recorded indices may belong to two pods,
// or to GPUs that are no longer counted.
func (s *Shape) counted() bool {
	if s.Devices != nil {
		return s.Devices.Owner == OwnerKubelet
	}
	return !s.Shareable
}

// debt is what is held beyond what single GPUs have, in thousandths. Where GPUs are counted it is held of the others.
func (f *Free) debt() (sum int32) {
	for i := range f {
		sum += max(-f[i], 0)
	}
	return sum
}

// whole is the set of GPUs that serve a request for whole ones. Where the kubelet chooses, all of them must have the memory that is asked for.
func (v *View) whole(r *Request, idle uint16) (set uint16) {
	d := v.Shape.Devices
	switch {
	case r.Memory == 0:
		return idle
	case d == nil:
		return 0
	}
	for i := range v.Shape.count() {
		if int64(r.Memory) <= int64(d.GPU[i].memory()) {
			set |= 1 << i
		} else if d.Owner == OwnerKubelet && v.open(i) {
			return 0
		}
	}
	return set & idle
}

// slice is the part of GPU i that a request would be given: of a MIG GPU the smallest instance, else a slice of the weakest isolation that the
// GPU gives beside the slices that it has.
func (v *View) slice(r *Request, i int) (slice, bool) {
	d := v.Shape.Devices
	switch {
	case d == nil:
		s := slice{milli: r.Milli, isolation: Accounting}
		return s, v.Shape.Shareable && r.Memory == 0 && r.Isolation <= Accounting && v.Free[i] >= int32(r.Milli)
	case d.Owner != OwnerHilbert || d.ClosedGPUs&(1<<i) != 0:
		return slice{}, false
	}
	g := &d.GPU[i]
	if len(g.Instances) > 0 {
		return v.smallest(r, g, i)
	}
	for isolation := max(r.Isolation, Accounting); isolation < Hard; isolation++ {
		if s := g.part(r, isolation); v.holds(g, i, s, r.Tenant) {
			return s, true
		}
	}
	return slice{}, false
}

// SoftCharge is what a soft slice of a GPU is charged that is to have at least so many thousandths of its compute: whole grains, and no less than the driver
// limits a process to.
func (g *GPU) SoftCharge(milli int16) int16 {
	grain := int32(cmp.Or(g.Grain, unknownGrain))
	return int16(min((max(int32(milli), int32(g.Least))+grain-1)/grain*grain, FullGPU))
}

// part is the slice of a GPU that a request is, at an isolation.
func (g *GPU) part(r *Request, isolation Isolation) slice {
	s := slice{milli: r.Milli, memory: r.Memory, isolation: isolation}
	if isolation == Soft {
		s.milli = g.SoftCharge(r.Milli)
	}
	if r.Memory == 0 {
		s.memory = uint32(int64(s.milli) * int64(g.memory()) / FullGPU)
	}
	return s
}

// holds reports whether GPU i, which has no instances, holds one more slice, of a tenant.
func (v *View) holds(g *GPU, i int, s slice, t Tenant) bool {
	f := v.Devices
	if s.isolation == Soft && !v.Shape.Devices.SeveralNamespaces && !f.shares(i, t) {
		return false
	}
	soft := f.Soft[i] > 0
	accounting := int(g.clients())-int(f.Clients[i])-int(f.Soft[i]) > 0
	mixes := s.isolation == Soft && accounting || s.isolation == Accounting && soft
	return g.Strengths.Has(s.isolation) && !mixes && f.Clients[i] > 0 && v.Free[i] >= int32(s.milli) && int64(f.Memory[i]) >= int64(s.memory)
}

// smallest is the smallest instance of GPU i that is free and covers a request.
func (v *View) smallest(r *Request, g *GPU, i int) (best slice, found bool) {
	for k := range min(len(g.Instances), MaxInstances) {
		s := g.instance(k)
		if v.covers(r, g, i, s) && (!found || s.milli < best.milli || s.milli == best.milli && s.memory < best.memory) {
			best, found = s, true
		}
	}
	return best, found
}

func (g *GPU) instance(k int) slice {
	in := &g.Instances[k]
	return slice{int16(min(in.Milli, FullGPU)), min(in.Memory, MaxAmount), Hard, int8(k + 1)}
}

// covers reports whether an instance of GPU i is free and has what a request asks for. Memory that is not asked for is what the instance has.
func (v *View) covers(r *Request, g *GPU, i int, s slice) bool {
	return g.Strengths.Has(Hard) && s.milli >= r.Milli && s.memory >= r.Memory && !v.Devices.HoldsInstance(i, int(s.instance-1)) &&
		v.Free[i] >= int32(s.milli) && int64(v.Devices.Memory[i]) >= int64(s.memory)
}

// card reports whether network card i serves a request.
func (v *View) card(r *NICRequest, i int) bool {
	d := v.Shape.Devices
	return d.ClosedNICs&(1<<i) == 0 && (d.NIC[i].RDMA || !r.RDMA) &&
		int64(v.Devices.Bandwidth[i]) >= int64(r.Bandwidth) && (v.Devices.Functions[i] > 0 || !r.Function)
}

// cards is the set of network cards that serve a request.
func (v *View) cards(r *NICRequest) (set uint16) {
	if v.Shape.Devices == nil || r.Count == 0 {
		return 0
	}
	for i := range min(len(v.Shape.Devices.NIC), MaxNICs) {
		if v.card(r, i) {
			set |= 1 << i
		}
	}
	return set
}
