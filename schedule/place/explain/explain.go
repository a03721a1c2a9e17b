package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// Explanation says why nodes refuse a pod, which come nearest to taking it, and what single change would make it fit. It depends on what
// the state holds and on nothing else: neither on the numbering of slots nor on the order in which things were seen.
type Explanation struct {
	Nodes    int      `json:"nodes"`             // how many there are
	Feasible int      `json:"feasible"`          // how many of them fit
	Reasons  []Reason `json:"reasons,omitempty"` // by number of nodes, then phrase
	// Nearest are the nodes with the fewest obstacles, then the least missing; at most MaxNearest.
	Nearest []NearMiss `json:"nearest,omitempty"`
	// Changes has of each kind the smallest single change that would make the pod fit, in the order of ChangeKind; the first is the one to
	// tell. It is empty when no single change that is known to help would.
	Changes []Change `json:"changes,omitempty"`
}

// Reason counts the nodes that one filter refused with one phrase. A node is counted under the first filter that refuses it, once for
// each phrase which that filter gives.
type Reason struct {
	Filter string `json:"filter"`
	Phrase string `json:"phrase"`
	Nodes  int    `json:"nodes"`
}

// NearMiss is a node that almost fits.
type NearMiss struct {
	Node      string     `json:"node"`
	Obstacles []Obstacle `json:"obstacles"`
}

// Obstacle is one thing that keeps the pod off a node, such as "lacks 17 cpu (20 asked, 3 free of 4)" or an untolerated taint. For a resource it has
// the amounts: millicores, bytes or a count; for GPUs a count, thousandths of compute, or MiB.
type Obstacle struct {
	Filter   string `json:"filter"`
	What     string `json:"what"` // continues a sentence that begins with the node
	Resource string `json:"resource,omitempty"`
	Asked    int64  `json:"asked,omitempty"`
	Missing  int64  `json:"missing,omitempty"`
}

// MaxNearest is how many near misses an Explanation names.
const MaxNearest = 3

// Explain asks every filter about every node. It costs time proportional to the nodes.
func Explain(s *cluster.State, c *cluster.Class) Explanation {
	x := explainer{state: s, class: c, counts: make(map[reasonKey]int)}
	for i := range s.Slots() {
		if slot := cluster.Slot(i); s.Node(slot) != nil {
			x.addNode(slot)
		}
	}
	e := Explanation{Nodes: x.nodes, Feasible: x.feasible, Changes: x.changes.list()}
	for k, nodes := range x.counts {
		e.Reasons = append(e.Reasons, Reason{rules.Filters[k.filter].Name, k.phrase, nodes})
	}
	slices.SortFunc(e.Reasons, func(a, b Reason) int {
		return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Phrase, b.Phrase), cmp.Compare(a.Filter, b.Filter))
	})
	for _, m := range x.nearest {
		e.Nearest = append(e.Nearest, x.describe(m))
	}
	return e
}

// explainer is one Explain under way.
type explainer struct {
	state *cluster.State
	class *cluster.Class

	nodes, feasible int
	counts          map[reasonKey]int
	nearest         []miss
	changes         changes
	obstacles       []obstacle // scratch
}

type reasonKey struct {
	filter int
	phrase string
}

// miss is a node that did not fit, as far as its rank among the others needs.
type miss struct {
	slot      cluster.Slot
	obstacles int
	distance  int64
}

// addNode takes in one node.
func (x *explainer) addNode(slot cluster.Slot) {
	x.nodes++
	first := rules.FirstRefusal(x.state, slot, x.class)
	if first < 0 {
		x.feasible++
		return
	}
	rules.Filters[first].Why(x.state, slot, x.class, func(phrase string) { x.counts[reasonKey{first, phrase}]++ })
	x.obstacles = appendObstacles(x.obstacles[:0], x.state, slot, x.class)
	m := miss{slot: slot, obstacles: len(x.obstacles)}
	for i := range x.obstacles {
		m.distance += x.obstacles[i].distance()
	}
	x.rank(m)
	if len(x.obstacles) != 1 {
		return
	}
	for _, change := range obstacleRules[x.obstacles[0].rule].changes {
		if offer, ok := change(x.state, slot, x.class, &x.obstacles[0]); ok {
			offer.Node = x.state.Node(slot).Name
			x.changes.offer(offer)
		}
	}
}

