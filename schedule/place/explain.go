package place

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hilbert.dev/hilbert/cluster"
)

// Explanation says why no node fits a pod.
type Explanation struct {
	Nodes   int      // how many there are
	Reasons []Reason // by number of nodes, then phrase
}

// Reason counts the nodes that one filter refused with one phrase. A node is counted under the first filter that refuses it, once for
// each phrase which that filter gives.
type Reason struct {
	Filter string
	Phrase string
	Nodes  int
}

// Explain asks every filter about every node. It costs time proportional to the nodes.
func (p *Placer) Explain(c *cluster.Class) Explanation {
	s := &p.snapshot.State
	type key struct {
		filter int
		phrase string
	}
	counts := make(map[key]int)
	var e Explanation
	for i := range s.Slots() {
		slot := cluster.Slot(i)
		if s.Node(slot) == nil {
			continue
		}
		e.Nodes++
		if f := refusal(s, slot, c); f >= 0 {
			Filters[f].Why(s, slot, c, func(phrase string) { counts[key{f, phrase}]++ })
		}
	}
	for k, nodes := range counts {
		e.Reasons = append(e.Reasons, Reason{Filters[k.filter].Name, k.phrase, nodes})
	}
	slices.SortFunc(e.Reasons, func(a, b Reason) int {
		return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Phrase, b.Phrase))
	})
	return e
}

// refusal returns the index of the first filter that refuses the node, -1 when all agree.
func refusal(s *cluster.State, slot cluster.Slot, c *cluster.Class) int {
	for i := range Filters {
		if !Filters[i].Fits(s, slot, c) {
			return i
		}
	}
	return -1
}

// String renders the explanation as the pod's condition shows it.
func (e Explanation) String() string {
	if e.Nodes == 0 {
		return "no nodes available to schedule pods"
	}
	phrases := make([]string, len(e.Reasons))
	for i, r := range e.Reasons {
		phrases[i] = fmt.Sprintf("%d %s", r.Nodes, r.Phrase)
	}
	return fmt.Sprintf("0/%d nodes are available: %s.", e.Nodes, strings.Join(phrases, ", "))
}
