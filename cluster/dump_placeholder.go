package cluster

import (
	"fmt"

	"hilbert.dev/hilbert/cluster/facts"
)

// PlaceholdersRecord is a Reservation of the ledger. Those of its placeholders that have a place or wait are among the pods.
type PlaceholdersRecord struct {
	Facts   *facts.Reservation
	Places  []PlaceRecord // by index
	Expired bool
	// Why those that wait do.
	Why facts.Condition
}

// PlaceRecord is a place. What its Reservation's status says of it may be older.
type PlaceRecord struct {
	facts.Place
	Told facts.PlaceState
	// Taken is the assumed pod that has its room; empty: none.
	Taken facts.UID
}

// Settled is the Reservation as its status would say it: what is taken is consumed. It never expires, since who asks looks at one moment.
func (r *PlaceholdersRecord) Settled(podName func(facts.UID) string) *facts.Reservation {
	f := *r.Facts
	f.Expires, f.Places = 0, nil
	for i := range r.Places {
		place := r.Places[i].Place
		if uid := r.Places[i].Taken; uid != "" {
			place.State, place.Pod = facts.PlaceConsumed, podName(uid)
		}
		if r.Expired && place.State == facts.PlaceWaiting {
			place.State, place.Reason = facts.PlaceLost, ReasonExpired
		}
		f.Places = append(f.Places, place)
	}
	return &f
}

// records copies out the sets, in no particular order.
func (b *Placeholders) records() (list []PlaceholdersRecord) {
	for _, set := range b.byUID {
		r := PlaceholdersRecord{Facts: set.Facts, Expired: set.expired, Why: set.why, Places: make([]PlaceRecord, len(set.places))}
		for i := range set.places {
			p := &set.places[i]
			r.Places[i] = PlaceRecord{Place: p.is, Told: p.told}
			if p.taken != nil {
				r.Places[i].Taken = p.taken.UID
			}
		}
		list = append(list, r)
	}
	return list
}

// rooms tells of bound pods which placeholder their Binding names.
func (b *Placeholders) rooms() map[*Pod]facts.UID {
	rooms := make(map[*Pod]facts.UID, len(b.used))
	for placeholder, pod := range b.used {
		rooms[pod] = placeholder
	}
	return rooms
}

// placeholders enters the sets, over the placeholders that are there. The error names what contradicts itself.
func (l loader) placeholders(records []PlaceholdersRecord) error {
	b := &l.s.placeholders
	for i := range records {
		r := &records[i]
		if r.Facts == nil || r.Facts.UID == "" || b.byUID[r.Facts.UID] != nil || len(r.Places) != r.Facts.Count || len(r.Places) == 0 {
			return fmt.Errorf("number %d of the Reservations: it has no UID or one that stands twice, or it has no places, or not as many as it names", i)
		}
		set := &PlaceholderSet{Facts: r.Facts, places: make([]place, len(r.Places)), expired: r.Expired, why: r.Why}
		b.byUID[r.Facts.UID] = set
		b.inNamespace[r.Facts.Namespace] = append(b.inNamespace[r.Facts.Namespace], set)
		for at := range set.places {
			p := &set.places[at]
			p.set, p.is, p.told = set, r.Places[at].Place, r.Places[at].Told
			p.is.Index = at
			for i := range r.Facts.Places {
				if told := &r.Facts.Places[i]; told.Index == at {
					p.by = told.Pod
				}
			}
			b.byPod[p.uid()] = p
			if uid := r.Places[at].Taken; uid != "" {
				if p.taken = l.s.pods.byUID[uid]; p.taken == nil || b.takers[p.taken] != nil {
					return fmt.Errorf("%s: pod %q has its room, which is not there, or has that of another place", p.uid(), uid)
				}
				b.takers[p.taken] = p
			}
		}
		b.note(set)
	}
	if err := l.s.placeholders.verify(); err != nil {
		return fmt.Errorf("reservations: %w", err)
	}
	return nil
}
