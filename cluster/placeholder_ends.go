package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/topology"
)

// Reasons why a place was lost.
const (
	ReasonExpired   = "Expired"
	ReasonPreempted = "Preempted"
	// ReasonRoomTaken: pods that others have bound, or a node that is smaller than it was, leave no room.
	ReasonRoomTaken = "RoomTaken"
	ReasonNodeGone  = "NodeGone"
)

// lose ends a place that has not served anybody.
func (b *Placeholders) lose(p *place, reason, message string) {
	b.drop(p)
	p.is.State, p.is.Reason, p.is.Message = facts.PlaceLost, reason, message
	b.note(p.set)
}

// end ends the places of Reservations whose TTL is over.
func (b *Placeholders) end(now int64) {
	for _, uid := range b.known() {
		set := b.byUID[uid]
		if set.expired || set.Facts.Expires == 0 || set.Facts.Expires > now {
			continue
		}
		set.expired = true
		for i := range set.places {
			if p := &set.places[i]; p.is.State < facts.PlaceConsumed && p.taken == nil {
				b.lose(p, ReasonExpired, "the reservation has expired")
			}
		}
		b.note(set)
	}
}

// NextExpiry is when the next Reservation expires, in nanoseconds; ok is false if none does.
func (b *Placeholders) NextExpiry() (at int64, ok bool) {
	for _, set := range b.byUID {
		if e := set.Facts.Expires; e != 0 && !set.expired && (!ok || e < at) {
			at, ok = e, true
		}
	}
	return at, ok
}

// moved keeps count of the placeholders on a slot.
func (b *Placeholders) moved(pod *Pod, slot Slot, sign int) {
	if !pod.placeholder {
		return
	}
	if b.onSlots[slot] += sign; b.onSlots[slot] == 0 {
		delete(b.onSlots, slot)
	}
}

// loseCrowdedOut ends places whose room is gone: of those on a node that holds more than it has, the least important first.
func (b *Placeholders) loseCrowdedOut() {
	since := b.checked
	b.checked = b.state.log.Len()
	for _, slot := range slices.Sorted(maps.Keys(b.onSlots)) {
		if !b.state.log.Covers(since) || b.state.touched[slot] > since {
			b.loseCrowdedOutOf(slot)
		}
	}
	if len(b.pods.orphans) == 0 {
		return
	}
	for _, uid := range b.known() {
		set := b.byUID[uid]
		for i := range set.places {
			p := &set.places[i]
			if pod := b.pods.byUID[p.uid()]; pod != nil && pod.node != "" && pod.slot == NoSlot {
				b.lose(p, ReasonNodeGone, fmt.Sprintf("node %s is gone", pod.node))
			}
		}
	}
}

func (b *Placeholders) loseCrowdedOutOf(slot Slot) {
	var placeholders []*Pod
	trial := b.state.Try(slot, false)
	for _, pod := range b.pods.onSlot[slot] {
		switch {
		case pod.Claimed():
			trial.Take(pod)
		case pod.placeholder:
			placeholders = append(placeholders, pod)
		}
	}
	slices.SortFunc(placeholders, func(x, y *Pod) int { return -MoreImportant(x, y) })
	var lost []*Pod
	for _, pod := range placeholders {
		if b.crowds(slot, pod) {
			trial.Take(pod)
			lost = append(lost, pod)
		}
	}
	trial.End()
	for _, pod := range lost {
		if p := b.byPod[pod.UID]; p != nil {
			b.lose(p, ReasonRoomTaken, "others hold the room on node "+b.state.nodes[slot].Name)
		}
	}
}

// crowds reports whether a slot holds more than it has of something that a pod takes there.
func (b *Placeholders) crowds(slot Slot, pod *Pod) bool {
	for _, a := range pod.Class.Amounts {
		if free, takes := b.state.Room(slot, pod.Class, a.Kind); takes && a.Value > 0 && free < 0 {
			return true
		}
	}
	for i := range pod.Class.Ports {
		for _, other := range b.pods.onSlot[slot] {
			if other != pod && !other.Claimed() && slices.ContainsFunc(other.Class.Ports, pod.Class.Ports[i].Conflicts) {
				return true
			}
		}
	}
	g := pod.Grant()
	for i := range topology.MaxGPUs {
		if g.GPUs&(1<<i) != 0 && b.state.gpus[slot][i] < 0 {
			return true
		}
	}
	return !pod.holding().isZero() && b.nodeBook.exceeded(slot)
}

// MayEvict reports whether a pod that waits may have victims. A pod may: its Plan was found by the rules of preemption. A placeholder may for the growth of a pod which could
// preempt them itself: one that runs on that very node, of the same namespace, of no lower priority, and whose policy is not Never. And nobody who runs may lose a place for it
// but those whom the role controller has named, by a rehearsal and within its budget. One whose Binding may be
// on its way counts as one that runs: by the time it is evicted it does. Pods that leave anyway and other placeholders lose nothing that counts.
//
// Example: the controller has named a. Meanwhile b came to the node, and the least harm would now be to evict b. The growth waits until the controller names b.
func (b *Placeholders) MayEvict(pod *Pod, node string, victims []*Pod) bool {
	if !pod.placeholder {
		return true
	}
	set := b.Set(pod.UID)
	if set == nil || !b.mayPreemptFor(set, pod, node) {
		return false
	}
	return !slices.ContainsFunc(victims, func(v *Pod) bool {
		return v.UID == set.Facts.Grows() || !v.placeholder && !v.Deleting && !slices.Contains(set.Facts.MayEvict, v.UID)
	})
}

