package queue

import (
	"cmp"
	"slices"
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/internal/heap"
)

// rebuild builds the tree anew from the ledger's and puts every unit in its place. Shape queues stay parked if all units that were in their queue
// before slept; whoever waits for a limit is tried again.
func (q *Queue) rebuild() {
	q.generation++
	before := q.nodes
	histories := q.histories()
	q.nodes, q.leaves, q.lastLeaf = make(map[*quota.Queue]*node, len(before)), make(map[*quota.Queue]*node, len(before)), nil
	q.usesCapacity, q.withHistory, q.unordered = false, nil, !q.store.Quota().Configured()
	q.root = q.addNode(q.store.Quota().Root(), nil)
	q.readCapacity()
	q.restoreHistories(histories)
	q.shapes.each(func(s *Shape) {
		s.shapeQueues = 0
		s.measure(q.capacity)
	})
	q.root.reorder(q)
	for _, sq := range q.parked {
		sq.parked = false
		sq.wasParked = true
	}
	clear(q.parked)
	q.parked = q.parked[:0]
	clear(q.blocked)
	q.recheck, q.idle, q.activeUnits, q.parkedUnits, q.blockedUnits = nil, idleList{}, 0, 0, 0
	var moved []*ShapeQueue
	for _, u := range q.byArrival() {
		moved = q.reinsert(u, moved)
	}
	for _, sq := range moved {
		if sq.wasParked && !sq.wasReady {
			q.park(sq, sq.checked)
		}
		sq.wasParked, sq.wasReady, sq.listed = false, false, false
	}
	q.shapes.each(func(s *Shape) {
		if s.shapeQueues == 0 {
			q.shapes.forget(s)
		}
	})
}

