package census

import (
	"maps"

	"hilbert.dev/hilbert/cluster/facts"
)

// Images says which nodes have which container images, and how many nodes there are.
type Images struct {
	byName map[string]imageCount
	nodes  int
}

// imageCount is how many nodes have an image, and the greatest size that one of them gave.
type imageCount struct {
	nodes int32
	size  int64
}

// NewImages returns none.
func NewImages() Images { return Images{byName: make(map[string]imageCount)} }

// Clone returns a copy.
func (m *Images) Clone() Images { return Images{maps.Clone(m.byName), m.nodes} }

// Nodes is the number of nodes, with images or without.
func (m *Images) Nodes() int { return m.nodes }

// With is the number of nodes that have an image, and a size (bytes) that none of them exceeds.
func (m *Images) With(name string) (nodes int32, size int64) {
	known := m.byName[name]
	return known.nodes, known.size
}

// Count counts a node's images in or out; nil is no node.
func (m *Images) Count(node *facts.Node, sign int32) {
	if node == nil {
		return
	}
	m.nodes += int(sign)
	for i := range node.Images {
		name := node.Images[i].Name
		known := m.byName[name]
		known.nodes += sign
		known.size = max(known.size, node.Images[i].Size)
		if known.nodes > 0 {
			m.byName[name] = known
		} else {
			delete(m.byName, name)
		}
	}
}
