package topology

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
)

// tally is a node by the list of what is held of it. What is left is counted anew each time it is asked for.
type tally struct {
	shape     Shape
	numaNodes NUMAShape
	held      []Grant
	resources []Resource
}

func (t *tally) devices() *Devices { return t.shape.Devices }

// gpuLeft is what is left of a GPU: compute, memory, clients; slices by isolation, and holders of instances.
type gpuLeft struct {
	milli, memory, clients, accounting, soft int
	instances                                map[int]bool
	tenants                                  []Tenant // of the soft slices
}

func (t *tally) gpu(i int) gpuLeft {
	g := t.devices().GPU[i]
	l := gpuLeft{milli: 1000, memory: int(g.Memory), clients: int(g.Clients), instances: map[int]bool{}}
	for _, h := range t.held {
		switch {
		case h.GPUs&(1<<i) == 0:
			continue
		case h.Instance > 0:
			l.instances[int(h.Instance-1)] = true
			l.memory -= int(h.Memory)
		case h.Isolation == IsolationAny:
			l.memory -= int(g.Memory)
			l.clients -= int(g.Clients)
		default:
			l.memory -= int(h.Memory)
			l.clients--
			if h.Isolation == Soft {
				l.soft++
				l.tenants = append(l.tenants, h.Tenant)
			} else {
				l.accounting++
			}
		}
		l.milli -= int(h.Milli)
	}
	return l
}

func (t *tally) nic(i int) (bandwidth, functions int) {
	n := t.devices().NIC[i]
	bandwidth, functions = int(n.Bandwidth), int(n.Functions)
	for _, h := range t.held {
		if h.NICs&(1<<i) != 0 {
			bandwidth -= int(h.NIC.Bandwidth)
			if h.NIC.Function {
				functions--
			}
		}
	}
	return bandwidth, functions
}

func (t *tally) numaFree() NUMAFree {
	f := NewNUMAFree(&t.numaNodes)
	for i := range t.held {
		f.Commit(&t.held[i].NUMANodes)
	}
	return f
}

func (t *tally) idle(i int) bool {
	g, l := t.devices().GPU[i], t.gpu(i)
	return t.devices().Owner != OwnerNone && t.devices().ClosedGPUs&(1<<i) == 0 && len(g.Instances) == 0 &&
		l.milli >= 1000 && l.memory >= int(g.Memory) && l.clients >= int(g.Clients)
}

// parts are all slices of a GPU that may be given, the one that is offered first.
func (t *tally) parts(i int, r Request) (list []Grant) {
	d, l := t.devices(), t.gpu(i)
	g := d.GPU[i]
	if d.Owner != OwnerHilbert || d.ClosedGPUs&(1<<i) != 0 {
		return nil
	}
	if len(g.Instances) > 0 {
		for k, in := range g.Instances {
			if g.Strengths.Has(Hard) && !l.instances[k] && in.Milli >= uint16(r.Milli) && in.Memory >= r.Memory &&
				l.milli >= int(in.Milli) && l.memory >= int(in.Memory) {
				list = append(list, Grant{GPUs: 1 << i, Milli: int16(in.Milli), Memory: in.Memory, Isolation: Hard, Instance: int8(k + 1)})
			}
		}
		slices.SortStableFunc(list, func(a, b Grant) int { return cmp.Or(cmp.Compare(a.Milli, b.Milli), cmp.Compare(a.Memory, b.Memory)) })
		return list
	}
	for _, isolation := range []Isolation{Accounting, Soft} {
		milli := int(r.Milli)
		if isolation == Soft {
			milli = max(milli, int(g.Least))
			for grain := max(int(g.Grain), 1); g.Grain != 0 && milli%grain != 0 || g.Grain == 0 && milli%10 != 0; {
				milli++
			}
			milli = min(milli, 1000)
		}
		memory := int(r.Memory)
		if memory == 0 {
			memory = milli * int(g.Memory) / 1000
		}
		mixed := isolation == Soft && l.accounting > 0 || isolation == Accounting && l.soft > 0
		other := isolation == Soft && !d.SeveralNamespaces && slices.ContainsFunc(l.tenants, func(t Tenant) bool { return t != r.Tenant })
		if isolation >= r.Isolation && g.Strengths.Has(isolation) && !mixed && !other && l.clients > 0 && l.milli >= milli && l.memory >= memory {
			list = append(list, Grant{GPUs: 1 << i, Milli: int16(milli), Memory: uint32(memory), Isolation: isolation}.For(r.Tenant))
		}
	}
	return list
}

