package cores

import (
	"slices"

	"hilbert.dev/hilbert/topology"
)

// divider moves cores between pools.
type divider struct {
	units []unit                                // by NUMA node, then ascending
	has   map[string][topology.MaxNUMANodes]int // cores by pool
	sizes sizes
	room  [topology.MaxNUMANodes]int // cores of a NUMA node that are for shared pools
}

// unit is what pools have of a core.
type unit struct {
	cpus  topology.CPUSet
	numa  int
	owner string // a pool's key; loose: nobody's yet
}

// The keys of the pools: a shared one's is its name after a mark, so that no name of a pool can be taken for another.
const (
	loose     = ""
	reclaimed = "-"
	shared    = "+"
	share     = shared + SharePool
)

// reclaim gives the reclaimed pool what it should have in a NUMA node. It gives up its lowest cores; it takes the highest that no pod or pool has, then the
// highest of the shared pool that has the most to spare.
func (d *divider) reclaim(z int) {
	has := d.has[reclaimed][z]
	for ; has > d.sizes.reclaimed[z]; has-- {
		d.move(d.lowest(reclaimed, z), loose)
	}
	for ; has < d.sizes.reclaimed[z]; has++ {
		from := d.highest(loose, z)
		if from < 0 {
			from = d.spare(z)
		}
		d.move(from, reclaimed)
	}
}

// spare is the highest core in the NUMA node of the shared pool that has the most cores beyond what it should have.
func (d *divider) spare(z int) int {
	best, most, rest := -1, 0, 0
	for _, n := range d.room {
		rest += n
	}
	consider := func(key string, size int) {
		if key == share && d.spareOfShare(z) <= 0 {
			return
		}
		if i := d.highest(key, z); i >= 0 && (best < 0 || d.total(key)-size > most) {
			best, most = i, d.total(key)-size
		}
	}
	for _, name := range d.sizes.names {
		rest -= d.sizes.shared[name]
	}
	consider(share, rest)
	for _, name := range d.sizes.names {
		consider(shared+name, d.sizes.shared[name])
	}
	if best < 0 {
		return d.highest(share, z)
	}
	return best
}

// spareOfShare is how many cores of the NUMA node SharePool could give to others.
func (d *divider) spareOfShare(z int) int {
	return d.has[share][z] + d.has[loose][z] - d.sizes.keeps[z]
}

// reserve gives SharePool the cores that it keeps in the NUMA node, of the named pools that have most there.
func (d *divider) reserve(z int) {
	for ; d.spareOfShare(z) < 0; d.move(d.lowest(d.most(z), z), loose) {
	}
}

// most is the named pool that has most cores of the NUMA node.
func (d *divider) most(z int) (key string) {
	for _, name := range d.sizes.names {
		if other := shared + name; key == "" || d.has[other][z] > d.has[key][z] {
			key = other
		}
	}
	return key
}

// shrink takes cores from a pool where it has most beyond its part of the NUMA node.
func (d *divider) shrink(key string, size int) {
	for n := d.total(key); n > size; n-- {
		z := d.numa(key, size, key, -1)
		d.move(d.lowest(key, z), loose)
	}
}

// grow gives a pool cores where it lacks most of its part of the NUMA node: those that no pod or pool has, then those of SharePool.
func (d *divider) grow(key string, size int) {
	for n := d.total(key); n < size; n++ {
		from := loose
		z := d.numa(key, size, from, 1)
		if z < 0 {
			from = share
			z = d.numa(key, size, from, 1)
		}
		d.move(d.highest(from, z), key)
	}
}

// NUMA node is where a pool of a size lacks most of its part (sign 1) or has most beyond it (sign -1), among the NUMA nodes that have a core of from;
// -1 if none has.
func (d *divider) numa(key string, size int, from string, sign int) int {
	total := 0
	for _, n := range d.room {
		total += n
	}
	best, most := -1, 0
	for z, room := range d.room {
		if d.has[from][z] == 0 || sign > 0 && d.spareOfShare(z) <= 0 {
			continue
		}
		if lacks := sign * (size*room - d.has[key][z]*total); best < 0 || lacks > most {
			best, most = z, lacks
		}
	}
	return best
}

func (d *divider) total(key string) (n int) {
	for _, cores := range d.has[key] {
		n += cores
	}
	return n
}

// move gives a core to another pool.
func (d *divider) move(i int, key string) {
	has := d.has[d.units[i].owner]
	has[d.units[i].numa]--
	d.has[d.units[i].owner] = has
	d.own(i, key)
}

func (d *divider) own(i int, key string) {
	d.units[i].owner = key
	has := d.has[key]
	has[d.units[i].numa]++
	d.has[key] = has
}

func (d *divider) lowest(key string, z int) int {
	return slices.IndexFunc(d.units, func(u unit) bool { return u.numa == z && u.owner == key })
}

func (d *divider) highest(key string, z int) int {
	for i, u := range slices.Backward(d.units) {
		if u.numa == z && u.owner == key {
			return i
		}
	}
	return -1
}
