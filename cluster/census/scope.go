package census

// scope is the eligible nodes of some censuses, by domain, in one state of the ledger. All censuses over the same nodes share one, so that a
// census itself takes memory only for the domains that hold pods.
//
// For example, two Deployments that spread over hosts, with no node selector, share one scope: a flag for each node and a number for each
// host. Anti-affinity looks at every node that has the key: its scope is the column of the key, and takes no memory of its own.
type scope struct {
	def      *scopeDefinition
	in       *Counts
	column   *domainColumn
	eligible []bool  // by slot; nil: all slots with a domain
	nodes    []int32 // eligible nodes, by domain; nil as above
	domains  int32   // with an eligible node
	version  uint64
}

// scope returns a scope by its number, built if this state does not have it.
func (c *Counts) scope(id int32) *scope {
	def := c.registry.scopes.list[id]
	for len(c.scopes) <= int(id) {
		c.scopes = append(c.scopes, nil)
	}
	if s := c.scopes[id]; s != nil && s.def == def {
		return s
	}
	for _, key := range def.eligible.keys {
		c.column(key)
	}
	s := &scope{def: def, in: c, column: c.column(def.key)}
	c.scopes[id] = s
	if !def.everywhere() {
		s.eligible = make([]bool, len(c.nodes))
		for slot := range c.nodes {
			s.enter(Slot(slot))
		}
	}
	return s
}

// domain is the slot's domain, as its censuses see it, whether it is eligible or not.
func (s *scope) domain(slot Slot) DomainID {
	d := s.column.at(slot)
	if d == NoDomain && s.def.orEmpty && s.in.nodes[slot] != nil {
		return emptyDomain
	}
	return d
}

// has reports whether a slot is eligible.
func (s *scope) has(slot Slot) bool {
	if s.eligible == nil {
		return s.column.at(slot) != NoDomain
	}
	return int(slot) < len(s.eligible) && s.eligible[slot]
}

// count is how many domains have an eligible node.
func (s *scope) count() int32 {
	if s.eligible == nil {
		return s.column.inhabited
	}
	return s.domains
}

// enter counts a node in; leave counts it out. The columns are those that hold while it is in.
func (s *scope) enter(slot Slot) {
	s.version++
	if s.eligible == nil || !s.def.eligible.allows(s.in, slot) {
		return
	}
	for int(slot) >= len(s.eligible) {
		s.eligible = append(s.eligible, false)
	}
	s.eligible[slot] = true
	d := s.domain(slot)
	for int(d) >= len(s.nodes) {
		s.nodes = append(s.nodes, 0)
	}
	s.nodes[d]++
	if s.nodes[d] == 1 {
		s.domains++
	}
}

func (s *scope) leave(slot Slot) {
	s.version++
	if s.eligible == nil || !s.has(slot) {
		return
	}
	s.eligible[slot] = false
	d := s.domain(slot)
	s.nodes[d]--
	if s.nodes[d] == 0 {
		s.domains--
	}
}
