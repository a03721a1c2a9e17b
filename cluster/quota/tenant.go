package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
)

// standing is what the pods of a namespace know of their queue.
type standing struct {
	queue   *Queue
	refuses bool
	problem facts.Condition
}

func (t *Tenant) standing() standing {
	st := standing{queue: t.queue, refuses: t.queue.Refuses}
	if st.refuses { // else the pods do not care
		st.problem = t.queue.Problem
	}
	return st
}

// Join returns the account of a namespace, for one more pod that refers to it.
func (tree *Tree) Join(namespace string) *Tenant {
	t := tree.tenants[namespace]
	if t == nil {
		t = &Tenant{Namespace: namespace}
		tree.tenants[namespace] = t
		tree.feed(t, tree.queueOf(namespace))
	}
	t.pods++
	return t
}

// Leave ends a pod's reference to its account. The account goes with the last.
func (tree *Tree) Leave(t *Tenant) {
	t.pods--
	if t.pods == 0 {
		delete(tree.tenants, t.Namespace)
		tree.unfeed(t)
		tree.forgetQueue(t.queue)
	}
}

// feed enters an account in a queue's list; unfeed takes it out.
func (tree *Tree) feed(t *Tenant, q *Queue) {
	t.queue, t.seat = q, len(q.tenants)
	q.tenants = append(q.tenants, t)
}

func (tree *Tree) unfeed(t *Tenant) {
	list := t.queue.tenants
	last := len(list) - 1
	list[t.seat], list[last].seat = list[last], t.seat
	list[last] = nil
	t.queue.tenants = list[:last]
}

// Relabel lets a namespace whose labels have changed feed the queue that it should, and returns its account if that is another one than
// before. It costs as many steps as queues are above, so that a list of many namespaces costs no more than its length.
func (tree *Tree) Relabel(namespace string) *Tenant {
	t := tree.tenants[namespace]
	if t == nil {
		return nil
	}
	to, from := tree.queueOf(namespace), t.queue
	if to == from {
		return nil
	}
	tree.unfeed(t)
	tree.shift(from, &t.used, -1)
	tree.feed(t, to)
	tree.shift(to, &t.used, 1)
	tree.forgetQueue(from)
	tree.generation++
	return t
}

// resettle finds out anew which queue each namespace feeds, and forgets the queues that nothing names any more.
func (tree *Tree) resettle() {
	for _, q := range tree.byName {
		clear(q.tenants)
		q.tenants = q.tenants[:0]
	}
	for _, name := range slices.Sorted(maps.Keys(tree.tenants)) {
		tree.feed(tree.tenants[name], tree.queueOf(name))
	}
	for name, q := range tree.byName {
		if q.idle() {
			delete(tree.byName, name)
		}
	}
}

// idle reports whether nothing names a queue, and it need not be there.
func (q *Queue) idle() bool {
	return q.Facts == nil && len(q.tenants) == 0 && q.Name != facts.DefaultQueue
}

// forgetQueue takes a queue out of the tree that only a namespace spoke of, if none does any more.
func (tree *Tree) forgetQueue(q *Queue) {
	if !q.idle() {
		return
	}
	delete(tree.byName, q.Name)
	if at, found := slices.BinarySearchFunc(tree.root.children, q.Name, compareQueueName); found {
		tree.root.children = slices.Delete(tree.root.children, at, at+1)
	}
	tree.generation++
}

// queueOf returns the queue that a namespace feeds: the one that its label names, else the first by name that selects it, else the default.
func (tree *Tree) queueOf(namespace string) *Queue {
	labels := tree.labels(namespace)
	if name := queueLabel(labels); name != facts.RootQueue {
		q := tree.byName[name]
		if q == nil { // it is not known yet: the pods wait for it
			q = &Queue{Name: name}
			tree.byName[name] = q
			tree.plantMissing(q)
		}
		return q
	}
	for _, q := range tree.selectors {
		if q.Facts.Namespaces.Matches(labels) {
			return q
		}
	}
	return tree.byName[facts.DefaultQueue]
}

// queueLabel is the queue that a namespace's labels name. An empty name is none.
func queueLabel(labels []facts.Label) string {
	at, found := slices.BinarySearchFunc(labels, spec.LabelQueue, func(l facts.Label, key string) int { return strings.Compare(l.Key, key) })
	if !found {
		return ""
	}
	return labels[at].Value
}

// plantMissing hangs a queue that only a label knows under the root.
func (tree *Tree) plantMissing(q *Queue) {
	q.missing(tree.root)
	at, _ := slices.BinarySearchFunc(tree.root.children, q.Name, compareQueueName)
	tree.root.children = slices.Insert(tree.root.children, at, q)
	tree.generation++
}

func compareQueueName(q *Queue, name string) int { return strings.Compare(q.Name, name) }

// missing closes a queue that only labels name.
func (q *Queue) missing(root *Queue) {
	q.parent, q.depth, q.Refuses = root, 1, true
	q.Problem = facts.Condition{
		Reason:  spec.ReasonQueueMissing,
		Message: fmt.Sprintf("there is no Queue %q: create it, or change the label %s of the namespace", q.Name, spec.LabelQueue),
	}
}
