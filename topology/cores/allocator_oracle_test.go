package cores

import (
	"fmt"
	"maps"
	"math/big"
	"slices"

	"hilbert.dev/hilbert/topology"
)

// naive is the allocator as one would write it without a thought for speed: who has each CPU, and exhaustion over everything else.
type naive struct {
	machine  *topology.Machine
	reserved map[int]bool
	memory   []int64 // MiB of each NUMA node, without what is kept back
	threads  int
	owner    map[int]string // of CPUs that are held
	pods     map[string]Holding
	closed   map[int]bool
	demand   map[string]int64
	wants    map[string]int64
	wish     [topology.MaxNUMANodes]int
}

func newNaive(m *topology.Machine, reserved topology.CPUSet, reservedMemory uint32) *naive {
	n := &naive{
		machine: m, reserved: map[int]bool{}, owner: map[int]string{}, pods: map[string]Holding{}, closed: map[int]bool{},
		demand: map[string]int64{}, threads: m.Threads(),
	}
	for cpu := range reserved.All() {
		n.reserved[cpu] = true
	}
	for _, node := range m.NUMA {
		n.memory = append(n.memory, max(node.Memory/topology.Mebibyte-int64(reservedMemory), 0))
	}
	return n
}

func (n *naive) clone() *naive {
	c := *n
	c.owner, c.pods, c.closed, c.demand = maps.Clone(n.owner), maps.Clone(n.pods), maps.Clone(n.closed), maps.Clone(n.demand)
	c.wants = maps.Clone(n.wants)
	return &c
}

// cores are the CPUs of each core of a NUMA node for which keep says yes of every CPU; whole ones only, or all.
func (n *naive) cores(numa int, whole bool, keep func(topology.CPU) bool) map[int][]topology.CPU {
	all := map[int][]topology.CPU{}
	for _, c := range n.machine.CPUs {
		if n.numa(c) == numa && keep(c) {
			all[c.Core] = append(all[c.Core], c)
		}
	}
	if whole {
		maps.DeleteFunc(all, func(_ int, cpus []topology.CPU) bool { return len(cpus) != n.threads })
	}
	return all
}

func (n *naive) numa(c topology.CPU) int {
	return slices.IndexFunc(n.machine.NUMA, func(node topology.NUMANode) bool { return node.ID == c.NUMA })
}

func (n *naive) free(numa int) map[int][]topology.CPU {
	return n.cores(numa, true, func(c topology.CPU) bool { return n.owner[c.ID] == "" && !n.reserved[c.ID] })
}

func (n *naive) givable(numa int) map[int][]topology.CPU {
	return n.cores(numa, true, func(c topology.CPU) bool { return !n.reserved[c.ID] })
}

func (n *naive) memoryLeft(numa int) int64 {
	left := n.memory[numa]
	for _, h := range n.pods {
		left -= int64(h.Grant.Memory[numa])
	}
	return left
}

func (n *naive) claims(numa int) (count int) {
	for _, h := range n.pods {
		if h.Grant.CPUs[numa] > 0 || h.Grant.Memory[numa] > 0 {
			count++
		}
	}
	return count
}

func (n *naive) alone(numa int) bool {
	for _, h := range n.pods {
		if h.Request.Binding == topology.Exclusive && h.Grant.CPUs[numa] > 0 {
			return true
		}
	}
	return false
}

// unit is the fewest CPUs that a request can have of a NUMA node.
func (n *naive) unit(r topology.NUMARequest) int {
	if r.Binding == topology.BoundShared {
		return 1
	}
	return n.threads
}

func (n *naive) want(r topology.NUMARequest) int { return (int(r.CPUs) + n.unit(r) - 1) / n.unit(r) }

// bound is how many CPUs of a NUMA node are kept for pods that share CPUs.
func (n *naive) bound(numa int) (cpus int) {
	for _, h := range n.pods {
		if h.Request.Binding == topology.BoundShared {
			cpus += int(h.Grant.CPUs[numa])
		}
	}
	return cpus
}

// boundCores are the cores that share should keep in each NUMA node, as many as there are, and in how many it should.
func (n *naive) boundCores() (cores [topology.MaxNUMANodes]int, numaNodes int) {
	for z := range n.machine.NUMA {
		for cores[z] < len(n.pooled(z)) && cores[z]*n.threads < n.bound(z) {
			cores[z]++
		}
		if cores[z] > 0 {
			numaNodes++
		}
	}
	return cores, numaNodes
}

