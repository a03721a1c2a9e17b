package cluster

import (
	"slices"

	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/dra"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/topology"
)

// Snapshot is one scheduler's view of the ledger at a revision. It changes only by its owner's calls of Advance and Assume; the columns
// are its own, so the Store may move on meanwhile. Advance reads the Store and must not run beside a call that changes it.
//
// Its own log numbers its own changes (assumptions included); indexes over the snapshot follow that log.
type Snapshot struct {
	State
	revision   changes.Revision
	optimistic bool
}

// NewSnapshot returns an empty Snapshot at revision 0.
func NewSnapshot() *Snapshot { return &Snapshot{} }

// NewOptimisticSnapshot returns one whose assumptions mostly come true. Its log does not name a slot on which Advance finds just what was assumed, so that no index
// evaluates it again.
func NewOptimisticSnapshot() *Snapshot { return &Snapshot{optimistic: true} }

// Revision is the Store's revision that the snapshot reflects.
func (s *Snapshot) Revision() changes.Revision { return s.revision }

// Advance brings the snapshot to the Store's newest revision in time proportional to the changes since its own, and forgets what was
// assumed: the Store knows what became of it.
func (s *Snapshot) Advance(store *Store) {
	from := &store.State
	s.chosen.forget()
	if !from.log.Covers(s.revision) || s.kinds == nil {
		s.copyAll(from)
		s.log.Forget()
		s.journal = s.journal[:0]
		s.revision = from.log.Len()
		return
	}
	s.fitKinds()
	for len(s.nodes) < len(from.nodes) {
		s.addSlot()
	}
	for i := range s.journal {
		slot := s.journal[i].slot
		if s.optimistic && s.agrees(from, slot) {
			s.touched[slot] = from.touched[slot]
			continue
		}
		s.copySlot(from, slot, 0)
		s.log.Append(changes.Change{Slot: slot, Kind: changes.Freed | changes.Charged})
	}
	s.journal = s.journal[:0]
	for ; s.revision < from.log.Len(); s.revision++ {
		change := from.log.At(s.revision)
		if s.optimistic && change.Kind&^(changes.Freed|changes.Charged|changes.Recounted) == 0 && s.agrees(from, change.Slot) {
			s.touched[change.Slot] = from.touched[change.Slot]
			continue
		}
		s.copySlot(from, change.Slot, change.Kind)
		s.log.Append(change)
	}
	s.counts.Learn()
}

// Verify counts every census of the snapshot anew and returns the first difference.
func (s *Snapshot) Verify() error { return s.counts.Verify() }

// trials are what has been tried on a state and not been taken back. Every trial goes through the journal:
//
//	mark := state.Mark()
//	defer state.Rollback(mark)
//
// A scheduler tries placements on its Snapshot (Assume, Lift, Open), preemption tries victims on one node (Try), and Commit judges a Plan on
// the ledger itself as if its victims had left (Store.supposing). Taking back does not depend on the order in which things were tried: pods
// that were placed for good in between stay.
type trials struct {
	journal []trialEntry // the oldest first
	chosen  chosen       // for claims, by what is tried
}

// trialEntry is one thing that was tried.
type trialEntry struct {
	what        trialKind
	quiet       bool // the log does not name it: it is taken back before the log is read
	uncounted   bool // the tallies do not follow
	slot        Slot
	reservation ReservationID // of the node that was opened
	pod         *Pod
	class       *Class
	held        holding
	view        *dra.View // of the slot before a pod with ResourceClaims was assumed there
	volumes     *facts.ChosenBy
	devices     *dra.ChosenBy
}

type trialKind uint8

const (
	assumed trialKind = iota // a pod more on the slot
	lifted                   // a pod less
	opened                   // no reservation
)

// Mark is how far the journal goes. Rollback takes back what was tried since.
func (t *trials) Mark() int { return len(t.journal) }

// Lifted reports whether the pod is off its node in what is being tried.
func (t *trials) Lifted(uid facts.UID) bool {
	return slices.ContainsFunc(t.journal, func(e trialEntry) bool { return e.what == lifted && e.pod.UID == uid })
}

// ChosenVolumes and ChosenDevices are what placements that are tried have chosen for claims, as far as it counts on other nodes than theirs.
func (t *trials) ChosenVolumes() *facts.ChosenVolumes { return &t.chosen.volumes }

// ChosenDevices is the same of devices.
func (t *trials) ChosenDevices() *dra.Chosen { return &t.chosen.devices }

// Rollback takes back all that was tried since a Mark: the rows, tallies and censuses are as they were then. A Snapshot forgets its journal
// when it advances, so that a Mark does not outlive that; nor may the Store have changed in between, for what a pod counts in is the Store's
// to say.
func (s *State) Rollback(mark int) {
	for i := len(s.journal) - 1; i >= mark; i-- {
		s.journal[i].apply(s, -1)
		s.journal[i].pod = nil
	}
	s.journal = s.journal[:mark]
}

// try applies an entry and writes it down.
func (s *State) try(e trialEntry) {
	s.journal = append(s.journal, e)
	s.journal[len(s.journal)-1].apply(s, 1)
}