// byArrival lists all units by their arrival: what the heaps of the shape queues look like inside, which EachAlike shows, must not depend on a map.
func (q *Queue) byArrival() []*Unit {
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

// addNode makes the node of a queue and of those below it.
func (q *Queue) addNode(from *quota.Queue, parent *node) *node {
	n := &node{queue: from, name: from.Name, parent: parent, policy: &policies[from.Sort()], account: from, position: -1}
	q.nodes[from] = n
	if from.Facts != nil {
		n.halfLife = from.Facts.HalfLife
	}
	if len(from.Children()) == 0 && parent != nil {
		q.makeLeaf(n)
		q.leaves[from] = n
		return n
	}
	n.ready = heap.New(n.policy.nodes, setNode)
	for _, child := range from.Children() {
		n.children = append(n.children, q.addNode(child, n))
	}
	if parent != nil { // nothing feeds the root
		own := &node{queue: from, parent: n, policy: n.policy, account: ownAccount{from}, halfLife: n.halfLife, position: -1}
		if from.Facts == nil || from.Facts.Sort == facts.SortDefault {
			own.policy = &policies[facts.PriorityFIFO] // Fair is between queues only, where nobody has said
		}
		q.makeLeaf(own)
		q.leaves[from] = own
		n.children = append(n.children, own)
	}
	q.noteOrder(n)
	return n
}

// makeLeaf makes a node one that units wait in: in its own shape queues, or in those of their namespaces.
func (q *Queue) makeLeaf(n *node) {
	if !n.policy.byShare {
		q.addShapeQueues(n)
		return
	}
	n.tenants = make(map[string]*node)
	n.ready = heap.New(n.policy.nodes, setNode)
	q.noteOrder(n)
}

// addShapeQueues gives a node shape queues.
func (q *Queue) addShapeQueues(n *node) {
	n.shapeQueues = heap.New(n.policy.shapeQueues(), setShapeQueue)
	n.singles, n.gangs = make(map[*cluster.Class]*ShapeQueue), make(map[*Shape]*ShapeQueue)
	q.noteOrder(n)
}

// noteOrder takes noteOrder of what a node's order depends on.
func (q *Queue) noteOrder(n *node) {
	q.usesCapacity = q.usesCapacity || n.compares() || n.policy.bySize
	if n.shapeQueues == nil && n.compares() && n.policy.byHistory && n.halfLife > 0 {
		q.withHistory = append(q.withHistory, n)
	}
}

// shapeQueues is the order of the shapeQueues under a policy: that of their first units.
func (p *policy) shapeQueues() func(a, b *ShapeQueue) bool {
	return func(a, b *ShapeQueue) bool { return p.units(a.units.First(), b.units.First()) }
}

// reinsert puts a unit where it belongs in the new tree, and its shape queue, once, on the list of those that may have to be parked.
func (q *Queue) reinsert(u *Unit, moved []*ShapeQueue) []*ShapeQueue {
	from, was := u.shapeQueue, u.leaf
	u.leaf, u.trialOf, u.shapeQueue, u.refused = q.leafOf(u.sample()), nil, nil, false
	u.leaf.countPending(1, u.waiting())
	if u.location != inShapeQueue && u.location != inQuotaBlock {
		return moved
	}
	wasBlocked := u.location == inQuotaBlock
	q.enqueue(u)
	if wasBlocked || was.queue != u.leaf.queue {
		return moved
	}
	sq := u.shapeQueue
	switch {
	case !from.wasParked:
		sq.wasReady = true
	case !sq.wasParked || from.checked.Revision < sq.checked.Revision:
		sq.wasParked, sq.checked = true, from.checked
	}
	if sq.listed {
		return moved
	}
	sq.listed = true
	return append(moved, sq)
}

// historyKey names a node whose history outlives the tree.
type historyKey struct {
	queue     string
	own       bool
	namespace string
}

func (n *node) key() historyKey {
	_, own := n.account.(ownAccount)
	return historyKey{queue: n.queue.Name, own: own}
}

// histories collects the histories.
func (q *Queue) histories() map[historyKey]usageHistory {
	all := make(map[historyKey]usageHistory)
	for _, n := range q.withHistory {
		for _, child := range n.children {
			child.history.settle(q.now, n.halfLife)
			all[child.key()] = child.history
		}
		for namespace, child := range n.tenants {
			child.history.settle(q.now, n.halfLife)
			all[historyKey{queue: n.queue.Name, namespace: namespace}] = child.history
		}
	}
	return all
}

// restoreHistories gives the nodes of the new tree their histories.
func (q *Queue) restoreHistories(histories map[historyKey]usageHistory) {
	for _, n := range q.nodes {
		q.restoreHistory(n, histories)
	}
	for _, n := range q.leaves {
		q.restoreHistory(n, histories)
	}
	for key, history := range histories {
		if key.namespace == "" || history.average == 0 {
			continue
		}
		q.restoreTenant(key, history)
	}
}

func (q *Queue) restoreHistory(n *node, histories map[historyKey]usageHistory) {
	n.history = histories[n.key()]
	n.history.at = q.now
}

// restoreTenant makes the node of a namespace that has used much lately, though nothing of it may wait now.
func (q *Queue) restoreTenant(key historyKey, history usageHistory) {
	queue := q.store.Quota().Queue(key.queue)
	if queue == nil || q.leaves[queue] == nil || q.leaves[queue].tenants == nil {
		return
	}
	for _, t := range queue.Tenants() {
		if t.Namespace == key.namespace {
			q.addTenant(q.leaves[queue], t).history = history
		}
	}
}

// startEpochs counts the histories anew where an epoch has ended.
func (q *Queue) startEpochs(now time.Time) {
	for _, n := range q.withHistory {
		epoch := now.UnixNano() / max(n.halfLife/epochs, 1)
		if epoch == n.epoch {
			continue
		}
		n.epoch = epoch
		for _, child := range n.children {
			q.countHistory(child, n)
		}
		for _, child := range n.tenants {
			q.countHistory(child, n)
		}
		n.ready = reheap(n.ready, heap.New(n.policy.nodes, setNode))
		n.propagate()
	}
}

func (q *Queue) countHistory(child, parent *node) {
	child.history.settle(q.now, parent.halfLife)
	child.history.counted = child.history.average
	q.updateShare(child)
}