// gpuChoices are all the ways to serve the GPUs of a request. first: only those that Offer may choose.
func (t *tally) gpuChoices(r Request, first bool) (list []Grant) {
	d := t.devices()
	switch {
	case r.Milli > 0:
		for i := range d.GPU {
			parts := t.parts(i, r)
			if first && len(parts) > 1 {
				parts = parts[:1]
			}
			list = append(list, parts...)
		}
		return list
	case r.Whole == 0:
		return []Grant{{}}
	}
	for i, g := range d.GPU {
		if d.Owner == OwnerKubelet && d.ClosedGPUs&(1<<i) == 0 && g.Memory < r.Memory {
			return nil
		}
	}
	for set := uint16(1); set < 1<<len(d.GPU); set++ {
		fits := bits.OnesCount16(set) == int(r.Whole)
		for i, g := range d.GPU {
			fits = fits && (set&(1<<i) == 0 || t.idle(i) && g.Memory >= r.Memory)
		}
		if fits {
			list = append(list, Grant{GPUs: set, Milli: FullGPU})
		}
	}
	return list
}

func (t *tally) nicChoices(r NICRequest) (list []uint16) {
	d := t.devices()
	for set := uint16(0); set < 1<<len(d.NIC); set++ {
		fits := bits.OnesCount16(set) == int(r.Count)
		for i, n := range d.NIC {
			bandwidth, functions := t.nic(i)
			serves := d.ClosedNICs&(1<<i) == 0 && (n.RDMA || !r.RDMA) && bandwidth >= int(r.Bandwidth) && (!r.Function || functions > 0)
			fits = fits && (set&(1<<i) == 0 || serves)
		}
		if fits {
			list = append(list, set)
		}
	}
	return list
}

// numaChoices are the sets of NUMA nodes that hold a request, the best first.
func (t *tally) numaChoices(z NUMARequest) (list []uint8) {
	if z.IsZero() || t.numaNodes.Ruler == RulerKubelet && z.Binding == Unbound {
		return []uint8{0}
	}
	if t.numaNodes.Ruler != RulerAgent || z.Binding == BoundShared && !t.numaNodes.BindsShared || z.Bandwidth > 0 && !t.numaNodes.SeparatesBandwidth {
		return nil
	}
	f := t.numaFree()
	for _, c := range choices(&t.numaNodes, &f, z) {
		list = append(list, uint8(c.set))
	}
	return list
}

// places are where a device hangs, from the socket to the switch.
func (t *tally) places(gpu bool, i int) [4]uint8 {
	if gpu {
		if g := t.devices().GPU[i]; t.devices().Owner == OwnerHilbert {
			return [4]uint8{0, g.Socket, g.NUMANode, g.Switch}
		}
		return [4]uint8{0, NoPlace, NoPlace, NoPlace}
	}
	n := t.devices().NIC[i]
	return [4]uint8{0, n.Socket, n.NUMANode, n.Switch}
}

// around is what hangs together with a device at a level.
func (t *tally) around(level Level, gpu bool, index int) (d domain) {
	at := t.places(gpu, index)[level]
	with := func(other bool, i int) bool {
		return level == Anywhere || other == gpu && i == index || at != NoPlace && t.places(other, i)[level] == at
	}
	for i := range t.devices().GPU {
		if with(true, i) {
			d.gpus |= 1 << i
			if p := t.places(true, i)[SameNUMA]; level == SameSwitch && p < t.numaNodes.NUMANodes {
				d.numaNodes |= 1 << p
			}
		}
	}
	for i := range t.devices().NIC {
		if with(false, i) {
			d.nics |= 1 << i
			if p := t.places(false, i)[SameNUMA]; level == SameSwitch && p < t.numaNodes.NUMANodes {
				d.numaNodes |= 1 << p
			}
		}
	}
	for z := range t.numaNodes.NUMANodes {
		if level == Anywhere || level == SameNUMA && z == at || level == SameSocket && t.numaNodes.NUMANode[z].Socket == at {
			d.numaNodes |= 1 << z
		}
	}
	return d
}

