package schedule

import (
	"cmp"
	"math/bits"
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/queue"
)

// parkedIndex files the shape queues that sleep by what could wake them, so that a change of a node is compared with those few that it may help,
// and not with all that sleep.
//
// A shape queue of pods without constraints between pods can only be helped by a node that has the label which the pods select, and on which as
// much CPU and memory is free as the least of them asks; with victims to be had, as much as the node has at all. Shape queues that agree in
// this, the amounts in steps of about a fifth, share a cell. Other shape queues are listed apart: what happens elsewhere may help them, too.
//
// Example: 20,000 shapes that ask for 32 CPUs and more sleep, and a pod that held one CPU ends. The node has one CPU free: no cell is opened.
type parkedIndex struct {
	cells  map[facts.Label][]*parkedCell // by the node label that the pods need; the zero Label: none
	byKey  map[cellKey]*parkedCell
	list   []*parkedCell // all, in an order that does not depend on the maps
	apart  []*parked
	all    map[*queue.ShapeQueue]*parked
	purged int           // how many were filed when those that do not sleep any more were last taken out
	labels []facts.Label // scratch
}

// parked is a shape queue that sleeps, with what it was checked against when it was put to sleep.
type parked struct {
	sq      *queue.ShapeQueue
	checked queue.Version
	cell    *parkedCell // nil: listed apart
	at      int         // in the cell's list, or in the list of those apart
}

// cellKey is what the members of a cell have in common.
type cellKey struct {
	label       facts.Label
	wants       bool  // they would preempt,
	wanted      int32 // pods of less than this priority
	gpus        bool  // they ask for GPUs
	cpu, memory uint8
}

type parkedCell struct {
	cellKey
	leastCPU, leastMemory int64 // that a member asks
	members               []*parked
	at                    int // in the list of all
}

func newParkedIndex() parkedIndex {
	return parkedIndex{
		cells: make(map[facts.Label][]*parkedCell), byKey: make(map[cellKey]*parkedCell), all: make(map[*queue.ShapeQueue]*parked),
	}
}

// add files a shape queue that was put to sleep.
func (x *parkedIndex) add(sq *queue.ShapeQueue, checked queue.Version, wants bool, wanted int32) {
	if old := x.all[sq]; old != nil {
		x.remove(old)
	}
	p := &parked{sq: sq, checked: checked}
	x.all[sq] = p
	classes := classesOf(sq.Shape)
	if sq.Shape.Anchored || slices.ContainsFunc(classes, func(c *cluster.Class) bool { return c.Constraints != nil }) {
		p.at = len(x.apart)
		x.apart = append(x.apart, p)
		return
	}
	label, gpus := neededLabel(classes[0].Requirements), true
	cpu, memory := classes[0].Amounts.Get(resource.CPU), classes[0].Amounts.Get(resource.Memory)
	for _, c := range classes {
		if neededLabel(c.Requirements) != label {
			label = facts.Label{}
		}
		gpus = gpus && !c.GPU.IsZero()
		cpu, memory = min(cpu, c.Amounts.Get(resource.CPU)), min(memory, c.Amounts.Get(resource.Memory))
	}
	key := cellKey{label: label, wants: wants, wanted: wanted, gpus: gpus, cpu: step(cpu), memory: step(memory)}
	cell := x.byKey[key]
	if cell == nil {
		cell = &parkedCell{cellKey: key, leastCPU: cpu, leastMemory: memory, at: len(x.list)}
		x.byKey[key], x.list = cell, append(x.list, cell)
		x.cells[label] = append(x.cells[label], cell)
	}
	cell.leastCPU, cell.leastMemory = min(cell.leastCPU, cpu), min(cell.leastMemory, memory)
	p.cell, p.at = cell, len(cell.members)
	cell.members = append(cell.members, p)
}

// classesOf lists the classes of a shape's pods.
func classesOf(shape *queue.Shape) []*cluster.Class {
	if shape.Class != nil {
		return []*cluster.Class{shape.Class}
	}
	classes := make([]*cluster.Class, len(shape.Parts))
	for i := range shape.Parts {
		classes[i] = shape.Parts[i].Class
	}
	return classes
}

// neededLabel is a label that a node must have for a pod to go there; the zero Label if none is known. The node's name counts as one.
func neededLabel(r *facts.Requirements) facts.Label {
	if len(r.NodeSelector) > 0 {
		return r.NodeSelector[0]
	}
	if len(r.Required) == 1 {
		for _, list := range [][]facts.Requirement{r.Required[0].Fields, r.Required[0].Expressions} {
			for _, e := range list {
				if e.Operator == facts.In && len(e.Values) == 1 {
					return facts.Label{Key: e.Key, Value: e.Values[0]}
				}
			}
		}
	}
	return facts.Label{}
}

