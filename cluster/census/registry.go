package census

import (
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
)

// KeyID numbers topology keys.
type KeyID int32

// TallyID numbers tallies.
type TallyID int32

// ID numbers censuses.
type ID int32

// None is the ID of no census.
const None ID = -1

// Registry holds the definitions of topology keys, tallies and censuses. IDs are dense.
type Registry struct {
	keys       []*topologyKey
	keyIDs     map[string]KeyID
	tallies    []*tally // nil: the ID is free
	tallyIDs   map[string]TallyID
	censuses   []*definition // nil: the ID is free
	censusIDs  map[string]ID
	eligible   map[string]*eligibility
	generation uint64 // changes when a census, or a list of holders, is asked for or given up
}

// NewRegistry returns a Registry without definitions.
func NewRegistry() *Registry {
	return &Registry{
		keyIDs: make(map[string]KeyID), tallyIDs: make(map[string]TallyID), censusIDs: make(map[string]ID),
		eligible: make(map[string]*eligibility),
	}
}

// KeyName returns the label of a topology key.
func (r *Registry) KeyName(key KeyID) string { return r.keys[key].name }

// DomainName returns the value that a domain stands for.
func (r *Registry) DomainName(key KeyID, d DomainID) string { return r.keys[key].values[d] }

func (r *Registry) key(name string) KeyID {
	if id, ok := r.keyIDs[name]; ok {
		return id
	}
	id := KeyID(len(r.keys))
	r.keys = append(r.keys, newTopologyKey(name))
	r.keyIDs[name] = id
	return id
}

// definition defines a census: a tally, summed over the domains of a topology key, on the nodes that are eligible.
type definition struct {
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

func (e *eligibility) allows(c *Counts, slot Slot) bool {
	node := c.nodes[slot]
	if node == nil {
		return false
	}
	for _, key := range e.keys {
		if c.Domain(key, slot) == NoDomain {
			return false
		}
	}
	if e.selects != nil && !e.selects.Selects(node) {
		return false
	}
	return !e.taints || facts.Untolerated(node, e.tolerations) == nil
}

func (e *eligibility) appendKey(w *facts.Key) {
	w.Number(int64(len(e.keys)))
	for _, key := range e.keys {
		w.Number(int64(key))
	}
	w.Flag(e.selects != nil)
	if e.selects != nil {
		w.Selection(e.selects)
	}
	w.Flag(e.taints)
	if e.taints {
		w.Tolerations(e.tolerations)
	}
}

// tally returns the ID of an equal definition, or of this one; fresh tells which. It counts one more user.
func (r *Registry) tally(t *tally) (id TallyID, fresh bool) {
	t.key = t.encode()
	if id, ok := r.tallyIDs[t.key]; ok {
		r.tallies[id].users++
		return id, false
	}
	t.users = 1
	id = TallyID(slices.Index(r.tallies, nil))
	if id < 0 {
		id = TallyID(len(r.tallies))
		r.tallies = append(r.tallies, nil)
	}
	r.tallies[id] = t
	r.tallyIDs[t.key] = id
	return id, true
}

// census returns the ID of an equal definition, or of this one. It counts one more user.
func (r *Registry) census(def definition, eligible *eligibility) ID {
	var w facts.Key
	w.Number(int64(def.tally))
	w.Number(int64(def.key))
	w.Flag(def.orEmpty)
	prefix := len(w)
	eligible.appendKey(&w)
	if id, ok := r.censusIDs[string(w)]; ok {
		r.censuses[id].users++
		return id
	}
	shared, ok := r.eligible[string(w[prefix:])]
	if !ok {
		shared = eligible
		r.eligible[string(w[prefix:])] = shared
	}
	def.eligible, def.users = shared, 1
	id := ID(slices.Index(r.censuses, nil))
	if id < 0 {
		id = ID(len(r.censuses))
		r.censuses = append(r.censuses, nil)
	}
	r.censuses[id] = &def
	r.censusIDs[string(w)] = id
	t := r.tallies[def.tally]
	t.censuses = append(t.censuses, id)
	r.generation++
	return id
}

// everywhere returns the census of a tally over all nodes that have the topology key.
func (r *Registry) everywhere(t TallyID, key KeyID) ID {
	return r.census(definition{tally: t, key: key}, &eligibility{keys: []KeyID{key}})
}

// dropCensus counts one user less of a census, and forgets it with the last.
func (r *Registry) dropCensus(id ID) {
	def := r.censuses[id]
	def.users--
	if def.users > 0 {
		return
	}
	for key, known := range r.censusIDs {
		if known == id {
			delete(r.censusIDs, key)
			break
		}
	}
	t := r.tallies[def.tally]
	t.censuses = slices.DeleteFunc(t.censuses, func(c ID) bool { return c == id })
	r.censuses[id] = nil
	r.generation++
}

// list asks for the Holders of a tally, once more or once less.
func (r *Registry) list(id TallyID, more int) {
	r.tallies[id].listed += more
	r.generation++
}

// DropTallies counts one user less of each tally. Their IDs stay taken until Purge.
func (r *Registry) DropTallies(list []TallyID) {
	for _, id := range list {
		r.tallies[id].users--
	}
}

// Purge frees the IDs of the tallies that nothing uses any more, after forget has taken them out of everything that names them.
func (r *Registry) Purge(forget func(unused func(TallyID) bool)) {
	unused := func(id TallyID) bool { return r.tallies[id] != nil && r.tallies[id].users == 0 }
	var dead []TallyID
	for id := range r.tallies {
		if unused(TallyID(id)) {
			dead = append(dead, TallyID(id))
		}
	}
	if len(dead) == 0 {
		return
	}
	forget(unused)
	for _, id := range dead {
		delete(r.tallyIDs, r.tallies[id].key)
		r.tallies[id] = nil
	}
}
