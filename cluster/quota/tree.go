package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
)

// Root is the root of the tree of queues.
func (tree *Tree) Root() *Queue { return tree.root }

// Queue returns a queue by name, nil when it is not known.
func (tree *Tree) Queue(name string) *Queue { return tree.byName[name] }

// Each visits every queue but the root, parents before children, siblings by name.
func (tree *Tree) Each(visit func(*Queue)) {
	for _, q := range tree.root.children {
		q.Each(visit)
	}
}

// Configured reports whether queues are configured. If not, there is only the default queue, without a limit.
func (tree *Tree) Configured() bool { return tree.configured > 0 }

// QueueOf returns the queue that a namespace feeds.
func (tree *Tree) QueueOf(namespace string) *Queue { return tree.queueOf(namespace) }

// GPUKind is the Kind in which queues count GPUs, in thousandths.
func (tree *Tree) GPUKind() resource.Kind { return tree.gpuKind }

// Capacity is the sum over all nodes of what pods may request, GPUs as spec.ResourceGPUMilli.
func (tree *Tree) Capacity(kind resource.Kind) int64 { return tree.capacity.At(int(kind)) }

// Cursor is how far a reader has followed the changes of a Tree. The zero value has read nothing.
type Cursor struct {
	queues, tenants changes.Revision
	generation      uint64
	queueList       []*Queue
	tenantList      []*Tenant
}

// Changed returns the queues and tenants whose use or configuration has changed since the cursor, and moves the cursor. rebuilt says that
// the tree itself has changed: queues were added, removed, moved or configured anew, or namespaces feed others; or that the reader has fallen
// too far behind. The slices are valid until the cursor is used again.
func (tree *Tree) Changed(since *Cursor) (queues []*Queue, tenants []*Tenant, rebuilt bool) {
	var allQueues, allTenants bool
	since.queueList, allQueues = tree.changedQueues.Since(&since.queues, since.queueList[:0])
	since.tenantList, allTenants = tree.changedTenants.Since(&since.tenants, since.tenantList[:0])
	rebuilt = since.generation != tree.generation || !allQueues || !allTenants
	since.generation = tree.generation
	return since.queueList, since.tenantList, rebuilt
}

// SkipUse moves the cursor of a reader that need not know what queues and tenants use past their changes. It will still learn that the tree
// was rebuilt.
func (tree *Tree) SkipUse(since *Cursor) {
	tree.changedQueues.Skip(&since.queues)
	tree.changedTenants.Skip(&since.tenants)
}

// Tree is the tree of queues, and the accounts of the namespaces that feed it. It has a single writer, the ledger.
//
// It protects two sums: what a queue uses is what the pods of its tenants and of the queues below it hold, and what children are guaranteed
// is never more than their parent is. For example, with the queues research (guaranteed 10 CPUs) and research/vision (guaranteed 15), vision
// counts on 10; when a pod of 2 CPUs of a namespace that feeds vision is placed, Charge adds 2 CPUs to the namespace's account, to vision,
// to research and to the root.
//
// The tree is built anew from the facts alone whenever one of them changes, so that it depends neither on the order in which queues were
// seen nor on what stood before: a restart finds the same tree. What runs stays charged, wherever its queue has gone.
type Tree struct {
	kinds  *resource.Table
	labels func(namespace string) []facts.Label

	root       *Queue
	byName     map[string]*Queue
	tenants    map[string]*Tenant
	selectors  []*Queue // that select namespaces, by name
	configured int      // queues that are configured

	easeCount      uint64 // times that a queue was eased
	changedQueues  changes.Things[*Queue]
	changedTenants changes.Things[*Tenant]
	generation     uint64 // times that the tree was rebuilt

	capacity resource.Sums // by Kind
	gpuKind  resource.Kind
}

