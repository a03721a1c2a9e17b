package topology

import "math/bits"

// Offer chooses GPUs, network cards and NUMA nodes for a request, all of it at once; z is nil or zero where no exclusive CPUs are asked for. ok is false
// when it does not fit; Refusal says why. It is a pure function, and what it offers fits.
//
// Levels are tried from the closest to the widest. Domains of a level that hold the request are compared, the earlier first:
//
//  1. how close devices are among themselves, where exclusive CPUs had to come from further away;
//  2. for a part of a GPU: no MIG instance for a request that does not ask for one; the smallest instance; the GPU on which the least
//     compute is left, then the least memory;
//  3. what is left in the domain: the fewest idle GPUs, then the least compute, then the least bandwidth and the fewest functions of network
//     cards, then the least of what plugins bring, then the fewest CPUs of its NUMA nodes;
//  4. the lowest index.
//
// In the domain, whole GPUs are those that are best connected (see connected), network cards those that share a switch with the GPUs (see
// nearest), NUMA nodes those of OfferNUMA, and what plugins bring comes from beside them. Without Near, NUMA nodes are chosen by themselves, unless something
// is asked for that plugins bring.
func (v *View) Offer(r *Request, z *NUMARequest) (g Grant, ok bool) {
	if r.Contradiction(z) != "" {
		return Grant{}, false
	}
	if v.Shape.Devices == nil && r.Near.Level == Anywhere && !r.NeedsReport() && !v.BringsAny(r) {
		return v.counted(r, z)
	}
	s := search{v: v, r: r, z: z}
	if !s.prepare() {
		return Grant{}, false
	}
	limit := r.limit()
	for {
		if ok := s.run(limit); ok {
			return s.grant(), true
		}
		if !r.Near.Relax || limit == Anywhere || v.couldHold(r, z, limit) {
			return Grant{}, false
		}
		limit--
	}
}

// limit is the widest level that a request may be met at, whatever the machine.
func (r *Request) limit() Level {
	if !r.Near.Required {
		return Anywhere
	}
	return r.Near.Level
}

// limit is the widest level that a request may be met at here: where it may be relaxed, the closest that the machine could hold it at.
func (v *View) limit(r *Request, z *NUMARequest) Level {
	limit := r.limit()
	for r.Near.Relax && limit > Anywhere && !v.couldHold(r, z, limit) {
		limit--
	}
	return limit
}

// counted is the offer of a node without devices.
func (v *View) counted(r *Request, z *NUMARequest) (g Grant, ok bool) {
	if !r.IsZero() {
		if g, ok = OfferGPUs(*v.Shape, v.Free, *r); !ok {
			return Grant{}, false
		}
		if r.Milli > 0 {
			g.Isolation = Accounting
		}
	}
	g.NUMANodes, ok = v.offerNUMA(z, 1<<MaxNUMANodes-1)
	return g, ok
}

// offerNUMA chooses NUMA nodes of a set.
func (v *View) offerNUMA(z *NUMARequest, among uint8) (NUMAGrant, bool) {
	switch {
	case z == nil || z.IsZero():
		return NUMAGrant{}, true
	case v.NUMANodes == nil || v.NUMAFree == nil:
		return NUMAGrant{}, false
	case among&v.numaSet() == v.numaSet():
		return OfferNUMA(v.NUMANodes, v.NUMAFree, *z)
	}
	shape := *v.NUMANodes
	shape.Closed |= ^among
	return OfferNUMA(&shape, v.NUMAFree, *z)
}

// couldHold reports whether the machine could hold a request at a level, or closer, if it were empty. Closed devices and NUMA nodes give
// nothing then either.
func (v *View) couldHold(r *Request, z *NUMARequest, limit Level) bool {
	free, devices := NewFree(*v.Shape), NewDeviceFree(v.Shape.Devices)
	empty := View{Shape: v.Shape, Free: &free, Devices: &devices, NUMANodes: v.NUMANodes}
	if v.Resources != nil {
		resources := NewResourceFree(v.Resources)
		empty.Resources, empty.ResourcesFree = v.Resources, &resources
	}
	var numaNodes NUMAFree
	if v.NUMANodes != nil {
		numaNodes = NewNUMAFree(v.NUMANodes)
		empty.NUMAFree = &numaNodes
	}
	s := search{v: &empty, r: r, z: z}
	return s.prepare() && s.run(limit)
}

