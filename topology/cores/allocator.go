package cores

import (
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"

	"hilbert.dev/hilbert/topology"
)

// What keeps a holding from being committed or adopted.
var (
	// ErrExpired: the allocator has moved on since the offer was made.
	ErrExpired = errors.New("the offer has expired")
	// ErrHeld: the id holds something already, or another id holds a part of it.
	ErrHeld = errors.New("already held")
	// ErrUnfit: it is not what this machine can give: cores that are not whole, reserved, or not those that the grant counts.
	ErrUnfit = errors.New("this machine cannot give it")
)

// Holding is what one pod holds of the machine. Where the kubelet assigns the CPUs, Request and Grant are zero: only the CPUs are known. A pod with
// BoundShared has no CPUs of its own: its grant is room that SharePool keeps in those NUMA nodes, see RunsIn.
type Holding struct {
	Request topology.NUMARequest
	Grant   topology.NUMAGrant
	CPUs    topology.CPUSet
}

// Offer is a holding that Commit takes, as long as the allocator stays at the revision.
type Offer struct {
	Revision uint64
	Holding
	Kept bool // the promise is what is offered
}

// Allocator gives the CPUs and memory of one machine to pods, and divides what no pod holds into pools.
//
// Exclusive CPUs are whole cores with as many threads as the machine's cores have at most. A core with a thread offline, or of a slower kind
// with fewer, is never exclusive: it stays in the pools. Reserved cores are never held under RulerAgent. In a NUMA node that a pod has
// alone nothing else gets a CPU, pools included. NUMA nodes are indices of Machine.NUMA, not IDs.
//
// An Allocator is not safe for concurrent use.
type Allocator struct {
	layout
	standing
	holdings map[string]Holding
	revision uint64
	journal  []undo
	depth    int // of marks that are open
}

// standing is the state that follows from the holdings and the wishes. It is copied into the journal: what its references reach is not
// changed once it is there.
type standing struct {
	shape    topology.NUMAShape
	free     topology.NUMAFree
	held     topology.CPUSet
	alone    uint8                      // NUMA nodes that somebody has alone
	bound    [topology.MaxNUMANodes]int // CPUs of each NUMA node that pods with BoundShared have room for
	division Division
	pools    Pools
}

// NewAllocator returns the allocator of an empty machine under RulerAgent. The cores of reserved are kept for the system, and reservedMemory
// (MiB) of each NUMA node is kept back. A machine with more than MaxNUMANodes NUMA nodes promises nothing: its ruler is RulerNone, and its pools take
// it for one NUMA node. The error names what a Machine must not be: empty, with CPUs of MaxCPUs and more, of unknown NUMA nodes, or with a core
// in two of them.
func NewAllocator(m *topology.Machine, reserved topology.CPUSet, reservedMemory uint32) (*Allocator, error) {
	l, err := newLayout(m, reserved)
	if err != nil {
		return nil, fmt.Errorf("machine: %w", err)
	}
	a := &Allocator{layout: *l, holdings: make(map[string]Holding)}
	a.shape = l.promise(m, reservedMemory)
	a.free = topology.NewNUMAFree(&a.shape)
	a.divide()
	return a, nil
}

// SetRuler sets the process that assigns CPUs. Under another ruler than RulerAgent nothing is offered, and Adopt takes any CPUs. It fails with ErrHeld when
// something is held.
func (a *Allocator) SetRuler(r topology.Ruler) error {
	switch {
	case len(a.holdings) > 0:
		return fmt.Errorf("ruler %v: %d pods hold CPUs: %w", r, len(a.holdings), ErrHeld)
	case r == topology.RulerAgent && a.shape.NUMANodes == 0:
		return fmt.Errorf("ruler %v: the machine has more than %d NUMA nodes: %w", r, topology.MaxNUMANodes, ErrUnfit)
	}
	a.change("")
	a.shape.Ruler = r
	return nil
}

// Shape is what the machine can promise.
func (a *Allocator) Shape() topology.NUMAShape { return a.shape }

// Free is what is left of it.
func (a *Allocator) Free() topology.NUMAFree { return a.free }

// Revision grows with each change, Rollback included.
func (a *Allocator) Revision() uint64 { return a.revision }