// NewTree returns a tree of the root and the default queue. labels returns the labels of a namespace, nil for one that is not known.
func NewTree(kinds *resource.Table, labels func(namespace string) []facts.Label) *Tree {
	tree := &Tree{
		kinds: kinds, labels: labels,
		root: &Queue{Name: facts.RootQueue}, byName: make(map[string]*Queue), tenants: make(map[string]*Tenant),
	}
	tree.gpuKind = kinds.Intern(spec.ResourceGPUMilli)
	tree.rebuild()
	return tree
}

// setQueue takes in what is known of a queue (nil: nothing), and reports whether the tree has to be planted anew.
func (tree *Tree) setQueue(name string, seen *facts.Queue) bool {
	q := tree.byName[name]
	if name == facts.RootQueue || q == nil && seen == nil {
		return false
	}
	if q == nil {
		q = &Queue{Name: name}
		tree.byName[name] = q
	}
	old := q.Facts
	q.Facts = seen
	if old != nil && seen != nil && facts.SameQueue(old, seen) {
		if old.Generation != seen.Generation || old.UID != seen.UID {
			tree.changedQueues.Note(q, &q.noted)
		}
		return false
	}
	if seen != nil {
		tree.configured++
		seen.EachResource(tree.kinds.Use)
	}
	if old != nil {
		tree.configured--
		old.EachResource(tree.kinds.Release)
	}
	return old != nil || seen != nil
}

// Upsert takes in a queue's configuration. It returns the tenants whose queue changed: which one they feed, or whether it refuses them.
func (tree *Tree) Upsert(queue *facts.Queue) []*Tenant {
	if tree.setQueue(queue.Name, queue) {
		return tree.rebuild()
	}
	return nil
}

// Remove forgets a queue's configuration, and returns as Upsert does.
func (tree *Tree) Remove(name string) []*Tenant {
	if tree.setQueue(name, nil) {
		return tree.rebuild()
	}
	return nil
}

// Replace takes in the complete list of queues, and returns as Upsert does.
func (tree *Tree) Replace(list []*facts.Queue) []*Tenant {
	changed := false
	listed := make(map[string]bool, len(list))
	for _, queue := range list {
		listed[queue.Name] = true
		changed = tree.setQueue(queue.Name, queue) || changed
	}
	for name := range tree.byName {
		if !listed[name] {
			changed = tree.setQueue(name, nil) || changed
		}
	}
	if changed {
		return tree.rebuild()
	}
	return nil
}

// Recount takes in that resources have got kinds which queues name and which had none. It returns as Upsert does.
func (tree *Tree) Recount() []*Tenant { return tree.rebuild() }

// Narrow gives back the memory of kinds that are no more.
func (tree *Tree) Narrow() {
	kinds := tree.kinds.Len()
	tree.capacity.Truncate(kinds)
	tree.root.narrow(kinds)
	for _, q := range tree.byName {
		q.narrow(kinds)
	}
	for _, t := range tree.tenants {
		t.used.Truncate(kinds)
	}
}

func (q *Queue) narrow(kinds int) {
	q.used.Truncate(kinds)
	if len(q.guaranteed) > kinds {
		q.guaranteed = slices.Clone(q.guaranteed[:kinds])
	}
	if len(q.limit) > kinds {
		q.limit = slices.Clone(q.limit[:kinds])
	}
}

// rebuild builds the tree of queues from what is known of them and of the namespaces. It costs time proportional to both, and returns the
// tenants whose queue changed, by name.
func (tree *Tree) rebuild() (moved []*Tenant) {
	before := make(map[*Tenant]standing, len(tree.tenants))
	for _, t := range tree.tenants {
		before[t] = t.standing()
	}
	if tree.byName[facts.DefaultQueue] == nil {
		tree.byName[facts.DefaultQueue] = &Queue{Name: facts.DefaultQueue}
	}
	tree.selectors = tree.selectors[:0]
	for _, q := range tree.byName {
		if q.Facts != nil && q.Facts.Namespaces != nil {
			tree.selectors = append(tree.selectors, q)
		}
	}
	slices.SortFunc(tree.selectors, compareQueues)
	tree.resettle()
	tree.graft()
	tree.recharge()
	tree.root.measure(tree)
	tree.root.share(tree)
	tree.generation++
	for _, name := range slices.Sorted(maps.Keys(tree.tenants)) {
		if t := tree.tenants[name]; t.standing() != before[t] {
			moved = append(moved, t)
		}
	}
	return moved
}