// search is an offer in the making. It stays on the stack.
type search struct {
	v           *View
	r           *Request
	z           *NUMARequest
	idle        uint16 // GPUs that can be given whole
	gpus        uint16 // that serve the request, one by one
	nics        uint16
	want        int // GPUs
	cards       int
	reportsNUMA bool      // exclusive CPUs are asked for
	near        bool      // and should be near the devices
	numaNodes   NUMAGrant // if they need not
	part        [MaxGPUs]slice
	brought     bool        // something is asked for that plugins bring
	resources   resourceAsk // of it

	wide, narrow domains
	room         [MaxGPUs + MaxNICs + MaxNUMANodes]numaRoomLeft // of the wide domains

	found bool
	best  candidate
}

// numaRoomLeft is what a domain's NUMA nodes say to a request.
type numaRoomLeft struct {
	asked, holds bool
	cpus         int32 // that are left of them
}

// candidate is a domain that holds the request: devices are of one domain, NUMA nodes of a wider one.
type candidate struct {
	devices domain
	gpu     int // for a part of one
	rank    rank
}

// rank orders candidates; less is better.
type rank struct {
	spent     uint64 // for a part of a GPU: an instance
	gpu       uint64 // and what is left on the GPU
	idle      int    // GPUs in the domain
	compute   int64
	bandwidth int64
	functions int64
	brought   int64 // what plugins bring of what is asked for
	cpus      int32
}

func (a *rank) less(b *rank) bool {
	switch {
	case a.spent != b.spent:
		return a.spent < b.spent
	case a.gpu != b.gpu:
		return a.gpu < b.gpu
	case a.idle != b.idle:
		return a.idle < b.idle
	case a.compute != b.compute:
		return a.compute < b.compute
	case a.bandwidth != b.bandwidth:
		return a.bandwidth < b.bandwidth
	case a.functions != b.functions:
		return a.functions < b.functions
	case a.brought != b.brought:
		return a.brought < b.brought
	}
	return a.cpus < b.cpus
}

// prepare finds what serves the request one by one. False: that is too little already.
func (s *search) prepare() bool {
	s.want, s.cards = s.r.Count(), int(s.r.NIC.Count)
	s.reportsNUMA = s.z != nil && !s.z.IsZero()
	s.brought = s.v.asksResources(s.r, &s.resources)
	s.near = s.reportsNUMA && (s.r.Near.Level != Anywhere || s.brought)
	s.idle = s.v.idle()
	switch {
	case s.r.Milli > 0:
		for i := range s.v.Shape.count() {
			var ok bool
			if s.part[i], ok = s.v.slice(s.r, i); ok {
				s.gpus |= 1 << i
			}
		}
	case s.want > 0:
		s.gpus = s.v.whole(s.r, s.idle)
	case s.cards == 0 && !s.reportsNUMA && !s.brought && s.r.Near.Required:
		return false // nobody here says where anything that is asked for is
	}
	s.nics = s.v.cards(&s.r.NIC)
	if bits.OnesCount16(s.gpus) < s.want || bits.OnesCount16(s.nics) < s.cards {
		return false
	}
	if s.reportsNUMA && (s.v.NUMANodes == nil || s.v.NUMAFree == nil) {
		return false
	}
	if s.reportsNUMA && !s.near {
		var ok bool
		s.numaNodes, ok = s.v.offerNUMA(s.z, 1<<MaxNUMANodes-1)
		return ok
	}
	return true
}

// run looks for the best candidate of the closest level, down to a limit.
func (s *search) run(limit Level) bool {
	closest := SameSwitch
	if s.want == 0 && s.cards == 0 {
		closest = SameNUMA // CPUs hang below no switch
		limit = min(limit, closest)
	}
	for level := closest; ; level-- {
		if s.try(level) {
			return true
		}
		if level <= limit {
			return false
		}
	}
}

// try looks at the domains of a level. Where exclusive CPUs have to be near, devices may be closer among themselves than to the CPUs.
func (s *search) try(level Level) bool {
	if s.near && level != Anywhere && s.v.NUMANodes.Ruler != RulerAgent {
		return false // nobody says which CPUs it will be
	}
	s.wide.fill(s.v, level)
	for i := range s.wide.n {
		s.room[i].asked = false
	}
	closer := level
	if (s.near || s.brought) && s.want+s.cards > 0 {
		closer = SameSwitch
	}
	for ; ; closer-- {
		if closer != level {
			s.narrow.fill(s.v, closer)
		}
		for w := range s.wide.n {
			if closer == level {
				s.consider(w, s.wide.of[w])
				continue
			}
			for n := range s.narrow.n {
				s.consider(w, s.narrow.of[n].within(s.wide.of[w]))
			}
		}
		if s.found || closer == level {
			return s.found
		}
	}
}

