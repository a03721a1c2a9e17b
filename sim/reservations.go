package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/internal/scenario"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/sim/check"
	"hilbert.dev/hilbert/sim/judge"
	"hilbert.dev/hilbert/sim/trace"
)

// createReservation creates a Reservation of the workload, of which number is the number.
func (a *admin) createReservation(w *trace.Reservation, number int32) {
	r := *w.Facts
	a.api.kept.Add(&r)
	a.changed(watchReservations, facts.ReservationUpserted{Reservation: a.api.kept.Copy(r.UID)})
	if w.Deleted != trace.Never {
		a.clock.add(event{at: max(w.Deleted, a.clock.now), kind: evReservationGone, arg: number})
	}
}

// reserve makes a Reservation of a scenario. Its UID is its name.
func (p *play) reserve(step *scenario.AddReservation) error {
	uid := facts.UID(step.Namespace + "/" + step.Name)
	if p.sim.api.kept.Get(uid) != nil {
		return fmt.Errorf("there is a reservation %s already", uid)
	}
	r := &facts.Reservation{
		UID: uid, Namespace: step.Namespace, Name: step.Name, Generation: 1, Created: p.sim.clock.now, Count: step.Count, Owners: step.Owners(),
		Template: facts.Pod{Requirements: step.Pod.Requirements(), Priority: step.Pod.Priority},
	}
	if step.TTL > 0 {
		r.Expires = r.Created + int64(step.TTL)
	}
	p.sim.features.kept = true
	p.sim.admin.createReservation(&trace.Reservation{Facts: r, Deleted: trace.Never}, nowhere)
	return nil
}

// deleteReservation deletes one. Pods that have its places keep them.
func (a *admin) deleteReservation(uid facts.UID) {
	if a.api.kept.Remove(uid) {
		a.changed(watchReservations, facts.ReservationRemoved{UID: uid})
	}
}

// reportReservation takes what is written of a Reservation, and says what is wrong with it; not found: there is none.
func (a *model) reportReservation(v *cluster.ReservationView) (found bool, wrong string) {
	places := make([]facts.Place, len(v.Places))
	for i := range v.Places {
		places[i] = v.Places[i].Place
		a.meter.faults["place "+places[i].State.String()+reasonOf(&places[i])]++
	}
	a.revision++
	return a.kept.Status(v.UID, places, v.Report())
}

// reasonOf is why a place was lost, to count.
func reasonOf(place *facts.Place) string {
	if place.Reason == "" {
		return ""
	}
	return ": " + place.Reason
}

// tellReservation lets the watch say how a Reservation is now.
func (ws *watches) tellReservation(uid facts.UID) {
	ws.tell(watchReservations, facts.ReservationUpserted{Reservation: ws.api.kept.Copy(uid)})
}

// checkPlace judges a Binding of ours by the place that it names: the pod is an owner, and no other pod has it.
func (x *executor) checkPlace(i int32) {
	p := &x.api.pods[i]
	if p.placeholder == "" {
		return
	}
	x.meter.faults["place taken"]++
	pod := x.api.facts(i)
	if _, wrong := x.api.kept.Take(p.placeholder, &pod); wrong != "" {
		x.violations.add("%s", wrong)
	}
}

// keptOn is what is kept on a node, by the statuses.
func (a *model) keptOn(n *node) (list []judge.Occupant) {
	for _, k := range a.kept.Kept() {
		if k.Place.Node == n.object.Name {
			list = append(list, judge.Occupant{Requirements: k.Reservation.Template.Requirements, Grant: k.Place.Grant})
		}
	}
	return list
}

// addKept charges what is kept to the queues of the Reservations' namespaces.
func (a *model) addKept(b judge.Bill) {
	for _, k := range a.kept.Kept() {
		if i, ok := a.byName[k.Place.Node]; ok && a.nodes[i].present {
			o := judge.Occupant{Requirements: k.Reservation.Template.Requirements, Grant: k.Place.Grant}
			b.Add(a.tenants, k.Reservation.Namespace, judge.ChargeOn(a.nodes[i].object, nil, o, true))
		}
	}
}

