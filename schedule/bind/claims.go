package bind

import (
	"slices"
	"time"

	"hilbert.dev/hilbert/cluster/dra"
	"hilbert.dev/hilbert/internal/deadline"
)

// A placement of a pod with ResourceClaims has two more writes for each claim that it gives devices to, one for each that has some already. They are made at the
// same step as the writes about volumes (volumes.go), with the same rules for plan groups.
//
//	WriteClaim    c      claim c gets its finalizer, so that it is not deleted while it is allocated
//	WriteClaim    c  p   c is given its devices, and reserved for pod p
//	WriteBinding  p  n
//
// The answer is enough to go on, unless a device has conditions that its driver must set first: then the row waits for the watch to see them.
//
// If the placement comes to nothing, what was written, or may have been, is given back (GiveBackClaim). The ledger says what is owed, and no pod that uses the claim
// is decided before the watch has seen it given back.

// MaxGiveBacksInFlight bounds the GiveBackClaim writes under way.
const MaxGiveBacksInFlight = 16

// giveBacks are the claims that must be given back after a placement that failed.
type giveBacks struct {
	rows    []giveBack // that wait, the oldest first
	flights map[uint64]giveBack
}

type giveBack struct {
	dra.GiveBack
	attempts int
	until    time.Time
}

// nextObligation is the next write about the row's ResourceClaims that can be made now.
func (b *Binder) nextObligation(r *row) (o dra.Obligation, ok bool) {
	for _, o := range b.store.ResourceClaims().Obligations(r.pod) {
		if !o.Waits && (!o.Protect || !slices.Contains(r.protected, o.Claim)) {
			return o, true
		}
	}
	return o, false
}

// queueClaims queues a row again that waits while it has something to write: another pod's write came first.
func (b *Binder) queueClaims(r *row) bool {
	if _, ok := b.nextObligation(r); !ok {
		return false
	}
	b.pausing.Remove(r.position)
	r.awaitsVolumes, r.stage, r.attempts = false, queued, 0
	b.enqueue(r)
	return true
}

// startClaim starts the next write about the row's ResourceClaims, and reports whether there is one.
func (b *Binder) startClaim(r *row, now time.Time) bool {
	o, ok := b.nextObligation(r)
	if !ok {
		return false
	}
	if r.claimsSince == 0 {
		r.claimsSince = now.Unix() // a repetition must say the same
	}
	o.Time = r.claimsSince
	b.store.ResourceClaims().Writing(&o)
	r.claim = &o
	b.start(r)
	return true
}

// finishClaim takes the answer to a write about a claim. What certainly was not written need not be given back.
func (b *Binder) finishClaim(r *row, result Result, now time.Time) {
	o := *r.claim
	r.claim = nil
	refused := result.Outcome != Written && result.Outcome != Unknown && r.attempts == 0
	if result.Outcome == Written || refused {
		b.store.ClaimsChanged(b.store.ResourceClaims().Wrote(&o, result.Outcome == Written))
	}
	switch {
	case b.store.Pod(r.pod).Claimed():
		b.preempted(r)
	case r.group != nil && r.group.broken:
		b.released(r, lostMember, true)
	case result.Outcome == Written:
		if o.Protect {
			r.protected = append(r.protected, o.Claim)
		}
		r.attempts = 0
		b.enqueue(r)
	case result.Outcome == Unknown, result.Outcome == NotSent && r.attempts > 0:
		r.attempts++
		r.claim = &o // to be written again
		b.pause(r, WriteVolume, now, backoff(r.attempts))
	case result.Outcome == NotSent:
		b.released(r, "not sent: "+result.Message, true)
	case result.Outcome == Gone:
		b.released(r, "allocate claim "+o.Claim.String()+": it is gone, or another has its name", false)
	default:
		b.released(r, "allocate claim "+o.Claim.String()+": "+result.Message, false)
	}
}

// startGiveBacks starts the writes that give claims back. They wait for the answer to the write that they take back.
func (b *Binder) startGiveBacks(now time.Time) {
	for g, ok := b.store.ResourceClaims().NextGiveBack(); ok; g, ok = b.store.ResourceClaims().NextGiveBack() {
		b.giveBacks.rows = append(b.giveBacks.rows, giveBack{GiveBack: g})
	}
	if len(b.giveBacks.rows) == 0 {
		return
	}
	b.giveBacks.rows = slices.DeleteFunc(b.giveBacks.rows, func(g giveBack) bool {
		if len(b.giveBacks.flights) >= MaxGiveBacksInFlight || g.until.After(now) || b.unanswered[g.Pod] > 0 {
			return false
		}
		b.next++
		b.giveBacks.flights[b.next] = g
		b.ready = append(b.ready, Write{
			ID: WriteID{OwnerClaims, b.next}, Kind: GiveBackClaim, Pod: g.Pod, Namespace: g.Claim.Namespace, Name: g.Claim.Name, GiveBack: g.GiveBack,
		})
		return true
	})
}

func (b *Binder) finishGiveBack(result Result, now time.Time) {
	g, ok := b.giveBacks.flights[result.ID.Number]
	if !ok {
		return
	}
	delete(b.giveBacks.flights, result.ID.Number)
	switch result.Outcome {
	case Written:
		b.store.ClaimsChanged(b.store.ResourceClaims().GaveBack(&g.GiveBack, result.Version))
	case Gone:
		b.store.ClaimsChanged(b.store.ResourceClaims().GaveBack(&g.GiveBack, 0))
	case Refused, Withheld:
		if g.Deallocate { // somebody else uses it by now
			g.Deallocate = false
			b.giveBacks.rows = append(b.giveBacks.rows, g)
			return
		}
		b.store.ClaimsChanged(b.store.ResourceClaims().GaveBack(&g.GiveBack, 0))
	default:
		g.attempts++
		g.until = now.Add(backoff(g.attempts))
		b.giveBacks.rows = append(b.giveBacks.rows, g)
	}
}

func (g *giveBacks) nextWake() (time.Time, bool) {
	var next deadline.Earliest
	if len(g.flights) < MaxGiveBacksInFlight {
		for i := range g.rows {
			next.Add(g.rows[i].until, true)
		}
	}
	return next.Time()
}
