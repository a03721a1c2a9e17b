package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"hilbert.dev/hilbert/api/spec"
)

// The tree is planted anew from the facts alone whenever one of them changes, so that it depends neither on the order in which queues were
// seen nor on what stood before: a restart finds the same tree. What runs stays charged, wherever its queue has gone.

// initQueues plants the root and the default queue.
func (s *Store) initQueues() {
	s.root = &Queue{Name: RootQueue}
	s.queues = make(map[string]*Queue)
	s.tenants = make(map[string]*Tenant)
	s.units = make(map[UnitName]*Unit)
	s.gpuKind, _ = s.kinds.Intern(spec.ResourceGPUMilli) // the table is empty: there is room
	s.growKinds()
	s.replant()
}

// setQueue takes in what is known of a queue (nil: nothing), and reports whether the tree has to be planted anew.
func (s *Store) setQueue(name string, facts *QueueFacts) bool {
	q := s.queues[name]
	if name == RootQueue || q == nil && facts == nil {
		return false
	}
	if q == nil {
		q = &Queue{Name: name}
		s.queues[name] = q
	}
	old := q.Facts
	q.Facts = facts
	if old != nil && facts != nil && sameQueue(old, facts) {
		if old.Generation != facts.Generation {
			s.touchQueue(q)
		}
		return false
	}
	if old != nil {
		s.configured--
	}
	if facts != nil {
		s.configured++
	}
	return old != nil || facts != nil
}

// sameQueue reports whether two observations of a queue ask for the same.
func sameQueue(a, b *QueueFacts) bool {
	if (a.Namespaces == nil) != (b.Namespaces == nil) || a.Namespaces != nil && !equalSelectors(a.Namespaces, b.Namespaces) {
		return false
	}
	return a.Parent == b.Parent && slices.Equal(a.Guaranteed, b.Guaranteed) && slices.Equal(a.Max, b.Max) && a.Weight == b.Weight &&
		a.Sort == b.Sort && a.HalfLife == b.HalfLife &&
		a.BorrowsNothing == b.BorrowsNothing && a.KeepsBorrowed == b.KeepsBorrowed && a.NeverPreempts == b.NeverPreempts
}

func (s *Store) upsertQueue(facts *QueueFacts) {
	if s.setQueue(facts.Name, facts) {
		s.replant()
	}
}

func (s *Store) removeQueue(name string) {
	if s.setQueue(name, nil) {
		s.replant()
	}
}

func (s *Store) listQueues(list []*QueueFacts) {
	changed := false
	listed := make(map[string]bool, len(list))
	for _, f := range list {
		listed[f.Name] = true
		changed = s.setQueue(f.Name, f) || changed
	}
	for name := range s.queues {
		if !listed[name] {
			changed = s.setQueue(name, nil) || changed
		}
	}
	if changed {
		s.replant()
	}
}

// standing is what the pods of a namespace know of their queue.
type standing struct {
	queue   *Queue
	refuses bool
	problem Condition
}

func (t *Tenant) standing() standing {
	st := standing{queue: t.queue, refuses: t.queue.Refuses}
	if st.refuses { // else the pods do not care
		st.problem = t.queue.Problem
	}
	return st
}

// replant builds the tree of queues from what is known of them and of the namespaces. It costs time proportional to both.
func (s *Store) replant() {
	before := make(map[*Tenant]standing, len(s.tenants))
	for _, t := range s.tenants {
		before[t] = t.standing()
	}
	if s.queues[DefaultQueue] == nil {
		s.queues[DefaultQueue] = &Queue{Name: DefaultQueue}
	}
	s.selectors = s.selectors[:0]
	for _, q := range s.queues {
		if q.Facts != nil && q.Facts.Namespaces != nil {
			s.selectors = append(s.selectors, q)
		}
	}
	slices.SortFunc(s.selectors, compareQueues)
	s.resettle()
	s.graft()
	s.recharge()
	s.root.measure(s)
	s.root.share(s)
	s.replanted = true
	for _, name := range slices.Sorted(maps.Keys(s.tenants)) {
		if t := s.tenants[name]; t.standing() != before[t] {
			s.tell(t)
		}
	}
}

