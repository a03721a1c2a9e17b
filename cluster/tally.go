package cluster

import (
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
)

// TallyID numbers tallies.
type TallyID int32

// Tally is how many pods on a node count in something.
type Tally struct {
	ID    TallyID
	Count int32
}

// tally defines what is counted: pods that every one of the selectors selects, or (carried) pods whose class has an affinity term.
type tally struct {
	key       string
	selectors []facts.PodSelector // of a carried term: the pods that it is about
	carried   bool
	// liveOnly: pods that are being deleted do not count (topology spread counts so, affinity does not).
	liveOnly bool
	// role and weight of a carried term.
	role   role
	weight int64
	topo   KeyID

	users    int
	listed   int // classes that read its Holders
	censuses []CensusID
}

// role is what a term does to the pods that it is about, seen from their side.
type role uint8

const (
	noRole   role = iota
	repels        // required anti-affinity of the pod that is there already
	attracts      // a preference (or a required affinity, at hardAffinityWeight) of the pod that is there already
)

// hardAffinityWeight is the weight of a pod's required affinity for the pods that it is about, as in upstream's default profile.
const hardAffinityWeight = 1

// matches reports whether all selectors select a pod with this identity.
func (t *tally) matches(id *identity, namespaces map[string][]facts.Label) bool {
	for i := range t.selectors {
		if !t.selectors[i].Selects(id.namespace, id.labels, namespaces, t.carried) {
			return false
		}
	}
	return true
}

// wide reports whether the selector looks at namespaces' labels.
func (t *tally) wide() bool {
	return slices.ContainsFunc(t.selectors, func(p facts.PodSelector) bool { return p.NamespaceSelector != nil })
}

// TallyAt returns how many pods on the node count in a tally.
func (s *State) TallyAt(slot Slot, id TallyID) int32 {
	for _, t := range s.tallies[slot] {
		if t.ID >= id {
			if t.ID == id {
				return t.Count
			}
			break
		}
	}
	return 0
}

// bump changes a tally on a slot, and the censuses over it.
func (s *State) bump(slot Slot, id TallyID, delta int32) {
	row := s.tallies[slot]
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
	s.tallies[slot] = row
	s.held(slot, id, count)
	s.recount(slot, id, delta)
}

// recount passes a change of a tally on a slot on to the censuses over it. Censuses that this state does not have yet are counted when
// they are built.
func (s *State) recount(slot Slot, id TallyID, delta int32) {
	def := s.registry.tallies[id]
	if def == nil {
		return
	}
	for _, c := range def.censuses {
		if s.has(c) {
			s.censuses[c].charge(s, slot, delta)
		}
	}
}

// copyTallies makes a slot's row equal to another, keeping the censuses right.
func (s *State) copyTallies(slot Slot, from []Tally) {
	row := s.tallies[slot]
	i := 0
	for _, t := range from {
		for ; i < len(row) && row[i].ID < t.ID; i++ {
			s.recount(slot, row[i].ID, -row[i].Count)
			s.held(slot, row[i].ID, 0)
		}
		var old int32
		if i < len(row) && row[i].ID == t.ID {
			old = row[i].Count
			i++
		}
		if t.Count != old {
			s.recount(slot, t.ID, t.Count-old)
			s.held(slot, t.ID, t.Count)
		}
	}
	for ; i < len(row); i++ {
		s.recount(slot, row[i].ID, -row[i].Count)
		s.held(slot, row[i].ID, 0)
	}
	s.tallies[slot] = append(row[:0], from...)
}

// Holders are the slots on which a tally is above zero, for readers to whom all other nodes are alike.
type Holders struct {
	def   *tally
	slots []Slot
	at    map[Slot]int32
}

// Slots lists them, in no particular order; the caller must not change the slice.
func (h *Holders) Slots() []Slot { return h.slots }

// set says whether a slot holds any.
func (h *Holders) set(slot Slot, holds bool) {
	at, held := h.at[slot]
	switch {
	case holds && !held:
		h.at[slot] = int32(len(h.slots))
		h.slots = append(h.slots, slot)
	case !holds && held:
		last := h.slots[len(h.slots)-1]
		h.slots[at] = last
		h.at[last] = at
		h.slots = h.slots[:len(h.slots)-1]
		delete(h.at, slot)
	}
}

// Holders returns the slots that hold pods of a tally which a soft spread constraint counts on the node itself.
func (s *State) Holders(id TallyID) *Holders { return s.holders[id] }

// lists reports whether this state keeps the holders of a tally, as it is defined now.
func (s *State) lists(id TallyID) bool {
	return int(id) < len(s.holders) && s.holders[id] != nil && s.holders[id].def == s.registry.tallies[id]
}

// held takes note of a slot's new count.
func (s *State) held(slot Slot, id TallyID, count int32) {
	if s.lists(id) {
		s.holders[id].set(slot, count > 0)
	}
}

// learnHolders builds the lists that classes ask for and this state does not have yet.
func (s *State) learnHolders() {
	for len(s.holders) < len(s.registry.tallies) {
		s.holders = append(s.holders, nil)
	}
	for id, def := range s.registry.tallies {
		switch {
		case def == nil || def.listed == 0:
			s.holders[id] = nil
		case s.holders[id] == nil || s.holders[id].def != def:
			h := &Holders{def: def, at: make(map[Slot]int32)}
			for slot := range s.nodes {
				if s.TallyAt(Slot(slot), TallyID(id)) > 0 {
					h.set(Slot(slot), true)
				}
			}
			s.holders[id] = h
		}
	}
}
