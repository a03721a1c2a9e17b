package node

import (
	"cmp"
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/evict"
	"hilbert.dev/hilbert/node/observe"
	"hilbert.dev/hilbert/node/pods"
	"hilbert.dev/hilbert/topology"
)

const (
	// maxSenseAge is how old a value of the kernel's may be for the laws to count it as known.
	maxSenseAge = 10 * time.Second
	// maxThrottled is the share of its periods in which a pod may be throttled by its own limit and its CPU pressure still be taken for
	// contention: the kernel counts a throttled task as one that waits for a CPU.
	maxThrottled = 0.05
)

// sensor makes observations.
type sensor struct {
	node     *nodeState
	observer *observe.Poller
	profiles *profileController
	eviction *evict.Params
}

// sense is what the laws see now. Without a fresh reading of the counters nothing is known, and the laws are told so. The observation must be released
// before the next one.
func (s *sensor) sense(now time.Time) *observation {
	o := s.look(now)
	o.readNode()
	o.readNUMANodes()
	o.leaveOutTiers()
	o.readPods(s.profiles)
	return o
}

// look is what the counters said, without what the laws make of it. It must be released as well.
func (s *sensor) look(now time.Time) *observation {
	n := s.node
	o := &observation{
		node: n, machine: n.options.Machine, observer: s.observer, eviction: s.eviction, demand: n.Manager.Pools.Demand(),
		laws: advise.Observation{At: now.Sub(n.Started), Wall: now},
	}
	seen, at := s.observer.Borrow()
	if seen == nil || now.Sub(at) > maxSenseAge {
		seen = &observe.Observation{}
	}
	o.seen = seen
	o.cgroups = make(map[string]*observe.CgroupUse, len(seen.Cgroups))
	for i := range seen.Cgroups {
		o.cgroups[seen.Cgroups[i].Dir] = &seen.Cgroups[i]
	}
	return o
}

// observation is what was seen of the node at one moment: the kernel's counters, joined with what the allocator knows of pods and pools. laws is what
// the laws of CPU and headroom see; the controllers of memory and eviction make theirs from the rest.
type observation struct {
	node     *nodeState
	machine  *topology.Machine
	observer *observe.Poller
	eviction *evict.Params
	seen     *observe.Observation
	cgroups  map[string]*observe.CgroupUse // by directory
	demand   map[string]int64              // what the pods of each shared pool ask for, in millicores
	laws     advise.Observation
}

// release gives the counters back to the observer, which reuses their memory.
func (o *observation) release() { o.observer.GiveBack() }

func (o *observation) readNode() {
	m := &o.seen.Node.Memory
	o.laws.Node.MemoryTotal, o.laws.Node.MemoryAvailable = bytesOf(m.Total), bytesOf(m.Available)
}

// readNUMANodes fills in what is known of each NUMA node as such; readPods adds what pods hold of it.
func (o *observation) readNUMANodes() {
	pools := o.node.Manager.Pools.NUMANodes()
	var demand int64
	for _, milliCPU := range o.demand {
		demand += milliCPU
	}
	all := 0
	for _, p := range pools {
		all += p.Shared.Len() + p.Reclaimed.Len()
	}
	bound, together := o.node.Manager.Pools.Bound(), 0
	for _, cpus := range bound {
		together += cpus
	}
	for i, p := range pools {
		z := advise.NUMANode{
			Divisible: p.Shared.Len() + p.Reclaimed.Len(), Threads: o.machine.Threads(), Lent: p.Reclaimed.Len(),
			SharedUse: o.ofCPUs(p.Shared, busy), SharedDelay: o.ofCPUs(p.Shared, delay), LentUse: o.ofCPUs(p.Reclaimed, busy),
			MemoryOnly: o.memoryOnly(i), Reserved: int64(*o.node.options.Config.ReservedMemory) * topology.Mebibyte,
		}
		if all > 0 {
			const milli = 1000 // what bound pods request counts where they are bound
			anywhere := max(float64(demand)/milli-float64(together), 0)
			z.SharedRequests = advise.Known(anywhere * float64(z.Divisible) / float64(all))
			if i < len(bound) {
				z.SharedRequests.Value += float64(bound[i])
			}
		}
		if id := o.machine.NUMA[i].ID; id < len(o.seen.Node.NUMANodes) {
			memory := &o.seen.Node.NUMANodes[id]
			z.MemoryTotal, z.MemoryFree, z.InactiveFile = bytesOf(memory.Total), bytesOf(memory.Free), bytesOf(memory.InactiveFile)
			z.EvictBelow = o.eviction.NUMAShortBelow(z.MemoryTotal, o.lowWatermark(i))
		}
		z.ReclaimedMemory, z.PromisedUse = advise.Known(0), advise.Known(0)
		o.laws.NUMANodes = append(o.laws.NUMANodes, z)
	}
}

