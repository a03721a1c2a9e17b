package cluster

import (
	"errors"
	"fmt"
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/quota"
)

// audit recomputes the ledger from its pods: it walks the slots, then the pods, sums what they hold, and holds the sums against the books.
type audit struct {
	s       *Store
	charged int // pods on slots
	differ  int // pods that are charged something else than their class says
	placed  PodCounts
	holding map[*quota.Tenant]*quota.Holding
}

// Verify recomputes the columns from the pods and returns the first difference. It costs time proportional to the ledger: tests and the
// simulator call it.
func (s *Store) Verify() error {
	a := audit{s: s, holding: make(map[*quota.Tenant]*quota.Holding)}
	if err := a.kinds(); err != nil {
		return err
	}
	if err := a.slots(); err != nil {
		return err
	}
	if err := a.pods(); err != nil {
		return err
	}
	if a.placed != s.placed {
		return fmt.Errorf("counted are %+v, pods say %+v", s.placed, a.placed)
	}
	if err := a.books(); err != nil {
		return err
	}
	if err := a.s.classifier.verify(); err != nil {
		return err
	}
	if err := s.placeholders.verify(); err != nil {
		return fmt.Errorf("reservations: %w", err)
	}
	if err := s.claims.verify(); err != nil {
		return err
	}
	return s.counts.Verify()
}

// kinds holds the kinds against the names that nodes and queues use, and the requests against the kinds.
func (a *audit) kinds() error {
	users := make(map[string]int)
	for _, node := range a.s.nodes {
		eachResource(node, func(name string, _ int64) { users[name]++ })
	}
	a.s.quota.Each(func(q *quota.Queue) {
		if q.Facts != nil {
			q.Facts.EachResource(func(name string) { users[name]++ })
		}
	})
	if err := a.s.kinds.Verify(users); err != nil {
		return err
	}
	return a.s.classes.verify()
}

// slots verifies each slot, and counts the pods on them.
func (a *audit) slots() error {
	s := a.s
	for i, node := range s.nodes {
		slot := Slot(i)
		if node == nil {
			if len(s.pods.onSlot[slot]) > 0 {
				return fmt.Errorf("vacant slot %d holds %d pods", slot, len(s.pods.onSlot[slot]))
			}
			continue
		}
		if s.slots.byNode[node.Name] != slot {
			return fmt.Errorf("node %s is in slot %d but indexed in %d", node.Name, slot, s.slots.byNode[node.Name])
		}
		if err := a.slot(slot); err != nil {
			return fmt.Errorf("node %s: %w", node.Name, err)
		}
		a.charged += len(s.pods.onSlot[slot])
	}
	return nil
}

// slot asks every part what it says of a slot.
func (a *audit) slot(slot Slot) error {
	s, pods := a.s, a.s.pods.onSlot[slot]
	if err := s.pods.verify(slot, s.nodes[slot].Name); err != nil {
		return err
	}
	if err := s.nodeBook.verify(slot); err != nil {
		return err
	}
	if err := s.verifyRequested(slot, pods); err != nil {
		return err
	}
	ports, disks := 0, 0
	for _, pod := range pods {
		ports, disks = ports+len(pod.Class.Ports), disks+len(pod.Class.Disks)
	}
	if ports != len(s.ports[slot]) || disks != len(s.disks[slot]) {
		return fmt.Errorf("%d host ports and %d disks taken, pods say %d and %d", len(s.ports[slot]), len(s.disks[slot]), ports, disks)
	}
	if err := s.claims.attached.verify(slot); err != nil {
		return err
	}
	if err := s.selection.verify(slot, pods); err != nil {
		return err
	}
	if err := s.usage.verify(slot); err != nil {
		return err
	}
	return s.grants.verify(slot)
}

// pods verifies each pod, and sums what they hold.
func (a *audit) pods() error {
	charged := 0
	for _, pod := range a.s.pods.byUID {
		if err := pod.verifyVictims(&a.s.pods); err != nil {
			return err
		}
		placed := pod.node != ""
		if placed != (pod.Phase == Assumed || pod.Phase == Bound) {
			return fmt.Errorf("pod %s is %s but its node is %q", pod.UID, pod.Phase, pod.node)
		}
		count(a.holding, pod, pod.slot != NoSlot)
		differs, err := a.s.charges.verify(pod)
		if err != nil {
			return err
		}
		if differs {
			a.differ++
		}
		if pod.slot == NoSlot {
			continue
		}
		charged++
		a.placed.count(pod, 1)
	}
	if err := a.s.pods.verifyUpdates(); err != nil {
		return err
	}
	if charged != a.charged {
		return fmt.Errorf("%d pods are charged without being in the ledger", a.charged-charged)
	}
	return nil
}

