package observe

import (
	"time"

	"hilbert.dev/hilbert/topology"
)

// The files of a cgroup, the quick ones first.
const (
	fileCPU = iota
	fileCPUPressure
	fileMemory
	fileStat
	fileEvents
	fileNUMA
	fileMemoryPressure
	fileIO
	fileIOPressure
	fileCPUs
	fileTasks
	filePeak
	fileThreads
	cgroupFiles

	firstSlow = fileStat
)

var cgroupNames = [cgroupFiles]string{
	"cpu.stat", "cpu.pressure", "memory.current", "memory.stat", "memory.events", "memory.numa_stat", "memory.pressure", "io.stat",
	"io.pressure", "cpuset.cpus.effective", "pids.current", "memory.peak", "cgroup.threads",
}

// What we look for in a file of keys: constants and names are in the order in which the kernel prints them.
const (
	cpuUsage = iota
	cpuUser
	cpuSystem
	cpuPeriods
	cpuThrottledPeriods
	cpuThrottled
)

var cpuKeys = []string{"usage_usec", "user_usec", "system_usec", "nr_periods", "nr_throttled", "throttled_usec"}

const (
	memoryAnon = iota
	memoryFile
	memoryKernel
	memoryShmem
	memoryDirty
	memoryInactiveAnon
	memoryInactiveFile
	memoryActiveFile
	memorySlab
	memoryRefaultAnon
	memoryRefaultFile
	memoryScan
	memorySteal
	memoryMajor
	memorySockets
	memoryHuge
)

var memoryKeys = []string{
	"anon", "file", "kernel", "shmem", "file_dirty", "inactive_anon", "inactive_file", "active_file", "slab", "workingset_refault_anon",
	"workingset_refault_file", "pgscan", "pgsteal", "pgmajfault", "sock", "anon_thp",
}

const (
	eventLow = iota
	eventHigh
	eventMax
	eventOOM
	eventOOMKill
)

var eventKeys = []string{"low", "high", "max", "oom", "oom_kill"}

// slot is what is kept of one cgroup between reads: its files and their counters. The arrays of three are indexed as the file's track says.
type slot struct {
	dir      string // below the root
	identity uint64 // its inode; 0 before the first file was opened
	phase    int    // its turn among the slow
	tick     int    // the read that it was listed at last
	refused  bool   // it is never read
	wanted   bool   // its run delay is
	peaks    bool   // its memory peaks are

	sources  [cgroupFiles]source
	cpu      [3]table
	current  [3]int64
	stat     [3]table
	events   [3]table
	numa     [3]numaCounters
	io       [3][ioCounters]int64
	pressure [3][3]pressureCounters // CPU, memory, IO
	cpus     [3]topology.CPUSet
	tasks    [3]int64
	peak     [3]peak
	mark     peakMark
	delay    [3]int64 // ns: the sum of what was seen to grow

	threads  []thread      // that the next turn reads, by number
	count    int           // threads at the last turn
	complete bool          // threads are all of them, and not a sample
	sampled  time.Duration // when threads were read last
	waited   int64         // ns: as delay, as it stands now
}

func newSlot(dir string, phase int) *slot {
	s := &slot{dir: dir, phase: phase}
	s.reset(0)
	return s
}

// reset forgets all counters: the cgroup is another one now. The files must be closed.
func (s *slot) reset(identity uint64) {
	s.identity, s.waited, s.threads, s.count, s.complete = identity, 0, s.threads[:0], 0, false
	s.mark = peakMark{}
	for i := range s.sources {
		s.sources[i].track, s.sources[i].absent = newTrack(), false
	}
	s.sources[fileThreads].shape = records
}

// refuse says of all samples why they are missing, for ever.
func (s *slot) refuse(why Reason) {
	s.refused = true
	for i := range s.sources {
		s.sources[i].fail(why)
	}
}

func (r *Reader) closeSlot(s *slot) {
	for i := range s.sources {
		r.close(&s.sources[i].file)
	}
	for i := range s.threads {
		r.close(&s.threads[i].file)
	}
}

