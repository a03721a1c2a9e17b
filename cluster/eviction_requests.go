package cluster

import (
	"maps"
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
)

// EvictionRequests are the pods that nodes' agents ask to evict, by node, as their newest reports say. Readers compare Serial with the one
// that they saw last: while it is the same, nothing is asked that was not asked before.
type EvictionRequests struct {
	byNode map[string][]facts.EvictionRequest
	serial uint64
}

// EvictionRequests are what nodes ask to be evicted.
func (s *Store) EvictionRequests() *EvictionRequests { return &s.evictions }

// set takes in a node's newest report; nil: there is none.
func (e *EvictionRequests) set(node string, r *facts.NodeReport) {
	switch {
	case r != nil && len(r.Evictions) > 0:
		e.byNode[node] = r.Evictions
		e.serial++
	case len(e.byNode[node]) > 0:
		delete(e.byNode, node)
		e.serial++
	}
}

// Serial changes whenever a node asks for something else; 0: no node ever asked.
func (e *EvictionRequests) Serial() uint64 { return e.serial }

// Nodes lists the nodes that ask, sorted.
func (e *EvictionRequests) Nodes() []string {
	if len(e.byNode) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(e.byNode))
}

// Len is how many nodes ask.
func (e *EvictionRequests) Len() int { return len(e.byNode) }

// On lists the pods that a node asks to evict, the most urgent first; the caller must not change it. A report that is stale or cannot be
// read asks for nothing.
func (e *EvictionRequests) On(node string) []facts.EvictionRequest { return e.byNode[node] }