func compareQueues(a, b *Queue) int { return strings.Compare(a.Name, b.Name) }

// graft hangs every queue where its facts say, and those that say nonsense under the root.
func (s *Store) graft() {
	s.root.children = nil
	for _, q := range s.queues {
		q.parent, q.children, q.Problem, q.Refuses, q.depth = nil, nil, Condition{}, false, 0
	}
	circular := s.circles()
	for _, name := range slices.Sorted(maps.Keys(s.queues)) {
		q := s.queues[name]
		switch {
		case q.Facts == nil && name != DefaultQueue:
			q.missing(s.root)
		case q.Facts == nil || q.Facts.Parent == RootQueue:
			q.parent = s.root
		case s.above(q) == nil:
			q.misplaced(s.root, spec.ReasonQueueParentMissing, fmt.Sprintf("spec.parent: there is no Queue %q; create it, or name another", q.Facts.Parent))
		case circular[q]:
			q.misplaced(s.root, spec.ReasonQueueParentCycle, fmt.Sprintf("spec.parent: %s is below %s itself; name another", q.Facts.Parent, q.Name))
		default:
			q.parent = s.above(q)
		}
		q.parent.children = append(q.parent.children, q)
	}
	s.root.deepen(nil)
}

// above is the queue that a queue's facts name as its parent, nil if there is none or they name none.
func (s *Store) above(q *Queue) *Queue {
	if q.Facts == nil || q.Facts.Parent == RootQueue {
		return nil
	}
	if p := s.queues[q.Facts.Parent]; p != nil && (p.Facts != nil || p.Name == DefaultQueue) {
		return p
	}
	return nil
}

// circles returns the queues that are among their own ancestors. What only hangs below a circle is not in it.
func (s *Store) circles() map[*Queue]bool {
	circular := make(map[*Queue]bool)
	seen := make(map[*Queue]int, len(s.queues)) // by the walk of that number
	walk := 0
	for _, q := range s.queues {
		walk++
		for q != nil && seen[q] == 0 {
			seen[q] = walk
			q = s.above(q)
		}
		if q == nil || seen[q] != walk {
			continue
		}
		for ; !circular[q]; q = s.above(q) {
			circular[q] = true
		}
	}
	return circular
}

func (q *Queue) misplaced(root *Queue, reason, message string) {
	q.parent, q.Refuses = root, true
	q.Problem = Condition{Reason: reason, Message: message + ". Until then it gets nothing new; what runs in it is left alone."}
}

// deepen numbers the levels, and closes what hangs below a queue that refuses (culprit, nil for none).
func (q *Queue) deepen(culprit *Queue) {
	for _, child := range q.children {
		child.depth = q.depth + 1
		blame := culprit
		switch {
		case child.Refuses:
			blame = child
		case culprit != nil:
			child.Refuses = true
			child.Problem = Condition{
				Reason:  spec.ReasonQueueParentInvalid,
				Message: fmt.Sprintf("spec.parent: %s, above it, has no valid place in the tree: %s", culprit.Name, culprit.Problem.Message),
			}
		}
		child.deepen(blame)
	}
}

// recharge sums the use of all queues anew from the namespaces'.
func (s *Store) recharge() {
	s.easings++
	s.root.eased = s.easings
	clear(s.root.used)
	s.touchQueue(s.root)
	for _, name := range slices.Sorted(maps.Keys(s.queues)) { // in order, for the list of those that changed
		q := s.queues[name]
		clear(q.used)
		s.touchQueue(q)
		q.eased = s.easings
	}
	for _, t := range s.tenants {
		for q := t.queue; q != nil; q = q.parent {
			q.used = s.widen(q.used)
			for kind, amount := range t.used {
				q.used[kind] += amount
			}
		}
	}
}
