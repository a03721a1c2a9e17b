package packing

import (
	"slices"

	"hilbert.dev/hilbert/schedule/fragment"
	"hilbert.dev/hilbert/topology"
)

// looks numbers what nodes look like: nodes that are equal have one look, and one score for a kind of pod. Most nodes have a double, since they
// are bought by the rack and filled by few kinds. A number is used again when no node looks so any more; there are never more than nodes.
//
// What a node has free is not all of its look where a policy scores by the shares that are in use: half of a large node is not a whole small one.
type looks struct {
	numbers map[lookKey]int32
	wholes  []amounts // by node: what it has when it is empty, where that counts
	of      []int32   // by node
	members [][]int32 // by look: its nodes in order; none: the number is free
	rough   []rough   // by look
	free    []int32
	models  map[string]int

	log  []int32 // looks in the order in which they came and went
	last []int   // by look: where in the log it is last
}

// lookKey is what nodes of one number have in common.
type lookKey struct {
	free  fragment.Node
	whole amounts
}

// amounts are CPU and memory.
type amounts struct{ cpu, memory int64 }

// wholesOf are what nodes have that are empty.
func wholesOf(nodes []fragment.Node) []amounts {
	list := make([]amounts, len(nodes))
	for i := range nodes {
		list[i] = amounts{nodes[i].CPU, nodes[i].Memory}
	}
	return list
}

// rough is enough of a look to see, mostly, that a kind of pod does not fit: nine in ten looks are passed over so, without a look at the node.
type rough struct {
	cpu, memory int64
	models      uint64 // of one bit, for the model
	milli       int32  // the most that a GPU has free
}

// roughKind is the same of a kind of pod.
type roughKind rough

// lacks reports that the kind does not fit. What it does not see, Node.Fits does.
func (r *rough) lacks(k *roughKind) bool {
	return r.cpu < k.cpu || r.memory < k.memory || r.milli < k.milli || r.models&k.models == 0
}

func (l *looks) roughOf(n *fragment.Node) rough {
	r := rough{cpu: n.CPU, memory: n.Memory, models: 1 << l.model(n.Shape.Model)}
	for _, free := range n.Free[:n.Shape.GPUs] {
		r.milli = max(r.milli, free)
	}
	return r
}

// roughKinds is asked for when all nodes are known, so that all models are.
func (l *looks) roughKinds(kinds []fragment.Request) []roughKind {
	list := make([]roughKind, len(kinds))
	for i := range kinds {
		k := &kinds[i]
		list[i] = roughKind{cpu: k.CPU, memory: k.Memory, milli: int32(min(k.GPU.Total(), topology.FullGPU))}
		for model, number := range l.models {
			if k.GPU.IsZero() || k.Models.Allows(model) {
				list[i].models |= 1 << number
			}
		}
	}
	return list
}

// model numbers a model. All beyond some are one.
func (l *looks) model(name string) int {
	number, known := l.models[name]
	if !known {
		number = min(len(l.models), 63)
		l.models[name] = number
	}
	return number
}

// newLooks takes nodes that are empty. byShares: what they have in all counts too.
func newLooks(nodes []fragment.Node, byShares bool) *looks {
	l := &looks{numbers: make(map[lookKey]int32), wholes: make([]amounts, len(nodes)), of: make([]int32, len(nodes)), models: make(map[string]int)}
	if byShares {
		l.wholes = wholesOf(nodes)
	}
	for i := range nodes {
		l.join(i, &nodes[i])
	}
	return l
}

// count is how many numbers there are, with those that are free.
func (l *looks) count() int { return len(l.members) }

// first is the first node of a look; ok is false where no node looks so.
func (l *looks) first(look int) (node int, ok bool) {
	if m := l.members[look]; len(m) > 0 {
		return int(m[0]), true
	}
	return 0, false
}

// changed takes in that a node is not what it was.
func (l *looks) changed(i int, before, after *fragment.Node) {
	look := l.of[i]
	m := l.members[look]
	if m[0] == int32(i) && len(m) > blockSize { // without moving all the others; a short list keeps its memory
		m = m[1:]
	} else {
		at, _ := slices.BinarySearch(m, int32(i))
		m = slices.Delete(m, at, at+1)
	}
	l.members[look] = m
	if len(m) == 0 {
		delete(l.numbers, lookKey{*before, l.wholes[i]})
		l.free = append(l.free, look)
		l.note(look)
	}
	l.join(i, after)
}

// join gives a node the number of its look.
func (l *looks) join(i int, n *fragment.Node) {
	key := lookKey{*n, l.wholes[i]}
	look, known := l.numbers[key]
	if !known {
		if last := len(l.free) - 1; last >= 0 {
			look, l.free = l.free[last], l.free[:last]
		} else {
			look = int32(len(l.members))
			l.members, l.rough, l.last = append(l.members, nil), append(l.rough, rough{}), append(l.last, 0)
		}
		l.rough[look] = l.roughOf(n)
		l.numbers[key] = look
		l.note(look)
	}
	l.of[i] = look
	m := l.members[look]
	at, _ := slices.BinarySearch(m, int32(i))
	l.members[look] = slices.Insert(m, at, int32(i))
}

func (l *looks) note(look int32) {
	l.last[look] = len(l.log)
	l.log = append(l.log, look)
}
