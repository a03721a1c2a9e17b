package quota

import (
	"math"

	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
)

// Unlimited is the limit where there is none.
const Unlimited = math.MaxInt64

// Queue is the ledger's record of a queue: its place in the tree, and what its pods hold. Only the Store changes it; others read.
type Queue struct {
	Name  string
	Facts *facts.Queue // nil for the root, and for the default queue while it is not configured
	// Problem says what is wrong with its configuration, and what is done about it. New units of a queue that Refuses are held.
	Problem facts.Condition
	// Refuses: its place in the tree is unknown or invalid, so it gets nothing new. What runs in it is left alone.
	Refuses bool

	parent     *Queue
	children   []*Queue // by name
	tenants    []*Tenant
	used       resource.Sums // by Kind, its descendants' included
	guaranteed []int64       // by Kind, as far as the parent can give it
	limit      []int64       // by Kind; nil: none has one
	eased      uint64        // the Store's count of easeCount after the latest here
	depth      int
	noted      changes.Revision // in Tree.changedQueues
}

// Tenant is a namespace's account with its queue.
type Tenant struct {
	Namespace string
	queue     *Queue
	seat      int              // in the queue's list
	pods      int              // that refer to it
	used      resource.Sums    // by Kind
	noted     changes.Revision // in Tree.changedTenants

	differs map[string]resource.List // by UID
}

// Queue is the leaf, or the inner queue, that the namespace feeds.
func (t *Tenant) Queue() *Queue { return t.queue }

// Differs returns what a pod is charged, if that is something else than its class says.
func (t *Tenant) Differs(uid string) (charge resource.List, differs bool) {
	if len(t.differs) == 0 {
		return nil, false
	}
	charge, differs = t.differs[uid]
	return charge, differs
}

// Differ takes note of what a pod is charged, or that it is charged what its class says.
func (t *Tenant) Differ(uid string, charge resource.List, differs bool) {
	switch {
	case !differs:
		delete(t.differs, uid)
	case t.differs == nil:
		t.differs = map[string]resource.List{uid: charge}
	default:
		t.differs[uid] = charge
	}
}

// Used is what the namespace's pods hold.
func (t *Tenant) Used(kind resource.Kind) int64 { return t.used.At(int(kind)) }

// Parent is nil for the root.
func (q *Queue) Parent() *Queue { return q.parent }

// Children are ordered by name; the caller must not change the slice.
func (q *Queue) Children() []*Queue { return q.children }

// Tenants are the namespaces that feed the queue and have pods, in no particular order; the caller must not change the slice.
func (q *Queue) Tenants() []*Tenant { return q.tenants }

// Used is what the queue's pods hold, those of the queues below it included, and those whose Binding is under way.
func (q *Queue) Used(kind resource.Kind) int64 { return q.used.At(int(kind)) }

// Guaranteed is what the queue can count on: its guarantee, scaled down if its parent has not enough for all its children.
func (q *Queue) Guaranteed(kind resource.Kind) int64 { return at(q.guaranteed, kind, 0) }

// Limit is what the queue must not exceed, Unlimited if there is none.
func (q *Queue) Limit(kind resource.Kind) int64 { return at(q.limit, kind, Unlimited) }

// Weight is at least 1.
func (q *Queue) Weight() int64 {
	if q.Facts == nil {
		return 1
	}
	return max(q.Facts.Weight, 1)
}

// ReclaimMinRuntime is for how long a pod of the queue has run before it may be evicted for another queue, in nanoseconds: what the queue says, else the
// nearest queue above it that says something, else nothing.
func (q *Queue) ReclaimMinRuntime() int64 {
	for ; q != nil; q = q.parent {
		if q.Facts != nil && q.Facts.ReclaimMinRuntime != nil {
			return *q.Facts.ReclaimMinRuntime
		}
	}
	return 0
}

// Sort is the queue's sort policy. Where it is not configured: Fair between queues, PriorityFIFO between units.
func (q *Queue) Sort() facts.SortPolicy {
	switch {
	case q.Facts != nil && q.Facts.Sort != facts.SortDefault:
		return q.Facts.Sort
	case len(q.children) > 0:
		return facts.Fair
	}
	return facts.PriorityFIFO
}

// Eased changes whenever the queue or one above it has more to give than before: something was freed, or the tree was planted anew. It only
// grows.
func (q *Queue) Eased() uint64 {
	var latest uint64
	for ; q != nil; q = q.parent {
		latest = max(latest, q.eased)
	}
	return latest
}

// Path names the queue and those above it: "research/vision/train"; empty for the root.
func (q *Queue) Path() string {
	if q.parent == nil || q.parent.parent == nil {
		return q.Name
	}
	return q.parent.Path() + "/" + q.Name
}

// Each visits the queue and all below it, parents first, siblings by name.
func (q *Queue) Each(visit func(*Queue)) {
	visit(q)
	for _, child := range q.children {
		child.Each(visit)
	}
}

// Borrows reports whether the queue holds more than its guarantee of a resource.
func (q *Queue) Borrows(kind resource.Kind) bool { return q.Used(kind) > q.Guaranteed(kind) }

func at(column []int64, kind resource.Kind, missing int64) int64 {
	if int(kind) >= len(column) {
		return missing
	}
	return column[kind]
}

// Shortfall is the first limit that stands in the way of a request.
type Shortfall struct {
	Queue *Queue
	Kind  resource.Kind
	// Asked, with Used, is more than Limit. If Asked alone is, no waiting helps.
	Asked, Used, Limit int64
}

// Admits reports whether the limits of a queue and of those above it leave room for a request. If not it says which is in the way: the
// lowest in the tree, the first resource by kind.
func (q *Queue) Admits(ask resource.List) (Shortfall, bool) {
	for ; q != nil; q = q.parent {
		if q.limit == nil {
			continue
		}
		for _, a := range ask {
			if limit := q.Limit(a.Kind); limit != Unlimited && a.Value > limit-q.Used(a.Kind) {
				return Shortfall{q, a.Kind, a.Value, q.Used(a.Kind), limit}, false
			}
		}
	}
	return Shortfall{}, true
}
