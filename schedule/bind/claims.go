package bind

import (
	"slices"
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/dra"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/volumes"
)

// claims knows what must be written about the claims of a pod before its Binding, and what the answers and the watch mean for that. It writes nothing and
// keeps nothing: how far a placement has come is in its row, what is owed the ledger says.
//
// # Volumes
//
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
//
// # Devices
//
// A placement of a pod with ResourceClaims has two more writes for each claim that it gives devices to, one for each that has some already. They are made at the
// same step as the writes about volumes, with the same rules for plan groups.
//
//	WriteClaim    c      claim c gets its finalizer, so that it is not deleted while it is allocated
//	WriteClaim    c  p   c is given its devices, and reserved for pod p
//	WriteBinding  p  n
//
// The answer is enough to go on, unless a device has conditions that its driver must set first: then the row waits for the watch to see them.
//
// If the placement comes to nothing, what was written, or may have been, is given back (giveBacks).
type claims struct{ store *cluster.Store }

// claimProgress is how far a row has come with its pod's claims.
type claimProgress struct {
	// Of volumes.
	obligation    volumes.Obligation // the write in flight
	told          []facts.ClaimName  // claims about which was written
	awaitsVolumes bool               // it pauses until its claims are bound
	volumesReady  bool               // they are

	// Of ResourceClaims.
	claim       *dra.Obligation   // the write in flight, nil: it is not about one
	protected   []facts.ClaimName // that have their finalizer
	claimsSince int64             // when the first was written
}

// owes reports whether the row has claims that must be bound before the pod is.
func (c claims) owes(r *row) bool { return !r.volumesReady && c.of(r.pod) }

// of reports whether a pod has claims, of volumes or of devices, that the API server must be told of, or that must be waited for.
func (c claims) of(uid facts.UID) bool {
	return c.store.Volumes().Owes(uid) || c.store.ResourceClaims().Owes(uid)
}

// ofAny reports whether a pod of a Plan has such claims.
func (c claims) ofAny(plan *cluster.Plan) bool {
	return slices.ContainsFunc(plan.Placements, func(p cluster.Placement) bool { return c.of(p.Pod) })
}

// next makes the next write about the row's claims the one to be started. It reports whether there is one; without, the row waits for the claims to be bound.
func (c claims) next(r *row, now time.Time) bool {
	for _, o := range c.store.Volumes().Obligations(r.pod) {
		if !slices.Contains(r.told, o.Claim) {
			r.obligation, r.claim = o, nil
			return true
		}
	}
	o, ok := c.nextDevices(r)
	if !ok {
		return false
	}
	if r.claimsSince == 0 {
		r.claimsSince = now.Unix() // a repetition must say the same
	}
	o.Time = r.claimsSince
	c.store.ResourceClaims().Writing(&o)
	r.claim = &o
	return true
}

// nextDevices is the next write about the row's ResourceClaims that can be made now.
func (c claims) nextDevices(r *row) (o dra.Obligation, ok bool) {
	for _, o := range c.store.ResourceClaims().Obligations(r.pod) {
		if !o.Waits && (!o.Protect || !slices.Contains(r.protected, o.Claim)) {
			return o, true
		}
	}
	return o, false
}

// answered decides after a write about the row's claims was answered.
func (c claims) answered(r *row, result *Result) nextStep {
	if r.claim != nil {
		return c.devicesAnswered(r, result)
	}
	switch {
	case result.Outcome == Conflict && r.attempts > 0 && r.obligation.Volume == "": // with ourselves, after an answer that was lost, or with somebody else: the watch will say
		return r.repeat(WriteVolume)
	case result.Outcome == Written, result.Outcome == Conflict && r.attempts > 0: // after an answer that was lost, the conflict is with ourselves; the watch will say
		r.told, r.attempts = append(r.told, r.obligation.Claim), 0
		return nextStep{do: queues}
	case result.Outcome == Unknown, result.Outcome == NotSent && r.attempts > 0:
		return r.repeat(WriteVolume)
	case result.Outcome == NotSent:
		return notSent(result.Message)
	}
	return released("bind claim " + r.obligation.Claim.String() + ": " + result.Message)
}

// devicesAnswered decides after a write about a ResourceClaim was answered. What certainly was not written need not be given back.
func (c claims) devicesAnswered(r *row, result *Result) nextStep {
	o := *r.claim
	r.claim = nil
	refused := result.Outcome != Written && result.Outcome != Unknown && r.attempts == 0
	if result.Outcome == Written || refused {
		c.store.ClaimsChanged(c.store.ResourceClaims().Wrote(&o, result.Outcome == Written))
	}
	switch {
	case result.Outcome == Written:
		if o.Protect {
			r.protected = append(r.protected, o.Claim)
		}
		r.attempts = 0
		return nextStep{do: queues}
	case result.Outcome == Unknown, result.Outcome == NotSent && r.attempts > 0:
		r.claim = &o // to be written again
		return r.repeat(WriteVolume)
	case result.Outcome == NotSent:
		return notSent(result.Message)
	case result.Outcome == Gone:
		return released("allocate claim " + o.Claim.String() + ": it is gone, or another has its name")
	}
	return released("allocate claim " + o.Claim.String() + ": " + result.Message)
}

// claimState is how the claims of a row that waits for them stand.
type claimState uint8

const (
	claimsPending claimState = iota // the watch has not seen them bound
	claimsFailed                    // they will not be
	claimsOwed                      // there is something to write: another pod's write came first
	claimsBound
)

// state says how the claims of a row that waits for them stand, and why they fail if they do.
func (c claims) state(r *row) (state claimState, why string) {
	slot := c.store.Slot(r.node)
	if slot == cluster.NoSlot {
		return claimsPending, "" // ReleaseFromLostNodes follows
	}
	ready, failed := c.volumes(r, slot)
	allocated, failedClaim := c.store.ResourceClaims().Progress(r.pod)
	switch {
	case failed != "":
		return claimsFailed, failed
	case failedClaim != "":
		return claimsFailed, "allocating devices: " + failedClaim
	}
	if _, owed := c.nextDevices(r); owed {
		return claimsOwed, ""
	}
	if ready && allocated {
		return claimsBound, ""
	}
	return claimsPending, ""
}

// volumes says whether the row's claims of volumes are bound, and why they will not be if they will not.
func (c claims) volumes(r *row, slot cluster.Slot) (bound bool, failed string) {
	bound, failed = c.store.Volumes().Progress(r.pod, c.store.Node(slot))
	if failed != "" {
		failed = "binding volumes: " + failed
	}
	return bound, failed
}
