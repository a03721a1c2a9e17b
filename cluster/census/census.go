package census

// Census counts the pods of a tally by the domains of a topology key, in one state of the ledger. Its memory is proportional to the domains
// that hold pods. One of several terms (see definition) adds up how often they are carried, and knows no Least.
type Census struct {
	def      *definition
	id       ID
	in       *Counts
	scope    *scope
	counts   domainCounts
	weights  []int32 // of several terms, by TallyID; 0: not one of them
	byCount  []int32 // how many domains have this count, from 1 on
	occupied int32   // domains that have pods; each has an eligible node
	fewest   int32   // the smallest count of an occupied domain
	sum      int64
	version  uint64 // a fingerprint of the counts: what is taken back leaves it as it was
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
	c.censuses[id] = c.newCensus(id)
	return c.censuses[id]
}

func (c *Counts) newCensus(id ID) *Census {
	def := c.registry.censuses.list[id]
	census := &Census{def: def, id: id, in: c, scope: c.scope(def.scope)}
	if def.terms != nil {
		census.sumTerms()
		c.sums = append(c.sums, census)
		return census
	}
	for slot, row := range c.tallies {
		if len(row) > 0 {
			census.charge(Slot(slot), c.Tally(Slot(slot), def.tally))
		}
	}
	return census
}

// sumTerms counts a census of several terms.
func (c *Census) sumTerms() {
	r := c.in.registry
	c.weights = make([]int32, c.def.terms[len(c.def.terms)-1]+1)
	for _, id := range c.def.terms {
		c.weights[id] = 1
		if r.tallies.list[id].role == attracts {
			c.weights[id] = int32(r.tallies.list[id].weight)
		}
	}
	for slot, row := range c.in.tallies {
		for _, t := range row {
			c.addTerm(Slot(slot), t.ID, t.Count)
		}
	}
}

// addTerm takes in that a tally has changed on a slot, if it is of one of the terms.
func (c *Census) addTerm(slot Slot, id TallyID, delta int32) {
	if int(id) >= len(c.weights) || c.weights[id] == 0 || !c.scope.has(slot) {
		return
	}
	sum := int64(c.weights[id]) * int64(delta)
	d := c.scope.domain(slot)
	c.sum += sum
	c.set(d, c.counts.get(d)+sum)
}

// set changes the count of a domain.
func (c *Census) set(d DomainID, count int64) {
	c.version += fingerprint(d, count) - fingerprint(d, c.counts.get(d))
	c.counts.set(d, count)
}

// fingerprint is a number for a count of a domain; 0 for none. Numbers of several domains are added up, so all bits of both have to show in all of it (the finalizer
// of splitmix64).
func fingerprint(d DomainID, count int64) uint64 {
	if count == 0 {
		return 0
	}
	x := uint64(count)*0x9e3779b97f4a7c15 + uint64(d)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Key is the topology key.
func (c *Census) Key() KeyID { return c.scope.def.key }

// Count returns the pods in a domain; of several terms, how often these are carried there, times their weights.
func (c *Census) Count(d DomainID) int64 { return c.counts.get(d) }

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
	c.sum += int64(delta)
	old := c.counts.get(d)
	c.set(d, old+int64(delta))
	c.rank(int32(old), -1)
	c.rank(int32(old)+delta, 1)
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
	dense  []int64
	sparse map[DomainID]int64
}

func (c *domainCounts) get(d DomainID) int64 {
	switch {
	case c.sparse != nil:
		return c.sparse[d]
	case d < 0 || int(d) >= len(c.dense):
		return 0
	}
	return c.dense[d]
}

func (c *domainCounts) set(d DomainID, count int64) {
	if c.sparse == nil && int(d) >= maxDenseDomains {
		c.sparse = make(map[DomainID]int64)
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
