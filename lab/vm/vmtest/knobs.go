package vmtest

import (
	"maps"
	"slices"
	"strings"
)

// Knobs are the files of cgroups by which anybody limits a pod, but for the sets themselves: that of a running container cannot be emptied, so that what it comes to is
// compared.
func Knobs() []string {
	return strings.Fields("cpuset.cpus.effective cpuset.mems.effective cpu.idle cpu.max cpu.weight memory.high memory.low memory.max memory.min memory.swap.max io.max io.weight")
}

// Changed lists the lines that were said before and are no longer, and those that are said now, for a test that wants nothing to be left.
func Changed(before, after map[string]bool) (out []string) {
	for line := range maps.Keys(before) {
		if !after[line] {
			out = append(out, "- "+line)
		}
	}
	for line := range maps.Keys(after) {
		if !before[line] {
			out = append(out, "+ "+line)
		}
	}
	slices.SortFunc(out, func(a, b string) int { return strings.Compare(a[2:]+a[:1], b[2:]+b[:1]) })
	return out
}
