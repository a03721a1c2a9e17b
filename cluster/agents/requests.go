package agents

import (
	"maps"
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
)

// Requests are the pods that nodes' agents ask to evict, by node, as their newest reports say, and the refusals that the nodes were told of. Readers
// compare Serial with the one that they saw last: while it is the same, nothing is asked that was not asked before.
type Requests struct {
	byNode map[string]request
	serial uint64
}

// request is what one node asks for, and which of it was refused as far as the node has been told.
type request struct {
	asked []facts.EvictionRequest
	told  []facts.UID
}

// Set takes in a node's newest report; nil: there is none.
func (e *Requests) Set(node string, r *facts.NodeReport) {
	_, before := e.byNode[node]
	switch {
	case r != nil && len(r.Evictions)+len(r.Refused) > 0:
		e.byNode[node] = request{r.Evictions, r.Refused}
		e.serial++
	case before:
		delete(e.byNode, node)
		e.serial++
	}
}

// NewRequests returns none.
func NewRequests() Requests { return Requests{byNode: make(map[string]request)} }

// Serial changes whenever a node asks for something else; 0: no node ever asked.
func (e *Requests) Serial() uint64 { return e.serial }

// Nodes lists the nodes that ask, or have been told of a refusal, sorted.
func (e *Requests) Nodes() []string {
	if len(e.byNode) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(e.byNode))
}

// Len is how many nodes there are in Nodes.
func (e *Requests) Len() int { return len(e.byNode) }

// On lists the pods that a node asks to evict, the most urgent first; the caller must not change it. A report that is stale or cannot be
// read asks for nothing.
func (e *Requests) On(node string) []facts.EvictionRequest { return e.byNode[node].asked }

// Told lists the pods whose eviction was refused, as the node was told last; the caller must not change it.
func (e *Requests) Told(node string) []facts.UID { return e.byNode[node].told }
