package cluster

import (
	"fmt"
	"slices"

	"hilbert.dev/hilbert/resource"
)

// mayTake reports whether all placeholders that the Plan takes have places, and each is for a pod of the Plan on its node that has no other. It finds these pods.
func (j *judgement) mayTake() bool {
	if len(j.plan.Takes) == 0 {
		return true
	}
	if len(j.plan.Victims) > 0 {
		return false
	}
	for _, uid := range j.plan.Takes {
		placeholder := j.s.pods.byUID[uid]
		if placeholder == nil || !placeholder.placeholder || placeholder.Phase != Bound || placeholder.slot == NoSlot {
			return false
		}
		taker := j.takerOf(placeholder)
		if taker == nil {
			return false
		}
		j.owners = append(j.owners, taker)
	}
	return true
}

// takerOf returns the first pod that the Plan puts on the placeholder's node which is its owner and takes nothing else; nil: there is none.
func (j *judgement) takerOf(placeholder *Pod) *Pod {
	set := j.s.placeholders.Set(placeholder.UID)
	for i := range j.plan.Placements {
		p := &j.plan.Placements[i]
		pod := j.s.pods.byUID[p.Pod]
		if pod != nil && p.Node == placeholder.node && set != nil && !slices.Contains(j.owners, pod) && j.s.placeholders.Owns(set, pod) {
			return pod
		}
	}
	return nil
}

// isCharged reports whether a pod takes a placeholder that is charged as much already: the swap leaves its queue where it is, be that beyond a limit.
func (j *judgement) isCharged(pod *Pod) bool {
	i := slices.Index(j.owners, pod)
	if i < 0 {
		return false
	}
	charged := j.s.pods.byUID[j.plan.Takes[i]].Class.Charge
	return !slices.ContainsFunc(pod.Class.Charge, func(a resource.Amount) bool { return a.Value > charged.Get(a.Kind) })
}

// settlePlaceholders makes certain what a committed Plan has done to places: those that it takes are its pods' now, those of victims are lost, and those that it
// found are reserved. What is left of Plan.Victims has to be evicted.
func (j *judgement) settlePlaceholders() {
	b := &j.s.placeholders
	for i, uid := range j.plan.Takes {
		p := b.byPod[uid]
		j.s.removePod(uid)
		p.taken = j.owners[i]
		b.takers[p.taken] = p
	}
	j.loseVictims()
	for i := range j.plan.Placements {
		if pod := j.s.pods.byUID[j.plan.Placements[i].Pod]; pod.placeholder && len(j.victims) == 0 {
			j.s.placeholders.reserve(pod)
		}
	}
}

// loseVictims ends the places of placeholders that are victims. A victim that has the room of one does not give it back: the room is the Plan's.
func (j *judgement) loseVictims() {
	b := &j.s.placeholders
	isPlaceholder := func(pod *Pod) bool { return pod.placeholder && pod.Phase != Assumed }
	concerned := func(pod *Pod) bool { return pod.placeholder || b.takers[pod] != nil }
	if !slices.ContainsFunc(j.victims, concerned) {
		return
	}
	winner := j.s.pods.byUID[j.plan.Placements[0].Pod]
	// Who reads a namespace learns no name of another.
	message := func(p *place) string {
		if winner.Namespace != p.set.Facts.Namespace {
			return "a pod of another namespace, of higher priority, has its room"
		}
		return fmt.Sprintf("pod %s of higher priority has its room", winner.Name)
	}
	for _, victim := range j.victims {
		if p := b.takers[victim]; p != nil {
			delete(b.takers, victim)
			p.taken = nil
			j.s.placeholders.lose(p, ReasonPreempted, message(p))
		}
		switch p := b.byPod[victim.UID]; {
		case !victim.placeholder || victim.Phase == Assumed: // one that waits for victims of its own has no room yet, and waits on
		case p == nil: // of a ledger that was loaded, which knows no Reservation
			j.s.removePod(victim.UID)
		default:
			j.s.placeholders.lose(p, ReasonPreempted, message(p))
		}
	}
	j.victims = slices.DeleteFunc(j.victims, isPlaceholder)
	j.plan.Victims = j.plan.Victims[:0:0]
	for _, victim := range j.victims {
		j.plan.Victims = append(j.plan.Victims, victim.UID)
	}
}
