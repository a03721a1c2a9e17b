package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
)

// A Reservation keeps places for pods that are to come. Of each of its places the ledger makes a placeholder: a Pod that no kubelet runs. It waits, is placed and
// holds its room as any pod does, so that whatever counts pods counts it. What differs:
//
//	Waiting    it wants a place, and evicts nobody for it, unless it is for a growth and the role controller has named pods (MayEvict); then it is Assumed until they have left
//	Reserved   it is Bound; nothing has to be written first
//	taken      a Plan has given its room to an owner, whose Binding is under way; if that fails, the placeholder is back
//	Consumed   the owner is bound; nothing is left of the placeholder
//	Lost       a pod of higher priority has its room, a foreign binder took it, its node is gone, or the Reservation has expired
//
// Example: Reservation r keeps two places of 4 CPUs; r/0 is on n1, r/1 waits. Its owner p is placed on n1 by a Plan that takes r/0. Before, n1 held 4 CPUs of
// r/0; afterwards it holds those of p; at no time is the room free. kube-scheduler binds a pod of 2 CPUs to n1 before the Binding of p is refused: r/0 has no
// room to go back to, and is Lost.

// Placeholders are the Reservations and their places.
type Placeholders struct {
	state    *State
	pods     *podTable
	nodeBook *nodeBook
	ledger   podLedger

	byUID       map[facts.UID]*PlaceholderSet
	inNamespace map[string][]*PlaceholderSet
	byPod       map[facts.UID]*place           // by the UID of the placeholder, while its set is known
	takers      map[*Pod]*place                // assumed pods that have the room of a placeholder
	used        map[facts.UID]*Pod             // bound pods, by the placeholder that their Binding names
	controllers map[facts.UID]facts.Controller // of pods that wait
	denied      map[*place]changes.Revision    // placeholders that may evict nobody, see EndPermission, and the last change of their nodes then
	onSlots     map[Slot]int                   // how many placeholders are on a slot
	checked     changes.Revision               // crowded slots have been looked for up to here
	changed     changes.Things[*PlaceholderSet]
}

// podLedger is what Placeholders need of the ledger: there their placeholders come and go, and get certain places, as other pods do.
type podLedger interface {
	upsertPod(*facts.Pod)
	removePod(facts.UID)
	Confirm(facts.UID)
}

func newPlaceholders(s *Store) Placeholders {
	return Placeholders{
		state: &s.State, pods: &s.pods, nodeBook: &s.nodeBook, ledger: s,
		byUID: make(map[facts.UID]*PlaceholderSet), inNamespace: make(map[string][]*PlaceholderSet), byPod: make(map[facts.UID]*place),
		takers: make(map[*Pod]*place), used: make(map[facts.UID]*Pod), controllers: make(map[facts.UID]facts.Controller), onSlots: make(map[Slot]int),
		denied: make(map[*place]changes.Revision),
	}
}

// PlaceholderSet is a Reservation with its places. Only the Store changes it.
type PlaceholderSet struct {
	// Facts is what is known of the Reservation.
	Facts   *facts.Reservation
	places  []place
	expired bool
	gone    bool
	why     facts.Condition // why those that wait do
	version uint64
	noted   changes.Revision
}

// place is one of a set. Its placeholder is in the ledger while it is Waiting or Reserved, unless it is taken.
type place struct {
	set   *PlaceholderSet
	is    facts.Place
	told  facts.PlaceState // what the status says
	by    string           // and of which pod
	taken *Pod             // the assumed pod that has its room
}

func (p *place) uid() facts.UID { return facts.PlaceholderUID(p.set.Facts.UID, p.is.Index) }

// PlaceView is a place, and whether the status says so.
type PlaceView struct {
	facts.Place
	Settled bool
}

// ReservationView is how a Reservation stands.
type ReservationView struct {
	UID             facts.UID
	Namespace, Name string
	Generation      int64
	// Places are all, by index.
	Places []PlaceView
	// Settled: the status says so of all of them. Before that, a place that is Reserved could be forgotten with this process: evict nobody for it.
	Settled bool
	// Expired: its TTL is over.
	Expired bool
	// Why places wait; the zero value if none do, or it is not known yet.
	Why facts.Condition
	// Told is what the status said last beside the places, since ToldSince.
	Told      facts.ReservationReport
	ToldSince int64
	// Version counts the changes of what is said here.
	Version uint64
}

