package cluster

import (
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// Capacity is the sum over all nodes of what pods may request, GPUs as spec.ResourceGPUMilli.
func (s *Store) Capacity(kind resource.Kind) int64 { return at(s.capacity, kind, 0) }

// provide adds a slot's allocatable, sign times, to the cluster's capacity.
func (s *Store) provide(slot Slot, sign int64) {
	s.capacity = s.widen(s.capacity)
	for kind := range s.allocatable {
		s.capacity[kind] += sign * s.allocatable[kind][slot]
	}
}

// provideGPUs adds a slot's GPUs, sign times, to the capacity; a vacant one has none.
func (s *Store) provideGPUs(slot Slot, sign int64) {
	if s.nodes[slot] != nil {
		s.capacity = s.widen(s.capacity)
		s.capacity[s.gpuKind] += sign * int64(s.Shape(slot).GPUs) * topology.FullGPU
	}
}
