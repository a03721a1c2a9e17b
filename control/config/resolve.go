package config

import (
	"cmp"
	"hash/fnv"
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
)

// Target is how a revision targets a node; the higher goes first.
type Target uint8

// The ways in which a node is targeted.
const (
	NotTargeted Target = iota
	ByDefault          // all nodes are
	BySelector
	ByName
)

func (t Target) String() string {
	return [...]string{"does not target it", "targets all nodes", "selects it by labels", "names it"}[t]
}

// targets says how a revision targets a node.
func targets(r *spec.ConfigurationRevision, n *Node) Target {
	switch {
	case r == nil:
		return NotTargeted
	case len(r.NodeNames) > 0:
		if _, ok := slices.BinarySearch(r.NodeNames, n.Name); ok {
			return ByName
		}
		return NotTargeted
	case r.NodeSelector != nil:
		if r.NodeSelector.Matches(n.Labels) {
			return BySelector
		}
		return NotTargeted
	}
	return ByDefault
}

// state is an object beside what is worked out of it.
type state struct {
	*Object
	invalid string // why the candidate cannot be used
	expired bool
	// candidate is what the object says now; nil: it has a mistake. stable is what all nodes have had.
	candidate, stable         *spec.ConfigurationRevision
	candidateName, stableName string
	rollout                   spec.ConfigurationRollout
	// admitted are the nodes that have the candidate, or are to have it; targeted all nodes for which the object is in force by either revision.
	admitted map[string]bool
	targeted []*Node
	told     map[string]*spec.WantedConfiguration // by revision
}

func stateOf(o *Object, now time.Time) *state {
	s := &state{Object: o, stable: o.Status.Stable, admitted: make(map[string]bool), told: make(map[string]*spec.WantedConfiguration, 2), rollout: spec.CompleteRollout(o.Spec.Rollout)}
	if s.stable != nil {
		s.stableName = s.stable.Name()
	}
	s.expired = o.Spec.Expires != nil && !now.Before(*o.Spec.Expires)
	s.invalid = o.Unreadable
	if s.invalid == "" {
		if err := spec.ValidateNodeConfiguration(&o.Spec); err != nil {
			s.invalid = err.Error()
		}
	}
	if s.invalid == "" {
		candidate := o.Spec.Revision()
		s.candidate, s.candidateName = &candidate, candidate.Name()
	}
	return s
}

// percent is the share of the targeted nodes that may have the candidate, by the status that was written.
func (s *state) percent() int {
	const all = 100
	switch r := s.Status.Rollout; {
	case s.candidate == nil:
		return 0
	case s.stable != nil && s.candidateName == s.stableName:
		return all
	case r == nil || r.Revision != s.candidateName || r.RolledBack:
		return 0
	default:
		return r.Percent
	}
}

// settled reports whether the candidate is what all nodes have.
func (s *state) settled() bool {
	return s.candidate == nil || s.stable != nil && s.candidateName == s.stableName
}

// revision is what the object says of a node.
func (s *state) revision(n *Node) (*spec.ConfigurationRevision, string) {
	switch {
	case s.expired:
		return nil, ""
	case s.admitted[n.Name]:
		return s.candidate, s.candidateName
	}
	return s.stable, s.stableName
}

// rank is the order in which nodes get an object's changes: a hash, so that neighbours by name, which are often of one rack, do not get them together.
func rank(object, node string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(object + "/" + node))
	x := h.Sum64()
	x ^= x >> 33 // FNV alone orders names that differ in their last characters by these
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return x
}

// choice is what one object would be to a node.
type choice struct {
	object   *state
	revision *spec.ConfigurationRevision
	name     string
	target   Target
}

// compare orders choices, the one in force first.
func (c *choice) compare(d *choice) int {
	return cmp.Or(
		-cmp.Compare(c.target, d.target), -cmp.Compare(c.revision.Priority, d.revision.Priority),
		c.object.Created.Compare(d.object.Created), cmp.Compare(c.object.Name, d.object.Name),
	)
}

