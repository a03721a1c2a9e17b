package cluster

// CensusID numbers censuses.
type CensusID int32

// NoCensus is the CensusID of none.
const NoCensus CensusID = -1

// censusDef defines a census: a tally, summed over the domains of a topology key, on the nodes that are eligible.
type censusDef struct {
	tally    TallyID
	key      KeyID
	eligible *eligibility
	// orEmpty: nodes without the key count as having it with an empty value.
	orEmpty bool
	users   int
}

// eligibility defines which nodes a census looks at: those that have all keys and that the class's selectors and tolerations allow.
type eligibility struct {
	keys        []KeyID
	selects     *Requirements // nil: any node
	tolerations []Toleration
	taints      bool // whether tolerations count
}

func (e *eligibility) allows(s *State, slot Slot) bool {
	node := s.nodes[slot]
	if node == nil {
		return false
	}
	for _, key := range e.keys {
		if s.Domain(key, slot) == NoDomain {
			return false
		}
	}
	if e.selects != nil && !e.selects.Selects(node) {
		return false
	}
	return !e.taints || Untolerated(node, e.tolerations) == nil
}

// Untolerated returns the first taint that keeps pods with these tolerations off the node, nil for none.
func Untolerated(n *Node, tolerations []Toleration) *Taint {
	for i := range n.Taints {
		if taint := &n.Taints[i]; taint.Effect != PreferNoSchedule && !Tolerated(tolerations, taint) {
			return taint
		}
	}
	return nil
}

// Tolerated reports whether one of the tolerations covers the taint.
func Tolerated(tolerations []Toleration, taint *Taint) bool {
	for i := range tolerations {
		if tolerations[i].Tolerates(taint) {
			return true
		}
	}
	return false
}

// Census counts the pods of a tally by the domains of a topology key.
type Census struct {
	def      *censusDef
	eligible []bool  // by slot
	counts   []int32 // by domain
	nodes    []int32 // eligible nodes, by domain
	byCount  []int32 // how many domains that have eligible nodes have this count
	sum      int64
	domains  int32
	least    int32
	version  uint64
}

// Key is the topology key.
func (c *Census) Key() KeyID { return c.def.key }

// Tally is what is counted.
func (c *Census) Tally() TallyID { return c.def.tally }

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

// Version changes whenever a count or the set of domains does.
func (c *Census) Version() uint64 { return c.version }

// Domain is the slot's domain as this census sees it.
func (c *Census) Domain(s *State, slot Slot) DomainID {
	d := s.Domain(c.def.key, slot)
	if d == NoDomain && c.def.orEmpty && s.nodes[slot] != nil {
		return emptyDomain
	}
	return d
}

// charge adds pods on a slot.
func (c *Census) charge(s *State, slot Slot, delta int32) {
	if !c.eligible[slot] {
		return
	}
	c.add(c.Domain(s, slot), delta)
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
func (c *Census) enter(s *State, slot Slot) {
	c.eligible[slot] = c.def.eligible.allows(s, slot)
	if !c.eligible[slot] {
		return
	}
	d := c.Domain(s, slot)
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
	if n := s.TallyAt(slot, c.def.tally); n != 0 {
		c.add(d, n)
	}
	c.settle()
}

func (c *Census) leave(s *State, slot Slot) {
	if !c.eligible[slot] {
		return
	}
	d := c.Domain(s, slot)
	if n := s.TallyAt(slot, c.def.tally); n != 0 {
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

// Census returns a census by its ID.
func (s *State) Census(id CensusID) *Census { return s.censuses[id] }

// DomainsVersion changes whenever a census that the class reads does.
func (s *State) DomainsVersion(c *Class) uint64 {
	if c.Constraints == nil {
		return 0
	}
	var sum uint64
	c.Constraints.Each(func(id CensusID) { sum += s.censuses[id].version })
	return sum
}

// Knows reports whether this state has all that the class reads; a snapshot that has not been advanced since the class came up does not.
func (s *State) Knows(c *Class) bool {
	if c.Constraints == nil {
		return true
	}
	known := true
	c.Constraints.Each(func(id CensusID) { known = known && s.has(id) })
	for i := range c.Constraints.Soft {
		soft := &c.Constraints.Soft[i]
		known = known && int(soft.Key) < len(s.domains) && (soft.Census != NoCensus || s.lists(soft.Tally))
	}
	return known
}

// has reports whether this state has built the census that now has the ID.
func (s *State) has(id CensusID) bool {
	return int(id) < len(s.censuses) && s.censuses[id] != nil && s.censuses[id].def == s.registry.censuses[id]
}

// learn builds what the registry defines and this state does not have yet.
func (s *State) learn() {
	s.learnKeys()
	for len(s.censuses) < len(s.registry.censuses) {
		s.censuses = append(s.censuses, nil)
	}
	if s.learned == s.registry.generation {
		return
	}
	s.learned = s.registry.generation
	s.learnHolders()
	for id, def := range s.registry.censuses {
		switch {
		case def == nil:
			s.censuses[id] = nil
		case !s.has(CensusID(id)):
			s.censuses[id] = s.newCensus(def)
		}
	}
}

func (s *State) newCensus(def *censusDef) *Census {
	c := &Census{def: def, eligible: make([]bool, len(s.nodes))}
	for slot := range s.nodes {
		c.enter(s, Slot(slot))
	}
	return c
}
