package cluster

import (
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
