package cluster

// Holders are the slots on which a tally is above zero, for readers to whom all other nodes are alike.
type Holders struct {
	def   *tally
	slots []Slot
	at    map[Slot]int32
}

// Slots lists them, in no particular order; the caller must not change the slice.
func (h *Holders) Slots() []Slot { return h.slots }

// set says whether a slot holds any.
func (h *Holders) set(slot Slot, holds bool) {
	at, held := h.at[slot]
	switch {
	case holds && !held:
		h.at[slot] = int32(len(h.slots))
		h.slots = append(h.slots, slot)
	case !holds && held:
		last := h.slots[len(h.slots)-1]
		h.slots[at] = last
		h.at[last] = at
		h.slots = h.slots[:len(h.slots)-1]
		delete(h.at, slot)
	}
}

// Holders returns the slots that hold pods of a tally which a soft spread constraint counts on the node itself.
func (s *State) Holders(id TallyID) *Holders { return s.holders[id] }

// lists reports whether this state keeps the holders of a tally, as it is defined now.
func (s *State) lists(id TallyID) bool {
	return int(id) < len(s.holders) && s.holders[id] != nil && s.holders[id].def == s.registry.tallies[id]
}

// held takes note of a slot's new count.
func (s *State) held(slot Slot, id TallyID, count int32) {
	if s.lists(id) {
		s.holders[id].set(slot, count > 0)
	}
}

// learnHolders builds the lists that classes ask for and this state does not have yet.
func (s *State) learnHolders() {
	for len(s.holders) < len(s.registry.tallies) {
		s.holders = append(s.holders, nil)
	}
	for id, def := range s.registry.tallies {
		switch {
		case def == nil || def.listed == 0:
			s.holders[id] = nil
		case s.holders[id] == nil || s.holders[id].def != def:
			h := &Holders{def: def, at: make(map[Slot]int32)}
			for slot := range s.nodes {
				if s.TallyAt(Slot(slot), TallyID(id)) > 0 {
					h.set(Slot(slot), true)
				}
			}
			s.holders[id] = h
		}
	}
}
