package oom

import (
	"math/bits"

	"hilbert.dev/hilbert/api/spec"
)

// Thousandths are what shares of the node's memory are counted in.
const Thousandths = 1000

// Container is what decides its place.
type Container struct {
	// Level is what its pod is treated as.
	Level spec.QoSLevel
	// Priority is its pod's; nil: not known, because Hilbert has not bound the pod.
	Priority *int32
	// Requested is the share of the node's memory that it requested, in thousandths. Of a reclaimed container it is its pod's amount.
	Requested int
	// Kubelet is the oom_score_adj that the kubelet gave it.
	Kubelet int
}

// band are the values of a level.
type band struct {
	level spec.QoSLevel
	// first is the highest. doubling is how far each doubling of the priority moves a container down, requested how far its request may.
	first, doubling, requested int
}

// bands are ordered: who is in the first dies first. A band is as wide as its parts together, and the next begins below it.
var bands = [...]band{
	{spec.QoSReclaimed, 1000, 1, 36},
	{spec.QoSShared, 400, 2, 670},
	{spec.QoSDedicated, -401, 1, 436},
	{spec.QoSSystem, -901, 1, 33},
}

const (
	// zeroRank is the rank of priority 0, the middle of the 64 ranks.
	zeroRank = 32
	// unprotected is the least that the kubelet gives a container which may hold more than it requested: the host's services, which have 0, outlive it.
	unprotected = 2
	// critical is the priority from which on a pod is one of the cluster's own (system-cluster-critical and system-node-critical). Users' priorities end at half of it.
	critical = 2_000_000_000
)

// Score is the container's oom_score_adj.
//
// An online container whose pod's priority is not known, or is one of the cluster's own, never gets more than the kubelet gave it: it may be what keeps the node running.
func Score(c *Container) int {
	b, priority := bandOf(c.Level), int32(0)
	if c.Priority != nil {
		priority = *c.Priority
	}
	out := b.first - b.doubling*rank(priority) - min(max(c.Requested, 0), b.requested)
	switch {
	case b.level == spec.QoSReclaimed:
		return out
	case b.level == spec.QoSShared && c.Kubelet >= unprotected:
		out = max(out, unprotected)
	}
	if c.Priority == nil || priority >= critical {
		out = min(out, c.Kubelet)
	}
	return out
}

func bandOf(level spec.QoSLevel) *band {
	for i := range bands {
		if bands[i].level == level {
			return &bands[i]
		}
	}
	return bandOf(spec.QoSShared) // as everybody treats a pod whose level cannot be read
}

// rank orders priorities by doublings: -2^31 has 0, -1 has 31, 0 has 32, 1 has 33, 1000 has 42 and 2^31-1 has 63.
func rank(priority int32) int {
	if priority < 0 {
		return zeroRank - bits.Len32(uint32(-int64(priority)))
	}
	return zeroRank + bits.Len32(uint32(priority))
}
