package queue

import (
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/internal/heap"
	"hilbert.dev/hilbert/resource"
)

// node is a place in the tree: a queue, the units that an inner queue has of its own, or one namespace of a leaf that shares fairly.
type node struct {
	queue  *cluster.Queue // whose units, or whose children's, they are
	name   string
	parent *node
	policy *policy
	// account is what its share is worked out of; nil for the root.
	account account

	// Of a node with others below it. ready are those of them that have a unit to give out.
	children []*node
	tenants  map[string]*node // by namespace, of a leaf that shares fairly
	ready    *heap.Heap[*node]
	halfLife int64 // nanoseconds, of a history
	epoch    int64 // how many epochs have passed; as of when the children's histories are counted

	// Of a node that units wait in.
	shapeQueues *heap.Heap[*ShapeQueue]
	singles     map[*cluster.Class]*ShapeQueue
	gangs       map[*Shape]*ShapeQueue

	first    *Unit // that it would give out, nil for none
	share    share
	history  usageHistory
	position int // among the parent's ready ones, -1 when it has nothing to give out
	units    int // that wait in it and below, however they do
	pods     int
}

// compares reports whether the nodes below have shares that are compared.
func (n *node) compares() bool { return n.policy.byShare && (len(n.children) > 1 || n.tenants != nil) }

// sync takes in what has changed in the ledger: the tree, what queues and namespaces hold, and the cluster's capacity.
func (q *Queue) sync() {
	if q.unordered && !q.store.Queued() {
		// One queue without a limit: nothing depends on what it holds. The ledger's list is emptied now and then, so that it does not grow
		// with the namespaces that come and go.
		if q.skippedSyncs++; q.skippedSyncs%4096 != 0 {
			return
		}
	}
	q.applyChanges(q.store.ChangedQueues())
}

func (q *Queue) applyChanges(queues []*cluster.Queue, tenants []*cluster.Tenant, rebuilt bool) {
	if rebuilt {
		q.rebuild()
		return
	}
	if q.readCapacity() {
		q.capacityChanged()
	}
	for _, t := range tenants {
		q.tenantChanged(t)
	}
	for _, changed := range queues {
		if n := q.nodes[changed]; n != nil {
			q.reposition(n)
		}
		for _, block := range slices.Clone(q.blocked[changed]) {
			q.wakeFitting(block)
		}
	}
	q.recheckBlocks()
}

// tenantChanged takes note that a namespace holds more or less than before.
func (q *Queue) tenantChanged(t *cluster.Tenant) {
	leaf := q.leaves[t.Queue()]
	if leaf == nil {
		return
	}
	if _, own := leaf.account.(ownAccount); own {
		q.reposition(leaf)
	}
	if n := leaf.tenants[t.Namespace]; n != nil {
		n.account = tenantAccount{t}
		q.reposition(n)
	}
}

// readCapacity reads the cluster's capacity and reports whether it has changed, if that matters to any order.
func (q *Queue) readCapacity() (changed bool) {
	if !q.usesCapacity {
		return false
	}
	for len(q.capacity) < q.store.Kinds() {
		q.capacity = append(q.capacity, 0)
	}
	for kind, was := range q.capacity {
		if is := q.store.Capacity(resource.Kind(kind)); is != was {
			q.capacity[kind] = is
			changed = true
		}
	}
	return changed
}

// capacityChanged works out anew all that is relative to the capacity.
func (q *Queue) capacityChanged() {
	q.shapes.each(func(s *Shape) { s.measure(q.capacity) })
	q.root.reorder(q)
}

// reorder works out the shares of all nodes below, and their order.
func (n *node) reorder(q *Queue) {
	if n.shapeQueues != nil {
		if n.policy.bySize {
			n.shapeQueues = reheap(n.shapeQueues, heap.New(n.policy.shapeQueues(), setShapeQueue))
		}
	} else {
		for _, child := range n.children {
			child.reorder(q)
			q.updateShare(child)
		}
		for _, child := range n.tenants {
			child.reorder(q)
			q.updateShare(child)
		}
		n.ready = reheap(n.ready, heap.New(n.policy.nodes, setNode))
	}
	n.first = n.head()
}

// reheap moves the items of a heap whose order is out of date into another.
func reheap[T any](from, to *heap.Heap[T]) *heap.Heap[T] {
	for i := range from.Len() {
		to.Push(from.At(i))
	}
	return to
}

