package dra

import "hilbert.dev/hilbert/cluster/facts"

// Needs returns what the ResourceClaims of a pod ask of its node; nil if it has none. waits is why no node can be chosen yet, in upstream's words where it has
// any; empty when one can.
func (b *Book) Needs(uid facts.UID) (needs *facts.ClaimNeeds, waits string) {
	u := b.pods[uid]
	if u == nil {
		return nil, ""
	}
	for _, use := range u.uses {
		if waits := b.waits(u, use); waits != "" {
			return nil, waits
		}
	}
	n := &facts.ClaimNeeds{}
	var key facts.Key
	shares := false
	for _, name := range u.claims() {
		claim := b.claims[name]
		if left := b.reservable(name, claim); len(b.users[name]) > left && !claim.ReservedForUID(uid) {
			n.Reserved = append(n.Reserved, facts.ClaimRoom{Claim: name, Left: left})
		}
		if a := b.allocation(name); a != nil {
			if a.Nodes != nil {
				n.Allocated = append(n.Allocated, a.Nodes)
			}
			n.Worth += claim.Requests.Worth(a.Devices)
			continue
		}
		n.Unallocated = append(n.Unallocated, claim.Requests)
		key.Text(claim.Requests.Key)
		if b.inGangs(name) <= 1 {
			name = facts.ClaimName{}
		}
		n.Shared = append(n.Shared, name)
		shares = shares || name != facts.ClaimName{}
	}
	if !shares {
		n.Shared = nil
	}
	if n.Key = string(key); len(n.Unallocated) == 0 {
		n.Worth = 0
	}
	if waits := b.extend(n, u); waits != "" {
		return nil, waits
	}
	if len(n.Allocated)+len(n.Unallocated)+len(n.Reserved)+len(n.Extended) == 0 {
		return nil, ""
	}
	return n, ""
}

// waits returns why an entry of a pod's claims keeps the pod from having a node, whichever it is.
func (b *Book) waits(u *user, use facts.ResourceClaimUse) string {
	if use.Claim == "" {
		return "waiting for the resourceclaim controller to create a ResourceClaim from the pod's template"
	}
	name := facts.ClaimName{Namespace: u.namespace, Name: use.Claim}
	claim, quoted := b.claims[name], `resourceclaim "`+use.Claim+`"`
	switch {
	case claim == nil:
		return quoted + " not found"
	case claim.Deleting:
		return quoted + " is being deleted"
	case use.Generated && claim.Pod != u.uid:
		return "ResourceClaim " + name.String() + " was not created for the pod (pod is not owner)"
	}
	switch {
	case len(b.giving[name]) > 0:
		return quoted + " is being given back"
	case b.allocation(name) != nil:
		if !claim.ReservedForUID(u.uid) && b.reservable(name, claim) <= 0 {
			return "resourceclaim in use"
		}
		return ""
	}
	for _, c := range claim.Requests.Classes {
		if b.devices.classes[c.Class] == nil {
			return "request " + c.Request + ": device class " + c.Class + " does not exist"
		}
	}
	return ""
}

// reservable is how many more pods a claim may be reserved for.
func (b *Book) reservable(name facts.ClaimName, claim *facts.ResourceClaim) int {
	return facts.MaxReservedFor - len(claim.ReservedFor) - b.reserving(name, claim)
}

// reserving is how many pods have a place for which the claim is not reserved yet.
func (b *Book) reserving(name facts.ClaimName, claim *facts.ResourceClaim) (n int) {
	for uid, u := range b.users[name] {
		if u.placed && !claim.ReservedForUID(uid) {
			n++
		}
	}
	return n
}