func compareQueues(a, b *Queue) int { return strings.Compare(a.Name, b.Name) }

// graft hangs every queue where its facts say, and those that say nonsense under the root.
func (tree *Tree) graft() {
	tree.root.children = nil
	for _, q := range tree.byName {
		q.parent, q.children, q.Problem, q.Refuses, q.depth = nil, nil, facts.Condition{}, false, 0
	}
	circular := tree.circles()
	for _, name := range slices.Sorted(maps.Keys(tree.byName)) {
		q := tree.byName[name]
		switch {
		case q.Facts == nil && name != facts.DefaultQueue:
			q.missing(tree.root)
		case q.Facts == nil || q.Facts.Parent == facts.RootQueue:
			q.parent = tree.root
		case tree.above(q) == nil:
			q.misplaced(tree.root, spec.ReasonQueueParentMissing, fmt.Sprintf("spec.parent: there is no Queue %q; create it, or name another", q.Facts.Parent))
		case circular[q]:
			q.misplaced(tree.root, spec.ReasonQueueParentCycle, fmt.Sprintf("spec.parent: %s is below %s itself; name another", q.Facts.Parent, q.Name))
		default:
			q.parent = tree.above(q)
		}
		q.parent.children = append(q.parent.children, q)
	}
	tree.root.deepen(nil)
}

// above is the queue that a queue's facts name as its parent, nil if there is none or they name none.
func (tree *Tree) above(q *Queue) *Queue {
	if q.Facts == nil || q.Facts.Parent == facts.RootQueue {
		return nil
	}
	if p := tree.byName[q.Facts.Parent]; p != nil && (p.Facts != nil || p.Name == facts.DefaultQueue) {
		return p
	}
	return nil
}

// circles returns the queues that are among their own ancestors. What only hangs below a circle is not in it.
func (tree *Tree) circles() map[*Queue]bool {
	circular := make(map[*Queue]bool)
	seen := make(map[*Queue]int, len(tree.byName)) // by the walk of that number
	walk := 0
	for _, q := range tree.byName {
		walk++
		for q != nil && seen[q] == 0 {
			seen[q] = walk
			q = tree.above(q)
		}
		if q == nil || seen[q] != walk {
			continue
		}
		for ; !circular[q]; q = tree.above(q) {
			circular[q] = true
		}
	}
	return circular
}

func (q *Queue) misplaced(root *Queue, reason, message string) {
	q.parent, q.Refuses = root, true
	q.Problem = facts.Condition{Reason: reason, Message: message + ". Until then it gets nothing new; what runs in it is left alone."}
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
			child.Problem = facts.Condition{
				Reason:  spec.ReasonQueueParentInvalid,
				Message: fmt.Sprintf("spec.parent: %s, above it, has no valid place in the tree: %s", culprit.Name, culprit.Problem.Message),
			}
		}
		child.deepen(blame)
	}
}

// recharge sums the use of all queues anew from the namespaces'.
func (tree *Tree) recharge() {
	tree.easeCount++
	tree.root.eased = tree.easeCount
	tree.root.used.Clear()
	tree.changedQueues.Note(tree.root, &tree.root.noted)
	for _, name := range slices.Sorted(maps.Keys(tree.byName)) { // in order, for the list of those that changed
		q := tree.byName[name]
		q.used.Clear()
		tree.changedQueues.Note(q, &q.noted)
		q.eased = tree.easeCount
	}
	for _, t := range tree.tenants {
		for q := t.queue; q != nil; q = q.parent {
			q.used.AddAll(&t.used, 1)
		}
	}
}
