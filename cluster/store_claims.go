package cluster

import (
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/dra"
	"hilbert.dev/hilbert/cluster/facts"
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
	if seen.Finished || len(seen.ResourceClaims) == 0 && !pod.usesResourceClaims {
		return
	}
	pod.usesResourceClaims = len(seen.ResourceClaims) > 0
	s.dra.Use(seen.UID, seen.Namespace, seen.ResourceClaims, seen.Unit != "")
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
	conflict, affected := s.dra.Take(pod.UID, s.nodes[slot])
	s.revolume(affected)
	s.review()
	return conflict == ""
}
