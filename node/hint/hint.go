package hint

import (
	"math/bits"
	"slices"
)

// Hint is a set of NUMA nodes, by index, that can serve a request together.
type Hint struct {
	NUMANodes uint8
	Preferred bool
}

// Resource is one of those that a pod asks for. Without hints, it does not care.
type Resource struct {
	Name  string
	Hints []Hint
}

// Choice is what was chosen.
type Choice struct {
	// NUMANodes are those of all hints together; 0: no resource cares.
	NUMANodes uint8
	// Hints has one for each resource, in their order; the zero Hint for one that does not care.
	Hints []Hint
	// Preferred is how many resources got a hint that they prefer.
	Preferred int
	// Width is the sum of the NUMA nodes of all hints.
	Width int
}

// better reports whether a goes before b.
func (a *Choice) better(b *Choice) bool {
	switch x, y := bits.OnesCount8(a.NUMANodes), bits.OnesCount8(b.NUMANodes); {
	case a.Preferred != b.Preferred:
		return a.Preferred > b.Preferred
	case x != y:
		return x < y
	case a.Width != b.Width:
		return a.Width < b.Width
	}
	return a.NUMANodes < b.NUMANodes
}

// Merge chooses a hint for each resource from sets of at most most NUMA nodes together; most 0 is any number. False: some resource has hints, and none of them can
// be had so.
//
// For each set of NUMA nodes, each resource takes the best of its hints within the set; so the work is the number of sets (255) times that of hints, and no
// product of the resources' hints is looked at.
func Merge(resources []Resource, most int) (best Choice, ok bool) {
	for set := 1; set <= 0xff; set++ {
		if most > 0 && bits.OnesCount8(uint8(set)) > most {
			continue
		}
		c, holds := within(resources, uint8(set))
		if holds && (!ok || c.better(&best)) {
			best, ok = c, true
		}
	}
	return best, ok
}

// within has each resource choose from a set.
func within(resources []Resource, set uint8) (c Choice, ok bool) {
	c.Hints = make([]Hint, len(resources))
	for i := range resources {
		if len(resources[i].Hints) == 0 {
			continue
		}
		h, found := narrowest(resources[i].Hints, set)
		if !found {
			return c, false
		}
		c.Hints[i] = h
		c.NUMANodes |= h.NUMANodes
		c.Width += bits.OnesCount8(h.NUMANodes)
		if h.Preferred {
			c.Preferred++
		}
	}
	return c, true
}

// Prefer makes the hint of a set of NUMA nodes the only one that is preferred, if there is one: what was promised is preferred. 0 is no set.
func Prefer(hints []Hint, set uint8) []Hint {
	at := slices.IndexFunc(hints, func(h Hint) bool { return h.NUMANodes == set })
	if set == 0 || at < 0 {
		return hints
	}
	out := make([]Hint, len(hints))
	for i := range hints {
		out[i] = Hint{NUMANodes: hints[i].NUMANodes, Preferred: i == at}
	}
	return out
}

// narrowest is a resource's best hint within a set: a preferred one, then one with few NUMA nodes, then the lowest.
func narrowest(hints []Hint, set uint8) (best Hint, ok bool) {
	for _, h := range hints {
		if h.NUMANodes == 0 || h.NUMANodes&^set != 0 {
			continue
		}
		if x, y := bits.OnesCount8(h.NUMANodes), bits.OnesCount8(best.NUMANodes); !ok || h.Preferred && !best.Preferred ||
			h.Preferred == best.Preferred && (x < y || x == y && h.NUMANodes < best.NUMANodes) {
			best, ok = h, true
		}
	}
	return best, ok
}
