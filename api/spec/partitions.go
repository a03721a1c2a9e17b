package spec

// Partitions says when the nodes are divided among several schedulers. While they are not, every scheduler looks at all nodes, and what two of them want is decided by who comes first: the other
// one's Plan is rejected, and its pod is decided on again.
type Partitions struct {
	// When is Always (each scheduler has a partition of its own whatever the load; the other fields are not read) or Load (only while the cluster is full or Plans conflict).
	When string `json:"when"`
	// SplitAllocatedPercent is the part of the cluster's CPUs that pods request above which the nodes are divided.
	SplitAllocatedPercent int `json:"splitAllocatedPercent" needs:"scheduling.partitions.when=Load"`
	// MergeAllocatedPercent is the part below which they no longer need to be.
	MergeAllocatedPercent int `json:"mergeAllocatedPercent" needs:"scheduling.partitions.when=Load"`
	// SplitPodsPerSecond is the rate of placed pods above which the nodes are divided too, if more than SplitRejectedPercent of the Plans are rejected.
	SplitPodsPerSecond int `json:"splitPodsPerSecond" needs:"scheduling.partitions.when=Load"`
	// MergePodsPerSecond is the rate below which they no longer need to be: once they are divided, few Plans are rejected, and that says nothing.
	MergePodsPerSecond int `json:"mergePodsPerSecond" needs:"scheduling.partitions.when=Load"`
	// SplitRejectedPercent is the part of the Plans that is rejected, for SplitPodsPerSecond.
	SplitRejectedPercent float64 `json:"splitRejectedPercent" needs:"scheduling.partitions.when=Load"`
	// SplitAfter is how long it must have been so before the nodes are divided.
	SplitAfter Duration `json:"splitAfter" needs:"scheduling.partitions.when=Load"`
	// MergeAfter is how long it must have been so before they are divided no more.
	MergeAfter Duration `json:"mergeAfter" needs:"scheduling.partitions.when=Load"`
}

// When the nodes are divided.
const (
	PartitionsAlways = "Always"
	PartitionsByLoad = "Load"
)

// validatePartitions wants limits between which nothing changes: where a limit to merge is above the one to split, the nodes would be divided and united by turns.
func validatePartitions(p *Partitions, bad report) {
	const field = "scheduling.partitions."
	oneOf(bad, field+"when", p.When, PartitionsAlways, PartitionsByLoad)
	for _, x := range []struct {
		name  string
		value int
		most  int
	}{
		{"splitAllocatedPercent", p.SplitAllocatedPercent, 100},
		{"mergeAllocatedPercent", p.MergeAllocatedPercent, p.SplitAllocatedPercent},
		{"splitPodsPerSecond", p.SplitPodsPerSecond, maxPodsPerSecond},
		{"mergePodsPerSecond", p.MergePodsPerSecond, p.SplitPodsPerSecond},
	} {
		if x.value < 0 || x.value > x.most {
			bad(field+x.name, "%d is out of range; write 0 to %d; a limit to merge is at most the one to split", x.value, x.most)
		}
	}
	if r := p.SplitRejectedPercent; !(r >= 0 && r <= 100) {
		bad(field+"splitRejectedPercent", "%v is out of range; write 0 to 100", r)
	}
	for name, d := range map[string]Duration{"splitAfter": p.SplitAfter, "mergeAfter": p.MergeAfter} {
		if d < 0 {
			bad(field+name, "%v is negative", d.D())
		}
	}
}

// maxPodsPerSecond is more than any scheduler places.
const maxPodsPerSecond = 10_000_000
