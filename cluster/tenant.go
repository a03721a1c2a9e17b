package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"hilbert.dev/hilbert/api/spec"
)

// A namespace has an account while it has pods. Which queue it feeds follows from its labels and from the queues alone, so that a
// restart finds the same; when that changes, what its pods hold goes along, and none of them is disturbed.

// tenant returns the account of a namespace.
func (s *Store) tenant(namespace string) *Tenant {
	t := s.tenants[namespace]
	if t == nil {
		t = &Tenant{Namespace: namespace}
		s.tenants[namespace] = t
		s.feed(t, s.queueOf(namespace))
	}
	return t
}

// leaveTenant ends a pod's reference to its account.
func (s *Store) leaveTenant(pod *Pod) {
	t := pod.tenant
	t.pods--
	if t.pods == 0 {
		delete(s.tenants, t.Namespace)
		s.unfeed(t)
		s.forgetQueue(t.queue)
	}
}

// feed enters an account in a queue's list; unfeed takes it out.
func (s *Store) feed(t *Tenant, q *Queue) {
	t.queue, t.seat = q, len(q.tenants)
	q.tenants = append(q.tenants, t)
}

func (s *Store) unfeed(t *Tenant) {
	list := t.queue.tenants
	last := len(list) - 1
	list[t.seat], list[last].seat = list[last], t.seat
	list[last] = nil
	t.queue.tenants = list[:last]
}

// transfer lets a namespace whose labels have changed feed the queue that it should. It costs as many steps as queues are above, so that a
// list of many namespaces costs no more than its length.
func (s *Store) transfer(t *Tenant) {
	to, from := s.queueOf(t.Namespace), t.queue
	if to == from {
		return
	}
	s.unfeed(t)
	s.shift(from, t.used, -1)
	s.feed(t, to)
	s.shift(to, t.used, 1)
	s.forgetQueue(from)
	s.replanted = true
	s.tell(t)
}

// tell says of the namespace's pods which wait that they wait for something else now.
func (s *Store) tell(t *Tenant) {
	for _, id := range s.inNamespace[t.Namespace] {
		for _, pod := range id.pods {
			if pod.wants() {
				s.emit(pod)
			}
		}
	}
}

// resettle finds out anew which queue each namespace feeds, and forgets the queues that nobody speaks of any more.
func (s *Store) resettle() {
	for _, q := range s.queues {
		clear(q.tenants)
		q.tenants = q.tenants[:0]
	}
	for _, name := range slices.Sorted(maps.Keys(s.tenants)) {
		s.feed(s.tenants[name], s.queueOf(name))
	}
	for name, q := range s.queues {
		if q.idle() {
			delete(s.queues, name)
		}
	}
}

// idle reports whether nobody speaks of a queue, and none has to be there.
func (q *Queue) idle() bool { return q.Facts == nil && len(q.tenants) == 0 && q.Name != DefaultQueue }

// forgetQueue takes a queue out of the tree that only a namespace spoke of, if none does any more.
func (s *Store) forgetQueue(q *Queue) {
	if !q.idle() {
		return
	}
	delete(s.queues, q.Name)
	if at, found := slices.BinarySearchFunc(s.root.children, q.Name, compareQueueName); found {
		s.root.children = slices.Delete(s.root.children, at, at+1)
	}
	s.replanted = true
}

// queueOf returns the queue that a namespace feeds: the one that its label names, else the first by name that selects it, else the default.
func (s *Store) queueOf(namespace string) *Queue {
	labels := s.namespaces[namespace]
	if name := queueLabel(labels); name != RootQueue {
		q := s.queues[name]
		if q == nil { // nobody knows it yet: its pods have to wait for it
			q = &Queue{Name: name}
			s.queues[name] = q
			s.plantMissing(q)
		}
		return q
	}
	for _, q := range s.selectors {
		if q.Facts.Namespaces.Matches(labels) {
			return q
		}
	}
	return s.queues[DefaultQueue]
}

// queueLabel is the queue that a namespace's labels name. An empty name is none.
func queueLabel(labels []Label) string {
	at, found := slices.BinarySearchFunc(labels, spec.LabelQueue, func(l Label, key string) int { return strings.Compare(l.Key, key) })
	if !found {
		return ""
	}
	return labels[at].Value
}

// plantMissing hangs a queue that only a label knows under the root.
func (s *Store) plantMissing(q *Queue) {
	q.missing(s.root)
	at, _ := slices.BinarySearchFunc(s.root.children, q.Name, compareQueueName)
	s.root.children = slices.Insert(s.root.children, at, q)
	s.replanted = true
}

func compareQueueName(q *Queue, name string) int { return strings.Compare(q.Name, name) }

// missing closes a queue that only labels name.
func (q *Queue) missing(root *Queue) {
	q.parent, q.depth, q.Refuses = root, 1, true
	q.Problem = Condition{
		Reason:  spec.ReasonQueueMissing,
		Message: fmt.Sprintf("there is no Queue %q: create it, or change the label %s of the namespace", q.Name, spec.LabelQueue),
	}
}
