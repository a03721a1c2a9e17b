package cluster

import "slices"

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
	selectors []PodSelector // of a carried term: the pods that it is about
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
func (t *tally) matches(id *identity, namespaces map[string][]Label) bool {
	for i := range t.selectors {
		if !t.selectors[i].matches(id, namespaces, t.carried) {
			return false
		}
	}
	return true
}

// matches reports whether the selector selects pods with this identity. A namespace that is not known has no labels for the terms of pods
// that are there already (unknown is true), but is selected by none of an incoming pod's, unless they select every namespace: so upstream.
func (p *PodSelector) matches(id *identity, namespaces map[string][]Label, unknown bool) bool {
	return (slices.Contains(p.Namespaces, id.namespace) || p.selectsNamespace(id.namespace, namespaces, unknown)) && p.Labels.Matches(id.labels)
}

func (p *PodSelector) selectsNamespace(name string, namespaces map[string][]Label, unknown bool) bool {
	if p.NamespaceSelector == nil {
		return false
	}
	labels, known := namespaces[name]
	return (known || unknown || p.NamespaceSelector.MatchesAll()) && p.NamespaceSelector.Matches(labels)
}

// wide reports whether the selector looks at namespaces' labels.
func (t *tally) wide() bool {
	return slices.ContainsFunc(t.selectors, func(p PodSelector) bool { return p.NamespaceSelector != nil })
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
