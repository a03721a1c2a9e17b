package census

import (
	"fmt"
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
)

// Definitions are what has changed of a Registry since they were made the last time: what Counts elsewhere must know of it. Selectors are not among them, for
// which pods count in what is decided here.
type Definitions struct {
	Generation uint64
	Keys       []KeyDefinition
	Tallies    []TallyDefinition
	Scopes     []ScopeDefinition
	Censuses   []CensusDefinition
}

// KeyDefinition is a topology key; without a name there is none of that number any more.
type KeyDefinition struct {
	ID   KeyID
	Name string
}

// TallyDefinition is what counts. Gone: there is none of that number any more; so with the others below.
type TallyDefinition struct {
	ID              TallyID
	Gone            bool
	Carried, Listed bool
	Role            uint8
	Weight          int64
	Topology        KeyID
}

// ScopeDefinition is which nodes a census looks at.
type ScopeDefinition struct {
	ID           int32
	Gone         bool
	Key          KeyID
	OrEmpty      bool
	Keys         []KeyID
	Selects      bool
	NodeSelector []facts.Label
	Required     []facts.Term
	Taints       bool
	Tolerations  []facts.Toleration
}

// CensusDefinition is a census.
type CensusDefinition struct {
	ID    ID
	Gone  bool
	Tally TallyID
	Terms []TallyID
	Scope int32
}

// DefinitionReader remembers what one reader of a Registry was told.
type DefinitionReader struct {
	generation uint64
	keys       []*topologyKey
	tallies    []*tally
	listed     []bool
	scopes     []*scopeDefinition
	censuses   []*definition
}

// Definitions returns what the reader has not been told, nil for nothing. It costs time proportional to the definitions if any have changed.
func (r *Registry) Definitions(to *DefinitionReader) *Definitions {
	if to.generation == r.generation {
		return nil
	}
	to.generation = r.generation
	d := &Definitions{Generation: r.generation}
	changed(&to.keys, r.keys.list, func(id int32, k *topologyKey) {
		def := KeyDefinition{ID: KeyID(id)}
		if k != nil {
			def.Name = k.name
		}
		d.Keys = append(d.Keys, def)
	})
	for len(to.listed) < len(r.tallies.list) {
		to.listed = append(to.listed, false)
	}
	for id, t := range to.tallies {
		if id < len(r.tallies.list) && t != nil && r.tallies.list[id] == t && to.listed[id] != (t.listed > 0) {
			to.tallies[id] = nil // to be told again
		}
	}
	changed(&to.tallies, r.tallies.list, func(id int32, t *tally) {
		to.listed[id] = t != nil && t.listed > 0
		d.Tallies = append(d.Tallies, t.define(TallyID(id)))
	})
	changed(&to.scopes, r.scopes.list, func(id int32, s *scopeDefinition) { d.Scopes = append(d.Scopes, s.define(id)) })
	changed(&to.censuses, r.censuses.list, func(id int32, c *definition) { d.Censuses = append(d.Censuses, c.define(ID(id))) })
	return d
}

// changed visits the numbers that have another definition than a reader knows, and makes it know them.
func changed[T comparable](known *[]T, list []T, visit func(id int32, now T)) {
	for len(*known) < len(list) {
		var none T
		*known = append(*known, none)
	}
	for id, now := range list {
		if (*known)[id] != now {
			(*known)[id] = now
			visit(int32(id), now)
		}
	}
}

func (t *tally) define(id TallyID) TallyDefinition {
	if t == nil {
		return TallyDefinition{ID: id, Gone: true}
	}
	return TallyDefinition{ID: id, Carried: t.carried, Listed: t.listed > 0, Role: uint8(t.role), Weight: t.weight, Topology: t.topology}
}

func (d *scopeDefinition) define(id int32) ScopeDefinition {
	if d == nil {
		return ScopeDefinition{ID: id, Gone: true}
	}
	e := &d.eligible
	s := ScopeDefinition{ID: id, Key: d.key, OrEmpty: d.orEmpty, Keys: e.keys, Selects: e.selects != nil, Taints: e.taints, Tolerations: e.tolerations}
	if e.selects != nil {
		s.NodeSelector, s.Required = e.selects.NodeSelector, e.selects.Required
	}
	return s
}

func (d *definition) define(id ID) CensusDefinition {
	if d == nil {
		return CensusDefinition{ID: id, Gone: true}
	}
	return CensusDefinition{ID: id, Tally: d.tally, Terms: d.terms, Scope: d.scope}
}

// maxDefinitions bounds the numbers that a Registry elsewhere may name.
const maxDefinitions = 1 << 20

