package census

import (
	"errors"
	"fmt"
)

// Verify counts every census and every list of holders anew and returns the first difference. It costs time proportional to the slots, for
// each: tests and the simulator call it.
func (c *Counts) Verify() error {
	for id, h := range c.holders {
		if h != nil && c.lists(TallyID(id)) {
			if err := c.verifyHolders(TallyID(id), h); err != nil {
				return err
			}
		}
	}
	fresh := NewCounts(c.registry)
	fresh.nodes, fresh.tallies = c.nodes, c.tallies
	for slot, node := range c.nodes {
		fresh.setLabels(Slot(slot), node, true)
	}
	if err := c.verifyLabels(&fresh); err != nil {
		return err
	}
	for id := range c.censuses {
		if !c.has(ID(id)) {
			continue
		}
		if err := c.censuses[id].verify(fresh.Census(ID(id))); err != nil {
			return fmt.Errorf("census %d: %w", id, err)
		}
	}
	return nil
}

// verifyLabels holds what is kept of the nodes' labels, and the columns of those that are topology keys, against fresh counts.
func (c *Counts) verifyLabels(fresh *Counts) error {
	if len(c.labels) != len(fresh.labels) {
		return fmt.Errorf("%d labels are counted, the nodes have %d", len(c.labels), len(fresh.labels))
	}
	for label, use := range fresh.labels {
		if known := c.labels[label]; known == nil || known.nodes != use.nodes {
			return fmt.Errorf("label %s is counted as %+v, %d nodes have it", label, known, use.nodes)
		}
	}
	for id, column := range c.columns {
		if column == nil || column.def != c.registry.keys.list[id] {
			continue
		}
		key := KeyID(id)
		if column.inhabited != fresh.column(key).inhabited || column.inhabited == 0 && len(column.of) > 0 {
			return fmt.Errorf("topology key %s: %d domains, the nodes have %d", column.def.name, column.inhabited, fresh.column(key).inhabited)
		}
		for slot, node := range c.nodes {
			if d, want := column.at(Slot(slot)), fresh.Domain(key, Slot(slot)); (d == NoDomain) != (want == NoDomain) ||
				d != NoDomain && (column.ids[node.Labels[column.def.name]] != d || c.DomainName(key, d) != node.Labels[column.def.name]) {
				return fmt.Errorf("topology key %s: slot %d is in domain %d (%q)", column.def.name, slot, d, c.DomainName(key, d))
			}
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

func (c *Census) verify(fresh *Census) error {
	if fresh.sum != c.sum || fresh.Domains() != c.Domains() || fresh.Least() != c.Least() {
		return fmt.Errorf("it says %d pods in %d domains, at least %d; rows say %d, %d, %d",
			c.sum, c.Domains(), c.Least(), fresh.sum, fresh.Domains(), fresh.Least())
	}
	for slot := range c.in.nodes {
		d, of := c.Domain(Slot(slot)), fresh.Domain(Slot(slot))
		if (d == NoDomain) != (of == NoDomain) || c.scope.has(Slot(slot)) != fresh.scope.has(Slot(slot)) || c.Count(d) != fresh.Count(of) {
			return fmt.Errorf("it says %d pods in the domain of slot %d, rows say %d", c.Count(d), slot, fresh.Count(of))
		}
	}
	return nil
}

// VerifyRow asks every selector about every pod of a slot: each visits the pods with what selectors see of them, whether they are being
// deleted, and the tallies of the terms that they carry.
func (c *Counts) VerifyRow(slot Slot, namespaces Namespaces, each func(visit func(s *Subject, deleting bool, carried []TallyID))) error {
	want, silent := make(map[TallyID]int32), false
	each(func(s *Subject, deleting bool, carried []TallyID) {
		for id, def := range c.registry.tallies.list {
			if def != nil && !def.carried && (!def.liveOnly || !deleting) && def.selects(s, namespaces) {
				want[TallyID(id)]++
			}
		}
		for _, id := range carried {
			want[id]++
			if def := c.registry.tallies.list[id]; !def.acts {
				silent = true
			}
		}
	})
	if silent {
		return errors.New("a pod has a place, and terms that it carries do not act")
	}
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
