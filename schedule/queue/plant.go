package queue

import (
	"cmp"
	"slices"
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/internal/heap"
)

// plant builds the tree anew from the ledger's and puts every unit in its place. Lines sleep on if all units that were in their queue
// before slept; whoever waits for a limit is tried again.
func (q *Queue) plant() {
	q.plants++
	before := q.nodes
	pasts := q.pasts()
	q.nodes, q.leaves, q.latest = make(map[*cluster.Queue]*node, len(before)), make(map[*cluster.Queue]*node, len(before)), nil
	q.sized, q.historic, q.simple = false, nil, !q.store.Queued()
	q.root = q.grow(q.store.Root(), nil)
	q.measure()
	q.restore(pasts)
	q.shapes.each(func(s *Shape) {
		s.lines = 0
		s.measure(q.capacity)
	})
	q.root.reorder(q)
	for _, l := range q.parked {
		l.parked = false
		l.slept = true
	}
	clear(q.parked)
	q.parked = q.parked[:0]
	clear(q.jams)
	q.lapsed, q.idle, q.active, q.sleeping, q.jammed = nil, idleLines{}, 0, 0, 0
	var moved []*Line
	for _, u := range q.arrived() {
		moved = q.replant(u, moved)
	}
	for _, l := range moved {
		if l.slept && !l.woke {
			q.park(l, l.seen)
		}
		l.slept, l.woke, l.moved = false, false, false
	}
	q.shapes.each(func(s *Shape) {
		if s.lines == 0 {
			q.shapes.forget(s)
		}
	})
}

// arrived lists all units by their arrival: what the heaps of the lines look like inside, which EachWaiting shows, must not depend on a map.
func (q *Queue) arrived() []*Unit {
	list := make([]*Unit, 0, len(q.units))
	for _, u := range q.units {
		if u.Gang == nil {
			list = append(list, u)
		}
	}
	for _, u := range q.gangs {
		list = append(list, u)
	}
	slices.SortFunc(list, func(a, b *Unit) int { return cmp.Compare(a.sequence, b.sequence) })
	return list
}

// grow makes the node of a queue and of those below it.
func (q *Queue) grow(from *cluster.Queue, parent *node) *node {
	n := &node{queue: from, name: from.Name, parent: parent, policy: &policies[from.Sort()], account: from, position: -1}
	q.nodes[from] = n
	if from.Facts != nil {
		n.halfLife = from.Facts.HalfLife
	}
	if len(from.Children()) == 0 && parent != nil {
		q.spread(n)
		q.leaves[from] = n
		return n
	}
	n.ready = heap.New(n.policy.nodes, setNode)
	for _, child := range from.Children() {
		n.children = append(n.children, q.grow(child, n))
	}
	if parent != nil { // nothing feeds the root
		own := &node{queue: from, parent: n, policy: n.policy, account: ownAccount{from}, halfLife: n.halfLife, position: -1}
		if from.Facts == nil || from.Facts.Sort == cluster.SortDefault {
			own.policy = &policies[cluster.PriorityFIFO] // Fair is between queues only, where nobody has said
		}
		q.spread(own)
		q.leaves[from] = own
		n.children = append(n.children, own)
	}
	q.note(n)
	return n
}

// spread makes a node one that units wait in: in its own lines, or in those of their namespaces.
func (q *Queue) spread(n *node) {
	if !n.policy.shares {
		q.hold(n)
		return
	}
	n.tenants = make(map[string]*node)
	n.ready = heap.New(n.policy.nodes, setNode)
	q.note(n)
}

// hold gives a node lines.
func (q *Queue) hold(n *node) {
	n.lines = heap.New(n.policy.lines(), setLine)
	n.singles, n.gangs = make(map[*cluster.Class]*Line), make(map[*Shape]*Line)
	q.note(n)
}

// note takes note of what a node's order depends on.
func (q *Queue) note(n *node) {
	q.sized = q.sized || n.compares() || n.policy.sizes
	if n.lines == nil && n.compares() && n.policy.history && n.halfLife > 0 {
		q.historic = append(q.historic, n)
	}
}

// lines is the order of the lines under a policy: that of their first units.
func (p *policy) lines() func(a, b *Line) bool {
	return func(a, b *Line) bool { return p.units(a.units.First(), b.units.First()) }
}

// replant puts a unit where it belongs in the new tree, and its line, once, on the list of those that may have to sleep.
func (q *Queue) replant(u *Unit, moved []*Line) []*Line {
	from, was := u.line, u.home
	u.home, u.probe, u.line, u.refused = q.nodeOf(u.sample()), nil, nil, false
	u.home.add(1, u.pods())
	if u.at != inLine && u.at != inJam {
		return moved
	}
	jammed := u.at == inJam
	q.enter(u)
	if jammed || was.queue != u.home.queue {
		return moved
	}
	l := u.line
	switch {
	case !from.slept:
		l.woke = true
	case !l.slept || from.seen.Revision < l.seen.Revision:
		l.slept, l.seen = true, from.seen
	}
	if l.moved {
		return moved
	}
	l.moved = true
	return append(moved, l)
}

// pastKey names a node whose history outlives the tree.
type pastKey struct {
	queue     string
	own       bool
	namespace string
}

func (n *node) key() pastKey {
	_, own := n.account.(ownAccount)
	return pastKey{queue: n.queue.Name, own: own}
}

// pasts collects the histories.
func (q *Queue) pasts() map[pastKey]history {
	all := make(map[pastKey]history)
	for _, n := range q.historic {
		for _, child := range n.children {
			child.past.settle(q.now, n.halfLife)
			all[child.key()] = child.past
		}
		for namespace, child := range n.tenants {
			child.past.settle(q.now, n.halfLife)
			all[pastKey{queue: n.queue.Name, namespace: namespace}] = child.past
		}
	}
	return all
}

// restore gives the nodes of the new tree their histories.
func (q *Queue) restore(pasts map[pastKey]history) {
	for _, n := range q.nodes {
		q.inherit(n, pasts)
	}
	for _, n := range q.leaves {
		q.inherit(n, pasts)
	}
	for key, past := range pasts {
		if key.namespace == "" || past.average == 0 {
			continue
		}
		q.recall(key, past)
	}
}

func (q *Queue) inherit(n *node, pasts map[pastKey]history) {
	n.past = pasts[n.key()]
	n.past.at = q.now
}

// recall makes the node of a namespace that has used much lately, though nothing of it may wait now.
func (q *Queue) recall(key pastKey, past history) {
	queue := q.store.Queue(key.queue)
	if queue == nil || q.leaves[queue] == nil || q.leaves[queue].tenants == nil {
		return
	}
	for _, t := range queue.Tenants() {
		if t.Namespace == key.namespace {
			q.admit(q.leaves[queue], t).past = past
		}
	}
}

// rollOver counts the histories anew where an epoch has ended.
func (q *Queue) rollOver(now time.Time) {
	for _, n := range q.historic {
		epoch := now.UnixNano() / max(n.halfLife/epochs, 1)
		if epoch == n.epoch {
			continue
		}
		n.epoch = epoch
		for _, child := range n.children {
			q.count(child, n)
		}
		for _, child := range n.tenants {
			q.count(child, n)
		}
		n.ready = refill(n.ready, heap.New(n.policy.nodes, setNode))
		n.climb()
	}
}

func (q *Queue) count(child, parent *node) {
	child.past.settle(q.now, parent.halfLife)
	child.past.counted = child.past.average
	q.settle(child)
}
