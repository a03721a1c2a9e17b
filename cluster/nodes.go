package cluster

import (
	"fmt"
	"slices"

	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// slotTable says which node is in which slot. A slot that a node has left is given to the next node that comes.
type slotTable struct {
	byNode map[string]Slot
	vacant []Slot
}

// reuse returns a vacant slot; ok is false when there is none.
func (t *slotTable) reuse() (slot Slot, ok bool) {
	n := len(t.vacant)
	if n == 0 {
		return NoSlot, false
	}
	slot = t.vacant[n-1]
	t.vacant = t.vacant[:n-1]
	return slot, true
}

// upsertNode takes in what is known of a node. Its slot stays; pods that were bound to it before it was known are charged now.
func (s *Store) upsertNode(n *facts.Node) {
	slot, known := s.slots.byNode[n.Name]
	n = s.claims.attached.migrated(s.nodeBook.withBrought(n))
	if known && facts.SameNode(s.nodes[slot], n) {
		return
	}
	if !known {
		slot = s.nodeBook.takeSlot()
		s.slots.byNode[n.Name] = slot
	}
	if known && facts.SameButImages(s.nodes[slot], n) {
		s.setNode(slot, n)
		s.note(slot, changes.Reimaged)
		return
	}
	s.nodeBook.setAllocatable(slot, n)
	s.charges.provideGPUs(slot, -1)
	s.views[slot] = s.claims.dra.View(n)
	regpu := s.nodes[slot] == nil || s.nodes[slot].GPU != n.GPU
	s.setNode(slot, n)
	if r := s.grants.reports[n.Name]; r != nil && !known {
		s.rows.get(slot).report = r.NodeReport
	}
	if s.nodeBook.reshape(slot) || regpu {
		s.grants.recount(slot)
	}
	s.charges.provideGPUs(slot, 1)
	s.charges.recharge(slot)
	if orphans := s.pods.orphans[n.Name]; !known && len(orphans) > 0 {
		delete(s.pods.orphans, n.Name)
		for _, pod := range orphans {
			s.attach(pod, slot)
		}
	}
	if !known {
		s.attached[slot] = s.claims.attached.on(slot)
	}
	s.note(slot, changes.Redefined|changes.Freed|changes.Charged)
}

func (s *Store) removeNode(name string) {
	slot, known := s.slots.byNode[name]
	if !known {
		return
	}
	for _, pod := range s.pods.onSlot[slot] {
		s.charges.spend(pod, -1)
		s.placed.count(pod, -1)
		s.placeholders.moved(pod, slot, -1)
		pod.slot = NoSlot
		pod.recall() // what is a guess is guessed anew should the node come back
		s.pods.orphans[name] = append(s.pods.orphans[name], pod)
	}
	s.pods.onSlot[slot] = nil
	s.grants.guessed[slot] = 0
	s.charges.provide(slot, -1)
	s.charges.provideGPUs(slot, -1)
	eachResource(s.nodes[slot], func(name string, _ int64) { s.kinds.Release(name) })
	s.vacate(slot)
	delete(s.slots.byNode, name)
	delete(s.nodeBook.brought, name)
	s.slots.vacant = append(s.slots.vacant, slot)
	s.note(slot, changes.Redefined|changes.Charged)
}

// nodeBook brings the columns of a slot in line with what the slot's node and its report say that there is: amounts, headroom, and what plugins bring. What pods take of it is
// the business of others.
//
// A slot's allocatable is at all times what its node says, with what its newest report adds; capacity, in the tree of queues, is the sum of it.
type nodeBook struct {
	state   *State
	slots   *slotTable
	pods    *podTable
	grants  *grantBook
	charges *chargeBook
	lent    *lentKinds
	brought map[string]*broughtNode
}

// takeSlot returns a slot for a node that was not known.
func (b *nodeBook) takeSlot() Slot {
	if slot, ok := b.slots.reuse(); ok {
		return slot
	}
	b.pods.onSlot = append(b.pods.onSlot, nil)
	b.grants.guessed = append(b.grants.guessed, 0)
	return b.state.addSlot()
}

func (b *nodeBook) setAllocatable(slot Slot, n *facts.Node) {
	b.charges.provide(slot, -1)
	eachResource(n, func(name string, _ int64) { b.state.kinds.Use(name) })
	eachResource(b.state.nodes[slot], func(name string, _ int64) { b.state.kinds.Release(name) })
	b.state.fitKinds()
	b.fillAllocatable(slot, n)
	b.charges.provide(slot, 1)
	if r := b.grants.reports[n.Name]; r != nil {
		b.lend(slot, &r.Headroom)
	}
}

// fillAllocatable fills the columns of a slot with what the node says of itself.
func (b *nodeBook) fillAllocatable(slot Slot, n *facts.Node) {
	for _, column := range b.state.allocatable {
		if len(column) > 0 {
			column[slot] = 0
		}
	}
	eachResource(n, func(name string, amount int64) {
		if kind, ok := b.state.kinds.Lookup(name); ok { // else the table is full: no pod can be given this resource, which is safe
			b.state.allocatable[kind][slot] = amount
		}
	})
}

// eachResource visits the resources of which a node says that it has some; nil has none. The last amount of a name counts.
func eachResource(n *facts.Node, visit func(name string, amount int64)) {
	if n == nil {
		return
	}
	for _, q := range n.Allocatable {
		if amount := bounded(q.Amount); amount > 0 && !facts.IsReclaimed(q.Name) {
			visit(q.Name, amount)
		}
	}
}

// bounded is what a node has of a resource that it says it has so much of.
func bounded(amount int64) int64 { return min(max(amount, 0), resource.MaxAmount) }

// lend makes what is offered of a slot what the report says, and returns what to note of it. The kinds come up with the first headroom, so
// that clusters without have no columns for it.
func (b *nodeBook) lend(slot Slot, h *facts.Headroom) (changed changes.Kind) {
	cpu, memory := h.Offered()
	if b.lent.of == [facts.ReclaimedKinds]resource.Kind{} && cpu == 0 && memory == 0 {
		return 0
	}
	for i, amount := range [...]int64{bounded(cpu), bounded(memory)} {
		kind := b.lent.kind(i)
		b.state.fitKinds()
		before := b.state.allocatable[kind][slot]
		switch {
		case amount > before:
			changed |= changes.Lent
		case amount < before:
			changed |= changes.Recalled
		}
		b.state.allocatable[kind][slot] = amount
		b.charges.tree.Provide(kind, amount-before)
	}
	return changed
}

// exceeded reports whether pods request or hold more of a slot than there is.
func (b *nodeBook) exceeded(slot Slot) bool {
	s := b.state
	unsaid := s.Shape(slot).GPUs == 0 && s.Report(slot) == nil // nothing says what there is
	if !unsaid && slices.ContainsFunc(s.gpus[slot][:], func(free int32) bool { return free < 0 }) || s.rows[slot].overdrawn() {
		return true
	}
	for kind := range s.allocatable {
		// Headroom and what plugins bring may fall below what runs.
		if s.Free(slot, resource.Kind(kind)) < 0 && !s.IsReclaimed(resource.Kind(kind)) && !b.wasBrought(slot, resource.Kind(kind)) && s.kinds.Name(resource.Kind(kind)) != facts.PromisedCPU {
			return true
		}
	}
	_, numaNodes := s.NUMANodes(slot)
	return s.Report(slot) != nil && slices.ContainsFunc(numaNodes[:], func(z topology.NUMARoom) bool { return z.CPUs < 0 || z.Memory < 0 })
}

// verify holds what pods may request against what the node and its report say.
func (b *nodeBook) verify(slot Slot) error {
	node := b.state.nodes[slot]
	want := make([]int64, len(b.state.allocatable))
	for _, q := range node.Allocatable {
		if kind, ok := b.state.kinds.Lookup(q.Name); ok && bounded(q.Amount) > 0 && !facts.IsReclaimed(q.Name) {
			want[kind] = bounded(q.Amount)
		}
	}
	h := b.state.Headroom(slot)
	cpu, memory := h.Offered()
	for i, amount := range [...]int64{bounded(cpu), bounded(memory)} {
		if kind := b.lent.of[i]; kind != 0 {
			want[kind] = amount
		} else if amount != 0 {
			return fmt.Errorf("%d of %s are offered, which is not counted", amount, facts.ReclaimedName(i))
		}
	}
	for kind := range want {
		if has := b.state.Allocatable(slot, resource.Kind(kind)); want[kind] != has {
			return fmt.Errorf("%s: column says %d allocatable, the node says %d", b.state.kinds.Name(resource.Kind(kind)), has, want[kind])
		}
	}
	if row := b.state.rows[slot]; row != nil && !slices.Equal(row.brought, b.byNUMANode(slot)) {
		return fmt.Errorf("the row counts %v by NUMA node, its report and node %v", row.brought, b.byNUMANode(slot))
	}
	return nil
}

// What reclaimed pods may hold of a node comes from the node's report alone, and is the node's allocatable of two resources. So it is requested,
// fitted and preempted for like any other. It is gross: it includes what runs. It may fall below what is requested; then no pod has to leave
// for that, and no further reclaimed pod is placed.

// lentKinds are the kinds of what only reports give, CPU and then memory; 0 is one that no node has lent and no pod asked for.
type lentKinds struct {
	kinds *resource.Table
	of    [facts.ReclaimedKinds]resource.Kind
}

// kind returns the kind of a reclaimed resource, interned. CPU is kind 0, so that 0 is none.
func (l *lentKinds) kind(i int) resource.Kind {
	if l.of[i] == 0 {
		l.of[i] = l.kinds.Intern(facts.ReclaimedName(i))
	}
	return l.of[i]
}

// claim fills in what a request asks of what only reports give.
func (l *lentKinds) claim(q *request) {
	for _, r := range q.quantities {
		for i := range facts.ReclaimedKinds {
			if r.Name == facts.ReclaimedName(i) && r.Amount > 0 {
				q.reclaims[i] = resource.Amount{Kind: l.kind(i), Value: resource.Add(q.reclaims[i].Value, min(r.Amount, resource.MaxAmount))}
				q.asksReclaimed = true
			}
		}
	}
}

// What plugins of a node's agent bring comes with the node's report, and counts like any other resource that the node has: it is requested, fitted and preempted for
// by its name. So the ledger adds it to what the node says of itself. What the node says itself goes first: a device plugin gives that out.
//
// For example, node n has 4 CPUs, and its report says that a plugin brings 2 of example.com/fpga. Then n counts as a node with 4 CPUs and 2 of example.com/fpga. When
// the report no longer says so, or is too old to act on, it has none. What runs there stays.

// In the same way the node's share of facts.PromisedCPU grows by what its report says may be promised a second time. Without a report it is what the node has of CPU.

// broughtNode is a node that has, or had, resources of plugins.
type broughtNode struct {
	said *facts.Node // what the node says of itself
	// names are what was brought since the node came. Pods may request more of it than there is: the plugin has gone, or brings less.
	names []string
}

// withBrought is a node with what its report says that plugins bring.
func (b *nodeBook) withBrought(n *facts.Node) *facts.Node {
	var brought []resource.Quantity
	var over facts.Overcommit
	if r := b.grants.reports[n.Name]; r != nil {
		brought, over = r.Resources, r.Overcommit
	}
	known := b.brought[n.Name]
	if len(brought) == 0 && over == (facts.Overcommit{}) && known == nil {
		return n
	}
	if known == nil {
		known = &broughtNode{}
		b.brought[n.Name] = known
	}
	known.said = n
	full := *n
	full.Allocatable = slices.Clone(n.Allocatable)
	for i := range full.Allocatable { // it is there where the scheduler is to go by it
		if q := &full.Allocatable[i]; q.Name == facts.PromisedCPU {
			q.Amount += over.Extra(q.Amount)
		}
	}
	for _, q := range brought {
		if q.Amount <= 0 || slices.ContainsFunc(n.Allocatable, func(own resource.Quantity) bool { return own.Name == q.Name && own.Amount > 0 }) {
			continue
		}
		full.Allocatable = append(full.Allocatable, q)
		if !slices.Contains(known.names, q.Name) {
			known.names = append(known.names, q.Name)
			known.names = known.names[max(0, len(known.names)-maxBrought):]
		}
	}
	return &full
}

// maxBrought bounds the names that are remembered of a node: four times what a report may have.
const maxBrought = 64

// said is what a node says of itself, without what plugins bring.
func (b *nodeBook) said(n *facts.Node) *facts.Node {
	if known := b.brought[n.Name]; known != nil {
		return known.said
	}
	return n
}

// reshape brings what may be given of a slot by NUMA node and by device in line with its node and its report, and reports whether that changed it. As with amounts, what
// the node says itself goes first.
func (b *nodeBook) reshape(slot Slot) bool {
	reshaped := b.grants.reshape(slot)
	row := b.state.rows[slot]
	if row == nil {
		return reshaped
	}
	brought := b.byNUMANode(slot)
	if slices.Equal(row.brought, brought) {
		return reshaped
	}
	row.brought, row.resources = brought, nil
	if len(brought) > 0 {
		row.resources = new(topology.ResourceFree)
	}
	return true
}

// byNUMANode is what plugins bring to a slot's node and its report counts by NUMA node.
func (b *nodeBook) byNUMANode(slot Slot) (brought []topology.Resource) {
	r := b.state.Report(slot)
	if r == nil {
		return nil
	}
	own := b.said(b.state.nodes[slot]).Allocatable
	for i := range r.ByNUMANode {
		name := r.ByNUMANode[i].Name
		if !slices.ContainsFunc(own, func(q resource.Quantity) bool { return q.Name == name && q.Amount > 0 }) && len(brought) < topology.MaxResources {
			brought = append(brought, r.ByNUMANode[i])
		}
	}
	return brought
}

// Reports reports whether a node has an agent: there is a report of it.
func (s *Store) Reports(node string) bool { return s.grants.reports[node] != nil }

// Brought is what plugins bring to a node, as its report says, sorted by name. It must not be changed.
func (s *Store) Brought(node string) []resource.Quantity {
	if r := s.grants.reports[node]; r != nil {
		return r.Resources
	}
	return nil
}

// wasBrought reports whether plugins bring a resource to a slot's node, or did.
func (b *nodeBook) wasBrought(slot Slot, kind resource.Kind) bool {
	known := b.brought[b.state.nodes[slot].Name]
	return known != nil && slices.Contains(known.names, b.state.kinds.Name(kind))
}
