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
	lines   *heap.Heap[*Line]
	singles map[*cluster.Class]*Line
	gangs   map[*Shape]*Line

	first    *Unit // that it would give out, nil for none
	share    share
	past     history
	position int // among the parent's ready ones, -1 when it has nothing to give out
	units    int // that wait in it and below, however they do
	pods     int
}

// compares reports whether the nodes below have shares that are compared.
func (n *node) compares() bool { return n.policy.shares && (len(n.children) > 1 || n.tenants != nil) }

// sync takes in what has changed in the ledger: the tree, what queues and namespaces hold, and the cluster's capacity.
func (q *Queue) sync() {
	if q.simple && !q.store.Queued() {
		// One queue without a limit: nothing depends on what it holds. The ledger's list is emptied now and then, so that it does not grow
		// with the namespaces that come and go.
		if q.skipped++; q.skipped%4096 != 0 {
			return
		}
	}
	q.take(q.store.ChangedQueues())
}

func (q *Queue) take(queues []*cluster.Queue, tenants []*cluster.Tenant, rebuilt bool) {
	if rebuilt {
		q.plant()
		return
	}
	if q.measure() {
		q.resize()
	}
	for _, t := range tenants {
		q.charged(t)
	}
	for _, changed := range queues {
		if n := q.nodes[changed]; n != nil {
			q.rekey(n)
		}
		for _, j := range slices.Clone(q.jams[changed]) {
			q.relieve(j)
		}
	}
	q.relieveLapsed()
}

// charged takes note that a namespace holds more or less than before.
func (q *Queue) charged(t *cluster.Tenant) {
	leaf := q.leaves[t.Queue()]
	if leaf == nil {
		return
	}
	if _, own := leaf.account.(ownAccount); own {
		q.rekey(leaf)
	}
	if n := leaf.tenants[t.Namespace]; n != nil {
		n.account = tenantAccount{t}
		q.rekey(n)
	}
}

// measure reads the cluster's capacity and reports whether it has changed, if that matters to any order.
func (q *Queue) measure() (changed bool) {
	if !q.sized {
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

// resize works out anew all that is relative to the capacity.
func (q *Queue) resize() {
	q.shapes.each(func(s *Shape) { s.measure(q.capacity) })
	q.root.reorder(q)
}

// reorder works out the shares of all nodes below, and their order.
func (n *node) reorder(q *Queue) {
	if n.lines != nil {
		if n.policy.sizes {
			n.lines = refill(n.lines, heap.New(n.policy.lines(), setLine))
		}
	} else {
		for _, child := range n.children {
			child.reorder(q)
			q.settle(child)
		}
		for _, child := range n.tenants {
			child.reorder(q)
			q.settle(child)
		}
		n.ready = refill(n.ready, heap.New(n.policy.nodes, setNode))
	}
	n.first = n.head()
}

// refill moves the items of a heap whose order is out of date into another.
func refill[T any](from, to *heap.Heap[T]) *heap.Heap[T] {
	for i := range from.Len() {
		to.Push(from.At(i))
	}
	return to
}

// settle works out the share of a node and reports whether it has changed.
func (q *Queue) settle(n *node) (changed bool) {
	p := n.parent
	if p == nil || !p.compares() {
		return false
	}
	s := shareOf(n.account, q.capacity)
	if p.policy.history {
		n.past.settle(q.now, p.halfLife)
		n.past.current = 0
		if s.over {
			n.past.current = max(s.value, 0)
			s.value += n.past.counted
		}
	}
	changed = s != n.share
	n.share = s
	return changed
}

// rekey moves a node to where its share puts it.
func (q *Queue) rekey(n *node) {
	if q.settle(n) && n.position >= 0 {
		n.parent.ready.Fix(n.position)
		n.parent.climb()
	}
}

// head is the unit that the node would give out.
func (n *node) head() *Unit {
	switch {
	case n.lines == nil:
		if n.ready.Len() > 0 {
			return n.ready.First().first
		}
	case n.lines.Len() > 0:
		return n.lines.First().units.First()
	}
	return nil
}

// climb tells the nodes above that the order in this one has changed, as far up as it matters.
func (n *node) climb() {
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

// add counts units and pods that wait in the node and all above.
func (n *node) add(units, pods int) {
	for ; n != nil; n = n.parent {
		n.units += units
		n.pods += pods
	}
}

// nodeOf returns the node of the queue that a pod is charged to.
func (q *Queue) nodeOf(pod *cluster.Pod) *node {
	at := pod.Queue()
	if q.latest != nil && q.latest.queue == at {
		return q.latest
	}
	n := q.leaves[at]
	if n == nil {
		q.plant()
		if n = q.leaves[at]; n == nil { // a record that has outlived its queue
			n = q.grow(at, q.root)
			q.root.children = append(q.root.children, n)
		}
	}
	q.latest = n
	return n
}

// seat returns the node whose lines a unit waits in.
func (q *Queue) seat(u *Unit) *node {
	leaf := u.home
	if leaf.tenants == nil {
		return leaf
	}
	if n := leaf.tenants[u.namespace()]; n != nil {
		return n
	}
	q.prune(leaf)
	return q.admit(leaf, u.sample().Tenant())
}

// admit makes the node of a namespace in a leaf that shares fairly.
func (q *Queue) admit(leaf *node, tenant *cluster.Tenant) *node {
	n := &node{queue: leaf.queue, name: tenant.Namespace, parent: leaf, policy: leaf.policy, account: tenantAccount{tenant}, position: -1}
	n.past.at = q.now
	q.hold(n)
	leaf.tenants[n.name] = n
	q.settle(n)
	return n
}

// prune forgets the namespaces of a leaf that hold nothing and wait for nothing, when there are many of them.
func (q *Queue) prune(leaf *node) {
	if len(leaf.tenants) <= 2*len(leaf.queue.Tenants())+16 {
		return
	}
	live := make(map[string]bool)
	for _, t := range leaf.queue.Tenants() {
		live[t.Namespace] = true
	}
	for namespace, n := range leaf.tenants {
		n.past.settle(q.now, leaf.halfLife)
		if live[namespace] || !n.vacant() || n.past.average > 1e-9 {
			continue
		}
		for _, l := range n.singles {
			q.forget(l)
		}
		for _, l := range n.gangs {
			q.forget(l)
		}
		delete(leaf.tenants, namespace)
	}
}

// vacant reports whether nobody waits in a node's lines.
func (n *node) vacant() bool {
	for _, l := range n.singles {
		if !l.idle {
			return false
		}
	}
	for _, l := range n.gangs {
		if !l.idle {
			return false
		}
	}
	return true
}
