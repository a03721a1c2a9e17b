package observe

import (
	"bytes"
	"math"

	"hilbert.dev/hilbert/topology"
)

// numaNodeCounters is a line of memory.numa_stat for each NUMA node, in bytes.
type numaNodeCounters struct {
	value [topology.MaxNUMANodes]int64
	seen  [topology.MaxNUMANodes]bool
}

// numaCounters is what we read of memory.numa_stat.
type numaCounters struct {
	anon, file numaNodeCounters
}

// parseNUMA reads memory.numa_stat: "anon N0=4096 N1=0". Other keys are passed over, and so are nodes beyond MaxNUMANodes.
func parseNUMA(data []byte, into *numaCounters) Reason {
	*into = numaCounters{}
	for len(data) > 0 {
		line, rest, whole := next(data)
		if !whole {
			return Truncated
		}
		data = rest
		key, fields := word(line)
		var to *numaNodeCounters
		switch string(key) {
		case "anon":
			to = &into.anon
		case "file":
			to = &into.file
		default:
			continue
		}
		if to.seen != [topology.MaxNUMANodes]bool{} || !parseNUMANodes(fields, to) {
			return Malformed
		}
	}
	if into.anon.seen == [topology.MaxNUMANodes]bool{} || into.file.seen == [topology.MaxNUMANodes]bool{} {
		return Malformed
	}
	return fine
}

func parseNUMANodes(fields []byte, into *numaNodeCounters) bool {
	for {
		var field []byte
		if field, fields = word(fields); len(field) == 0 {
			return true
		}
		name, digits, ok := bytes.Cut(field, []byte("="))
		name, named := bytes.CutPrefix(name, []byte("N"))
		numa, okNUMANode := number(name)
		n, okValue := number(digits)
		if !ok || !named || !okNUMANode || !okValue {
			return false
		}
		if numa >= topology.MaxNUMANodes {
			continue
		}
		if into.seen[numa] {
			return false
		}
		into.value[numa], into.seen[numa] = n, true
	}
}

// The columns of a line "cpu" in /proc/stat, in hundredths of a second.
const (
	tickUser = iota
	tickNice
	tickSystem
	tickIdle
	tickIOWait
	tickIRQ
	tickSoftIRQ
	tickSteal
	ticks
)

// cpuCounters is what we know of one CPU, or of all.
type cpuCounters struct {
	tick     [ticks]int64
	seen     bool
	runDelay int64 // ns
	waited   bool  // runDelay was seen
}

// cpuTable is by CPU number.
type cpuTable struct {
	all     cpuCounters
	each    []cpuCounters // grows to the highest number that was seen, up to MaxCPUs
	dropped int           // numbers beyond
}

// at makes room for CPU n; nil when it is beyond the bound. It allocates only when a higher number than ever before appears.
func (t *cpuTable) at(n int64) *cpuCounters {
	if n >= topology.MaxCPUs {
		t.dropped++
		return nil
	}
	for int64(len(t.each)) <= n {
		t.each = append(t.each, cpuCounters{})
	}
	return &t.each[n]
}

// parseStat reads the lines "cpu" and "cpuN", with which /proc/stat begins. The rest, which is long, is neither read nor judged.
func parseStat(data []byte, into *cpuTable) Reason {
	into.all.seen, into.dropped = false, 0
	for i := range into.each {
		into.each[i].seen = false
	}
	for len(data) > 0 {
		line, rest, whole := next(data)
		name, fields := word(line)
		id, isCPU := bytes.CutPrefix(name, []byte("cpu"))
		if !isCPU {
			break
		}
		if !whole {
			return Truncated
		}
		data = rest
		to := &into.all
		if len(id) > 0 {
			n, ok := number(id)
			if !ok {
				return Malformed
			}
			if to = into.at(n); to == nil {
				continue
			}
		}
		if to.seen || !parseTicks(fields, to) {
			return Malformed
		}
	}
	if !into.all.seen {
		return Malformed
	}
	return fine
}

