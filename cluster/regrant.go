package cluster

import (
	"slices"

	"hilbert.dev/hilbert/topology"
)

// regrant rebuilds a slot's GPU counters: recorded grants first, then the guesses in UID order, so that the result does not depend on
// the order in which pods were seen.
func (s *Store) regrant(slot Slot) {
	shape := s.nodes[slot].GPU
	free := topology.NewFree(shape)
	var guessed []*Pod
	for _, pod := range s.onSlot[slot] {
		if pod.lifted {
			continue
		}
		if pod.inferred {
			guessed = append(guessed, pod)
			continue
		}
		free.Commit(topology.Grant{GPUs: pod.gpus, Milli: pod.milli})
	}
	slices.SortFunc(guessed, func(a, b *Pod) int {
		if a.UID < b.UID {
			return -1
		}
		return 1
	})
	for _, pod := range guessed {
		grant := topology.ForceGPUs(shape, &free, pod.Class.GPU)
		pod.gpus, pod.milli = grant.GPUs, grant.Milli
		free.Commit(grant)
	}
	s.gpus[slot] = free
}