// memoryOnly reports whether a NUMA node has memory and no CPUs, as that of a GH200's GPU or CXL memory.
func (o *observation) memoryOnly(i int) bool {
	return o.machine.NUMA[i].CPUs.IsEmpty() && len(o.machine.NUMA) > 1
}

// leaveOutTiers leaves the NUMA nodes without CPUs out of what is said of the node: a node of which only a GPU's memory is free is short.
func (o *observation) leaveOutTiers() {
	node, total, left, tiers := &o.laws.Node, advise.Known(0), advise.Known(0), false
	for i := range o.laws.NUMANodes {
		z := &o.laws.NUMANodes[i]
		if z.MemoryOnly {
			tiers = true
			continue
		}
		total, left = plus(total, z.MemoryTotal), plus(left, plus(z.MemoryFree, o.inactiveFile(i)))
	}
	const beyond = 1.01 // some may have been left out of the machine: then the kernel has more memory than the NUMA nodes with CPUs
	tiers = tiers || total.Known && node.MemoryTotal.Value > total.Value*beyond
	if tiers { // what they have need not be known: there may be more of them than are read
		node.MemoryTotal = advise.Sample{Value: min(node.MemoryTotal.Value, total.Value), Known: node.MemoryTotal.Known && total.Known}
		node.MemoryAvailable = advise.Sample{Value: min(node.MemoryAvailable.Value, left.Value), Known: node.MemoryAvailable.Known && left.Known}
	}
	node.EvictBelow = o.eviction.NodeShortBelow(node.MemoryTotal, o.minWatermark())
}

// readPods lists the online and the reclaimed pods by name, and adds up what they hold of the NUMA nodes and the worst that they feel.
func (o *observation) readPods(profiles *profileController) {
	node := &o.laws.Node
	online, waits, short := false, false, o.shortOfMemory()
	for _, p := range o.node.Pods.Sorted() {
		asked, pool, ok := o.node.Manager.Pod(p.Ref.UID)
		if !ok || pool == spec.PoolSystem {
			continue
		}
		use := o.use(p.Cgroup)
		id := p.Ref.Namespace + "/" + p.Ref.Name
		if pool == spec.PoolReclaimed {
			o.charge(use, func(z *advise.NUMANode) *advise.Sample { return &z.ReclaimedMemory })
			o.discount(use)
			o.laws.Reclaimed = append(o.laws.Reclaimed, advise.Reclaimed{
				ID: id, MilliCPU: asked.Reclaimed.MilliCPU, MemoryBytes: asked.Reclaimed.MemoryMiB * topology.Mebibyte,
				CPUUse: rateOf(use.CPU.Usage), RunDelay: o.runDelay(p), Memory: bytesOf(use.Memory.Current),
			})
			continue
		}
		service := advise.Service{ID: id, Pool: pool, CPUUse: rateOf(use.CPU.Usage), CPUPressure: o.pressureOf(p), Memory: bytesOf(use.Memory.Current)}
		if service.BestEffort = p.BestEffort && !asked.QoS.Said; service.BestEffort {
			service.RunDelay = o.runDelay(p)
		}
		profiles.addIndicators(o, p, &service, use)
		o.laws.Services = append(o.laws.Services, service)
		if pool == "" || asked.Request.Binding == topology.BoundShared {
			o.charge(use, func(z *advise.NUMANode) *advise.Sample { return &z.PromisedUse })
		}
		if pool != "" && !service.BestEffort {
			node.CPUPressure = worst(node.CPUPressure, service.CPUPressure)
			waits = true
		}
		if short {
			node.MemoryPressure = worst(node.MemoryPressure, rateOf(use.MemoryPressure.Some.Avg10))
		}
		online = true
	}
	if !waits { // no pod that is entitled to CPUs does
		node.CPUPressure = advise.Known(0)
	}
	if !online || !short {
		node.MemoryPressure = advise.Known(0)
	}
	for _, h := range o.node.Manager.Held() {
		for z := range o.laws.NUMANodes {
			o.laws.NUMANodes[z].Promised += int64(h.Grant.Memory[z]) * topology.Mebibyte
		}
	}
	profiles.addPools(o)
	slices.SortFunc(o.laws.Services, func(x, y advise.Service) int { return cmp.Compare(x.ID, y.ID) })
	slices.SortFunc(o.laws.Reclaimed, func(x, y advise.Reclaimed) int { return cmp.Compare(x.ID, y.ID) })
}