// Count is how many places are in a state.
func (v *ReservationView) Count(state facts.PlaceState) (n int) {
	for i := range v.Places {
		if v.Places[i].State == state {
			n++
		}
	}
	return n
}

// Gone reports whether the Reservation exists no more.
func (set *PlaceholderSet) Gone() bool { return set.gone }

// View returns how the set stands.
func (set *PlaceholderSet) View() ReservationView {
	f := set.Facts
	v := ReservationView{
		UID: f.UID, Namespace: f.Namespace, Name: f.Name, Generation: f.Generation, Settled: true, Expired: set.expired, Version: set.version,
		Told: f.Reported, ToldSince: f.ReportedSince,
		Places: make([]PlaceView, len(set.places)),
	}
	for i := range set.places {
		p := &set.places[i]
		v.Places[i] = PlaceView{p.is, p.told == p.is.State && (p.is.State != facts.PlaceLost || p.by == p.is.Pod)}
		v.Settled = v.Settled && v.Places[i].Settled
	}
	if v.Count(facts.PlaceWaiting) > 0 {
		v.Why = cmp.Or(f.Problem, set.why)
	}
	return v
}

// Report is what the status is to say beside the places.
func (v *ReservationView) Report() facts.ReservationReport {
	r := facts.ReservationReport{Generation: v.Generation}
	waiting, reserved, consumed, lost := v.Count(facts.PlaceWaiting), v.Count(facts.PlaceReserved), v.Count(facts.PlaceConsumed), v.Count(facts.PlaceLost)
	counts := fmt.Sprintf("%d of %d places reserved, %d consumed, %d lost", reserved, len(v.Places), consumed, lost)
	switch {
	case waiting > 0:
		r.Condition = facts.Condition{Reason: cmp.Or(v.Why.Reason, "Waiting"), Message: counts}
		if v.Why.Message != "" {
			r.Condition.Message += ": " + v.Why.Message
		}
	case reserved > 0:
		r.Ready, r.Condition = true, facts.Condition{Reason: facts.PlaceReserved.String(), Message: counts}
	case v.Expired:
		r.Condition = facts.Condition{Reason: ReasonExpired, Message: counts}
	case lost > 0 && consumed == 0:
		r.Condition = facts.Condition{Reason: facts.PlaceLost.String(), Message: counts}
	default:
		r.Condition = facts.Condition{Reason: facts.PlaceConsumed.String(), Message: counts}
	}
	return r
}

// Told reports whether the status, as it was seen last, says what a view of the set does.
func (set *PlaceholderSet) Told(v *ReservationView) bool {
	return v.Settled && set.Facts.Reported == v.Report()
}

// View returns how a Reservation stands.
func (b *Placeholders) View(namespace, name string) (v ReservationView, ok bool) {
	for _, set := range b.inNamespace[namespace] {
		if set.Facts.Name == name {
			return set.View(), true
		}
	}
	return v, false
}

// Each visits the sets, in no particular order.
func (b *Placeholders) Each(visit func(*PlaceholderSet)) {
	for _, set := range b.byUID {
		visit(set)
	}
}

// In returns the sets of a namespace; the caller must not change the slice.
func (b *Placeholders) In(namespace string) []*PlaceholderSet { return b.inNamespace[namespace] }

// Set returns the set that a placeholder is of, nil when it is not known.
func (b *Placeholders) Set(placeholder facts.UID) *PlaceholderSet {
	if p := b.byPod[placeholder]; p != nil {
		return p.set
	}
	return nil
}

// Changed appends to list the sets of which something has changed since the cursor, and moves the cursor. Sets that are gone may be among them. A reader that has
// fallen too far behind gets all, by UID.
func (b *Placeholders) Changed(since *changes.Revision, list []*PlaceholderSet) []*PlaceholderSet {
	from := len(list)
	list, complete := b.changed.Since(since, list)
	if !complete {
		list = slices.AppendSeq(list[:from], maps.Values(b.byUID))
		slices.SortFunc(list[from:], func(x, y *PlaceholderSet) int { return cmp.Compare(x.Facts.UID, y.Facts.UID) })
	}
	return list
}

// Owns reports whether a pod may have the places of a set.
func (b *Placeholders) Owns(set *PlaceholderSet, pod *Pod) bool {
	if set.gone || set.Facts.Namespace != pod.Namespace || pod.placeholder {
		return false
	}
	unit := ""
	if pod.Unit != nil {
		unit = pod.Unit.Name
	}
	controller := b.controllers[pod.UID]
	return slices.ContainsFunc(set.Facts.Owners, func(o facts.ReservationOwner) bool { return o.Owns(pod.identity.Labels, controller, unit) })
}