// Mirror makes the Registry define what another does. It selects no pods, and nothing may be defined in it otherwise. After an error it is of no use.
func (r *Registry) Mirror(d *Definitions) error {
	for i := range d.Keys {
		k := &d.Keys[i]
		var fresh *topologyKey
		if k.Name != "" {
			fresh = &topologyKey{name: k.Name, users: 1}
		}
		if err := put(&r.keys, int32(k.ID), fresh); err != nil {
			return fmt.Errorf("topology key: %w", err)
		}
	}
	r.keys.ids = make(map[string]int32, len(r.keys.list))
	for id, k := range r.keys.list {
		if k != nil {
			r.keys.ids[k.name] = int32(id)
		}
	}
	for i := range d.Tallies {
		if err := put(&r.tallies, int32(d.Tallies[i].ID), d.Tallies[i].tally()); err != nil {
			return fmt.Errorf("tally: %w", err)
		}
	}
	for i := range d.Scopes {
		if err := put(&r.scopes, d.Scopes[i].ID, d.Scopes[i].scope()); err != nil {
			return fmt.Errorf("scope: %w", err)
		}
	}
	for i := range d.Censuses {
		if err := put(&r.censuses, int32(d.Censuses[i].ID), d.Censuses[i].census()); err != nil {
			return fmt.Errorf("census: %w", err)
		}
	}
	r.generation = d.Generation
	return r.tie()
}

// put gives a number a definition; nil: none.
func put[T any](t *table[*T], id int32, definition *T) error {
	if id < 0 || id >= maxDefinitions {
		return fmt.Errorf("number %d is not between 0 and %d", id, maxDefinitions-1)
	}
	for int(id) >= len(t.list) {
		t.list = append(t.list, nil)
	}
	t.list[id] = definition
	return nil
}

func (d *TallyDefinition) tally() *tally {
	if d.Gone {
		return nil
	}
	t := &tally{carried: d.Carried, role: role(d.Role), weight: d.Weight, topology: d.Topology, users: 1}
	if d.Listed {
		t.listed = 1
	}
	return t
}

func (d *ScopeDefinition) scope() *scopeDefinition {
	if d.Gone {
		return nil
	}
	e := eligibility{keys: d.Keys, taints: d.Taints, tolerations: d.Tolerations}
	if d.Selects {
		e.selects = &facts.Requirements{NodeSelector: d.NodeSelector, Required: d.Required}
	}
	return &scopeDefinition{key: d.Key, orEmpty: d.OrEmpty, eligible: e, users: 1}
}

func (d *CensusDefinition) census() *definition {
	if d.Gone {
		return nil
	}
	return &definition{tally: d.Tally, terms: d.Terms, scope: d.Scope, users: 1}
}

// tie says to tallies which censuses are of them. It fails where a definition names another that there is not.
func (r *Registry) tie() error {
	for _, t := range r.tallies.list {
		if t == nil {
			continue
		}
		t.censuses = t.censuses[:0]
		if t.carried && !defines(r.keys.list, int32(t.topology)) {
			return fmt.Errorf("a tally names the topology key %d, which is not defined", t.topology)
		}
	}
	for id, s := range r.scopes.list {
		if s == nil {
			continue
		}
		for _, key := range append(slices.Clone(s.eligible.keys), s.key) {
			if !defines(r.keys.list, int32(key)) {
				return fmt.Errorf("scope %d names the topology key %d, which is not defined", id, key)
			}
		}
	}
	for id, c := range r.censuses.list {
		if c == nil {
			continue
		}
		if !defines(r.scopes.list, c.scope) || !defines(r.tallies.list, int32(c.tally)) {
			return fmt.Errorf("census %d names scope %d and tally %d, of which one is not defined", id, c.scope, c.tally)
		}
		if c.terms == nil {
			r.tallies.list[c.tally].censuses = append(r.tallies.list[c.tally].censuses, ID(id))
			continue
		}
		if len(c.terms) == 0 || !slices.IsSorted(c.terms) {
			return fmt.Errorf("the terms of census %d are none, or not sorted", id)
		}
		for _, t := range c.terms {
			if !defines(r.tallies.list, int32(t)) {
				return fmt.Errorf("census %d names the tally %d, which is not defined", id, t)
			}
		}
	}
	return nil
}

func defines[T any](list []*T, id int32) bool {
	return id >= 0 && int(id) < len(list) && list[id] != nil
}

// MirrorSoft makes the constraints of a class whose only ones are soft spread constraints, of what another Registry has defined.
func (r *Registry) MirrorSoft(soft []Spread) (*Constraints, error) {
	for i := range soft {
		s := &soft[i]
		if !defines(r.keys.list, int32(s.Key)) || !defines(r.tallies.list, int32(s.Tally)) || s.Census != None && !defines(r.censuses.list, int32(s.Census)) {
			return nil, fmt.Errorf("a spread constraint by %s names what is not defined", s.TopologyKey)
		}
	}
	return &Constraints{Soft: soft}, nil
}

// Numbers reports whether a tally has such a number, or had.
func (r *Registry) Numbers(id TallyID) bool { return id >= 0 && int(id) < len(r.tallies.list) }
