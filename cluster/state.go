package cluster

import (
	"slices"

	"hilbert.dev/hilbert/cluster/census"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/dra"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/volumes"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// Slot is the dense index of a node. It is declared beside the log of what changed, which the counts in package census follow too.
type Slot = changes.Slot

// NoSlot is the Slot of a node that is not known.
const NoSlot = changes.NoSlot

// State is the columns over slots. Store and Snapshot hold one each, so that one filter table can judge both.
type State struct {
	kinds   *resource.Table
	fits    uint64        // the table's revision that the columns fit
	gpuKind resource.Kind // in which queues count GPUs
	nodes   []*facts.Node // nil: the slot is vacant

	allocatable           [][]int64       // by Kind, then Slot
	requested             []resource.Sums // by Kind, then Slot
	scoreCPU, scoreMemory resource.Sums   // requested, as scores count it
	ports                 [][]facts.HostPort
	disks                 [][]facts.Disk
	gpus                  []topology.Free
	hasGPUs               []bool
	rows                  nodeRows
	views                 []*dra.View // of devices that drivers publish; nil: none
	reserved              []ReservationID
	attached              []*attachedRow // nil: the node says nothing of storage drivers
	volumes               *volumes.Book  // the Store's; it knows which volumes a pod has

	counts census.Counts // of pods, by node and by topology domain
	images Images

	journal journal // what is tried on the columns
	chosen  chosen  // for claims, by what is tried

	touched []changes.Revision // the Store's revision after each slot's latest change
	log     changes.Log
}

// Slots is the number of slots, vacant ones included.
func (s *State) Slots() int { return len(s.nodes) }

// Node returns the node in a slot, nil when it is vacant.
func (s *State) Node(slot Slot) *facts.Node { return s.nodes[slot] }

// Kinds is one more than the largest resource kind in use; some below it may be vacant.
func (s *State) Kinds() int { return len(s.allocatable) }

// ResourceNames counts the resources that nodes and queues name: those that have a kind, and those for which there is no room.
func (s *State) ResourceNames() (live, waiting int) { return s.kinds.Live() }

// KindName returns the name of a resource kind, empty for one that is vacant.
func (s *State) KindName(kind resource.Kind) string { return s.kinds.Name(kind) }

// Allocatable returns what pods on the node may request in sum.
func (s *State) Allocatable(slot Slot, kind resource.Kind) int64 {
	if int(kind) >= len(s.allocatable) || int(slot) >= len(s.allocatable[kind]) {
		return 0
	}
	return s.allocatable[kind][slot]
}

// Requested returns what the pods on the node request in sum, those whose binding is under way included.
func (s *State) Requested(slot Slot, kind resource.Kind) int64 {
	if int(kind) >= len(s.requested) {
		return 0
	}
	return s.requested[kind].At(int(slot))
}

// Free returns Allocatable − Requested. It is negative on a node that others over-committed.
func (s *State) Free(slot Slot, kind resource.Kind) int64 {
	if int(kind) >= len(s.allocatable) || int(slot) >= len(s.allocatable[kind]) {
		return 0
	}
	return s.allocatable[kind][slot] - s.requested[kind].At(int(slot))
}

// ScoreRequested returns the sums of cpu (millicores) and memory (bytes) that scores use.
func (s *State) ScoreRequested(slot Slot) (cpu, memory int64) {
	return s.scoreCPU.At(int(slot)), s.scoreMemory.At(int(slot))
}

// Ports returns the host ports taken on a node; the caller must not change them.
func (s *State) Ports(slot Slot) []facts.HostPort { return s.ports[slot] }

// Disks returns the volumes of pods' own specs on a node; the caller must not change them.
func (s *State) Disks(slot Slot) []facts.Disk { return s.disks[slot] }

// GPUs returns the GPU counters of a node; the caller must not change them.
func (s *State) GPUs(slot Slot) *topology.Free { return &s.gpus[slot] }

// HasGPUs reports whether a node has any. It reads a column, not the node.
func (s *State) HasGPUs(slot Slot) bool { return s.hasGPUs[slot] }

// DeviceView is what there is on a node of devices that drivers publish, for ResourceClaims.
func (s *State) DeviceView(slot Slot) *dra.View { return s.views[slot] }

// Log returns the state's change log, for readers that follow it from their own cursor.
func (s *State) Log() *changes.Log { return &s.log }

// Counts are the counts that constraints between pods read.
func (s *State) Counts() *census.Counts { return &s.counts }

// Images says which nodes have which container images.
func (s *State) Images() *Images { return &s.images }

// Touched returns the Store's revision after the slot's latest change.
func (s *State) Touched(slot Slot) changes.Revision { return s.touched[slot] }

// addSlot appends a vacant slot.
func (s *State) addSlot() Slot {
	s.nodes = append(s.nodes, nil)
	for kind := range s.allocatable {
		if s.kinds.Name(resource.Kind(kind)) != "" {
			s.allocatable[kind] = append(s.allocatable[kind], 0)
			s.requested[kind].Grow(len(s.nodes))
		}
	}
	s.scoreCPU.Grow(len(s.nodes))
	s.scoreMemory.Grow(len(s.nodes))
	s.ports = append(s.ports, nil)
	s.disks = append(s.disks, nil)
	s.gpus = append(s.gpus, topology.Free{})
	s.hasGPUs = append(s.hasGPUs, false)
	s.rows = append(s.rows, nil)
	s.views = append(s.views, nil)
	s.reserved = append(s.reserved, NoReservation)
	s.attached = append(s.attached, nil)
	s.counts.AddSlot()
	s.touched = append(s.touched, 0)
	return Slot(len(s.nodes) - 1)
}

// fitKinds gives every kind of the table a column, and takes those of vacant kinds away.
func (s *State) fitKinds() {
	if s.fits == s.kinds.Revision() {
		return
	}
	s.fits = s.kinds.Revision()
	s.addKinds()
	s.allocatable, s.requested = resized(s.allocatable, s.kinds.Len()), resized(s.requested, s.kinds.Len())
	for kind := range s.allocatable {
		if s.kinds.Name(resource.Kind(kind)) == "" {
			s.allocatable[kind], s.requested[kind] = nil, resource.Sums{}
		}
	}
}

// addKinds gives every kind of the table a column, and leaves those of vacant kinds alone.
func (s *State) addKinds() {
	n := max(len(s.allocatable), s.kinds.Len())
	s.allocatable, s.requested = resized(s.allocatable, n), resized(s.requested, n)
	for kind, column := range s.allocatable {
		if len(column) < len(s.nodes) && s.kinds.Name(resource.Kind(kind)) != "" {
			s.allocatable[kind] = make([]int64, len(s.nodes), cap(s.nodes))
			s.requested[kind].Grow(len(s.nodes))
		}
	}
}

// resized returns a list of n, which shares its beginning with another and ends with zero values; none of the rest is kept.
func resized[T any](list []T, n int) []T {
	if n < len(list) {
		clear(list[n:])
		return list[:n]
	}
	return append(list, make([]T, n-len(list))...)
}

// vacate empties a slot's columns.
func (s *State) vacate(slot Slot) {
	s.setNode(slot, nil)
	s.counts.Vacate(slot)
	for kind, column := range s.allocatable {
		if len(column) > 0 {
			column[slot] = 0
			s.requested[kind].Zero(int(slot))
		}
	}
	s.scoreCPU.Zero(int(slot))
	s.scoreMemory.Zero(int(slot))
	s.ports[slot] = nil
	s.disks[slot] = nil
	s.gpus[slot] = topology.Free{}
	s.rows[slot] = nil
	s.views[slot] = nil
	s.reserved[slot] = NoReservation
	s.attached[slot] = nil
}

// charge adds a pod of the class to the slot's sums.
func (s *State) charge(slot Slot, class *Class, held holding) {
	s.move(slot, class, 1)
	s.moveHeld(slot, class, held, 1)
	if len(class.Ports) > 0 { // copy on write: snapshots share the slice
		ports := append(slices.Clip(s.ports[slot]), class.Ports...)
		slices.SortFunc(ports, facts.HostPort.Compare) // so that the order in which pods came and went does not show
		s.ports[slot] = ports
	}
	if len(class.Disks) > 0 {
		disks := append(slices.Clip(s.disks[slot]), class.Disks...)
		slices.SortFunc(disks, facts.Disk.Compare)
		s.disks[slot] = disks
	}
}

// discharge takes a pod of the class from the slot's sums.
func (s *State) discharge(slot Slot, class *Class, held holding) {
	s.move(slot, class, -1)
	s.moveHeld(slot, class, held, -1)
	if len(class.Ports) > 0 {
		s.ports[slot] = without(s.ports[slot], class.Ports, func(a, b facts.HostPort) bool { return a == b })
	}
	if len(class.Disks) > 0 {
		s.disks[slot] = without(s.disks[slot], class.Disks, func(a, b facts.Disk) bool { return a.Compare(b) == 0 })
	}
}

// without is a copy of a list that lacks each of some elements once.
func without[T any](list, gone []T, equal func(a, b T) bool) []T {
	left := slices.Clone(list)
	for _, x := range gone {
		if i := slices.IndexFunc(left, func(y T) bool { return equal(x, y) }); i >= 0 {
			left = slices.Delete(left, i, i+1)
		}
	}
	return left
}

func (s *State) move(slot Slot, class *Class, sign int64) {
	for _, a := range class.Amounts {
		s.requested[a.Kind].Add(int(slot), sign*a.Value)
	}
	s.scoreCPU.Add(int(slot), sign*class.ScoreCPU)
	s.scoreMemory.Add(int(slot), sign*class.ScoreMemory)
}

// setNode gives a slot another node (nil: none), with all that follows from its labels and images.
func (s *State) setNode(slot Slot, node *facts.Node) {
	s.images.count(s.nodes[slot], -1)
	s.nodes[slot] = node
	s.hasGPUs[slot] = node != nil && s.Shape(slot).GPUs > 0
	s.images.count(node, 1)
	s.counts.SetNode(slot, node)
}

// note adds a change to the log.
func (s *State) note(slot Slot, kind changes.Kind) {
	s.log.Append(changes.Change{Slot: slot, Kind: kind})
	s.touched[slot] = s.log.Len()
}

// copySlot copies one slot's row from another state; kind says what may differ beyond what runs there.
func (s *State) copySlot(from *State, slot Slot, kind changes.Kind) {
	s.counts.CopyTallies(slot, from.counts.Tallies(slot))
	if kind&(changes.Redefined|changes.Reimaged) != 0 {
		s.setNode(slot, from.nodes[slot])
	}
	if kind&(changes.Redefined|changes.Reimaged|changes.Lent|changes.Recalled) != 0 {
		for kind, column := range from.allocatable {
			if len(column) > 0 {
				s.allocatable[kind][slot] = column[slot]
			}
		}
	}
	for kind := range from.requested {
		if from.requested[kind].Len() > 0 {
			s.requested[kind].Copy(int(slot), &from.requested[kind])
		}
	}
	s.scoreCPU.Copy(int(slot), &from.scoreCPU)
	s.scoreMemory.Copy(int(slot), &from.scoreMemory)
	s.ports[slot], s.disks[slot] = from.ports[slot], from.disks[slot]
	s.views[slot] = from.views[slot]
	s.gpus[slot], s.hasGPUs[slot] = from.gpus[slot], from.hasGPUs[slot]
	if s.rows[slot] != from.rows[slot] { // they are equal only if both are nil
		s.rows.copy(slot, from.rows[slot])
	}
	s.reserved[slot] = from.reserved[slot]
	s.attached[slot] = from.attached[slot]
	s.touched[slot] = from.touched[slot]
}

// agrees reports whether what runs on a slot is the same in another state. It may be false where it is: of nodes with reports, storage or devices, and of sums beyond
// all measure, it knows nothing.
func (s *State) agrees(from *State, slot Slot) bool {
	for kind := range from.requested {
		if kind >= len(s.requested) || s.requested[kind].At(int(slot)) != from.requested[kind].At(int(slot)) || from.requested[kind].At(int(slot)) >= resource.MaxSum {
			return false
		}
	}
	return s.scoreCPU.At(int(slot)) == from.scoreCPU.At(int(slot)) && s.scoreMemory.At(int(slot)) == from.scoreMemory.At(int(slot)) &&
		s.rows[slot] == nil && from.rows[slot] == nil && s.views[slot] == from.views[slot] && s.attached[slot] == from.attached[slot] &&
		s.reserved[slot] == from.reserved[slot] && s.gpus[slot] == from.gpus[slot] &&
		slices.Equal(s.ports[slot], from.ports[slot]) && len(s.disks[slot])+len(from.disks[slot]) == 0 &&
		slices.Equal(s.counts.Tallies(slot), from.counts.Tallies(slot))
}

// copyAll replaces the columns by copies of another state's.
func (s *State) copyAll(from *State) {
	s.kinds, s.fits, s.gpuKind = from.kinds, from.fits, from.gpuKind
	s.nodes = append(s.nodes[:0], from.nodes...)
	s.counts.Copy(&from.counts)
	s.images = from.images.clone()
	s.allocatable = copyColumns(s.allocatable, from.allocatable)
	s.requested = resized(s.requested, len(from.requested))
	for kind := range from.requested {
		s.requested[kind].CopyAll(&from.requested[kind])
	}
	s.scoreCPU.CopyAll(&from.scoreCPU)
	s.scoreMemory.CopyAll(&from.scoreMemory)
	s.ports = append(s.ports[:0], from.ports...)
	s.disks = append(s.disks[:0], from.disks...)
	s.views = append(s.views[:0], from.views...)
	s.gpus = append(s.gpus[:0], from.gpus...)
	s.hasGPUs = append(s.hasGPUs[:0], from.hasGPUs...)
	s.rows = append(s.rows[:0], make(nodeRows, len(from.rows))...)
	for slot, row := range from.rows {
		s.rows.copy(Slot(slot), row)
	}
	s.reserved = append(s.reserved[:0], from.reserved...)
	s.attached, s.volumes = append(s.attached[:0], from.attached...), from.volumes
	s.touched = append(s.touched[:0], from.touched...)
}

func copyColumns(to, from [][]int64) [][]int64 {
	to = resized(to, len(from))
	for i := range from {
		to[i] = append(to[i][:0], from[i]...)
	}
	return to
}

// ReservationID numbers reservations. A reserved node is closed to everybody but the unit that waits for it, and those that it lets
// through (Plan.Through): what frees there is not taken by others first.
type ReservationID int32

// NoReservation is the ID of none.
const NoReservation ReservationID = 0

// Reservation returns who has reserved a node; a node that this state does not know yet is reserved by nobody.
func (s *State) Reservation(slot Slot) ReservationID {
	if int(slot) >= len(s.reserved) {
		return NoReservation
	}
	return s.reserved[slot]
}

// Reserve closes nodes, or with NoReservation opens them.
func (s *Store) Reserve(slots []Slot, by ReservationID) {
	for _, slot := range slots {
		if s.reserved[slot] == by || s.nodes[slot] == nil {
			continue
		}
		kind := changes.Charged
		if by == NoReservation {
			kind = changes.Freed
		}
		s.reserved[slot] = by
		s.note(slot, kind)
	}
}