// domainOf is the domain of a level that has a choice's devices; without devices, that of the lowest NUMA node.
func (t *tally) domainOf(level Level, gpus, nics uint16, numaNodes uint8) (d domain, together bool) {
	switch {
	case gpus != 0:
		d = t.around(level, true, bits.TrailingZeros16(gpus))
	case nics != 0:
		d = t.around(level, false, bits.TrailingZeros16(nics))
	default:
		first := uint8(bits.TrailingZeros8(numaNodes | 1<<7))
		for z := range t.numaNodes.NUMANodes {
			if level == Anywhere || z == first || level == SameSocket && t.numaNodes.NUMANode[z].Socket == t.numaNodes.NUMANode[first].Socket {
				d.numaNodes |= 1 << z
			}
		}
		at := [4]uint8{SameNUMA: first, SameSocket: t.numaNodes.NUMANode[first].Socket}[level]
		for i := range t.devices().GPU {
			if level == Anywhere || t.places(true, i)[level] == at {
				d.gpus |= 1 << i
			}
		}
		for i := range t.devices().NIC {
			if level == Anywhere || t.places(false, i)[level] == at {
				d.nics |= 1 << i
			}
		}
	}
	return d, gpus&^d.gpus == 0 && nics&^d.nics == 0 && numaNodes&^d.numaNodes == 0
}

// judged is a choice, and how good it is: less is better.
type judged struct {
	Grant
	numaNodes uint8
	level     Level // of all
	// resourceNodes are where it gets what plugins bring.
	resourceNodes uint8
}

// all are the choices that serve a request and are as close as the limit. first: as gpuChoices.
func (t *tally) all(r Request, z NUMARequest, limit Level, first bool) (list []judged) {
	asks := t.asks(r)
	near := t.near(r, z)
	if r.Near.Required && len(asks) == 0 && r.GPUsAndCards() == 0 && z.IsZero() {
		return nil
	}
	numaNodes := t.numaChoices(z)
	if !near && len(numaNodes) > 1 {
		numaNodes = numaNodes[:1]
	}
	for _, g := range t.gpuChoices(r, first) {
		for _, nics := range t.nicChoices(r.NIC) {
			for _, set := range numaNodes {
				j := judged{Grant: g, numaNodes: set}
				if j.NICs = nics; nics != 0 {
					j.NIC = NICGrant{r.NIC.Bandwidth, r.NIC.Function}
				}
				considered := set
				if !near {
					considered = 0
				}
				for _, j.resourceNodes = range t.resourceChoices(asks) {
					j.level = t.closeness(&j, considered, near)
					if j.level >= limit {
						list = append(list, j)
					}
				}
			}
		}
	}
	return list
}

func (t *tally) closeness(j *judged, numaNodes uint8, near bool) Level {
	level := SameSwitch
	if j.GPUs|j.NICs == 0 {
		if !near && j.resourceNodes == 0 {
			return level
		}
		level = SameNUMA
	}
	numaNodes |= j.resourceNodes
	for ; level > Anywhere; level-- {
		if near && t.numaNodes.Ruler != RulerAgent {
			continue
		}
		if _, ok := t.domainOf(level, j.GPUs, j.NICs, numaNodes); ok {
			break
		}
	}
	return level
}

// limit is the level that has to be reached; with Relax it is what the empty machine could do.
func (t *tally) limit(r Request, z NUMARequest) Level {
	if !r.Near.Required {
		return Anywhere
	}
	level := r.Near.Level
	if r.GPUsAndCards() == 0 {
		level = min(level, SameNUMA)
	}
	empty := tally{shape: t.shape, numaNodes: t.numaNodes, resources: t.resources}
	for r.Near.Relax && level > Anywhere && len(empty.all(r, z, level, false)) == 0 {
		level--
	}
	return level
}

// GPUsAndCards is how many devices are asked for.
func (r *Request) GPUsAndCards() int { return r.Count() + int(r.NIC.Count) }