// shortOfMemory reports whether the machine or one of its NUMA nodes may be short of memory. While none is, a pod that waits for memory waits at a limit of
// its own, which taking memory from others would not help.
func (o *observation) shortOfMemory() bool {
	ample := func(total, free advise.Sample) bool { return o.eviction.Ample(total, free) }
	if !ample(o.laws.Node.MemoryTotal, o.laws.Node.MemoryAvailable) {
		return true
	}
	for i := range o.laws.NUMANodes {
		if z := &o.laws.NUMANodes[i]; !z.MemoryOnly && !ample(z.MemoryTotal, plus(z.MemoryFree, o.inactiveFile(i))) {
			return true
		}
	}
	return false
}

// maxWatermarkAge is how old the kernel's watermarks may be: they change only where memory comes or goes, or someone sets them.
const maxWatermarkAge = time.Minute

// minWatermark is the sum of the NUMA nodes' min watermarks.
func (o *observation) minWatermark() advise.Sample {
	out := advise.Known(0)
	for i := range o.machine.NUMA {
		if o.machine.NUMA[i].Memory == 0 || o.memoryOnly(i) { // it has no zones, or does not count
			continue
		}
		out = plus(out, o.watermark(i, func(m *observe.NUMAMemory) observe.Sample[int64] { return m.MinWatermark }))
	}
	return out
}

// lowWatermark is where kswapd wakes up in a NUMA node.
func (o *observation) lowWatermark(i int) advise.Sample {
	return o.watermark(i, func(m *observe.NUMAMemory) observe.Sample[int64] { return m.LowWatermark })
}

func (o *observation) watermark(i int, of func(*observe.NUMAMemory) observe.Sample[int64]) advise.Sample {
	if id := o.machine.NUMA[i].ID; id < len(o.seen.Node.NUMANodes) {
		v, ok := of(&o.seen.Node.NUMANodes[id]).Within(maxWatermarkAge)
		return advise.Sample{Value: float64(v), Known: ok}
	}
	return advise.Sample{}
}

// charge adds what a cgroup holds in each NUMA node to an account there.
func (o *observation) charge(use *observe.CgroupUse, account func(*advise.NUMANode) *advise.Sample) {
	for i := range o.laws.NUMANodes {
		to := account(&o.laws.NUMANodes[i])
		*to = plus(*to, o.heldIn(use, i))
	}
}

// inactiveFile is the page cache in a NUMA node that the kernel drops first, all of it.
func (o *observation) inactiveFile(i int) (out advise.Sample) {
	if id := o.machine.NUMA[i].ID; id < len(o.seen.Node.NUMANodes) {
		out = bytesOf(o.seen.Node.NUMANodes[id].InactiveFile)
	}
	return out
}

// discount takes a reclaimed pod's page cache out of what headroom counts as free: it is among what reclaimed pods hold already.
func (o *observation) discount(use *observe.CgroupUse) {
	for i := range o.laws.NUMANodes {
		z := &o.laws.NUMANodes[i]
		if file := bytesOf(o.numaOf(use, i).File); file.Known {
			z.InactiveFile.Value = max(z.InactiveFile.Value-file.Value, 0)
		}
	}
}