// consider compares what the devices of a domain, and the NUMA nodes of the wide one around it, would be.
func (s *search) consider(wide int, d domain) {
	gpus := d.gpus & s.gpus
	if bits.OnesCount16(gpus) < s.want || bits.OnesCount16(d.nics&s.nics) < s.cards || !s.numaHold(wide, d.numaNodes) || s.brought && !s.v.holdsResources(&s.resources, d.numaNodes) {
		return
	}
	c := candidate{devices: d}
	s.left(&c, s.room[wide].cpus)
	if s.r.Milli == 0 {
		s.take(&c)
		return
	}
	compute := c.rank.compute
	for ; gpus != 0; gpus &= gpus - 1 {
		c.gpu = bits.TrailingZeros16(gpus)
		c.rank.spent, c.rank.gpu = s.spent(c.gpu), s.rest(c.gpu)
		c.rank.compute = compute - int64(s.part[c.gpu].milli)
		idle := c.rank.idle
		if s.idle&(1<<c.gpu) != 0 {
			c.rank.idle--
		}
		s.take(&c)
		c.rank.idle = idle
	}
}

func (s *search) take(c *candidate) {
	if !s.found || c.rank.less(&s.best.rank) {
		s.found, s.best = true, *c
	}
}

// spent is the size of the MIG instance that is taken: none is better than any, a small one better than a large one.
func (s *search) spent(i int) uint64 {
	p := &s.part[i]
	if p.instance == 0 {
		return 0
	}
	return uint64(p.milli)<<32 | uint64(p.memory)
}

// rest is what is left on a GPU that gives its part: compute first.
func (s *search) rest(i int) uint64 {
	p := &s.part[i]
	rest := uint64(s.v.Free[i]-int32(p.milli)) << 32
	if s.v.Shape.Devices != nil {
		rest |= uint64(uint32(s.v.Devices.Memory[i] - int32(p.memory)))
	}
	return rest
}

// left ranks a domain by what is left in it; what every candidate takes alike is not taken off.
func (s *search) left(c *candidate, cpus int32) {
	v, d := s.v, s.v.Shape.Devices
	c.rank.idle = bits.OnesCount16(c.devices.gpus & s.idle)
	c.rank.cpus = cpus
	if s.brought {
		c.rank.brought = v.resourcesWithin(&s.resources, c.devices.numaNodes)
	}
	count := v.Shape.count()
	gpus := c.devices.gpus & uint16(1<<count-1)
	if d != nil {
		gpus &^= d.ClosedGPUs
	}
	for ; gpus != 0; gpus &= gpus - 1 {
		c.rank.compute += int64(max(v.Free[bits.TrailingZeros16(gpus)], 0))
	}
	if d == nil {
		return
	}
	nics := c.devices.nics & uint16(1<<min(len(d.NIC), MaxNICs)-1) &^ d.ClosedNICs
	for ; nics != 0; nics &= nics - 1 {
		i := bits.TrailingZeros16(nics)
		c.rank.bandwidth += int64(max(v.Devices.Bandwidth[i], 0))
		c.rank.functions += int64(max(v.Devices.Functions[i], 0))
	}
}

// numaHold reports whether the NUMA nodes of a wide domain hold the exclusive CPUs, if those have to be near.
func (s *search) numaHold(wide int, numaNodes uint8) bool {
	if !s.near {
		return true
	}
	room := &s.room[wide]
	if room.asked {
		return room.holds
	}
	g, ok := s.v.offerNUMA(s.z, numaNodes)
	*room = numaRoomLeft{asked: true, holds: ok}
	for z := range MaxNUMANodes {
		if numaNodes&(1<<z) != 0 {
			room.cpus += s.v.NUMAFree[z].CPUs - int32(g.CPUs[z])
		}
	}
	return ok
}

// grant is what the best candidate gives.
func (s *search) grant() (g Grant) {
	c := &s.best
	switch {
	case s.r.Milli > 0:
		p := &s.part[c.gpu]
		g.GPUs, g.Milli, g.Memory, g.Isolation, g.Instance = 1<<c.gpu, p.milli, p.memory, p.isolation, p.instance
	case s.want > 0:
		g.GPUs, g.Milli = s.v.connected(c.devices.gpus&s.gpus, s.want), FullGPU
	}
	if s.cards > 0 {
		g.NICs = s.v.nearest(c.devices.nics&s.nics, s.cards, g.GPUs)
		g.NIC = NICGrant{s.r.NIC.Bandwidth, s.r.NIC.Function}
	}
	g.NUMANodes = s.numaNodes
	if s.near {
		g.NUMANodes, _ = s.v.offerNUMA(s.z, c.devices.numaNodes)
	}
	if s.brought {
		g.Resources = s.v.giveResources(&s.resources, c.devices.numaNodes, &g)
	}
	return g.For(s.r.Tenant)
}
