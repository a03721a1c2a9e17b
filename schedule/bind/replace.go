package bind

import (
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
)

// A placement that waits for victims is not final. The victims may be stuck, while room appears elsewhere; the node may get a taint. Until the victims
// have left, the placements of its Plan may be given up for those of another Plan, in one transaction (cluster.Plan.Replaces): what the victims
// have freed stays reserved until the new places are certain.

// Replaceable reports whether the pod has a placement that waits for victims, its own or those of its plan group, and that another Plan may replace now:
// no write about the pod is under way, and no other pod waits for it to leave.
func (b *Binder) Replaceable(uid facts.UID) bool {
	r := b.placements.rows[uid]
	return r != nil && r.awaits() && r.stage != inFlight && b.placements.unanswered[uid] == 0 && !b.store.Pod(uid).Claimed()
}

// Awaits reports whether the pod has a placement that waits for victims, its own or those of its plan group.
func (b *Binder) Awaits(uid facts.UID) bool {
	r := b.placements.rows[uid]
	return r != nil && r.awaits()
}

// Recheck judges a placement that waits for victims on the newest state, as if they had left. The empty string: it may stay.
func (b *Binder) Recheck(uid facts.UID) string { return b.store.Recheck(uid, b.check) }

// GiveUp releases a placement that waits for victims, and those of its plan group.
func (b *Binder) GiveUp(uid facts.UID, why string) {
	if r := b.placements.rows[uid]; r != nil && r.awaits() && r.stage != inFlight {
		b.released(r, why, true)
	}
}

// replaced drops the rows of the pods that a Plan was to replace, and that have no place now. A pod that asks for something else by now loses its place
// even if the Plan is rejected; its plan group breaks then.
func (b *Binder) replaced(plan *cluster.Plan, committed bool) {
	for _, uid := range plan.Replaces {
		r := b.placements.rows[uid]
		if r == nil || b.store.Pod(uid).Phase != cluster.Pending {
			continue
		}
		b.drop(r)
		b.record(Transition{Event: Released, Pod: uid, Message: "its unit was placed anew without it", Unsent: true, Nominated: r.nominated})
		if !committed {
			b.breakGroup(r.group)
		}
	}
}