// Reserved are the cores that are kept for the system.
func (a *Allocator) Reserved() topology.CPUSet { return a.reserved }

// Pools are the CPUs that no pod holds, as the last Divide divided them.
func (a *Allocator) Pools() Pools { return a.pools }

// RunsIn is where a pod with BoundShared runs: the part of SharePool that is in the NUMA nodes of its grant which give it CPUs. If SharePool has none there, it is
// what no pod holds of them, of the reclaimed pool and the reserved cores last; and if that is nothing either, what SharePool runs on.
func (a *Allocator) RunsIn(g *topology.NUMAGrant) topology.CPUSet {
	var in topology.CPUSet
	for z := range a.numaNodes {
		if z < topology.MaxNUMANodes && g.CPUs[z] > 0 {
			in = in.Union(a.numaNodes[z].cpus)
		}
	}
	free := a.all.Minus(a.held)
	for _, set := range []topology.CPUSet{a.pools.Of(SharePool), free.Minus(a.reserved).Minus(a.pools.Reclaimed), free.Minus(a.reserved), free} {
		if part := set.Intersection(in); !part.IsEmpty() {
			return part
		}
	}
	return a.pools.Runs(a.pools.Of(SharePool))
}

// Bound are the CPUs of each NUMA node that pods with BoundShared have room for.
func (a *Allocator) Bound() [topology.MaxNUMANodes]int { return a.bound }

// Held are the CPUs that some pod holds exclusively.
func (a *Allocator) Held() topology.CPUSet { return a.held }

// Alone is the set of NUMA nodes that a pod has alone.
func (a *Allocator) Alone() uint8 { return a.alone }

// Sensitive is the set of NUMA nodes with pods whose request says that they suffer where the memory is loaded.
func (a *Allocator) Sensitive() (set uint8) {
	for z := range a.free {
		if a.free[z].Sensitive > 0 {
			set |= 1 << z
		}
	}
	return set
}

// NUMANode is the set of CPUs of a NUMA node.
func (a *Allocator) NUMANode(numa int) topology.CPUSet { return a.numaNodes[numa].cpus }

// Holding is what id holds. False: nothing.
func (a *Allocator) Holding(id string) (Holding, bool) {
	h, ok := a.holdings[id]
	return h, ok
}

// Givable is the part of some CPUs that are whole cores which are free and not reserved.
func (a *Allocator) Givable(cpus topology.CPUSet) (out topology.CPUSet) {
	for z := range a.numaNodes {
		for _, c := range a.numaNodes[z].cores {
			if c.cpus == c.cpus.Intersection(cpus).Intersection(a.numaNodes[z].givable).Minus(a.held) {
				out = out.Union(c.cpus)
			}
		}
	}
	return out
}

// Holders are the ids that hold something, ascending.
func (a *Allocator) Holders() []string { return slices.Sorted(maps.Keys(a.holdings)) }

// Offer says what the request would be given: the promise if it still fits, else NUMA nodes that OfferNUMA chooses, both from the NUMA nodes in among
// (what hints allow). False: it does not fit; or it would leave no CPU to shared pools that ask for some, on a machine without reserved
// cores. The second never happens to a promise that was made while all requests together fit the machine.
func (a *Allocator) Offer(r topology.NUMARequest, promised topology.NUMAGrant, among uint8) (Offer, bool) {
	if r.IsZero() || a.shape.Ruler != topology.RulerAgent {
		return Offer{}, false
	}
	s := a.shape
	s.Closed |= ^among
	if !promised.IsZero() && a.free.Fits(&s, r, &promised) {
		if o, ok := a.offer(r, promised); ok {
			o.Kept = true
			return o, true
		}
	}
	g, ok := topology.OfferNUMA(&s, &a.free, r)
	if !ok {
		return Offer{}, false
	}
	return a.offer(r, g)
}

// offer turns a grant that fits into CPUs.
func (a *Allocator) offer(r topology.NUMARequest, g topology.NUMAGrant) (Offer, bool) {
	o := Offer{Revision: a.revision, Holding: Holding{Request: r, Grant: g}}
	if r.Binding == topology.BoundShared {
		return o, true
	}
	for z := range int(a.shape.NUMANodes) {
		free := a.numaNodes[z].givable.Minus(a.held)
		o.CPUs = o.CPUs.Union(a.choose(z, int(g.CPUs[z])/a.threads, free, topology.CPUSet{}))
	}
	return o, !a.starves(o.CPUs)
}