// updateShare works out the share of a node and reports whether it has changed.
func (q *Queue) updateShare(n *node) (changed bool) {
	p := n.parent
	if p == nil || !p.compares() {
		return false
	}
	s := shareOf(n.account, q.capacity)
	if p.policy.byHistory {
		n.history.settle(q.now, p.halfLife)
		n.history.current = 0
		if s.aboveGuarantee {
			n.history.current = max(s.value, 0)
			s.value += n.history.counted
		}
	}
	changed = s != n.share
	n.share = s
	return changed
}

// reposition moves a node to where its share puts it.
func (q *Queue) reposition(n *node) {
	if q.updateShare(n) && n.position >= 0 {
		n.parent.ready.Fix(n.position)
		n.parent.propagate()
	}
}

// head is the unit that the node would give out.
func (n *node) head() *Unit {
	switch {
	case n.shapeQueues == nil:
		if n.ready.Len() > 0 {
			return n.ready.First().first
		}
	case n.shapeQueues.Len() > 0:
		return n.shapeQueues.First().units.First()
	}
	return nil
}

// propagate tells the nodes above that the order in this one has changed, as far up as it matters.
func (n *node) propagate() {
	for ; n != nil; n = n.parent {
		first := n.head()
		if first == n.first {
			return
		}
		n.first = first
		p := n.parent
		switch {
		case p == nil:
		case n.position < 0:
			p.ready.Push(n)
		case first == nil:
			p.ready.Remove(n.position)
		default:
			p.ready.Fix(n.position)
		}
	}
}

// countPending counts units and pods that wait in the node and all above.
func (n *node) countPending(units, pods int) {
	for ; n != nil; n = n.parent {
		n.units += units
		n.pods += pods
	}
}

// leafOf returns the node of the queue that a pod is charged to.
func (q *Queue) leafOf(pod *cluster.Pod) *node {
	at := pod.Queue()
	if q.lastLeaf != nil && q.lastLeaf.queue == at {
		return q.lastLeaf
	}
	n := q.leaves[at]
	if n == nil {
		q.rebuild()
		if n = q.leaves[at]; n == nil { // a record that has outlived its queue
			n = q.addNode(at, q.root)
			q.root.children = append(q.root.children, n)
		}
	}
	q.lastLeaf = n
	return n
}

// nodeOf returns the node whose shape queues a unit waits in.
func (q *Queue) nodeOf(u *Unit) *node {
	leaf := u.leaf
	if leaf.tenants == nil {
		return leaf
	}
	if n := leaf.tenants[u.namespace()]; n != nil {
		return n
	}
	q.pruneTenants(leaf)
	return q.addTenant(leaf, u.sample().Tenant())
}

// addTenant makes the node of a namespace in a leaf that shares fairly.
func (q *Queue) addTenant(leaf *node, tenant *cluster.Tenant) *node {
	n := &node{queue: leaf.queue, name: tenant.Namespace, parent: leaf, policy: leaf.policy, account: tenantAccount{tenant}, position: -1}
	n.history.at = q.now
	q.addShapeQueues(n)
	leaf.tenants[n.name] = n
	q.updateShare(n)
	return n
}

// pruneTenants forgets the namespaces of a leaf that hold nothing and wait for nothing, when there are many of them.
func (q *Queue) pruneTenants(leaf *node) {
	if len(leaf.tenants) <= 2*len(leaf.queue.Tenants())+16 {
		return
	}
	live := make(map[string]bool)
	for _, t := range leaf.queue.Tenants() {
		live[t.Namespace] = true
	}
	for namespace, n := range leaf.tenants {
		n.history.settle(q.now, leaf.halfLife)
		if live[namespace] || !n.idle() || n.history.average > 1e-9 {
			continue
		}
		for _, sq := range n.singles {
			q.forget(sq)
		}
		for _, sq := range n.gangs {
			q.forget(sq)
		}
		delete(leaf.tenants, namespace)
	}
}

// idle reports whether nobody waits in a node's shape queues.
func (n *node) idle() bool {
	for _, sq := range n.singles {
		if !sq.idle {
			return false
		}
	}
	for _, sq := range n.gangs {
		if !sq.idle {
			return false
		}
	}
	return true
}
