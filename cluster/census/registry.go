package census

import (
	"crypto/sha256"
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

// Registry holds the definitions of topology keys, tallies, scopes and censuses, and counts what uses each. A definition that nothing uses any
// more is forgotten, and its ID given out again. IDs are dense.
type Registry struct {
	keys     table[*topologyKey]
	tallies  table[*tally]
	scopes   table[*scopeDefinition]
	censuses table[*definition]
	// Tallies by the namespaces whose pods they can select, so that a pod of one namespace is never matched against another's selectors.
	inNamespace map[string][]TallyID
	anywhere    []TallyID // those that select namespaces by their labels
	generation  uint64    // changes with every definition

	beforeChange func() // nil: nobody reads beside the ledger
}

// BeforeChange has a function called each time before the definitions change, for readers that read them beside the ledger's own goroutine: it returns when none of
// them does.
func (r *Registry) BeforeChange(wait func()) { r.beforeChange = wait }

// changing must be called before a definition changes that readers of Counts read.
func (r *Registry) changing() {
	if r.beforeChange != nil {
		r.beforeChange()
	}
}

// NewRegistry returns a Registry without definitions.
func NewRegistry() *Registry {
	return &Registry{
		keys: newTable[*topologyKey](), tallies: newTable[*tally](), scopes: newTable[*scopeDefinition](), censuses: newTable[*definition](),
		inNamespace: make(map[string][]TallyID),
	}
}

// Size is how many definitions of each kind there are.
type Size struct{ TopologyKeys, Tallies, Censuses int }

// Size returns how many definitions there are.
func (r *Registry) Size() Size {
	return Size{TopologyKeys: r.keys.used(), Tallies: r.tallies.used(), Censuses: r.censuses.used()}
}

// KeyName returns the label of a topology key.
func (r *Registry) KeyName(key KeyID) string { return r.keys.list[key].name }

// topologyKey is a node label whose values are domains.
type topologyKey struct {
	name  string
	users int
}

// definition defines a census: a tally, summed over the domains of a scope.
//
// Or it is of several terms, sorted, which carry one role by one topology key. Thousands of terms may be about a pod, each unlike the others; to add them up once is
// what keeps a decision on it from reading thousands of censuses for each node.
type definition struct {
	key   string
	tally TallyID
	terms []TallyID // nil: it is of the tally
	scope int32
	users int
}

// scopeDefinition defines which nodes a census looks at, and by which topology key it divides them.
type scopeDefinition struct {
	text     string
	key      KeyID
	orEmpty  bool // nodes without the key count as having it with an empty value
	eligible eligibility
	users    int
}

// everywhere reports whether the eligible nodes are just those that have the key.
func (d *scopeDefinition) everywhere() bool {
	e := &d.eligible
	return !d.orEmpty && e.selects == nil && !e.taints && len(e.keys) == 1 && e.keys[0] == d.key
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

func (d *scopeDefinition) encode() string {
	e := &d.eligible
	var w facts.Key
	w.Number(int64(d.key))
	w.Flag(d.orEmpty)
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
	return string(w)
}

// useKey returns the ID of a topology key, and counts one more user.
func (r *Registry) useKey(name string) KeyID {
	id, known := r.keys.find(name)
	if !known {
		r.changing()
		id = r.keys.add(name, &topologyKey{name: name})
		r.generation++
	}
	r.keys.list[id].users++
	return KeyID(id)
}

// dropKey counts one user less.
func (r *Registry) dropKey(id KeyID) {
	key := r.keys.list[id]
	if key.users--; key.users == 0 {
		r.changing()
		r.keys.remove(key.name)
		r.generation++
	}
}

// useTally returns the ID of an equal definition, or of this one; fresh tells which. It counts one more user.
func (r *Registry) useTally(t *tally) (_ TallyID, fresh bool) {
	t.key = t.encode()
	if id, known := r.tallies.find(t.key); known {
		r.tallies.list[id].users++
		return TallyID(id), false
	}
	r.changing()
	t.users = 1
	id := TallyID(r.tallies.add(t.key, t))
	if t.carried {
		r.keys.list[t.topology].users++
	}
	if !t.carried {
		r.file(t, func(list []TallyID) []TallyID { return append(list, id) })
	}
	r.generation++
	t.since = r.generation
	return id, true
}

// file edits the lists that a tally belongs in.
func (r *Registry) file(t *tally, edit func([]TallyID) []TallyID) {
	namespaces, all := t.namespaces()
	if all {
		r.anywhere = edit(r.anywhere)
		return
	}
	sorted := slices.Clone(namespaces)
	slices.Sort(sorted)
	for _, namespace := range slices.Compact(sorted) {
		if list := edit(r.inNamespace[namespace]); len(list) > 0 {
			r.inNamespace[namespace] = list
		} else {
			delete(r.inNamespace, namespace)
		}
	}
}

// useCensus returns the ID of the census of a tally over a scope, and counts one more user of it. The scope's definition is completed here.
func (r *Registry) useCensus(t TallyID, d *scopeDefinition) ID {
	scope := r.scope(d)
	var w facts.Key
	w.Number(int64(t))
	w.Number(int64(scope))
	id, known := r.censuses.find(string(w))
	if !known {
		r.changing()
		def := &definition{key: string(w), tally: t, scope: scope}
		id = r.censuses.add(def.key, def)
		of := r.tallies.list[t]
		of.censuses = append(of.censuses, ID(id))
		r.scopes.list[scope].users++
		r.generation++
	}
	r.censuses.list[id].users++
	return ID(id)
}

// scope returns the number of an equal scope, or of this one. Censuses use it, and each of them counts as a user.
func (r *Registry) scope(d *scopeDefinition) int32 {
	d.text = d.encode()
	if id, known := r.scopes.find(d.text); known {
		return id
	}
	r.changing()
	for _, key := range append(d.eligible.keys, d.key) {
		r.keys.list[key].users++
	}
	r.generation++
	return r.scopes.add(d.text, d)
}

// everywhere returns the census of a tally over all nodes that have the topology key.
func (r *Registry) everywhere(t TallyID, key KeyID) ID {
	return r.useCensus(t, &scopeDefinition{key: key, eligible: eligibility{keys: []KeyID{key}}})
}

// useSum returns the ID of the census of several terms, sorted, over all nodes that have their topology key, and counts one more user of it. Whoever uses it uses the
// terms too.
func (r *Registry) useSum(terms []TallyID, key KeyID) ID {
	scope := r.scope(&scopeDefinition{key: key, eligible: eligibility{keys: []KeyID{key}}})
	digest := sha256.New()
	var w facts.Key
	for _, t := range terms {
		w.Number(int64(t))
	}
	digest.Write(w)
	w = w[:0]
	w.Number(int64(scope))
	text := "sum " + string(w) + string(digest.Sum(nil))
	id, known := r.censuses.find(text)
	if !known {
		r.changing()
		id = r.censuses.add(text, &definition{key: text, tally: terms[0], terms: terms, scope: scope})
		r.scopes.list[scope].users++
		r.generation++
	}
	r.censuses.list[id].users++
	return ID(id)
}

// dropCensus counts one user less of a census, and forgets it with the last.
func (r *Registry) dropCensus(id ID) {
	def := r.censuses.list[id]
	if def.users--; def.users > 0 {
		return
	}
	r.changing()
	if def.terms == nil {
		t := r.tallies.list[def.tally]
		t.censuses = slices.DeleteFunc(t.censuses, func(c ID) bool { return c == id })
	}
	r.censuses.remove(def.key)
	r.generation++
	scope := r.scopes.list[def.scope]
	if scope.users--; scope.users > 0 {
		return
	}
	r.scopes.remove(scope.text)
	for _, key := range append(scope.eligible.keys, scope.key) {
		r.dropKey(key)
	}
}

// listHolders asks for the Holders of a tally, once more or once less.
func (r *Registry) listHolders(id TallyID, more int) {
	r.changing()
	r.tallies.list[id].listed += more
	r.generation++
}

// DropTallies counts one user less of each tally. Their IDs stay taken until Purge.
func (r *Registry) DropTallies(list []TallyID) {
	for _, id := range list {
		r.tallies.list[id].users--
	}
}

// Purge frees the IDs of the tallies that nothing uses any more, after forget has taken them out of everything that names them.
func (r *Registry) Purge(forget func(unused func(TallyID) bool)) {
	unused := func(id TallyID) bool { return r.tallies.list[id] != nil && r.tallies.list[id].users == 0 }
	var dead []TallyID
	for id := range r.tallies.list {
		if unused(TallyID(id)) {
			dead = append(dead, TallyID(id))
		}
	}
	if len(dead) == 0 {
		return
	}
	r.changing()
	forget(unused)
	for _, id := range dead {
		t := r.tallies.list[id]
		if !t.carried || t.acts {
			r.file(t, func(list []TallyID) []TallyID {
				return slices.DeleteFunc(list, func(x TallyID) bool { return x == id })
			})
		}
		if t.carried {
			r.dropKey(t.topology)
		}
		r.tallies.remove(t.key)
	}
	r.generation++
}
