package victims

import (
	"maps"
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/place/pack"
	"hilbert.dev/hilbert/schedule/place/rules"
)

const (
	// maxRefills bounds the attempts to spare one victim by placing all members again.
	maxRefills = 16
	// maxRounds bounds how often the search starts over without a node that turned out to be unsuitable, because constraints between pods no
	// longer hold when all victims have left.
	maxRounds = 4
)

// solution is a set of victims that makes the unit fit, and where it fits.
type solution struct {
	slots   []cluster.Slot // of the domain
	victims []victim
	awaited []*cluster.Pod
	placed  []pack.MemberChoice
	cost    UnitCost
}

// rounds looks for victims until all holds when they have left.
func (s *victimSearch) rounds() (found Eviction, ok bool) {
	clear(s.evaluator.excluded)
	for range maxRounds {
		barred := len(s.evaluator.excluded)
		if found, ok = s.cheapest(); ok || len(s.evaluator.excluded) == barred {
			break
		}
	}
	return found, ok
}

// cheapest looks for victims in each domain that the unit may be in.
func (s *victimSearch) cheapest() (Eviction, bool) {
	base := s.attempt.checkpoint()
	var best *solution
	for _, slots := range domainsOf(s.state(), s.within(), &s.ask.Topology, s.ask.Anchors) {
		if s.fillUnit(slots) {
			if len(s.attempt.victims)+len(s.attempt.awaited) == 0 {
				s.attempt.undoTo(base)
				return Eviction{}, false // it fits as it is: nothing has to leave
			}
			if best == nil || s.attempt.cost.Compare(best.cost) < 0 || s.attempt.cost == best.cost && len(s.attempt.awaited) < len(best.awaited) {
				best = s.attempt.solution(slots)
				s.filler.bound, s.filler.bounded = best.cost, best.cost.Pods > 0
			}
		}
		s.attempt.undoTo(base)
	}
	s.filler.bounded = false
	if best == nil {
		return Eviction{}, false
	}
	found, ok := s.finish(best)
	s.attempt.undoTo(base)
	return found, ok
}

// within is the nodes that the unit may be on.
func (s *victimSearch) within() []cluster.Slot {
	if s.ask.Within != nil {
		return s.ask.Within
	}
	st := s.state()
	slots := make([]cluster.Slot, 0, st.Slots())
	for i := range st.Slots() {
		if st.Node(cluster.Slot(i)) != nil {
			slots = append(slots, cluster.Slot(i))
		}
	}
	return slots
}

// domainsOf parts nodes by the values of the labels that all members must have in common; those without are left out. Where some run already
// it is the domain of theirs.
func domainsOf(st *cluster.State, slots []cluster.Slot, packing *facts.Packing, anchors []pack.Anchor) [][]cluster.Slot {
	if packing.Required == "" && packing.Uniform == "" {
		return [][]cluster.Slot{slots}
	}
	pinned := ""
	for _, a := range anchors {
		if name, ok := pack.RequiredDomain(st, a.Slot, packing); ok {
			pinned = name
			break
		}
	}
	byName := make(map[string][]cluster.Slot)
	for _, slot := range slots {
		if st.Node(slot) == nil {
			continue
		}
		if name, ok := pack.RequiredDomain(st, slot, packing); ok && (pinned == "" || name == pinned) {
			byName[name] = append(byName[name], slot)
		}
	}
	domains := make([][]cluster.Slot, 0, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		domains = append(domains, byName[name])
	}
	return domains
}

// fillUnit gives the needed members places on some nodes, and each subgroup a domain if the unit asks for it.
func (s *victimSearch) fillUnit(slots []cluster.Slot) bool {
	members := s.ask.Members
	for len(members) > 0 && len(s.attempt.placed) < s.need {
		n := s.subgroup(members)
		s.fillSubgroup(slots, members[:n], s.need-len(s.attempt.placed))
		members = members[n:]
	}
	return len(s.attempt.placed) >= s.need
}

// subgroup is how many of the first members are packed together: all, unless subgroups are packed for themselves.
func (s *victimSearch) subgroup(members []*cluster.Pod) int {
	if !s.packsSubgroups() {
		return len(members)
	}
	n := 1
	for n < len(members) && members[n].Subgroup == members[0].Subgroup {
		n++
	}
	return n
}

func (s *victimSearch) packsSubgroups() bool {
	return s.ask.Subgroups.Required != "" || s.ask.Subgroups.Uniform != ""
}

// fillSubgroup places members in the subgroup's domain that takes the most of them, and of those the cheapest.
func (s *victimSearch) fillSubgroup(slots []cluster.Slot, members []*cluster.Pod, want int) {
	if !s.packsSubgroups() || members[0].Subgroup == "" {
		s.filler.fill(slots, members, want)
		return
	}
	var anchors []pack.Anchor
	for _, a := range s.ask.Anchors {
		if a.Subgroup == members[0].Subgroup {
			anchors = append(anchors, a)
		}
	}
	base, most, cost := s.attempt.checkpoint(), 0, UnitCost{}
	var best []cluster.Slot
	for _, domain := range domainsOf(s.state(), slots, &s.ask.Subgroups, anchors) {
		count := s.filler.fill(domain, members, want)
		if count > most || count == most && count > 0 && s.attempt.cost.Compare(cost) < 0 {
			best, most, cost = domain, count, s.attempt.cost
		}
		s.attempt.undoTo(base)
	}
	if best != nil {
		s.filler.fill(best, members, want)
	}
}

