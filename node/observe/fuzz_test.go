package observe

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"hilbert.dev/hilbert/topology"
)

// seeds adds the fixtures of these names, and what is wrong with them.
func seeds(f *testing.F, names ...string) {
	f.Helper()
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
		f.Add(text[:len(text)/2])
		f.Add(bytes.ReplaceAll(text, []byte("1"), []byte("-1")))
		f.Add(bytes.ReplaceAll(text, []byte("0"), []byte("99999999999")))
	}
	f.Add([]byte("\n"))
	f.Add([]byte{})
}

// whole holds of each parser of whole files that what was cut off in the middle of a line is never understood.
func whole(t *testing.T, data []byte, why Reason) {
	t.Helper()
	if why == fine && len(data) > 0 && data[len(data)-1] != '\n' {
		t.Errorf("%q was cut off, and understood", data)
	}
}

func FuzzTable(f *testing.F) {
	seeds(f, "pod/cpu.stat", "pod/memory.stat", "pod/memory.events", "node/meminfo", "node/vmstat", "node/meminfo1", "node/numastat0")
	keys := []string{"usage_usec", "anon", "file", "MemTotal", "Active(anon)", "numa_hit", "low", "oom_kill"}
	f.Fuzz(func(t *testing.T, data []byte) {
		var got table
		why := parseTable(data, keys, &got)
		whole(t, data, why)
		want, ok := naiveTable(string(data), keys)
		if ok != (why == fine) {
			t.Fatalf("%q: %v, but naively %v", data, why, want)
		}
		if why != fine {
			return
		}
		for i, key := range keys {
			n, seen := want[key]
			if seen != got.has(i) || seen && n != got.value[i] {
				t.Errorf("%q: %s is %d %v, naively %d %v", data, key, got.value[i], got.has(i), n, seen)
			}
		}
	})
}

// naiveTable reads as parseTable does, with the means of package strings.
func naiveTable(text string, keys []string) (map[string]int64, bool) {
	found := map[string]int64{}
	if !strings.HasSuffix(text, "\n") {
		return nil, false
	}
	blank := func(r rune) bool { return r == ' ' || r == '\t' }
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		fields := strings.FieldsFunc(line, blank)
		if len(fields) > 0 && fields[0] == "Node" {
			fields = fields[min(2, len(fields)):]
		}
		if len(fields) == 0 {
			continue
		}
		key := strings.TrimSuffix(fields[0], ":")
		for _, wanted := range keys {
			if key != wanted {
				continue
			}
			scale := uint64(1)
			if len(fields) == 3 && fields[2] == "kB" {
				scale, fields = 1024, fields[:2]
			}
			if _, twice := found[key]; twice || len(fields) != 2 || strings.HasPrefix(fields[1], "+") {
				return nil, false
			}
			n, err := strconv.ParseUint(fields[1], 10, 63)
			if err != nil || n > (1<<63-1)/scale {
				return nil, false
			}
			found[key] = int64(n * scale)
		}
	}
	return found, len(found) > 0
}

func FuzzCPUSet(f *testing.F) {
	seeds(f, "pod/cpuset.cpus.effective", "node/online")
	f.Add([]byte("0-3,8,10-1023\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var got topology.CPUSet
		why := parseCPUSet(data, &got)
		whole(t, data, why)
		if why != fine {
			return
		}
		want, err := topology.ParseCPUSet(string(data))
		if err != nil || want != got {
			t.Errorf("%q: %v, topology says %v %v", data, got, want, err)
		}
	})
}

func FuzzZones(f *testing.F) {
	seeds(f, "node/zoneinfo")
	f.Fuzz(func(t *testing.T, data []byte) {
		var got zoneTable
		why := parseZones(data, &got)
		whole(t, data, why)
		for i, z := range got {
			if why == fine && (z.min < 0 || z.low < 0 || z.high < 0 || z.free < 0) {
				t.Errorf("%q: node %d has %+v", data, i, z)
			}
		}
	})
}

