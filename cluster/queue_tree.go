package cluster

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/resource"
)

// The tree is planted anew from the facts alone whenever one of them changes, so that it depends neither on the order in which queues were
// seen nor on what stood before: a restart finds the same tree. What runs stays charged, wherever its queue has gone.

func (s *Store) setQueue(name string, facts *QueueFacts) {
	old := s.queues[name]
	if old == nil {
		if facts == nil {
			return
		}
		old = &Queue{Name: name}
		s.queues[name] = old
	}
	if (old.Facts == nil) != (facts == nil) {
		if facts != nil {
			s.configured++
		} else {
			s.configured--
		}
	}
	old.Facts = facts
}

func (s *Store) upsertQueue(facts *QueueFacts) {
	s.setQueue(facts.Name, facts)
	s.replant()
}

func (s *Store) removeQueue(name string) {
	s.setQueue(name, nil)
	s.replant()
}

func (s *Store) listQueues(list []*QueueFacts) {
	listed := make(map[string]bool, len(list))
	for _, f := range list {
		listed[f.Name] = true
		s.setQueue(f.Name, f)
	}
	for name := range s.queues {
		if !listed[name] {
			s.setQueue(name, nil)
		}
	}
	s.replant()
}

// replant builds the tree of queues from what is known of them and of the namespaces.
func (s *Store) replant() {
	refused := make(map[*Tenant]bool, len(s.tenants))
	for _, t := range s.tenants {
		refused[t] = t.queue.Refuses
	}
	if s.queues[DefaultQueue] == nil {
		s.queues[DefaultQueue] = &Queue{Name: DefaultQueue}
	}
	s.settleNamespaces()
	s.graft()
	s.recharge()
	s.root.measure(s)
	s.root.share(s)
	s.replanted = true
	for _, name := range slices.Sorted(maps.Keys(s.tenants)) {
		t := s.tenants[name]
		was, known := refused[t]
		if known && was == t.queue.Refuses && !t.moved {
			continue
		}
		t.moved = false
		for _, id := range s.inNamespace[name] {
			for _, pod := range id.pods {
				if pod.wants() {
					s.emit(pod)
				}
			}
		}
	}
}

// settleNamespaces finds out anew which queue each namespace feeds, and forgets the queues that nobody speaks of any more.
func (s *Store) settleNamespaces() {
	for _, q := range s.queues {
		q.tenants = q.tenants[:0]
	}
	for _, name := range slices.Sorted(maps.Keys(s.tenants)) {
		t := s.tenants[name]
		q := s.queueOf(name)
		t.moved, t.queue = t.moved || t.queue != q, q
		q.tenants = append(q.tenants, t)
	}
	for name, q := range s.queues {
		if q.Facts == nil && len(q.tenants) == 0 && name != DefaultQueue {
			delete(s.queues, name)
		}
	}
}

// queueOf returns the queue that a namespace feeds: the one that its label names, else the first by name that selects it, else the default.
func (s *Store) queueOf(namespace string) *Queue {
	labels := s.namespaces[namespace]
	if i, ok := slices.BinarySearchFunc(labels, spec.LabelQueue, func(l Label, key string) int { return strings.Compare(l.Key, key) }); ok {
		name := labels[i].Value
		q := s.queues[name]
		if q == nil { // nobody knows it yet: its pods have to wait for it
			q = &Queue{Name: name}
			s.queues[name] = q
			s.plantMissing(q)
		}
		return q
	}
	for _, q := range s.selecting() {
		if q.Facts.Namespaces.Matches(labels) {
			return q
		}
	}
	return s.queues[DefaultQueue]
}

