package trace

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"hilbert.dev/hilbert/cluster/facts"
)

// ownerLabel is the label by which pods own a synthetic Reservation. A pod may own several.
func ownerLabel(reservation string) facts.Label {
	return facts.Label{Key: "owns-" + reservation, Value: "yes"}
}

const (
	reservedPlaces = 3                      // of a Reservation, at most
	reservedBefore = int64(time.Minute)     // it comes so long before the first of its owners, at most
	reservedFor    = int64(time.Minute) * 2 // it stands so long, at most, if it expires or is deleted
)

// reserve adds Reservations. Each is made after a task drawn at random, in its namespace, and comes up to a minute before it. The owners are the task's gang, or that task and the next ones
// that are like it, up to one more than there are places. One in three expires, one in three is deleted, the others stay.
func (s Synthetic) reserve(w *Workload, random *rand.Rand) {
	if w.Identities == nil {
		w.Identities = make(map[string]Identity)
	}
	for i := range s.Reservations {
		at := random.IntN(len(w.Tasks))
		t := &w.Tasks[at]
		name := fmt.Sprintf("reservation-%d", i)
		r := &facts.Reservation{
			UID: facts.UID(name), Name: name, Namespace: cmp.Or(w.Identities[t.Group].Namespace, "default"), Generation: 1,
			Created: max(t.Created-random.Int64N(reservedBefore), 0), Count: 1 + random.IntN(reservedPlaces),
			Template: facts.Pod{Requirements: t.Requirements, Priority: t.Priority},
		}
		if t.Unit != "" {
			r.Owners = []facts.ReservationOwner{{Unit: t.Unit}}
		} else {
			r.Owners = []facts.ReservationOwner{{Pods: &facts.LabelSelector{Expressions: []facts.Requirement{
				{Key: ownerLabel(name).Key, Operator: facts.Exists},
			}}}}
			w.own(at, r)
		}
		kept := Reservation{Facts: r, Deleted: Never}
		switch ends := r.Created + 1 + random.Int64N(reservedFor); random.IntN(3) {
		case 0:
			r.Expires = ends
		case 1:
			kept.Deleted = ends
		}
		w.Reservations = append(w.Reservations, kept)
	}
	slices.SortStableFunc(w.Reservations, func(a, b Reservation) int { return cmp.Compare(a.Facts.Created, b.Facts.Created) })
}

// own labels a task and the next ones that are like it as owners.
func (w *Workload) own(at int, r *facts.Reservation) {
	like, group := w.Tasks[at].Requirements, w.Tasks[at].Group
	id := w.Identities[group]
	id.Labels = append(slices.Clone(id.Labels), ownerLabel(r.Name))
	slices.SortFunc(id.Labels, func(a, b facts.Label) int { return strings.Compare(a.Key, b.Key) })
	owned := group + "+" + r.Name
	w.Identities[owned] = id
	for i, left := at, r.Count+1; i < len(w.Tasks) && left > 0; i++ {
		if t := &w.Tasks[i]; t.Requirements == like && t.Group == group && t.Unit == "" {
			t.Group = owned
			left--
		}
	}
}
