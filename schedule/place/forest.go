package place

import (
	"encoding/binary"
	"math"
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// forest serves all classes that ask for cpu, memory and a pod's place only, where an index for each of them would cost too much: it
// follows the log once for all.
//
// Nodes stand in atoms: nodes of one atom have equal taints, features and values of all labels that a class of the forest has ever
// selected by, so a static filter and a static score give one answer for an atom. Each atom has a tree.
type forest struct {
	cursor  cluster.Revision
	built   bool
	version uint64 // changes when an atom is added, or all are made anew

	labels []string // relevant, sorted
	byKey  map[string]int32
	atoms  []atom
	of     []int32 // by slot; noGroup where there is no node
	leaf   []int32 // by slot: the leaf of its atom's tree
	points []point // by slot

	views   map[string]*view
	byClass map[cluster.ClassID]*view
	scratch []byte
}

// atom is nodes that static filters and scores cannot tell apart.
type atom struct {
	tree tree
	odd  []cluster.Slot // nodes without cpu or memory, for which no bound is made
	like cluster.Slot   // one of its nodes, NoSlot while it has none
	size int
}

// view is the atoms that classes of equal static requirements may use.
type view struct {
	class   *cluster.Class
	version uint64
	open    []opening
	uniform bool // all raw values are equal
}

// opening is an atom with its raw values for a view's classes.
type opening struct {
	atom int32
	raw  rawValues
	key  int64 // scratch of a decision: the bound of its root
}

// The bounds of a forest: beyond them classes get an index of their own.
const (
	maxRelevantLabels = 16
	maxAtoms          = 256
	maxViews          = 4096
)

func newForest() *forest {
	return &forest{byKey: make(map[string]int32), views: make(map[string]*view), byClass: make(map[cluster.ClassID]*view)}
}

// serves reports whether the class is one for the forest: nothing about it depends on more than what a tree bounds.
func (f *forest) serves(p *Placer, c *cluster.Class) bool {
	if c.Constraints != nil || !c.GPU.IsZero() || len(c.Ports) > 0 || len(f.atoms) > maxAtoms || imagesMatter(p, c) {
		return false
	}
	for i := range LocalScores {
		if p.profile.local[i] != 0 && LocalScores[i].Bound == nil {
			return false
		}
	}
	for _, a := range c.Amounts {
		if a.Kind != resource.CPU && a.Kind != resource.Memory && a.Kind != resource.Pods {
			return false
		}
	}
	return f.learn(c)
}

// imagesMatter reports whether the class's images could give any node a score above 0.
func imagesMatter(p *Placer, c *cluster.Class) bool {
	s := &p.snapshot.State
	var most float64
	for _, name := range c.Images {
		nodes, size := s.NodesWithImage(name)
		most += float64(float64(size) * (float64(nodes) / float64(max(s.Inhabited(), 1))))
	}
	return most >= float64(minImages)
}

// learn makes the labels that the class selects by relevant. It is false when they would be too many, or tell every node apart.
func (f *forest) learn(c *cluster.Class) bool {
	if f.byClass[c.ID] != nil {
		return true
	}
	want := f.labels
	add := func(label string) {
		if at, found := slices.BinarySearch(want, label); !found {
			want = slices.Insert(slices.Clone(want), at, label)
		}
	}
	for _, l := range c.NodeSelector {
		add(l.Key)
	}
	terms := slices.Clone(c.Required)
	for i := range c.Preferred {
		terms = append(terms, c.Preferred[i].Term)
	}
	for i := range terms {
		if len(terms[i].Fields) > 0 {
			return false
		}
		for _, e := range terms[i].Expressions {
			add(e.Key)
		}
	}
	if len(want) > maxRelevantLabels || slices.Contains(want, cluster.HostnameKey) {
		return false
	}
	if len(want) > len(f.labels) {
		f.labels, f.built = want, false
	}
	return true
}

// follow brings the forest to the snapshot's newest change.
func (f *forest) follow(p *Placer) {
	s := &p.snapshot.State
	log := s.Log()
	behind := log.Len() - f.cursor
	if !f.built || !log.Covers(f.cursor) || behind > cluster.Revision(s.Slots()) {
		f.build(p)
		return
	}
	if behind == 0 {
		return
	}
	f.grow(s.Slots())
	p.epoch++
	for r := log.Len(); r > f.cursor; r-- {
		change := log.At(r - 1)
		seen := p.stamp(change.Slot)
		switch {
		case change.Kind&cluster.Redefined != 0:
			f.redefine(p, change.Slot)
		case !seen:
			f.update(p, change.Slot)
		}
	}
	f.cursor = log.Len()
}

func (f *forest) grow(slots int) {
	for len(f.of) < slots {
		f.of = append(f.of, noGroup)
		f.leaf = append(f.leaf, noNode)
		f.points = append(f.points, point{})
	}
}

// build makes everything anew.
func (f *forest) build(p *Placer) {
	s := &p.snapshot.State
	f.version++
	clear(f.byKey)
	f.atoms, f.of, f.leaf, f.points = f.atoms[:0], f.of[:0], f.leaf[:0], f.points[:0]
	f.grow(s.Slots())
	members := make([][]cluster.Slot, 0, len(f.atoms))
	for i := range s.Slots() {
		slot := cluster.Slot(i)
		if s.Node(slot) == nil {
			continue
		}
		id := f.atomOf(s.Node(slot))
		for len(members) <= int(id) {
			members = append(members, nil)
		}
		f.enter(id, slot)
		if f.points[slot] = f.point(p, slot); odd(&f.points[slot]) {
			f.atoms[id].odd = append(f.atoms[id].odd, slot)
		} else {
			members[id] = append(members[id], slot)
		}
	}
	for id := range members {
		f.atoms[id].tree.build(members[id], f)
	}
	f.built, f.cursor = true, s.Log().Len()
}

// atomOf returns the atom of a node's static properties, made if need be.
func (f *forest) atomOf(n *cluster.Node) int32 {
	b := f.scratch[:0]
	str := func(s string) {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	for _, label := range f.labels {
		value, ok := n.Labels[label]
		b = append(b, 0)
		if ok {
			b[len(b)-1] = 1
			str(value)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(n.Taints)))
	for i := range n.Taints {
		b = append(b, byte(n.Taints[i].Effect))
		str(n.Taints[i].Key)
		str(n.Taints[i].Value)
	}
	for _, feature := range n.Features {
		str(feature)
	}
	if n.Unschedulable {
		b = append(b, 1)
	}
	f.scratch = b
	id, ok := f.byKey[string(b)]
	if !ok {
		id = int32(len(f.atoms))
		f.byKey[string(b)] = id
		f.atoms = append(f.atoms, atom{like: cluster.NoSlot})
	}
	return id
}

// enter counts a slot in.
func (f *forest) enter(id int32, slot cluster.Slot) {
	a := &f.atoms[id]
	if a.like == cluster.NoSlot {
		f.version++ // views left it out
	}
	a.size++
	a.like = slot
	f.of[slot] = id
}

// leave counts a slot out; another one must be like the rest.
func (a *atom) leave(slot cluster.Slot) {
	a.size--
	if a.like != slot {
		return
	}
	a.like = cluster.NoSlot
	if len(a.odd) > 0 {
		a.like = a.odd[0]
		return
	}
	for i := range a.tree.nodes {
		if slots := a.tree.nodes[i].slots; len(slots) > 0 {
			a.like = slots[0]
			return
		}
	}
}

// redefine takes in a slot whose node has changed.
func (f *forest) redefine(p *Placer, slot cluster.Slot) {
	if id := f.of[slot]; id != noGroup {
		a := &f.atoms[id]
		if odd(&f.points[slot]) {
			a.odd = slices.DeleteFunc(a.odd, func(s cluster.Slot) bool { return s == slot })
		} else {
			a.tree.remove(slot, f)
		}
		a.leave(slot)
		f.of[slot] = noGroup
	}
	node := p.snapshot.Node(slot)
	if node == nil {
		return
	}
	id := f.atomOf(node)
	f.enter(id, slot)
	a := &f.atoms[id]
	if f.points[slot] = f.point(p, slot); odd(&f.points[slot]) {
		a.odd = append(a.odd, slot)
	} else {
		a.tree.insert(slot, f)
	}
}

// update takes in a slot on which other pods run than before.
func (f *forest) update(p *Placer, slot cluster.Slot) {
	id := f.of[slot]
	if id == noGroup || odd(&f.points[slot]) {
		return
	}
	a := &f.atoms[id]
	moved := f.point(p, slot)
	if moved == f.points[slot] {
		return
	}
	a.tree.move(slot, &moved, f)
	if a.tree.moves > 4*a.size {
		f.rebuild(a)
	}
}

// rebuild balances an atom's tree, whose leaves have drifted.
func (f *forest) rebuild(a *atom) {
	slots := make([]cluster.Slot, 0, a.size)
	for i := range a.tree.nodes {
		slots = append(slots, a.tree.nodes[i].slots...)
	}
	a.tree.build(slots, f)
}

// odd reports whether the point is of a node without cpu or memory.
func odd(p *point) bool { return p[axisInvCPU] == 0 || p[axisInvMemory] == 0 }

// point reads a slot's coordinates.
func (f *forest) point(p *Placer, slot cluster.Slot) point {
	s := &p.snapshot.State
	var t point
	cpu, memory := s.Allocatable(slot, resource.CPU), s.Allocatable(slot, resource.Memory)
	if cpu <= 0 || memory <= 0 {
		return t
	}
	scoreCPU, scoreMemory := s.ScoreRequested(slot)
	t[axisInvCPU], t[axisInvMemory] = 1/float64(cpu), 1/float64(memory)
	t[axisCPU], t[axisMemory] = float64(scoreCPU)/float64(cpu), float64(scoreMemory)/float64(memory)
	t[axisSkew] = min(float64(s.Requested(slot, resource.CPU))/float64(cpu), 1) - min(float64(s.Requested(slot, resource.Memory))/float64(memory), 1)
	t[axisFreeCPU], t[axisFreeMemory] = freed(s, slot, resource.CPU), freed(s, slot, resource.Memory)
	t[axisFreePods] = freed(s, slot, resource.Pods)
	t[axisTie] = float64(p.tie(slot))
	shape := s.Node(slot).GPU
	t[axisFreeGPU] = float64(s.GPUs(slot).Total(shape))
	if shape.GPUs == 0 {
		t[axisNoGPU] = 1
	}
	return t
}

// freed is what is free, rounded up: a bound must not refuse what a filter allows.
func freed(s *cluster.State, slot cluster.Slot, kind resource.Kind) float64 {
	return math.Nextafter(float64(s.Free(slot, kind)), math.Inf(1))
}

const topologyGPUs = topology.FullGPU * topology.MaxGPUs

// view returns the atoms that the class may use, with their raw values.
func (f *forest) view(p *Placer, c *cluster.Class) *view {
	v := f.byClass[c.ID]
	if v == nil {
		if len(f.byClass) >= maxViews {
			clear(f.byClass)
			clear(f.views)
		}
		f.scratch = c.AppendSelection(f.scratch[:0])
		if v = f.views[string(f.scratch)]; v == nil {
			v = &view{class: c}
			f.views[string(f.scratch)] = v
		}
		f.byClass[c.ID] = v
	}
	if v.version == f.version {
		return v
	}
	v.version, v.open = f.version, v.open[:0]
	s := &p.snapshot.State
	for id := range f.atoms {
		like := f.atoms[id].like
		if like != cluster.NoSlot && fitsIn(Static, s, like, v.class) {
			v.open = append(v.open, opening{atom: int32(id), raw: p.profile.raw(nil, s, like, v.class)})
		}
	}
	v.uniform = !slices.ContainsFunc(v.open, func(o opening) bool { return o.raw != v.open[0].raw })
	return v
}

// best returns the feasible node with the highest total score.
func (f *forest) best(p *Placer, c *cluster.Class) (cluster.Slot, bool) {
	f.follow(p)
	v := f.view(p, c)
	q := &p.ask
	q.reset(p, f, c)
	field := &p.field
	field.reset(c)
	f.measure(v, q, field)
	for i := range v.open {
		o := &v.open[i]
		q.offset = p.profile.normalizedScore(field, &o.raw)
		a := &f.atoms[o.atom]
		for _, slot := range a.odd {
			q.consider(slot)
		}
		o.key = nothing
		if len(a.tree.nodes) > 0 {
			o.key = q.bound(&a.tree.nodes[a.tree.root].box.lo, &a.tree.nodes[a.tree.root].box.hi)
		}
	}
	slices.SortFunc(v.open, func(a, b opening) int {
		switch {
		case a.key > b.key:
			return -1
		case a.key < b.key:
			return 1
		}
		return int(a.atom - b.atom)
	})
	for i := range v.open {
		o := &v.open[i]
		if o.key == nothing || q.best != cluster.NoSlot && o.key < q.bestKey {
			break
		}
		q.offset = p.profile.normalizedScore(field, &o.raw)
		t := &f.atoms[o.atom].tree
		q.search(t, t.root)
	}
	return q.best, q.best != cluster.NoSlot
}

// measure finds the raw values that occur among feasible nodes. Where all atoms agree there is nothing to find out.
func (f *forest) measure(v *view, q *ask, field *field) {
	measured := q.measured[:0]
	for i := range v.open {
		raw := v.open[i].raw
		if slices.Contains(measured, raw) {
			continue
		}
		if v.uniform || f.any(&v.open[i], q) {
			field.measure(&raw)
			measured = append(measured, raw)
		}
	}
	q.measured = measured
}

// any reports whether some node of an atom is feasible.
func (f *forest) any(o *opening, q *ask) bool {
	a := &f.atoms[o.atom]
	for _, slot := range a.odd {
		if fitsIn(Local, &q.placer.snapshot.State, slot, q.class) {
			return true
		}
	}
	return len(a.tree.nodes) > 0 && q.any(&a.tree, a.tree.root)
}
