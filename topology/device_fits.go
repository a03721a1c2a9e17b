package topology

import "math/bits"

// Fits reports whether a grant answers a request and still fits: that many GPUs that serve it, at what Offer would charge for the isolation that
// the grant gives; network cards that serve it; NUMA nodes that NUMAFree.Fits; and all of it as close as is required. What a preference says is not
// judged.
func (v *View) Fits(r *Request, z *NUMARequest, g *Grant) bool {
	if r.Contradiction(z) != "" || !g.Answers(r) {
		return false
	}
	return v.fitGPUs(r, g) && v.fitCards(r, g) && v.fitNUMA(z, g) && v.fitResources(r, g) && v.fitNear(r, z, g)
}

func (v *View) fitGPUs(r *Request, g *Grant) bool {
	if g.GPUs == 0 {
		return g.Milli == 0 && g.Memory == 0 && g.Isolation == IsolationAny && g.Instance == 0
	}
	if bits.Len16(g.GPUs) > v.Shape.count() {
		return false
	}
	if r.Milli == 0 {
		return g.Milli == FullGPU && g.Memory == 0 && g.GPUs&^v.whole(r, v.idle()) == 0
	}
	i := bits.TrailingZeros16(g.GPUs)
	d := v.Shape.Devices
	given := slice{g.Milli, g.Memory, g.Isolation, g.Instance}
	switch {
	case d == nil:
		s, ok := v.slice(r, i)
		return ok && s == given
	case d.Owner != OwnerHilbert || d.ClosedGPUs&(1<<i) != 0:
		return false
	}
	gpu := &d.GPU[i]
	if g.Instance > 0 {
		k := int(g.Instance - 1)
		return k < min(len(gpu.Instances), MaxInstances) && given == gpu.instance(k) && v.covers(r, gpu, i, given)
	}
	return len(gpu.Instances) == 0 && given == gpu.part(r, g.Isolation) && v.holds(gpu, i, given, r.Tenant)
}

func (v *View) fitCards(r *Request, g *Grant) bool {
	if r.NIC.Count == 0 {
		return g.NIC == NICGrant{}
	}
	return g.NICs&^v.cards(&r.NIC) == 0
}

func (v *View) fitNUMA(z *NUMARequest, g *Grant) bool {
	if z == nil || z.IsZero() {
		return g.NUMANodes.IsZero()
	}
	return v.NUMANodes != nil && v.NUMAFree != nil && v.NUMAFree.Fits(v.NUMANodes, *z, &g.NUMANodes)
}

func (v *View) fitNear(r *Request, z *NUMARequest, g *Grant) bool {
	limit := r.limit()
	for level := limit; level <= SameSwitch; level++ { // the first, unless devices hang as none should
		if v.Together(r, z, g, level) {
			return true
		}
	}
	for r.Near.Relax && limit > Anywhere && !v.couldHold(r, z, limit) {
		if limit--; v.Together(r, z, g, limit) {
			return true
		}
	}
	return false
}

// Together reports whether all that a grant names of what a request has asked for is in one domain of a level: its GPUs and network cards, and
// its NUMA nodes if Near says so. A single device is together with itself, wherever it is.
func (v *View) Together(r *Request, z *NUMARequest, g *Grant, level Level) bool {
	if level == Anywhere {
		return true
	}
	var numaNodes uint8
	if z != nil && !z.IsZero() && r.Near.Level != Anywhere {
		if v.NUMANodes == nil || v.NUMANodes.Ruler != RulerAgent {
			return false // nobody says which CPUs they are
		}
		numaNodes = g.NUMANodes.NUMANodes()
	}
	numaNodes |= g.Resources.NUMANodes()
	if g.GPUs == 0 && g.NICs == 0 {
		level = min(level, SameNUMA) // CPUs hang below no switch
	}
	var all domains
	all.fill(v, level)
	for i := range all.n {
		if all.of[i].has(g, numaNodes) {
			return true
		}
	}
	return false
}

// Closeness is the closest level at which a grant is together.
func (v *View) Closeness(r *Request, z *NUMARequest, g *Grant) Level {
	level := SameSwitch
	for !v.Together(r, z, g, level) {
		level--
	}
	return level
}

// Force chooses for a pod that runs already without a record of what it holds: what is offered, else what is offered without Near, else the GPUs
// and network cards that have most left, which may become negative at Commit. NUMA nodes are as ForceNUMA has them.
func (v *View) Force(r *Request, z *NUMARequest) (g Grant) {
	g, ok := v.Offer(r, z)
	if ok {
		return g
	}
	lax := *r
	lax.Near = Near{}
	if g, ok = v.Offer(&lax, nil); !ok {
		g = v.force(r)
	}
	if z != nil && v.NUMANodes != nil && v.NUMAFree != nil {
		g.NUMANodes = ForceNUMA(v.NUMANodes, v.NUMAFree, *z)
	}
	g.Resources = v.forceResources(r, &g)
	return g
}

// force chooses devices whether they fit or not.
func (v *View) force(r *Request) (g Grant) {
	want := r.Count()
	if want > 0 {
		g.Milli = FullGPU
	}
	if r.Milli > 0 {
		g.Milli, g.Memory, g.Isolation = r.Milli, min(r.Memory, MaxAmount), Accounting
	}
	for range min(want, v.Shape.count()) {
		best := -1
		for i := range v.Shape.count() {
			if g.GPUs&(1<<i) == 0 && (best < 0 || v.Free[i] > v.Free[best]) {
				best = i
			}
		}
		g.GPUs |= 1 << best
	}
	d := v.Shape.Devices
	if d == nil || r.NIC.Count == 0 {
		return g
	}
	g.NIC = NICGrant{min(r.NIC.Bandwidth, MaxAmount), r.NIC.Function}
	for range min(int(r.NIC.Count), len(d.NIC), MaxNICs) {
		best := -1
		for i := range min(len(d.NIC), MaxNICs) {
			if g.NICs&(1<<i) == 0 && (best < 0 || v.Devices.Bandwidth[i] > v.Devices.Bandwidth[best]) {
				best = i
			}
		}
		g.NICs |= 1 << best
	}
	return g
}

// Complete fills in what the annotation of a MIG instance does not say: its compute and memory. An instance that is not there is left as it is.
func (d *Devices) Complete(g *Grant) {
	i, k := bits.TrailingZeros16(g.GPUs), int(g.Instance-1)
	if d == nil || g.Instance == 0 || i >= len(d.GPU) || k >= min(len(d.GPU[i].Instances), MaxInstances) {
		return
	}
	s := d.GPU[i].instance(k)
	g.Milli, g.Memory, g.Isolation = s.milli, s.memory, s.isolation
}
