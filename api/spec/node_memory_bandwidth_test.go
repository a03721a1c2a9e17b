package spec

import (
	"strings"
	"testing"
)

// The threshold is off by default, and GB/s written as bytes are refused.
func TestIntensiveBytesPerSecond(t *testing.T) {
	for bytes, good := range map[int64]bool{0: true, 1: false, -1: false, 10: false, 100_000_000: true, 12_000_000_000: true, 1e15: false} {
		err := collect(func(bad report) {
			(&NodeMemoryBandwidth{IntensiveBytesPerSecond: bytes}).check("node.memoryBandwidth.", bad)
		})
		if (err == nil) != good || err != nil && !strings.Contains(err.Error(), "node.memoryBandwidth.intensiveBytesPerSecond: ") {
			t.Errorf("%d: %v", bytes, err)
		}
	}
}

// Groups are 0 by default, which reads nothing; fewer than none and more than any node has pods are refused by name.
func TestMemoryBandwidth(t *testing.T) {
	t.Parallel()
	c := Default()
	if c.Node.MemoryBandwidth.Groups != 0 {
		t.Error("memory bandwidth is read by default")
	}
	for groups, refused := range map[int]bool{-1: true, 0: false, 1: false, MaxBandwidthGroups: false, MaxBandwidthGroups + 1: true} {
		err := collect(func(bad report) { (&NodeMemoryBandwidth{Groups: groups}).check("node.memoryBandwidth.", bad) })
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), "node.memoryBandwidth.groups") {
			t.Errorf("%d groups: %v", groups, err)
		}
		c.Node.MemoryBandwidth.Groups = groups
		if (Validate(c) != nil) != refused {
			t.Errorf("a configuration with %d groups: %v", groups, Validate(c))
		}
	}
}