// fewest is the least number of NUMA nodes that hold a request, 0 if no set of them does, by trying all.
func (n *naive) fewest(r topology.NUMARequest, among uint8) int {
	best := 0
	for set := 1; set < 1<<len(n.machine.NUMA); set++ {
		cores, memory, numaNodes, usable := 0, int64(0), 0, true
		for z := range n.machine.NUMA {
			if set&(1<<z) == 0 {
				continue
			}
			numaNodes++
			free := (len(n.free(z))*n.threads - n.bound(z)) / n.unit(r)
			cores += free
			memory += max(n.memoryLeft(z), 0)
			usable = usable && !n.closed[z] && among&(1<<z) != 0 && free > 0
			usable = usable && (r.Binding != topology.Exclusive || n.claims(z) == 0 && len(n.free(z)) == len(n.givable(z)))
		}
		holds := usable && cores >= n.want(r) && (r.Binding == topology.Unbound || memory >= int64(r.Memory))
		if holds && (best == 0 || numaNodes < best) {
			best = numaNodes
		}
	}
	return best
}

// starved: nothing reserved, nothing left, and somebody who needs some.
func (n *naive) starved(cpus topology.CPUSet) bool {
	asks := int64(0)
	for _, milli := range n.demand {
		asks += milli
	}
	if len(n.reserved) > 0 || asks == 0 {
		return false
	}
	for _, c := range n.machine.CPUs {
		if n.owner[c.ID] == "" && !cpus.Has(c.ID) {
			return false
		}
	}
	return true
}

// sane says what is wrong with CPUs for a grant: all must be free, whole cores, and as many as the grant counts.
func (n *naive) sane(cpus topology.CPUSet, g topology.NUMAGrant) error {
	seen := 0
	for z := range n.machine.NUMA {
		free, count := n.free(z), 0
		for _, core := range free {
			has := 0
			for _, c := range core {
				if cpus.Has(c.ID) {
					has++
				}
			}
			if has != 0 && has != n.threads {
				return fmt.Errorf("%d threads of core %d", has, core[0].Core)
			}
			count += has
		}
		seen += count
		if count != int(g.CPUs[z]) {
			return fmt.Errorf("%d free CPUs of NUMA node %d, granted are %d", count, z, g.CPUs[z])
		}
	}
	if seen != cpus.Len() {
		return fmt.Errorf("%d CPUs, of which %d are free and whole", cpus.Len(), seen)
	}
	return nil
}

// packed says whether the cores of a new holding are in as few L3 groups as can be, and in the smallest one if one will do.
func (n *naive) packed(cpus topology.CPUSet) error {
	for z := range n.machine.NUMA {
		room, used, total := map[int]int{}, map[int]int{}, 0
		for _, core := range n.free(z) {
			room[core[0].L3]++
			if cpus.Has(core[0].ID) {
				used[core[0].L3]++
				total++
			}
		}
		sizes := slices.Sorted(maps.Values(room))
		slices.Reverse(sizes)
		groups := 0
		for left := total; left > 0; groups++ {
			left -= sizes[groups]
		}
		if len(used) != groups {
			return fmt.Errorf("NUMA node %d: %d cores from %d L3 groups, %d would do", z, total, len(used), groups)
		}
		for l3 := range used {
			for other, size := range room {
				if groups == 1 && size >= total && size < room[l3] {
					return fmt.Errorf("NUMA node %d: %d cores from L3 group %d, %d would leave less", z, total, l3, other)
				}
			}
		}
	}
	return nil
}

// sizes are the cores of each shared pool that asks and of the reclaimed pool by NUMA node.
func (n *naive) sizes() (pools map[string]int, reclaimed [topology.MaxNUMANodes]int, total int) {
	bound, numaNodes := n.boundCores()
	for z := range n.machine.NUMA {
		cores := len(n.pooled(z))
		total += cores
		reclaimed[z] = min(n.wish[z], cores)
		if bound[z] > 0 {
			reclaimed[z] = min(n.wish[z], cores-1)
		}
	}
	demand, wants := n.ownCores()
	if numaNodes > 0 {
		least := int64(sum(bound[:]) * n.threads * 1000)
		demand[SharePool], wants[SharePool] = max(demand[SharePool], least), max(wants[SharePool], least)
	}
	names := slices.Sorted(maps.Keys(demand))
	entitled := 0
	for name, milli := range demand {
		if name == SharePool || milli > 0 {
			entitled++
		}
	}
	for sum(reclaimed[:]) > max(total-entitled-max(numaNodes-1, 0), 0) {
		z := len(reclaimed) - 1
		for i := z; i >= 0; i-- {
			if reclaimed[i] > reclaimed[z] {
				z = i
			}
		}
		reclaimed[z]--
	}
	rest := total - sum(reclaimed[:])
	pools = map[string]int{}
	asked := 0
	core := int64(1000 * n.threads)
	for _, name := range names {
		pools[name] = int(min(demand[name], wants[name]) / core)
		if name == SharePool {
			pools[name] = int((demand[name] + core - 1) / core)
		}
		if name == SharePool || demand[name] > 0 {
			pools[name] = max(pools[name], 1)
		}
		asked += pools[name]
	}
	if asked > rest {
		return n.ration(pools, demand, rest, max(numaNodes, 1)), reclaimed, total
	}
	n.dealRest(pools, wants, rest-asked)
	return pools, reclaimed, total
}

