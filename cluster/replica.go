package cluster

import (
	"errors"
	"fmt"
	"slices"

	"hilbert.dev/hilbert/cluster/census"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/replica"
	"hilbert.dev/hilbert/cluster/volumes"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// maxReplicaSlots bounds the nodes of a Replica, maxReplicaPods the pods that count on one of them: lists are as long.
const (
	maxReplicaSlots = 1 << 22
	maxReplicaPods  = 1 << 14
)

// Replica is a Snapshot of a ledger in another process: it follows a Feed. What was assumed on it lasts until the next Delta, and as in an optimistic Snapshot no index evaluates again what came true.
//
// It knows nothing of volumes and of the devices of ResourceClaims. After an error it is of no use.
type Replica struct {
	snapshot Snapshot
	classes  map[uint32]*Class
	complete bool
	begun    bool
}

// NewReplica returns an empty Replica. Its first Delta must be one that starts, and no later one may be: another Replica is for that.
func NewReplica() *Replica {
	return &Replica{
		snapshot: Snapshot{State: State{
			amountColumns: amountColumns{kinds: resource.NewTable()}, attachedColumn: attachedColumn{volumes: volumes.New()},
			counts: census.NewCounts(census.NewRegistry()), images: census.NewImages(),
		}},
		classes: make(map[uint32]*Class),
	}
}

// Snapshot is what is known. Nothing may be decided on it unless it is Complete.
func (r *Replica) Snapshot() *Snapshot { return &r.snapshot }

// Complete reports whether all rows are of one revision.
func (r *Replica) Complete() bool { return r.complete }

// Take takes in a Delta. What it says is checked as far as else something would be read that is not there.
func (r *Replica) Take(d *replica.Delta) error {
	if d.Start == r.begun {
		return errors.New("a Delta starts anew, or the first does not")
	}
	r.begun, r.complete = true, false
	s := &r.snapshot
	if int(d.Slots) < s.Slots() || d.Slots > maxReplicaSlots {
		return fmt.Errorf("%d slots after %d; they become more, and are %d at most", d.Slots, s.Slots(), maxReplicaSlots)
	}
	if err := r.define(d); err != nil {
		return err
	}
	for s.Slots() < int(d.Slots) {
		s.addSlot()
	}
	for i := range d.Rows {
		if err := r.checkRow(&d.Rows[i]); err != nil {
			return fmt.Errorf("slot %d: %w", d.Rows[i].Slot, err)
		}
	}
	agreed := r.undo(d.Rows)
	for i := range d.Rows {
		if row := &d.Rows[i]; !agreed[row.Slot] {
			r.set(row)
			s.log.Append(changes.Change{Slot: Slot(row.Slot), Kind: changes.Kind(row.Kind)})
		}
	}
	s.counts.Learn()
	for i := range d.Classes {
		class, err := r.class(&d.Classes[i])
		if err != nil {
			return fmt.Errorf("class %d: %w", d.Classes[i].ID, err)
		}
		r.classes[d.Classes[i].ID] = class
	}
	r.complete, s.revision = !d.More, changes.Revision(d.Revision)
	return nil
}

// define takes in what rows and classes name by number.
func (r *Replica) define(d *replica.Delta) error {
	s := &r.snapshot
	if d.Kinds != nil {
		if err := s.kinds.Mirror(d.Kinds); err != nil {
			return err
		}
	}
	s.fitKinds()
	if d.GPUKind < 0 || int(d.GPUKind) >= s.kinds.Len() {
		return fmt.Errorf("GPUs are counted in kind %d, which there is not", d.GPUKind)
	}
	s.gpuKind = d.GPUKind
	if d.Definitions != nil {
		if err := s.counts.Registry().Mirror(d.Definitions); err != nil {
			return err
		}
	}
	if d.ForgetClasses {
		clear(r.classes)
	}
	return nil
}

// checkRow says what is wrong with a row.
func (r *Replica) checkRow(row *replica.Row) error {
	s := &r.snapshot
	if row.Slot < 0 || int(row.Slot) >= s.Slots() {
		return fmt.Errorf("there are %d slots", s.Slots())
	}
	if row.Vacant {
		return nil
	}
	if row.Node == nil && s.nodes[row.Slot] == nil {
		return errors.New("nothing is said of its node, and it had none")
	}
	if len(row.Requested) != len(s.requested) || row.Allocatable != nil && len(row.Allocatable) != len(s.allocatable) {
		return fmt.Errorf("amounts of %d and %d resources, there are %d", len(row.Requested), len(row.Allocatable), len(s.requested))
	}
	if err := r.checkTallies(row.Tallies); err != nil {
		return err
	}
	if row.Node != nil {
		if err := checkShape(&row.Node.GPU); err != nil {
			return err
		}
	}
	return checkBeyond(row.Beyond, s.rows[row.Slot])
}

func (r *Replica) checkTallies(list []int32) error {
	s := &r.snapshot
	if len(list)%2 != 0 {
		return errors.New("a tally without a count")
	}
	last := int32(-1)
	for i := 0; i < len(list); i += 2 {
		if id := list[i]; id <= last || !s.counts.Registry().Numbers(census.TallyID(id)) {
			return fmt.Errorf("tally %d is not defined, or comes after %d", id, last)
		}
		if n := list[i+1]; n < 1 || n > maxReplicaPods {
			return fmt.Errorf("%d pods count in tally %d; want 1 to %d", n, list[i], maxReplicaPods)
		}
		last = list[i]
	}
	return nil
}

func checkBeyond(b *replica.Beyond, before *nodeRow) error {
	switch {
	case b == nil:
		return nil
	case b.SameReport && (before == nil || before.report == nil) || b.SameShape && (before == nil || before.devices == nil):
		return errors.New("its report is as before, and it had none")
	case (b.Devices != nil) != (b.Shape != nil || b.SameShape):
		return errors.New("it has devices without a shape, or a shape without devices")
	case b.Shape != nil && b.Shape.Devices == nil:
		return errors.New("its shape has no devices")
	}
	if err := checkBrought(b.Brought, b.Resources != nil); err != nil {
		return err
	}
	if b.Report != nil {
		if n := b.Report.NUMANodes.NUMANodes; n > topology.MaxNUMANodes {
			return fmt.Errorf("%d NUMA nodes; at most %d can be told apart", n, topology.MaxNUMANodes)
		}
		if err := checkDevices(b.Report.Devices); err != nil {
			return err
		}
	}
	if b.Shape != nil {
		return checkShape(b.Shape)
	}
	return nil
}

func checkBrought(list []topology.Resource, left bool) error {
	switch n := len(list); {
	case n > topology.MaxResources:
		return fmt.Errorf("%d resources of plugins; at most %d are counted by NUMA node", n, topology.MaxResources)
	case left != (n > 0):
		return errors.New("resources of plugins without what is left of them, or the other way round")
	case !topology.SortedResources(list):
		return errors.New("resources of plugins are not sorted by name, or one stands twice")
	}
	return nil
}

func checkShape(s *topology.Shape) error {
	if s.GPUs < 0 || s.GPUs > topology.MaxGPUs {
		return fmt.Errorf("%d GPUs; at most %d can be told apart", s.GPUs, topology.MaxGPUs)
	}
	return checkDevices(s.Devices)
}

func checkDevices(d *topology.Devices) error {
	if d == nil {
		return nil
	}
	return d.Check()
}

// undo takes back what was assumed, but on slots where it came true just so; these it returns.
func (r *Replica) undo(rows []replica.Row) map[int32]bool {
	s := &r.snapshot
	if len(s.journal) == 0 {
		return nil
	}
	assumed := make(map[Slot]bool, len(s.journal))
	for i := range s.journal {
		assumed[s.journal[i].slot] = true
	}
	agreed := make(map[int32]bool, len(assumed))
	for i := range rows {
		if slot := Slot(rows[i].Slot); assumed[slot] && r.is(&rows[i]) {
			agreed[rows[i].Slot] = true
		}
	}
	for i := len(s.journal) - 1; i >= 0; i-- {
		if e := &s.journal[i]; !agreed[int32(e.slot)] {
			e.apply(&s.State, -1)
		}
		s.journal[i] = trialEntry{}
	}
	s.journal = s.journal[:0]
	s.chosen.forget()
	return agreed
}

// is reports whether a slot is as a row says. It may be false where it is.
func (r *Replica) is(row *replica.Row) bool {
	s := &r.snapshot
	slot := Slot(row.Slot)
	if changes.Kind(row.Kind)&^(changes.Freed|changes.Charged|changes.Recounted) != 0 || row.Vacant || row.Node != nil || row.Allocatable != nil || row.Beyond != nil || row.GPUs != nil ||
		s.rows[slot] != nil || s.gpus[slot] != (topology.Free{}) || len(row.Disks)+len(s.disks[slot]) > 0 || ReservationID(row.Reserved) != s.reserved[slot] || !slices.Equal(row.Ports, s.ports[slot]) {
		return false
	}
	for kind, sum := range row.Requested {
		if s.requested[kind].At(int(slot)) != sum || sum >= resource.MaxSum {
			return false
		}
	}
	if cpu, memory := s.ScoreRequested(slot); cpu != row.ScoreCPU || memory != row.ScoreMemory {
		return false
	}
	tallies := s.counts.Tallies(slot)
	if 2*len(tallies) != len(row.Tallies) {
		return false
	}
	for i, t := range tallies {
		if int32(t.ID) != row.Tallies[2*i] || t.Count != row.Tallies[2*i+1] {
			return false
		}
	}
	return true
}

// set makes a slot what a row says.
func (r *Replica) set(row *replica.Row) {
	s := &r.snapshot
	slot := Slot(row.Slot)
	if row.Vacant {
		s.vacate(slot)
		return
	}
	tallies := make([]census.Tally, len(row.Tallies)/2)
	for i := range tallies {
		tallies[i] = census.Tally{ID: census.TallyID(row.Tallies[2*i]), Count: row.Tallies[2*i+1]}
	}
	s.counts.CopyTallies(slot, tallies)
	r.setBeyond(slot, row.Beyond)
	if row.Node != nil {
		s.setNode(slot, row.Node)
	}
	s.hasGPUs[slot] = s.Shape(slot).GPUs > 0
	for kind, amount := range row.Allocatable {
		if len(s.allocatable[kind]) > 0 {
			s.allocatable[kind][slot] = amount
		}
	}
	for kind, sum := range row.Requested {
		if s.requested[kind].Len() > 0 {
			setSum(&s.requested[kind], slot, sum)
		}
	}
	setSum(&s.scoreCPU, slot, row.ScoreCPU)
	setSum(&s.scoreMemory, slot, row.ScoreMemory)
	s.ports[slot], s.disks[slot] = row.Ports, row.Disks
	s.gpus[slot] = topology.Free{}
	if row.GPUs != nil {
		s.gpus[slot] = *row.GPUs
	}
	s.reserved[slot] = ReservationID(row.Reserved)
}

func setSum(column *resource.Sums, slot Slot, sum int64) {
	column.Zero(int(slot))
	column.Add(int(slot), sum)
}

func (r *Replica) setBeyond(slot Slot, b *replica.Beyond) {
	s := &r.snapshot
	if b == nil {
		s.rows[slot] = nil
		return
	}
	row := s.rows.get(slot)
	row.numaNodes, row.covered = b.NUMANodes, amounts{b.CoveredCPU, b.CoveredMemory}
	if !b.SameReport {
		row.report = b.Report
	}
	row.brought, row.resources = b.Brought, b.Resources
	switch {
	case b.Devices == nil:
		row.devices, row.shape = nil, topology.Shape{}
	case b.Shape != nil:
		row.devices, row.shape = b.Devices, *b.Shape
	default:
		row.devices = b.Devices
	}
}

// class makes a class of what a Delta says of it.
func (r *Replica) class(w *replica.Class) (*Class, error) {
	s := &r.snapshot
	if w.Requirements == nil {
		return nil, errors.New("it has no requirements")
	}
	for i, a := range w.Amounts {
		if a.Kind < 0 || int(a.Kind) >= s.Kinds() || i > 0 && a.Kind <= w.Amounts[i-1].Kind {
			return nil, fmt.Errorf("it asks for kind %d, which there is not, or which comes too late", a.Kind)
		}
	}
	for _, a := range w.Reclaims {
		if a.Kind < 0 || int(a.Kind) >= s.Kinds() && a.Value != 0 {
			return nil, fmt.Errorf("it asks for kind %d, which there is not", a.Kind)
		}
	}
	for _, t := range w.Carries {
		if !s.counts.Registry().Numbers(t) {
			return nil, fmt.Errorf("tally %d is not defined", t)
		}
	}
	q := &request{Requirements: w.Requirements, amounts: w.Amounts, carries: w.Carries, reclaims: w.Reclaims}
	for _, a := range w.Reclaims {
		q.asksReclaimed = q.asksReclaimed || a.Value != 0
	}
	c := &Class{Requirements: w.Requirements, ID: ClassID(w.ID), Amounts: w.Amounts, Absent: w.Absent, request: q}
	if !w.Constrained {
		return c, nil
	}
	soft := make([]census.Spread, len(w.Spread))
	for i, x := range w.Spread {
		if x.At < 0 || x.At >= len(w.Requirements.Spread) {
			return nil, fmt.Errorf("it has %d spread constraints, and number %d is named", len(w.Requirements.Spread), x.At)
		}
		soft[i] = census.Spread{SpreadConstraint: &w.Requirements.Spread[x.At], Self: x.Self, Key: x.Key, Tally: x.Tally, Census: x.Census}
	}
	var err error
	c.Constraints, err = s.counts.Registry().MirrorSoft(soft)
	return c, err
}

// Pod makes a pod of what is said of it.
func (r *Replica) Pod(w *replica.Pod) (*Pod, error) {
	class := r.classes[w.Class]
	if class == nil {
		return nil, fmt.Errorf("pod %s is of class %d, which was not told", w.UID, w.Class)
	}
	for _, t := range w.Counted {
		if !r.snapshot.counts.Registry().Numbers(t) {
			return nil, fmt.Errorf("pod %s counts in tally %d, which is not defined", w.UID, t)
		}
	}
	return &Pod{UID: w.UID, Class: class, slot: NoSlot, identity: &identity{Matches: census.Matches{Counted: w.Counted}}}, nil
}
