package queue

import (
	"cmp"
	"slices"
	"time"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/quota"
)

// State is how a pod waits.
type State uint8

// The states, in the order in which Sort puts them.
const (
	Ready        State = iota + 1 // would be tried now
	BackingOff                    // waits out a backoff
	Parked                        // its shape queue is parked: no node fits
	QuotaBlocked                  // a queue's limit leaves no room
	Gathering                     // its gang lacks members
)

// WaitingPod is a pod as it waits, copied out of the queue.
type WaitingPod struct {
	Pod      facts.UID
	Unit     string // the gang, namespace/name; empty for none
	State    State
	Until    time.Time // Delayed: until when
	Limit    string    // QuotaBlocked: the queue whose limit it is
	Attempts int       // refusals in a row

	priority          int32
	created, sequence int64
}

// View is the read side of a Queue, for callers that show how units wait and must not change it. It costs a copy or a
// walk over the units, so decisions do not use it.
type View struct{ queue *Queue }

// View returns the read side.
func (q *Queue) View() View { return View{q} }

// Pods copies out every pod, in no particular order.
func (v View) Pods() []WaitingPod {
	list := make([]WaitingPod, 0, len(v.queue.units))
	for uid, u := range v.queue.units {
		s := WaitingPod{Pod: uid, State: Ready, Attempts: u.Attempts, priority: u.Priority, created: u.Created, sequence: int64(u.sequence)}
		if u.Gang != nil {
			s.Unit = u.Gang.String()
		}
		switch {
		case u.location == inBackoff:
			s.State, s.Until = BackingOff, u.until
		case u.location == inGathering:
			s.State = Gathering
		case u.location == inQuotaBlock:
			s.State, s.Limit = QuotaBlocked, u.shapeQueue.blocked.limiting.Name
		case u.location == inShapeQueue && u.shapeQueue.parked:
			s.State = Parked
		}
		list = append(list, s)
	}
	return list
}

// Sort puts pods in order: by state, then (BackingOff) by the end of the backoff, then by priority, age and arrival of the units, then by UID.
func Sort(list []WaitingPod) {
	slices.SortFunc(list, func(a, b WaitingPod) int {
		return cmp.Or(cmp.Compare(a.State, b.State), a.Until.Compare(b.Until), cmp.Compare(b.priority, a.priority),
			cmp.Compare(a.created, b.created), cmp.Compare(a.sequence, b.sequence), cmp.Compare(a.Pod, b.Pod))
	})
}

// Gathering visits the gangs that lack members, in no particular order.
func (v View) Gathering(visit func(*Unit)) {
	for _, u := range v.queue.gathering.units {
		visit(u)
	}
}

// Pending counts the units, and their pods, that wait in a queue and below it, however they do.
func (v View) Pending(of *quota.Queue) (units, pods int) {
	v.queue.sync()
	if n := v.queue.tree.nodes[of]; n != nil {
		return n.units, n.pods
	}
	return 0, 0
}

// First returns the unit that would be the next of a queue if parked and blocked units counted too: the head of the queue. nil: none.
func (v View) First(of *quota.Queue) *Unit {
	v.queue.sync()
	n := v.queue.tree.nodes[of]
	if n == nil {
		return nil
	}
	return n.firstOfAll()
}

// firstOfAll is what head would be if no unit were parked or blocked.
func (n *node) firstOfAll() (first *Unit) {
	if n.shapeQueues != nil {
		n.eachShapeQueue(func(sq *ShapeQueue) {
			if sq.units.Len() > 0 {
				first = n.policy.firstOf(first, sq.units.First())
			}
			if sq.blocked != nil {
				sq.blocked.each(func(u *Unit) { first = n.policy.firstOf(first, u) })
			}
		})
		return first
	}
	var best *node
	n.eachChild(func(child *node) {
		u := child.firstOfAll()
		if u == nil {
			return
		}
		if first == nil || n.policy.byShare && lowerShare(child, best) || !n.policy.byShare && n.policy.units(u, first) {
			best, first = child, u
		}
	})
	return first
}

// firstOf returns that of two units which comes first; a may be nil.
func (p *policy) firstOf(a, b *Unit) *Unit {
	if a == nil || p.units(b, a) {
		return b
	}
	return a
}

func (n *node) eachShapeQueue(visit func(*ShapeQueue)) {
	for _, sq := range n.singles {
		visit(sq)
	}
	for _, sq := range n.gangs {
		visit(sq)
	}
}

func (n *node) eachChild(visit func(*node)) {
	for _, child := range n.children {
		visit(child)
	}
	for _, child := range n.tenants {
		visit(child)
	}
}

// Position returns how many units of its queue come before a unit, parked ones included, those that back off or lack members not.
// Where namespaces share the queue fairly, all units of those that have less come before, as things stand. It costs O(units of the queue).
func (v View) Position(u *Unit) (ahead int) {
	v.queue.sync()
	own := v.queue.tree.nodeOf(u, &v.queue.queues)
	if own.policy.bySize && u.Shape == nil {
		u.Shape = v.queue.shapeQueueOf(u).Shape
	}
	count := func(n *node) {
		one := func(v *Unit) {
			if v != u && (n != own || n.policy.units(v, u)) {
				ahead++
			}
		}
		n.eachShapeQueue(func(sq *ShapeQueue) {
			for i := range sq.units.Len() {
				one(sq.units.At(i))
			}
			if sq.blocked != nil {
				sq.blocked.each(one)
			}
		})
	}
	if u.leaf.tenants == nil {
		count(own)
		return ahead
	}
	for _, n := range u.leaf.tenants {
		if n == own || lowerShare(n, own) {
			count(n)
		}
	}
	return ahead
}
