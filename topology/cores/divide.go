package cores

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"hilbert.dev/hilbert/topology"
)

// SharePool is the shared pool that is always there and gets what the others do not ask for.
const SharePool = "share"

// Division is what the pools should have of the CPUs that no pod holds.
type Division struct {
	Shared    []PoolDemand               // the pools that have pods; SharePool too, if it has
	Reclaimed [topology.MaxNUMANodes]int // cores, by NUMA node
}

// PoolDemand is a shared pool, the sum of its pods' CPU requests, and what it should rather have; SharePool has what its pods request, or the rest.
type PoolDemand struct {
	Name          string
	MilliCPU      int64
	WantsMilliCPU int64 // as MilliCPU where nobody knows better
}

// Pools divide the CPUs that no pod holds: each of those, outside NUMA nodes that a pod has alone, is in exactly one of Shared and Reclaimed. A
// pool that has no core of its own is inside SharePool, see Of; Runs says what pods run on where that has none either.
type Pools struct {
	Shared    map[string]topology.CPUSet // not to be changed
	Reclaimed topology.CPUSet            // its intersection with a NUMA node is the NUMA node's part
	System    topology.CPUSet            // the reserved cores

	last topology.CPUSet
}

// Of is the CPUs of a shared pool: its own, or else those of SharePool.
func (p *Pools) Of(name string) topology.CPUSet {
	if own := p.Shared[name]; !own.IsEmpty() {
		return own
	}
	return p.Shared[SharePool]
}

// Runs is what the pods of a pool run on: its CPUs; if it has none, the reserved cores; if none are reserved, whatever no pod holds, also in NUMA nodes
// that a pod has alone; and if everything is held, the whole machine, because a process has to run somewhere.
func (p *Pools) Runs(pool topology.CPUSet) topology.CPUSet {
	if pool.IsEmpty() {
		return p.last
	}
	return pool
}

// Divide divides the CPUs that no pod holds, and keeps them divided like that while holdings come and go.
//
// Reclaimed gets its cores of each NUMA node, from the high end. What pods request comes first of the rest: a shared pool gets the cores that its requests
// fill, and SharePool those that its requests fill or begin, spread over the NUMA nodes as the room is. A pool whose requests fill no core is inside
// SharePool, which is asked for its requests too: so a pool's name is worth no CPU. From what is left then, a pool gets the core that its requests begin, and what
// it wants beyond; SharePool gets the rest. If the cores do not suffice for the requests, the pools have one core each and divide the others in
// proportion to what they request beyond it; if there are fewer cores than pools, SharePool has one, and then those that request most. Reclaimed yields
// before any of them goes without.
//
// In each NUMA node SharePool keeps the cores that pods with BoundShared have room for there, as far as its size goes, and named pools get theirs elsewhere.
// Reclaimed leaves it one of them.
//
// For example, of 47 cores with two threads each SharePool's pods request 80 CPUs, and it has all of them. Forty pools of 10m change nothing. One that
// requests 6 CPUs gets three cores. If it wants 40 it gets four more, the three beyond those 40 that share's pods request.
//
// Pools move as little as they can: a pool that has as many cores as it should keeps them, for balance's sake too. What moves is at most
// what some pool has too much, and what Reclaimed lacks in a NUMA node. Pools are made of whole cores.
func (a *Allocator) Divide(d Division) Pools {
	d = d.normal(a.threads)
	if slices.Equal(d.Shared, a.division.Shared) && d.Reclaimed == a.division.Reclaimed {
		return a.pools
	}
	a.change("")
	a.division = d
	a.divide()
	return a.pools
}

// Division is what Divide was asked for last.
func (a *Allocator) Division() Division {
	d := a.division
	d.Shared = slices.Clone(d.Shared)
	return d
}

// AdoptPools gives the allocator the pools from before a restart, so that as few CPUs as possible move.
func (a *Allocator) AdoptPools(p Pools) {
	a.change("")
	a.pools = p
	a.divide()
}

// normal is the division with each pool once that has cores of its own, by name, and nothing negative.
func (d Division) normal(threads int) Division {
	sum := make(map[string]PoolDemand, len(d.Shared))
	for _, p := range d.Shared {
		of := sum[p.Name]
		of.MilliCPU, of.WantsMilliCPU = of.MilliCPU+bounded(p.MilliCPU), of.WantsMilliCPU+bounded(p.WantsMilliCPU)
		sum[p.Name] = of
	}
	for name, p := range sum {
		if name != SharePool && p.MilliCPU < milliPerCPU*int64(threads) {
			inside := sum[SharePool]
			inside.MilliCPU += p.MilliCPU
			sum[SharePool] = inside
			if p.MilliCPU = 0; p.WantsMilliCPU < milliPerCPU*int64(threads) {
				delete(sum, name)
			} else {
				sum[name] = p // it may have what requests leave
			}
		}
	}
	d.Shared = make([]PoolDemand, 0, len(sum))
	for name, p := range sum {
		p.Name = name
		if name == SharePool {
			p.WantsMilliCPU = p.MilliCPU
		}
		d.Shared = append(d.Shared, p)
	}
	slices.SortFunc(d.Shared, func(x, y PoolDemand) int { return strings.Compare(x.Name, y.Name) })
	for z := range d.Reclaimed {
		d.Reclaimed[z] = max(d.Reclaimed[z], 0)
	}
	return d
}

