package census

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

// Holders returns the slots that hold pods of a tally which a soft spread constraint counts on the node itself. They are listed when they are
// first asked for.
func (c *Counts) Holders(id TallyID) *Holders {
	if c.lists(id) {
		return c.holders[id]
	}
	for len(c.holders) <= int(id) {
		c.holders = append(c.holders, nil)
	}
	h := &Holders{def: c.registry.tallies.list[id], at: make(map[Slot]int32)}
	for slot := range c.nodes {
		if c.Tally(Slot(slot), id) > 0 {
			h.set(Slot(slot), true)
		}
	}
	c.holders[id] = h
	return h
}

// lists reports whether this state keeps the holders of a tally, as it is defined now and asked for.
func (c *Counts) lists(id TallyID) bool {
	if int(id) >= len(c.holders) || c.holders[id] == nil {
		return false
	}
	def := c.registry.tallies.list[id]
	return c.holders[id].def == def && def.listed > 0
}

// hold takes note of a slot's new count.
func (c *Counts) hold(slot Slot, id TallyID, count int32) {
	if c.lists(id) {
		c.holders[id].set(slot, count > 0)
	}
}