// ownCores are the demands of the pools that have cores of their own; share's pods are joined by those whose pool is too small for one.
func (n *naive) ownCores() (demand, wants map[string]int64) {
	demand, wants = map[string]int64{}, map[string]int64{}
	for name, milli := range n.demand {
		if name == SharePool || milli < int64(1000*n.threads) {
			demand[SharePool] += milli
			wants[SharePool] = demand[SharePool]
			if name != SharePool && n.wants[name] >= int64(1000*n.threads) {
				demand[name], wants[name] = 0, n.wants[name]
			}
			continue
		}
		demand[name], wants[name] = milli, n.wants[name]
	}
	return demand, wants
}

// dealRest deals what the requests leave, core by core to the pool that is due most.
func (n *naive) dealRest(pools map[string]int, wants map[string]int64, left int) {
	more, sum := map[string]int{}, 0
	core := int64(1000 * n.threads)
	for name := range pools {
		more[name] = max(int((wants[name]+core-1)/core)-pools[name], 0)
		sum += more[name]
	}
	due := map[string]*big.Rat{}
	for name := range more {
		if due[name] = big.NewRat(int64(more[name]), 1); sum > left {
			due[name] = big.NewRat(int64(left)*int64(more[name]), int64(sum))
		}
	}
	for range min(left, sum) {
		best := ""
		for _, name := range slices.Sorted(maps.Keys(due)) {
			if best == "" || due[name].Cmp(due[best]) > 0 {
				best = name
			}
		}
		due[best].Sub(due[best], big.NewRat(1, 1))
		pools[best]++
	}
}

// ration deals the cores out: first one each, to share and then the hungriest first; then what each is due beyond; then one each by what is still due.
func (n *naive) ration(want map[string]int, demand map[string]int64, rest, ofShare int) map[string]int {
	got := map[string]int{}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(want)), func(name string) bool { return want[name] == 0 })
	slices.SortStableFunc(names, func(x, y string) int { return int(demand[y] - demand[x]) })
	if i := slices.Index(names, SharePool); i > 0 {
		names = slices.Insert(slices.Delete(names, i, i+1), 0, SharePool)
	}
	for i, name := range names {
		got[name] = 0
		if i < rest {
			got[name] = 1
		}
	}
	left := rest - len(names)
	if more := min(ofShare, want[SharePool]) - 1; more > 0 { // share has one in each NUMA node where it keeps any
		got[SharePool] += max(min(more, left), 0)
		left -= more
	}
	if left <= 0 {
		return got
	}
	due := map[string]*big.Rat{}
	beyond := 0
	for _, name := range names {
		beyond += want[name] - got[name]
	}
	for _, name := range names {
		due[name] = big.NewRat(int64(left)*int64(want[name]-got[name]), int64(beyond))
	}
	slices.Sort(names)
	one := big.NewRat(1, 1)
	for left > 0 {
		best := names[0]
		for _, name := range names {
			// Whoever is due a whole core gets it; then the largest remainder first.
			if due[name].Cmp(due[best]) > 0 {
				best = name
			}
		}
		due[best].Sub(due[best], one)
		got[best]++
		left--
	}
	return got
}

// pooled are the cores of a NUMA node, or what is left of them, that are for pools.
func (n *naive) pooled(numa int) map[int][]topology.CPU {
	if n.alone(numa) {
		return nil
	}
	return n.cores(numa, false, func(c topology.CPU) bool { return n.owner[c.ID] == "" && !n.reserved[c.ID] })
}

// pools says what is wrong with how the CPUs are divided.
func (n *naive) pools(p Pools) error {
	want, reclaimed, total := n.sizes()
	got, gotReclaimed, err := n.count(p)
	if err != nil {
		return err
	}
	if gotReclaimed != reclaimed {
		return fmt.Errorf("reclaimed has %v cores, want %v", gotReclaimed, reclaimed)
	}
	for name, cores := range want {
		if name != SharePool && got[name] != cores || got[name] < cores {
			return fmt.Errorf("pool %q has %d cores, want %d", name, got[name], cores)
		}
		total -= got[name]
	}
	if _, asks := want[SharePool]; !asks {
		total -= got[SharePool]
	}
	if total != sum(reclaimed[:]) {
		return fmt.Errorf("%d cores are in pools that nobody asked for", total-sum(reclaimed[:]))
	}
	if err := n.keeps(p, got[SharePool], reclaimed); err != nil {
		return err
	}
	there := n.cpusOfPools()
	for _, c := range n.machine.CPUs {
		if name := poolOf(p, c.ID); name != "" && !there.Has(c.ID) {
			return fmt.Errorf("CPU %d is in pool %q and held, reserved or in a NUMA node that somebody has alone", c.ID, name)
		}
	}
	return nil
}