// sizes is how many cores each pool should have.
type sizes struct {
	reclaimed [topology.MaxNUMANodes]int
	names     []string                   // of the shared pools except SharePool, ascending
	shared    map[string]int             // by name; SharePool gets what is left
	keeps     [topology.MaxNUMANodes]int // cores that SharePool must have of each NUMA node
}

// divide makes pools of what no pod holds, starting from the present pools.
func (a *Allocator) divide() {
	d := divider{units: a.units(), has: make(map[string][topology.MaxNUMANodes]int)}
	var count [topology.MaxNUMANodes]int
	for i, u := range d.units {
		count[u.numa]++
		d.own(i, u.owner)
	}
	d.sizes = a.division.sizes(count, a.bound, a.threads)
	for z, n := range count {
		d.room[z] = n - d.sizes.reclaimed[z]
	}
	for z := range a.numaNodes {
		d.reclaim(z)
	}
	for _, name := range d.sizes.names {
		d.shrink(shared+name, d.sizes.shared[name])
	}
	for z := range a.numaNodes {
		d.reserve(z)
	}
	for _, name := range d.sizes.names {
		d.grow(shared+name, d.sizes.shared[name])
	}
	next := Pools{Shared: map[string]topology.CPUSet{SharePool: {}}, System: a.reserved.Minus(a.held)}
	for _, name := range d.sizes.names {
		next.Shared[name] = topology.CPUSet{}
	}
	for _, u := range d.units {
		switch u.owner {
		case reclaimed:
			next.Reclaimed = next.Reclaimed.Union(u.cpus)
		case loose:
			next.Shared[SharePool] = next.Shared[SharePool].Union(u.cpus)
		default:
			name := strings.TrimPrefix(u.owner, shared)
			next.Shared[name] = next.Shared[name].Union(u.cpus)
		}
	}
	for _, set := range []topology.CPUSet{next.System, a.all.Minus(a.held), a.all} {
		if next.last.IsEmpty() {
			next.last = set
		}
	}
	a.pools = next
}

// units are the cores, or what is left of them, that are for pools, with the pools that they were in.
func (a *Allocator) units() (units []unit) {
	owned := map[string]topology.CPUSet{reclaimed: a.pools.Reclaimed}
	keep := func(name string) {
		if cpus, ok := a.pools.Shared[name]; ok {
			owned[shared+name] = cpus
		}
	}
	keep(SharePool)
	for _, p := range a.division.Shared {
		keep(p.Name)
	}
	keys := slices.Sorted(maps.Keys(owned))
	free := a.all.Minus(a.reserved).Minus(a.held).Minus(a.inNUMANodes(a.alone))
	for z := range a.numaNodes {
		for _, c := range a.numaNodes[z].cores {
			u := unit{cpus: c.cpus.Intersection(free), numa: z, owner: loose}
			if u.cpus.IsEmpty() {
				continue
			}
			for _, key := range keys {
				if set := owned[key]; !set.Intersection(u.cpus).IsEmpty() {
					u.owner = key
					break
				}
			}
			units = append(units, u)
		}
	}
	return units
}

// sizes divides the cores of the NUMA nodes among the pools, by number. bound is the CPUs of each NUMA node that SharePool keeps.
func (d *Division) sizes(count, bound [topology.MaxNUMANodes]int, threads int) sizes {
	keeps, numaNodes := coresOf(bound, count, threads)
	if numaNodes > 0 {
		d = d.withBound(keeps, threads)
	}
	s := sizes{shared: make(map[string]int, len(d.Shared))}
	total, asked := 0, 0
	for z, n := range count {
		s.reclaimed[z] = min(d.Reclaimed[z], n-min(keeps[z], 1))
		total += n
		asked += s.reclaimed[z]
	}
	for left := total - min(d.entitled()+max(numaNodes-1, 0), total); asked > left; asked-- {
		most := 0
		for z, n := range s.reclaimed {
			if n >= s.reclaimed[most] {
				most = z
			}
		}
		s.reclaimed[most]--
	}
	got, more := make([]int, len(d.Shared)), make([]int, len(d.Shared))
	left := total - asked
	for i, p := range d.Shared {
		core := milliPerCPU * int64(threads)
		begun := func(milli int64) int { return max(int((milli+core-1)/core), 1) }
		if got[i] = begun(p.MilliCPU); p.Name != SharePool {
			s.names = append(s.names, p.Name)
			got[i] = max(int(min(p.MilliCPU, p.WantsMilliCPU)/core), min(int(p.MilliCPU), 1))
		}
		more[i] = max(begun(p.WantsMilliCPU)-got[i], 0)
		left -= got[i]
	}
	if left < 0 {
		got = d.scaled(got, total-asked, max(numaNodes, 1))
	} else {
		for i, n := range apportion(more, left) {
			got[i] += n
		}
	}
	ofShare := total - asked
	for i, p := range d.Shared {
		s.shared[p.Name] = got[i]
		if p.Name != SharePool {
			ofShare -= got[i]
		}
	}
	for z := range keeps {
		keeps[z] = min(keeps[z], count[z]-s.reclaimed[z])
	}
	s.keeps = kept(keeps, ofShare, numaNodes)
	return s
}