// Reserved appends the placeholders of a set that have places, by index.
func (b *Placeholders) Reserved(set *PlaceholderSet, list []*Pod) []*Pod {
	for i := range set.places {
		if p := &set.places[i]; p.is.State == facts.PlaceReserved && p.taken == nil {
			if pod := b.pods.byUID[p.uid()]; pod != nil && pod.slot != NoSlot {
				list = append(list, pod)
			}
		}
	}
	return list
}

// TakenBy returns the placeholder whose room an assumed pod has; empty: none.
func (b *Placeholders) TakenBy(pod *Pod) facts.UID {
	if p := b.takers[pod]; p != nil {
		return p.uid()
	}
	return ""
}

// LostTarget reports whether the set is the target of a move and was lost, and no other place has been found for whoever replaces the pod. One that expired was waited for
// long enough.
func (set *PlaceholderSet) LostTarget() bool {
	return set.Facts.Moves != "" && !set.gone && !set.expired && slices.ContainsFunc(set.places, func(p place) bool { return p.is.State == facts.PlaceLost && p.is.Pod == "" })
}

// ServedElsewhere takes note that what replaces a moved pod has another place than the one that was lost.
func (b *Placeholders) ServedElsewhere(set *PlaceholderSet, pod *Pod) {
	for i := range set.places {
		if p := &set.places[i]; p.is.State == facts.PlaceLost && p.is.Pod == "" {
			p.is.Pod = pod.Name
			b.note(set)
			return
		}
	}
}

// Say takes note why the places of a set wait.
func (b *Placeholders) Say(placeholder facts.UID, why facts.Condition) {
	if p := b.byPod[placeholder]; p != nil && p.set.why != why {
		p.set.why = why
		b.note(p.set)
	}
}

// note makes Changed name a set.
func (b *Placeholders) note(set *PlaceholderSet) {
	set.version++
	b.changed.Note(set, &set.noted)
}

// known lists the Reservations, sorted.
func (b *Placeholders) known() []facts.UID { return slices.Sorted(maps.Keys(b.byUID)) }

// follow keeps who controls a pod that waits, and which placeholder a bound pod's Binding names.
func (b *Placeholders) follow(pod *Pod, seen *facts.Pod) {
	switch {
	case pod.placeholder:
	case pod.wants() && seen.Controller != (facts.Controller{}):
		b.controllers[pod.UID] = seen.Controller
	case pod.Phase != Pending:
		delete(b.controllers, pod.UID)
	}
	if seen.Node != "" && seen.Placeholder != "" {
		b.used[seen.Placeholder] = pod
	}
}

// forget forgets a pod that is gone.
func (b *Placeholders) forget(pod *Pod) {
	delete(b.controllers, pod.UID)
	if len(b.used) > 0 {
		maps.DeleteFunc(b.used, func(_ facts.UID, other *Pod) bool { return other == pod })
	}
}

// upsert takes in what is known of a Reservation. Its spec does not change, but for its TTL.
func (b *Placeholders) upsert(seen *facts.Reservation) {
	set := b.byUID[seen.UID]
	if set == nil {
		set = &PlaceholderSet{Facts: seen, places: make([]place, seen.Count)}
		b.byUID[seen.UID] = set
		b.inNamespace[seen.Namespace] = append(b.inNamespace[seen.Namespace], set)
		for i := range set.places {
			p := &set.places[i]
			p.set, p.is.Index = set, i
			b.byPod[p.uid()] = p
		}
	}
	set.Facts = seen
	for i := range seen.Places {
		if told := &seen.Places[i]; told.Index >= 0 && told.Index < len(set.places) {
			b.adopt(&set.places[told.Index], told)
		}
	}
	for i := range set.places {
		p := &set.places[i]
		if pod := b.used[p.uid()]; pod != nil {
			b.consume(p, pod)
		}
		b.refresh(p)
	}
	b.note(set)
}

// adopt takes in what the status says of a place, unless the ledger knows better.
func (b *Placeholders) adopt(p *place, told *facts.Place) {
	p.told, p.by = told.State, told.Pod
	if told.State == facts.PlaceLost && p.is.State == facts.PlaceLost {
		p.is.Pod = cmp.Or(p.is.Pod, told.Pod) // the process that led before this one has seen who has another place
	}
	if told.State <= p.is.State {
		return
	}
	b.drop(p)
	p.is = *told
}

