package cluster

import (
	"maps"
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
)

// NodeEvents are what nodes' agents have to tell people, as their newest reports say. It has one reader, who asks which nodes have more to tell than before.
type NodeEvents struct {
	byNode  map[string][]facts.NodeEvent
	changed map[string]struct{}
}

func newNodeEvents() NodeEvents {
	return NodeEvents{make(map[string][]facts.NodeEvent), make(map[string]struct{})}
}

// set takes in a node's newest report; nil: there is none.
func (e *NodeEvents) set(node string, r *facts.NodeReport) {
	var told []facts.NodeEvent
	if r != nil {
		told = r.Events
	}
	if slices.Equal(told, e.byNode[node]) {
		return
	}
	e.changed[node] = struct{}{}
	if len(told) == 0 {
		delete(e.byNode, node)
		return
	}
	e.byNode[node] = told
}

// On lists what a node has to tell; the caller must not change it.
func (e *NodeEvents) On(node string) []facts.NodeEvent { return e.byNode[node] }

// Nodes lists the nodes that have something to tell, sorted.
func (e *NodeEvents) Nodes() []string { return slices.Sorted(maps.Keys(e.byNode)) }

// Changed lists the nodes that tell something else than when it was called last, sorted.
func (e *NodeEvents) Changed() []string {
	if len(e.changed) == 0 {
		return nil
	}
	out := slices.Sorted(maps.Keys(e.changed))
	clear(e.changed)
	return out
}

// AnyChanged reports whether there is something in Changed.
func (e *NodeEvents) AnyChanged() bool { return len(e.changed) > 0 }
