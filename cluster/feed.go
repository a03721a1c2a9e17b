package cluster

import (
	"hilbert.dev/hilbert/cluster/census"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/replica"
	"hilbert.dev/hilbert/topology"
)

// FeedRows is how many rows a Delta has at most.
const FeedRows = 512

// maxFedClasses bounds the classes that a Feed remembers to have told.
const maxFedClasses = 4096

// Feed is one reader of the ledger's log, for a Replica elsewhere. Next makes the Delta that the Replica has to take in next; each must reach it, in order.
//
// A Feed that begins, or that the log does not cover any more, copies slot after slot while the ledger moves on. After that come the slots that have changed meanwhile, and then those that change.
type Feed struct {
	begun       bool
	copied      Slot // all slots below were told
	cursor      changes.Revision
	kinds       uint64
	definitions census.DefinitionReader
	told        []toldRow
	classes     map[ClassID]bool
	at          map[Slot]int // in the Delta that is being made
}

// toldRow is what a row was last, of what is large and mostly stays.
type toldRow struct {
	node   *facts.Node
	report *facts.NodeReport
	shape  topology.Shape
}

// Behind is how many changes the Replica lies behind; a Feed that has to begin anew lies behind by all that the log remembers.
func (f *Feed) Behind(s *Store) int {
	if !f.begun || !s.log.Covers(f.cursor) {
		return changes.Capacity
	}
	return int(s.log.Len()-f.cursor) + s.Slots() - int(f.copied)
}

// Next makes the next Delta.
func (f *Feed) Next(s *Store) *replica.Delta {
	d := &replica.Delta{}
	if !f.begun || !s.log.Covers(f.cursor) {
		*f = Feed{begun: true, cursor: s.log.Len(), classes: make(map[ClassID]bool), at: make(map[Slot]int)}
		d.Start = true
	}
	d.Slots, d.GPUKind = int32(s.Slots()), s.gpuKind
	for len(f.told) < s.Slots() {
		f.told = append(f.told, toldRow{})
	}
	if f.kinds != s.kinds.Revision() {
		f.kinds, d.Kinds = s.kinds.Revision(), s.kinds.Names()
	}
	d.Definitions = s.classes.registry.Definitions(&f.definitions)
	for ; int(f.copied) < s.Slots() && len(d.Rows) < FeedRows; f.copied++ {
		if s.nodes[f.copied] != nil {
			d.Rows = append(d.Rows, replica.Row{Slot: int32(f.copied), Kind: uint8(changes.Redefined | changes.Freed | changes.Charged)})
		}
	}
	clear(f.at)
	for i := range d.Rows {
		f.at[Slot(d.Rows[i].Slot)] = i
	}
	for ; int(f.copied) == s.Slots() && f.cursor < s.log.Len(); f.cursor++ {
		change := s.log.At(f.cursor)
		if _, known := f.at[change.Slot]; !known {
			if len(d.Rows) >= FeedRows {
				break
			}
			f.at[change.Slot] = len(d.Rows)
			d.Rows = append(d.Rows, replica.Row{Slot: int32(change.Slot)})
		}
		d.Rows[f.at[change.Slot]].Kind |= uint8(change.Kind)
	}
	for i := range d.Rows {
		f.fill(s, &d.Rows[i])
	}
	d.More, d.Revision = int(f.copied) < s.Slots() || f.cursor < s.log.Len(), uint64(f.cursor)
	return d
}

