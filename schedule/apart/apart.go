// Package apart keeps in mind which pods agents would rather have apart.
//
//	report of node n: victim web, culprit hog, until 14:00 ─▶ Book ─▶ until then, while web is on n: pods like hog go elsewhere, if there is another place
//
// A pod is like the culprit if it has the culprit's namespace and class. So what a tenant's pods do concerns that tenant's pods alone, and on one node: there is no pair
// that keeps pods off nodes whose own agent did not ask for it.
//
// Invariants: a pair ends when it expires, when the victim leaves the node, and when the agent no longer reports it; it never lasts longer than MaxTime. A Book has
// at most MaxPairs. It is a preference: a pod that fits nowhere else goes to the node all the same.
//
// The Book is of the leader's memory: a pair whose culprit the ledger did not see is not known.
package apart

import (
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
)

const (
	// MaxPairs bounds a Book. Further pairs are not taken in.
	MaxPairs = 1024
	// MaxTime bounds a pair's time, whatever its agent says.
	MaxTime = 24 * time.Hour
)

// pair is a victim on a node, and what should not be placed beside it.
type pair struct {
	facts.Apart

	namespace string
	class     cluster.ClassID
}

// Book is the pairs of all nodes.
type Book struct {
	// Kept counts the pods that went to another node for a pair.
	Kept   int
	byNode map[string][]pair
	pairs  int
}

// Counts are how many pairs there are, of which some may have expired, and how many pods went to another node.
type Counts struct{ Pairs, Kept int }

// Counts returns them.
func (b *Book) Counts() Counts { return Counts{b.pairs, b.Kept} }

// Apply takes in what an event says that the store has applied.
func (b *Book) Apply(store *cluster.Store, event facts.Event, now time.Time) {
	switch e := event.(type) {
	case facts.NodeReported:
		b.learn(store, e.Node, e.Report, now)
	case facts.NodeReportRemoved:
		b.forget(e.Node)
	case facts.NodeRemoved:
		b.forget(e.Name)
	case facts.ReportsListed:
		listed := make(map[string]bool, len(e.Reports))
		for _, r := range e.Reports {
			listed[r.Node] = true
			b.learn(store, r.Node, r.Report, now)
		}
		for node := range b.byNode {
			if !listed[node] {
				b.forget(node)
			}
		}
	}
}

func (b *Book) forget(node string) {
	b.pairs -= len(b.byNode[node])
	delete(b.byNode, node)
}

// learn takes the pairs that a node's report has now. The class of a culprit is the one it had when its pair was first reported: it is evicted soon.
func (b *Book) learn(store *cluster.Store, node string, r *facts.NodeReport, now time.Time) {
	known := b.byNode[node]
	if r == nil || len(r.Apart) == 0 {
		if known != nil {
			b.forget(node)
		}
		return
	}
	latest := now.Add(MaxTime).UnixNano()
	var list []pair
	for _, a := range r.Apart {
		if a.Until = min(a.Until, latest); a.Until <= now.UnixNano() {
			continue
		}
		p := pair{Apart: a}
		if culprit := store.Pod(a.Culprit); culprit != nil && culprit.Class != nil {
			p.namespace, p.class = culprit.Namespace, culprit.Class.ID
		} else if !p.recall(known) {
			continue
		}
		list = append(list, p)
	}
	b.forget(node)
	list = list[:min(len(list), MaxPairs-b.pairs)]
	if len(list) == 0 {
		return
	}
	if b.byNode == nil {
		b.byNode = make(map[string][]pair)
	}
	b.byNode[node] = list
	b.pairs += len(list)
}

// recall takes over what was known of the culprit before it left. It answers false when nothing was.
func (p *pair) recall(known []pair) bool {
	for i := range known {
		if known[i].Culprit == p.Culprit {
			p.namespace, p.class = known[i].namespace, known[i].class
			return true
		}
	}
	return false
}

// Avoids reports whether a pod is better not placed on a slot's node.
func (b *Book) Avoids(store *cluster.Store, pod *cluster.Pod, slot cluster.Slot, now time.Time) bool {
	if b.pairs == 0 {
		return false
	}
	node := store.Node(slot)
	return node != nil && b.avoids(store, pod, node.Name, now)
}

// AvoidedBy adds the slots of the nodes on which a pod is better not placed.
func (b *Book) AvoidedBy(store *cluster.Store, pod *cluster.Pod, now time.Time, to map[cluster.Slot]bool) {
	for name := range b.byNode {
		if b.avoids(store, pod, name, now) {
			to[store.Slot(name)] = true
		}
	}
}

func (b *Book) avoids(store *cluster.Store, pod *cluster.Pod, node string, now time.Time) bool {
	for _, p := range b.byNode[node] {
		if p.namespace != pod.Namespace || pod.Class == nil || p.class != pod.Class.ID || p.Until <= now.UnixNano() {
			continue
		}
		if victim := store.Pod(p.Victim); victim != nil && victim.Node() == node {
			return true
		}
	}
	return false
}
