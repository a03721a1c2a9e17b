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
// owns the state says what changed (SetNode, Bump, CopyTallies); what is built of columns, scopes, censuses and holders follows. Each is built
// when it is first read, so that a class nobody decides on costs nothing here.
type Counts struct {
	registry *Registry
	nodes    []*facts.Node        // by slot, nil where it is vacant
	tallies  [][]Tally            // by slot, sorted by ID
	labels   map[string]*labelUse // of the nodes
	columns  []*domainColumn      // by topology key; nil: not built. So too below
	scopes   []*scope
	censuses []*Census
	sums     []*Census  // those of several terms among them, and outdated ones
	holders  []*Holders // by tally
	learned  uint64     // the registry's generation whose tallies the rows reflect
}

// NewCounts returns the counts of a state without slots.
func NewCounts(r *Registry) Counts { return Counts{registry: r, labels: make(map[string]*labelUse)} }

// Registry holds the definitions.
func (c *Counts) Registry() *Registry { return c.registry }

// AddSlot appends a vacant slot.
func (c *Counts) AddSlot() {
	c.nodes = append(c.nodes, nil)
	c.tallies = append(c.tallies, nil)
}

// SetNode gives a slot another node (nil: none): its domains and what the censuses count change with it.
func (c *Counts) SetNode(slot Slot, node *facts.Node) {
	c.recountRow(slot, -1)
	c.eachScope(func(s *scope) { s.leave(slot) })
	c.setLabels(slot, c.nodes[slot], false)
	c.nodes[slot] = node
	c.setLabels(slot, node, true)
	c.eachScope(func(s *scope) { s.enter(slot) })
	c.recountRow(slot, 1)
}

// recountRow passes all tallies of a slot on to the censuses over them, sign times.
func (c *Counts) recountRow(slot Slot, sign int32) {
	for _, t := range c.tallies[slot] {
		c.recount(slot, t.ID, sign*t.Count)
	}
}

// Copy replaces the counts by those of another state.
func (c *Counts) Copy(from *Counts) {
	tallies := c.tallies[:0]
	*c = NewCounts(from.registry)
	for _, row := range from.tallies {
		tallies = append(tallies, slices.Clone(row))
	}
	c.tallies = tallies
	c.nodes = slices.Clone(from.nodes)
	for slot, node := range c.nodes {
		c.setLabels(Slot(slot), node, true)
	}
	c.Learn()
}

// Learn says that the rows have the tallies of all definitions. What the registry does not define any more is forgotten.
func (c *Counts) Learn() {
	if c.learned == c.registry.generation {
		return
	}
	c.learned = c.registry.generation
	c.forgetColumns()
	for id, s := range c.scopes {
		if s != nil && (id >= len(c.registry.scopes.list) || c.registry.scopes.list[id] != s.def) {
			c.scopes[id] = nil
		}
	}
	for id := range c.censuses {
		if !c.has(ID(id)) {
			c.censuses[id] = nil
		}
	}
	c.sums = slices.DeleteFunc(c.sums, (*Census).outdated)
	for id := range c.holders {
		if !c.lists(TallyID(id)) {
			c.holders[id] = nil
		}
	}
}

// Knows reports whether the rows have all that the constraints read (nil: nothing). Those of a snapshot that has not been advanced since the
// constraints came up do not.
func (c *Counts) Knows(constraints *Constraints) bool {
	return constraints == nil || constraints.since <= c.learned
}

// Version changes whenever a census that the constraints read does; 0 for no constraints.
func (c *Counts) Version(constraints *Constraints) (sum uint64) {
	if constraints == nil {
		return 0
	}
	constraints.Each(func(id ID) {
		census := c.Census(id)
		sum += census.version + census.scope.version
	})
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
	def := c.registry.tallies.list[id]
	if def == nil {
		return
	}
	for _, id := range def.censuses {
		if c.has(id) {
			c.censuses[id].charge(slot, delta)
		}
	}
	if def.carried {
		for _, sum := range c.sums {
			if !sum.outdated() {
				sum.addTerm(slot, id, delta)
			}
		}
	}
}

// outdated reports whether the registry does not define a census of several terms any more, or its state has another in its place.
func (c *Census) outdated() bool {
	list := c.in.registry.censuses.list
	return int(c.id) >= len(list) || list[c.id] != c.def || c.in.censuses[c.id] != c
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

// has reports whether this state has built the census that now has the ID.
func (c *Counts) has(id ID) bool {
	return int(id) < len(c.censuses) && c.censuses[id] != nil &&
		int(id) < len(c.registry.censuses.list) && c.censuses[id].def == c.registry.censuses.list[id]
}

// eachScope visits the scopes that this state has built, and that are in use.
func (c *Counts) eachScope(visit func(*scope)) {
	for id, s := range c.scopes {
		if s != nil && s.def == c.registry.scopes.list[id] {
			visit(s)
		}
	}
}
