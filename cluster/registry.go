package cluster

import (
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
)

// registry holds what the Store and its Snapshots share: the definitions of topology keys, tallies and censuses. Only the Store changes
// it; IDs are dense, and given out again only after every reader has been told through the log or the generation.
type registry struct {
	keys       []*topologyKey
	keyIDs     map[string]KeyID
	tallies    []*tally // nil: the ID is free
	tallyIDs   map[string]TallyID
	censuses   []*censusDef // nil: the ID is free
	censusIDs  map[string]CensusID
	eligible   map[string]*eligibility
	generation uint64 // changes when a census, or a list of holders, is asked for or given up
}

func newRegistry() *registry {
	return &registry{
		keyIDs: make(map[string]KeyID), tallyIDs: make(map[string]TallyID), censusIDs: make(map[string]CensusID),
		eligible: make(map[string]*eligibility),
	}
}

func (r *registry) key(name string) KeyID {
	if id, ok := r.keyIDs[name]; ok {
		return id
	}
	id := KeyID(len(r.keys))
	r.keys = append(r.keys, newTopologyKey(name))
	r.keyIDs[name] = id
	return id
}

// tally returns the ID of an equal definition, or of this one; fresh tells which. It counts one more user.
func (r *registry) tally(t *tally) (id TallyID, fresh bool) {
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

func (t *tally) encode() string {
	var w facts.Key
	w.Flag(t.carried)
	w.Flag(t.liveOnly)
	w.Number(int64(t.role))
	w.Number(t.weight)
	w.Number(int64(t.topo))
	w.Number(int64(len(t.selectors)))
	for i := range t.selectors {
		w.PodSelector(&t.selectors[i])
	}
	return string(w)
}

// census returns the ID of an equal definition, or of this one. It counts one more user.
func (r *registry) census(def censusDef, eligible *eligibility) CensusID {
	var w facts.Key
	w.Number(int64(def.tally))
	w.Number(int64(def.key))
	w.Flag(def.orEmpty)
	prefix := len(w)
	appendEligibility(&w, eligible)
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
	id := CensusID(slices.Index(r.censuses, nil))
	if id < 0 {
		id = CensusID(len(r.censuses))
		r.censuses = append(r.censuses, nil)
	}
	r.censuses[id] = &def
	r.censusIDs[string(w)] = id
	t := r.tallies[def.tally]
	t.censuses = append(t.censuses, id)
	r.generation++
	return id
}

func appendEligibility(w *facts.Key, e *eligibility) {
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

// dropCensus counts one user less of a census, and forgets it with the last.
func (r *registry) dropCensus(id CensusID) {
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
	t.censuses = slices.DeleteFunc(t.censuses, func(c CensusID) bool { return c == id })
	r.censuses[id] = nil
	r.generation++
}

// list asks for the Holders of a tally, once more or once less.
func (r *registry) list(id TallyID, more int) {
	r.tallies[id].listed += more
	r.generation++
}

// dropTally counts one user less of a tally. Its ID stays taken until the Store has purged it.
func (r *registry) dropTally(id TallyID) { r.tallies[id].users-- }