// rank keeps the node if it is among the nearest.
func (x *explainer) rank(m miss) {
	at := len(x.nearest)
	for at > 0 && x.nearer(m, x.nearest[at-1]) {
		at--
	}
	if at == MaxNearest {
		return
	}
	x.nearest = slices.Insert(x.nearest, at, m)
	x.nearest = x.nearest[:min(len(x.nearest), MaxNearest)]
}

func (x *explainer) nearer(a, b miss) bool {
	return cmp.Or(cmp.Compare(a.obstacles, b.obstacles), cmp.Compare(a.distance, b.distance),
		strings.Compare(x.state.Node(a.slot).Name, x.state.Node(b.slot).Name)) < 0
}

// describe puts a near miss in words.
func (x *explainer) describe(m miss) NearMiss {
	return NearMiss{Node: x.state.Node(m.slot).Name, Obstacles: Obstacles(x.state, m.slot, x.class)}
}

// Obstacles lists all that keeps a pod of the class off one node, in words.
func Obstacles(s *cluster.State, slot cluster.Slot, c *cluster.Class) (list []Obstacle) {
	for _, o := range appendObstacles(nil, s, slot, c) {
		words := Obstacle{Filter: obstacleRules[o.rule].filter, What: obstacleRules[o.rule].say(s, slot, c, &o)}
		if o.asked > 0 {
			words.Resource, words.Asked, words.Missing = cmp.Or(o.name, s.KindName(o.kind)), o.asked, o.missing
		}
		list = append(list, words)
	}
	return list
}

const (
	// MaxMessage bounds String, in bytes: it goes into a pod's condition.
	MaxMessage = 1000
	// maxReasons bounds the part of it that counts reasons, so that there is room for what would help.
	maxReasons = 600
)

// String renders the explanation as the pod's condition shows it: the counts as kube-scheduler words them, the nearest nodes, and the
// smallest change.
func (e Explanation) String() string {
	if e.Nodes == 0 {
		return "no nodes available to schedule pods"
	}
	message := e.Counts()
	if len(e.Changes) > 0 {
		message = addSentence(message, "It would fit with "+e.Changes[0].String())
	}
	if len(e.Nearest) == 0 {
		return message
	}
	near := "Nearest: " + e.Nearest[0].String()
	for i := range e.Nearest[1:] {
		if longer := near + "; " + e.Nearest[1+i].String(); len(message)+len(longer)+2 <= MaxMessage {
			near = longer
		}
	}
	return addSentence(message, near)
}

// addSentence leaves the sentence out if it would not fit.
func addSentence(message, sentence string) string {
	if len(message)+len(sentence)+2 > MaxMessage {
		return message
	}
	return message + " " + sentence + "."
}

// Counts is the first sentence of String.
func (e Explanation) Counts() string {
	head := fmt.Sprintf("%d/%d nodes are available", e.Feasible, e.Nodes)
	if len(e.Reasons) == 0 {
		return head + "."
	}
	text, reasons := head+": ", e.byPhrase()
	for i, r := range reasons {
		phrase := fmt.Sprintf("%d %s", r.Nodes, r.Phrase)
		if i > 0 {
			phrase = ", " + phrase
		}
		if len(text)+len(phrase) > maxReasons {
			return fmt.Sprintf("%s and %d more reasons.", text, len(reasons)-i)
		}
		text += phrase
	}
	return text + "."
}

// byPhrase is the reasons with those of one phrase as one, whichever filter gave it.
func (e Explanation) byPhrase() []Reason {
	reasons := make([]Reason, 0, len(e.Reasons))
	for _, r := range e.Reasons {
		if i := slices.IndexFunc(reasons, func(x Reason) bool { return x.Phrase == r.Phrase }); i >= 0 {
			reasons[i].Nodes += r.Nodes
			continue
		}
		reasons = append(reasons, r)
	}
	slices.SortStableFunc(reasons, func(a, b Reason) int { return cmp.Compare(b.Nodes, a.Nodes) })
	return reasons
}

// String renders a near miss: "n1 lacks 1 cpu (3 asked, 2 free of 2)".
func (m *NearMiss) String() string {
	what := make([]string, len(m.Obstacles))
	for i := range m.Obstacles {
		what[i] = m.Obstacles[i].What
	}
	return m.Node + " " + strings.Join(what, ", ")
}