// readCgroup reads the files of a cgroup that are due.
func (r *Reader) readCgroup(now time.Duration, s *slot) {
	if s.refused {
		r.counts.Faults[s.sources[fileCPU].fault]++
		return
	}
	slow := r.slowTurn(s.phase)
	for i := range fileThreads {
		if i == filePeak && !s.peaks {
			continue
		}
		source := &s.sources[i]
		quick := i < firstSlow && (i != fileCPUPressure || !s.wanted)
		if slow || (quick || r.overdue(&source.track, now)) && !source.absent {
			data, why := r.load(source, s.dir, cgroupNames[i], s)
			if why == fine {
				why = s.parse(i, data)
			}
			r.settle(source, now, why)
			if i == filePeak && why == fine {
				s.mark.restart(source)
			}
		}
	}
}

// parse reads the bytes of a file into the free place.
func (s *slot) parse(file int, data []byte) (why Reason) {
	free := s.sources[file].free
	switch file {
	case fileCPU:
		return parseTable(data, cpuKeys, &s.cpu[free])
	case fileMemory:
		s.current[free], why = parseNumber(data)
		return why
	case fileStat:
		return parseTable(data, memoryKeys, &s.stat[free])
	case fileEvents:
		return parseTable(data, eventKeys, &s.events[free])
	case fileNUMA:
		return parseNUMA(data, &s.numa[free])
	case fileCPUPressure, fileMemoryPressure, fileIOPressure:
		return parsePressure(data, &s.pressure[pressureOf(file)][free])
	case fileIO:
		return parseIO(data, &s.io[free])
	case fileCPUs:
		return parseCPUSet(data, &s.cpus[free])
	case fileTasks:
		s.tasks[free], why = parseNumber(data)
		return why
	case filePeak:
		return s.parsePeak(data)
	}
	return Failed
}

func pressureOf(file int) int {
	switch file {
	case fileCPUPressure:
		return 0
	case fileMemoryPressure:
		return 1
	}
	return 2
}

// view is the counters of one file at one observation.
type view struct {
	span
	last, base uint8
}

func (s *source) view(now time.Duration, l limits) view { return view{s.span(now, l), s.last, s.base} }

// done adds what the view found to the counts, once for each reading.
func (v *view) done(counts *Counts) {
	if v.age == 0 {
		counts.Reversed += v.reversed
	}
}

// of is the counter under a key.
func (v *view) of(t *[3]table, key int) counter {
	last, base := &t[v.last], &t[v.base]
	return counter{last.value[key], base.value[key], last.has(key), base.has(key)}
}

// describe turns the counters into samples.
func (s *slot) describe(now time.Duration, l limits, out *CgroupUse, counts *Counts) {
	s.describeCPU(now, l, &out.CPU, counts)
	s.describeMemory(now, l, &out.Memory, counts)
	s.describeEvents(now, l, &out.Memory, counts)
	s.describePeak(now, l, &out.Memory)
	s.describeIO(now, l, &out.IO, counts)
	for _, file := range [...]int{fileCPUPressure, fileMemoryPressure, fileIOPressure} {
		into := [...]*Pressure{&out.CPUPressure, &out.MemoryPressure, &out.IOPressure}[pressureOf(file)]
		v := s.sources[file].view(now, l)
		describePressure(&v, &s.pressure[pressureOf(file)], into)
		v.done(counts)
	}
	v := s.sources[fileCPUs].view(now, l)
	out.CPUs = gauge(&v.span, s.cpus[v.last], true)
	v = s.sources[fileTasks].view(now, l)
	out.Tasks = gauge(&v.span, s.tasks[v.last], true)
}

const perMicrosecond, perNanosecond = 1e-6, 1e-9

func (s *slot) describeCPU(now time.Duration, l limits, out *CgroupCPU, counts *Counts) {
	v := s.sources[fileCPU].view(now, l)
	out.Usage = rate(&v.span, v.of(&s.cpu, cpuUsage), perMicrosecond)
	out.User = rate(&v.span, v.of(&s.cpu, cpuUser), perMicrosecond)
	out.System = rate(&v.span, v.of(&s.cpu, cpuSystem), perMicrosecond)
	out.Throttled = rate(&v.span, v.of(&s.cpu, cpuThrottled), perMicrosecond)
	out.ThrottledPeriods = share(&v.span, v.of(&s.cpu, cpuThrottledPeriods), v.of(&s.cpu, cpuPeriods))
	v.done(counts)
	v = s.sources[fileThreads].view(now, l)
	out.RunDelay = rate(&v.span, counter{s.delay[v.last], s.delay[v.base], true, true}, perNanosecond)
	if !s.wanted {
		out.RunDelay = MissingSample[float64](NotRead)
	}
	v.done(counts)
}

