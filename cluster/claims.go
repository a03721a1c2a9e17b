package cluster

import (
	"fmt"

	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/dra"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/volumes"
	"hilbert.dev/hilbert/resource"
)

// claimBook ties the pods of the ledger to what they claim: volumes (package volumes) and the devices of ResourceClaims (package dra). These two know claims and UIDs,
// and nothing of phases or slots. The claimBook tells them which pods there are, which get a place and which have left theirs, and keeps for each slot the devices that
// can still be given there.
//
// A change may concern other pods than the one that it is about: a claim that is bound tells all its users where they can go. Such pods gather in changed, and settle, at
// the end of an event, has those judged again that wait, and tells of those whose Bindings are under way.
type claimBook struct {
	state     *State // and with it the volumes
	slots     *slotTable
	pods      *podTable
	attached  attachments
	dra       *dra.Book
	changed   []facts.UID // pods about whose volumes or ResourceClaims something changed
	selection *selection
	effects   *effects
}

// Volumes is what is known of claims and volumes; callers read it.
func (s *Store) Volumes() *volumes.Book { return s.volumes }

// ResourceClaims is what is known of ResourceClaims and of devices that drivers publish. What callers change there they tell by ClaimsChanged.
func (s *Store) ResourceClaims() *dra.Book { return s.claims.dra }

// ClaimsChanged takes note that the claims of some pods may ask for something else now, because of what was written about them.
func (s *Store) ClaimsChanged(pods []facts.UID) {
	s.claims.note(pods)
	s.claims.review()
}

// note takes note that the claims of some pods may ask for something else now.
func (b *claimBook) note(pods []facts.UID) { b.changed = append(b.changed, pods...) }

// enter takes note of which volumes a pod has that was not known.
func (b *claimBook) enter(pod *Pod, seen *facts.Pod) {
	pod.usesClaims = len(seen.Claims) > 0
	b.note(b.state.volumes.Use(seen.UID, seen.Namespace, seen.Claims, seen.Unit != ""))
}

// use takes note of which ResourceClaims a pod uses; the names of those that are made from templates come later.
func (b *claimBook) use(pod *Pod, seen *facts.Pod) {
	uses := len(seen.ResourceClaims)+len(seen.Extended) > 0
	if seen.Finished || !uses && !pod.usesResourceClaims {
		return
	}
	pod.usesResourceClaims = uses
	b.note(b.dra.Use(seen))
}

// forget takes note that a pod uses nothing any more.
func (b *claimBook) forget(uid facts.UID) {
	b.note(b.state.volumes.Forget(uid))
	b.note(b.dra.Forget(uid))
}

// takeVolumes promises a pod that gets a place what its unbound claims are bound to there, and reports whether it could. leaves reports which pods leave first.
func (b *claimBook) takeVolumes(pod *Pod, slot Slot, leaves func(facts.UID) bool) bool {
	if !pod.usesClaims {
		return true
	}
	conflict, affected := b.state.volumes.Take(pod.UID, b.state.nodes[slot], leaves)
	b.note(affected)
	return conflict == ""
}

// takeDevices gives the claims of a pod that gets a place their devices there, and reports whether it could.
func (b *claimBook) takeDevices(pod *Pod, slot Slot) bool {
	if !pod.usesResourceClaims {
		return true
	}
	conflict, affected := b.dra.Take(pod.UID, b.state.nodes[slot], func(name string) bool { return b.state.publishes(slot, name) })
	b.note(affected)
	b.review()
	return conflict == ""
}

// releaseVolumes takes back what a pod was promised of volumes; release, of devices too.
func (b *claimBook) releaseVolumes(pod *Pod) { b.note(b.state.volumes.Release(pod.UID)) }

func (b *claimBook) release(pod *Pod) {
	if pod.usesClaims {
		b.releaseVolumes(pod)
	}
	if pod.usesResourceClaims {
		b.note(b.dra.Release(pod.UID))
		b.review()
	}
}

// hold takes note that a pod was seen on a node.
func (b *claimBook) hold(pod *Pod) {
	if pod.usesResourceClaims {
		b.note(b.dra.Hold(pod.UID))
	}
	if pod.usesClaims {
		b.note(b.state.volumes.Hold(pod.UID, pod.node))
	}
}

// review gives slots their Views of devices, where these have changed.
func (b *claimBook) review() {
	nodes, all := b.dra.Changed()
	if all {
		for slot, n := range b.state.nodes {
			if n != nil {
				b.reviewSlot(Slot(slot))
			}
		}
		return
	}
	for _, name := range nodes {
		if slot, ok := b.slots.byNode[name]; ok {
			b.reviewSlot(slot)
		}
	}
}

func (b *claimBook) reviewSlot(slot Slot) {
	views := b.state.views
	before := views[slot]
	if views[slot] = b.dra.View(b.state.nodes[slot]); before != nil || views[slot] != nil {
		b.state.note(slot, changes.Freed|changes.Charged)
	}
}

// settle has the pods judged again about whose claims something changed, and tells of those whose Binding is under way.
func (b *claimBook) settle() {
	for _, uid := range b.changed {
		pod := b.pods.byUID[uid]
		if pod == nil {
			continue
		}
		if pod.slot != NoSlot {
			b.attached.recount(pod.slot)
		}
		if !pod.Ours {
			continue
		}
		switch pod.Phase {
		case Pending:
			b.selection.recheck = append(b.selection.recheck, pod)
		case Assumed:
			pod.outdated = true
			b.effects.add(Effect{Kind: VolumesMoved, Pod: pod})
		default:
		}
	}
	b.changed = b.changed[:0]
}

// verify holds both books against themselves.
func (b *claimBook) verify() error {
	if err := b.dra.Verify(); err != nil {
		return fmt.Errorf("resource claims: %w", err)
	}
	if err := b.state.volumes.Verify(); err != nil {
		return fmt.Errorf("volumes: %w", err)
	}
	return nil
}

// publishes reports whether a node has an extended resource by itself.
func (s *State) publishes(slot Slot, name string) bool {
	kind, ok := s.kinds.Lookup(name)
	return ok && s.Allocatable(slot, kind) > 0
}

// ClaimNeeds is what the ResourceClaims of the class's pods ask of a node: where it does not publish extended resources that DeviceClasses stand for, devices of
// these. It is nil where the class's pods cannot go.
func (s *State) ClaimNeeds(slot Slot, c *Class) *facts.ClaimNeeds {
	return c.Claims.On(func(name string) bool { return s.publishes(slot, name) })
}

// Lacks reports whether what is free of a resource is too little for a pod of the class, whose claims make up for nothing.
func (s *State) Lacks(slot Slot, c *Class, a resource.Amount) bool {
	return a.Value > s.Free(slot, a.Kind) && !s.madeUpFor(slot, c, a.Kind)
}

// madeUpFor reports whether pods of the class are given devices on the node in place of a resource.
func (s *State) madeUpFor(slot Slot, c *Class, kind resource.Kind) bool {
	return c.Claims.Stands(s.KindName(kind)) && s.Allocatable(slot, kind) <= 0
}

// Room is how much of a resource is free for pods of the class; ok is false if they take nothing of it there.
func (s *State) Room(slot Slot, c *Class, kind resource.Kind) (free int64, ok bool) {
	return s.Free(slot, kind), !s.madeUpFor(slot, c, kind)
}
