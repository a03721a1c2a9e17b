package dra

import (
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
)

// What was written about a claim for a placement that failed is given back by a write of its own. Until the watch has seen the claim as that write has left it, no
// pod that uses the claim is given a node: it could be bound on the strength of an allocation that is about to go.

// GiveBack is what the API server must be told of a claim after a placement that failed.
type GiveBack struct {
	Claim    facts.ClaimName
	ClaimUID string
	// Pod is the pod for which the claim is reserved no more.
	Pod facts.UID
	// Deallocate: the claim has its devices from the placement, and nobody else uses them.
	Deallocate bool
}

// giving is a GiveBack that is not over.
type giving struct {
	GiveBack
	promise *promise
	version uint64 // of the claim as it was written; 0: it was not yet
}

// giveBack begins to give back what was written for a pod.
func (b *Book) giveBack(u *user, p *promise) {
	claim := b.claims[p.claim]
	if claim == nil || claim.UID != p.uid {
		return
	}
	g := &giving{GiveBack: GiveBack{Claim: p.claim, ClaimUID: p.uid, Pod: u.uid, Deallocate: (p.allocation != nil || b.brokenDevice(p.claim)) && b.usesAlone(u, claim)}, promise: p}
	b.giving[p.claim] = append(b.giving[p.claim], g)
	b.owed = append(b.owed, g.GiveBack)
}

// Abandon begins to give back the devices of a pod's claims that can be used on some nodes only, and by nobody else, because no such node can take the pod. It
// returns the pods whose needs are others now, sorted. (Upstream's PostFilter.)
func (b *Book) Abandon(uid facts.UID) (affected []facts.UID) {
	u := b.pods[uid]
	if u == nil || u.placed {
		return nil
	}
	for _, name := range u.claims() {
		claim := b.claims[name]
		if claim == nil || claim.Allocation == nil || claim.Allocation.Nodes == nil || len(b.giving[name]) > 0 || !b.usesAlone(u, claim) {
			continue
		}
		g := &giving{GiveBack: GiveBack{Claim: name, ClaimUID: claim.UID, Pod: uid, Deallocate: true}}
		b.giving[name] = append(b.giving[name], g)
		b.owed = append(b.owed, g.GiveBack)
		affected = append(affected, b.usersOf(name)...)
	}
	return affected
}

// usesAlone reports whether nobody but a pod uses a claim.
func (b *Book) usesAlone(u *user, claim *facts.ResourceClaim) bool {
	for _, other := range b.users[claim.ClaimName] {
		if other != u && other.placed {
			return false
		}
	}
	return !slices.ContainsFunc(claim.ReservedFor, func(other facts.UID) bool { return other != u.uid })
}

// NextGiveBack returns a write that is owed to the API server; ok is false if there is none.
func (b *Book) NextGiveBack() (g GiveBack, ok bool) {
	if len(b.owed) == 0 {
		return g, false
	}
	g, b.owed = b.owed[0], b.owed[1:]
	if len(b.owed) == 0 {
		b.owed = nil
	}
	return g, true
}

// GaveBack notes that a GiveBack was written, and which version of the claim that made; 0: there is nothing to give back any more, and nothing to wait for. It
// returns the pods whose needs may be others now, sorted.
func (b *Book) GaveBack(done *GiveBack, version uint64) []facts.UID {
	for _, g := range b.giving[done.Claim] {
		if g.ClaimUID == done.ClaimUID && g.Pod == done.Pod {
			g.version, g.Deallocate = max(version, 1), done.Deallocate
		}
	}
	b.settleGivings(done.Claim)
	return b.usersOf(done.Claim)
}

// settleGivings ends what the watch has seen given back.
func (b *Book) settleGivings(name facts.ClaimName) {
	if len(b.giving[name]) == 0 {
		return
	}
	claim := b.claims[name]
	b.giving[name] = slices.DeleteFunc(b.giving[name], func(g *giving) bool {
		over := claim == nil || claim.UID != g.ClaimUID || g.version > 0 && claim.Version >= g.version
		free := g.Deallocate || claim != nil && claim.Allocation == nil // or the write never arrived
		if over && free && g.promise != nil && b.promised[name] == g.promise {
			before := b.allocation(name)
			delete(b.promised, name)
			b.devices.retake(name, before, b.allocation(name))
		}
		return over
	})
	if len(b.giving[name]) == 0 {
		delete(b.giving, name)
	}
}
