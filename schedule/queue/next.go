package queue

import "slices"

// Next returns the shape queue whose first unit's turn comes first, if these shape queues alone had units: the one that the tree would give out. nil
// for none; shape queues without units are passed over. It costs O(shape queues · depth of the tree).
func (q *Queue) Next(queues []*ShapeQueue) *ShapeQueue {
	q.sync()
	var paths []treePath
	for _, sq := range queues {
		if sq.units.Len() == 0 {
			continue
		}
		w := treePath{shapeQueue: sq}
		for n := sq.node; n != nil; n = n.parent {
			w.nodes = append(w.nodes, n)
		}
		slices.Reverse(w.nodes)
		paths = append(paths, w)
	}
	if len(paths) == 0 {
		return nil
	}
	return nextBelow(paths, 0)
}

// treePath is a shape queue with the nodes from the root down to the one that it waits in.
type treePath struct {
	shapeQueue *ShapeQueue
	nodes      []*node
}

// nextBelow chooses among shape queues below one node, which is at this depth of their paths.
func nextBelow(paths []treePath, depth int) *ShapeQueue {
	n := paths[0].nodes[depth]
	if n.shapeQueues != nil {
		best := paths[0].shapeQueue
		for _, p := range paths[1:] {
			if n.policy.units(p.shapeQueue.units.First(), best.units.First()) {
				best = p.shapeQueue
			}
		}
		return best
	}
	below := make(map[*node][]treePath)
	var children []*node // in the order of the shape queues, so that nothing depends on the map
	for _, p := range paths {
		child := p.nodes[depth+1]
		if below[child] == nil {
			children = append(children, child)
		}
		below[child] = append(below[child], p)
	}
	var best *ShapeQueue
	var of *node
	for _, child := range children {
		if n.policy.byShare && of != nil && !lowerShare(child, of) {
			continue // whoever is below it has to wait
		}
		sq := nextBelow(below[child], depth+1)
		if best == nil || n.policy.byShare || n.policy.units(sq.units.First(), best.units.First()) {
			best, of = sq, child
		}
	}
	return best
}
