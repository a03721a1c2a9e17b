package census

import "fmt"

// Verify counts every census and every list of holders anew and returns the first difference. It costs time proportional to the slots, for
// each: tests and the simulator call it.
func (c *Counts) Verify() error {
	for id, h := range c.holders {
		if h == nil || h.def != c.registry.tallies[id] {
			continue
		}
		if err := c.verifyHolders(TallyID(id), h); err != nil {
			return err
		}
	}
	for id, census := range c.censuses {
		if census == nil || !c.has(ID(id)) {
			continue
		}
		if err := census.verify(); err != nil {
			return fmt.Errorf("census %d: %w", id, err)
		}
	}
	return nil
}

func (c *Counts) verifyHolders(id TallyID, h *Holders) error {
	holding := 0
	for slot := range c.nodes {
		count := c.Tally(Slot(slot), id)
		if _, listed := h.at[Slot(slot)]; listed != (count > 0) {
			return fmt.Errorf("tally %d on slot %d: %d pods, listed as a holder: %v", id, slot, count, listed)
		} else if listed {
			holding++
		}
	}
	if holding != len(h.slots) {
		return fmt.Errorf("tally %d: %d holders are listed, %d slots hold some", id, len(h.slots), holding)
	}
	return nil
}

func (c *Census) verify() error {
	fresh := c.in.newCensus(c.def)
	if fresh.sum != c.sum || fresh.domains != c.domains || fresh.Least() != c.Least() {
		return fmt.Errorf("it says %d pods in %d domains, at least %d; rows say %d, %d, %d",
			c.sum, c.domains, c.Least(), fresh.sum, fresh.domains, fresh.Least())
	}
	for d := range c.counts {
		if c.Count(DomainID(d)) != fresh.Count(DomainID(d)) {
			return fmt.Errorf("it says %d pods in domain %q, rows say %d",
				c.counts[d], c.in.registry.DomainName(c.def.key, DomainID(d)), fresh.Count(DomainID(d)))
		}
	}
	return nil
}

// VerifyRow asks every selector about every pod of a slot: each visits the pods with what selectors see of them, whether they are being
// deleted, and the tallies of the terms that they carry.
func (c *Counts) VerifyRow(slot Slot, namespaces Namespaces, each func(visit func(s *Subject, deleting bool, carried []TallyID))) error {
	want := make(map[TallyID]int32)
	each(func(s *Subject, deleting bool, carried []TallyID) {
		for id, def := range c.registry.tallies {
			if def != nil && !def.carried && (!def.liveOnly || !deleting) && def.selects(s, namespaces) {
				want[TallyID(id)]++
			}
		}
		for _, id := range carried {
			want[id]++
		}
	})
	for _, t := range c.tallies[slot] {
		if want[t.ID] != t.Count {
			return fmt.Errorf("tally %d says %d, pods say %d", t.ID, t.Count, want[t.ID])
		}
	}
	if len(want) != len(c.tallies[slot]) {
		return fmt.Errorf("%d tallies, pods say %d", len(c.tallies[slot]), len(want))
	}
	return nil
}