func (s *slot) describeMemory(now time.Duration, l limits, out *CgroupMemory, counts *Counts) {
	v := s.sources[fileMemory].view(now, l)
	out.Current = gauge(&v.span, s.current[v.last], true)
	v = s.sources[fileStat].view(now, l)
	amount := func(key int) Sample[int64] {
		c := v.of(&s.stat, key)
		return gauge(&v.span, c.value, c.seen)
	}
	pages := func(key int) Sample[float64] { return rate(&v.span, v.of(&s.stat, key), 1) }
	out.Anon, out.File, out.Shmem, out.Dirty = amount(memoryAnon), amount(memoryFile), amount(memoryShmem), amount(memoryDirty)
	out.InactiveFile, out.ActiveFile, out.InactiveAnon = amount(memoryInactiveFile), amount(memoryActiveFile), amount(memoryInactiveAnon)
	out.Kernel, out.Slab, out.Sockets, out.HugeAnon = amount(memoryKernel), amount(memorySlab), amount(memorySockets), amount(memoryHuge)
	out.MajorFaults, out.Scan, out.Steal = pages(memoryMajor), pages(memoryScan), pages(memorySteal)
	out.RefaultAnon, out.RefaultFile = pages(memoryRefaultAnon), pages(memoryRefaultFile)
	v.done(counts)
	v = s.sources[fileNUMA].view(now, l)
	numa := &s.numa[v.last]
	for z := range out.NUMANodes {
		out.NUMANodes[z].Anon = gauge(&v.span, numa.anon.value[z], numa.anon.seen[z])
		out.NUMANodes[z].File = gauge(&v.span, numa.file.value[z], numa.file.seen[z])
	}
}

func (s *slot) describeEvents(now time.Duration, l limits, out *CgroupMemory, counts *Counts) {
	v := s.sources[fileEvents].view(now, l)
	out.Low = total(&v.span, v.of(&s.events, eventLow))
	out.High = total(&v.span, v.of(&s.events, eventHigh))
	out.Max = total(&v.span, v.of(&s.events, eventMax))
	out.OOM = total(&v.span, v.of(&s.events, eventOOM))
	out.OOMKills = total(&v.span, v.of(&s.events, eventOOMKill))
	v.done(counts)
}

func (s *slot) describeIO(now time.Duration, l limits, out *CgroupIO, counts *Counts) {
	v := s.sources[fileIO].view(now, l)
	last, base := &s.io[v.last], &s.io[v.base]
	each := func(i int) Sample[float64] { return rate(&v.span, counter{last[i], base[i], true, true}, 1) }
	out.ReadBytes, out.WriteBytes, out.Reads, out.Writes = each(ioReadBytes), each(ioWriteBytes), each(ioReads), each(ioWrites)
	v.done(counts)
}

func describePressure(v *view, p *[3]pressureCounters, out *Pressure) {
	describeStall(v, &p[v.last].some, &p[v.base].some, &out.Some)
	describeStall(v, &p[v.last].full, &p[v.base].full, &out.Full)
}

// describeStall turns hundredths of a percent into shares. The kernel and the caller do not look at the clock at the same moment, so that a
// stall without end seems a little longer than the time it took: a share is at most 1.
func describeStall(v *view, last, base *stallCounters, out *Stall) {
	out.Now = rate(&v.span, counter{last.total, base.total, last.seen, base.seen}, perMicrosecond)
	out.Now.value = min(1, out.Now.value)
	for i, into := range [...]*Sample[float64]{&out.Avg10, &out.Avg60, &out.Avg300} {
		*into = gauge(&v.span, float64(last.avg[i])/100_00, last.seen)
	}
}
