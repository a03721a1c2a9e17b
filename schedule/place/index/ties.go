package index

import (
	"hash/fnv"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
)

// ties orders nodes of equal score: by a hash of a seed and the node's name, so that the order depends neither on slots nor on the order of
// events. A hash is computed once for each node.
type ties struct {
	seed   uint64
	hashes []uint32 // by slot
	nodes  []*facts.Node
}

// of returns the hash of the node in a slot.
func (t *ties) of(s *cluster.Snapshot, slot cluster.Slot) uint32 {
	for len(t.hashes) <= int(slot) {
		t.hashes = append(t.hashes, 0)
		t.nodes = append(t.nodes, nil)
	}
	if node := s.Node(slot); t.nodes[slot] != node {
		t.hashes[slot] = tieHash(t.seed, node.Name)
		t.nodes[slot] = node
	}
	return t.hashes[slot]
}

func tieHash(seed uint64, name string) uint32 {
	h := fnv.New64a()
	var prefix [8]byte
	for i := range prefix {
		prefix[i] = byte(seed >> (8 * i))
	}
	_, _ = h.Write(prefix[:]) // a hash never fails
	_, _ = h.Write([]byte(name))
	sum := h.Sum64()
	sum ^= sum >> 33 // FNV's upper bits mix poorly for short names
	sum *= 0xff51afd7ed558ccd
	return uint32(sum >> 32)
}
