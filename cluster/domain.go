package cluster

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

func (s *State) enterDomain(key KeyID, slot Slot, node *Node) {
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
func (s *State) setNode(slot Slot, node *Node) {
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
func (s *State) countImages(node *Node, sign int32) {
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
