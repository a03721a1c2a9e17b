package agents

import (
	"maps"
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
)

// Events are what nodes' agents have to tell people, as their newest reports say. It has one reader, who asks which nodes have more to tell than before.
type Events struct {
	byNode  map[string][]facts.NodeEvent
	changed map[string]struct{}
}

// NewEvents returns none.
func NewEvents() Events {
	return Events{make(map[string][]facts.NodeEvent), make(map[string]struct{})}
}

// Set takes in a node's newest report; nil: there is none.
func (e *Events) Set(node string, r *facts.NodeReport) {
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
func (e *Events) On(node string) []facts.NodeEvent { return e.byNode[node] }

// Nodes lists the nodes that have something to tell, sorted.
func (e *Events) Nodes() []string { return slices.Sorted(maps.Keys(e.byNode)) }

// Changed lists the nodes that tell something else than when it was called last, sorted.
func (e *Events) Changed() []string {
	if len(e.changed) == 0 {
		return nil
	}
	out := slices.Sorted(maps.Keys(e.changed))
	clear(e.changed)
	return out
}

// AnyChanged reports whether there is something in Changed.
func (e *Events) AnyChanged() bool { return len(e.changed) > 0 }