// Overcommitted returns the nodes on which pods request more than is allocatable, in slot order, not counting victims that are about to
// leave. Only the outside world can bring that about; Commit never does.
func (s *Store) Overcommitted() []string {
	var names []string
	for i, node := range s.nodes {
		if node == nil || !s.nodeBook.exceeded(Slot(i)) {
			continue
		}
		trial := s.Try(Slot(i), false)
		for _, pod := range s.pods.onSlot[i] {
			if pod.Claimed() {
				trial.Take(pod)
			}
		}
		if s.nodeBook.exceeded(Slot(i)) {
			names = append(names, node.Name)
		}
		trial.End()
	}
	return names
}

// books holds tenants, queues and units against the pods, and the capacity against the nodes.
func (a *audit) books() error {
	if err := a.s.quota.Verify(a.holding, a.s.charges.capacity(), a.differ); err != nil {
		return err
	}
	if err := a.s.units.verify(a.s.pods.byUID); err != nil {
		return err
	}
	for slot, by := range a.s.reserved {
		if by != NoReservation && a.s.nodes[slot] == nil {
			return fmt.Errorf("vacant slot %d is reserved by %d", slot, by)
		}
	}
	if a.s.charges.supposing {
		return errors.New("a judgement has not ended")
	}
	return nil
}

// count adds a pod to what its tenant holds.
func count(holding map[*quota.Tenant]*quota.Holding, pod *Pod, charged bool) {
	h := holding[pod.tenant]
	if h == nil {
		h = &quota.Holding{}
		holding[pod.tenant] = h
	}
	if charged {
		h.Add(pod.Charge())
		return
	}
	h.Add(nil)
}

func (b *Units) verify(pods map[facts.UID]*Pod) error {
	atomic := 0
	for name, u := range b.byName {
		if u.UnitName != name || u.Facts != nil && u.Facts.UnitName != name || u.Facts == nil && len(u.pods) == 0 {
			return fmt.Errorf("unit %s is known as %s, or nothing is left of it", u.UnitName, name)
		}
		if u.Atomic() {
			atomic++
		}
		if err := u.verify(pods); err != nil {
			return fmt.Errorf("unit %s: %w", name, err)
		}
	}
	if atomic != b.atomic {
		return fmt.Errorf("%d units stand or fall together, %d are counted", atomic, b.atomic)
	}
	for _, pod := range pods {
		if u := pod.Unit; u != nil && (b.byName[u.UnitName] != u || !slices.Contains(u.pods, pod)) {
			return fmt.Errorf("pod %s is not a member of its unit %s", pod.UID, u.UnitName)
		}
		if pod.Unit == nil && pod.Priority != pod.own {
			return fmt.Errorf("pod %s has no unit, and its priority is %d instead of its own, %d", pod.UID, pod.Priority, pod.own)
		}
	}
	return nil
}

// verify counts the members of a unit.
func (u *Unit) verify(pods map[facts.UID]*Pod) error {
	placed, bound := 0, 0
	for seat, pod := range u.pods {
		if pod.Unit != u || int(pod.seat) != seat || pods[pod.UID] != pod || pod.Priority != u.priorityOf(pod.own) {
			return fmt.Errorf("pod %s on seat %d is not its member, sits on %d or has another priority", pod.UID, seat, pod.seat)
		}
		if pod.Placed() {
			placed++
		}
		bound += pod.certain()
	}
	if placed != u.placed || bound != u.bound || u.done < 0 {
		return fmt.Errorf("it says %d members are placed, %d bound and %d done, pods say %d and %d", u.placed, u.bound, u.done, placed, bound)
	}
	if whole := u.Facts != nil && bound >= u.MinMember(); whole && !u.reached || u.reached && (u.Facts == nil || placed+u.done == 0) {
		return fmt.Errorf("it was whole: %v; %d of %d members are bound, %d placed and %d done", u.reached, bound, u.MinMember(), placed, u.done)
	}
	return nil
}

// Exceeded returns the queues that hold more than their limit, parents first, not counting victims that are about to leave. Only the
// outside world can bring that about: somebody else's bindings, a limit that was lowered, a queue or a namespace that has moved.
func (s *Store) Exceeded() []*quota.Queue {
	leaving := make(map[*quota.Tenant]*quota.Holding)
	for _, pod := range s.pods.byUID {
		if pod.Claimed() && pod.slot != NoSlot {
			count(leaving, pod, true)
		}
	}
	return s.quota.Exceeded(leaving)
}
