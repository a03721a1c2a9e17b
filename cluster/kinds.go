package cluster

import (
	"cmp"
	"slices"

	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
)

// Resources have kinds, and columns, as long as a node or a queue names them. When a name gets a kind, or loses it, the pods that ask for it get
// classes that count it, or do not; those that are on nodes are charged accordingly, whoever came first, the pod or the node.

// settleKinds brings the classes in line with the kinds that there are after an event.
func (s *Store) settleKinds() {
	names, waited := s.kinds.Settle()
	if len(names) == 0 {
		return
	}
	s.recount(names)
	s.fitKinds()
	s.quota.Narrow()
	if len(waited) == 0 {
		return
	}
	for i, node := range s.nodes {
		if slot := Slot(i); node != nil && slices.ContainsFunc(node.Allocatable, func(q resource.Quantity) bool { return slices.Contains(waited, q.Name) }) {
			s.charges.provide(slot, -1)
			s.nodeBook.fillAllocatable(slot, node)
			s.charges.provide(slot, 1)
			if r := s.grants.reports[node.Name]; r != nil {
				s.nodeBook.lend(slot, &r.Headroom)
			}
			s.charges.recharge(slot)
			s.note(slot, changes.Redefined|changes.Freed|changes.Charged)
		}
	}
	s.tell(s.quota.Recount()...)
}

// recount replaces the classes that ask for any of the resources.
func (s *Store) recount(names []string) {
	replaced := s.classes.recount(names)
	if len(replaced) == 0 {
		return
	}
	s.addKinds(len(s.nodes), cap(s.nodes)) // those that are vacant now are still charged
	var pods []*Pod
	for _, pod := range s.pods.byUID {
		if replaced[pod.Class] != nil {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, func(a, b *Pod) int { return cmp.Compare(a.UID, b.UID) })
	for _, pod := range pods {
		old, slot := pod.Class, pod.slot
		if slot != NoSlot {
			s.move(slot, old, -1)
			s.charges.spend(pod, -1)
		}
		s.classifier.refer(pod, replaced[old])
		if slot != NoSlot {
			s.move(slot, pod.Class, 1)
			s.charges.spend(pod, 1)
			s.note(slot, changes.Freed|changes.Charged)
		}
		if pod.wants() {
			s.effects.emit(pod)
		}
	}
	for old := range replaced {
		s.classes.idle.leave(old)
	}
}

// recount counts anew what requests ask for, if they name any of the resources, and returns the classes that take the place of theirs. The old ones
// are idle as soon as no pod refers to them.
func (b *classBook) recount(names []string) map[*Class]*Class {
	var affected []*request
	for _, q := range b.requests {
		if slices.ContainsFunc(q.quantities, func(r resource.Quantity) bool { return slices.Contains(names, r.Name) }) {
			affected = append(affected, q)
		}
	}
	slices.SortFunc(affected, func(a, b *request) int { return cmp.Compare(a.key, b.key) })
	replaced := make(map[*Class]*Class)
	for _, q := range affected {
		_ = b.count(q) // what nothing can have is the same as before
		for i, old := range q.classes {
			fresh := *old
			fresh.ID, fresh.pods = b.next, 0
			fresh.Amounts, fresh.Charge, fresh.Absent = q.amounts, q.charge, b.absent(q, old.Claims)
			b.next++
			q.classes[i], replaced[old] = &fresh, &fresh
			b.idle.enter(&fresh)
		}
	}
	return replaced
}

// AppendSize appends the canonical encoding of all that the pod takes of its node. The kinds are part of it: a resource may have another when it
// comes back.
func (c *Class) AppendSize(buffer []byte) []byte {
	w := facts.Key(c.Requirements.AppendSize(buffer))
	for _, a := range c.Amounts {
		w.Number(int64(a.Kind))
	}
	if c.Claims == nil {
		w.Number(0)
	} else {
		w.Number(1)
		w = c.Claims.AppendKey(w) // which nodes have the devices that its claims were given
	}
	if c.Volumes == nil {
		w.Number(0)
		return w
	}
	return c.Volumes.AppendSize(w)
}