func FuzzPressure(f *testing.F) {
	seeds(f, "pod/cpu.pressure", "pod/memory.pressure", "pod/io.pressure")
	f.Fuzz(func(t *testing.T, data []byte) {
		var got pressureCounters
		why := parsePressure(data, &got)
		whole(t, data, why)
		if why != fine {
			return
		}
		if !got.some.seen {
			t.Errorf("%q: understood without a line some", data)
		}
		for _, s := range []stallCounters{got.some, got.full} {
			for _, avg := range s.avg {
				if avg < 0 || avg > 100_00 || s.total < 0 {
					t.Errorf("%q: %v", data, s)
				}
			}
		}
	})
}

func FuzzIO(f *testing.F) {
	seeds(f, "pod/io.stat")
	f.Fuzz(func(t *testing.T, data []byte) {
		var got [ioCounters]int64
		why := parseIO(data, &got)
		whole(t, data, why)
		for _, n := range got {
			if n < 0 {
				t.Errorf("%q: %v", data, got)
			}
		}
		var twice [ioCounters]int64
		if again := parseIO(append(bytes.Clone(data), data...), &twice); why == fine && again == fine && twice[ioReads] != 2*got[ioReads] {
			t.Errorf("%q: %v, and twice that is %v", data, got, twice)
		}
	})
}

func FuzzNUMA(f *testing.F) {
	seeds(f, "pod/memory.numa_stat")
	f.Fuzz(func(t *testing.T, data []byte) {
		var got numaCounters
		why := parseNUMA(data, &got)
		whole(t, data, why)
		for numa := range topology.MaxNUMANodes {
			if got.anon.value[numa] < 0 || got.file.value[numa] < 0 {
				t.Errorf("%q: %v", data, got)
			}
			if !got.anon.seen[numa] && got.anon.value[numa] != 0 {
				t.Errorf("%q: a value that was not seen: %v", data, got)
			}
		}
	})
}

func FuzzCPUs(f *testing.F) {
	seeds(f, "node/stat", "node/schedstat")
	f.Fuzz(func(t *testing.T, data []byte) {
		var got, fresh cpuTable
		parseStat([]byte("cpu  1 2 3 4 5 6 7 8\ncpu5 1 2 3 4 5 6 7 8\n"), &got) // a table is used again and again
		stat, again := parseStat(data, &got), parseStat(data, &fresh)
		if stat != again {
			t.Fatalf("%q: %v in a used table, %v in a fresh one", data, stat, again)
		}
		for i := range got.each {
			if stat == fine && *got.cpu(i) != *fresh.cpu(i) && got.cpu(i).seen {
				t.Errorf("%q: CPU %d is %v in a used table, %v in a fresh one", data, i, *got.cpu(i), *fresh.cpu(i))
			}
		}
		sched := parseSchedstat(data, &got)
		whole(t, data, sched)
		if stat == fine && sched == fine {
			t.Errorf("%q is both", data)
		}
		if len(got.each) > topology.MaxCPUs {
			t.Errorf("%q: %d CPUs", data, len(got.each))
		}
	})
}

func FuzzLines(f *testing.F) {
	seeds(f, "node/loadavg", "pod/cgroup.threads", "pod/memory.current", "pod/pids.current")
	f.Add([]byte("67321 50625 2\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var load loadCounters
		whole(t, data, parseLoad(data, &load))
		n, why := parseNumber(data)
		whole(t, data, why)
		if naive, err := strconv.ParseUint(strings.TrimSuffix(string(data), "\n"), 10, 63); why == fine && (err != nil || int64(naive) != n) {
			t.Errorf("%q: %d", data, n)
		}
		delay, why := parseThreadDelay(data)
		whole(t, data, why)
		count, why := parseThreads(data, func(int32) {})
		whole(t, data, why)
		if lines := bytes.Count(data, []byte("\n")); why == fine && count != lines {
			t.Errorf("%q: %d threads on %d lines", data, count, lines)
		}
		if delay < 0 || load.threads < 0 || load.runnable < 0 {
			t.Errorf("%q: %d %v", data, delay, load)
		}
	})
}