func parseTicks(fields []byte, into *cpuCounters) bool {
	for i := range into.tick {
		var field []byte
		field, fields = word(fields)
		n, ok := number(field)
		if !ok || n > math.MaxInt64/ticks { // the sums that we build of them must fit
			return false
		}
		into.tick[i] = n
	}
	into.seen = true
	return true
}

// The versions of /proc/schedstat whose lines "cpu" are as we know them; 17 changed the lines "domain".
const minSchedstat, maxSchedstat = 15, 17

// schedstatDelay is the column of a line "cpu" in /proc/schedstat that sums the nanoseconds that threads waited there.
const schedstatDelay = 8

// parseSchedstat reads the run delay of each CPU. The table's ticks are left alone.
func parseSchedstat(data []byte, into *cpuTable) Reason {
	into.dropped = 0
	seen := false
	for i := range into.each {
		into.each[i].waited = false
	}
	for first := true; len(data) > 0; first = false {
		line, rest, whole := next(data)
		if !whole {
			return Truncated
		}
		data = rest
		name, fields := word(line)
		if first {
			version, _ := word(fields)
			n, ok := number(version)
			if string(name) != "version" || !ok {
				return Malformed
			}
			if n < minSchedstat || n > maxSchedstat {
				return Unsupported
			}
			continue
		}
		id, isCPU := bytes.CutPrefix(name, []byte("cpu"))
		if !isCPU {
			continue
		}
		n, ok := number(id)
		if !ok {
			return Malformed
		}
		to := into.at(n)
		if to == nil {
			continue
		}
		if to.waited || !parseDelay(fields, to) {
			return Malformed
		}
		seen = true
	}
	if !seen {
		return Malformed
	}
	return fine
}

func parseDelay(fields []byte, into *cpuCounters) bool {
	var field []byte
	for range schedstatDelay {
		field, fields = word(fields)
	}
	n, ok := number(field)
	if !ok || n > math.MaxInt64/topology.MaxCPUs { // the sum over all CPUs must fit
		return false
	}
	into.runDelay, into.waited = n, true
	return true
}

// loadCounters is /proc/loadavg, the averages in hundredths.
type loadCounters struct {
	avg               [3]int64 // over 1, 5, 15 minutes
	runnable, threads int64
}

// parseLoad reads /proc/loadavg: "0.08 1.26 1.55 1/95 25193".
func parseLoad(data []byte, into *loadCounters) Reason {
	line, rest, whole := next(data)
	if !whole {
		return Truncated
	}
	var field []byte
	for i := range into.avg {
		var ok bool
		field, line = word(line)
		if into.avg[i], ok = hundredths(field); !ok {
			return Malformed
		}
	}
	field, _ = word(line)
	runnable, threads, _ := bytes.Cut(field, []byte("/"))
	var ok, okThreads bool
	into.runnable, ok = number(runnable)
	into.threads, okThreads = number(threads)
	if !ok || !okThreads || len(rest) > 0 {
		return Malformed
	}
	return fine
}

// parseThreadDelay reads the second of the three numbers of /proc/TID/schedstat: nanoseconds that the thread was runnable and did not run.
// Three zeros are what the kernel prints for a thread that never ran, and for all of them when it does not keep these counts: Unsupported.
func parseThreadDelay(data []byte) (int64, Reason) {
	line, rest, whole := next(data)
	if !whole {
		return 0, Truncated
	}
	var n [3]int64 // run time, delay, time slices
	for i := range n {
		var field []byte
		var ok bool
		field, line = word(line)
		if n[i], ok = number(field); !ok {
			return 0, Malformed
		}
	}
	if len(rest) > 0 {
		return 0, Malformed
	}
	if n == [3]int64{} {
		return 0, Unsupported
	}
	return n[1], fine
}

// parseThreads reads cgroup.threads: each is called with the number of each thread, and count is how many there are.
func parseThreads(data []byte, each func(id int32)) (count int, _ Reason) {
	for len(data) > 0 {
		line, rest, whole := next(data)
		if !whole {
			return 0, Truncated
		}
		data = rest
		n, ok := number(line)
		if !ok || n > math.MaxInt32 {
			return 0, Malformed
		}
		each(int32(n))
		count++
	}
	return count, fine
}