// coresOf is the cores that CPUs of NUMA nodes fill or begin, as many as there are, and how many NUMA nodes those are.
func coresOf(cpus, count [topology.MaxNUMANodes]int, threads int) (cores [topology.MaxNUMANodes]int, numaNodes int) {
	for z, n := range cpus {
		if cores[z] = min((n+threads-1)/threads, count[z]); cores[z] > 0 {
			numaNodes++
		}
	}
	return cores, numaNodes
}

// withBound is the division in which SharePool asks for no less than the cores that it must keep in NUMA nodes.
func (d *Division) withBound(keeps [topology.MaxNUMANodes]int, threads int) *Division {
	milli := int64(0)
	for _, n := range keeps {
		milli += int64(n*threads) * milliPerCPU
	}
	out := *d
	out.Shared = slices.Clone(d.Shared)
	at, there := slices.BinarySearchFunc(d.Shared, SharePool, func(p PoolDemand, name string) int { return strings.Compare(p.Name, name) })
	if !there {
		out.Shared = slices.Insert(out.Shared, at, PoolDemand{Name: SharePool})
	}
	p := &out.Shared[at]
	p.MilliCPU, p.WantsMilliCPU = max(p.MilliCPU, milli), max(p.WantsMilliCPU, milli)
	return &out
}

// kept is what SharePool keeps of the NUMA nodes where it has fewer cores than it should keep: one of each, and the rest in proportion to what it lacks.
func kept(keeps [topology.MaxNUMANodes]int, has, numaNodes int) (out [topology.MaxNUMANodes]int) {
	beyond, each := make([]int, len(keeps)), 0
	if has >= numaNodes {
		each = 1
	}
	for z, n := range keeps {
		out[z] = min(n, each)
		beyond[z] = n - out[z]
		has -= out[z]
	}
	for z, n := range apportion(beyond, max(has, 0)) {
		out[z] += n
	}
	return out
}

// entitled is how many pools must have a core: SharePool, and those whose requests fill one.
func (d *Division) entitled() (n int) {
	for i := range d.Shared {
		if d.Shared[i].Name == SharePool || d.Shared[i].MilliCPU > 0 {
			n++
		}
	}
	return n
}

const milliPerCPU = 1000

// bounded is an amount that is not negative, and no more than any machine has: more is as good as that, and sums of it do not overflow.
func bounded(milli int64) int64 { return min(max(milli, 0), topology.MaxCPUs*milliPerCPU) }

// apportion gives everybody what is wanted, or where there is not so much, a part in proportion to it, by largest remainder.
func apportion(wants []int, cores int) []int {
	sum := 0
	for _, n := range wants {
		sum += n
	}
	if sum <= cores {
		return wants
	}
	got, order, left := make([]int, len(wants)), make([]int, len(wants)), cores
	for i, n := range wants {
		got[i], order[i] = cores*n/sum, i
		left -= got[i]
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(cores*wants[j]%sum, cores*wants[i]%sum) })
	for _, i := range order[:left] {
		got[i]++
	}
	return got
}

// scaled divides fewer cores than are requested: one for each pool that is entitled to some, for SharePool one in each NUMA node where it keeps any, and the
// rest in proportion to what each requests beyond it. Where not all can have so many, SharePool has one, then those that request most, and what is left is SharePool's.
func (d *Division) scaled(wants []int, cores, ofShare int) []int {
	got, least, beyond := make([]int, len(wants)), make([]int, len(wants)), make([]int, len(wants))
	var order []int
	sum := 0
	for i, n := range wants {
		if n == 0 {
			continue
		}
		if least[i] = 1; d.Shared[i].Name == SharePool {
			least[i] = min(n, ofShare)
		}
		order, beyond[i] = append(order, i), n-least[i]
		sum += least[i]
	}
	if cores > sum {
		got = apportion(beyond, cores-sum)
		for _, i := range order {
			got[i] += least[i]
		}
		return got
	}
	slices.SortStableFunc(order, func(i, j int) int {
		x, y := &d.Shared[i], &d.Shared[j]
		switch SharePool {
		case x.Name:
			return -1
		case y.Name:
			return 1
		}
		return cmp.Compare(y.MilliCPU, x.MilliCPU)
	})
	for at, i := range order[:min(cores, len(order))] {
		if got[i] = 1; at == 0 { // SharePool, if it is there
			got[i] += max(cores-len(order), 0)
		}
	}
	return got
}
