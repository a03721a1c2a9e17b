package cluster

import (
	"slices"

	"hilbert.dev/hilbert/cluster/census"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/dra"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/topology"
)

// Slot is the dense index of a node. It is declared beside the log of what changed, which the counts in package census follow too.
type Slot = changes.Slot

// NoSlot is the Slot of a node that is not known.
const NoSlot = changes.NoSlot

// State is the columns over slots. Store and Snapshot hold one each, so that one filter table can judge both.
type State struct {
	amountColumns
	deviceColumns
	attachedColumn
	trials

	nodes    []*facts.Node // nil: the slot is vacant
	ports    [][]facts.HostPort
	disks    [][]facts.Disk
	views    []*dra.View // of devices that drivers publish; nil: none
	reserved []ReservationID

	counts census.Counts // of pods, by node and by topology domain
	images census.Images

	touched []changes.Revision // the Store's revision after each slot's latest change
	log     changes.Log
}

// Slots is the number of slots, vacant ones included.
func (s *State) Slots() int { return len(s.nodes) }

// Node returns the node in a slot, nil when it is vacant.
func (s *State) Node(slot Slot) *facts.Node { return s.nodes[slot] }

// Ports returns the host ports taken on a node; the caller must not change them.
func (s *State) Ports(slot Slot) []facts.HostPort { return s.ports[slot] }

// Disks returns the volumes of pods' own specs on a node; the caller must not change them.
func (s *State) Disks(slot Slot) []facts.Disk { return s.disks[slot] }

// DeviceView is what there is on a node of devices that drivers publish, for ResourceClaims.
func (s *State) DeviceView(slot Slot) *dra.View { return s.views[slot] }

// Log returns the state's change log, for readers that follow it from their own cursor.
func (s *State) Log() *changes.Log { return &s.log }

// Counts are the counts that constraints between pods read.
func (s *State) Counts() *census.Counts { return &s.counts }

// Images says which nodes have which container images.
func (s *State) Images() *census.Images { return &s.images }

// Touched returns the Store's revision after the slot's latest change.
func (s *State) Touched(slot Slot) changes.Revision { return s.touched[slot] }

// addSlot appends a vacant slot.
func (s *State) addSlot() Slot {
	s.nodes = append(s.nodes, nil)
	s.grow(len(s.nodes))
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

// fitKinds brings the columns of amounts in line with the kinds that there are.
func (s *State) fitKinds() { s.fit(len(s.nodes), cap(s.nodes)) }

// vacate empties a slot's columns.
func (s *State) vacate(slot Slot) {
	s.setNode(slot, nil)
	s.counts.Vacate(slot)
	s.zero(slot)
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

// setNode gives a slot another node (nil: none), with all that follows from its labels and images.
func (s *State) setNode(slot Slot, node *facts.Node) {
	s.images.Count(s.nodes[slot], -1)
	s.nodes[slot] = node
	s.hasGPUs[slot] = node != nil && s.Shape(slot).GPUs > 0
	s.images.Count(node, 1)
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
	s.amountColumns.copySlot(&from.amountColumns, slot, kind)
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
	return s.amountColumns.agrees(&from.amountColumns, slot) &&
		s.rows[slot] == nil && from.rows[slot] == nil && s.views[slot] == from.views[slot] && s.attached[slot] == from.attached[slot] &&
		s.reserved[slot] == from.reserved[slot] && s.gpus[slot] == from.gpus[slot] &&
		slices.Equal(s.ports[slot], from.ports[slot]) && len(s.disks[slot])+len(from.disks[slot]) == 0 &&
		slices.Equal(s.counts.Tallies(slot), from.counts.Tallies(slot))
}

// copyAll replaces the columns by copies of another state's.
func (s *State) copyAll(from *State) {
	s.amountColumns.copyAll(&from.amountColumns)
	s.nodes = append(s.nodes[:0], from.nodes...)
	s.counts.Copy(&from.counts)
	s.images = from.images.Clone()
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
