package observe

import (
	"strconv"
	"time"

	"hilbert.dev/hilbert/topology"
)

// The files of the node. Those of its NUMA nodes follow, two for each.
const (
	nodeStat = iota
	nodeSchedstat
	nodeMemory
	nodeLoad
	nodePaging
	nodeCPUPressure
	nodeMemoryPressure
	nodeIOPressure
	nodeOnline
	nodeZones
	nodeNUMANodes
	nodeFiles = nodeNUMANodes + 2*topology.MaxNUMANodes
)

var nodeNames = [nodeNUMANodes]string{
	"proc/stat", "proc/schedstat", "proc/meminfo", "proc/loadavg", "proc/vmstat", "proc/pressure/cpu", "proc/pressure/memory",
	"proc/pressure/io", "sys/devices/system/node/online", "proc/zoneinfo",
}

const (
	infoTotal = iota
	infoFree
	infoAvailable
	infoBuffers
	infoCached
	infoSwapTotal
	infoSwapFree
	infoDirty
	infoWriteback
	infoAnon
	infoShmem
	infoSlab
	infoReclaimable
)

var infoKeys = []string{
	"MemTotal", "MemFree", "MemAvailable", "Buffers", "Cached", "SwapTotal", "SwapFree", "Dirty", "Writeback", "AnonPages", "Shmem", "Slab",
	"SReclaimable",
}

const (
	numaTotal = iota
	numaFree
	numaFile
	numaAnon
	numaSlab
	numaInactiveFile
)

var numaKeys = []string{"MemTotal", "MemFree", "FilePages", "AnonPages", "Slab", "Inactive(file)"}

const (
	pagesHit = iota
	pagesMiss
	pagesForeign
	pagesOther
)

var pagesKeys = []string{"numa_hit", "numa_miss", "numa_foreign", "other_node"}

const (
	pagingRefaultAnon = iota
	pagingRefaultFile
	pagingSwapIn
	pagingSwapOut
	pagingMajor
	pagingStealKswapd
	pagingStealDirect
	pagingScanKswapd
	pagingScanDirect
	pagingOOMKill
	pagingMigrated
	pagingCompact
)

var pagingKeys = []string{
	"workingset_refault_anon", "workingset_refault_file", "pswpin", "pswpout", "pgmajfault", "pgsteal_kswapd", "pgsteal_direct",
	"pgscan_kswapd", "pgscan_direct", "oom_kill", "numa_pages_migrated", "compact_stall",
}

// node is what is kept of the machine between reads. The arrays of three are indexed as the file's track says.
type node struct {
	pageSize  int64
	sources   [nodeFiles]source
	names     [nodeFiles]string
	stat      [3]cpuTable
	sched     [3]cpuTable
	memory    [3]table
	load      [3]loadCounters
	paging    [3]table
	pressure  [3][3]pressureCounters // CPU, memory, IO
	online    [3]topology.CPUSet     // NUMA nodes, which the kernel lists as it does CPUs
	zones     [3]zoneTable
	numaNodes [topology.MaxNUMANodes]struct{ memory, pages [3]table }
}

func newNode(pageSize int64) *node {
	n := &node{pageSize: pageSize}
	copy(n.names[:], nodeNames[:])
	for numa := range n.numaNodes {
		dir := "sys/devices/system/node/node" + strconv.Itoa(numa)
		n.names[nodeNUMANodes+2*numa], n.names[nodeNUMANodes+2*numa+1] = dir+"/meminfo", dir+"/numastat"
	}
	for i := range n.sources {
		n.sources[i].track = newTrack()
	}
	n.sources[nodeStat].shape = prefix
	n.sources[nodeSchedstat].shape = records
	n.sources[nodePaging].shape = records
	n.sources[nodeZones].shape = records
	return n
}

// readNode reads the files of the node: all each time, since they are few, but /proc/zoneinfo, which is long and says what hardly changes. Of NUMA nodes it reads
// those that the kernel says are online.
func (r *Reader) readNode(now time.Duration) {
	n := r.node
	for i := range n.sources {
		s := &n.sources[i]
		if numa := (i - nodeNUMANodes) / 2; i >= nodeNUMANodes && !n.isOnline(numa) {
			if s.good || s.file != nil {
				r.close(&s.file)
				s.track = newTrack()
			}
			s.fail(Absent)
			continue
		}
		if (s.absent || i == nodeZones && !r.overdue(&s.track, now)) && !r.slowTurn(i) {
			continue
		}
		data, why := r.load(s, "", n.names[i], nil)
		if why == fine {
			why = n.parse(i, data)
		}
		r.settle(s, now, why)
	}
	r.countDropped()
}

// isOnline says that a NUMA node is to be read. Node 0 is, whatever the list says: a kernel without NUMA has no list, and may have the node.
func (n *node) isOnline(numa int) bool {
	s := &n.sources[nodeOnline]
	return numa == 0 || s.good && n.online[s.last].Has(numa)
}

