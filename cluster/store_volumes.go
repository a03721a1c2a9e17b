package cluster

import (
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/volumes"
)

// Volumes is what is known of claims and volumes; callers read it.
func (s *Store) Volumes() *volumes.Book { return s.volumes }

// revolume takes note that the volumes of some pods may ask for something else now.
func (s *Store) revolume(pods []facts.UID) { s.revolumed = append(s.revolumed, pods...) }

// recheckVolumes takes in what changed about what nodes have attached, has the pods judged again about whose volumes something changed, and tells of those whose Binding is under way.
func (s *Store) recheckVolumes() {
	for _, uid := range s.revolumed {
		pod := s.pods.byUID[uid]
		if pod == nil {
			continue
		}
		if pod.slot != NoSlot {
			s.recountAttached(pod.slot)
		}
		if !pod.Ours {
			continue
		}
		switch pod.Phase {
		case Pending:
			s.selection.recheck = append(s.selection.recheck, pod)
		case Assumed:
			pod.outdated = true
			s.effects = append(s.effects, Effect{Kind: VolumesMoved, Pod: pod})
		default:
		}
	}
	s.revolumed = s.revolumed[:0]
}

// Consequences applies what the placements that were committed or taken back since the last event mean for other pods, by their volumes, by terms about them,
// and by the room that is free for pods that are held back. It returns what that did to them. The slice is valid until the next call, or the next event.
func (s *Store) Consequences() []Effect {
	if len(s.revolumed) == 0 && len(s.selection.recheck) == 0 && !s.waiting.Due() {
		return nil
	}
	s.effects = s.effects[:0]
	s.recheckVolumes()
	s.recheckPods()
	s.takeIn()
	return s.effects
}

// takeVolumes promises a pod that gets a place what its unbound claims are bound to there, and reports whether it could. leaves reports which pods leave first.
func (s *Store) takeVolumes(pod *Pod, slot Slot, leaves func(facts.UID) bool) bool {
	if !pod.usesClaims {
		return true
	}
	conflict, affected := s.volumes.Take(pod.UID, s.nodes[slot], leaves)
	s.revolume(affected)
	return conflict == ""
}

// holdVolumes takes note that a pod was seen on a node.
func (s *Store) holdVolumes(pod *Pod) {
	if pod.usesResourceClaims {
		s.revolume(s.dra.Hold(pod.UID))
	}
	if pod.usesClaims {
		s.revolume(s.volumes.Hold(pod.UID, pod.node))
	}
}
