package reserve

import (
	"cmp"
	"slices"
	"strings"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
)

// Owners are the pods that wait and may have the room of placeholders. They are tried whenever something has changed that could let one in: the pod came, a place
// was reserved, a node of the set changed, or other pods that its constraints count came or went. That others of their class sleep, or that their queue's limit is
// reached, is nothing to them: the room is theirs.
//
// Example: a Job is at its queue's limit with 4 CPUs that a Reservation keeps. Its pod asks for 4 CPUs. The queue would let it wait; it is tried on the node of
// the placeholder, takes its room, and the queue is charged as much as before.
type Owners struct {
	store *cluster.Store
	seen  changes.Revision // what of the sets has been looked at
	sets  map[*cluster.PlaceholderSet]*ownersOf
	order []*cluster.PlaceholderSet // those with owners, by UID
	tied  changes.Revision          // what constraints count has been looked at up to here
}

// ownersOf are those of one set, each with the round in which it was tried last. A new round begins when something has changed that may let one in.
type ownersOf struct {
	pods  map[facts.UID]uint64
	round uint64
	since changes.Revision // the ledger's, when the round began
	eased uint64           // the queues', then: a pod that is larger than the place may lack quota
	// domains is the version of what the constraints of the owners count.
	domains uint64
}

// NewOwners returns the owners of a ledger that has no Reservations yet.
func NewOwners(store *cluster.Store) *Owners {
	return &Owners{store: store, sets: make(map[*cluster.PlaceholderSet]*ownersOf)}
}

// Arrived takes note that a pod waits.
func (o *Owners) Arrived(pod *cluster.Pod) {
	for _, set := range o.store.Placeholders().In(pod.Namespace) {
		if of := o.sets[set]; of != nil && o.store.Placeholders().Owns(set, pod) {
			of.pods[pod.UID] = 0
		}
	}
}

// Due lists the sets whose owners are to be tried, by UID of the Reservations.
func (o *Owners) Due() (due []*cluster.PlaceholderSet) {
	for _, set := range o.store.Placeholders().Changed(&o.seen, nil) {
		o.follow(set)
	}
	for _, set := range o.order {
		of := o.sets[set]
		if len(of.pods) == 0 {
			continue
		}
		if o.touched(set, of.since) || o.eased(of) != of.eased {
			o.begin(of)
		}
		for _, tried := range of.pods {
			if tried != of.round {
				due = append(due, set)
				break
			}
		}
	}
	return due
}

// FollowConstraints begins a round for the sets of which an owner may have a place now because of where other pods are. It asks each owner that waits, so it is
// called once a Step.
//
// Example: a place is kept in zone a, and its owner may not go there as long as zone b has fewer pods of its kind. One comes to b: nothing has changed on the node of
// the place.
func (o *Owners) FollowConstraints() {
	now := o.store.Revision()
	if now == o.tied {
		return
	}
	o.tied = now
	for _, set := range o.order {
		of, seen, domains := o.sets[set], make(map[*cluster.Class]bool), uint64(0)
		for uid := range of.pods {
			if pod := o.store.Pod(uid); pod != nil && !seen[pod.Class] {
				seen[pod.Class] = true
				domains += o.store.Counts().Version(pod.Class.Constraints)
			}
		}
		if domains != of.domains {
			of.domains = domains
			o.begin(of)
		}
	}
}

// follow takes note that a set has changed.
func (o *Owners) follow(set *cluster.PlaceholderSet) {
	of := o.sets[set]
	switch {
	case set.Gone():
		delete(o.sets, set)
		o.order = slices.DeleteFunc(o.order, func(other *cluster.PlaceholderSet) bool { return other == set })
	case of == nil:
		of = &ownersOf{pods: make(map[facts.UID]uint64)}
		o.begin(of)
		o.sets[set] = of
		at, _ := slices.BinarySearchFunc(o.order, set, func(a, b *cluster.PlaceholderSet) int {
			return strings.Compare(string(a.Facts.UID), string(b.Facts.UID))
		})
		o.order = slices.Insert(o.order, at, set)
		o.store.EachWaiting(set.Facts.Namespace, func(pod *cluster.Pod) {
			if o.store.Placeholders().Owns(set, pod) {
				of.pods[pod.UID] = 0
			}
		})
	default:
		o.begin(of)
	}
}

// begin begins a round.
func (o *Owners) begin(of *ownersOf) {
	of.round, of.since, of.eased = of.round+1, o.store.Revision(), o.eased(of)
}

// eased counts how often the queues of the owners have had more to give. All are of one namespace.
func (o *Owners) eased(of *ownersOf) (n uint64) {
	for uid := range of.pods {
		if pod := o.store.Pod(uid); pod != nil {
			for q := pod.Queue(); q != nil; q = q.Parent() {
				n += q.Eased()
			}
			return n
		}
	}
	return 0
}

// touched reports whether a node of the set has changed since a revision.
func (o *Owners) touched(set *cluster.PlaceholderSet, since changes.Revision) bool {
	return slices.ContainsFunc(o.store.Placeholders().Reserved(set, nil), func(placeholder *cluster.Pod) bool { return o.store.Touched(o.store.Slot(placeholder.Node())) > since })
}

// Of lists the owners of a set that wait and were not tried in this round, the most important first. It forgets those that do not wait any more.
func (o *Owners) Of(set *cluster.PlaceholderSet) (list []*cluster.Pod) {
	of := o.sets[set]
	for uid, tried := range of.pods {
		switch pod := o.store.Pod(uid); {
		case pod == nil || pod.Phase != cluster.Pending || !o.store.Placeholders().Owns(set, pod):
			delete(of.pods, uid)
		case tried != of.round:
			list = append(list, pod)
		}
	}
	slices.SortFunc(list, func(a, b *cluster.Pod) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Created, b.Created), strings.Compare(string(a.UID), string(b.UID)))
	})
	return list
}

// Try has an owner tried in this round. What a Plan that is rejected has changed in the ledger, and taken back, begins no new round
// of any set.
func (o *Owners) Try(set *cluster.PlaceholderSet, pod facts.UID, try func() bool) (served bool) {
	of := o.sets[set]
	of.pods[pod] = of.round
	var untouched []*ownersOf
	for _, other := range o.order {
		if its := o.sets[other]; len(its.pods) > 0 && !o.touched(other, its.since) {
			untouched = append(untouched, its)
		}
	}
	if served = try(); !served {
		for _, its := range untouched {
			its.since = o.store.Revision()
		}
	}
	return served
}