// starves reports whether nothing would be left for shared pods that ask for CPUs. Pods that ask for none never prevent it: the
// scheduler does not count them either.
func (a *Allocator) starves(cpus topology.CPUSet) bool {
	if !a.reserved.IsEmpty() || !a.all.Minus(a.held).Minus(cpus).IsEmpty() {
		return false
	}
	return slices.ContainsFunc(a.division.Shared, func(d PoolDemand) bool { return d.MilliCPU > 0 })
}

// Answers reports whether a promise is one that this request can have been given, whatever is held by now: that many whole cores, and the
// memory if it is bound. What does not answer was not promised to this pod.
func (a *Allocator) Answers(r topology.NUMARequest, g *topology.NUMAGrant) bool {
	var cpus, memory int64
	for z := range topology.MaxNUMANodes {
		if r.Binding != topology.BoundShared && int(g.CPUs[z])%a.threads != 0 {
			return false
		}
		cpus += int64(g.CPUs[z])
		memory += int64(g.Memory[z])
	}
	if r.IsZero() || a.shape.Ruler != topology.RulerAgent {
		return g.IsZero()
	}
	if g.Bandwidth != r.Bandwidth {
		return false
	}
	switch r.Binding {
	case topology.Unbound:
		return cpus == a.shape.Charged(r) && memory == 0
	case topology.Bound, topology.BoundShared:
		return cpus == a.shape.Charged(r) && memory == int64(r.Memory)
	default: // whole NUMA nodes may have more than is asked for
		return cpus >= a.shape.Charged(r) && memory >= int64(r.Memory)
	}
}

// GrantOf is the grant of a pod that runs on the CPUs already, for Adopt: what they are by NUMA node, and its memory in the same NUMA nodes as evenly as
// their room allows.
func (a *Allocator) GrantOf(r topology.NUMARequest, cpus topology.CPUSet) (g topology.NUMAGrant) {
	var set uint8
	g.Bandwidth = r.Bandwidth
	for z := range int(a.shape.NUMANodes) {
		if n := a.numaNodes[z].cpus.Intersection(cpus).Len(); n > 0 {
			g.CPUs[z] = uint16(n)
			set |= 1 << z
		}
	}
	if set == 0 || r.Binding == topology.Unbound {
		return g
	}
	if r.Binding == topology.Exclusive {
		for ; set != 0; set &= set - 1 {
			z := bits.TrailingZeros8(set)
			g.Memory[z] = a.shape.NUMANode[z].Memory
		}
		return g
	}
	memory := topology.SpreadEvenly(set, int64(r.Memory), func(z int) int64 { return max(a.free[z].Memory, 0) })
	left := int64(r.Memory)
	for z := range topology.MaxNUMANodes {
		g.Memory[z] = uint32(memory[z])
		left -= memory[z]
	}
	g.Memory[bits.TrailingZeros8(set)] += uint32(left) // it is used already, room or not
	return g
}

// Commit takes an offer for id. The error is ErrExpired when anything has changed since the offer was made, else as Adopt's.
func (a *Allocator) Commit(id string, o Offer) error {
	if o.Revision != a.revision {
		return fmt.Errorf("%s: offered at revision %d, now %d: %w", id, o.Revision, a.revision, ErrExpired)
	}
	return a.Adopt(id, o.Holding)
}

// Adopt records what runs already, from a checkpoint or the kubelet: closed NUMA nodes and missing memory do not keep it out. The error is ErrHeld
// or ErrUnfit.
func (a *Allocator) Adopt(id string, h Holding) error {
	if _, ok := a.holdings[id]; ok {
		return fmt.Errorf("%s: %w", id, ErrHeld)
	}
	if err := a.sound(h); err != nil {
		return fmt.Errorf("%s: %w", id, err)
	}
	if taken := h.CPUs.Intersection(a.held); !taken.IsEmpty() {
		return fmt.Errorf("%s: CPUs %v: %w", id, taken, ErrHeld)
	}
	for set := h.Grant.NUMANodes(); set != 0; set &= set - 1 {
		z := bits.TrailingZeros8(set)
		if a.alone&(1<<z) != 0 || h.Request.Binding == topology.Exclusive && a.free[z].Claims > 0 {
			return fmt.Errorf("%s: NUMA node %d: %w", id, z, ErrHeld)
		}
	}
	a.change(id)
	a.put(id, h)
	a.divide()
	return nil
}

