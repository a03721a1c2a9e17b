package bandwidth

import (
	"cmp"
	"slices"
	"strings"
)

// Pod is one whose bandwidth is wanted. Its group is named after its UID.
type Pod struct {
	UID, Cgroup string
	// Reclaimed says in which group of package rdt its threads are, where these groups are made.
	Reclaimed bool
}

// Candidate is a pod of the node, and what decides whether a group is spent on it.
type Candidate struct {
	Pod

	// Said: its annotation speaks of memory bandwidth, one way or the other.
	Said bool
	// Use is its CPUs in use; NaN is not known.
	Use float64
}

// Order puts those first that matter most: pods that speak of bandwidth, for half of the groups at most, or a tenant could take all of them by a word on many pods; then, where a pod of the
// node is sensitive, reclaimed ones, for they may be moved; then whoever uses most CPU. Those whose use is not known come last: it is known soon, and a group is kept for a turn.
func Order(list []Candidate, sensitive bool, groups int) []Pod {
	use := func(c *Candidate) float64 {
		if c.Use >= 0 {
			return c.Use
		}
		return -1 // behind those that are known to use none
	}
	sorted := slices.Clone(list)
	slices.SortFunc(sorted, func(x, y Candidate) int { return cmp.Or(cmp.Compare(use(&y), use(&x)), strings.Compare(x.UID, y.UID)) })
	var ranks [3][]Pod
	for i := range sorted {
		c, rank := &sorted[i], 2
		switch {
		case c.Said && len(ranks[0]) < (groups+1)/2:
			rank = 0
		case sensitive && c.Reclaimed:
			rank = 1
		}
		ranks[rank] = append(ranks[rank], c.Pod)
	}
	return slices.Concat(ranks[0], ranks[1], ranks[2])
}
