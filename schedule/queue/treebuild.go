package queue

import (
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/internal/heap"
)

// rebuild builds the tree from the ledger's queues, without any unit. What nodes have held in the past is kept.
func (t *tree) rebuild() {
	t.generation++
	size, histories := len(t.nodes), t.histories()
	t.nodes, t.leaves, t.lastLeaf = make(map[*quota.Queue]*node, size), make(map[*quota.Queue]*node, size), nil
	t.usesCapacity, t.withHistory, t.unordered = false, nil, !t.store.Quota().Configured()
	t.root = t.addNode(t.store.Quota().Root(), nil)
	t.readCapacity()
	t.restoreHistories(histories)
	t.root.reorder(t)
}

// addNode makes the node of a queue and of those below it.
func (t *tree) addNode(from *quota.Queue, parent *node) *node {
	n := &node{queue: from, name: from.Name, parent: parent, policy: &policies[from.Sort()], account: from, position: -1}
	t.nodes[from] = n
	if from.Facts != nil {
		n.halfLife = from.Facts.HalfLife
	}
	if len(from.Children()) == 0 && parent != nil {
		t.makeLeaf(n)
		t.leaves[from] = n
		return n
	}
	n.ready = heap.New(n.policy.nodes, setNode)
	for _, child := range from.Children() {
		n.children = append(n.children, t.addNode(child, n))
	}
	if parent != nil { // nothing feeds the root
		own := &node{queue: from, parent: n, policy: n.policy, account: ownAccount{from}, halfLife: n.halfLife, position: -1}
		if from.Facts == nil || from.Facts.Sort == facts.SortDefault {
			own.policy = &policies[facts.PriorityFIFO] // the default, Fair, is between queues only
		}
		t.makeLeaf(own)
		t.leaves[from] = own
		n.children = append(n.children, own)
	}
	t.noteOrder(n)
	return n
}

// makeLeaf makes a node one that units wait in: in its own shape queues, or in those of their namespaces.
func (t *tree) makeLeaf(n *node) {
	if !n.policy.byShare {
		t.addShapeQueues(n)
		return
	}
	n.tenants = make(map[string]*node)
	n.ready = heap.New(n.policy.nodes, setNode)
	t.noteOrder(n)
}

// addShapeQueues gives a node shape queues.
func (t *tree) addShapeQueues(n *node) {
	n.shapeQueues = heap.New(n.policy.shapeQueues(), setShapeQueue)
	n.singles, n.gangs = make(map[*cluster.Class]*ShapeQueue), make(map[*Shape]*ShapeQueue)
	t.noteOrder(n)
}

// noteOrder records what a node's order depends on.
func (t *tree) noteOrder(n *node) {
	t.usesCapacity = t.usesCapacity || n.compares() || n.policy.bySize
	if n.shapeQueues == nil && n.compares() && n.policy.byHistory && n.halfLife > 0 {
		t.withHistory = append(t.withHistory, n)
	}
}

// shapeQueues is the order of shape queues under a policy: that of their first units.
func (p *policy) shapeQueues() func(a, b *ShapeQueue) bool {
	return func(a, b *ShapeQueue) bool { return p.units(a.units.First(), b.units.First()) }
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
func (t *tree) histories() map[historyKey]usageHistory {
	all := make(map[historyKey]usageHistory)
	for _, n := range t.withHistory {
		for _, child := range n.children {
			child.history.settle(t.now, n.halfLife)
			all[child.key()] = child.history
		}
		for namespace, child := range n.tenants {
			child.history.settle(t.now, n.halfLife)
			all[historyKey{queue: n.queue.Name, namespace: namespace}] = child.history
		}
	}
	return all
}

// restoreHistories gives the nodes of the new tree their histories.
func (t *tree) restoreHistories(histories map[historyKey]usageHistory) {
	for _, n := range t.nodes {
		t.restoreHistory(n, histories)
	}
	for _, n := range t.leaves {
		t.restoreHistory(n, histories)
	}
	for key, history := range histories {
		if key.namespace == "" || history.average == 0 {
			continue
		}
		t.restoreTenant(key, history)
	}
}

func (t *tree) restoreHistory(n *node, histories map[historyKey]usageHistory) {
	n.history = histories[n.key()]
	n.history.at = t.now
}

// restoreTenant makes the node of a namespace that has used much lately, though nothing of it may wait now.
func (t *tree) restoreTenant(key historyKey, history usageHistory) {
	queue := t.store.Quota().Queue(key.queue)
	if queue == nil || t.leaves[queue] == nil || t.leaves[queue].tenants == nil {
		return
	}
	for _, tenant := range queue.Tenants() {
		if tenant.Namespace == key.namespace {
			t.addTenant(t.leaves[queue], tenant).history = history
		}
	}
}

// setTime tells the time. Where an epoch has ended, the histories are counted again.
func (t *tree) setTime(now time.Time) {
	t.now = now
	for _, n := range t.withHistory {
		epoch := now.UnixNano() / max(n.halfLife/epochs, 1)
		if epoch == n.epoch {
			continue
		}
		n.epoch = epoch
		for _, child := range n.children {
			t.countHistory(child, n)
		}
		for _, child := range n.tenants {
			t.countHistory(child, n)
		}
		n.ready = reheap(n.ready, heap.New(n.policy.nodes, setNode))
		n.propagate()
	}
}

func (t *tree) countHistory(child, parent *node) {
	child.history.settle(t.now, parent.halfLife)
	child.history.counted = child.history.average
	t.updateShare(child)
}