// finish does without the victims that turned out superfluous, and says the rest.
func (s *victimSearch) finish(best *solution) (Eviction, bool) {
	base := s.attempt.checkpoint()
	s.attempt.reapply(best)
	switch {
	case len(best.placed) == 1: // its evaluation left nothing superfluous
		s.attempt.placeAll(best.placed)
	case s.sameClass():
		s.trim(best)
	default:
		s.refill(best)
	}
	s.improvePlacement(best, base)
	if !s.dropIdle() || !s.verify(base) {
		return Eviction{}, false
	}
	return s.eviction(), true
}

// verify reports whether all members may go where they are to, one after the other, when all victims have left. If not, the first node that will
// not do is barred.
func (s *victimSearch) verify(base searchPoint) bool {
	if !slices.ContainsFunc(s.attempt.placed, func(p pack.MemberChoice) bool { return rules.UsesDomainFilters(p.Pod.Class) }) {
		return true // each was placed on a node where it fits, and nothing that happened elsewhere matters
	}
	found := s.attempt.solution(nil)
	s.attempt.undoTo(base)
	s.attempt.reapply(found)
	for i, p := range found.placed {
		if rules.Commits(s.state(), p.Slot, p.Pod.Class, &p.Grant) != "" || !rules.FitsIn(rules.Domain, s.state(), p.Slot, p.Pod.Class) {
			s.evaluator.excluded[p.Slot] = true
			return false
		}
		s.attempt.placeAll(found.placed[i : i+1])
	}
	return true
}

// improvePlacement places the members again where the unit prefers them, among the nodes that the solution touches, if every victim is still needed
// then.
func (s *victimSearch) improvePlacement(found *solution, base searchPoint) {
	prefers := func(p *facts.Packing) bool { return p.Preferred != "" || p.Spread != "" }
	if !prefers(&s.ask.Topology) && !prefers(&s.ask.Subgroups) {
		return
	}
	trimmed := s.attempt.solution(found.slots)
	ask := *s.ask
	ask.Members, ask.Within = nil, s.touched(found)
	for i := range trimmed.placed {
		ask.Members = append(ask.Members, trimmed.placed[i].Pod)
	}
	ask.Need = len(ask.Members)
	s.attempt.undoTo(base)
	s.attempt.reapply(trimmed)
	placed, ok := s.r.packer.PlaceUnit(&ask)
	if ok && trimmed.useful(s.state(), placed) {
		for i := range placed {
			s.quota.place(placed[i].Pod.Class, 1)
			s.attempt.placed = append(s.attempt.placed, placed[i])
		}
		return
	}
	s.attempt.undoTo(base)
	s.attempt.reapply(trimmed)
	s.attempt.placeAll(trimmed.placed)
}

// useful reports whether each group of victims has a pod on a node on which something is placed.
func (found *solution) useful(st *cluster.State, placed []pack.MemberChoice) bool {
	used := make(map[string]bool, len(placed))
	for i := range placed {
		used[st.Node(placed[i].Slot).Name] = true
	}
	onUsed := func(pod *cluster.Pod) bool { return used[pod.Node()] }
	return !slices.ContainsFunc(found.victims, func(v victim) bool { return !slices.ContainsFunc(v.pods, onUsed) })
}

// sameClass reports whether counting is exact: the members needed are of one class, which constraints between pods are not about, and no
// subgroups are packed.
func (s *victimSearch) sameClass() bool {
	first := s.ask.Members[0].Class
	return !rules.UsesDomainFilters(first) && !s.packsSubgroups() &&
		!slices.ContainsFunc(s.ask.Members, func(pod *cluster.Pod) bool { return pod.Class != first })
}

// touched is the nodes of the domain that a solution changes something on.
func (s *victimSearch) touched(found *solution) []cluster.Slot {
	var slots []cluster.Slot
	in := make(map[cluster.Slot]bool, len(found.slots))
	for _, slot := range found.slots {
		in[slot] = true
	}
	add := func(slot cluster.Slot) {
		if in[slot] {
			slots, in[slot] = append(slots, slot), false
		}
	}
	for i := range found.victims {
		for _, pod := range found.victims[i].pods {
			add(s.r.store.Slot(pod.Node()))
		}
	}
	for _, pod := range found.awaited {
		add(s.r.store.Slot(pod.Node()))
	}
	for i := range found.placed {
		add(found.placed[i].Slot)
	}
	return slots
}

// eviction says what has been found.
func (s *victimSearch) eviction() Eviction {
	found := Eviction{Placements: slices.Clone(s.attempt.placed), Victims: s.groups.withGangs(slices.Clone(s.attempt.awaited)), Cost: noCost()}
	for _, pod := range found.Victims {
		found.Reclaims = found.Reclaims || !pod.Deleting && pod.Priority >= s.quota.priority
	}
	s.attempt.spent = s.attempt.spent[:0]
	for i := range s.attempt.victims {
		v := &s.attempt.victims[i]
		found.Victims = append(found.Victims, v.pods...)
		cost := UnitCost{Over: v.account.leastOver(), Highest: v.highest, Pods: len(v.pods), Violations: s.budgets.violations(&s.attempt.spent, v.pods)}
		if v.gang != nil {
			cost.Gangs = 1
		}
		for _, pod := range v.pods {
			cost = cost.plus(UnitCost{Highest: pod.Priority, Over: cost.Over, Lost: s.groups.lost(pod)})
			found.Reclaims = found.Reclaims || pod.Priority >= s.quota.priority
		}
		found.Cost = found.Cost.plus(cost)
	}
	if len(s.attempt.victims) == 0 {
		found.Cost = UnitCost{}
	}
	slices.SortFunc(found.Victims, cluster.MoreImportant)
	return found
}
