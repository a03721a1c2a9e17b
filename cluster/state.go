package cluster

import (
	"maps"
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// Slot is the dense index of a node.
type Slot int32

// NoSlot is the Slot of a node that is not known.
const NoSlot Slot = -1

// State is the columns over slots. Store and Snapshot hold one each, so that one filter table can judge both.
type State struct {
	kinds *resource.Table
	nodes []*facts.Node // nil: the slot is vacant

	allocatable, requested [][]int64 // by Kind, then Slot
	scoreCPU, scoreMemory  []int64   // requested, as scores count it
	ports                  [][]facts.HostPort
	gpus                   []topology.Free
	hasGPUs                []bool
	rows                   []*nodeRow // nil: nothing was ever said or granted
	reserved               []ReservationID

	registry *registry
	tallies  [][]Tally // by slot, sorted by ID
	domains  []*domainColumn
	censuses []*Census
	holders  []*Holders // by tally, nil where nobody asks
	learned  uint64     // the registry's generation that censuses reflect

	images    map[string]imageCount
	inhabited int

	touched []Revision // the Store's revision after each slot's latest change
	log     Log
}

// Slots is the number of slots, vacant ones included.
func (s *State) Slots() int { return len(s.nodes) }

// Node returns the node in a slot, nil when it is vacant.
func (s *State) Node(slot Slot) *facts.Node { return s.nodes[slot] }

// Kinds is the number of resource kinds known.
func (s *State) Kinds() int { return len(s.allocatable) }

// KindName returns the name of a resource kind.
func (s *State) KindName(kind resource.Kind) string { return s.kinds.Name(kind) }

// Allocatable returns what pods on the node may request in sum.
func (s *State) Allocatable(slot Slot, kind resource.Kind) int64 {
	if int(kind) >= len(s.allocatable) {
		return 0
	}
	return s.allocatable[kind][slot]
}

// Requested returns what the pods on the node request in sum, those whose binding is under way included.
func (s *State) Requested(slot Slot, kind resource.Kind) int64 {
	if int(kind) >= len(s.requested) {
		return 0
	}
	return s.requested[kind][slot]
}

// Free returns Allocatable − Requested. It is negative on a node that others over-committed.
func (s *State) Free(slot Slot, kind resource.Kind) int64 {
	if int(kind) >= len(s.allocatable) {
		return 0
	}
	return s.allocatable[kind][slot] - s.requested[kind][slot]
}

// ScoreRequested returns the sums of cpu (millicores) and memory (bytes) that scores use.
func (s *State) ScoreRequested(slot Slot) (cpu, memory int64) {
	return s.scoreCPU[slot], s.scoreMemory[slot]
}

// Ports returns the host ports taken on a node; the caller must not change them.
func (s *State) Ports(slot Slot) []facts.HostPort { return s.ports[slot] }

// GPUs returns the GPU counters of a node; the caller must not change them.
func (s *State) GPUs(slot Slot) *topology.Free { return &s.gpus[slot] }

// HasGPUs reports whether a node has any. It reads a column, not the node.
func (s *State) HasGPUs(slot Slot) bool { return s.hasGPUs[slot] }

// Log returns the state's change log, for readers that follow it from their own cursor.
func (s *State) Log() *Log { return &s.log }

// Touched returns the Store's revision after the slot's latest change.
func (s *State) Touched(slot Slot) Revision { return s.touched[slot] }

// addSlot appends a vacant slot.
func (s *State) addSlot() Slot {
	s.nodes = append(s.nodes, nil)
	for kind := range s.allocatable {
		s.allocatable[kind] = append(s.allocatable[kind], 0)
		s.requested[kind] = append(s.requested[kind], 0)
	}
	s.scoreCPU = append(s.scoreCPU, 0)
	s.scoreMemory = append(s.scoreMemory, 0)
	s.ports = append(s.ports, nil)
	s.gpus = append(s.gpus, topology.Free{})
	s.hasGPUs = append(s.hasGPUs, false)
	s.rows = append(s.rows, nil)
	s.reserved = append(s.reserved, NoReservation)
	s.tallies = append(s.tallies, nil)
	for _, column := range s.domains {
		column.grow()
	}
	for _, c := range s.censuses {
		if c != nil {
			c.eligible = append(c.eligible, false)
		}
	}
	s.touched = append(s.touched, 0)
	return Slot(len(s.nodes) - 1)
}

// growKinds adds columns until every kind of the table has one.
func (s *State) growKinds() {
	for len(s.allocatable) < s.kinds.Len() {
		s.allocatable = append(s.allocatable, make([]int64, len(s.nodes), cap(s.nodes)))
		s.requested = append(s.requested, make([]int64, len(s.nodes), cap(s.nodes)))
	}
}

// vacate empties a slot's columns.
func (s *State) vacate(slot Slot) {
	s.setNode(slot, nil)
	for _, t := range s.tallies[slot] {
		s.held(slot, t.ID, 0)
	}
	s.tallies[slot] = s.tallies[slot][:0]
	for kind := range s.allocatable {
		s.allocatable[kind][slot] = 0
		s.requested[kind][slot] = 0
	}
	s.scoreCPU[slot], s.scoreMemory[slot] = 0, 0
	s.ports[slot] = nil
	s.gpus[slot] = topology.Free{}
	s.rows[slot] = nil
	s.reserved[slot] = NoReservation
}

// charge adds a pod of the class to the slot's sums.
func (s *State) charge(slot Slot, class *Class, held holding) {
	s.move(slot, class, 1)
	s.moveHeld(slot, class, held, 1)
	if len(class.Ports) > 0 { // copy on write: snapshots share the slice
		s.ports[slot] = append(slices.Clip(s.ports[slot]), class.Ports...)
	}
}

// discharge takes a pod of the class from the slot's sums.
func (s *State) discharge(slot Slot, class *Class, held holding) {
	s.move(slot, class, -1)
	s.moveHeld(slot, class, held, -1)
	if len(class.Ports) == 0 {
		return
	}
	left := slices.Clone(s.ports[slot])
	for _, port := range class.Ports {
		if i := slices.Index(left, port); i >= 0 {
			left = slices.Delete(left, i, i+1)
		}
	}
	s.ports[slot] = left
}

func (s *State) move(slot Slot, class *Class, sign int64) {
	for _, a := range class.Amounts {
		s.requested[a.Kind][slot] += sign * a.Value
	}
	s.scoreCPU[slot] += sign * class.ScoreCPU
	s.scoreMemory[slot] += sign * class.ScoreMemory
}

// copySlot copies one slot's row from another state; kind says what may differ beyond what runs there.
func (s *State) copySlot(from *State, slot Slot, kind ChangeKind) {
	s.copyTallies(slot, from.tallies[slot])
	if kind&(Redefined|Reimaged) != 0 {
		s.setNode(slot, from.nodes[slot])
	}
	if kind&(Redefined|Reimaged|Lent|Recalled) != 0 {
		for kind := range from.allocatable {
			s.allocatable[kind][slot] = from.allocatable[kind][slot]
		}
	}
	for kind := range from.requested {
		s.requested[kind][slot] = from.requested[kind][slot]
	}
	s.scoreCPU[slot], s.scoreMemory[slot] = from.scoreCPU[slot], from.scoreMemory[slot]
	s.ports[slot] = from.ports[slot]
	s.gpus[slot], s.hasGPUs[slot] = from.gpus[slot], from.hasGPUs[slot]
	if s.rows[slot] != from.rows[slot] { // they are equal only if both are nil
		s.copyRow(slot, from.rows[slot])
	}
	s.reserved[slot] = from.reserved[slot]
	s.touched[slot] = from.touched[slot]
}

// copyAll replaces the columns by copies of another state's.
func (s *State) copyAll(from *State) {
	s.kinds, s.registry = from.kinds, from.registry
	s.copyNodes(from)
	s.allocatable = copyColumns(s.allocatable, from.allocatable)
	s.requested = copyColumns(s.requested, from.requested)
	s.scoreCPU = append(s.scoreCPU[:0], from.scoreCPU...)
	s.scoreMemory = append(s.scoreMemory[:0], from.scoreMemory...)
	s.ports = append(s.ports[:0], from.ports...)
	s.gpus = append(s.gpus[:0], from.gpus...)
	s.hasGPUs = append(s.hasGPUs[:0], from.hasGPUs...)
	s.rows = append(s.rows[:0], make([]*nodeRow, len(from.rows))...)
	for slot, row := range from.rows {
		s.copyRow(Slot(slot), row)
	}
	s.reserved = append(s.reserved[:0], from.reserved...)
	s.touched = append(s.touched[:0], from.touched...)
}

// copyNodes replaces the nodes and all that is derived from their labels and pods.
func (s *State) copyNodes(from *State) {
	s.nodes = append(s.nodes[:0], from.nodes...)
	s.tallies = s.tallies[:0]
	for _, row := range from.tallies {
		s.tallies = append(s.tallies, slices.Clone(row))
	}
	s.images, s.inhabited = maps.Clone(from.images), from.inhabited
	s.domains, s.censuses, s.holders, s.learned = nil, nil, nil, 0
	s.learn()
}

func copyColumns(to, from [][]int64) [][]int64 {
	for len(to) < len(from) {
		to = append(to, nil)
	}
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
		kind := Charged
		if by == NoReservation {
			kind = Freed
		}
		s.reserved[slot] = by
		s.note(slot, kind)
	}
}
