package relief

import (
	"cmp"
	"slices"
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/bind"
)

// A gang that runs keeps minCount members, or goes whole. While it has more than it needs, members leave one by one. When one leaves without whom the
// others are too few, they follow, whatever node they are on: what they hold could do nothing any more. Nodes' requests of pods that leave alone come first,
// then those that lose least of the work of others.
//
// Example: node a wants member g-0 of a gang of three gone, and the single pod s. s goes first. If a still wants g-0, it is evicted; once the API server has
// let it go, g-1 and g-2 follow, on nodes b and c. If a disruption budget holds g-0 back, nothing follows.
//
// A member that cannot have what it was promised leaves alone: it does not run yet, and a new one joins the gang elsewhere.

// toll is what an eviction costs besides the pod itself.
type toll struct {
	held bool          // it must not begin now: it is not clear yet whether its gang goes whole, or the pod goes with its gang anyway
	gang *cluster.Unit // that goes with it; nil: it goes alone
	lost time.Duration // how long the others have run, together
}

// tollOf works out what the eviction of a pod costs.
func (r *Relief) tollOf(req *request, now time.Time) (t toll) {
	pod := r.store.Pod(req.UID)
	if r.followers[req.UID] != nil {
		return toll{held: true}
	}
	if pod == nil || pod.Unit == nil || !pod.Unit.Atomic() || req.Broken {
		return toll{}
	}
	leaving, online := 0, false
	for _, member := range pod.Unit.Pods() {
		if !member.Placed() {
			continue
		}
		online = online || !member.Class.Reclaimed
		other := r.requests[requestKey{member.Node(), member.UID}]
		switch {
		case r.followers[member.UID] != nil || other != nil && other.falls != nil && other.inFlight:
			return toll{held: true}
		case member == pod:
		case pod.Unit.Evicted(member.UID): // for whatever reason: preemption evicts members, too
			leaving++
		case member.Started != 0:
			t.lost += max(now.Sub(time.Unix(0, member.Started)), 0)
		}
	}
	if pod.Unit.Spare() > leaving {
		return toll{}
	}
	if online {
		return toll{held: true} // a node's pressure never takes a pod that is not reclaimed, and the gang cannot run without it
	}
	t.gang = pod.Unit
	return t
}

// cheapest orders the requests of one node: first those that cost others least, then as the node ranks them. What must not begin now is left out.
func (r *Relief) cheapest(list []*request, now time.Time) []*request {
	for _, req := range list {
		req.toll = r.tollOf(req, now)
	}
	list = slices.DeleteFunc(list, func(req *request) bool { return req.toll.held })
	slices.SortFunc(list, func(a, b *request) int {
		return cmp.Or(cmp.Compare(a.toll.lost, b.toll.lost), cmp.Compare(a.rank, b.rank), cmp.Compare(a.UID, b.UID))
	})
	return list
}

// fall lets the other members of a gang follow one that was evicted.
func (r *Relief) fall(req *request, now time.Time) {
	for _, member := range req.falls.Pods() {
		asked := r.requests[requestKey{member.Node(), member.UID}]
		if !member.Placed() || member.UID == req.UID || asked != nil && (asked.inFlight || asked.evicted) {
			continue
		}
		said := facts.EvictionRequest{
			UID: member.UID, Namespace: member.Namespace, Name: member.Name, Urgent: req.Urgent, Reason: req.Reason,
			Message: "its gang cannot run without " + req.Name,
		}
		r.followers[member.UID] = &request{EvictionRequest: said, node: member.Node(), since: now, reported: true}
	}
	req.falls = nil
}

// startFollowers evicts what follows, before anything else. They take the tokens of later minutes.
func (r *Relief) startFollowers(now time.Time) {
	list := make([]*request, 0, len(r.followers))
	for uid, req := range r.followers {
		pod := r.store.Pod(uid)
		switch {
		case req.inFlight:
		case pod == nil || !pod.Placed() || pod.Unit == nil || !pod.Unit.Atomic():
			// Also one that has lost its place, for it is placed anew with its gang; and one whose PodGroup is gone, for it is no gang then.
			delete(r.followers, uid)
		case pod.Unit.Staying() >= pod.Unit.MinMember() && !pod.Unit.Facts.Indivisible: // others have come in the place of those that left
			delete(r.followers, uid)
		case pod.Phase == cluster.Bound && req.ready(now):
			req.node = pod.Node() // it may have been on its way to another
			list = append(list, req)
		}
	}
	slices.SortFunc(list, func(a, b *request) int { return cmp.Compare(a.UID, b.UID) })
	for _, req := range list {
		if len(r.flights) >= MaxInFlight {
			return
		}
		if !req.Urgent {
			r.tokens--
			req.usedToken = true
		}
		req.inFlight = true
		r.write(bind.Write{Kind: bind.EvictPod, Pod: req.UID, Namespace: req.Namespace, Name: req.Name, Node: req.node}, req)
	}
}
