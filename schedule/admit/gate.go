package admit

import (
	"maps"
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place/pack"
	"hilbert.dev/hilbert/schedule/queue"
)

// Gate admits units to the nodes. It joins the limits of queues, the claims on these limits, and the reserved nodes, because a unit needs all three.
type Gate struct {
	store *cluster.Store
	// Claims are the limits that are reserved for gangs that have waited long.
	Claims *Claims
	// Reservations are the nodes that are.
	Reservations *Reservations

	refusedGrants map[string]bool // queues of which a limit had no room for what a node would have given
}

// NewGate returns the gate of a ledger in which nothing is reserved.
func NewGate(store *cluster.Store, maxReservations int) *Gate {
	g := &Gate{store: store, refusedGrants: make(map[string]bool), Claims: &Claims{store: store, byQueue: make(map[*quota.Queue]claim)}}
	g.Reservations = &Reservations{store: store, gate: g, most: maxReservations, waiting: make(map[facts.UnitName]waiter)}
	return g
}

// RefusedGrant takes note that a limit has room for what a unit requests, but not for what the node that was chosen would give for it: the unit waits
// for the limit.
func (g *Gate) RefusedGrant(short quota.Shortfall) Shortfall {
	g.refusedGrants[short.Queue.Name] = true
	return Shortfall{Shortfall: short, Granted: true}
}

// RetryGrants has the units tried again that wait for such limits, because another node may give them less now. It is called every minute or so.
func (g *Gate) RetryGrants() {
	for _, name := range slices.Sorted(maps.Keys(g.refusedGrants)) {
		if q := g.store.Quota().Queue(name); q != nil {
			g.store.Quota().Ease(q)
		}
	}
	clear(g.refusedGrants)
}

// Release ends all that is reserved for a unit.
func (g *Gate) Release(name facts.UnitName) {
	g.Reservations.drop(name)
	g.Claims.drop(name)
}

// Ask says what a unit wants now: as many of its members as the limits of its queues leave room for. admitted is false when that is fewer
// than it needs; the ask is then for those that it needs.
func (g *Gate) Ask(u *queue.Unit) (ask *pack.Ask, short Shortfall, admitted bool) {
	members, need := u.Members(), u.Need()
	ask = &pack.Ask{Members: members, Need: need}
	if u.Gang != nil {
		ask.Topology, ask.Subgroups = u.Gang.Facts.Topology, u.Gang.Facts.SubgroupTopology
		for _, pod := range u.Gang.Pods() {
			if !pod.Placed() {
				continue
			}
			if slot := g.store.Slot(pod.Node()); slot != cluster.NoSlot { // else its node is gone, and it will be
				ask.Anchors = append(ask.Anchors, pack.Anchor{Slot: slot, Subgroup: pod.Subgroup})
			}
		}
	}
	if _, ok := g.Admits(u, ChargeOf(members)); ok {
		return ask, short, true
	}
	if short, admitted = g.Admits(u, ChargeOf(members[:need])); !admitted {
		ask.Members = members[:need]
		return ask, short, false
	}
	low, high := need, len(members) // the first are admitted, all are not
	for low+1 < high {
		middle := (low + high) / 2
		if _, ok := g.Admits(u, ChargeOf(members[:middle])); ok {
			low = middle
		} else {
			high = middle
		}
	}
	ask.Members = members[:low]
	return ask, short, true
}

// Admits reports whether the limits of a unit's queues leave room for a request, and if not, which limit does not.
func (g *Gate) Admits(u *queue.Unit, ask resource.List) (Shortfall, bool) {
	short, ok := u.Queue().Admits(ask)
	if !ok || len(g.Claims.byQueue) == 0 {
		return Shortfall{Shortfall: short}, ok
	}
	return g.Claims.admit(u, ask)
}

// ChargeOf is what some pods would be charged to their queue. Pods of one class stand side by side.
func ChargeOf(pods []*cluster.Pod) (sum resource.List) {
	for len(pods) > 0 {
		class, n := pods[0].Class, 1
		for n < len(pods) && pods[n].Class == class {
			n++
		}
		sum, pods = sum.Plus(class.Charge, int64(n)), pods[n:]
	}
	return sum
}

// needed is what the members that a gang needs would be charged.
func needed(u *queue.Unit) resource.List { return ChargeOf(u.Members()[:u.Need()]) }

// WithinGuarantee reports whether a queue would stay within its guarantee with a request added, in every resource that has one, and has one
// at all.
func WithinGuarantee(q *quota.Queue, ask resource.List) (some bool) {
	for _, a := range ask {
		guaranteed := q.Guaranteed(a.Kind)
		if guaranteed > 0 && q.Used(a.Kind)+a.Value > guaranteed {
			return false
		}
		some = some || guaranteed > 0
	}
	return some
}