func (b *Placeholders) mayPreemptFor(set *PlaceholderSet, placeholder *Pod, node string) bool {
	grows := b.pods.byUID[set.Facts.Grows()]
	return grows != nil && grows.Phase == Bound && !grows.Deleting && grows.node == node && grows.Namespace == placeholder.Namespace &&
		!grows.NeverPreempts && grows.Priority >= placeholder.Priority
}

// EndPermission takes note that a placeholder may evict nobody: other pods than those that were named would have to go. It may again when its Reservation says so anew, or when
// something has changed on the node, where those that were named may be enough by then.
func (b *Placeholders) EndPermission(placeholder facts.UID) {
	pod, p := b.pods.byUID[placeholder], b.byPod[placeholder]
	if pod == nil || !pod.placeholder {
		return
	}
	pod.NeverPreempts = true
	if p == nil {
		return
	}
	if slot := b.growsOn(p.set); slot != NoSlot {
		b.denied[p] = b.state.touched[slot]
	}
}

// growsOn is the slot of the pod that a Reservation is for, to grow there; NoSlot: it is for none.
func (b *Placeholders) growsOn(set *PlaceholderSet) Slot {
	if grows := b.pods.byUID[set.Facts.Grows()]; grows != nil {
		return grows.slot
	}
	return NoSlot
}

// renewPermissions lets placeholders look for victims again on whose nodes something has changed since they might not.
func (b *Placeholders) renewPermissions() {
	var renewed []*place
	for p, since := range b.denied {
		slot := b.growsOn(p.set)
		if slot != NoSlot && b.state.touched[slot] <= since {
			continue
		}
		delete(b.denied, p)
		if slot != NoSlot && !p.set.gone {
			renewed = append(renewed, p)
		}
	}
	slices.SortFunc(renewed, func(a, b *place) int { return cmp.Compare(a.uid(), b.uid()) })
	for _, p := range renewed {
		b.refresh(p)
	}
}

// SettlePlace makes the place of a placeholder certain whose victims have left.
func (b *Placeholders) SettlePlace(placeholder facts.UID) {
	if pod := b.pods.byUID[placeholder]; pod != nil && pod.placeholder && pod.Phase == Assumed && !pod.Obliged() && b.byPod[placeholder] != nil {
		b.reserve(pod)
	}
}

// verify holds the places against the pods.
func (b *Placeholders) verify() error {
	onSlots := make(map[Slot]int)
	for _, pod := range b.pods.byUID {
		if !pod.placeholder {
			continue
		}
		if pod.slot != NoSlot {
			onSlots[pod.slot]++
		}
		if len(b.byUID) > 0 && b.byPod[pod.UID] == nil {
			return fmt.Errorf("%s is a placeholder of no Reservation", pod.UID)
		}
	}
	for slot, n := range b.onSlots {
		if onSlots[slot] != n {
			return fmt.Errorf("slot %d: %d placeholders are counted, and %d are there", slot, n, onSlots[slot])
		}
	}
	if len(onSlots) != len(b.onSlots) {
		return fmt.Errorf("placeholders are counted on %d slots, and are on %d", len(b.onSlots), len(onSlots))
	}
	for _, set := range b.byUID {
		for i := range set.places {
			if err := b.verifyPlace(&set.places[i]); err != nil {
				return fmt.Errorf("%s: %w", set.places[i].uid(), err)
			}
		}
	}
	for pod, p := range b.takers {
		if p.taken != pod || pod.Phase != Assumed || b.pods.byUID[pod.UID] != pod {
			return fmt.Errorf("%s is taken by pod %s, which is %s", p.uid(), pod.UID, pod.Phase)
		}
	}
	return nil
}

func (b *Placeholders) verifyPlace(p *place) error {
	pod := b.pods.byUID[p.uid()]
	switch {
	case p.taken != nil && b.takers[p.taken] != p:
		return fmt.Errorf("it is taken by %s, which does not know", p.taken.UID)
	case p.taken != nil && p.is.State != facts.PlaceReserved:
		return fmt.Errorf("it is %s, and taken by %s", p.is.State, p.taken.UID)
	case pod == nil && p.is.State == facts.PlaceReserved && p.taken == nil:
		return fmt.Errorf("it is %s, and has no placeholder", p.is.State)
	case pod != nil && (p.is.State > facts.PlaceReserved || p.taken != nil):
		return fmt.Errorf("it is %s, taken: %v, and has a placeholder", p.is.State, p.taken != nil)
	case pod != nil && p.is.State == facts.PlaceReserved && (pod.Phase != Bound || pod.node != p.is.Node):
		return fmt.Errorf("it is %s on %s, and its placeholder is %s on %s", p.is.State, p.is.Node, pod.Phase, pod.node)
	case pod != nil && p.is.State == facts.PlaceWaiting && pod.Phase != Pending && pod.Phase != Assumed:
		return fmt.Errorf("it is %s, and its placeholder is %s", p.is.State, pod.Phase)
	}
	return nil
}