// countDropped counts what is beyond the bounds.
func (r *Reader) countDropped() {
	n := r.node
	if s := &n.sources[nodeStat]; s.fault == fine {
		r.counts.DroppedCPUs += uint64(n.stat[s.last].dropped)
	}
	if s := &n.sources[nodeOnline]; s.fault == fine {
		for numa := range n.online[s.last].All() {
			if numa >= topology.MaxNUMANodes {
				r.counts.DroppedNUMANodes++
			}
		}
	}
}

// parse reads the bytes of a file into the free place.
func (n *node) parse(file int, data []byte) Reason {
	free := n.sources[file].free
	switch file {
	case nodeStat:
		return parseStat(data, &n.stat[free])
	case nodeSchedstat:
		return parseSchedstat(data, &n.sched[free])
	case nodeMemory:
		return parseTable(data, infoKeys, &n.memory[free])
	case nodeLoad:
		return parseLoad(data, &n.load[free])
	case nodePaging:
		return parseTable(data, pagingKeys, &n.paging[free])
	case nodeCPUPressure, nodeMemoryPressure, nodeIOPressure:
		return parsePressure(data, &n.pressure[file-nodeCPUPressure][free])
	case nodeOnline:
		return parseCPUSet(data, &n.online[free])
	case nodeZones:
		return parseZones(data, &n.zones[free])
	}
	numa := &n.numaNodes[(file-nodeNUMANodes)/2]
	if (file-nodeNUMANodes)%2 == 0 {
		return parseTable(data, numaKeys, &numa.memory[free])
	}
	return parseTable(data, pagesKeys, &numa.pages[free])
}

// describe turns the counters into samples.
func (n *node) describe(now time.Duration, l limits, out *Node, counts *Counts) {
	n.describeCPUs(now, l, out, counts)
	n.describeMemory(now, l, &out.Memory)
	n.describePaging(now, l, &out.Paging, counts)
	for i, into := range [...]*Pressure{&out.CPUPressure, &out.MemoryPressure, &out.IOPressure} {
		v := n.sources[nodeCPUPressure+i].view(now, l)
		describePressure(&v, &n.pressure[i], into)
		v.done(counts)
	}
	v := n.sources[nodeLoad].view(now, l)
	load := &n.load[v.last]
	for i, into := range [...]*Sample[float64]{&out.Load1, &out.Load5, &out.Load15} {
		*into = gauge(&v.span, float64(load.avg[i])/100, true)
	}
	out.Runnable, out.Threads = gauge(&v.span, load.runnable, true), gauge(&v.span, load.threads, true)
	numaNodes := n.highestNUMANode() + 1
	if cap(out.NUMANodes) < numaNodes {
		out.NUMANodes = make([]NUMAMemory, numaNodes)
	}
	out.NUMANodes = out.NUMANodes[:numaNodes]
	for numa := range out.NUMANodes {
		n.describeNUMANode(now, l, numa, &out.NUMANodes[numa], counts)
	}
	n.describeZones(now, l, out.NUMANodes)
}

// highestNUMANode is the highest NUMA node with a known value.
func (n *node) highestNUMANode() int {
	for numa := topology.MaxNUMANodes - 1; numa > 0; numa-- {
		if n.isOnline(numa) {
			return numa
		}
	}
	return 0
}

// describeCPUs has a place for each number up to the highest that was ever seen.
func (n *node) describeCPUs(now time.Duration, l limits, out *Node, counts *Counts) {
	v, w := n.sources[nodeStat].view(now, l), n.sources[nodeSchedstat].view(now, l)
	last, base := &n.stat[v.last], &n.stat[v.base]
	delays, before := &n.sched[w.last], &n.sched[w.base]
	describeTicks(&v, &last.all, &base.all, &out.CPU)
	out.RunDelay = delayOfAll(&w, delays, before)
	size := max(len(last.each), len(base.each), len(delays.each))
	if cap(out.CPUs) < size {
		out.CPUs = make([]CPU, size)
	}
	out.CPUs = out.CPUs[:size]
	for cpu := range out.CPUs {
		describeTicks(&v, last.cpu(cpu), base.cpu(cpu), &out.CPUs[cpu].CPUTime)
		out.CPUs[cpu].RunDelay = delayOf(&w, delays.cpu(cpu), before.cpu(cpu))
	}
	v.done(counts)
	w.done(counts)
}

// unseen is a CPU that no file has named.
var unseen cpuCounters

func (t *cpuTable) cpu(n int) *cpuCounters {
	if n < len(t.each) {
		return &t.each[n]
	}
	return &unseen
}

func delayOf(v *view, last, base *cpuCounters) Sample[float64] {
	return rate(&v.span, counter{last.runDelay, base.runDelay, last.waited, base.waited}, perNanosecond)
}

