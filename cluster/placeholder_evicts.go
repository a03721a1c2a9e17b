package cluster

import (
	"cmp"
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
)

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
