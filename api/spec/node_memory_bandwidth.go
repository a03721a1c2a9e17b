package spec

// NodeMemoryBandwidth has the agent read how much memory bandwidth pods take, by monitoring groups of the kernel's resctrl file system. It is off by default, and needs a node that lends,
// for the same loop asks. docs/concepts/interference.md explains how.
type NodeMemoryBandwidth struct {
	// Groups is of how many pods at most it is read, those first that say something of memory bandwidth or may be moved because of it, then the largest users of CPU. The hardware has few
	// such groups for all who want some: the agent makes no more than half of what it has. 0: none is read.
	Groups int `json:"groups,omitempty"`
	// IntensiveBytesPerSecond is from what memory bandwidth on a pod that says nothing of it is kept off the NUMA nodes of bandwidth-sensitive pods, as if it had said that it is intensive. It has no
	// default: what is much differs between machines. 0: nobody is taken for intensive by what is read. It needs groups that are read.
	IntensiveBytesPerSecond int64 `json:"intensiveBytesPerSecond,omitempty"`
}

// MaxBandwidthGroups bounds NodeMemoryBandwidth.Groups: no node has more pods.
const MaxBandwidthGroups = 512

// minIntensiveBytes and maxDomainBytes bound NodeMemoryBandwidth.IntensiveBytesPerSecond: less loads no memory, and GB/s written as bytes are noticed.
const minIntensiveBytes = 100_000_000

func (b *NodeMemoryBandwidth) check(at string, bad report) {
	if b.Groups < 0 || b.Groups > MaxBandwidthGroups {
		bad(at+"groups", "%d: want 0 to %d", b.Groups, MaxBandwidthGroups)
	}
	if n := b.IntensiveBytesPerSecond; n != 0 && (n < minIntensiveBytes || n > maxDomainBytes) {
		bad(at+"intensiveBytesPerSecond", "%d: want 0, or %d (0.1 GB/s) to %d", n, minIntensiveBytes, maxDomainBytes)
	}
}
