package census

// Census counts the pods of a tally by the domains of a topology key, in one state of the ledger.
type Census struct {
	def      *definition
	in       *Counts
	column   *domainColumn // of the key, beside the counts: both are read for each candidate of a decision
	eligible []bool        // by slot
	counts   []int32       // by domain
	nodes    []int32       // eligible nodes, by domain
	byCount  []int32       // how many domains that have eligible nodes have this count
	sum      int64
	domains  int32
	least    int32
	version  uint64
}

func (c *Counts) newCensus(def *definition) *Census {
	census := &Census{def: def, in: c, column: c.domains[def.key], eligible: make([]bool, len(c.nodes))}
	for slot := range c.nodes {
		census.enter(Slot(slot))
	}
	return census
}

// Key is the topology key.
func (c *Census) Key() KeyID { return c.def.key }

// Count returns the pods in a domain.
func (c *Census) Count(d DomainID) int32 {
	if d < 0 || int(d) >= len(c.counts) {
		return 0
	}
	return c.counts[d]
}

// Sum returns the pods in all domains.
func (c *Census) Sum() int64 { return c.sum }

// Domains is the number of domains with an eligible node.
func (c *Census) Domains() int32 { return c.domains }

// Least is the smallest count of a domain with an eligible node; 0 when there is none.
func (c *Census) Least() int32 {
	if c.domains == 0 {
		return 0
	}
	return c.least
}

// Domain is the slot's domain as this census sees it.
func (c *Census) Domain(slot Slot) DomainID {
	d := c.column.of[slot]
	if d == NoDomain && c.def.orEmpty && c.in.nodes[slot] != nil {
		return emptyDomain
	}
	return d
}

// charge adds pods on a slot.
func (c *Census) charge(slot Slot, delta int32) {
	if !c.eligible[slot] {
		return
	}
	c.add(c.Domain(slot), delta)
}

func (c *Census) add(d DomainID, delta int32) {
	c.version++
	c.sum += int64(delta)
	old := c.counts[d]
	c.counts[d] = old + delta
	if c.nodes[d] > 0 {
		c.rank(old, -1)
		c.rank(old+delta, 1)
		c.settle()
	}
}

// rank counts one domain more or less that has this count.
func (c *Census) rank(count, delta int32) {
	for int(count) >= len(c.byCount) {
		c.byCount = append(c.byCount, 0)
	}
	c.byCount[count] += delta
	if delta > 0 && count < c.least {
		c.least = count
	}
}

// settle moves least up to the smallest count that a domain has.
func (c *Census) settle() {
	if c.domains == 0 {
		c.least = 0
		return
	}
	for c.byCount[c.least] == 0 {
		c.least++
	}
}

// enter counts a node in, with the pods on it; leave counts it out.
func (c *Census) enter(slot Slot) {
	c.eligible[slot] = c.def.eligible.allows(c.in, slot)
	if !c.eligible[slot] {
		return
	}
	d := c.Domain(slot)
	for int(d) >= len(c.counts) {
		c.counts = append(c.counts, 0)
		c.nodes = append(c.nodes, 0)
	}
	c.nodes[d]++
	if c.nodes[d] == 1 {
		if c.domains == 0 {
			c.least = c.counts[d]
		}
		c.domains++
		c.rank(c.counts[d], 1)
	}
	c.version++
	if n := c.in.Tally(slot, c.def.tally); n != 0 {
		c.add(d, n)
	}
	c.settle()
}

func (c *Census) leave(slot Slot) {
	if !c.eligible[slot] {
		return
	}
	d := c.Domain(slot)
	if n := c.in.Tally(slot, c.def.tally); n != 0 {
		c.add(d, -n)
	}
	c.nodes[d]--
	if c.nodes[d] == 0 {
		c.domains--
		c.rank(c.counts[d], -1)
		c.settle()
	}
	c.eligible[slot] = false
	c.version++
}
