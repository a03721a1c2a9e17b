package observe

import (
	"math"

	"hilbert.dev/hilbert/topology"
)

// zoneCounters are the kernel's watermarks in a NUMA node and what is free there: the sums over its zones, in pages.
type zoneCounters struct {
	min, low, high, free int64
	seen                 bool
}

// zoneTable is by number of NUMA node.
type zoneTable [topology.MaxNUMANodes]zoneCounters

// zone is one zone while it is read.
type zone struct {
	numa int64
	// pages has the lines that we look for, in the order of zoneKeys; found which were there.
	pages [len(zoneKeys)]int64
	found [len(zoneKeys)]bool
	// known: it is a zone, and not the beginning of the file.
	known bool
}

const (
	zoneFree = iota
	zoneMin
	zoneLow
	zoneHigh
	zoneManaged
)

var zoneKeys = [...]string{"free", "min", "low", "high", "managed"}

// parseZones reads /proc/zoneinfo. A zone that manages no pages does not count: the kernel prints watermarks for it too (32 pages of an empty zone Movable), and
// none of the memory of devices is in managed pages. The pages of zones Movable and of CMA do count: what reclaimed and online pods hold lies there as well, and
// kswapd keeps their watermarks as it keeps the others'.
func parseZones(data []byte, into *zoneTable) Reason {
	*into = zoneTable{}
	var z zone
	for len(data) > 0 {
		line, rest, whole := next(data)
		if !whole {
			return Truncated
		}
		data = rest
		key, fields := word(line)
		switch string(key) {
		case "Node":
			if !z.addTo(into) {
				return Malformed
			}
			if z = newZone(fields); !z.known {
				return Malformed
			}
			continue
		case "pages": // "pages free 3840"
			key, fields = word(fields)
		}
		if !z.take(key, fields) {
			return Malformed
		}
	}
	if !z.known || !z.addTo(into) {
		return Malformed
	}
	return fine
}

// newZone reads "0, zone   Normal".
func newZone(fields []byte) (z zone) {
	number, fields := numberBefore(fields, ',')
	name, _ := word(fields)
	z.numa, z.known = number, number >= 0 && string(name) == "zone"
	return z
}

// numberBefore reads a number that ends with a mark; -1: there is none.
func numberBefore(fields []byte, mark byte) (n int64, rest []byte) {
	first, rest := word(fields)
	if len(first) == 0 || first[len(first)-1] != mark {
		return -1, rest
	}
	n, ok := number(first[:len(first)-1])
	if !ok {
		return -1, rest
	}
	return n, rest
}

// take takes a line of the zone; false: it is one that we look for, and no number.
func (z *zone) take(key, fields []byte) bool {
	for i := range zoneKeys {
		if string(key) != zoneKeys[i] || z.found[i] {
			continue
		}
		first, _ := word(fields)
		n, ok := number(first)
		if !z.known || !ok || n > math.MaxInt64>>24 { // the sums, in bytes, must fit
			return false
		}
		z.pages[i], z.found[i] = n, true
	}
	return true
}

// addTo adds the zone to its NUMA node; false: it lacks a line.
func (z *zone) addTo(into *zoneTable) bool {
	if !z.known || z.found[zoneManaged] && z.pages[zoneManaged] == 0 || z.numa >= topology.MaxNUMANodes {
		return true
	}
	if z.found != [len(zoneKeys)]bool{true, true, true, true, true} {
		return false
	}
	c := &into[z.numa]
	c.min, c.low, c.high, c.free, c.seen = c.min+z.pages[zoneMin], c.low+z.pages[zoneLow], c.high+z.pages[zoneHigh], c.free+z.pages[zoneFree], true
	return true
}