// Release gives back what id holds. False: nothing.
func (a *Allocator) Release(id string) bool {
	if _, ok := a.holdings[id]; !ok {
		return false
	}
	a.change(id)
	a.remove(id)
	a.divide()
	return true
}

// Resize gives a pod another number of CPUs. Its own NUMA nodes give or take first, as evenly as their room allows; an Unbound pod gets what is
// missing from other NUMA nodes. Cores that it keeps stay the same. Memory stays where it is. False: it does not fit (or id holds nothing), and
// nothing has changed.
func (a *Allocator) Resize(id string, cpus uint16) bool {
	h, ok := a.holdings[id]
	if !ok || cpus == 0 || a.shape.Ruler != topology.RulerAgent {
		return false
	}
	h.Request.CPUs = cpus
	if h.Request.Binding == topology.BoundShared {
		return a.resizeBound(id, h)
	}
	cores := a.shape.Charged(h.Request) / int64(a.threads)
	has := int64(h.CPUs.Len() / a.threads)
	switch {
	case h.Request.Binding == topology.Exclusive:
		ok = cores <= has // whole NUMA nodes stay whole
	case cores < has:
		h = a.shrunk(h, cores)
	case cores > has:
		h, ok = a.grown(h, cores-has)
		ok = ok && !a.starves(h.CPUs)
	}
	if !ok {
		return false
	}
	a.change(id)
	a.remove(id)
	a.put(id, h)
	a.divide()
	return true
}

// resizeBound gives a pod that shares CPUs room for another number of them in its NUMA nodes.
func (a *Allocator) resizeBound(id string, h Holding) bool {
	had, left := h.Grant, int64(h.Request.CPUs)
	parts := topology.SpreadEvenly(had.NUMANodes(), left, func(z int) int64 {
		room := int64(had.CPUs[z])
		if a.shape.Closed&(1<<z) == 0 {
			room += max(int64(a.free[z].CPUs), 0)
		}
		return room
	})
	for z, n := range parts {
		h.Grant.CPUs[z] = uint16(n)
		left -= n
	}
	if left > 0 {
		return false
	}
	a.change(id)
	a.remove(id)
	a.put(id, h)
	a.divide()
	return true
}

func (a *Allocator) shrunk(h Holding, cores int64) Holding {
	had := h.CPUs
	h.CPUs = topology.CPUSet{}
	parts := topology.SpreadEvenly(h.Grant.NUMANodes(), cores, func(z int) int64 { return int64(h.Grant.CPUs[z]) / int64(a.threads) })
	for z := range int(a.shape.NUMANodes) {
		h.Grant.CPUs[z] = uint16(parts[z]) * uint16(a.threads)
		h.CPUs = h.CPUs.Union(a.choose(z, int(parts[z]), had.Intersection(a.numaNodes[z].cpus), topology.CPUSet{}))
	}
	return h
}

func (a *Allocator) grown(h Holding, more int64) (Holding, bool) {
	threads := int64(a.threads)
	own := h.Grant.NUMANodes()
	parts := topology.SpreadEvenly(own&^a.shape.Closed, more, func(z int) int64 { return max(int64(a.free[z].CPUs)/threads, 0) })
	for _, n := range parts {
		more -= n
	}
	if more > 0 && h.Request.Binding != topology.Unbound {
		return h, false
	}
	if more > 0 {
		s := a.shape
		s.Closed |= own
		g, ok := topology.OfferNUMA(&s, &a.free, topology.NUMARequest{CPUs: uint16(more * threads), Bandwidth: h.Request.Bandwidth})
		if !ok {
			return h, false
		}
		for z := range topology.MaxNUMANodes {
			parts[z] += int64(g.CPUs[z]) / threads
		}
	}
	for z := range int(a.shape.NUMANodes) {
		free := a.numaNodes[z].givable.Minus(a.held)
		h.CPUs = h.CPUs.Union(a.choose(z, int(parts[z]), free, h.CPUs))
		h.Grant.CPUs[z] += uint16(parts[z] * threads)
	}
	return h, true
}

