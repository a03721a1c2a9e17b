package queue

import (
	"cmp"
	"slices"
	"time"

	"hilbert.dev/hilbert/cluster"
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
	Pod      cluster.UID
	Unit     string // the gang, namespace/name; empty for none
	State    State
	Until    time.Time // Delayed: until when
	Limit    string    // QuotaBlocked: the queue whose limit it is
	Attempts int       // refusals in a row

	priority          int32
	created, sequence int64
}

// WaitingPods copies out every pod, in no particular order.
func (q *Queue) WaitingPods() []WaitingPod {
	list := make([]WaitingPod, 0, len(q.units))
	for uid, u := range q.units {
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

// Sort puts standings in order: by state, then (Delayed) by the end of the backoff, then by priority, age and arrival of the units, then by UID.
func Sort(list []WaitingPod) {
	slices.SortFunc(list, func(a, b WaitingPod) int {
		return cmp.Or(cmp.Compare(a.State, b.State), a.Until.Compare(b.Until), cmp.Compare(b.priority, a.priority),
			cmp.Compare(a.created, b.created), cmp.Compare(a.sequence, b.sequence), cmp.Compare(a.Pod, b.Pod))
	})
}

// Active is the number of units that would be tried now.
func (q *Queue) Active() int { return q.activeUnits }

// Sleeping is the number of units that no node fits or no limit has room for.
func (q *Queue) Sleeping() int { return q.parkedUnits + q.blockedUnits }

// QuotaBlocked is the number of units, of those that are parked, for which a limit leaves no room.
func (q *Queue) QuotaBlocked() int { return q.blockedUnits }

// BackingOff is the number of units that wait out a backoff.
func (q *Queue) BackingOff() int { return q.backoff.Len() }

// GatheringLen is the number of gangs that lack members.
func (q *Queue) GatheringLen() int { return len(q.gathering) }

// Gathering visits the gangs that lack members, in no particular order.
func (q *Queue) Gathering(visit func(*Unit)) {
	for _, u := range q.gathering {
		visit(u)
	}
}

// Waits reports whether the pod waits here.
func (q *Queue) Waits(uid cluster.UID) bool { return q.units[uid] != nil }

// Unit returns the unit that a pod waits in, nil if it does not wait.
func (q *Queue) Unit(uid cluster.UID) *Unit { return q.units[uid] }

// Gang returns the unit of a gang's members that wait, nil if none does.
func (q *Queue) Gang(gang *cluster.Unit) *Unit { return q.gangs[gang] }

// EachAlike visits the units of the queue and the shape of a unit that are ready, or are parked because no node fits, in no particular order.
func (q *Queue) EachAlike(u *Unit, visit func(*Unit)) {
	sq := u.shapeQueue
	if u.location != inShapeQueue {
		if u.Shape == nil {
			return
		}
		sq = q.shapeQueueOf(u)
	}
	for i := range sq.units.Len() {
		visit(sq.units.At(i))
	}
}

// Pending counts the units, and their pods, that wait in a queue and below it, however they do.
func (q *Queue) Pending(of *cluster.Queue) (units, pods int) {
	q.sync()
	if n := q.nodes[of]; n != nil {
		return n.units, n.pods
	}
	return 0, 0
}

// First returns the unit that would be the next of a queue if those that are parked counted too: the head of the shape queue. nil: none.
func (q *Queue) First(of *cluster.Queue) *Unit {
	q.sync()
	n := q.nodes[of]
	if n == nil {
		return nil
	}
	return n.firstOfAll()
}

// firstOfAll is what head would be if nobody slept.
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

// Position returns how many units of its queue come before a unit, those that are parked included and those that back off or lack members not.
// Where namespaces share the queue fairly, all units of those that have less come before, as things stand. It costs O(units of the queue).
func (q *Queue) Position(u *Unit) (ahead int) {
	q.sync()
	own := q.nodeOf(u)
	if own.policy.bySize && u.Shape == nil {
		u.Shape = q.shapeQueueOf(u).Shape
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
