package cluster

import (
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
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

func (s *Store) upsertNode(n *facts.Node) {
	slot, known := s.slots.byNode[n.Name]
	n = s.claims.attached.migrated(s.withBrought(n))
	if known && facts.SameNode(s.nodes[slot], n) {
		return
	}
	if !known {
		slot = s.takeSlot()
		s.slots.byNode[n.Name] = slot
	}
	if known && facts.SameButImages(s.nodes[slot], n) {
		s.setNode(slot, n)
		s.note(slot, changes.Reimaged)
		return
	}
	s.setAllocatable(slot, n)
	s.charges.provideGPUs(slot, -1)
	s.views[slot] = s.claims.dra.View(n)
	regpu := s.nodes[slot] == nil || s.nodes[slot].GPU != n.GPU
	s.setNode(slot, n)
	if r := s.grants.reports[n.Name]; r != nil && !known {
		s.rows.get(slot).report = r.NodeReport
	}
	if s.reshape(slot) || regpu {
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

// takeSlot returns a slot for a node that was not known.
func (s *Store) takeSlot() Slot {
	if slot, ok := s.slots.reuse(); ok {
		return slot
	}
	s.pods.onSlot = append(s.pods.onSlot, nil)
	s.grants.guessed = append(s.grants.guessed, 0)
	return s.addSlot()
}

func (s *Store) setAllocatable(slot Slot, n *facts.Node) {
	s.charges.provide(slot, -1)
	eachResource(n, func(name string, _ int64) { s.kinds.Use(name) })
	eachResource(s.nodes[slot], func(name string, _ int64) { s.kinds.Release(name) })
	s.fitKinds()
	s.fillAllocatable(slot, n)
	s.charges.provide(slot, 1)
	if r := s.grants.reports[n.Name]; r != nil {
		s.lend(slot, &r.Headroom)
	}
}

// fillAllocatable fills the columns of a slot with what the node says of itself.
func (s *Store) fillAllocatable(slot Slot, n *facts.Node) {
	for _, column := range s.allocatable {
		if len(column) > 0 {
			column[slot] = 0
		}
	}
	eachResource(n, func(name string, amount int64) {
		if kind, ok := s.kinds.Lookup(name); ok { // else the table is full: no pod can be given this resource, which is safe
			s.allocatable[kind][slot] = amount
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
	delete(s.brought, name)
	s.slots.vacant = append(s.slots.vacant, slot)
	s.note(slot, changes.Redefined|changes.Charged)
}
