package census

// Census counts the pods of a tally by the domains of a topology key, in one state of the ledger. Its memory is proportional to the domains
// that hold pods.
type Census struct {
	def      *definition
	in       *Counts
	scope    *scope
	counts   domainCounts
	byCount  []int32 // how many domains have this count, from 1 on
	occupied int32   // domains that have pods; each has an eligible node
	fewest   int32   // the smallest count of an occupied domain
	sum      int64
	version  uint64
}

// Census returns a census by its ID, counted if this state does not have it yet.
func (c *Counts) Census(id ID) *Census {
	if int(id) < len(c.censuses) {
		if census := c.censuses[id]; census != nil && census.def == c.registry.censuses.list[id] {
			return census
		}
	}
	for len(c.censuses) <= int(id) {
		c.censuses = append(c.censuses, nil)
	}
	c.censuses[id] = c.newCensus(c.registry.censuses.list[id])
	return c.censuses[id]
}

func (c *Counts) newCensus(def *definition) *Census {
	census := &Census{def: def, in: c, scope: c.scope(def.scope)}
	for slot, row := range c.tallies {
		if len(row) > 0 {
			census.charge(Slot(slot), c.Tally(Slot(slot), def.tally))
		}
	}
	return census
}

// Key is the topology key.
func (c *Census) Key() KeyID { return c.scope.def.key }

// Count returns the pods in a domain.
func (c *Census) Count(d DomainID) int32 { return c.counts.get(d) }

// Sum returns the pods in all domains.
func (c *Census) Sum() int64 { return c.sum }

// Domains is the number of domains with an eligible node.
func (c *Census) Domains() int32 { return c.scope.count() }

// Least is the smallest count of a domain with an eligible node; 0 when there is none.
func (c *Census) Least() int32 {
	if c.occupied < c.scope.count() {
		return 0
	}
	return c.fewest
}

// Domain is the slot's domain as this census sees it.
func (c *Census) Domain(slot Slot) DomainID { return c.scope.domain(slot) }

// charge adds pods on a slot, if it is eligible.
func (c *Census) charge(slot Slot, delta int32) {
	if delta == 0 || !c.scope.has(slot) {
		return
	}
	d := c.scope.domain(slot)
	c.version++
	c.sum += int64(delta)
	old := c.counts.get(d)
	c.counts.set(d, old+delta)
	c.rank(old, -1)
	c.rank(old+delta, 1)
	if c.occupied == 0 {
		c.fewest = 0
		return
	}
	for c.byCount[c.fewest] == 0 {
		c.fewest++
	}
}

// rank counts one domain more or less that has this count.
func (c *Census) rank(count, delta int32) {
	if count == 0 {
		return
	}
	for int(count) >= len(c.byCount) {
		c.byCount = append(c.byCount, 0)
	}
	c.byCount[count] += delta
	c.occupied += delta
	if delta > 0 && (count < c.fewest || c.fewest == 0) {
		c.fewest = count
	}
}

// maxDenseDomains is how many domains a list of counts is for; more are in a map.
const maxDenseDomains = 256

// domainCounts is a count for each domain: a list while domains are few, a map of those that are not zero when they are many.
type domainCounts struct {
	dense  []int32
	sparse map[DomainID]int32
}

func (c *domainCounts) get(d DomainID) int32 {
	switch {
	case c.sparse != nil:
		return c.sparse[d]
	case d < 0 || int(d) >= len(c.dense):
		return 0
	}
	return c.dense[d]
}

func (c *domainCounts) set(d DomainID, count int32) {
	if c.sparse == nil && int(d) >= maxDenseDomains {
		c.sparse = make(map[DomainID]int32)
		for d, count := range c.dense {
			if count != 0 {
				c.sparse[DomainID(d)] = count
			}
		}
		c.dense = nil
	}
	if c.sparse != nil {
		if count == 0 {
			delete(c.sparse, d)
		} else {
			c.sparse[d] = count
		}
		return
	}
	for int(d) >= len(c.dense) {
		c.dense = append(c.dense, 0)
	}
	c.dense[d] = count
}
