package census

import (
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
)

// Constraints are what ties a pod's place to where other pods are, as censuses to read.
type Constraints struct {
	// Hard and Soft spread constraints.
	Hard, Soft []Spread
	// Affinity is the pod's own required affinity: each of the node's domains must have a pod. AffinitySelf: while no domain anywhere has one,
	// the pod itself would do.
	Affinity     []ID
	AffinitySelf bool
	// AntiAffinity is the pod's own required anti-affinity: none of the node's domains may have a pod.
	AntiAffinity []ID
	// ExistingAntiAffinity is the same, by the terms of pods that have a place already.
	ExistingAntiAffinity []ID
	// Preferred are the preferences, of the pod and of pods that have a place already.
	Preferred []Preference

	tallies []TallyID // its own, to be released with it
	keys    []KeyID   // so too
	since   uint64    // the registry's generation that brought the latest of the tallies
}

// Spread is a spread constraint with where to read it.
type Spread struct {
	*facts.SpreadConstraint
	// Self is 1 if the pod itself would be counted, else 0.
	Self int32
	Key  KeyID
	// Tally counts the pods on one node. A soft constraint on HostnameKey reads it instead of a census, as upstream does.
	Tally TallyID
	// Census is None in that case.
	Census ID
}

// Preference adds its weight to a node's score for each pod of a census in the node's domain.
type Preference struct {
	Census ID
	Weight int64
}

// SpreadsSoftly reports whether there are soft spread constraints. A pod without constraints has nil.
func (c *Constraints) SpreadsSoftly() bool { return c != nil && len(c.Soft) > 0 }

// OnlySpreadsSoftly reports whether there are no constraints but soft spread ones.
func (c *Constraints) OnlySpreadsSoftly() bool {
	return c == nil || len(c.Hard)+len(c.Affinity)+len(c.AntiAffinity)+len(c.ExistingAntiAffinity)+len(c.Preferred) == 0
}

// Each visits all censuses.
func (c *Constraints) Each(visit func(ID)) {
	for _, list := range [][]Spread{c.Hard, c.Soft} {
		for i := range list {
			if list[i].Census != None {
				visit(list[i].Census)
			}
		}
	}
	for _, list := range [][]ID{c.Affinity, c.AntiAffinity, c.ExistingAntiAffinity} {
		for _, id := range list {
			visit(id)
		}
	}
	for i := range c.Preferred {
		visit(c.Preferred[i].Census)
	}
}

// SelfMatches says for each spread constraint of the requirements, and last for their required affinity as a whole, whether they select the
// subject itself: 1 or 0.
func SelfMatches(r *facts.Requirements, s *Subject, namespaces Namespaces) []int32 {
	self := make([]int32, 0, len(r.Spread)+1)
	count := func(is bool) {
		if is {
			self = append(self, 1)
			return
		}
		self = append(self, 0)
	}
	for i := range r.Spread {
		count(r.Spread[i].Pods.Selects(s.Namespace, s.Labels, namespaces, false))
	}
	affinity := len(r.Affinity) > 0
	for i := range r.Affinity {
		affinity = affinity && r.Affinity[i].Pods.Selects(s.Namespace, s.Labels, namespaces, false)
	}
	count(affinity)
	return self
}

// Carry registers the terms through which pods with the requirements act on other pods, once one of them has a place (see Act). It returns their tallies. Of more
// than facts.MaxPodTerms terms the first are registered.
func (r *Registry) Carry(of *facts.Requirements) (carried []TallyID) {
	add := func(what role, term *facts.AffinityTerm, weight int64) {
		if len(carried) == facts.MaxPodTerms {
			return // of a pod that others have placed: ours is refused
		}
		key := r.useKey(term.TopologyKey)
		id, _ := r.useTally(&tally{carried: true, role: what, weight: weight, topology: key, selectors: []facts.PodSelector{term.Pods}})
		r.dropKey(key) // the tally uses it
		carried = append(carried, id)
	}
	for i := range of.AntiAffinity {
		add(repels, &of.AntiAffinity[i], 0)
	}
	for i := range of.Affinity {
		add(attracts, &of.Affinity[i], hardAffinityWeight)
	}
	for i := range of.PreferredPods {
		add(attracts, &of.PreferredPods[i].AffinityTerm, int64(of.PreferredPods[i].Weight))
	}
	return carried
}

// Constrain registers the censuses that pods with the requirements read. self is what SelfMatches says; affectedBy are the tallies whose
// terms are about the pods. fresh are the tallies that did not exist before: the pods that are there already have still to be counted in.
func (r *Registry) Constrain(of *facts.Requirements, self []int32, affectedBy []TallyID) (_ *Constraints, fresh []TallyID) {
	b := constraintsBuilder{Registry: r, c: &Constraints{AffinitySelf: self[len(self)-1] == 1}}
	b.spread(of, self)
	b.affinity(of)
	b.existing(affectedBy)
	for _, id := range b.c.tallies {
		b.c.since = max(b.c.since, r.tallies.list[id].since)
	}
	return b.c, b.fresh
}

// Release gives up what Constrain has registered.
func (r *Registry) Release(c *Constraints) {
	c.Each(r.dropCensus)
	for i := range c.Soft {
		if soft := &c.Soft[i]; soft.Census == None {
			r.listHolders(soft.Tally, -1)
		}
	}
	r.DropTallies(c.tallies)
	for _, key := range c.keys {
		r.dropKey(key)
	}
}

