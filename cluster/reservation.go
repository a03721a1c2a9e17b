package cluster

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

// Ease says that a queue has more to give than before, though nothing was freed: who waits for it looks again.
func (s *Store) Ease(q *Queue) {
	s.easings++
	q.eased = s.easings
	s.touchQueue(q)
}

// open opens the nodes of a reservation for the time of a judgement, and returns them; shut closes them again.
func (s *Store) open(by ReservationID) (opened []Slot) {
	if by == NoReservation {
		return nil
	}
	for i, other := range s.reserved {
		if other == by {
			s.reserved[i] = NoReservation
			opened = append(opened, Slot(i))
		}
	}
	return opened
}

func (s *Store) shut(by ReservationID, opened []Slot) {
	for _, slot := range opened {
		s.reserved[slot] = by
	}
}
