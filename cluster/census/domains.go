package census

import (
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
)

// DomainID numbers the values of a topology key in one state of the ledger. The number of a value that no node has any more is given out again.
type DomainID int32

// NoDomain is the domain of a node without the key.
const NoDomain DomainID = -1

// emptyDomain is the domain of the empty value; every key has it.
const emptyDomain DomainID = 0

// labelUse is what a state knows of a node label: how many nodes have it, and its column once a class asks for it as a topology key. A key that
// no node has costs nothing but its name, whatever pods ask.
type labelUse struct {
	nodes  int32
	column *domainColumn // nil: not asked for
}

// domainColumn is the domain of each slot under a topology key, and the slots of each domain as a doubly linked list. Its lists are empty while
// no node has the key.
type domainColumn struct {
	def        *topologyKey
	ids        map[string]DomainID
	free       []DomainID
	of         []DomainID
	next, prev []Slot
	head       []Slot // by domain
	size       []int32
	inhabited  int32 // domains with a node
}

// Domain returns the domain of a node under a topology key, NoDomain when it does not have the label.
func (c *Counts) Domain(key KeyID, slot Slot) DomainID { return c.column(key).at(slot) }

// Domains is the number of domains of a key that have a node.
func (c *Counts) Domains(key KeyID) int { return int(c.column(key).inhabited) }

// DomainName returns the value that a domain stands for, empty when no node is in it.
func (c *Counts) DomainName(key KeyID, d DomainID) string {
	column := c.column(key)
	if int(d) >= len(column.head) || column.head[d] == changes.NoSlot {
		return ""
	}
	return c.nodes[column.head[d]].Labels[column.def.name]
}

// EachInDomain visits the slots of a domain.
func (c *Counts) EachInDomain(key KeyID, d DomainID, visit func(Slot)) {
	column := c.column(key)
	if int(d) >= len(column.head) {
		return
	}
	for slot := column.head[d]; slot != changes.NoSlot; slot = column.next[slot] {
		visit(slot)
	}
}

// column returns the column of a topology key, made if this state does not have it.
func (c *Counts) column(key KeyID) *domainColumn {
	if int(key) < len(c.columns) {
		if column := c.columns[key]; column != nil && column.def == c.registry.keys.list[key] {
			return column
		}
	}
	for len(c.columns) <= int(key) {
		c.columns = append(c.columns, nil)
	}
	column := &domainColumn{def: c.registry.keys.list[key], ids: map[string]DomainID{"": emptyDomain}}
	c.columns[key] = column
	if use := c.labels[column.def.name]; use != nil {
		use.column = column
		for slot, node := range c.nodes {
			if node != nil {
				c.enterColumn(column, Slot(slot), node)
			}
		}
	}
	return column
}

// setLabels counts the labels of a slot's node, out or in, with their columns.
func (c *Counts) setLabels(slot Slot, node *facts.Node, in bool) {
	if node == nil {
		return
	}
	for label := range node.Labels {
		use := c.labels[label]
		if !in {
			if use.column != nil {
				use.column.leave(slot, node.Labels[label])
			}
			if use.nodes--; use.nodes == 0 {
				delete(c.labels, label)
			}
			continue
		}
		if use == nil {
			use = &labelUse{column: c.asked(label)}
			c.labels[label] = use
		}
		use.nodes++
		if use.column != nil {
			c.enterColumn(use.column, slot, node)
		}
	}
}

// asked returns the column of a label that classes have asked for though no node had it; nil when none did.
func (c *Counts) asked(label string) *domainColumn {
	key, known := c.registry.keys.find(label)
	if !known || int(key) >= len(c.columns) || c.columns[key] == nil || c.columns[key].def != c.registry.keys.list[key] {
		return nil
	}
	return c.columns[key]
}

// forgetColumns drops the columns whose keys are not asked for any more.
func (c *Counts) forgetColumns() {
	for key, column := range c.columns {
		if column == nil || key < len(c.registry.keys.list) && column.def == c.registry.keys.list[key] {
			continue
		}
		if use := c.labels[column.def.name]; use != nil && use.column == column {
			use.column = nil
		}
		c.columns[key] = nil
	}
}

func (c *Counts) enterColumn(column *domainColumn, slot Slot, node *facts.Node) {
	if value, ok := node.Labels[column.def.name]; ok {
		column.grow(len(c.nodes))
		column.enter(slot, column.domain(value))
	}
}

// at returns the domain of a slot.
func (c *domainColumn) at(slot Slot) DomainID {
	if int(slot) >= len(c.of) {
		return NoDomain
	}
	return c.of[slot]
}

// grow makes room for some number of slots, where there is none.
func (c *domainColumn) grow(slots int) {
	if missing := slots - len(c.of); missing > 0 {
		c.of = append(c.of, make([]DomainID, missing)...)
		c.next, c.prev = append(c.next, make([]Slot, missing)...), append(c.prev, make([]Slot, missing)...)
		for slot := slots - missing; slot < slots; slot++ {
			c.of[slot], c.next[slot], c.prev[slot] = NoDomain, changes.NoSlot, changes.NoSlot
		}
	}
}

// domain returns the number of a value, given out if it has none.
func (c *domainColumn) domain(value string) DomainID {
	id, known := c.ids[value]
	if known {
		return id
	}
	if last := len(c.free) - 1; last >= 0 {
		id = c.free[last]
		c.free = c.free[:last]
	} else {
		id = DomainID(max(len(c.head), 1)) // the first one is that of the empty value
	}
	c.ids[value] = id
	return id
}

func (c *domainColumn) enter(slot Slot, d DomainID) {
	for int(d) >= len(c.head) {
		c.head = append(c.head, changes.NoSlot)
		c.size = append(c.size, 0)
	}
	c.of[slot], c.prev[slot], c.next[slot] = d, changes.NoSlot, c.head[d]
	if head := c.head[d]; head != changes.NoSlot {
		c.prev[head] = slot
	}
	c.head[d] = slot
	c.size[d]++
	if c.size[d] == 1 {
		c.inhabited++
	}
}

// leave takes a slot out of its domain, which stands for the value. With the last slot the memory goes too.
func (c *domainColumn) leave(slot Slot, value string) {
	d := c.at(slot)
	if d == NoDomain {
		return
	}
	if p := c.prev[slot]; p != changes.NoSlot {
		c.next[p] = c.next[slot]
	} else {
		c.head[d] = c.next[slot]
	}
	if n := c.next[slot]; n != changes.NoSlot {
		c.prev[n] = c.prev[slot]
	}
	c.of[slot], c.prev[slot], c.next[slot] = NoDomain, changes.NoSlot, changes.NoSlot
	if c.size[d]--; c.size[d] > 0 {
		return
	}
	c.inhabited--
	if d != emptyDomain {
		delete(c.ids, value)
		c.free = append(c.free, d)
	}
	if c.inhabited == 0 {
		*c = domainColumn{def: c.def, ids: map[string]DomainID{"": emptyDomain}}
	}
}