// Close keeps a NUMA node from giving anything new, or opens it again. A number that is no NUMA node's is ignored.
func (a *Allocator) Close(numa int, closed bool) {
	if numa < 0 || numa >= int(a.shape.NUMANodes) {
		return
	}
	set := a.shape.Closed &^ (1 << numa)
	if closed {
		set |= 1 << numa
	}
	if set == a.shape.Closed {
		return
	}
	a.change("")
	a.shape.Closed = set
}

// sound judges a holding by itself: does this machine have such a thing to give?
func (a *Allocator) sound(h Holding) error {
	if h.Request.Binding == topology.BoundShared {
		if a.shape.Ruler != topology.RulerAgent || !h.CPUs.IsEmpty() || h.Grant.NUMANodes()>>a.shape.NUMANodes != 0 || h.Request.IsZero() || !a.Answers(h.Request, &h.Grant) {
			return fmt.Errorf("grant %v and CPUs %q for %d shared CPUs, %d MiB: %w", h.Grant, h.CPUs, h.Request.CPUs, h.Request.Memory, ErrUnfit)
		}
		return nil
	}
	if h.CPUs.IsEmpty() || h.CPUs != h.CPUs.Intersection(a.all) {
		return fmt.Errorf("CPUs %q of a machine with %v: %w", h.CPUs, a.all, ErrUnfit)
	}
	if a.shape.Ruler != topology.RulerAgent {
		if h.Request != (topology.NUMARequest{}) || !h.Grant.IsZero() {
			return fmt.Errorf("a grant %v by NUMA node, where ruler is %v: %w", h.Grant, a.shape.Ruler, ErrUnfit)
		}
		return nil
	}
	count := 0
	for z := range a.numaNodes {
		part := h.CPUs.Intersection(a.numaNodes[z].cpus)
		count += part.Len()
		switch {
		case part != part.Intersection(a.numaNodes[z].givable) || !a.whole(z, part):
			return fmt.Errorf("CPUs %v of NUMA node %d are not all whole cores that may be given: %w", part, z, ErrUnfit)
		case part.Len() != int(h.Grant.CPUs[z]):
			return fmt.Errorf("CPUs %q of NUMA node %d for a grant %v: %w", part, z, h.Grant, ErrUnfit)
		case h.Request.Binding == topology.Exclusive && !part.IsEmpty() && (part != a.numaNodes[z].givable || h.Grant.Memory[z] != a.shape.NUMANode[z].Memory):
			return fmt.Errorf("a part of NUMA node %d for a pod that has it alone: %w", z, ErrUnfit)
		}
	}
	if h.Grant.NUMANodes()>>a.shape.NUMANodes != 0 || h.Request.IsZero() || !a.Answers(h.Request, &h.Grant) {
		return fmt.Errorf("grant %v for %d CPUs, %d MiB: %w", h.Grant, h.Request.CPUs, h.Request.Memory, ErrUnfit)
	}
	return nil
}

// put and remove keep what follows from the holdings, except the pools.
func (a *Allocator) put(id string, h Holding) {
	a.holdings[id] = h
	a.free.Commit(&h.Grant)
	a.held = a.held.Union(h.CPUs)
	a.keepRoom(&h, 1)
	if h.Request.Binding == topology.Exclusive {
		a.alone |= h.Grant.NUMANodes()
	}
}

func (a *Allocator) remove(id string) {
	h := a.holdings[id]
	delete(a.holdings, id)
	a.free.Release(&h.Grant)
	a.held = a.held.Minus(h.CPUs)
	a.keepRoom(&h, -1)
	if h.Request.Binding == topology.Exclusive {
		a.alone &^= h.Grant.NUMANodes()
	}
}

// keepRoom keeps room of SharePool for a pod that shares CPUs, or with sign -1 no longer.
func (a *Allocator) keepRoom(h *Holding, sign int) {
	if h.Request.Binding != topology.BoundShared {
		return
	}
	for z, cpus := range h.Grant.CPUs {
		a.bound[z] += sign * int(cpus)
	}
}
