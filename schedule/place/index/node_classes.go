package index

import (
	"encoding/binary"
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/census"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// nodeClasses divides the nodes by what static filters and static scores can tell of them. Nodes of one node class have equal taints,
// features and values of all labels that some class of pods has selected by, or is softly spread over. So a pod asks those filters of one
// node for each node class, and all classes of pods that ask for the same amounts share one ranking, whatever each of them selects.
//
// Example: 1,000 nodes, half of them with the label disk=ssd, 100 of those with a taint. As soon as a pod selects by disk, there are three
// node classes: no disk label, ssd, and ssd with the taint. When a pod selects by another label, all nodes are divided again (generation).
type nodeClasses struct {
	cursor changes.Revision
	// generation changes when all node classes are built again; version changes too when one gets its first node or another sample.
	generation, version uint64

	distinguishing []string // relevant, sorted
	byKey          map[string]int32
	of             []int32 // by slot; NoGroup where there is no node
	classes        []nodeClass

	most   int              // node classes
	absent map[string]bool  // labels that classes select by and no node has
	fine   map[string]bool  // labels that tell too many nodes apart
	forgot changes.Revision // when labels were forgotten last

	parts    []uint8 // by slot: its partition; nil while the cluster is not divided
	confined bool    // the nodes of other partitions than own have no node class
	own      uint8

	selections map[string]*selection
	byPodClass map[cluster.ClassID]*selection
	inPart     map[partOf]*selection
	scratch    []byte
}

type nodeClass struct {
	sample cluster.Slot // one of its nodes, NoSlot while it has none
	part   uint8
}

// partOf is a class of pods in a partition.
type partOf struct {
	class cluster.ClassID
	part  uint8
}

// selection is the node classes that pods of equal static requirements may use, with their raw values.
type selection struct {
	class    *cluster.Class
	version  uint64
	allowed  []allowedClass
	position []int32 // by node class: its index in allowed, NoGroup for none
}

// indexOf is where a group of nodes is in allowed, NoGroup if the selection does not allow it.
func (v *selection) indexOf(group int32) int32 {
	if group == NoGroup {
		return NoGroup
	}
	return v.position[group]
}

// allowedClass is a node class that a selection may use, with the raw values that follow from it.
type allowedClass struct {
	nodeClass int32
	raw       rules.RawValues
	// Scratch of a decision.
	open  bool  // it has feasible nodes that are no exceptions
	added int64 // what raw adds to scores
}

// The bounds of node classes: beyond them classes of pods get an index of their own.
const (
	maxDistinguishingLabels = 16
	maxAbsentLabels         = 1 << 12
	forgetAfter             = changes.Revision(1 << 18) // changes between two times that labels are forgotten
	maxNodeClasses          = 512
	maxKnownClasses         = 1 << 14
)

func newNodeClasses() *nodeClasses {
	return &nodeClasses{
		most: maxNodeClasses, byKey: make(map[string]int32), selections: make(map[string]*selection), byPodClass: make(map[cluster.ClassID]*selection),
		absent: make(map[string]bool), fine: make(map[string]bool), inPart: make(map[partOf]*selection),
	}
}

// divide has node classes lie within partitions, so that a decision can be about the nodes of one alone. Nil: the cluster is not divided.
func (a *nodeClasses) divide(parts []uint8) {
	a.parts, a.generation, a.confined = parts, 0, false
	clear(a.inPart)
}

// confine has the nodes of one partition alone have node classes. Nil: there are no other nodes.
func (a *nodeClasses) confine(parts []uint8, own uint8) {
	a.divide(parts)
	a.confined, a.own = parts != nil, own
}

// has reports whether a slot may have a node class.
func (a *nodeClasses) has(s *cluster.State, slot cluster.Slot) bool {
	return s.Node(slot) != nil && (!a.confined || a.part(slot) == a.own)
}

// part is the partition of a slot.
func (a *nodeClasses) part(slot cluster.Slot) uint8 {
	if int(slot) < len(a.parts) {
		return a.parts[slot]
	}
	return 0 // its node came after the division
}

// distinguish makes the labels that the class selects by relevant; the node classes must be up to date. It is false when they would be too many,
// or tell too many nodes apart: then the class goes by itself, and the others keep their node classes. A label that no node has tells none apart,
// and costs nothing until a node comes that has it.
func (a *nodeClasses) distinguish(s *cluster.State, c *cluster.Class) bool {
	if a.byPodClass[c.ID] != nil {
		return true
	}
	if len(a.classes) > a.most {
		return false
	}
	for _, label := range append(selectedBy(c), spreadOver(s, c)...) {
		at, found := slices.BinarySearch(a.distinguishing, label)
		switch {
		case found || a.absent[label]:
			continue
		case label == facts.HostnameKey || label == facts.FieldName || a.fine[label]:
			return false
		case !anyHas(s, label):
			if len(a.absent) >= maxAbsentLabels {
				return a.mayForget(s) && a.distinguish(s, c)
			}
			a.absent[label] = true
			continue
		case len(a.distinguishing) >= maxDistinguishingLabels:
			return a.mayForget(s) && a.distinguish(s, c)
		case a.tooFine(s, label):
			a.fine[label] = true
			return false
		}
		a.distinguishing = slices.Insert(slices.Clone(a.distinguishing), at, label)
		a.build(s)
	}
	return len(a.classes) <= a.most
}

func anyHas(s *cluster.State, label string) bool {
	for i := range s.Slots() {
		if node := s.Node(cluster.Slot(i)); node != nil {
			if _, ok := node.Labels[label]; ok {
				return true
			}
		}
	}
	return false
}

// tooFine reports whether the label would divide the node classes into too many.
func (a *nodeClasses) tooFine(s *cluster.State, label string) bool {
	type part struct {
		of    int32
		value string
	}
	parts := make(map[part]struct{})
	for slot, of := range a.of {
		if node := s.Node(cluster.Slot(slot)); node != nil && of != NoGroup {
			value, ok := node.Labels[label]
			if ok {
				value = "=" + value
			}
			if parts[part{of, value}] = struct{}{}; len(parts) > a.most {
				return true
			}
		}
	}
	return false
}

// forget unlearns all labels; classes of pods that are still asked about bring theirs again.
func (a *nodeClasses) forget() {
	a.distinguishing, a.generation = nil, 0
	clear(a.inPart)
	clear(a.absent)
	clear(a.fine)
	clear(a.byPodClass)
	clear(a.selections)
}

// mayForget unlearns the labels if that was long ago.
func (a *nodeClasses) mayForget(s *cluster.State) bool {
	if s.Log().Len()-a.forgot < forgetAfter {
		return false
	}
	a.forgot = s.Log().Len()
	a.forget()
	a.build(s)
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
	if c.Volumes != nil {
		labels = append(labels, c.Volumes.Labels()...)
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
		if soft := &c.Constraints.Soft[i]; soft.Census != census.None {
			labels = append(labels, s.Counts().Registry().KeyName(s.Counts().Census(soft.Census).Key()))
		}
	}
	return labels
}

// follow brings the node classes to the snapshot's newest change.
func (a *nodeClasses) follow(s *cluster.State) {
	log := s.Log()
	if a.generation == 0 || !log.Covers(a.cursor) {
		a.build(s)
		return
	}
	for len(a.of) < s.Slots() {
		a.of = append(a.of, NoGroup)
	}
	for ; a.cursor < log.Len(); a.cursor++ {
		if change := log.At(a.cursor); change.Kind&changes.Redefined != 0 {
			a.leave(s, change.Slot)
			if node := s.Node(change.Slot); node != nil && a.has(s, change.Slot) {
				a.notice(node)
				a.enter(change.Slot, a.classOf(node, change.Slot))
			}
		}
	}
	if len(a.classes) > a.most {
		a.mayForget(s)
	}
}

// notice finds out whether a node has a label that none had when pods selected by it: those classes of pods must be asked again.
func (a *nodeClasses) notice(node *facts.Node) {
	if len(a.absent) == 0 {
		return
	}
	for label := range node.Labels {
		if a.absent[label] {
			delete(a.absent, label)
			clear(a.byPodClass)
			clear(a.selections)
		}
	}
}

// build divides all nodes into node classes again.
func (a *nodeClasses) build(s *cluster.State) {
	a.version++
	a.generation = a.version
	clear(a.byKey)
	a.classes, a.of = a.classes[:0], a.of[:0]
	for i := range s.Slots() {
		a.of = append(a.of, NoGroup)
		if node := s.Node(cluster.Slot(i)); node != nil && a.has(s, cluster.Slot(i)) {
			a.enter(cluster.Slot(i), a.classOf(node, cluster.Slot(i)))
		}
	}
	a.cursor = s.Log().Len()
	if len(a.classes) > a.most && a.parts != nil && !a.confined { // better not divided than each class of pods by itself
		a.divide(nil)
		a.build(s)
		return
	}
	for i := range s.Slots() {
		if node := s.Node(cluster.Slot(i)); node != nil {
			a.notice(node)
		}
	}
}

func (a *nodeClasses) enter(slot cluster.Slot, id int32) {
	a.of[slot] = id
	if a.classes[id].sample == cluster.NoSlot {
		a.classes[id].sample = slot
		a.version++ // selections left it out
	}
}

// leave counts a slot out; another one must be like the rest.
func (a *nodeClasses) leave(s *cluster.State, slot cluster.Slot) {
	id := a.of[slot]
	if id == NoGroup {
		return
	}
	a.of[slot] = NoGroup
	at := &a.classes[id]
	if at.sample != slot {
		return
	}
	at.sample = cluster.NoSlot
	a.version++
	for other := range a.of {
		if a.of[other] == id && s.Node(cluster.Slot(other)) != nil {
			at.sample = cluster.Slot(other)
			return
		}
	}
}

// classOf returns the node class of a node's static properties, made if need be.
func (a *nodeClasses) classOf(n *facts.Node, slot cluster.Slot) int32 {
	part := a.part(slot)
	b := append(a.scratch[:0], part)
	str := func(s string) {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	for _, label := range a.distinguishing {
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
	for _, list := range [...][]string{n.Features, n.Migrated} {
		b = binary.AppendUvarint(b, uint64(len(list)))
		for _, name := range list {
			str(name)
		}
	}
	if n.Unschedulable {
		b = append(b, 1)
	}
	if _, ok := n.Labels[facts.HostnameKey]; ok { // without it, no spread over hosts
		b = append(b, 2)
	}
	a.scratch = b
	id, ok := a.byKey[string(b)]
	if !ok {
		id = int32(len(a.classes))
		a.byKey[string(b)] = id
		a.classes = append(a.classes, nodeClass{sample: cluster.NoSlot, part: part})
	}
	return id
}

// selection returns the node classes that the pods of a class may use.
func (a *nodeClasses) selection(ix *Index, c *cluster.Class) *selection {
	v := a.byPodClass[c.ID]
	if v == nil {
		if len(a.byPodClass) >= maxKnownClasses {
			clear(a.byPodClass)
			clear(a.selections)
		}
		a.scratch = c.AppendSelection(a.scratch[:0])
		if v = a.selections[string(a.scratch)]; v == nil {
			v = &selection{class: c}
			a.selections[string(a.scratch)] = v
		}
		a.byPodClass[c.ID] = v
	}
	if v.version == a.version {
		return v
	}
	v.version, v.allowed, v.position = a.version, v.allowed[:0], v.position[:0]
	s := &ix.snapshot.State
	for id := range a.classes {
		v.position = append(v.position, NoGroup)
		if like := a.classes[id].sample; like != cluster.NoSlot && rules.FitsIn(rules.Static, s, like, v.class) {
			v.position[id] = int32(len(v.allowed))
			v.allowed = append(v.allowed, allowedClass{nodeClass: int32(id), raw: ix.profile.StaticValues(s, like, v.class)})
		}
	}
	return v
}

// selectionIn is the part of a selection that lies in a partition. It is false while the cluster is not divided.
func (a *nodeClasses) selectionIn(of *selection, c *cluster.Class, part uint8) (*selection, bool) {
	switch {
	case a.parts == nil:
		return nil, false
	case a.confined:
		return of, part == a.own
	}
	key := partOf{c.ID, part}
	v := a.inPart[key]
	if v != nil && v.class == of.class && v.version == of.version {
		return v, true
	}
	if v == nil {
		if len(a.inPart) >= maxKnownClasses {
			clear(a.inPart)
		}
		v = &selection{}
		a.inPart[key] = v
	}
	v.class, v.version, v.allowed, v.position = of.class, of.version, v.allowed[:0], v.position[:0]
	for id, at := range of.position {
		v.position = append(v.position, NoGroup)
		if at != NoGroup && a.classes[id].part == part {
			v.position[id] = int32(len(v.allowed))
			v.allowed = append(v.allowed, of.allowed[at])
		}
	}
	return v, true
}