// selecting returns the queues that select namespaces, by name.
func (s *Store) selecting() []*Queue {
	var list []*Queue
	for _, q := range s.queues {
		if q.Facts != nil && q.Facts.Namespaces != nil {
			list = append(list, q)
		}
	}
	slices.SortFunc(list, func(a, b *Queue) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// plantMissing hangs a queue that only a label knows under the root.
func (s *Store) plantMissing(q *Queue) {
	q.parent, q.depth, q.Refuses = s.root, 1, true
	q.Problem = Condition{
		Reason:  spec.ReasonQueueMissing,
		Message: fmt.Sprintf("there is no Queue %q: create it, or change the label %s of the namespace", q.Name, spec.LabelQueue),
	}
	s.root.children = append(s.root.children, q)
	slices.SortFunc(s.root.children, func(a, b *Queue) int { return strings.Compare(a.Name, b.Name) })
	s.replanted = true
}

// graft hangs every queue where its facts say, and those that say nonsense under the root.
func (s *Store) graft() {
	s.root.children = s.root.children[:0]
	for _, q := range s.queues {
		q.parent, q.children, q.Problem, q.Refuses, q.depth = nil, nil, Condition{}, false, 0
	}
	for _, name := range slices.Sorted(maps.Keys(s.queues)) {
		q := s.queues[name]
		switch {
		case q.Facts == nil && name != DefaultQueue:
			s.plantMissing(q)
			continue
		case q.Facts == nil || q.Facts.Parent == RootQueue:
			q.parent = s.root
		case s.queues[q.Facts.Parent] == nil || s.queues[q.Facts.Parent].Facts == nil && q.Facts.Parent != DefaultQueue:
			q.misplaced(s.root, spec.ReasonQueueParentMissing, fmt.Sprintf("spec.parent: there is no Queue %q; create it, or name another", q.Facts.Parent))
		case s.circular(q):
			q.misplaced(s.root, spec.ReasonQueueParentCycle, fmt.Sprintf("spec.parent: %s is below %s itself; name another", q.Facts.Parent, q.Name))
		default:
			q.parent = s.queues[q.Facts.Parent]
		}
		q.parent.children = append(q.parent.children, q)
	}
	slices.SortFunc(s.root.children, func(a, b *Queue) int { return strings.Compare(a.Name, b.Name) })
	s.root.deepen()
}

// circular reports whether a queue is among its own ancestors.
func (s *Store) circular(q *Queue) bool {
	up := q
	for range len(s.queues) {
		if up.Facts == nil || up.Facts.Parent == RootQueue {
			return false
		}
		if up = s.queues[up.Facts.Parent]; up == nil {
			return false
		}
		if up == q {
			return true
		}
	}
	return false // there is a circle above it; those in it say so
}

func (q *Queue) misplaced(root *Queue, reason, message string) {
	q.parent, q.Refuses = root, true
	q.Problem = Condition{Reason: reason, Message: message + ". Until then it gets nothing new; what runs in it is left alone."}
}

// deepen numbers the levels, and closes what hangs below a queue that refuses.
func (q *Queue) deepen() {
	for _, child := range q.children {
		child.depth = q.depth + 1
		if q.Refuses && !child.Refuses {
			child.Refuses = true
			child.Problem = Condition{Reason: spec.ReasonQueueParentInvalid, Message: fmt.Sprintf("spec.parent: %s has no valid place in the tree: %s", q.Name, q.Problem.Message)}
		}
		child.deepen()
	}
}

// recharge sums the use of all queues anew from the namespaces'.
func (s *Store) recharge() {
	clear(s.root.used)
	for _, q := range s.queues {
		clear(q.used)
		s.touchQueue(q)
		q.eased++
	}
	for _, t := range s.tenants {
		for q := t.queue; q != nil; q = q.parent {
			q.used = s.widen(q.used)
			for kind := range t.used {
				q.used[kind] += t.used[kind]
			}
		}
	}
}

// measure works out, from the leaves up, what each queue asks as its guarantee: what it names, and of the rest what its children ask.
func (q *Queue) measure(s *Store) {
	q.guaranteed, q.limit = nil, nil
	for _, child := range q.children {
		child.measure(s)
		for kind, amount := range child.guaranteed {
			q.guaranteed = s.widen(q.guaranteed)
			q.guaranteed[kind] = resource.Add(q.guaranteed[kind], amount)
		}
	}
	if q.Facts == nil {
		return
	}
	for _, a := range s.amountsOf(q, q.Facts.Guaranteed) {
		q.guaranteed = s.widen(q.guaranteed)
		q.guaranteed[a.Kind] = a.Value
	}
	for _, a := range s.amountsOf(q, q.Facts.Max) {
		q.restrict(s, a)
		if q.Guaranteed(a.Kind) > a.Value {
			q.guaranteed[a.Kind] = a.Value
			q.worry(spec.ReasonQueueGuaranteeTooLarge, "spec.guaranteed: more %s than spec.max allows; no more than that is guaranteed", s.kinds.Name(a.Kind))
		}
	}
}

// share gives, from the root down, each queue as much of its guarantee as its parent has: all of it, or its proportion. The root has all.
func (q *Queue) share(s *Store) {
	for kind := range s.kinds.Len() {
		k := resource.Kind(kind)
		var asked int64
		for _, child := range q.children {
			asked = resource.Add(asked, child.Guaranteed(k))
		}
		if has := q.Guaranteed(k); q.parent != nil && asked > has {
			for _, child := range q.children {
				if g := child.Guaranteed(k); g > 0 {
					child.guaranteed[k] = proportion(g, has, asked)
					child.worry(spec.ReasonQueueGuaranteeTooLarge,
						"spec.guaranteed: the children of %s ask for more %s than it is guaranteed; each is given its proportion", q.Name, s.kinds.Name(k))
				}
			}
		}
	}
	if q.Facts != nil && q.Facts.BorrowsNothing {
		for _, a := range s.amountsOf(q, q.Facts.Guaranteed) {
			q.restrict(s, resource.Amount{Kind: a.Kind, Value: q.Guaranteed(a.Kind)})
		}
	}
	for _, child := range q.children {
		child.share(s)
	}
}

// restrict lowers a limit.
func (q *Queue) restrict(s *Store, to resource.Amount) {
	for len(q.limit) < s.kinds.Len() {
		q.limit = append(q.limit, Unlimited)
	}
	q.limit[to.Kind] = min(q.limit[to.Kind], to.Value)
}

// worry takes note of a mistake that does not close the queue. The first one is told.
func (q *Queue) worry(reason, format string, args ...any) {
	if q.Problem == (Condition{}) {
		q.Problem = Condition{Reason: reason, Message: fmt.Sprintf(format, args...)}
	}
}

// amountsOf interns what a queue's facts name; a resource for which the table has no room is left out, and told.
func (s *Store) amountsOf(q *Queue, quantities []resource.Quantity) resource.List {
	var list resource.List
	for _, a := range quantities {
		kind, err := s.kinds.Intern(a.Name)
		if err != nil {
			q.worry(spec.ReasonQueueResourceUnknown, "%v; it is not counted", err)
			continue
		}
		list = append(list, resource.Amount{Kind: kind, Value: a.Amount})
	}
	s.growKinds()
	return list
}

// proportion returns a·b/c, rounded down, for 0 ≤ b < c.
func proportion(a, b, c int64) int64 {
	high, low := bits.Mul64(uint64(a), uint64(b))
	quotient, _ := bits.Div64(high, low, uint64(c)) // b < c, so that high < c
	return int64(quotient)
}
