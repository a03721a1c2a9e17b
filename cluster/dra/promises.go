package dra

import (
	"fmt"
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
)

// Obligation is what the API server must be told of a claim before a pod may be bound: first that it must not be deleted, then what it was given and for whom it
// is reserved.
type Obligation struct {
	Claim    facts.ClaimName
	ClaimUID string
	Pod      facts.UID
	// Protect: the claim gets its finalizer, and nothing else is written.
	Protect bool
	// Allocation is what the claim is given; empty: it has devices already. It is the JSON of status.allocation.
	Allocation string
	// Time is when the claim was given its devices, in seconds since 1970.
	Time int64
	// Waits: the write of another pod, which gives the claim its devices, comes first.
	Waits bool
	// Create: the claim is made for the Pod's extended resources, and asks for Requests; nothing else is written. Mappings: the pod's status is told that the claim
	// was made, and which of its requests is for which container; nothing else is written.
	Create   bool
	Requests facts.ClaimRequests
	Mappings []facts.RequestMapping
}

// Take gives the claims of a pod that gets a node their devices there, and reserves them for the pod. publishes reports which extended resources the node has by
// itself. conflict says why that cannot be; then nothing is taken. It returns the other pods whose needs may be others now, sorted.
func (b *Book) Take(uid facts.UID, node *facts.Node, publishes func(resource string) bool) (conflict string, affected []facts.UID) {
	u := b.pods[uid]
	if u == nil {
		return "", nil
	}
	needs, waits := b.Needs(uid)
	if waits != "" {
		return waits, nil
	}
	var made *extendedClaim
	if needs != nil {
		made = b.madeFor(u, needs, publishes)
		if needs = needs.On(publishes); needs == nil {
			return "the devices of the pod's extended resources are elsewhere", nil
		}
	}
	var allocations []*facts.ClaimAllocation
	if needs != nil {
		if !needs.Suits(node) {
			return "resourceclaim not available on the node", nil
		}
		if len(needs.Unallocated) > 0 {
			var refusal string
			if allocations, refusal = b.devices.view(node).Allocate(needs); refusal != "" {
				return refusal, nil
			}
		}
	}
	b.make(u, made)
	for _, name := range u.claims() {
		claim := b.claims[name]
		p := &promise{claim: name}
		if made != nil && name == made.name {
			p.made = made
		}
		if claim != nil {
			p.uid, p.created = claim.UID, true
		}
		if b.allocation(name) == nil {
			p.allocation, allocations = allocations[0], allocations[1:]
			b.promised[name] = p
			b.devices.retake(name, nil, b.allocation(name))
			affected = append(affected, b.usersOf(name)...)
		}
		p.seen = p.allocation == nil && claim != nil && claim.Allocation != nil && claim.ReservedForUID(uid)
		u.promises = append(u.promises, p)
	}
	u.placed = true
	affected = append(affected, b.runningOut(u)...)
	return "", others(affected, uid)
}

func others(list []facts.UID, uid facts.UID) []facts.UID {
	list = slices.DeleteFunc(list, func(other facts.UID) bool { return other == uid })
	slices.Sort(list)
	return slices.Compact(list)
}

// runningOut are the users of those claims of a pod that may be reserved for fewer pods than use them.
func (b *Book) runningOut(u *user) (affected []facts.UID) {
	for _, name := range u.claims() {
		if c := b.claims[name]; c != nil && len(b.users[name]) >= b.reservable(name, c) {
			affected = append(affected, b.usersOf(name)...)
		}
	}
	return affected
}

// Hold notes that a pod was seen on a node: nothing need be promised to it.
func (b *Book) Hold(uid facts.UID) []facts.UID {
	u := b.pods[uid]
	if u == nil || u.placed && len(u.promises) == 0 {
		return nil
	}
	u.placed = true
	return b.drop(u, false)
}

// Release takes back that a pod has a node, with what was promised to it. What may have been written must be given back, see NextGiveBack. It returns the others
// whose needs may be others now, sorted.
func (b *Book) Release(uid facts.UID) []facts.UID {
	u := b.pods[uid]
	if u == nil || !u.placed {
		return nil
	}
	u.placed = false
	return b.drop(u, true)
}

// drop ends the promises to a pod. What was written of them stays taken: until the watch says so, or, if the place was lost, until it is given back.
func (b *Book) drop(u *user, lost bool) (affected []facts.UID) {
	for _, p := range u.promises {
		switch {
		case lost && (p.written || b.brokenDevice(p.claim)):
			b.giveBack(u, p)
			affected = append(affected, b.usersOf(p.claim)...)
		case !p.written && b.promised[p.claim] == p:
			delete(b.promised, p.claim)
			b.devices.retake(p.claim, p.allocation, b.allocation(p.claim))
			affected = append(affected, b.usersOf(p.claim)...)
		}
	}
	u.promises = nil
	b.unmake(u)
	return others(append(affected, b.runningOut(u)...), u.uid)
}

// Obligations lists what must be written for a pod that was taken, and the API server was not seen to have, nor told of.
func (b *Book) Obligations(uid facts.UID) (list []Obligation) {
	u := b.pods[uid]
	if u == nil {
		return nil
	}
	for _, p := range u.promises {
		o := Obligation{Claim: p.claim, ClaimUID: p.uid, Pod: uid}
		claim := b.claims[p.claim]
		switch {
		case (p.seen || p.confirmed) && p.made != nil && !p.mapped:
			o.Mappings = p.made.mappings
			list = append(list, o)
			continue
		case p.seen || p.confirmed, p.made != nil && p.created && p.uid == "": // it is made, and not seen yet
			continue
		case p.made != nil && p.uid == "":
			o.Create, o.Requests = true, p.made.requests
			list = append(list, o)
			continue
		}
		if p.allocation != nil {
			o.Allocation = p.allocation.Body
			if claim != nil && !claim.Protected {
				guard := o
				guard.Protect, guard.Allocation = true, ""
				list = append(list, guard)
			}
		} else if giver := b.promised[p.claim]; giver != nil && !giver.confirmed {
			o.Waits = true
		}
		list = append(list, o)
	}
	return list
}

