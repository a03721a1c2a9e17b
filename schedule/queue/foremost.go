package queue

import "slices"

// Foremost returns the line whose first unit's turn comes first, if these lines alone had units: the one that the tree would give out. nil
// for none; lines without units are passed over. It costs O(lines · depth of the tree).
func (q *Queue) Foremost(lines []*Line) *Line {
	q.sync()
	var ways []way
	for _, l := range lines {
		if l.units.Len() == 0 {
			continue
		}
		w := way{line: l}
		for n := l.node; n != nil; n = n.parent {
			w.nodes = append(w.nodes, n)
		}
		slices.Reverse(w.nodes)
		ways = append(ways, w)
	}
	if len(ways) == 0 {
		return nil
	}
	return foremost(ways, 0)
}

// way is a line with the nodes from the root down to the one that it waits in.
type way struct {
	line  *Line
	nodes []*node
}

// foremost chooses among lines that are all below one node, which stands at a depth of their ways.
func foremost(ways []way, depth int) *Line {
	n := ways[0].nodes[depth]
	if n.lines != nil {
		best := ways[0].line
		for _, w := range ways[1:] {
			if n.policy.units(w.line.units.First(), best.units.First()) {
				best = w.line
			}
		}
		return best
	}
	below := make(map[*node][]way)
	var children []*node // in the order of the lines, so that nothing depends on the map
	for _, w := range ways {
		child := w.nodes[depth+1]
		if below[child] == nil {
			children = append(children, child)
		}
		below[child] = append(below[child], w)
	}
	var best *Line
	var of *node
	for _, child := range children {
		if n.policy.shares && of != nil && !lacking(child, of) {
			continue // whoever is below it has to wait
		}
		l := foremost(below[child], depth+1)
		if best == nil || n.policy.shares || n.policy.units(l.units.First(), best.units.First()) {
			best, of = l, child
		}
	}
	return best
}

// Plants counts how often the tree has been planted anew. Lines of before mean nothing then.
func (q *Queue) Plants() uint64 {
	q.sync()
	return q.plants
}
