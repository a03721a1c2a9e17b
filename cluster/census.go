package cluster

import (
	"hilbert.dev/hilbert/cluster/facts"
)

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
	selects     *facts.Requirements // nil: any node
	tolerations []facts.Toleration
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
	return !e.taints || facts.Untolerated(node, e.tolerations) == nil
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

// KeyID numbers topology keys.
type KeyID int32

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
func (s *State) Domain(key KeyID, slot Slot) DomainID { return s.domains[key].of[slot] }

// DomainName returns the value that a domain stands for.
func (s *State) DomainName(key KeyID, d DomainID) string { return s.registry.keys[key].values[d] }

// KeyName returns the label of a topology key.
func (s *State) KeyName(key KeyID) string { return s.registry.keys[key].name }

// KeyDomains is the number of domains of a key that have a node.
func (s *State) KeyDomains(key KeyID) int { return int(s.domains[key].inhabited) }

// EachInDomain visits the slots of a domain.
func (s *State) EachInDomain(key KeyID, d DomainID, visit func(Slot)) {
	column := s.domains[key]
	if int(d) >= len(column.head) {
		return
	}
	for slot := column.head[d]; slot != NoSlot; slot = column.next[slot] {
		visit(slot)
	}
}

// learnKeys adds columns until every topology key has one.
func (s *State) learnKeys() {
	for len(s.domains) < len(s.registry.keys) {
		key := KeyID(len(s.domains))
		s.domains = append(s.domains, &domainColumn{})
		column := s.domains[key]
		for range s.nodes {
			column.grow()
		}
		for slot, node := range s.nodes {
			if node != nil {
				s.enterDomain(key, Slot(slot), node)
			}
		}
	}
}

func (c *domainColumn) grow() {
	c.of = append(c.of, NoDomain)
	c.next = append(c.next, NoSlot)
	c.prev = append(c.prev, NoSlot)
}

func (s *State) enterDomain(key KeyID, slot Slot, node *facts.Node) {
	value, ok := node.Labels[s.registry.keys[key].name]
	if !ok {
		return
	}
	c := s.domains[key]
	d := s.registry.keys[key].domain(value)
	for int(d) >= len(c.head) {
		c.head = append(c.head, NoSlot)
		c.size = append(c.size, 0)
	}
	c.of[slot], c.prev[slot], c.next[slot] = d, NoSlot, c.head[d]
	if head := c.head[d]; head != NoSlot {
		c.prev[head] = slot
	}
	c.head[d] = slot
	c.size[d]++
	if c.size[d] == 1 {
		c.inhabited++
	}
}

func (s *State) leaveDomain(key KeyID, slot Slot) {
	c := s.domains[key]
	d := c.of[slot]
	if d == NoDomain {
		return
	}
	if p := c.prev[slot]; p != NoSlot {
		c.next[p] = c.next[slot]
	} else {
		c.head[d] = c.next[slot]
	}
	if n := c.next[slot]; n != NoSlot {
		c.prev[n] = c.prev[slot]
	}
	c.of[slot], c.prev[slot], c.next[slot] = NoDomain, NoSlot, NoSlot
	c.size[d]--
	if c.size[d] == 0 {
		c.inhabited--
	}
}

// setNode gives a slot another node (nil: none): its domains and what the censuses count change with it.
func (s *State) setNode(slot Slot, node *facts.Node) {
	s.eachCensus(func(c *Census) { c.leave(s, slot) })
	s.countImages(s.nodes[slot], -1)
	s.nodes[slot] = node
	s.hasGPUs[slot] = node != nil && s.Shape(slot).GPUs > 0
	s.countImages(node, 1)
	for key := range s.domains {
		s.leaveDomain(KeyID(key), slot)
		if node != nil {
			s.enterDomain(KeyID(key), slot, node)
		}
	}
	s.eachCensus(func(c *Census) { c.enter(s, slot) })
}

// eachCensus visits the censuses that are defined as they were when this state built them.
func (s *State) eachCensus(visit func(*Census)) {
	for id := range s.censuses {
		if s.has(CensusID(id)) {
			visit(s.censuses[id])
		}
	}
}

// countImages counts a node's images in or out.
func (s *State) countImages(node *facts.Node, sign int32) {
	if node == nil {
		return
	}
	s.inhabited += int(sign)
	for i := range node.Images {
		name := node.Images[i].Name
		known := s.images[name]
		known.nodes += sign
		known.size = max(known.size, node.Images[i].Size)
		if known.nodes > 0 {
			s.images[name] = known
		} else {
			delete(s.images, name)
		}
	}
}

// Inhabited is the number of nodes.
func (s *State) Inhabited() int { return s.inhabited }

// NodesWithImage is the number of nodes that have an image, and a size (bytes) that none of them exceeds.
func (s *State) NodesWithImage(name string) (nodes int32, size int64) {
	known := s.images[name]
	return known.nodes, known.size
}

// imageCount is how many nodes have an image, and the greatest size that one of them gave.
type imageCount struct {
	nodes int32
	size  int64
}