// delayOfAll sums over the CPUs. One that has come back brings what it counted before it went, so that there is no sum until it has been read
// twice.
func delayOfAll(v *view, last, base *cpuTable) Sample[float64] {
	all := counter{was: true}
	for i := range last.each {
		now, then := last.cpu(i), base.cpu(i)
		if !now.waited {
			continue
		}
		all.seen = true
		all.was = all.was && then.waited
		all.value += now.runDelay
		all.base += then.runDelay
		if then.waited && now.runDelay < then.runDelay {
			return delayOf(v, now, then)
		}
	}
	return rate(&v.span, all, perNanosecond)
}

// perTick makes seconds of the kernel's ticks: USER_HZ is 100 on every architecture that runs Kubernetes.
const perTick = 0.01

func describeTicks(v *view, last, base *cpuCounters, out *CPUTime) {
	of := func(columns ...int) Sample[float64] {
		c := counter{seen: last.seen, was: base.seen}
		for _, column := range columns {
			c.value += last.tick[column]
			c.base += base.tick[column]
		}
		return rate(&v.span, c, perTick)
	}
	out.Busy = of(tickUser, tickNice, tickSystem, tickIRQ, tickSoftIRQ)
	out.User = of(tickUser, tickNice)
	out.System = of(tickSystem, tickIRQ, tickSoftIRQ)
	out.IOWait = of(tickIOWait)
	out.Steal = of(tickSteal)
}

func (n *node) describeMemory(now time.Duration, l limits, out *NodeMemory) {
	v := n.sources[nodeMemory].view(now, l)
	into := [...]*Sample[int64]{
		infoTotal: &out.Total, infoFree: &out.Free, infoAvailable: &out.Available, infoBuffers: &out.Buffers, infoCached: &out.Cached,
		infoSwapTotal: &out.SwapTotal, infoSwapFree: &out.SwapFree, infoDirty: &out.Dirty, infoWriteback: &out.Writeback,
		infoAnon: &out.Anon, infoShmem: &out.Shmem, infoSlab: &out.Slab, infoReclaimable: &out.Reclaimable,
	}
	for key, sample := range into {
		c := v.of(&n.memory, key)
		*sample = gauge(&v.span, c.value, c.seen)
	}
}

func (n *node) describePaging(now time.Duration, l limits, out *Paging, counts *Counts) {
	v := n.sources[nodePaging].view(now, l)
	into := [...]*Sample[float64]{
		pagingRefaultAnon: &out.RefaultAnon, pagingRefaultFile: &out.RefaultFile, pagingSwapIn: &out.SwapIn, pagingSwapOut: &out.SwapOut,
		pagingMajor: &out.MajorFaults, pagingStealKswapd: &out.StealKswapd, pagingStealDirect: &out.StealDirect,
		pagingScanKswapd: &out.ScanKswapd, pagingScanDirect: &out.ScanDirect, pagingMigrated: &out.NUMAMigrated,
		pagingCompact: &out.CompactStalls,
	}
	for key, sample := range into {
		if sample != nil {
			*sample = rate(&v.span, v.of(&n.paging, key), 1)
		}
	}
	out.OOMKills = total(&v.span, v.of(&n.paging, pagingOOMKill))
	v.done(counts)
}

func (n *node) describeNUMANode(now time.Duration, l limits, numa int, out *NUMAMemory, counts *Counts) {
	state := &n.numaNodes[numa]
	v := n.sources[nodeNUMANodes+2*numa].view(now, l)
	for key, sample := range [...]*Sample[int64]{
		numaTotal: &out.Total, numaFree: &out.Free, numaFile: &out.File, numaAnon: &out.Anon, numaSlab: &out.Slab,
		numaInactiveFile: &out.InactiveFile,
	} {
		c := v.of(&state.memory, key)
		*sample = gauge(&v.span, c.value, c.seen)
	}
	v = n.sources[nodeNUMANodes+2*numa+1].view(now, l)
	for key, sample := range [...]*Sample[float64]{
		pagesHit: &out.Hit, pagesMiss: &out.Miss, pagesForeign: &out.Foreign, pagesOther: &out.Other,
	} {
		*sample = rate(&v.span, v.of(&state.pages, key), 1)
	}
	v.done(counts)
}

// describeZones says what the kernel keeps free in each NUMA node.
func (n *node) describeZones(now time.Duration, l limits, out []NUMAMemory) {
	v := n.sources[nodeZones].view(now, l)
	for numa := range out {
		c, z := &n.zones[v.last][numa], &out[numa]
		pages := func(count int64) Sample[int64] { return gauge(&v.span, count*n.pageSize, c.seen) }
		z.MinWatermark, z.LowWatermark, z.HighWatermark, z.ZonesFree = pages(c.min), pages(c.low), pages(c.high), pages(c.free)
	}
}
