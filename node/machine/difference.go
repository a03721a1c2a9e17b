package machine

import (
	"fmt"
	"slices"
	"strings"

	"hilbert.dev/hilbert/topology"
)

// memoryGrain is the part of a NUMA node's memory of which a change counts. A balloon of the hypervisor takes and gives a little all the time.
const memoryGrain = 32

// Difference says what promises rest on and what is not as it was: CPUs, which of them share a core or a NUMA node, and the memory of those. Empty: nothing.
func Difference(was, is *topology.Machine) string {
	var out []string
	before, now := was.AllCPUs(), is.AllCPUs()
	if gone := before.Minus(now); !gone.IsEmpty() {
		out = append(out, fmt.Sprintf("CPUs %v are offline", gone))
	}
	if came := now.Minus(before); !came.IsEmpty() {
		out = append(out, fmt.Sprintf("CPUs %v are online", came))
	}
	if both := before.Intersection(now); !samePlaces(was, is, both) {
		out = append(out, "CPUs have other cores or NUMA nodes than before")
	}
	for i := range was.NUMA {
		z := &was.NUMA[i]
		other := node(is.NUMA, z.ID)
		switch {
		case other == nil:
			out = append(out, fmt.Sprintf("NUMA node %d is gone", z.ID))
		case (other.Memory-z.Memory)*memoryGrain > z.Memory || (z.Memory-other.Memory)*memoryGrain > z.Memory:
			out = append(out, fmt.Sprintf("NUMA node %d has %d MiB of memory, and had %d", z.ID, other.Memory/topology.Mebibyte, z.Memory/topology.Mebibyte))
		}
	}
	for i := range is.NUMA {
		if z := &is.NUMA[i]; node(was.NUMA, z.ID) == nil {
			out = append(out, fmt.Sprintf("NUMA node %d is new", z.ID))
		}
	}
	return strings.Join(out, "; ")
}

// samePlaces reports whether some CPUs share cores and NUMA nodes as they did. A core's number is that of its lowest CPU, which may have gone, so the numbers
// themselves say nothing.
func samePlaces(was, is *topology.Machine, cpus topology.CPUSet) bool {
	places := func(m *topology.Machine) (out [][2]int) {
		first := make(map[int]int) // the lowest of the CPUs of each core
		for _, c := range slices.SortedFunc(slices.Values(m.CPUs), func(x, y topology.CPU) int { return x.ID - y.ID }) {
			if !cpus.Has(c.ID) {
				continue
			}
			if _, known := first[c.Core]; !known {
				first[c.Core] = c.ID
			}
			out = append(out, [2]int{first[c.Core], c.NUMA})
		}
		return out
	}
	return slices.Equal(places(was), places(is))
}