// rank orders choices that are equally near; it is what Offer's doc says, up to which of several whole GPUs and cards of one domain.
func (t *tally) rank(r Request, z NUMARequest, j *judged) []int {
	near := !z.IsZero() && r.Near.Level != Anywhere
	devices := SameSwitch
	var narrow domain
	if r.GPUsAndCards() > 0 {
		for ok := false; !ok; devices-- {
			narrow, ok = t.domainOf(devices, j.GPUs, j.NICs, 0)
		}
		devices++
	} else {
		devices = j.level
	}
	considered := j.numaNodes
	if !near {
		considered, j.level = 0, devices
	}
	wide, _ := t.domainOf(j.level, j.GPUs, j.NICs, considered)
	if r.GPUsAndCards() == 0 {
		narrow = wide
	}
	order := []int{-int(j.level), -int(devices)}
	if r.Milli > 0 {
		i := bits.TrailingZeros16(j.GPUs)
		spent := []int{0, 0}
		if j.Instance > 0 {
			spent = []int{int(j.Milli), int(j.Memory)}
		}
		left := t.gpu(i)
		order = append(append(order, spent...), left.milli-int(j.Milli), left.memory-int(j.Memory))
	}
	order = append(order, t.leftover(domain{gpus: narrow.gpus & wide.gpus, nics: narrow.nics & wide.nics}, j)...)
	cpus := 0
	if near {
		cpus = t.cpusLeft(z, wide.numaNodes)
	}
	return append(order, cpus, first(wide), first(narrow), first(domain{gpus: j.GPUs}))
}

// leftover is what a choice leaves of a domain's devices.
func (t *tally) leftover(d domain, j *judged) []int {
	after := tally{t.shape, t.numaNodes, append(slices.Clone(t.held), j.Grant), t.resources}
	var idle, compute, bandwidth, functions int
	for i := range t.devices().GPU {
		if d.gpus&(1<<i) != 0 && t.devices().ClosedGPUs&(1<<i) == 0 {
			compute += max(after.gpu(i).milli, 0)
			if after.idle(i) {
				idle++
			}
		}
	}
	for i := range t.devices().NIC {
		if d.nics&(1<<i) != 0 && t.devices().ClosedNICs&(1<<i) == 0 {
			b, f := t.nic(i)
			bandwidth += max(b, 0)
			functions += max(f, 0)
		}
	}
	return []int{idle, compute, bandwidth, functions}
}

// cpusLeft is the CPUs that are left of NUMA nodes when the best of them are taken; what every choice takes alike is not taken off.
func (t *tally) cpusLeft(z NUMARequest, numaNodes uint8) (cpus int) {
	f := t.numaFree()
	for _, set := range t.numaChoices(z) {
		if set&^numaNodes != 0 {
			continue
		}
		for c := range t.numaNodes.NUMANodes {
			if numaNodes&(1<<c) != 0 {
				cpus += int(f[c].CPUs)
			}
			if set&(1<<c) != 0 && z.Binding == Exclusive {
				cpus -= int(t.numaNodes.NUMANode[c].CPUs)
			}
		}
		break
	}
	return cpus
}

// first orders domains by what is lowest in them.
func first(d domain) int {
	switch {
	case d.gpus != 0:
		return bits.TrailingZeros16(d.gpus)
	case d.nics != 0:
		return 100 + bits.TrailingZeros16(d.nics)
	}
	return 200 + bits.TrailingZeros8(d.numaNodes)
}

// wellConnected says what is wrong with the GPUs that were chosen of a set of candidates.
func (t *tally) wellConnected(candidates, chosen uint16) error {
	d := t.devices()
	n := len(d.GPU)
	link := func(a, b int) int {
		if d.Owner != OwnerHilbert || len(d.Links) != n*n {
			return 1
		}
		return int(d.Links[min(a, b)*n+max(a, b)])
	}
	worth := func(set uint16) []int {
		least, sum, cut := 255, 0, 0
		for a := range n {
			for b := a + 1; b < n; b++ {
				in := bits.OnesCount16(set & (1<<a | 1<<b))
				switch {
				case candidates&(1<<a) == 0 || candidates&(1<<b) == 0:
				case in == 2:
					least, sum = min(least, link(a, b)), sum+link(a, b)
				case in == 1:
					cut += link(a, b)
				}
			}
		}
		return []int{-least, -sum, cut}
	}
	for set := uint16(0); set < 1<<n; set++ {
		if set&^candidates != 0 || bits.OnesCount16(set) != bits.OnesCount16(chosen) || set == chosen {
			continue
		}
		order := slices.Compare(worth(set), worth(chosen))
		if order < 0 || order == 0 && bits.Reverse16(set) > bits.Reverse16(chosen) {
			return fmt.Errorf("GPUs %b are connected as %v, %b as %v", chosen, worth(chosen), set, worth(set))
		}
	}
	return nil
}
