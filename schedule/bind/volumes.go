package bind

import (
	"slices"
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
)

// A placement of a pod with unbound claims has two more steps before its Binding. Each claim, or the volume that was chosen for it, is told (WriteVolume);
// then the row waits until the watch has seen all claims bound.
//
//	WriteVolume   c  n    a volume is provisioned for claim c on node n; or v is bound to c
//	                      the watch sees that c is bound
//	WriteBinding  p  n
//
// A row that waits holds nothing but its node: no goroutine, no lock and no place in flight. The driver refuses by taking the node off the claim again; that
// releases the placement, as does a volume that turns out to be elsewhere, and the end of Binding.VolumeTimeout.
//
// The rows of a Plan with several placements form a plan group if one of them has such claims. No claim is told anything before the victims of all have left,
// no member is bound before the claims of all are, and one failure sends all back. A member that is placed by itself meanwhile is one of the group: otherwise it
// would be bound though the others lose their places.

// owes reports whether the row has claims that must be bound before the pod is.
func (b *Binder) owes(r *row) bool { return !r.volumesReady && b.hasClaims(r.pod) }

// hasClaims reports whether a pod has claims, of volumes or of devices, that the API server must be told of, or that must be waited for.
func (b *Binder) hasClaims(uid facts.UID) bool {
	return b.store.Volumes().Owes(uid) || b.store.ResourceClaims().Owes(uid)
}

// queueVolumes queues the writes about the claims of a row whose victims have left.
func (b *Binder) queueVolumes(r *row) {
	if r.kind == WriteNomination {
		b.record(Transition{Event: VictimsGone, Pod: r.pod})
	}
	r.kind, r.stage, r.attempts = WriteVolume, queued, 0
	b.enqueue(r)
}

// startVolume starts the next write about the row's claims, or waits for them if there is none.
func (b *Binder) startVolume(r *row, now time.Time) {
	if b.store.Slot(r.node) == cluster.NoSlot {
		b.released(r, cluster.RejectNodeGone, true)
		return
	}
	for _, o := range b.store.Volumes().Obligations(r.pod) {
		if !slices.Contains(r.told, o.Claim) {
			r.obligation, r.claim = o, nil
			b.start(r)
			return
		}
	}
	if b.startClaim(r, now) {
		return
	}
	r.awaitsVolumes = true
	b.pause(r, WriteVolume, now, b.cfg.VolumeTimeout.D())
	b.checkVolumes(r)
}

func (b *Binder) finishVolume(r *row, result Result, now time.Time) {
	switch {
	case r.claim != nil:
		b.finishClaim(r, result, now)
	case b.store.Pod(r.pod).Claimed():
		b.preempted(r)
	case r.group != nil && r.group.broken:
		b.released(r, lostMember, true)
	case result.Outcome == Conflict && r.attempts > 0 && r.obligation.Volume == "": // with ourselves, after an answer that was lost, or with somebody else: the watch will say
		r.attempts++
		b.pause(r, WriteVolume, now, backoff(r.attempts))
	case result.Outcome == Written, result.Outcome == Conflict && r.attempts > 0: // after an answer that was lost, the conflict is with ourselves; the watch will say
		r.told, r.attempts = append(r.told, r.obligation.Claim), 0
		b.enqueue(r)
	case result.Outcome == Unknown, result.Outcome == NotSent && r.attempts > 0:
		r.attempts++
		b.pause(r, WriteVolume, now, backoff(r.attempts))
	case result.Outcome == NotSent:
		b.released(r, "not sent: "+result.Message, true)
	default:
		b.released(r, "bind claim "+r.obligation.Claim.String()+": "+result.Message, false)
	}
}

// VolumesMoved takes note that something changed about the volumes of a pod.
func (b *Binder) VolumesMoved(uid facts.UID) {
	if r := b.rows[uid]; r != nil && r.awaitsVolumes {
		b.checkVolumes(r)
	}
}

// checkVolumes goes on with a row whose claims are bound, and releases one whose claims will not be.
func (b *Binder) checkVolumes(r *row) {
	slot := b.store.Slot(r.node)
	if slot == cluster.NoSlot {
		return // ReleaseFromLostNodes follows
	}
	ready, failed := b.store.Volumes().Progress(r.pod, b.store.Node(slot))
	allocated, failedClaim := b.store.ResourceClaims().Progress(r.pod)
	switch {
	case failed != "":
		b.released(r, "binding volumes: "+failed, false)
	case failedClaim != "":
		b.released(r, "allocating devices: "+failedClaim, false)
	case b.queueClaims(r):
	case ready && allocated:
		b.pausing.Remove(r.position)
		r.awaitsVolumes, r.volumesReady, r.stage = false, true, waiting
		b.victimsGone(r)
	}
}

// volumesTimedOut releases a row that has waited for its claims for too long. It has left the heap of pausing rows.
func (b *Binder) volumesTimedOut(r *row) {
	r.stage = waiting
	b.released(r, "binding volumes: the claims were not bound within "+b.cfg.VolumeTimeout.D().String(), false)
}
