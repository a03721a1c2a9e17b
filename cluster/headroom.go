package cluster

import (
	"maps"
	"slices"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/resource"
)

// What reclaimed pods may hold of a node comes from the node's report alone, and is the node's allocatable of two resources. So it is requested,
// fitted and preempted for as anything else. It is gross: what runs is in it. It may fall below what is requested; then nobody goes for
// that, and nobody comes.

// HeadroomState is what a report's headroom is good for. Only open headroom is any.
type HeadroomState uint8

// The states of a Headroom.
const (
	HeadroomUnsaid    HeadroomState = iota // the agent says nothing of it
	HeadroomOpen                           // the amounts may be held
	HeadroomClosed                         // the agent wants no new reclaimed pods
	HeadroomStale                          // the report is too old to act on
	HeadroomMalformed                      // it cannot be read
)

// Headroom is what reclaimed pods may hold of a node, those that run included.
type Headroom struct {
	State HeadroomState
	// MilliCPU in thousandths of a CPU and Memory in bytes are what the node names; they count while State is HeadroomOpen.
	MilliCPU, Memory int64
	// Note says why it is closed, or what cannot be read.
	Note string
}

// Offered is what may be held by now: thousandths of a CPU, and bytes.
func (h *Headroom) Offered() (milliCPU, memory int64) {
	if h == nil || h.State != HeadroomOpen {
		return 0, 0
	}
	return h.MilliCPU, h.Memory
}

// Wish is a pod that a node's agent wants evicted.
type Wish struct {
	UID             UID
	Namespace, Name string
	// Reason is one of a few words, Message is for people.
	Reason, Message string
	// Urgent: the cluster's budget does not hold it back.
	Urgent bool
}

// ReclaimedKinds is how many resources only reports give: CPU, then memory.
const ReclaimedKinds = 2

// reclaimedName is the name of one of them.
func reclaimedName(i int) string {
	return [ReclaimedKinds]string{spec.ResourceReclaimedCPU, spec.ResourceReclaimedMemory}[i]
}

// Headroom returns what the node's agent says of headroom; the zero value where it says nothing.
func (s *State) Headroom(slot Slot) Headroom {
	if r := s.Report(slot); r != nil {
		return r.Headroom
	}
	return Headroom{}
}

// IsReclaimed reports whether nothing but reports gives this resource. It costs a comparison of two strings.
func (s *State) IsReclaimed(kind resource.Kind) bool { return isReclaimed(s.kinds.Name(kind)) }

func isReclaimed(name string) bool { return name == reclaimedName(0) || name == reclaimedName(1) }

// lend makes what is offered of a slot what the report says, and returns what to note of it. The kinds come up with the first headroom, so
// that clusters without have no columns for it.
func (s *Store) lend(slot Slot, h *Headroom) (changed ChangeKind) {
	cpu, memory := h.Offered()
	if s.lent == [ReclaimedKinds]resource.Kind{} && cpu == 0 && memory == 0 {
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
		s.capacity = s.widen(s.capacity)
		s.capacity[kind] += amount - before
	}
	return changed
}

// lentKind returns the kind of a reclaimed resource. CPU is kind 0, so that 0 is none.
func (s *Store) lentKind(i int) (resource.Kind, bool) {
	if s.lent[i] == 0 {
		kind, err := s.kinds.Intern(reclaimedName(i))
		if err != nil {
			return 0, false
		}
		s.growKinds()
		s.lent[i] = kind
	}
	return s.lent[i], true
}

// LentKinds returns the kinds of what only reports give, CPU and then memory; 0 is one that nobody has lent or asked for.
func (s *Store) LentKinds() [ReclaimedKinds]resource.Kind { return s.lent }

// relend makes what is offered of a slot what the newest report of its node says.
func (s *Store) relend(slot Slot, node string) {
	if r := s.reports[node]; r != nil {
		s.lend(slot, &r.Headroom)
	}
}

// Reclaims lists what the class asks of what only reports give, CPU and then memory; amounts of 0 are not asked for.
func (c *Class) Reclaims() *[ReclaimedKinds]resource.Amount { return &c.base.reclaims }

// AsksReclaimed reports whether the class asks for any of it.
func (c *Class) AsksReclaimed() bool { return c.base.asksReclaimed }

// claimReclaimed fills in what the base asks of what only reports give.
func (s *Store) claimReclaimed(b *base) {
	for _, a := range b.amounts {
		for i := range ReclaimedKinds {
			if s.kinds.Name(a.Kind) == reclaimedName(i) {
				b.reclaims[i], b.asksReclaimed = a, true
				s.lent[i] = a.Kind
			}
		}
	}
}

// wish files which node wants pods evicted.
func (s *Store) wish(node string, r *NodeReport) {
	switch {
	case r != nil && len(r.Wishes) > 0:
		s.wishing[node] = r.Wishes
		s.wishSerial++
	case len(s.wishing[node]) > 0:
		delete(s.wishing, node)
		s.wishSerial++
	}
}

// WishSerial changes whenever somebody wishes something else; 0: nobody ever did.
func (s *Store) WishSerial() uint64 { return s.wishSerial }

// Wishing lists the nodes whose agents want pods evicted, sorted.
func (s *Store) Wishing() []string {
	if len(s.wishing) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(s.wishing))
}

// WishingNodes is how many nodes' agents want pods evicted.
func (s *Store) WishingNodes() int { return len(s.wishing) }

// Wishes lists whom a node's agent wants evicted, the first most; the caller must not change it. A report that is stale or cannot be read
// has no wishes.
func (s *Store) Wishes(node string) []Wish { return s.wishing[node] }

// Reclaimed is how many pods of the reclaimed level are on known nodes, or on their way there.
func (s *Store) Reclaimed() int { return s.reclaimed }

// countReclaimed counts a pod that is charged to a slot, sign times.
func (s *Store) countReclaimed(pod *Pod, sign int) {
	if pod.Class.Reclaimed {
		s.reclaimed += sign
	}
}