// Writing notes that an Obligation is being written: from now on the API server may have it.
func (b *Book) Writing(o *Obligation) {
	if p := b.promiseOf(o.Pod, o.Claim); p != nil && o.reserves() {
		p.written = true
	}
}

// Wrote notes that an Obligation was written, or, with done false, that it certainly was not. It returns the other pods that wait for it.
func (b *Book) Wrote(o *Obligation, done bool) []facts.UID {
	p := b.promiseOf(o.Pod, o.Claim)
	switch {
	case p == nil || o.Protect:
		return nil
	case o.Create:
		p.created = done
		return nil
	case len(o.Mappings) > 0:
		p.mapped = done
		return nil
	}
	p.written, p.confirmed = done, done
	return others(b.usersOf(o.Claim), o.Pod)
}

// reserves reports whether the Obligation gives the claim its devices, or reserves it.
func (o *Obligation) reserves() bool { return !o.Protect && !o.Create && len(o.Mappings) == 0 }

func (b *Book) promiseOf(uid facts.UID, claim facts.ClaimName) *promise {
	if u := b.pods[uid]; u != nil {
		for _, p := range u.promises {
			if p.claim == claim {
				return p
			}
		}
	}
	return nil
}

// Owes reports whether something must be written about the claims of a pod that has its node, or waited for.
func (b *Book) Owes(uid facts.UID) bool {
	ready, failed := b.Progress(uid)
	return !ready || failed != ""
}

// Progress says how far the claims of a pod are that was taken for a node: ready when all have their devices and are reserved for it, failed (with the reason) when
// that will not be.
func (b *Book) Progress(uid facts.UID) (ready bool, failed string) {
	u := b.pods[uid]
	if u == nil {
		return true, ""
	}
	ready = true
	for _, p := range u.promises {
		claim := b.claims[p.claim]
		switch {
		case claim == nil && p.made != nil && p.uid == "":
			ready = false
			continue
		case claim == nil || claim.UID != p.uid || claim.Deleting:
			return false, fmt.Sprintf("resourceclaim %q is gone, or is being deleted", p.claim.Name)
		case p.allocation != nil && claim.Allocation != nil && !slices.EqualFunc(p.allocation.Devices, claim.Allocation.Devices, sameDevice):
			return false, fmt.Sprintf("resourceclaim %q got allocated elsewhere in the meantime", p.claim.Name)
		case p.allocation == nil && b.allocation(p.claim) == nil:
			return false, fmt.Sprintf("resourceclaim %q got deallocated elsewhere in the meantime", p.claim.Name)
		case p.seen && !claim.ReservedForUID(uid):
			return false, fmt.Sprintf("resourceclaim %q is not reserved for the pod any more", p.claim.Name)
		}
		if other := b.givenTo(p); other != "" {
			return false, other
		}
		bound, failure := conditions(claim, b.allocation(p.claim))
		if failure != "" {
			return false, fmt.Sprintf("resourceclaim %q: %s", p.claim.Name, failure)
		}
		ready = ready && (p.seen || p.confirmed) && (p.made == nil || p.mapped) && bound
	}
	return ready, ""
}

// givenTo says that somebody else has given a device to another claim before the promise of it was written; empty: nobody has.
func (b *Book) givenTo(p *promise) string {
	if p.allocation == nil || p.written || b.promised[p.claim] != p {
		return ""
	}
	for i := range p.allocation.Devices {
		d := &p.allocation.Devices[i]
		if d.Admin || d.Share != "" {
			continue
		}
		for name, devices := range b.devices.pool(poolOf(d)).taken {
			if name != p.claim && slices.ContainsFunc(devices, func(other facts.AllocatedDevice) bool { return other.DeviceID == d.DeviceID && other.Share == "" }) {
				return fmt.Sprintf("device %s was given to resourceclaim %s meanwhile", d.DeviceID, name)
			}
		}
	}
	return ""
}

// brokenDevice reports whether a driver has failed for a device that the API server says a claim has: it is of no use any more.
func (b *Book) brokenDevice(name facts.ClaimName) bool {
	claim := b.claims[name]
	if claim == nil || claim.Allocation == nil {
		return false
	}
	_, failure := conditions(claim, claim.Allocation)
	return failure != ""
}

// conditions reports whether the conditions of a claim's devices let pods be bound, or why they never will.
func conditions(claim *facts.ResourceClaim, a *facts.ClaimAllocation) (bound bool, failure string) {
	bound = true
	for i := range a.Devices {
		d := &a.Devices[i]
		if len(d.Binding) == 0 {
			continue
		}
		for _, c := range claim.Conditions {
			if c.DeviceID == d.DeviceID && slices.Contains(d.Failure, c.Type) {
				return false, fmt.Sprintf("device %s: binding failed: %s: %s", d.DeviceID, c.Type, c.Message)
			}
		}
		for _, want := range d.Binding {
			bound = bound && slices.ContainsFunc(claim.Conditions, func(c facts.DeviceCondition) bool { return c.DeviceID == d.DeviceID && c.Type == want })
		}
	}
	return bound, ""
}
