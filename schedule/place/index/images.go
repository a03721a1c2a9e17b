package index

import (
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// imageHolders is the nodes that have a container image, each with the size that it gave. It follows the snapshot's log from its own cursor.
type imageHolders struct {
	name     string
	cursor   changes.Revision
	built    bool
	lastUsed uint64
	slots    []cluster.Slot
	sizes    []int64
	at       map[cluster.Slot]int32
}

// maxImages bounds the images whose holders are listed.
const maxImages = 1024

// imageHolders returns those of an image, up to date with the snapshot.
func (ix *Index) imageHolders(name string) *imageHolders {
	h := ix.images[name]
	if h == nil {
		if len(ix.images) >= maxImages {
			delete(ix.images, leastRecent(ix.images, func(h *imageHolders) uint64 { return h.lastUsed }).name)
		}
		h = &imageHolders{name: name, at: make(map[cluster.Slot]int32)}
		ix.images[name] = h
	}
	h.lastUsed = ix.uses
	h.follow(&ix.snapshot.State)
	return h
}

func (h *imageHolders) follow(s *cluster.State) {
	log := s.Log()
	if !h.built || !log.Covers(h.cursor) {
		h.slots, h.sizes, h.built = h.slots[:0], h.sizes[:0], true
		clear(h.at)
		for i := range s.Slots() {
			h.update(s, cluster.Slot(i))
		}
		h.cursor = log.Len()
		return
	}
	for ; h.cursor < log.Len(); h.cursor++ {
		if change := log.At(h.cursor); change.Kind&(changes.Redefined|changes.Reimaged) != 0 {
			h.update(s, change.Slot)
		}
	}
}

func (h *imageHolders) update(s *cluster.State, slot cluster.Slot) {
	var size int64
	has := false
	if node := s.Node(slot); node != nil {
		size, has = rules.ImageSize(node, h.name)
	}
	at, had := h.at[slot]
	switch {
	case has && had:
		h.sizes[at] = size
	case has:
		h.at[slot] = int32(len(h.slots))
		h.slots, h.sizes = append(h.slots, slot), append(h.sizes, size)
	case had:
		last := len(h.slots) - 1
		h.slots[at], h.sizes[at] = h.slots[last], h.sizes[last]
		h.at[h.slots[at]] = at
		h.slots, h.sizes = h.slots[:last], h.sizes[:last]
		delete(h.at, slot)
	}
}

// sumImages lists the nodes whose images add to the class's score, and marks them. An image only adds to the score of its holders and changes
// nobody else's, so that they are looked at beside the best of all nodes without images.
func (ix *Index) sumImages(c *cluster.Class) {
	ix.holding = ix.holding[:0]
	if !ix.imagesMatter(c) {
		return
	}
	s := &ix.snapshot.State
	for len(ix.imageIn) < s.Slots() {
		ix.imageIn, ix.imageSum = append(ix.imageIn, 0), append(ix.imageSum, 0)
	}
	for _, name := range c.Images {
		nodes, _ := s.Images().With(name)
		share := float64(nodes) / float64(s.Images().Nodes())
		h := ix.imageHolders(name)
		for i, slot := range h.slots {
			if ix.imageIn[slot] != ix.decision {
				ix.imageIn[slot], ix.imageSum[slot] = ix.decision, 0
				ix.holding = append(ix.holding, slot)
			}
			ix.imageSum[slot] += int64(float64(h.sizes[i]) * share)
		}
	}
}

// hasImages reports whether a node was listed by sumImages in this decision.
func (ix *Index) hasImages(slot cluster.Slot) bool {
	return len(ix.holding) > 0 && ix.imageIn[slot] == ix.decision
}

// imageScore is the raw value of a node's images.
func (ix *Index) imageScore(slot cluster.Slot, c *cluster.Class) int64 {
	if !ix.hasImages(slot) {
		return 0
	}
	return rules.ImagesScore(ix.imageSum[slot], len(c.Images))
}
