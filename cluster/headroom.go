package cluster

import (
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
)

// What reclaimed pods may hold of a node comes from the node's report alone, and is the node's allocatable of two resources. So it is requested,
// fitted and preempted for as anything else. It is gross: what runs is in it. It may fall below what is requested; then nobody goes for
// that, and nobody comes.

// Headroom returns what the node's agent says of headroom; the zero value where it says nothing.
func (s *State) Headroom(slot Slot) facts.Headroom {
	if r := s.Report(slot); r != nil {
		return r.Headroom
	}
	return facts.Headroom{}
}

// IsReclaimed reports whether nothing but reports gives this resource. It costs a comparison of two strings.
func (s *State) IsReclaimed(kind resource.Kind) bool { return facts.IsReclaimed(s.kinds.Name(kind)) }

// lend makes what is offered of a slot what the report says, and returns what to note of it. The kinds come up with the first headroom, so
// that clusters without have no columns for it.
func (s *Store) lend(slot Slot, h *facts.Headroom) (changed ChangeKind) {
	cpu, memory := h.Offered()
	if s.lent == [facts.ReclaimedKinds]resource.Kind{} && cpu == 0 && memory == 0 {
		return 0
	}
	for i, amount := range [...]int64{cpu, memory} {
		kind, ok := s.lentKind(i)
		if !ok {
			continue // the table is full: nobody can be given this resource, which is safe
		}
		before := s.allocatable[kind][slot]
		switch {
		case amount > before:
			changed |= Lent
		case amount < before:
			changed |= Recalled
		}
		s.allocatable[kind][slot] = amount
		s.quota.Provide(kind, amount-before)
	}
	return changed
}

// lentKind returns the kind of a reclaimed resource. CPU is kind 0, so that 0 is none.
func (s *Store) lentKind(i int) (resource.Kind, bool) {
	if s.lent[i] == 0 {
		kind, err := s.kinds.Intern(facts.ReclaimedName(i))
		if err != nil {
			return 0, false
		}
		s.growKinds()
		s.lent[i] = kind
	}
	return s.lent[i], true
}

// LentKinds returns the kinds of what only reports give, CPU and then memory; 0 is one that nobody has lent or asked for.
func (s *Store) LentKinds() [facts.ReclaimedKinds]resource.Kind { return s.lent }

// relend makes what is offered of a slot what the newest report of its node says.
func (s *Store) relend(slot Slot, node string) {
	if r := s.reports[node]; r != nil {
		s.lend(slot, &r.Headroom)
	}
}

// Reclaims lists what the class asks of what only reports give, CPU and then memory; amounts of 0 are not asked for.
func (c *Class) Reclaims() *[facts.ReclaimedKinds]resource.Amount { return &c.base.reclaims }

// AsksReclaimed reports whether the class asks for any of it.
func (c *Class) AsksReclaimed() bool { return c.base.asksReclaimed }

// claimReclaimed fills in what the base asks of what only reports give.
func (s *Store) claimReclaimed(b *base) {
	for _, a := range b.amounts {
		for i := range facts.ReclaimedKinds {
			if s.kinds.Name(a.Kind) == facts.ReclaimedName(i) {
				b.reclaims[i], b.asksReclaimed = a, true
				s.lent[i] = a.Kind
			}
		}
	}
}

// Reclaimed is how many pods of the reclaimed level are on known nodes, or on their way there.
func (s *Store) Reclaimed() int { return s.reclaimed }

// countReclaimed counts a pod that is charged to a slot, sign times.
func (s *Store) countReclaimed(pod *Pod, sign int) {
	if pod.Class.Reclaimed {
		s.reclaimed += sign
	}
}
