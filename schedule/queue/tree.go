package queue

import (
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/internal/heap"
	"hilbert.dev/hilbert/resource"
)

// node is a place in the tree: a queue, the units directly in an inner queue, or one namespace of a leaf that shares fairly.
type node struct {
	queue  *quota.Queue // whose units, or whose children's, they are
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

// tree orders the units that are ready: the next unit of the whole is the unit that the root would give out. Each node knows the unit that it would
// give out, so a change in one shape queue moves one entry in each node above it, as far up as the order changes.
//
// The tree has one node per configured queue, and below a leaf that shares fairly one per namespace. An inner queue that namespaces feed directly has
// one more child for their units.
//
// Example: queue ml has children train (weight 3) and serve (weight 1), with policy Fair between them. train uses 6 % of the cluster and serve 3 %.
// Their shares are 6/3 = 2 and 3/1 = 3, so ml gives out what train would give out.
//
// The tree is rebuilt when the configured queues change. Shares are updated one by one, for the queues that the ledger reports as changed.
type tree struct {
	store *cluster.Store
	now   time.Time // of the latest Expire

	root         *node
	nodes        map[*quota.Queue]*node
	leaves       map[*quota.Queue]*node // that the units of a queue wait in
	lastLeaf     *node                  // the leaf that was asked for last
	withHistory  []*node                // whose children's histories count
	capacity     []int64                // of the cluster by kind, while usesCapacity
	usesCapacity bool                   // some order is relative to the capacity
	unordered    bool                   // no queues were configured when the tree was rebuilt
	generation   uint64                 // how often the tree was rebuilt
}

// compares reports whether the nodes below have shares that are compared.
func (n *node) compares() bool { return n.policy.byShare && (len(n.children) > 1 || n.tenants != nil) }

// tenantChanged updates the share of a namespace that holds more or less than before.
func (t *tree) tenantChanged(tenant *quota.Tenant) {
	leaf := t.leaves[tenant.Queue()]
	if leaf == nil {
		return
	}
	if _, own := leaf.account.(ownAccount); own {
		t.reposition(leaf)
	}
	if n := leaf.tenants[tenant.Namespace]; n != nil {
		n.account = tenantAccount{tenant}
		t.reposition(n)
	}
}

// readCapacity reads the cluster's capacity and reports whether it has changed, if that matters to any order.
func (t *tree) readCapacity() (changed bool) {
	if !t.usesCapacity {
		return false
	}
	for len(t.capacity) < t.store.Kinds() {
		t.capacity = append(t.capacity, 0)
	}
	for kind, was := range t.capacity {
		if is := t.store.Quota().Capacity(resource.Kind(kind)); is != was {
			t.capacity[kind] = is
			changed = true
		}
	}
	return changed
}

// reorder works out the shares of all nodes below, and their order.
func (n *node) reorder(t *tree) {
	if n.shapeQueues != nil {
		if n.policy.bySize {
			n.shapeQueues = reheap(n.shapeQueues, heap.New(n.policy.shapeQueues(), setShapeQueue))
		}
	} else {
		for _, child := range n.children {
			child.reorder(t)
			t.updateShare(child)
		}
		for _, child := range n.tenants {
			child.reorder(t)
			t.updateShare(child)
		}
		n.ready = reheap(n.ready, heap.New(n.policy.nodes, setNode))
	}
	n.first = n.head()
}

func setNode(n *node, i int) { n.position = i }

// reheap moves the items of a heap whose order is out of date into another.
func reheap[T any](from, to *heap.Heap[T]) *heap.Heap[T] {
	for i := range from.Len() {
		to.Push(from.At(i))
	}
	return to
}

// updateShare works out the share of a node and reports whether it has changed.
func (t *tree) updateShare(n *node) (changed bool) {
	p := n.parent
	if p == nil || !p.compares() {
		return false
	}
	s := shareOf(n.account, t.capacity)
	if p.policy.byHistory {
		n.history.settle(t.now, p.halfLife)
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
func (t *tree) reposition(n *node) {
	if t.updateShare(n) && n.position >= 0 {
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

// reordered tells the nodes above that a unit comes earlier or later than before. Where it is still the first of a node, propagate sees no change, though the
// node may have another place among its siblings.
func (n *node) reordered(u *Unit) {
	for ; n.parent != nil && n.first == u; n = n.parent {
		n.parent.ready.Fix(n.position)
		n.parent.propagate()
	}
}

// countPending counts units and pods that wait in the node and all above.
func (n *node) countPending(units, pods int) {
	for ; n != nil; n = n.parent {
		n.units += units
		n.pods += pods
	}
}

// addTenant makes the node of a namespace in a leaf that shares fairly.
func (t *tree) addTenant(leaf *node, tenant *quota.Tenant) *node {
	n := &node{queue: leaf.queue, name: tenant.Namespace, parent: leaf, policy: leaf.policy, account: tenantAccount{tenant}, position: -1}
	n.history.at = t.now
	t.addShapeQueues(n)
	leaf.tenants[n.name] = n
	t.updateShare(n)
	return n
}

// idle reports whether no unit waits in a node's shape queues.
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

// leaf returns the node in which the units of a queue wait; nil if the queue is not in the tree.
func (t *tree) leaf(of *quota.Queue) *node {
	if t.lastLeaf != nil && t.lastLeaf.queue == of {
		return t.lastLeaf
	}
	n := t.leaves[of]
	if n != nil {
		t.lastLeaf = n
	}
	return n
}

// adopt adds a leaf for a queue that is not configured any more, because a pod's record has outlived it.
func (t *tree) adopt(queue *quota.Queue) *node {
	n := t.addNode(queue, t.root)
	t.root.children = append(t.root.children, n)
	t.lastLeaf = n
	return n
}

// nodeOf returns the node in whose shape queues a unit waits: its leaf, or the node of its namespace below that.
func (t *tree) nodeOf(u *Unit, queues *shapeQueues) *node {
	leaf := u.leaf
	if leaf.tenants == nil {
		return leaf
	}
	if n := leaf.tenants[u.namespace()]; n != nil {
		return n
	}
	t.pruneTenants(leaf, queues)
	return t.addTenant(leaf, u.sample().Tenant())
}

// pruneTenants forgets the namespaces of a leaf that hold nothing and have no units, when there are many of them.
func (t *tree) pruneTenants(leaf *node, queues *shapeQueues) {
	if len(leaf.tenants) <= 2*len(leaf.queue.Tenants())+16 {
		return
	}
	live := make(map[string]bool)
	for _, tenant := range leaf.queue.Tenants() {
		live[tenant.Namespace] = true
	}
	for namespace, n := range leaf.tenants {
		n.history.settle(t.now, leaf.halfLife)
		if live[namespace] || !n.idle() || n.history.average > 1e-9 {
			continue
		}
		n.eachShapeQueue(queues.forget)
		delete(leaf.tenants, namespace)
	}
}
