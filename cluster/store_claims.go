package cluster

import (
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/dra"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
)

// ResourceClaims is what is known of ResourceClaims and of devices that drivers publish. What callers change there they tell by ClaimsChanged.
func (s *Store) ResourceClaims() *dra.Book { return s.dra }

// ClaimsChanged takes note that the claims of some pods may ask for something else now, because of what was written about them.
func (s *Store) ClaimsChanged(pods []facts.UID) {
	s.revolume(pods)
	s.review()
}

// useResourceClaims takes note of which ResourceClaims a pod uses; the names of those that are made from templates come later.
func (s *Store) useResourceClaims(pod *Pod, seen *facts.Pod) {
	uses := len(seen.ResourceClaims)+len(seen.Extended) > 0
	if seen.Finished || !uses && !pod.usesResourceClaims {
		return
	}
	pod.usesResourceClaims = uses
	s.revolume(s.dra.Use(seen))
}

// review gives slots their Views of devices, where these have changed.
func (s *Store) review() {
	nodes, all := s.dra.Changed()
	if all {
		for slot, n := range s.nodes {
			if n != nil {
				s.reviewSlot(Slot(slot))
			}
		}
		return
	}
	for _, name := range nodes {
		if slot, ok := s.slots.byNode[name]; ok {
			s.reviewSlot(slot)
		}
	}
}

func (s *Store) reviewSlot(slot Slot) {
	before := s.views[slot]
	if s.views[slot] = s.dra.View(s.nodes[slot]); before != nil || s.views[slot] != nil {
		s.note(slot, changes.Freed|changes.Charged)
	}
}

// takeDevices gives the claims of a pod that gets a place their devices there, and reports whether it could.
func (s *Store) takeDevices(pod *Pod, slot Slot) bool {
	if !pod.usesResourceClaims {
		return true
	}
	conflict, affected := s.dra.Take(pod.UID, s.nodes[slot], func(name string) bool { return s.publishes(slot, name) })
	s.revolume(affected)
	s.review()
	return conflict == ""
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
