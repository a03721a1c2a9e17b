package cluster

import (
	"errors"
	"fmt"
	"slices"

	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// verifyBooks recomputes what tenants, queues and units count from the pods, and the capacity from the nodes. That a queue stays within its
// limits is not among the invariants: others bind pods too, and limits are lowered. See Exceeded.
func (s *Store) verifyBooks() error {
	for _, verify := range []func() error{s.verifyTenants, s.verifyTree, s.verifyUnits, s.verifyCapacity} {
		if err := verify(); err != nil {
			return err
		}
	}
	for slot, by := range s.reserved {
		if by != NoReservation && s.nodes[slot] == nil {
			return fmt.Errorf("vacant slot %d is reserved by %d", slot, by)
		}
	}
	if s.judging {
		return errors.New("a judgement has not ended")
	}
	return nil
}

func (s *Store) verifyTenants() error {
	used, pods := make(map[*Tenant][]int64), make(map[*Tenant]int)
	for _, pod := range s.pods {
		t := pod.tenant
		if s.tenants[pod.Namespace] != t {
			return fmt.Errorf("pod %s is charged to another account than its namespace's", pod.UID)
		}
		pods[t]++
		if pod.slot != NoSlot {
			used[t] = s.widen(used[t])
			add(used[t], pod.Class.Charge, 1)
		}
	}
	for name, t := range s.tenants {
		if t.Namespace != name || t.pods != pods[t] || t.pods == 0 {
			return fmt.Errorf("namespace %s has an account of %d pods, there are %d", name, t.pods, pods[t])
		}
		if err := s.sameAmounts(t.used, used[t]); err != nil {
			return fmt.Errorf("namespace %s: %w", name, err)
		}
		if q := t.queue; s.queues[q.Name] != q || t.seat >= len(q.tenants) || q.tenants[t.seat] != t {
			return fmt.Errorf("namespace %s feeds queue %s, which does not know it", name, q.Name)
		}
		if q := s.queueOf(name); q != t.queue {
			return fmt.Errorf("namespace %s feeds queue %s, should feed %s", name, t.queue.Name, q.Name)
		}
	}
	return nil
}

// sameAmounts compares two columns; what a shorter one lacks is zero.
func (s *Store) sameAmounts(have, want []int64) error {
	for i := range max(len(have), len(want)) {
		if kind := resource.Kind(i); at(have, kind, 0) != at(want, kind, 0) {
			return fmt.Errorf("%s: the account says %d, the sum is %d", s.kinds.Name(kind), at(have, kind, 0), at(want, kind, 0))
		}
	}
	return nil
}

func (s *Store) verifyTree() error {
	queues, configured := 0, 0
	var err error
	s.EachQueue(func(q *Queue) {
		queues++
		if q.Facts != nil {
			configured++
		}
		if s.queues[q.Name] != q {
			err = errors.Join(err, fmt.Errorf("queue %s is in the tree, but not known", q.Name))
		}
	})
	if err != nil {
		return err
	}
	if queues != len(s.queues) || configured != s.configured {
		return fmt.Errorf("%d queues are in the tree, %d of them configured; %d and %d are known", queues, configured, len(s.queues), s.configured)
	}
	if s.root.parent != nil || s.root.depth != 0 || len(s.root.tenants) > 0 {
		return errors.New("the root hangs below another queue, or has namespaces")
	}
	return s.verifyQueue(s.root)
}

// verifyQueue holds a queue against what is directly below it, and goes on there.
func (s *Store) verifyQueue(q *Queue) error {
	used := s.widen(nil)
	for _, t := range q.tenants {
		if t.queue != q || s.tenants[t.Namespace] != t {
			return fmt.Errorf("queue %s counts namespace %s, which feeds another", q.Name, t.Namespace)
		}
		for kind, amount := range t.used {
			used[kind] += amount
		}
	}
	guaranteed := s.widen(nil)
	for i, child := range q.children {
		if child.parent != q || child.depth != q.depth+1 || i > 0 && q.children[i-1].Name >= child.Name {
			return fmt.Errorf("queue %s does not hang in its place below %s", child.Name, q.label())
		}
		if q.Refuses && !child.Refuses {
			return fmt.Errorf("queue %s is open below %s, which is not", child.Name, q.Name)
		}
		if err := s.verifyQueue(child); err != nil {
			return err
		}
		for kind := range used {
			used[kind] += child.Used(resource.Kind(kind))
			guaranteed[kind] = resource.Add(guaranteed[kind], child.Guaranteed(resource.Kind(kind)))
		}
	}
	if err := s.sameAmounts(q.used, used); err != nil {
		return fmt.Errorf("queue %s: %w", q.label(), err)
	}
	for kind := range guaranteed {
		k := resource.Kind(kind)
		if g := q.Guaranteed(k); guaranteed[kind] > g || g < 0 || g > q.Limit(k) && q.parent != nil {
			return fmt.Errorf("queue %s: of %s %d are guaranteed at a limit of %d, and %d to its children",
				q.label(), s.kinds.Name(k), g, q.Limit(k), guaranteed[kind])
		}
	}
	return nil
}

func (s *Store) verifyUnits() error {
	atomic := 0
	for name, u := range s.units {
		if u.UnitName != name || u.Facts != nil && u.Facts.UnitName != name || u.Facts == nil && len(u.pods) == 0 {
			return fmt.Errorf("unit %s is known as %s, or nothing is left of it", u.UnitName, name)
		}
		if u.Atomic() {
			atomic++
		}
		if err := s.verifyUnit(u); err != nil {
			return fmt.Errorf("unit %s: %w", name, err)
		}
	}
	if atomic != s.atomic {
		return fmt.Errorf("%d units stand or fall together, %d are counted", atomic, s.atomic)
	}
	for _, pod := range s.pods {
		if u := pod.Unit; u != nil && (s.units[u.UnitName] != u || !slices.Contains(u.pods, pod)) {
			return fmt.Errorf("pod %s is not a member of its unit %s", pod.UID, u.UnitName)
		}
		if pod.Unit == nil && pod.Priority != pod.own {
			return fmt.Errorf("pod %s has no unit, and its priority is %d instead of its own, %d", pod.UID, pod.Priority, pod.own)
		}
	}
	return nil
}

// verifyUnit counts the members of a unit.
func (s *Store) verifyUnit(u *Unit) error {
	placed, bound := 0, 0
	for seat, pod := range u.pods {
		if pod.Unit != u || int(pod.seat) != seat || s.pods[pod.UID] != pod || pod.Priority != u.priorityOf(pod.own) {
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

func (s *Store) verifyCapacity() error {
	capacity := s.widen(nil)
	for slot, node := range s.nodes {
		if node == nil {
			continue
		}
		for kind := range s.allocatable {
			capacity[kind] += s.allocatable[kind][slot]
		}
		capacity[s.gpuKind] += int64(s.Shape(Slot(slot)).GPUs) * topology.FullGPU
	}
	if err := s.sameAmounts(s.capacity, capacity); err != nil {
		return fmt.Errorf("capacity: %w", err)
	}
	return nil
}

// Exceeded returns the queues that hold more than their limit, parents first, not counting victims that are about to leave. Only the
// outside world can bring that about: somebody else's bindings, a limit that was lowered, a queue or a namespace that has moved.
func (s *Store) Exceeded() []*Queue {
	over := s.over(nil)
	if len(over) == 0 {
		return nil
	}
	leaving := make(map[*Queue][]int64)
	for _, pod := range s.pods {
		if !pod.Claimed() || pod.slot == NoSlot {
			continue
		}
		for q := pod.tenant.queue; q != nil; q = q.parent {
			leaving[q] = s.widen(leaving[q])
			add(leaving[q], pod.Class.Charge, 1)
		}
	}
	return s.over(leaving)
}

// over returns the queues above a limit without what leaves them.
func (s *Store) over(leaving map[*Queue][]int64) (over []*Queue) {
	s.EachQueue(func(q *Queue) {
		for kind := range q.limit {
			k := resource.Kind(kind)
			if q.Used(k)-at(leaving[q], k, 0) > q.Limit(k) {
				over = append(over, q)
				return
			}
		}
	})
	return over
}