// choice is what the object would be to a node with one of its revisions; false: it does not target the node.
func (s *state) choice(r *spec.ConfigurationRevision, name string, n *Node) (choice, bool) {
	t := targets(r, n)
	return choice{s, r, name, t}, t != NotTargeted && !s.expired
}

// world is a view with what is worked out of it.
type world struct {
	view   View
	states []*state
	now    time.Time
	params Params
}

func newWorld(v *View, now time.Time, p Params) *world {
	w := &world{view: v.sorted(), now: now, params: p}
	for i := range w.view.Objects {
		w.states = append(w.states, stateOf(&w.view.Objects[i], now))
	}
	for i := range w.view.Nodes {
		w.target(&w.view.Nodes[i])
	}
	for _, s := range w.states {
		w.admit(s)
	}
	return w
}

// target finds the objects that are in force on a node by their candidate or their stable revision, where the other objects are as all nodes have had them.
func (w *world) target(n *Node) {
	var first, second choice // by stable revisions
	for _, s := range w.states {
		switch c, ok := s.choice(s.stable, s.stableName, n); {
		case !ok:
		case first.object == nil || c.compare(&first) < 0:
			first, second = c, first
		case second.object == nil || c.compare(&second) < 0:
			second = c
		}
	}
	for _, s := range w.states {
		rival := first
		if first.object == s {
			rival = second
		}
		c, ok := s.choice(s.candidate, s.candidateName, n)
		if first.object == s || ok && (rival.object == nil || c.compare(&rival) < 0) {
			s.targeted = append(s.targeted, n)
		}
	}
}

// has reports whether a node was told of the object's candidate.
func (s *state) has(n *Node) bool {
	return s.candidate != nil && n.Wanted != nil && n.Wanted.Name == s.Name && n.Wanted.Revision == s.candidateName
}

// allowed is how many of some nodes a step reaches: at least one.
func allowed(percent, nodes int) int {
	const all = 100
	if percent <= 0 || nodes == 0 {
		return 0
	}
	return max(1, nodes*percent/all)
}

// admit chooses the nodes that have an object's candidate: those that have it already, then by rank, agents that are ready before others.
func (w *world) admit(s *state) {
	most := allowed(s.percent(), len(s.targeted))
	if most == 0 {
		return
	}
	order := slices.Clone(s.targeted)
	class := func(n *Node) int {
		switch {
		case s.has(n):
			return 0
		case w.ready(n):
			return 1
		}
		return 2
	}
	type ranked struct {
		class int
		rank  uint64
	}
	ranks := make(map[string]ranked, len(order))
	for _, n := range order {
		ranks[n.Name] = ranked{class(n), rank(s.Name, n.Name)}
	}
	slices.SortFunc(order, func(a, b *Node) int {
		x, y := ranks[a.Name], ranks[b.Name]
		return cmp.Or(cmp.Compare(x.class, y.class), cmp.Compare(x.rank, y.rank), cmp.Compare(a.Name, b.Name))
	})
	for _, n := range order {
		holds := s.has(n)
		if len(s.admitted) >= most && !holds || s.Spec.Paused && !holds && !s.settled() {
			continue
		}
		s.admitted[n.Name] = true
	}
}

// ready reports whether a node's agent says that it is ready, and has said so lately.
func (w *world) ready(n *Node) bool {
	return n.Report.Ready && w.now.Sub(n.Report.ObservedAt) < w.params.StaleAfter
}

// wanted is what a node should be told; nil: nothing.
func (w *world) wanted(n *Node) *spec.WantedConfiguration {
	var best choice
	for _, s := range w.states {
		revision, name := s.revision(n)
		if c, ok := s.choice(revision, name, n); ok && (best.object == nil || c.compare(&best) < 0) {
			best = c
		}
	}
	if best.object == nil {
		return nil
	}
	return best.object.wanted(best.revision, best.name)
}

// wanted is what nodes are told of one of the object's revisions.
func (s *state) wanted(r *spec.ConfigurationRevision, name string) *spec.WantedConfiguration {
	if s.told[name] == nil {
		s.told[name] = &spec.WantedConfiguration{Name: s.Name, Revision: name, Hash: r.Parameters.Hash(), Parameters: r.Parameters}
	}
	return s.told[name]
}
