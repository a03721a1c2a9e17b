package observe

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"hilbert.dev/hilbert/topology"
)

// TestParse reads transcripts: "parse FILE [cut=N]" gives what the parser of the file says of the input, or of the fixture where there is
// none, cut off after N bytes from the end.
func TestParse(t *testing.T) {
	datadriven.RunTest(t, "testdata/parse.txt", func(t *testing.T, d *datadriven.TestData) string {
		name, text := d.CmdArgs[0].Key, d.Input+"\n"
		if strings.Contains(name, "/") {
			text = fixture(t, name)
			name = name[strings.Index(name, "/")+1:]
		}
		if d.Input == "empty" {
			text = ""
		}
		if d.HasArg("cut") {
			var n int
			d.ScanArgs(t, "cut", &n)
			text = text[:len(text)-n]
		}
		return parsed(strings.TrimRight(name, "0123456789"), []byte(text))
	})
}

// parsed says what a parser says.
func parsed(name string, data []byte) string {
	var b strings.Builder
	var why Reason
	table := func(keys []string) {
		var got table
		if why = parseTable(data, keys, &got); why != fine {
			return
		}
		for i, key := range keys {
			if got.has(i) {
				fmt.Fprintf(&b, "%s=%d\n", key, got.value[i])
			} else {
				fmt.Fprintf(&b, "%s absent\n", key)
			}
		}
	}
	switch name {
	case "cpu.stat":
		table(cpuKeys)
	case "memory.stat":
		table(memoryKeys)
	case "memory.events":
		table(eventKeys)
	case "meminfo":
		table(infoKeys)
	case "node_meminfo":
		table(numaKeys)
	case "numastat":
		table(pagesKeys)
	case "vmstat":
		table(pagingKeys)
	default:
		why = parsedOther(name, data, &b)
	}
	if why != fine {
		return why.String() + "\n"
	}
	return b.String()
}

func parsedOther(name string, data []byte, b *strings.Builder) (why Reason) {
	switch name {
	case "memory.current", "pids.current":
		var n int64
		n, why = parseNumber(data)
		fmt.Fprintln(b, n)
	case "cpuset.cpus.effective", "online":
		var set topology.CPUSet
		why = parseCPUSet(data, &set)
		fmt.Fprintf(b, "{%v}\n", set)
	case "pressure", "cpu.pressure":
		var p pressureCounters
		why = parsePressure(data, &p)
		fmt.Fprintf(b, "some %v\nfull %v\n", p.some, p.full)
	case "io.stat":
		var io [ioCounters]int64
		why = parseIO(data, &io)
		fmt.Fprintln(b, io)
	case "memory.numa_stat":
		var n numaCounters
		why = parseNUMA(data, &n)
		fmt.Fprintf(b, "anon %v\nfile %v\n", n.anon, n.file)
	case "stat", "schedstat":
		var c cpuTable
		if why = parseStat(data, &c); name == "schedstat" {
			why = parseSchedstat(data, &c)
		}
		fmt.Fprintf(b, "all %v\n", c.all)
		for i, each := range c.each {
			fmt.Fprintf(b, "%d %v\n", i, each)
		}
		fmt.Fprintf(b, "dropped %d\n", c.dropped)
	case "zoneinfo":
		var zones zoneTable
		why = parseZones(data, &zones)
		for i, z := range zones {
			if z.seen {
				fmt.Fprintf(b, "%d min %d low %d high %d free %d\n", i, z.min, z.low, z.high, z.free)
			}
		}
	case "loadavg":
		var l loadCounters
		why = parseLoad(data, &l)
		fmt.Fprintln(b, l)
	case "thread":
		var n int64
		n, why = parseThreadDelay(data)
		fmt.Fprintln(b, n)
	case "cgroup.threads":
		var ids []int
		var n int
		n, why = parseThreads(data, func(id int32) { ids = append(ids, int(id)) })
		fmt.Fprintln(b, n, ids)
	default:
		return Failed
	}
	return why
}
