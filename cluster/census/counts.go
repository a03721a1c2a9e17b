package census

import (
	"slices"

	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
)

// Slot is the dense index of a node.
type Slot = changes.Slot

// Tally is how many pods on a node count in something.
type Tally struct {
	ID    TallyID
	Count int32
}

// Counts are the numbers of one state of the ledger: the tallies on each slot, the domain of each slot, and the censuses over both. Whoever
// owns the state says what changed (SetNode, Bump, CopyTallies); the censuses follow.
type Counts struct {
	registry *Registry
	nodes    []*facts.Node // by slot, nil where it is vacant
	tallies  [][]Tally     // by slot, sorted by ID
	domains  []*domainColumn
	censuses []*Census
	holders  []*Holders // by tally, nil where no class asks
	learned  uint64     // the registry's generation that censuses and holders reflect
}

// NewCounts returns the counts of a state without slots.
func NewCounts(r *Registry) Counts { return Counts{registry: r} }

// Registry holds the definitions.
func (c *Counts) Registry() *Registry { return c.registry }

// AddSlot appends a vacant slot.
func (c *Counts) AddSlot() {
	c.nodes = append(c.nodes, nil)
	c.tallies = append(c.tallies, nil)
	for _, column := range c.domains {
		column.grow()
	}
	for _, census := range c.censuses {
		if census != nil {
			census.eligible = append(census.eligible, false)
		}
	}
}

// SetNode gives a slot another node (nil: none): its domains and what the censuses count change with it.
func (c *Counts) SetNode(slot Slot, node *facts.Node) {
	c.eachCensus(func(census *Census) { census.leave(slot) })
	c.nodes[slot] = node
	for key := range c.domains {
		c.domains[key].leave(slot)
		if node != nil {
			c.enterDomain(KeyID(key), slot, node)
		}
	}
	c.eachCensus(func(census *Census) { census.enter(slot) })
}

// Copy replaces the counts by those of another state.
func (c *Counts) Copy(from *Counts) {
	c.registry = from.registry
	c.nodes = append(c.nodes[:0], from.nodes...)
	c.tallies = c.tallies[:0]
	for _, row := range from.tallies {
		c.tallies = append(c.tallies, slices.Clone(row))
	}
	c.domains, c.censuses, c.holders, c.learned = nil, nil, nil, 0
	c.Learn()
}

// Learn builds what the registry defines and this state does not have yet.
func (c *Counts) Learn() {
	c.LearnKeys()
	for len(c.censuses) < len(c.registry.censuses) {
		c.censuses = append(c.censuses, nil)
	}
	if c.learned == c.registry.generation {
		return
	}
	c.learned = c.registry.generation
	c.learnHolders()
	for id, def := range c.registry.censuses {
		switch {
		case def == nil:
			c.censuses[id] = nil
		case !c.has(ID(id)):
			c.censuses[id] = c.newCensus(def)
		}
	}
}

// Knows reports whether this state has all that the constraints read (nil: nothing). A snapshot that has not been advanced since they came
// up does not.
func (c *Counts) Knows(constraints *Constraints) bool {
	if constraints == nil {
		return true
	}
	known := true
	constraints.Each(func(id ID) { known = known && c.has(id) })
	for i := range constraints.Soft {
		soft := &constraints.Soft[i]
		known = known && int(soft.Key) < len(c.domains) && (soft.Census != None || c.lists(soft.Tally))
	}
	return known
}

// Version changes whenever a census that the constraints read does; 0 for no constraints.
func (c *Counts) Version(constraints *Constraints) (sum uint64) {
	if constraints == nil {
		return 0
	}
	constraints.Each(func(id ID) { sum += c.censuses[id].version })
	return sum
}

// Tally returns how many pods on the node count in a tally.
func (c *Counts) Tally(slot Slot, id TallyID) int32 {
	for _, t := range c.tallies[slot] {
		if t.ID >= id {
			if t.ID == id {
				return t.Count
			}
			break
		}
	}
	return 0
}

// Tallies returns a slot's row, sorted by ID; the caller must not change it.
func (c *Counts) Tallies(slot Slot) []Tally { return c.tallies[slot] }

// Bump changes a tally on a slot, and the censuses over it.
func (c *Counts) Bump(slot Slot, id TallyID, delta int32) {
	row := c.tallies[slot]
	at, found := slices.BinarySearchFunc(row, id, func(t Tally, id TallyID) int { return int(t.ID) - int(id) })
	count := delta
	switch {
	case !found:
		row = slices.Insert(row, at, Tally{id, delta})
	case row[at].Count+delta == 0:
		row, count = slices.Delete(row, at, at+1), 0
	default:
		row[at].Count += delta
		count = row[at].Count
	}
	c.tallies[slot] = row
	c.hold(slot, id, count)
	c.recount(slot, id, delta)
}

// recount passes a change of a tally on a slot on to the censuses over it. Censuses that this state does not have yet are counted when
// they are built.
func (c *Counts) recount(slot Slot, id TallyID, delta int32) {
	def := c.registry.tallies[id]
	if def == nil {
		return
	}
	for _, id := range def.censuses {
		if c.has(id) {
			c.censuses[id].charge(slot, delta)
		}
	}
}

// CopyTallies makes a slot's row equal to another, keeping the censuses right.
func (c *Counts) CopyTallies(slot Slot, from []Tally) {
	row := c.tallies[slot]
	i := 0
	for _, t := range from {
		for ; i < len(row) && row[i].ID < t.ID; i++ {
			c.recount(slot, row[i].ID, -row[i].Count)
			c.hold(slot, row[i].ID, 0)
		}
		var old int32
		if i < len(row) && row[i].ID == t.ID {
			old = row[i].Count
			i++
		}
		if t.Count != old {
			c.recount(slot, t.ID, t.Count-old)
			c.hold(slot, t.ID, t.Count)
		}
	}
	for ; i < len(row); i++ {
		c.recount(slot, row[i].ID, -row[i].Count)
		c.hold(slot, row[i].ID, 0)
	}
	c.tallies[slot] = append(row[:0], from...)
}

// Vacate empties a slot.
func (c *Counts) Vacate(slot Slot) {
	c.SetNode(slot, nil)
	for _, t := range c.tallies[slot] {
		c.hold(slot, t.ID, 0)
	}
	c.tallies[slot] = c.tallies[slot][:0]
}

// Purge takes tallies that nothing uses any more off a slot, and reports whether there were any.
func (c *Counts) Purge(slot Slot, unused func(TallyID) bool) bool {
	row := c.tallies[slot]
	c.tallies[slot] = slices.DeleteFunc(row, func(t Tally) bool { return unused(t.ID) })
	return len(c.tallies[slot]) != len(row)
}

// Census returns a census by its ID.
func (c *Counts) Census(id ID) *Census { return c.censuses[id] }

// has reports whether this state has built the census that now has the ID.
func (c *Counts) has(id ID) bool {
	return int(id) < len(c.censuses) && c.censuses[id] != nil && c.censuses[id].def == c.registry.censuses[id]
}

// eachCensus visits the censuses that are defined as they were when this state built them.
func (c *Counts) eachCensus(visit func(*Census)) {
	for id := range c.censuses {
		if c.has(ID(id)) {
			visit(c.censuses[id])
		}
	}
}
