package census

import (
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
)

// tally defines what is counted on a node: pods that every one of the selectors selects, or (carried) pods whose class has an affinity term.
type tally struct {
	key       string
	selectors []facts.PodSelector // of a carried term: the pods that it is about
	carried   bool
	// acts: of a carried term, pods know it that it is about. A term acts from when the first pod that carries it has a place, see Registry.Act.
	acts bool
	// liveOnly: pods that are being deleted do not count (topology spread counts so, affinity does not).
	liveOnly bool
	// role, weight and topology of a carried term.
	role     role
	weight   int64
	topology KeyID

	since    uint64 // the registry's generation that brought it
	users    int
	listed   int // classes that read its Holders
	censuses []ID
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

func (t *tally) encode() string {
	var w facts.Key
	w.Flag(t.carried)
	w.Flag(t.liveOnly)
	w.Number(int64(t.role))
	w.Number(t.weight)
	w.Number(int64(t.topology))
	w.Number(int64(len(t.selectors)))
	for i := range t.selectors {
		w.PodSelector(&t.selectors[i])
	}
	return string(w)
}

// Subject is what selectors see of a pod.
type Subject struct {
	Namespace string
	Labels    []facts.Label
}

// Namespaces are the labels of the known namespaces.
type Namespaces map[string][]facts.Label

// selects reports whether all selectors select the subject.
func (t *tally) selects(s *Subject, namespaces Namespaces) bool {
	for i := range t.selectors {
		if !t.selectors[i].Selects(s.Namespace, s.Labels, namespaces, t.carried) {
			return false
		}
	}
	return true
}

// Matches are the tallies that have to do with pods of one Subject. Each list is sorted.
type Matches struct {
	// Counted: the pods count in these. CountedLive: in these too, unless they are being deleted.
	Counted, CountedLive []TallyID
	// AffectedBy: these count pods that carry a term which is about the subject's pods.
	AffectedBy []TallyID
}

// Match returns the tallies that have to do with a subject; of carried terms, those that act.
func (r *Registry) Match(s *Subject, namespaces Namespaces) (m Matches) {
	for _, list := range [][]TallyID{r.inNamespace[s.Namespace], r.anywhere} {
		for _, id := range list {
			if r.tallies.list[id].selects(s, namespaces) {
				r.Include(&m, id)
			}
		}
	}
	return m
}

// Kind is which pods of a selected subject a tally counts.
type Kind uint8

const (
	// All: all of them.
	All Kind = iota
	// LiveOnly: those that are not being deleted.
	LiveOnly
	// Carried: none of them. It counts the pods that carry a term which is about the subject's pods.
	Carried
)

// Include adds a tally to the list that it belongs in, and returns its kind.
func (r *Registry) Include(m *Matches, id TallyID) Kind {
	kind, list := All, &m.Counted
	switch def := r.tallies.list[id]; {
	case def.carried:
		kind, list = Carried, &m.AffectedBy
	case def.liveOnly:
		kind, list = LiveOnly, &m.CountedLive
	}
	if at, found := slices.BinarySearch(*list, id); !found {
		*list = slices.Insert(*list, at, id)
	}
	return kind
}

// Selects reports whether the selectors of a tally select a subject.
func (r *Registry) Selects(id TallyID, s *Subject, namespaces Namespaces) bool {
	return r.tallies.list[id].selects(s, namespaces)
}

// Namespaces lists the namespaces whose pods the tally can select; all says that only their labels tell.
func (r *Registry) Namespaces(id TallyID) (list []string, all bool) {
	return r.tallies.list[id].namespaces()
}

func (t *tally) namespaces() (list []string, all bool) {
	if slices.ContainsFunc(t.selectors, func(p facts.PodSelector) bool { return p.NamespaceSelector != nil }) {
		return nil, true
	}
	return t.selectors[0].Namespaces, false
}

// Act makes a carried term known to the pods that it is about, and reports whether it was not before. The pods that are there have still to be told of it.
//
// What pods that wait carry counts nowhere, so that nobody needs to know it: else each pod that arrives with a term of its own would have every pod judged anew
// that the term is about.
func (r *Registry) Act(id TallyID) (fresh bool) {
	t := r.tallies.list[id]
	if t.acts {
		return false
	}
	r.changing()
	t.acts = true
	r.file(t, func(list []TallyID) []TallyID { return append(list, id) })
	r.generation++
	t.since = r.generation
	return true
}

// Equal reports whether two lists of matches are the same.
func (m *Matches) Equal(o *Matches) bool {
	return slices.Equal(m.Counted, o.Counted) && slices.Equal(m.CountedLive, o.CountedLive) && slices.Equal(m.AffectedBy, o.AffectedBy)
}

// Remove takes out the tallies that gone names.
func (m *Matches) Remove(gone func(TallyID) bool) {
	for _, list := range []*[]TallyID{&m.Counted, &m.CountedLive, &m.AffectedBy} {
		*list = slices.DeleteFunc(*list, gone)
	}
}
