package index

import (
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// maxPinned is how many nodes a class may name while these alone are judged.
const maxPinned = 64

// pinned lists the only nodes that a class's pods may use because it names them: a DaemonSet's pods do. ok is false when it does not name any, or
// too many.
func (ix *Index) pinned(c *cluster.Class) (slots []cluster.Slot, ok bool) {
	slots = ix.pins[:0]
	named := func(key string, values []string) bool {
		if len(slots)+len(values) > maxPinned {
			return false
		}
		for _, value := range values {
			slots = append(slots, ix.Partition([]string{key}).slotsWith(value)...)
		}
		return len(slots) <= maxPinned
	}
	for _, l := range c.NodeSelector {
		if l.Key == facts.HostnameKey {
			ok = named(l.Key, []string{l.Value})
			ix.pins = slots
			return slots, ok
		}
	}
	for i := range c.Required {
		key, values := hostsOf(&c.Required[i])
		if key == "" || !named(key, values) {
			return nil, false
		}
	}
	if len(c.Required) == 0 && c.Volumes != nil {
		key, values := c.Volumes.Hosts()
		if key == "" || !named(key, values) {
			return nil, false
		}
		ok = true
	}
	if len(c.Required) == 0 && !ok && c.Claims != nil {
		key, values := c.Claims.Hosts()
		if key == "" || !named(key, values) {
			return nil, false
		}
		ok = true
	}
	slices.Sort(slots)
	slots = slices.Compact(slots)
	ix.pins = slots
	return slots, ok || len(c.Required) > 0
}

// hostsOf is the names of nodes to which a term is bound, by its field or by the hostname; key is empty when it is bound to none.
func hostsOf(t *facts.Term) (key string, values []string) {
	for _, e := range t.Fields {
		if e.Key == facts.FieldName && e.Operator == facts.In {
			return e.Key, e.Values
		}
	}
	for _, e := range t.Expressions {
		if e.Key == facts.HostnameKey && e.Operator == facts.In {
			return e.Key, e.Values
		}
	}
	return "", nil
}

// bestOf judges some nodes; the class's pods may use no others.
func (ix *Index) bestOf(slots []cluster.Slot, c *cluster.Class) (cluster.Slot, bool) {
	s := &ix.snapshot.State
	slots = slices.DeleteFunc(slots, func(slot cluster.Slot) bool { return s.Node(slot) == nil || !rules.FitsIn(rules.Static, s, slot, c) })
	ix.few.Class = c
	return ix.few.bestByAllScores(ix, slots)
}

// allSlots lists all nodes. Classes are judged on all that have prioritized lists of devices: the best is relative to what every other node could give, and only the
// allocator can tell. It keeps its answers, so that after the first decision it is asked about the nodes that have changed.
func (ix *Index) allSlots() []cluster.Slot {
	slots := ix.pins[:0]
	for slot := range ix.snapshot.Slots() {
		slots = append(slots, cluster.Slot(slot))
	}
	ix.pins = slots
	return slots
}

// slotsWith lists the nodes that have a value of a partition by one key.
func (d *Partition) slotsWith(value string) []cluster.Slot {
	d.scratch = appendText(d.scratch[:0], value)
	if id, ok := d.byValues[string(d.scratch)]; ok {
		return d.Domains[id].Slots
	}
	return nil
}