// runDelay is how many of a pod's threads wait for a CPU. Of a container with many threads a sample is read, which stands for all. Where none can be read, the share of
// time in which some of them wait takes their place, which is never more; where that is not known either, nothing is: what cannot be read is not zero. Nor is anything
// known where a limit of its own throttles the pod, because the kernel counts that as waiting.
func (o *observation) runDelay(p *pods.Pod) (out advise.Sample) {
	if len(p.Containers) == 0 || o.throttles(p) {
		return out
	}
	out = advise.Known(0)
	for _, c := range p.Containers {
		use := o.use(c.Cgroup)
		delay := rateOf(use.CPU.RunDelay)
		if !delay.Known {
			delay = rateOf(use.CPUPressure.Some.Now)
		}
		out = plus(out, delay)
	}
	if !out.Known {
		return advise.Sample{}
	}
	return out
}

// ofCPUs adds a value of some CPUs up. One that is not known makes the sum so.
func (o *observation) ofCPUs(cpus topology.CPUSet, of func(*observe.CPU) observe.Sample[float64]) advise.Sample {
	out := advise.Known(0)
	for id := range cpus.All() {
		if id >= len(o.seen.Node.CPUs) {
			return advise.Sample{}
		}
		v, ok := of(&o.seen.Node.CPUs[id]).Within(maxSenseAge)
		if !ok {
			return advise.Sample{}
		}
		out.Value += v
	}
	return out
}

func busy(c *observe.CPU) observe.Sample[float64]  { return c.Busy }
func delay(c *observe.CPU) observe.Sample[float64] { return c.RunDelay }

// pressureOf is the share of time in which a pod waited for a CPU that others had; not known where a limit of its own throttles it.
func (o *observation) pressureOf(p *pods.Pod) advise.Sample {
	if o.throttles(p) {
		return advise.Sample{}
	}
	return rateOf(o.use(p.Cgroup).CPUPressure.Some.Now)
}

// throttles reports whether a limit of a pod's own keeps it from running. The kernel counts that in the cgroup whose limit it is: a container's is not in its pod's.
func (o *observation) throttles(p *pods.Pod) bool {
	if throttled(o.use(p.Cgroup)) {
		return true
	}
	for _, c := range p.Containers {
		if throttled(o.use(c.Cgroup)) {
			return true
		}
	}
	return false
}

// throttled reports whether a cgroup's own limit keeps it from running.
func throttled(use *observe.CgroupUse) bool {
	share, ok := use.CPU.ThrottledPeriods.Within(maxSenseAge)
	return ok && share > maxThrottled
}

// plus is the sum of two samples. A part that is not known makes the sum so.
func plus(a, b advise.Sample) advise.Sample {
	return advise.Sample{Value: a.Value + b.Value, Known: a.Known && b.Known}
}

// worst is the higher of what is known.
func worst(a, b advise.Sample) advise.Sample {
	if !a.Known || b.Known && b.Value > a.Value {
		return b
	}
	return a
}

func rateOf(s observe.Sample[float64]) advise.Sample {
	v, ok := s.Within(maxSenseAge)
	return advise.Sample{Value: v, Known: ok}
}

func bytesOf(s observe.Sample[int64]) advise.Sample {
	v, ok := s.Within(maxSenseAge)
	return advise.Sample{Value: float64(v), Known: ok}
}

// use is what was seen of a cgroup; nothing is known of one that was not.
func (o *observation) use(dir string) *observe.CgroupUse {
	if use := o.cgroups[dir]; use != nil {
		return use
	}
	return &observe.CgroupUse{}
}

// heldIn is what a cgroup holds in the NUMA node of an index, page cache included, in bytes.
func (o *observation) heldIn(use *observe.CgroupUse, numa int) advise.Sample {
	has := o.numaOf(use, numa)
	return plus(bytesOf(has.Anon), bytesOf(has.File))
}

// numaOf is what a cgroup has in the NUMA node of an index.
func (o *observation) numaOf(use *observe.CgroupUse, numa int) observe.CgroupNUMANode {
	if id := o.machine.NUMA[numa].ID; id < len(use.Memory.NUMANodes) {
		return use.Memory.NUMANodes[id]
	}
	return observe.CgroupNUMANode{}
}
