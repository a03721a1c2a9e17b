package place

import (
	"encoding/binary"
	"slices"

	"hilbert.dev/hilbert/cluster"
)

// atoms divides the nodes by what static filters and static scores can see of them: nodes of one atom have equal taints, features and
// values of all labels that a class has selected by, or is softly spread over. So a class asks those of one node an atom, and classes whose pods have one size share
// one ranking of the nodes, whatever each of them selects. It follows the snapshot's log from its own cursor.
type atoms struct {
	cursor cluster.Revision
	// made changes when all atoms are made anew, version also when one gets its first node or a new one to be judged by.
	made, version uint64

	labels []string // relevant, sorted
	byKey  map[string]int32
	of     []int32 // by slot; noGroup where there is no node
	atoms  []atom

	views   map[string]*view
	byClass map[cluster.ClassID]*view
	scratch []byte
}

type atom struct {
	like cluster.Slot // one of its nodes, NoSlot while it has none
}

// view is the atoms that classes of equal static requirements may use, with their raw values.
type view struct {
	class   *cluster.Class
	version uint64
	open    []opening
	at      []int32 // by atom: its place in open, noGroup for none
}

// opening is an atom, with the raw values that follow from it.
type opening struct {
	atom int32
	raw  rawValues
	best cluster.Slot // scratch of a decision
}

// The bounds of atoms: beyond them classes get an index of their own.
const (
	maxRelevantLabels = 16
	maxAtoms          = 512
	maxViews          = 1 << 14
)

func newAtoms() *atoms {
	return &atoms{byKey: make(map[string]int32), views: make(map[string]*view), byClass: make(map[cluster.ClassID]*view)}
}

// learn makes the labels that the class selects by relevant. It is false when they would be too many, or tell every node apart.
func (a *atoms) learn(s *cluster.State, c *cluster.Class) bool {
	if a.byClass[c.ID] != nil {
		return true
	}
	want := a.labels
	for _, label := range append(selectedBy(c), spreadOver(s, c)...) {
		if at, found := slices.BinarySearch(want, label); !found {
			want = slices.Insert(slices.Clone(want), at, label)
		}
	}
	if len(want) > maxRelevantLabels || slices.Contains(want, cluster.HostnameKey) || slices.Contains(want, cluster.FieldName) {
		return false
	}
	if len(want) > len(a.labels) {
		a.labels, a.made = want, 0
	}
	return true
}

// selectedBy lists the labels, and fields, of nodes that the class's static filters and scores read.
func selectedBy(c *cluster.Class) []string {
	var labels []string
	for _, l := range c.NodeSelector {
		labels = append(labels, l.Key)
	}
	terms := slices.Clone(c.Required)
	for i := range c.Preferred {
		terms = append(terms, c.Preferred[i].Term)
	}
	for i := range terms {
		for _, e := range terms[i].Expressions {
			labels = append(labels, e.Key)
		}
		for _, e := range terms[i].Fields {
			labels = append(labels, e.Key)
		}
	}
	return labels
}

// spreadOver lists the topology keys of the class's soft spread constraints, apart from the hostname.
func spreadOver(s *cluster.State, c *cluster.Class) []string {
	if c.Constraints == nil {
		return nil
	}
	var labels []string
	for i := range c.Constraints.Soft {
		if soft := &c.Constraints.Soft[i]; soft.Census != cluster.NoCensus {
			labels = append(labels, s.KeyName(s.Census(soft.Census).Key()))
		}
	}
	return labels
}

// follow brings the atoms to the snapshot's newest change.
func (a *atoms) follow(s *cluster.State) {
	log := s.Log()
	if a.made == 0 || !log.Covers(a.cursor) {
		a.build(s)
		return
	}
	for len(a.of) < s.Slots() {
		a.of = append(a.of, noGroup)
	}
	for ; a.cursor < log.Len(); a.cursor++ {
		if change := log.At(a.cursor); change.Kind&cluster.Redefined != 0 {
			a.leave(s, change.Slot)
			if node := s.Node(change.Slot); node != nil {
				a.enter(change.Slot, a.atomOf(node))
			}
		}
	}
}

// build makes all atoms anew.
func (a *atoms) build(s *cluster.State) {
	a.version++
	a.made = a.version
	clear(a.byKey)
	a.atoms, a.of = a.atoms[:0], a.of[:0]
	for i := range s.Slots() {
		a.of = append(a.of, noGroup)
		if node := s.Node(cluster.Slot(i)); node != nil {
			a.enter(cluster.Slot(i), a.atomOf(node))
		}
	}
	a.cursor = s.Log().Len()
}

func (a *atoms) enter(slot cluster.Slot, id int32) {
	a.of[slot] = id
	if a.atoms[id].like == cluster.NoSlot {
		a.atoms[id].like = slot
		a.version++ // views left it out
	}
}

// leave counts a slot out; another one must be like the rest.
func (a *atoms) leave(s *cluster.State, slot cluster.Slot) {
	id := a.of[slot]
	if id == noGroup {
		return
	}
	a.of[slot] = noGroup
	at := &a.atoms[id]
	if at.like != slot {
		return
	}
	at.like = cluster.NoSlot
	a.version++
	for other := range a.of {
		if a.of[other] == id && s.Node(cluster.Slot(other)) != nil {
			at.like = cluster.Slot(other)
			return
		}
	}
}

// atomOf returns the atom of a node's static properties, made if need be.
func (a *atoms) atomOf(n *cluster.Node) int32 {
	b := a.scratch[:0]
	str := func(s string) {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	for _, label := range a.labels {
		value, ok := n.Labels[label]
		if !ok {
			b = append(b, 0)
			continue
		}
		b = append(b, 1)
		str(value)
	}
	b = binary.AppendUvarint(b, uint64(len(n.Taints)))
	for i := range n.Taints {
		b = append(b, byte(n.Taints[i].Effect))
		str(n.Taints[i].Key)
		str(n.Taints[i].Value)
	}
	b = binary.AppendUvarint(b, uint64(len(n.Features)))
	for _, feature := range n.Features {
		str(feature)
	}
	if n.Unschedulable {
		b = append(b, 1)
	}
	if _, ok := n.Labels[cluster.HostnameKey]; ok { // without it, no spread over hosts
		b = append(b, 2)
	}
	a.scratch = b
	id, ok := a.byKey[string(b)]
	if !ok {
		id = int32(len(a.atoms))
		a.byKey[string(b)] = id
		a.atoms = append(a.atoms, atom{like: cluster.NoSlot})
	}
	return id
}

// view returns the atoms that the class may use.
func (a *atoms) view(p *Placer, c *cluster.Class) *view {
	v := a.byClass[c.ID]
	if v == nil {
		if len(a.byClass) >= maxViews {
			clear(a.byClass)
			clear(a.views)
		}
		a.scratch = c.AppendSelection(a.scratch[:0])
		if v = a.views[string(a.scratch)]; v == nil {
			v = &view{class: c}
			a.views[string(a.scratch)] = v
		}
		a.byClass[c.ID] = v
	}
	if v.version == a.version {
		return v
	}
	v.version, v.open, v.at = a.version, v.open[:0], v.at[:0]
	s := &p.snapshot.State
	for id := range a.atoms {
		v.at = append(v.at, noGroup)
		if like := a.atoms[id].like; like != cluster.NoSlot && fitsIn(Static, s, like, v.class) {
			v.at[id] = int32(len(v.open))
			v.open = append(v.open, opening{atom: int32(id), raw: p.profile.static(s, like, v.class)})
		}
	}
	return v
}
