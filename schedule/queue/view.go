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
	Ready   State = iota + 1 // would be tried now
	Delayed                  // waits out a backoff
	Asleep                   // its line is parked: no node fits
	OverMax                  // a queue's limit leaves no room
	Gathers                  // its gang lacks members
)

// Standing is a pod as it waits, copied out of the queue.
type Standing struct {
	Pod      cluster.UID
	Unit     string // the gang, namespace/name; empty for none
	State    State
	Until    time.Time // Delayed: until when
	Limit    string    // OverMax: the queue whose limit it is
	Attempts int       // refusals in a row

	priority          int32
	created, sequence int64
}

// Standings copies out every pod, in no particular order.
func (q *Queue) Standings() []Standing {
	list := make([]Standing, 0, len(q.units))
	for uid, u := range q.units {
		s := Standing{Pod: uid, State: Ready, Attempts: u.Attempts, priority: u.Priority, created: u.Created, sequence: int64(u.sequence)}
		if u.Gang != nil {
			s.Unit = u.Gang.String()
		}
		switch {
		case u.at == inRest:
			s.State, s.Until = Delayed, u.until
		case u.at == inMuster:
			s.State = Gathers
		case u.at == inJam:
			s.State, s.Limit = OverMax, u.line.jam.at.Name
		case u.at == inLine && u.line.parked:
			s.State = Asleep
		}
		list = append(list, s)
	}
	return list
}

// Sort puts standings in order: by state, then (Delayed) by the end of the backoff, then by priority, age and arrival of the units, then by UID.
func Sort(list []Standing) {
	slices.SortFunc(list, func(a, b Standing) int {
		return cmp.Or(cmp.Compare(a.State, b.State), a.Until.Compare(b.Until), cmp.Compare(b.priority, a.priority),
			cmp.Compare(a.created, b.created), cmp.Compare(a.sequence, b.sequence), cmp.Compare(a.Pod, b.Pod))
	})
}

// Active is the number of units that would be tried now.
func (q *Queue) Active() int { return q.active }

// Sleeping is the number of units that no node fits or no limit has room for.
func (q *Queue) Sleeping() int { return q.sleeping + q.jammed }

// QuotaBlocked is the number of units, of those that sleep, for which a limit leaves no room.
func (q *Queue) QuotaBlocked() int { return q.jammed }

// BackingOff is the number of units that wait out a backoff.
func (q *Queue) BackingOff() int { return q.rested.Len() }

// GatheringLen is the number of gangs that lack members.
func (q *Queue) GatheringLen() int { return len(q.muster) }

// Gathering visits the gangs that lack members, in no particular order.
func (q *Queue) Gathering(visit func(*Unit)) {
	for _, u := range q.muster {
		visit(u)
	}
}

// Waits reports whether the pod waits here.
func (q *Queue) Waits(uid cluster.UID) bool { return q.units[uid] != nil }

// Unit returns the unit that a pod waits in, nil if it does not wait.
func (q *Queue) Unit(uid cluster.UID) *Unit { return q.units[uid] }

// Gang returns the unit of a gang's members that wait, nil if none does.
func (q *Queue) Gang(gang *cluster.Unit) *Unit { return q.gangs[gang] }

// EachWaiting visits the units of the queue and the shape of a unit that are ready, or sleep because no node fits, in no particular order.
func (q *Queue) EachWaiting(u *Unit, visit func(*Unit)) {
	l := u.line
	if u.at != inLine {
		if u.Shape == nil {
			return
		}
		l = q.lineOf(u)
	}
	for i := range l.units.Len() {
		visit(l.units.At(i))
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

// First returns the unit that would be the next of a queue if those that sleep counted too: the head of the line. nil: none.
func (q *Queue) First(of *cluster.Queue) *Unit {
	q.sync()
	n := q.nodes[of]
	if n == nil {
		return nil
	}
	return n.foremost()
}

// foremost is what head would be if nobody slept.
func (n *node) foremost() (first *Unit) {
	if n.lines != nil {
		n.eachLine(func(l *Line) {
			if l.units.Len() > 0 {
				first = n.policy.earlier(first, l.units.First())
			}
			if l.jam != nil {
				l.jam.each(func(u *Unit) { first = n.policy.earlier(first, u) })
			}
		})
		return first
	}
	var best *node
	n.eachBelow(func(child *node) {
		u := child.foremost()
		if u == nil {
			return
		}
		if first == nil || n.policy.shares && lacking(child, best) || !n.policy.shares && n.policy.units(u, first) {
			best, first = child, u
		}
	})
	return first
}

// earlier returns that of two units which comes first; a may be nil.
func (p *policy) earlier(a, b *Unit) *Unit {
	if a == nil || p.units(b, a) {
		return b
	}
	return a
}

func (n *node) eachLine(visit func(*Line)) {
	for _, l := range n.singles {
		visit(l)
	}
	for _, l := range n.gangs {
		visit(l)
	}
}

func (n *node) eachBelow(visit func(*node)) {
	for _, child := range n.children {
		visit(child)
	}
	for _, child := range n.tenants {
		visit(child)
	}
}

// Position returns how many units of its queue come before a unit, those that sleep included and those that back off or lack members not.
// Where namespaces share the queue fairly, all units of those that have less come before, as things stand. It costs O(units of the queue).
func (q *Queue) Position(u *Unit) (ahead int) {
	q.sync()
	own := q.seat(u)
	if own.policy.sizes && u.Shape == nil {
		u.Shape = q.lineOf(u).Shape
	}
	count := func(n *node) {
		one := func(v *Unit) {
			if v != u && (n != own || n.policy.units(v, u)) {
				ahead++
			}
		}
		n.eachLine(func(l *Line) {
			for i := range l.units.Len() {
				one(l.units.At(i))
			}
			if l.jam != nil {
				l.jam.each(one)
			}
		})
	}
	if u.home.tenants == nil {
		count(own)
		return ahead
	}
	for _, n := range u.home.tenants {
		if n == own || lacking(n, own) {
			count(n)
		}
	}
	return ahead
}
