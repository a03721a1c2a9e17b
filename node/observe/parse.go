package observe

import (
	"bytes"
	"math"

	"hilbert.dev/hilbert/topology"
)

// Parsers are pure functions of the bytes of one file. They keep no reference to them, allocate nothing, and answer `fine` or the Reason why
// the file gives nothing. What they fill in is only to be used when they answer fine, and then only as far as it says that it was seen.

// fine is the answer of a parser that understood the file.
const fine = reasons

// next cuts the first line off data. A last line without its newline has been cut off itself.
func next(data []byte) (line, rest []byte, whole bool) {
	return bytes.Cut(data, []byte("\n"))
}

// word cuts the first word off a line; words are parted by spaces and tabs.
func word(line []byte) (first, rest []byte) {
	start := 0
	for start < len(line) && (line[start] == ' ' || line[start] == '\t') {
		start++
	}
	end := start
	for end < len(line) && line[end] != ' ' && line[end] != '\t' {
		end++
	}
	return line[start:end], line[end:]
}

// number reads a decimal number from 0 to MaxInt64. The kernel prints nothing else where we read: a sign is an error.
func number(text []byte) (n int64, ok bool) {
	if len(text) == 0 {
		return 0, false
	}
	for _, c := range text {
		digit := int64(c) - '0'
		if digit < 0 || digit > 9 || n > (math.MaxInt64-digit)/10 {
			return 0, false
		}
		n = n*10 + digit
	}
	return n, true
}

// hundredths reads "1.51" as 151: one or more digits, a point, two digits.
func hundredths(text []byte) (n int64, ok bool) {
	point := len(text) - 3
	if point < 1 || text[point] != '.' {
		return 0, false
	}
	whole, ok := number(text[:point])
	part, okPart := number(text[point+1:])
	if !ok || !okPart || whole > math.MaxInt32 {
		return 0, false
	}
	return whole*100 + part, true
}

// maxKeys is the most keys that we look for in one file.
const maxKeys = 24

// table is what a file of keys and values gave, by the position of the key in the list that was asked for.
type table struct {
	value [maxKeys]int64
	seen  uint32
}

func (t *table) has(key int) bool { return t.seen&(1<<key) != 0 }

// parseTable reads lines of "key value", as in cpu.stat, memory.stat, memory.events, vmstat, numastat, and of "key: value kB", as in
// meminfo, also with "Node 0 " before them. A value in kB becomes bytes. Other keys are passed over, whatever their values.
func parseTable(data []byte, keys []string, into *table) Reason {
	into.seen = 0
	expect := 0
	for len(data) > 0 {
		line, rest, whole := next(data)
		if !whole {
			return Truncated
		}
		data = rest
		key, value := word(line)
		if string(key) == "Node" {
			_, value = word(value)
			key, value = word(value)
		}
		key = bytes.TrimSuffix(key, []byte(":"))
		at := find(keys, key, expect)
		if at < 0 {
			continue
		}
		expect = at + 1
		n, ok := amount(value)
		if !ok || into.has(at) {
			return Malformed
		}
		into.value[at] = n
		into.seen |= 1 << at
	}
	if into.seen == 0 {
		return Malformed
	}
	return fine
}

// find looks for key, beginning with the one that comes next if the kernel prints them in the order of our list.
func find(keys []string, key []byte, expect int) int {
	for i := range keys {
		at := expect + i
		if at >= len(keys) {
			at -= len(keys)
		}
		if keys[at] == string(key) {
			return at
		}
	}
	return -1
}

// amount reads "123" or "123 kB", the latter in bytes.
func amount(text []byte) (int64, bool) {
	first, rest := word(text)
	n, ok := number(first)
	unit, rest := word(rest)
	if extra, _ := word(rest); !ok || len(extra) > 0 {
		return 0, false
	}
	switch string(unit) {
	case "":
		return n, true
	case "kB":
		return n * 1024, n <= math.MaxInt64/1024
	}
	return 0, false
}

