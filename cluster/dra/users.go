package dra

import (
	"maps"
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
)

// Objects lists all objects, by kind and name. Claims have what they are promised, and are reserved for the pods that have places.
func (b *Book) Objects() (list []facts.DRAObject) {
	for name := range b.claims {
		list = append(list, b.Claim(name))
	}
	for name, p := range b.promised {
		if b.claims[name] == nil && p.made != nil {
			list = append(list, b.Claim(name))
		}
	}
	for _, c := range b.devices.classes {
		list = append(list, c)
	}
	for _, s := range b.devices.slices {
		list = append(list, s)
	}
	for _, r := range b.devices.rules {
		list = append(list, r)
	}
	slices.SortFunc(list, func(x, y facts.DRAObject) int { return facts.CompareDRANames(x.DRAName(), y.DRAName()) })
	return list
}

// Claim is a claim as it will be once what is promised of it is written; nil if there is none.
func (b *Book) Claim(name facts.ClaimName) *facts.ResourceClaim {
	claim := b.claims[name]
	if p := b.promised[name]; claim == nil && p != nil && p.made != nil {
		claim = &facts.ResourceClaim{ClaimName: name, UID: name.Name, Requests: p.made.requests}
	}
	if claim == nil {
		return nil
	}
	out := *claim
	out.Allocation, out.ReservedFor = b.allocation(name), slices.Clone(claim.ReservedFor)
	for _, uid := range b.usersOf(name) {
		if b.users[name][uid].placed && !claim.ReservedForUID(uid) {
			out.ReservedFor = append(out.ReservedFor, uid)
		}
		if b.users[name][uid].made == name {
			out.Pod = uid
		}
	}
	return &out
}

// Extended is what a pod asks for of extended resources; the caller must not change it.
func (b *Book) Extended(uid facts.UID) []facts.ExtendedContainer {
	if u := b.pods[uid]; u != nil {
		return u.extended
	}
	return nil
}

// usersOf lists the pods that use a claim, sorted.
func (b *Book) usersOf(name facts.ClaimName) []facts.UID {
	if len(b.users[name]) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(b.users[name]))
}

// Use says which claims and extended resources a pod uses, as far as it is known, and returns the other pods whose needs may be others now, sorted. A pod that uses
// none is not known to the Book.
func (b *Book) Use(pod *facts.Pod) (affected []facts.UID) {
	uid, uses := pod.UID, pod.ResourceClaims
	old, none := b.pods[uid], len(uses)+len(pod.Extended) == 0
	switch {
	case none && old == nil, old != nil && (old.placed || slices.Equal(old.uses, uses) && old.gang == (pod.Unit != "")):
		return nil
	case old != nil:
		affected = b.Forget(uid)
	}
	if none {
		return affected
	}
	u := &user{uid: uid, namespace: pod.Namespace, name: pod.Name, uses: uses, extended: pod.Extended, gang: pod.Unit != ""}
	b.pods[uid] = u
	for _, name := range u.claims() {
		if b.users[name] == nil {
			b.users[name] = make(map[facts.UID]*user)
		}
		b.users[name][uid] = u
		affected = append(affected, b.usersIf(name, u.gang, 2)...)
	}
	return others(affected, uid)
}

// inGangs is how many members of gangs use a claim. If several do, what the users ask names the claim: members are placed before the first of them has its devices.
func (b *Book) inGangs(name facts.ClaimName) (n int) {
	for _, u := range b.users[name] {
		if u.gang {
			n++
		}
	}
	return n
}

// usersIf are the users of a claim if what they ask names it now, or names it no more, since so many members of gangs use it, or it may be reserved for fewer pods
// than use it.
func (b *Book) usersIf(name facts.ClaimName, gang bool, members int) []facts.UID {
	if c := b.claims[name]; c != nil && (gang && b.inGangs(name) == members && b.allocation(name) == nil || len(b.users[name]) >= b.reservable(name, c)) {
		return b.usersOf(name)
	}
	return nil
}

// Uses returns the claims that a pod uses; the caller must not change them.
func (b *Book) Uses(uid facts.UID) []facts.ResourceClaimUse {
	if u := b.pods[uid]; u != nil {
		return u.uses
	}
	return nil
}

// claims lists the claims of a pod that are named, each once.
func (u *user) claims() (list []facts.ClaimName) {
	for _, use := range u.uses {
		name := facts.ClaimName{Namespace: u.namespace, Name: use.Claim}
		if use.Claim != "" && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	if u.made.Name != "" {
		list = append(list, u.made)
	}
	return list
}

// Forget forgets a pod, and returns the others whose needs may be others now, sorted. It must have been released.
func (b *Book) Forget(uid facts.UID) (affected []facts.UID) {
	u := b.pods[uid]
	if u == nil {
		return nil
	}
	delete(b.pods, uid)
	for _, name := range u.claims() {
		delete(b.users[name], uid)
		if len(b.users[name]) == 0 {
			delete(b.users, name)
		}
		affected = append(affected, b.usersIf(name, u.gang, 1)...)
	}
	return others(affected, uid)
}
