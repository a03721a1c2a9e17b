package cluster

import (
	"maps"
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// ClassID numbers classes in the order in which the Store met them. It is never given out twice.
type ClassID uint32

// Class is everything that the placement of a pod depends on: its Requirements, and what stands in the cluster that is about the pod
// (Constraints). It is immutable; pods of one class are interchangeable.
type Class struct {
	*facts.Requirements
	ID ClassID
	// Amounts is Requests by Kind, and one pod.
	Amounts resource.List
	// Charge is what its pods are charged to their queues: Amounts, and GPUs as spec.ResourceGPUMilli.
	Charge resource.List
	// Constraints between pods; nil when there are none.
	Constraints *Constraints

	base    *base
	variant string
	pods    int // how many pods refer to it
}

// Constraints is what ties a pod's place to where other pods stand, as censuses to read.
type Constraints struct {
	// Hard and Soft spread constraints.
	Hard, Soft []Spread
	// Near: required affinity. On a node's domains each must have a pod; NearSelf: or, while none of them has one anywhere, the pod itself
	// would do.
	Near     []CensusID
	NearSelf bool
	// Apart: the pod's own required anti-affinity. On a node's domains none may have a pod.
	Apart []CensusID
	// Repelled: the same, by the terms of pods that are there already.
	Repelled []CensusID
	// Drawn are the preferences, of both sides.
	Drawn []Attraction

	tallies []TallyID // its own, to be released with it
}

// Spread is a spread constraint with where to read it.
type Spread struct {
	*facts.SpreadConstraint
	// Self is 1 if the pod itself would be counted, else 0.
	Self int32
	Key  KeyID
	// Tally counts the pods on one node. A soft constraint on HostnameKey reads it instead of a census, as upstream does.
	Tally TallyID
	// Census is NoCensus in that case.
	Census CensusID
}

// Attraction adds its weight to a node's score for each pod of a census in the node's domain.
type Attraction struct {
	Census CensusID
	Weight int64
}

// Each visits all censuses.
func (c *Constraints) Each(visit func(CensusID)) {
	for _, list := range [][]Spread{c.Hard, c.Soft} {
		for i := range list {
			if list[i].Census != NoCensus {
				visit(list[i].Census)
			}
		}
	}
	for _, list := range [][]CensusID{c.Near, c.Apart, c.Repelled} {
		for _, id := range list {
			visit(id)
		}
	}
	for i := range c.Drawn {
		visit(c.Drawn[i].Census)
	}
}

// base is interned Requirements: what a pod takes of its node, and what its affinity terms mean to others.
type base struct {
	*facts.Requirements
	amounts resource.List
	charge  resource.List
	key     string
	carries []TallyID
	classes []*Class

	reclaims      [facts.ReclaimedKinds]resource.Amount
	asksReclaimed bool
}

// intern returns the base of the requirements. One whose resources do not fit the table is marked impossible rather than dropped.
func (s *Store) intern(r *facts.Requirements) *base {
	s.scratch = r.AppendKey(s.scratch[:0])
	if b, ok := s.bases[string(s.scratch)]; ok {
		return b
	}
	b := &base{Requirements: r, key: string(s.scratch)}
	quantities := append([]resource.Quantity{{Name: resource.NamePods, Amount: 1}}, r.Requests...)
	amounts, err := s.kinds.NewList(quantities)
	if err != nil {
		copied := *r
		copied.Impossible = err.Error()
		b.Requirements = &copied
	}
	b.amounts, b.charge = amounts, s.withGPUs(amounts, b.GPU)
	s.growKinds()
	s.claimReclaimed(b)
	s.bases[b.key] = b
	s.carry(b)
	return b
}

// withGPUs adds GPUs to what is charged to queues.
func (s *Store) withGPUs(amounts resource.List, gpus topology.Request) resource.List {
	if gpus.IsZero() {
		return amounts
	}
	list := append(slices.Clone(amounts), resource.Amount{Kind: s.quota.GPUKind(), Value: gpus.Total()})
	slices.SortFunc(list, func(a, b resource.Amount) int { return int(a.Kind) - int(b.Kind) })
	return list
}

// carry registers the terms through which the pods of a base act on other pods.
func (s *Store) carry(b *base) {
	add := func(what role, term *facts.AffinityTerm, weight int64) {
		t, fresh := s.registry.tally(&tally{
			carried: true, role: what, weight: weight, topo: s.registry.key(term.TopologyKey), selectors: []facts.PodSelector{term.Pods},
		})
		b.carries = append(b.carries, t)
		if fresh {
			s.introduce(t)
		}
	}
	for i := range b.AntiAffinity {
		add(repels, &b.AntiAffinity[i], 0)
	}
	for i := range b.Affinity {
		add(attracts, &b.Affinity[i], hardAffinityWeight)
	}
	for i := range b.PreferredPods {
		add(attracts, &b.PreferredPods[i].AffinityTerm, int64(b.PreferredPods[i].Weight))
	}
	s.learnKeys()
}

// Class returns the class of the requirements for a pod that nothing in the cluster is about, for questions such as "would this fit".
func (s *Store) Class(r *facts.Requirements) *Class { return s.class(s.intern(r), &identity{}) }

// class returns the class of a base for a pod with an identity; nil for a pod that needs no place.
func (s *Store) class(b *base, id *identity) *Class {
	w := facts.Key(nil)
	var self []int32
	if id != nil && (len(id.feels) > 0 || len(b.Spread)+len(b.Affinity)+len(b.AntiAffinity)+len(b.PreferredPods) > 0) {
		self = s.selves(b, id)
		w.Number(1)
		for _, n := range self {
			w.Number(int64(n))
		}
		for _, t := range id.feels {
			w.Number(int64(t))
		}
	}
	for _, class := range b.classes {
		if class.variant == string(w) {
			return class
		}
	}
	class := &Class{Requirements: b.Requirements, ID: s.nextClass, Amounts: b.amounts, Charge: b.charge, base: b, variant: string(w)}
	s.nextClass++
	b.classes = append(b.classes, class)
	if len(w) > 0 {
		class.Constraints = s.constrain(b, self, id.feels)
	}
	s.idle++
	s.sweepClasses(class)
	return class
}

// selves says for each spread constraint, and last for the required affinity as a whole, whether the pod itself is selected.
func (s *Store) selves(b *base, id *identity) []int32 {
	self := make([]int32, 0, len(b.Spread)+1)
	count := func(is bool) {
		if is {
			self = append(self, 1)
			return
		}
		self = append(self, 0)
	}
	for i := range b.Spread {
		count(b.Spread[i].Pods.Selects(id.namespace, id.labels, s.selection.namespaces, false))
	}
	near := len(b.Affinity) > 0
	for i := range b.Affinity {
		near = near && b.Affinity[i].Pods.Selects(id.namespace, id.labels, s.selection.namespaces, false)
	}
	count(near)
	return self
}

// constrain registers the censuses that a class reads.
func (s *Store) constrain(b *base, self []int32, feels []TallyID) *Constraints {
	c := &Constraints{NearSelf: self[len(self)-1] == 1}
	s.constrainSpread(c, b, self)
	if len(b.Affinity) > 0 {
		all := make([]facts.PodSelector, len(b.Affinity))
		for i := range b.Affinity {
			all[i] = b.Affinity[i].Pods
		}
		t := s.count(c, &tally{selectors: all})
		for i := range b.Affinity {
			c.Near = append(c.Near, s.anywhere(t, b.Affinity[i].TopologyKey))
		}
	}
	for i := range b.AntiAffinity {
		t := s.count(c, &tally{selectors: []facts.PodSelector{b.AntiAffinity[i].Pods}})
		c.Apart = append(c.Apart, s.anywhere(t, b.AntiAffinity[i].TopologyKey))
	}
	for i := range b.PreferredPods {
		p := &b.PreferredPods[i]
		t := s.count(c, &tally{selectors: []facts.PodSelector{p.Pods}})
		c.Drawn = append(c.Drawn, Attraction{s.anywhere(t, p.TopologyKey), int64(p.Weight)})
	}
	for _, t := range feels {
		def := s.registry.tallies[t]
		def.users++
		c.tallies = append(c.tallies, t)
		census := s.anywhere(t, s.registry.keys[def.topo].name)
		if def.role == repels {
			c.Repelled = append(c.Repelled, census)
		} else {
			c.Drawn = append(c.Drawn, Attraction{census, def.weight})
		}
	}
	s.learn()
	return c
}

func (s *Store) constrainSpread(c *Constraints, b *base, self []int32) {
	var hard, soft []KeyID
	for i := range b.Spread {
		key := s.registry.key(b.Spread[i].TopologyKey)
		if b.Spread[i].Hard {
			hard = append(hard, key)
		} else if !b.Spread[i].Default {
			soft = append(soft, key)
		}
	}
	for i := range b.Spread {
		spread := Spread{SpreadConstraint: &b.Spread[i], Self: self[i], Key: s.registry.key(b.Spread[i].TopologyKey), Census: NoCensus}
		pods := spread.Pods
		if pods.Labels.MatchesAll() {
			pods.Labels = facts.LabelSelector{Nothing: true} // upstream counts nothing for an empty selector
		}
		spread.Tally = s.count(c, &tally{liveOnly: true, selectors: []facts.PodSelector{pods}})
		keys := soft
		if spread.Hard {
			keys = hard
		}
		if spread.Hard || spread.TopologyKey != facts.HostnameKey {
			spread.Census = s.registry.census(
				censusDef{tally: spread.Tally, key: spread.Key, orEmpty: spread.Default}, spread.eligibility(b, keys))
		}
		if spread.Census == NoCensus {
			s.registry.list(spread.Tally, 1)
		}
		if spread.Hard {
			c.Hard = append(c.Hard, spread)
		} else {
			c.Soft = append(c.Soft, spread)
		}
	}
}

func (s *Spread) eligibility(b *base, keys []KeyID) *eligibility {
	e := &eligibility{keys: slices.Clone(keys)}
	slices.Sort(e.keys)
	e.keys = slices.Compact(e.keys)
	if s.HonorAffinity && (len(b.NodeSelector) > 0 || b.Required != nil) {
		e.selects = b.Requirements
	}
	if s.HonorTaints {
		e.taints, e.tolerations = true, b.Tolerations
	}
	return e
}

// count registers a tally for a class.
func (s *Store) count(c *Constraints, t *tally) TallyID {
	id, fresh := s.registry.tally(t)
	c.tallies = append(c.tallies, id)
	if fresh {
		s.introduce(id)
	}
	return id
}

// anywhere registers the census of a tally over all nodes that have the topology key.
func (s *Store) anywhere(t TallyID, key string) CensusID {
	id := s.registry.key(key)
	return s.registry.census(censusDef{tally: t, key: id}, &eligibility{keys: []KeyID{id}})
}

// reclass makes the pod refer to another class (nil: none). The pod must not be charged with the old one, unless their bases are equal.
func (s *Store) reclass(pod *Pod, class *Class) {
	if pod.Class == class {
		return
	}
	if class != nil {
		if class.pods == 0 {
			s.idle--
		}
		class.pods++
	}
	if old := pod.Class; old != nil {
		old.pods--
		if old.pods == 0 {
			s.idle++
		}
	}
	if class != nil {
		pod.Class = class
	}
}

// sweepClasses forgets idle classes, except one, when too many have gathered.
func (s *Store) sweepClasses(keep *Class) {
	if s.idle <= MaxIdleClasses {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(s.bases)) {
		b := s.bases[key]
		b.classes = slices.DeleteFunc(b.classes, func(class *Class) bool {
			if class.pods > 0 || class == keep {
				return false
			}
			s.releaseClass(class)
			s.idle--
			return true
		})
		if len(b.classes) == 0 && b != keep.base {
			for _, t := range b.carries {
				s.registry.dropTally(t)
			}
			delete(s.bases, key)
		}
	}
	s.purgeTallies()
}

// releaseClass gives up what a class has registered.
func (s *Store) releaseClass(class *Class) {
	if class.Constraints == nil {
		return
	}
	class.Constraints.Each(s.registry.dropCensus)
	for i := range class.Constraints.Soft {
		if soft := &class.Constraints.Soft[i]; soft.Census == NoCensus {
			s.registry.list(soft.Tally, -1)
		}
	}
	for _, t := range class.Constraints.tallies {
		s.registry.dropTally(t)
	}
}

// purgeTallies takes the tallies that nobody uses any more out of identities and rows, so that their IDs can be given out again.
func (s *Store) purgeTallies() {
	dead := make(map[TallyID]bool)
	for id, def := range s.registry.tallies {
		if def != nil && def.users == 0 {
			dead[TallyID(id)] = true
		}
	}
	if len(dead) == 0 {
		return
	}
	for _, id := range s.selection.identities {
		for _, list := range []*[]TallyID{&id.counts, &id.live, &id.feels} {
			*list = slices.DeleteFunc(*list, func(t TallyID) bool { return dead[t] })
		}
	}
	for slot, row := range s.tallies {
		left := slices.DeleteFunc(row, func(t Tally) bool { return dead[t.ID] })
		if len(left) != len(row) {
			s.tallies[slot] = left
			s.note(Slot(slot), Recounted)
		}
	}
	for t := range dead {
		delete(s.registry.tallyIDs, s.registry.tallies[t].key)
		s.registry.tallies[t] = nil
	}
}
