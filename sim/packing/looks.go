package packing

import "hilbert.dev/hilbert/schedule/fragment"

// looks numbers what nodes look like: nodes that are equal have one number, and one score for a kind of pod. Most nodes have a double, since they
// are bought by the rack and filled by few kinds.
type looks struct {
	numbers map[fragment.Node]int32
	of      []int32 // by node
}

func newLooks(nodes []fragment.Node) *looks {
	l := &looks{numbers: make(map[fragment.Node]int32), of: make([]int32, len(nodes))}
	l.renumber(nodes)
	return l
}

// most is how many numbers there are at most, those of looks that no node has any more included.
func (l *looks) most() int { return 2*len(l.of) + 1 }

// changed looks at a node again.
func (l *looks) changed(nodes []fragment.Node, i int) {
	if len(l.numbers) == l.most() {
		l.renumber(nodes)
	}
	l.number(i, &nodes[i])
}

// renumber forgets the looks that no node has.
func (l *looks) renumber(nodes []fragment.Node) {
	clear(l.numbers)
	for i := range nodes {
		l.number(i, &nodes[i])
	}
}

func (l *looks) number(i int, n *fragment.Node) {
	number, known := l.numbers[*n]
	if !known {
		number = int32(len(l.numbers))
		l.numbers[*n] = number
	}
	l.of[i] = number
}