// constraintsBuilder fills in one Constraints.
type constraintsBuilder struct {
	*Registry
	c     *Constraints
	fresh []TallyID
}

// count registers a tally.
func (b *constraintsBuilder) count(t *tally) TallyID {
	id, fresh := b.useTally(t)
	b.c.tallies = append(b.c.tallies, id)
	if fresh {
		b.fresh = append(b.fresh, id)
	}
	return id
}

// key returns the ID of a topology key, which is in use for as long as the constraints are.
func (b *constraintsBuilder) key(name string) KeyID {
	id := b.useKey(name)
	b.c.keys = append(b.c.keys, id)
	return id
}

func (b *constraintsBuilder) affinity(of *facts.Requirements) {
	if len(of.Affinity) > 0 {
		all := make([]facts.PodSelector, len(of.Affinity))
		for i := range of.Affinity {
			all[i] = of.Affinity[i].Pods
		}
		t := b.count(&tally{selectors: all})
		for i := range of.Affinity {
			b.c.Affinity = append(b.c.Affinity, b.everywhere(t, b.key(of.Affinity[i].TopologyKey)))
		}
	}
	for i := range of.AntiAffinity {
		t := b.count(&tally{selectors: []facts.PodSelector{of.AntiAffinity[i].Pods}})
		b.c.AntiAffinity = append(b.c.AntiAffinity, b.everywhere(t, b.key(of.AntiAffinity[i].TopologyKey)))
	}
	for i := range of.PreferredPods {
		p := &of.PreferredPods[i]
		t := b.count(&tally{selectors: []facts.PodSelector{p.Pods}})
		b.c.Preferred = append(b.c.Preferred, Preference{b.everywhere(t, b.key(p.TopologyKey)), int64(p.Weight)})
	}
}

// maxListedTerms is how many terms of other pods have a census each. More are added up, by what they do and their topology keys.
const maxListedTerms = 16

// existing registers the censuses of the terms that pods which have a place already carry.
func (b *constraintsBuilder) existing(affectedBy []TallyID) {
	for _, t := range affectedBy {
		b.tallies.list[t].users++
	}
	b.c.tallies = append(b.c.tallies, affectedBy...)
	if len(affectedBy) > maxListedTerms {
		b.existingSums(affectedBy)
		return
	}
	for _, t := range affectedBy {
		def := b.tallies.list[t]
		census := b.everywhere(t, def.topology)
		if def.role == repels {
			b.c.ExistingAntiAffinity = append(b.c.ExistingAntiAffinity, census)
		} else {
			b.c.Preferred = append(b.c.Preferred, Preference{census, def.weight})
		}
	}
}

func (b *constraintsBuilder) existingSums(affectedBy []TallyID) {
	type effect struct {
		role     role
		topology KeyID
	}
	terms := make(map[effect][]TallyID)
	var order []effect
	for _, t := range affectedBy {
		of := effect{b.tallies.list[t].role, b.tallies.list[t].topology}
		if terms[of] == nil {
			order = append(order, of)
		}
		terms[of] = append(terms[of], t)
	}
	for _, of := range order {
		if census := b.useSum(terms[of], of.topology); of.role == repels {
			b.c.ExistingAntiAffinity = append(b.c.ExistingAntiAffinity, census)
		} else {
			b.c.Preferred = append(b.c.Preferred, Preference{census, 1})
		}
	}
}

func (b *constraintsBuilder) spread(of *facts.Requirements, self []int32) {
	var hard, soft []KeyID
	for i := range of.Spread {
		key := b.key(of.Spread[i].TopologyKey)
		if of.Spread[i].Hard {
			hard = append(hard, key)
		} else if !of.Spread[i].Default {
			soft = append(soft, key)
		}
	}
	for i := range of.Spread {
		spread := Spread{SpreadConstraint: &of.Spread[i], Self: self[i], Key: b.key(of.Spread[i].TopologyKey), Census: None}
		pods := spread.Pods
		if pods.Labels.MatchesAll() {
			pods.Labels = facts.LabelSelector{Nothing: true} // upstream counts nothing for an empty selector
		}
		spread.Tally = b.count(&tally{liveOnly: true, selectors: []facts.PodSelector{pods}})
		keys := soft
		if spread.Hard {
			keys = hard
		}
		if spread.Hard || spread.TopologyKey != facts.HostnameKey {
			spread.Census = b.useCensus(spread.Tally, &scopeDefinition{key: spread.Key, orEmpty: spread.Default, eligible: spread.eligibility(of, keys)})
		} else {
			b.listHolders(spread.Tally, 1)
		}
		if spread.Hard {
			b.c.Hard = append(b.c.Hard, spread)
		} else {
			b.c.Soft = append(b.c.Soft, spread)
		}
	}
}

// eligibility is which nodes the constraint counts on; keys are those of all constraints that are as hard as it.
func (s *Spread) eligibility(of *facts.Requirements, keys []KeyID) eligibility {
	e := eligibility{keys: slices.Clone(keys)}
	slices.Sort(e.keys)
	e.keys = slices.Compact(e.keys)
	if s.HonorAffinity && (len(of.NodeSelector) > 0 || of.Required != nil) {
		e.selects = of
	}
	if s.HonorTaints {
		e.taints, e.tolerations = true, of.Tolerations
	}
	return e
}
