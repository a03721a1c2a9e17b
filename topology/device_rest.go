package topology

import "cmp"

// GPURest is what is free of one GPU, and what of that it would give. It is for counting, drawing and explaining; decisions use Offer.
type GPURest struct {
	// Closed: it gives nothing new, however much is free: it is closed, or its owner is unknown.
	Closed bool
	// Whole: it can be given whole.
	Whole bool
	// Left is the free thousandths of compute; of a divided GPU those of its free instances.
	Left int32
	// Part is the largest part that it gives, in thousandths, without regard to memory, isolation and tenant; 0: it gives none.
	Part int32
	// Parts is how many more parts it gives at most: clients, or free instances.
	Parts int
}

// Rest returns what is left of GPU i.
func (v *View) Rest(i int) (r GPURest) {
	r.Left = max(v.Free[i], 0)
	r.Whole = v.isIdle(i)
	d := v.Shape.Devices
	switch {
	case d == nil && v.Shape.Shareable:
		r.Part, r.Parts = r.Left, int(r.Left)
		return r
	case d == nil:
		return r
	case len(d.GPU[i].Instances) > 0:
		v.restInstances(&d.GPU[i], i, &r)
	default:
		v.restParts(&d.GPU[i], i, &r)
	}
	r.Closed = d.Owner == OwnerNone || d.ClosedGPUs&(1<<i) != 0
	if r.Closed || d.Owner != OwnerHilbert {
		r.Part, r.Parts = 0, 0
	}
	return r
}

// restParts is of a GPU that is not divided. Slices that are soft are whole grains, and slices of one GPU are all soft, or all by accounting.
func (v *View) restParts(g *GPU, i int, r *GPURest) {
	f := v.Devices
	soft := f.Soft[i] > 0
	accounting := int(g.clients())-int(f.Clients[i])-int(f.Soft[i]) > 0
	switch {
	case f.Clients[i] <= 0 || f.Memory[i] <= 0:
		return
	case g.Strengths.Has(Accounting) && !soft:
		r.Part = r.Left
	case g.Strengths.Has(Soft) && !accounting:
		r.Part = r.Left
		if grain := int32(cmp.Or(g.Grain, unknownGrain)); r.Left < FullGPU {
			if r.Part -= r.Left % grain; r.Part < int32(g.SoftCharge(1)) {
				r.Part = 0
			}
		}
	}
	if r.Part > 0 {
		r.Parts = int(f.Clients[i])
	}
}

// restInstances counts the free instances of a divided GPU.
func (v *View) restInstances(g *GPU, i int, r *GPURest) {
	r.Left = 0
	var any Request
	for k := range min(len(g.Instances), MaxInstances) {
		s := g.instance(k)
		if !v.Devices.HoldsInstance(i, k) {
			r.Left += int32(s.milli)
		}
		if v.covers(&any, g, i, s) {
			r.Part = max(r.Part, int32(s.milli))
			r.Parts++
		}
	}
}

// GPUs is how many GPUs the node has, those that give nothing included.
func (v *View) GPUs() int { return v.Shape.count() }