// apply applies an entry, or with a negative sign takes it back.
func (e *trialEntry) apply(s *State, sign int32) {
	kind := changes.Freed
	switch {
	case e.what == opened && sign > 0:
		s.reserved[e.slot] = NoReservation
	case e.what == opened:
		s.reserved[e.slot] = e.reservation
		kind = changes.Charged
	default:
		if e.what == lifted {
			sign = -sign
		}
		if sign > 0 {
			s.charge(e.slot, e.class, e.held)
			s.attachVolumes(e.slot, e.pod, 1)
			kind = changes.Charged
		} else {
			s.discharge(e.slot, e.class, e.held)
			s.attachVolumes(e.slot, e.pod, -1)
		}
		e.choose(s, sign)
		if !e.uncounted {
			e.pod.tally(&s.counts, e.slot, sign)
		}
	}
	if !e.quiet {
		s.log.Append(changes.Change{Slot: e.slot, Kind: kind})
	}
}

// choose gives the claims of a pod that is assumed what they are bound to and their devices, or takes that back. Entries are taken back in reverse order. Pods that
// are lifted change nothing: their claims keep what they have when they leave.
func (e *trialEntry) choose(s *State, sign int32) {
	if e.what != assumed {
		return
	}
	if e.class.Volumes.Competes() {
		if sign > 0 {
			e.volumes = s.chosen.volumes.Add(e.class.Volumes, s.nodes[e.slot])
		} else {
			s.chosen.volumes.Drop(e.volumes)
		}
	}
	switch {
	case e.class.Claims == nil:
	case sign > 0:
		e.view = s.views[e.slot]
		s.views[e.slot], e.devices = s.chosen.devices.Add(e.view, s.nodes[e.slot], s.ClaimNeeds(e.slot, e.class))
	default:
		s.chosen.devices.Drop(e.devices)
		s.views[e.slot] = e.view
	}
}

// chosen is what placements that are tried have chosen for claims, wherever they are: it counts on other nodes than theirs.
type chosen struct {
	volumes facts.ChosenVolumes
	devices dra.Chosen
}

func (c *chosen) forget() {
	c.volumes.Forget()
	c.devices.Forget()
}

// Assume charges a placement of the owner's own Plan to the snapshot, so that its next decision sees it before the Store has answered.
func (s *Snapshot) Assume(slot Slot, pod *Pod, grant topology.Grant) {
	s.try(trialEntry{what: assumed, slot: slot, pod: pod, class: pod.Class, held: holdingOf(&grant)})
}

// Lift takes a pod off the node that the Store has it on, to ask what would fit then.
func (s *Snapshot) Lift(pod *Pod) {
	if pod.slot != NoSlot {
		s.try(trialEntry{what: lifted, slot: pod.slot, pod: pod, class: pod.Class, held: pod.holding()})
	}
}

// Open lifts the reservation of a node.
func (s *Snapshot) Open(slot Slot) {
	s.try(trialEntry{what: opened, slot: slot, reservation: s.reserved[slot]})
}

// Trial takes pods off one node of a state, to ask what would fit then. It writes to the state's journal but not to its log, for preemption asks
// millions of them; until End no reader of the log may use the state.
type Trial struct {
	state     *State
	slot      Slot
	mark      int
	uncounted bool
}

// Try begins a trial on a slot. The pods must be charged to it in this state. With tallies the censuses follow, else only what the node
// itself counts does.
func (s *State) Try(slot Slot, tallies bool) Trial { return Trial{s, slot, s.Mark(), !tallies} }

// Take takes a pod off the node.
func (t *Trial) Take(pod *Pod) {
	t.state.try(trialEntry{what: lifted, quiet: true, uncounted: t.uncounted, slot: t.slot, pod: pod, class: pod.Class, held: pod.holding()})
}

// Return puts a pod back that was taken.
func (t *Trial) Return(pod *Pod) {
	list := t.state.journal
	at := t.mark
	for list[at].pod != pod {
		at++
	}
	list[at].apply(t.state, -1)
	last := len(list) - 1
	list[at] = list[last]
	t.state.journal = list[:last]
}

// End puts back the pods that are still off. The state is then as it was.
func (t *Trial) End() { t.state.Rollback(t.mark) }

// supposing lets judge look at the ledger as if the pods had left their nodes and the nodes reserved for a unit were open to all. It takes that
// back when judge has ended; what judge places or releases stays.
func (s *Store) supposing(gone []*Pod, open ReservationID, judge func()) {
	mark := s.Mark()
	s.charges.supposing = true
	for _, pod := range gone {
		if pod.slot != NoSlot {
			s.try(trialEntry{what: lifted, quiet: true, slot: pod.slot, pod: pod, class: pod.Class, held: pod.holding()})
			s.quota.Account(pod.tenant, pod.Charge(), -1)
			pod.lifted = true
		}
	}
	if open != NoReservation {
		for slot, by := range s.reserved {
			if by == open {
				s.try(trialEntry{what: opened, quiet: true, slot: Slot(slot), reservation: by})
			}
		}
	}
	judge()
	s.Rollback(mark)
	for _, pod := range gone {
		if pod.slot == NoSlot {
			continue
		}
		s.quota.Account(pod.tenant, pod.Charge(), 1)
		pod.lifted = false
	}
	for _, pod := range gone {
		if pod.slot != NoSlot && s.grants.guessed[pod.slot] > 0 {
			s.grants.recount(pod.slot)
		}
	}
	s.charges.supposing = false
}