// step numbers amounts in steps, four to an octave.
func step(amount int64) uint8 {
	if amount <= 0 {
		return 0
	}
	octave := bits.Len64(uint64(amount))
	quarter := amount << 2 >> (octave - 1) & 3
	if octave > 60 {
		quarter = amount >> (octave - 3) & 3
	}
	return uint8(octave<<2) | uint8(quarter)
}

func (x *parkedIndex) remove(p *parked) {
	list := &x.apart
	if p.cell != nil {
		list = &p.cell.members
	}
	end := len(*list) - 1
	last := (*list)[end]
	(*list)[p.at], last.at = last, p.at
	(*list)[end] = nil
	*list = (*list)[:end]
	delete(x.all, p.sq)
	if p.cell != nil && end == 0 {
		x.drop(p.cell)
	}
}

// drop takes out a cell without members.
func (x *parkedIndex) drop(cell *parkedCell) {
	delete(x.byKey, cell.cellKey)
	end := len(x.list) - 1
	last := x.list[end]
	x.list[cell.at], last.at = last, cell.at
	x.list[end] = nil
	x.list = x.list[:end]
	cells := slices.DeleteFunc(x.cells[cell.label], func(c *parkedCell) bool { return c == cell })
	if len(cells) == 0 {
		delete(x.cells, cell.label)
		return
	}
	x.cells[cell.label] = cells
}

// sleeps reports whether an entry still holds: its shape queue has not been woken, nor has its last unit gone.
func (p *parked) sleeps() bool { return p.sq.Parked() && p.sq.Len() > 0 }

// purge takes out what does not sleep any more, once it may be the greater part.
func (x *parkedIndex) purge() {
	if len(x.all) <= 2*x.purged+maxRecords {
		return
	}
	drop := func(list []*parked) {
		for _, p := range slices.Backward(list) {
			if !p.sleeps() {
				x.remove(p)
			}
		}
	}
	drop(x.apart)
	for _, cell := range slices.Backward(x.list) {
		drop(cell.members)
	}
	x.purged = len(x.all)
}

// helped visits what sleeps and may be helped by a change of a node. visit may take out the entry that it is called with.
func (x *parkedIndex) helped(s *cluster.Store, slot cluster.Slot, visit func(*parked)) {
	node := s.Node(slot)
	if node == nil {
		return
	}
	room := roomOn(s, slot)
	for _, label := range x.labelsOf(node) {
		for _, cell := range slices.Backward(x.cells[label]) { // for a cell that becomes empty is taken out
			if !room.mayHelp(cell) {
				continue
			}
			for _, p := range slices.Backward(cell.members) {
				visit(p)
			}
		}
	}
}

// labelsOf lists the labels of a node that some cell needs, with the zero Label for those that need none.
func (x *parkedIndex) labelsOf(node *facts.Node) []facts.Label {
	x.labels = append(x.labels[:0], facts.Label{})
	add := func(label facts.Label) {
		if x.cells[label] != nil {
			x.labels = append(x.labels, label)
		}
	}
	if len(x.cells) < 2 && x.cells[facts.Label{}] != nil {
		return x.labels
	}
	add(facts.Label{Key: facts.FieldName, Value: node.Name})
	for key, value := range node.Labels {
		add(facts.Label{Key: key, Value: value})
	}
	slices.SortFunc(x.labels, func(a, b facts.Label) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value)) })
	return x.labels
}

// room is what a node has: now, in all, and whether there are victims.
type room struct {
	store               *cluster.Store
	slot                cluster.Slot
	freeCPU, freeMemory int64
	leastPriority       int32
	counted, some       bool // leastPriority is known; there are pods
}

func roomOn(s *cluster.Store, slot cluster.Slot) room {
	return room{store: s, slot: slot, freeCPU: s.Free(slot, resource.CPU), freeMemory: s.Free(slot, resource.Memory)}
}

// mayHelp reports whether the node may have room for a member of a cell, or victims for it.
func (r *room) mayHelp(c *parkedCell) bool {
	if c.gpus && !r.store.HasGPUs(r.slot) {
		return false
	}
	if c.within(r.freeCPU, r.freeMemory) {
		return true
	}
	return c.wants && c.within(r.store.Allocatable(r.slot, resource.CPU), r.store.Allocatable(r.slot, resource.Memory)) && r.hasBelow(c.wanted)
}

// within reports whether a member of the cell may ask for no more than these amounts. What asks for nothing of a resource fits wherever.
func (c *parkedCell) within(cpu, memory int64) bool {
	return (c.leastCPU <= 0 || c.leastCPU <= cpu) && (c.leastMemory <= 0 || c.leastMemory <= memory)
}

// hasBelow reports whether a pod of less than a priority is on the node.
func (r *room) hasBelow(priority int32) bool {
	if !r.counted {
		r.counted = true
		for _, pod := range r.store.PodsOn(r.slot) {
			if !r.some || pod.Priority < r.leastPriority {
				r.some, r.leastPriority = true, pod.Priority
			}
		}
	}
	return r.some && r.leastPriority < priority
}
