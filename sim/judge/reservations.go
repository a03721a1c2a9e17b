package judge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"hilbert.dev/hilbert/cluster/facts"
)

// Reservations are those of an API server: their places as the statuses have them, and which pods have which.
//
//	Add(r of 2 places)              both wait
//	Status(r: 0 Reserved on n)      0's room is kept: Kept lists it
//	Take(r/0, p)                    p has it; nobody else may
//	Status(r: 0 Waiting)            broken: a place goes forward only
type Reservations struct {
	byUID map[facts.UID]*facts.Reservation
	gone  map[facts.UID]*facts.Reservation // a Binding may have been on its way when it was deleted
	taken map[facts.UID]facts.UID          // pods by the placeholder that their Binding names
}

// preempted is the reason of a place whose room a pod of higher priority has.
const preempted = "Preempted"

// NewReservations returns none yet.
func NewReservations() *Reservations {
	return &Reservations{byUID: make(map[facts.UID]*facts.Reservation), gone: make(map[facts.UID]*facts.Reservation), taken: make(map[facts.UID]facts.UID)}
}

// Add creates a Reservation.
func (k *Reservations) Add(r *facts.Reservation) { k.byUID[r.UID] = r }

// Remove deletes one. It returns whether there was one.
func (k *Reservations) Remove(uid facts.UID) bool {
	r, ok := k.byUID[uid]
	if ok {
		k.gone[uid] = r
	}
	delete(k.byUID, uid)
	return ok
}

// Get returns one, nil for none. Its status changes.
func (k *Reservations) Get(uid facts.UID) *facts.Reservation { return k.byUID[uid] }

// Len counts them.
func (k *Reservations) Len() int { return len(k.byUID) }

// UIDs are sorted.
func (k *Reservations) UIDs() []facts.UID { return slices.Sorted(maps.Keys(k.byUID)) }

// Copy is one as a watch tells it, nil for none.
func (k *Reservations) Copy(uid facts.UID) *facts.Reservation {
	r := k.byUID[uid]
	if r == nil {
		return nil
	}
	told := *r
	told.Places = slices.Clone(r.Places)
	return &told
}

// List is a complete list.
func (k *Reservations) List() (list []*facts.Reservation) {
	for _, uid := range k.UIDs() {
		list = append(list, k.Copy(uid))
	}
	return list
}

// Status takes what is written of one, and says what is wrong with that. There may be none of that UID any more.
func (k *Reservations) Status(uid facts.UID, places []facts.Place, report facts.ReservationReport) (found bool, wrong string) {
	r := k.byUID[uid]
	if r == nil {
		return false, ""
	}
	was := make(map[int]facts.PlaceState)
	for i := range r.Places {
		was[r.Places[i].Index] = r.Places[i].State
	}
	r.Places = nil
	for i := range places {
		place := &places[i]
		if place.State != facts.PlaceWaiting {
			r.Places = append(r.Places, *place)
		}
		if place.State < was[place.Index] {
			wrong = fmt.Sprintf("place %d of %s was %s, and a status says %s", place.Index, uid, was[place.Index], place.State)
		}
		// One that was preempted may be had by the victim until that has left: its Binding was under way.
		if place.State == facts.PlaceLost && place.Reason != preempted && k.Taken(facts.PlaceholderUID(uid, place.Index)) != "" {
			wrong = fmt.Sprintf("place %d of %s is lost (%s: %s), and a pod has it", place.Index, uid, place.Reason, place.Message)
		}
	}
	r.Reported = report
	return true, wrong
}

// of is the Reservation that a placeholder is of, be it that it was deleted; nil: there was none.
func (k *Reservations) of(placeholder facts.UID) *facts.Reservation {
	at := strings.LastIndexByte(string(placeholder), '/')
	if at < 0 {
		return nil
	}
	uid := placeholder[:at]
	r := cmp.Or(k.byUID[uid], k.gone[uid])
	if index, err := strconv.Atoi(string(placeholder[at+1:])); r == nil || err != nil || index < 0 || index >= r.Count {
		return nil
	}
	return r
}

// Take lets a pod have a place, as its Binding says. It returns the Reservation, and what is wrong with that.
func (k *Reservations) Take(placeholder facts.UID, pod *facts.Pod) (of facts.UID, wrong string) {
	r := k.of(placeholder)
	if r == nil {
		return "", fmt.Sprintf("%s has the place %s, and there was none", pod.UID, placeholder)
	}
	if other := k.taken[placeholder]; other != "" {
		return r.UID, fmt.Sprintf("%s has the place %s, which pod %s has", pod.UID, placeholder, other)
	}
	k.taken[placeholder] = pod.UID
	if !Owns(r, pod) {
		return r.UID, fmt.Sprintf("%s has the place %s, of which it is no owner", pod.UID, placeholder)
	}
	return r.UID, ""
}

// Leave takes note that a pod is gone.
func (k *Reservations) Leave(pod facts.UID) {
	maps.DeleteFunc(k.taken, func(_, by facts.UID) bool { return by == pod })
}

// Taken is the pod that has a place; empty: none.
func (k *Reservations) Taken(placeholder facts.UID) facts.UID { return k.taken[placeholder] }

// Kept is the room of a place that a status says is Reserved and no pod has.
type Kept struct {
	Reservation *facts.Reservation
	Place       facts.Place
}

// Kept lists all, in order.
func (k *Reservations) Kept() (list []Kept) {
	for _, uid := range k.UIDs() {
		for _, place := range k.byUID[uid].Places {
			if place.State == facts.PlaceReserved && k.Taken(facts.PlaceholderUID(uid, place.Index)) == "" {
				list = append(list, Kept{k.byUID[uid], place})
			}
		}
	}
	return list
}

// Owns reports whether a pod may have the places of a Reservation.
func Owns(r *facts.Reservation, pod *facts.Pod) bool {
	return r.Namespace == pod.Namespace && slices.ContainsFunc(r.Owners, func(o facts.ReservationOwner) bool {
		return o.Owns(pod.Labels, pod.Controller, pod.Unit)
	})
}