// refresh has the placeholder of a place in the ledger if it should be there, as its Reservation is now.
func (b *Placeholders) refresh(p *place) {
	set, known := p.set, b.pods.byUID[p.uid()]
	wanted := p.taken == nil && (p.is.State == facts.PlaceReserved || p.is.State == facts.PlaceWaiting && set.Facts.Problem == (facts.Condition{}) && !set.expired)
	switch {
	case !wanted && known != nil:
		b.ledger.removePod(known.UID)
	case wanted:
		b.enter(p)
	}
}

// enter has the placeholder of a place in the ledger: on its node, or waiting.
func (b *Placeholders) enter(p *place) {
	r := p.set.Facts
	f := r.Template
	f.UID, f.Namespace, f.Name, f.Created = p.uid(), r.Namespace, facts.PlaceholderName(r.Name, p.is.Index), r.Created
	f.Ours, f.NeverPreempts, f.Node, f.Grant, f.Nominated = true, len(r.MayEvict) == 0, p.is.Node, p.is.Grant, ""
	f.Unit, f.Subgroup, f.Claims, f.ResourceClaims, f.Extended = "", "", nil, nil, nil
	if b.pods.byUID[f.UID] == nil {
		pod := &Pod{UID: f.UID, Namespace: f.Namespace, Name: f.Name, Created: f.Created, slot: NoSlot, placeholder: true}
		b.pods.file(pod)
	}
	b.ledger.upsertPod(&f)
}

// drop takes the placeholder of a place out of the ledger, whatever becomes of the place.
func (b *Placeholders) drop(p *place) {
	if uid := p.uid(); b.pods.byUID[uid] != nil {
		b.ledger.removePod(uid)
	}
}

func (b *Placeholders) remove(uid facts.UID) {
	set := b.byUID[uid]
	if set == nil {
		return
	}
	for i := range set.places {
		p := &set.places[i]
		b.drop(p)
		delete(b.takers, p.taken)
		delete(b.denied, p)
		delete(b.byPod, p.uid())
		p.taken = nil
	}
	delete(b.byUID, uid)
	b.inNamespace[set.Facts.Namespace] = slices.DeleteFunc(b.inNamespace[set.Facts.Namespace], func(other *PlaceholderSet) bool { return other == set })
	if len(b.inNamespace[set.Facts.Namespace]) == 0 {
		delete(b.inNamespace, set.Facts.Namespace)
	}
	b.note(set)
	set.gone = true
}

// consume ends a place whose room a pod has that is bound.
func (b *Placeholders) consume(p *place, by *Pod) {
	if p.is.State >= facts.PlaceConsumed || by.Namespace != p.set.Facts.Namespace {
		return
	}
	b.drop(p)
	delete(b.takers, p.taken)
	p.taken = nil
	p.is.State, p.is.Node, p.is.Pod, p.is.Reason, p.is.Message = facts.PlaceConsumed, cmp.Or(by.node, p.is.Node), by.Name, "", ""
	b.note(p.set)
}

// consumeTaken ends the place whose room an assumed pod has, which is certainly bound now.
func (b *Placeholders) consumeTaken(pod *Pod) {
	if p := b.takers[pod]; p != nil {
		b.consume(p, pod)
	}
}

// consumeSeen ends the place that a bound pod's Binding names, before the pod is charged.
func (b *Placeholders) consumeSeen(pod *Pod, seen *facts.Pod) {
	if p := b.byPod[seen.Placeholder]; p != nil {
		b.consume(p, pod)
	}
	if p := b.takers[pod]; p != nil && seen.Node == p.is.Node {
		b.consume(p, pod) // whoever has bound it there
	}
}

// giveBack has a placeholder on its node again whose room a pod had that has not been bound there.
func (b *Placeholders) giveBack(pod *Pod) {
	p := b.takers[pod]
	if p == nil {
		return
	}
	delete(b.takers, pod)
	p.taken = nil
	if p.set.expired {
		b.lose(p, ReasonExpired, "the reservation has expired")
		return
	}
	b.enter(p)
	b.note(p.set)
}

// reserve takes note that a Plan has placed a placeholder. It is Bound at once.
func (b *Placeholders) reserve(pod *Pod) {
	p := b.byPod[pod.UID]
	p.is.State, p.is.Node = facts.PlaceReserved, pod.node
	p.is.Grant, _ = pod.Promise()
	b.ledger.Confirm(pod.UID)
	b.note(p.set)
}