// parseNumber reads a file that is one number: memory.current, pids.current.
func parseNumber(data []byte) (int64, Reason) {
	line, rest, whole := next(data)
	if !whole {
		return 0, Truncated
	}
	n, ok := number(line)
	if !ok || len(rest) > 0 {
		return 0, Malformed
	}
	return n, fine
}

// parseCPUSet reads the kernel's list format, "0-3,8". An empty line is the empty set.
func parseCPUSet(data []byte, into *topology.CPUSet) Reason {
	*into = topology.CPUSet{}
	line, rest, whole := next(data)
	if !whole {
		return Truncated
	}
	if len(rest) > 0 {
		return Malformed
	}
	for more := len(line) > 0; more; {
		var field []byte
		field, line, more = bytes.Cut(line, []byte(","))
		low, high, ranged := bytes.Cut(field, []byte("-"))
		from, ok := number(low)
		to := from
		if ok && ranged {
			to, ok = number(high)
		}
		if !ok || to < from || to >= topology.MaxCPUs {
			return Malformed
		}
		for n := from; n <= to; n++ {
			into.Add(int(n))
		}
	}
	return fine
}

// stallCounters is one line of PSI: averages in hundredths of a percent of time, total in microseconds.
type stallCounters struct {
	avg   [3]int64 // over 10, 60, 300 s
	total int64
	seen  bool
}

// pressureCounters is a file of PSI.
type pressureCounters struct{ some, full stallCounters }

// parsePressure reads a file of PSI. Kernels before 5.13 print no line "full" for the CPU.
func parsePressure(data []byte, into *pressureCounters) Reason {
	*into = pressureCounters{}
	for len(data) > 0 {
		line, rest, whole := next(data)
		if !whole {
			return Truncated
		}
		data = rest
		kind, rest := word(line)
		var to *stallCounters
		switch string(kind) {
		case "some":
			to = &into.some
		case "full":
			to = &into.full
		default:
			continue // a kind of stall that a later kernel may add
		}
		if to.seen || !parseStall(rest, to) {
			return Malformed
		}
	}
	if !into.some.seen {
		return Malformed
	}
	return fine
}

func parseStall(text []byte, into *stallCounters) bool {
	for i, name := range [...]string{"avg10=", "avg60=", "avg300="} {
		var field []byte
		field, text = word(text)
		digits, named := bytes.CutPrefix(field, []byte(name))
		n, ok := hundredths(digits)
		if !named || !ok || n > 100_00 {
			return false
		}
		into.avg[i] = n
	}
	field, rest := word(text)
	digits, named := bytes.CutPrefix(field, []byte("total="))
	into.total, into.seen = number(digits)
	into.seen = into.seen && named && len(rest) == 0
	return into.seen
}

// The counters of io.stat that we sum over devices.
const (
	ioReadBytes = iota
	ioWriteBytes
	ioReads
	ioWrites
	ioCounters
)

var ioNames = [ioCounters]string{"rbytes=", "wbytes=", "rios=", "wios="}

// parseIO sums io.stat over its devices. An empty file is a cgroup that has done no I/O; a device without counters has done none.
func parseIO(data []byte, into *[ioCounters]int64) Reason {
	*into = [ioCounters]int64{}
	for len(data) > 0 {
		line, rest, whole := next(data)
		if !whole {
			return Truncated
		}
		data = rest
		device, fields := word(line)
		major, minor, ok := bytes.Cut(device, []byte(":"))
		_, okMajor := number(major)
		if _, okMinor := number(minor); !ok || !okMajor || !okMinor {
			return Malformed
		}
		for {
			var field []byte
			if field, fields = word(fields); len(field) == 0 {
				break
			}
			if !addIO(field, into) {
				return Malformed
			}
		}
	}
	return fine
}

func addIO(field []byte, into *[ioCounters]int64) bool {
	for i, name := range ioNames {
		digits, named := bytes.CutPrefix(field, []byte(name))
		if !named {
			continue
		}
		n, ok := number(digits)
		if !ok || n > math.MaxInt64-into[i] {
			return false
		}
		into[i] += n
		return true
	}
	return bytes.IndexByte(field, '=') > 0 // of another kind: discards, cost, latency
}