// keeps says where share has fewer cores than the pods that are bound there need, though it has enough of them: one in each of their NUMA nodes, and all that
// is kept for them.
func (n *naive) keeps(p Pools, has int, reclaimed [topology.MaxNUMANodes]int) error {
	bound, numaNodes := n.boundCores()
	all := 0
	for z := range bound {
		bound[z] = min(bound[z], len(n.pooled(z))-reclaimed[z])
		all += bound[z]
	}
	for z := range n.machine.NUMA {
		cores := n.ofShare(p, z)
		if bound[z] > 0 && has >= numaNodes && cores == 0 || has >= all && cores < bound[z] {
			return fmt.Errorf("share has %d of its %d cores in NUMA node %d; %v are bound", cores, has, z, bound)
		}
	}
	return nil
}

// ofShare is how many cores of a NUMA node share has.
func (n *naive) ofShare(p Pools, numa int) (cores int) {
	for _, core := range n.pooled(numa) {
		if slices.ContainsFunc(core, func(c topology.CPU) bool { return poolOf(p, c.ID) == SharePool }) {
			cores++
		}
	}
	return cores
}

// count is how many cores the pools have.
func (n *naive) count(p Pools) (pools map[string]int, reclaimed [topology.MaxNUMANodes]int, err error) {
	pools = map[string]int{}
	for z := range n.machine.NUMA {
		for _, core := range n.pooled(z) {
			in := map[string]bool{}
			for _, c := range core {
				in[poolOf(p, c.ID)] = true
			}
			if len(in) != 1 || in[""] {
				return nil, reclaimed, fmt.Errorf("core %d is in pools %v", core[0].Core, in)
			}
			for name := range in {
				if name == "reclaimed!" {
					reclaimed[z]++
				} else {
					pools[name]++
				}
			}
		}
	}
	return pools, reclaimed, nil
}

// poolOf names the pool that a CPU is in; several at once have a name that nobody has.
func poolOf(p Pools, cpu int) (name string) {
	for other, cpus := range p.Shared {
		if cpus.Has(cpu) {
			name += other
		}
	}
	if p.Reclaimed.Has(cpu) {
		name += "reclaimed!"
	}
	return name
}

// moved is how many cores went from one pool to another between two states, and how many had to: what each pool has too much, and what
// the reclaimed pool lacks in a NUMA node.
func (n *naive) moved(before, after Pools) (cores, needed int) {
	kept, gained := map[string]int{}, [topology.MaxNUMANodes]int{}
	now := map[string]int{}
	for z := range n.machine.NUMA {
		for _, core := range n.pooled(z) {
			from, to := "", ""
			for _, c := range core { // a core that a part was held of has a pool if any CPU has
				if name := poolOf(before, c.ID); name != "" {
					from = name
				}
				to = poolOf(after, c.ID)
			}
			if from == "reclaimed!" {
				from += string(rune('0' + z))
			}
			if to == "reclaimed!" {
				to += string(rune('0' + z))
				gained[z]++
			}
			if from != "" && from != to {
				cores++
			}
			kept[from]++
			now[to]++
		}
	}
	for name, had := range kept {
		if name != "" {
			needed += max(had-now[name], 0)
		}
	}
	bound, _ := n.boundCores()
	for z := range n.machine.NUMA { // for each that share lacks here, a named pool gets one elsewhere
		needed += 2 * max(bound[z]-n.ofShare(before, z), 0)
	}
	for z, has := range gained {
		needed += max(has-kept["reclaimed!"+string(rune('0'+z))], 0)
	}
	return cores, needed
}

func sum(ns []int) (total int) {
	for _, n := range ns {
		total += n
	}
	return total
}

// cpusOfPools are the CPUs that are for pools.
func (n *naive) cpusOfPools() (cpus topology.CPUSet) {
	for z := range n.machine.NUMA {
		for _, core := range n.pooled(z) {
			for _, c := range core {
				cpus.Add(c.ID)
			}
		}
	}
	return cpus
}

// changed is how many cores the pools have gained or lost since.
func (n *naive) changed(before topology.CPUSet) int {
	now := n.cpusOfPools()
	cores := map[int]bool{}
	for _, c := range n.machine.CPUs {
		if now.Has(c.ID) != before.Has(c.ID) {
			cores[c.Core] = true
		}
	}
	return len(cores)
}