// fill says what a slot is now.
func (f *Feed) fill(s *Store, r *replica.Row) {
	slot, kind := Slot(r.Slot), changes.Kind(r.Kind)
	told, node := &f.told[slot], s.nodes[slot]
	if node == nil {
		*told, r.Vacant = toldRow{}, true
		return
	}
	r.Ports, r.Disks, r.Reserved = s.ports[slot], s.disks[slot], int32(s.reserved[slot])
	r.ScoreCPU, r.ScoreMemory = s.ScoreRequested(slot)
	if told.node != node {
		told.node, r.Node = node, node
	}
	redefined := r.Node != nil || kind&(changes.Redefined|changes.Reimaged|changes.Lent|changes.Recalled) != 0
	r.Requested = make([]int64, len(s.requested))
	if redefined {
		r.Allocatable = make([]int64, len(s.allocatable))
	}
	for k := range s.requested {
		r.Requested[k] = s.requested[k].At(int(slot))
		if redefined && len(s.allocatable[k]) > 0 {
			r.Allocatable[k] = s.allocatable[k][slot]
		}
	}
	if s.hasGPUs[slot] || s.gpus[slot] != (topology.Free{}) {
		free := s.gpus[slot]
		r.GPUs = &free
	}
	for _, t := range s.counts.Tallies(slot) {
		r.Tallies = append(r.Tallies, int32(t.ID), t.Count)
	}
	r.Beyond = told.beyond(s.rows[slot])
}

func (t *toldRow) beyond(row *nodeRow) *replica.Beyond {
	if row == nil {
		t.report, t.shape = nil, topology.Shape{}
		return nil
	}
	b := &replica.Beyond{NUMANodes: row.numaNodes, Brought: row.brought, CoveredCPU: row.covered.cpu, CoveredMemory: row.covered.memory}
	switch row.report {
	case nil:
	case t.report:
		b.SameReport = true
	default:
		r := row.report
		b.Report = &facts.NodeReport{NUMANodes: r.NUMANodes, Devices: r.Devices, Why: r.Why, Headroom: r.Headroom, Usage: r.Usage}
	}
	t.report = row.report
	if row.resources != nil {
		free := *row.resources
		b.Resources = &free
	}
	shape := topology.Shape{}
	if row.devices != nil {
		free := *row.devices
		b.Devices, shape = &free, row.shape
		if b.SameShape = shape == t.shape; !b.SameShape {
			b.Shape = &shape
		}
	}
	t.shape = shape
	return b
}

// Copies reports whether a Replica can judge pods of a class: their place depends on no volumes, claims or pods elsewhere, soft spread constraints apart.
func Copies(c *Class) bool {
	return c.Volumes == nil && c.Claims == nil && !c.private && c.Constraints.OnlySpreadsSoftly()
}

// Pod is a pod for the Replica; its class must be one that it Copies. Its class is added to the Delta unless it was told before.
func (f *Feed) Pod(d *replica.Delta, pod *Pod) replica.Pod {
	c := pod.Class
	if !f.classes[c.ID] {
		if len(f.classes) >= maxFedClasses && !d.ForgetClasses {
			d.ForgetClasses = true
			clear(f.classes)
			for i := range d.Classes {
				f.classes[ClassID(d.Classes[i].ID)] = true
			}
		}
		f.classes[c.ID] = true
		d.Classes = append(d.Classes, c.wire())
	}
	p := replica.Pod{UID: pod.UID, Class: uint32(c.ID), Counted: pod.identity.Counted}
	if !pod.Deleting && len(pod.identity.CountedLive) > 0 {
		p.Counted = append(append([]census.TallyID(nil), p.Counted...), pod.identity.CountedLive...)
	}
	return p
}

func (c *Class) wire() replica.Class {
	w := replica.Class{
		ID: uint32(c.ID), Requirements: c.Requirements, Amounts: c.Amounts, Absent: c.Absent, Reclaims: c.request.reclaims, Carries: c.request.carries, Constrained: c.Constraints != nil,
	}
	if c.Constraints == nil {
		return w
	}
	for i := range c.Constraints.Soft {
		soft := &c.Constraints.Soft[i]
		at := 0
		for at < len(c.Spread) && &c.Spread[at] != soft.SpreadConstraint {
			at++
		}
		w.Spread = append(w.Spread, replica.Spread{At: at, Self: soft.Self, Key: soft.Key, Tally: soft.Tally, Census: soft.Census})
	}
	return w
}
