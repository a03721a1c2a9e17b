package relief

import (
	"slices"
	"time"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/bind"
)

// MaxRefusals bounds the refusals that one node is told of; the bound of spec.refusedEvictions.
const MaxRefusals = 64

// refusals tells nodes which of the evictions that they request a disruption budget does not let happen. An agent that is very short of memory then stops another
// pod, or that one, by itself, and need not wait. What a node has been told stands in its report, so a new leader corrects what is left of the last one.
//
// Example: node a requests the pods u1 and u2, and a budget withholds u1. a is told [u1]; once u1 could be evicted, or a no longer requests it, [].
type refusals struct {
	nodes map[string]*toldNode
}

// toldNode is a node to which a write is under way, or lately was.
type toldNode struct {
	inFlight bool
	again    time.Time // not before then: until the report shows what was written
}

// tell starts the writes that are due.
func (r *Relief) tellRefusals(now time.Time) {
	for name, n := range r.refusals.nodes {
		if !n.inFlight && !now.Before(n.again) {
			delete(r.refusals.nodes, name)
		}
	}
	for _, name := range r.store.EvictionRequests().Nodes() {
		refused := r.refusedOn(name)
		if r.refusals.nodes[name] != nil || slices.Equal(refused, r.store.EvictionRequests().Told(name)) {
			continue
		}
		if len(r.flights) >= MaxInFlight {
			return
		}
		r.refusals.nodes[name] = &toldNode{inFlight: true}
		r.send(bind.Write{Kind: bind.WriteRefusals, Node: name, Refused: r.named(name, refused)}, flight{told: name})
	}
}

// refusedOn are the pods that the node requests and a budget withholds, in the order of the requests.
func (r *Relief) refusedOn(name string) (out []facts.UID) {
	for _, said := range r.store.EvictionRequests().On(name) {
		if req := r.requests[requestKey{name, said.UID}]; req != nil && !req.invalid && req.refused && len(out) < MaxRefusals {
			out = append(out, said.UID)
		}
	}
	return out
}

// named gives pods that the node requests their names.
func (r *Relief) named(node string, uids []facts.UID) []bind.PodName {
	out := make([]bind.PodName, 0, len(uids))
	for _, uid := range uids {
		req := r.requests[requestKey{node, uid}]
		out = append(out, bind.PodName{Namespace: req.Namespace, Name: req.Name, UID: uid})
	}
	return out
}

// told takes the answer to a write about refusals. Where it failed, it is repeated.
func (r *Relief) told(node string, now time.Time) {
	if n := r.refusals.nodes[node]; n != nil {
		n.inFlight, n.again = false, now.Add(recheckEvery)
	}
}
