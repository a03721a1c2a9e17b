package census

import (
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
)

// DomainID numbers the values of a topology key.
type DomainID int32

// NoDomain is the domain of a node without the key.
const NoDomain DomainID = -1

// emptyDomain is the domain of the empty value; every key has it.
const emptyDomain DomainID = 0

// topologyKey is a node label whose values are domains. It only grows.
type topologyKey struct {
	name   string
	values []string
	ids    map[string]DomainID
}

func newTopologyKey(name string) *topologyKey {
	return &topologyKey{name: name, values: []string{""}, ids: map[string]DomainID{"": emptyDomain}}
}

func (k *topologyKey) domain(value string) DomainID {
	if id, ok := k.ids[value]; ok {
		return id
	}
	id := DomainID(len(k.values))
	k.ids[value] = id
	k.values = append(k.values, value)
	return id
}

// domainColumn is the domain of each slot, and the slots of each domain as a doubly linked list.
type domainColumn struct {
	of         []DomainID
	next, prev []Slot
	head       []Slot // by domain
	size       []int32
	inhabited  int32 // domains with a node
}

// Domain returns the domain of a node under a topology key, NoDomain when it does not have the label.
func (c *Counts) Domain(key KeyID, slot Slot) DomainID { return c.domains[key].of[slot] }

// Domains is the number of domains of a key that have a node.
func (c *Counts) Domains(key KeyID) int { return int(c.domains[key].inhabited) }

// EachInDomain visits the slots of a domain.
func (c *Counts) EachInDomain(key KeyID, d DomainID, visit func(Slot)) {
	column := c.domains[key]
	if int(d) >= len(column.head) {
		return
	}
	for slot := column.head[d]; slot != changes.NoSlot; slot = column.next[slot] {
		visit(slot)
	}
}

// LearnKeys adds columns until every topology key has one.
func (c *Counts) LearnKeys() {
	for len(c.domains) < len(c.registry.keys) {
		key := KeyID(len(c.domains))
		column := &domainColumn{}
		c.domains = append(c.domains, column)
		for range c.nodes {
			column.grow()
		}
		for slot, node := range c.nodes {
			if node != nil {
				c.enterDomain(key, Slot(slot), node)
			}
		}
	}
}

func (c *domainColumn) grow() {
	c.of = append(c.of, NoDomain)
	c.next = append(c.next, changes.NoSlot)
	c.prev = append(c.prev, changes.NoSlot)
}

func (c *Counts) enterDomain(key KeyID, slot Slot, node *facts.Node) {
	value, ok := node.Labels[c.registry.keys[key].name]
	if ok {
		c.domains[key].enter(slot, c.registry.keys[key].domain(value))
	}
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

func (c *domainColumn) leave(slot Slot) {
	d := c.of[slot]
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
	c.size[d]--
	if c.size[d] == 0 {
		c.inhabited--
	}
}