// Kept is part of check.Run: the places that the ledger keeps.
func (c checked) Kept() (list []check.Kept) {
	if !c.features.kept || c.process.scheduler == nil {
		return nil
	}
	store := c.process.scheduler.Store()
	store.Placeholders().Each(func(set *cluster.PlaceholderSet) {
		for _, p := range store.Placeholders().Reserved(set, nil) {
			list = append(list, check.Kept{UID: p.UID, Of: set.Facts, Node: p.Node(), Grant: p.Grant()})
		}
	})
	slices.SortFunc(list, func(a, b check.Kept) int { return strings.Compare(string(a.UID), string(b.UID)) })
	return list
}

// owners: no pod waits that would fit in the room which is kept for it, while the scheduler has nothing to decide and nothing backs off.
func (a *auditor) owners() {
	if p := a.process.scheduler.Pending(); p.Active+p.Backoff > 0 {
		return
	}
	a.check.OwnersWait(a.process.scheduler.Store())
}

// occupants are the pods of a node and what is kept there.
func (rc *restCheck) occupants(n *node) []judge.Occupant {
	return append(rc.api.occupants(n), rc.api.keptOn(n)...)
}

// reservations: at rest the statuses say what the ledger has, room that is kept is charged to the queue and nothing else is, no place waits for which there is room, and
// none is kept for a pod that waits and would fit there.
func (rc *restCheck) reservations() {
	if !rc.features.kept {
		return
	}
	rc.api.addKept(rc.used)
	store := rc.scheduler.Store()
	sets := 0
	store.Placeholders().Each(func(*cluster.PlaceholderSet) { sets++ })
	if sets != rc.api.kept.Len() {
		rc.violations.add("at rest, but the ledger has %d Reservations, and the API server %d", sets, rc.api.kept.Len())
	}
	for _, uid := range rc.api.kept.UIDs() {
		rc.settled(store, rc.api.kept.Get(uid))
	}
	rc.charged(store)
}

// settled compares a Reservation with the ledger's.
func (rc *restCheck) settled(store *cluster.Store, r *facts.Reservation) {
	v, ok := store.Placeholders().View(r.Namespace, r.Name)
	if !ok || !v.Settled || len(v.Places) != r.Count {
		rc.violations.add("at rest, but the status of Reservation %s is not what the ledger has: %+v", r.UID, v)
		return
	}
	waits := 0
	for i := range v.Places {
		place := v.Places[i].Place
		if place.State == facts.PlaceWaiting {
			waits++
		}
		at := slices.IndexFunc(r.Places, func(told facts.Place) bool { return told.Index == place.Index })
		if told := place.State != facts.PlaceWaiting; told != (at >= 0) || told && (r.Places[at].State != place.State || r.Places[at].Node != place.Node) {
			rc.violations.add("at rest, but the ledger has place %+v of Reservation %s; its status has %+v", place, r.UID, r.Places)
		}
	}
	if r.Expires != 0 && r.Expires <= rc.clock.now && slices.ContainsFunc(v.Places, func(p cluster.PlaceView) bool { return p.State < facts.PlaceConsumed }) {
		rc.violations.add("at rest, but Reservation %s has expired and keeps places", r.UID)
		return
	}
	asks := make(judge.Bill)
	asks.Add(rc.api.tenants, r.Namespace, judge.Charge(r.Template.Requirements))
	limited := r.Template.Requirements.GPU.Milli > 0 && rc.api.tenants.Limited(r.Namespace)
	if waits == 0 || limited || rc.features.tenants && rc.refuses(facts.UnitName{}, asks) || rc.features.constraints {
		return
	}
	for i := range rc.api.nodes {
		if n := &rc.api.nodes[i]; n.present && !rc.reserved(n) && n.fitsOurs(rc.occupants(n), r.Template.Requirements) {
			rc.violations.add("at rest, but %d places of Reservation %s wait though node %s has room", waits, r.UID, n.object.Name)
			return
		}
	}
}

// charged: each queue holds what its pods and what is kept for it cost, and no more.
func (rc *restCheck) charged(store *cluster.Store) {
	for _, name := range slices.Sorted(maps.Keys(rc.api.tenants.Queues)) {
		q := store.Quota().Queue(name)
		if q == nil {
			continue
		}
		for i := range store.Kinds() {
			kind := resource.Kind(i)
			if has, costs := q.Used(kind), rc.used[name][store.KindName(kind)]; has != costs {
				rc.violations.add("at rest, but queue %s is charged %d of %s; its pods and what is kept for it cost %d", name, has, store.KindName(kind), costs)
			}
		}
	}
}
