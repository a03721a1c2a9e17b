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
	return nil
}
