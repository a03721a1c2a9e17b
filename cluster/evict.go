package cluster

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
)

// A Plan may put a pod where there is room only when others, its victims, have left. It is charged to the node at once, beside them, so
// that everybody sees the room as taken; until they have left it is obliged, and must not be bound. A victim may be waited for by several
// pods: what counts is that all of them fit when it is gone.

// Obliged reports whether a victim of the pod's Plan is still on its node.
func (p *Pod) Obliged() bool { return len(p.victims) > 0 }

// Victims are the pods that must leave before the pod may be bound, as far as they have not; the caller must not change the slice.
func (p *Pod) Victims() []*Pod { return p.victims }

// Claimed reports whether an assumed pod waits for this one to leave.
func (p *Pod) Claimed() bool { return len(p.claims) > 0 }

// MoreImportant orders pods by how late preemption should take them: higher priority, then earlier start; a pod that has not started
// counts as the latest. The UID decides between equals, so that the order is total.
func MoreImportant(a, b *Pod) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.StartedOrNever(), b.StartedOrNever()), strings.Compare(string(a.UID), string(b.UID)))
}

// StartedOrNever is Started, in nanoseconds; a pod that has not started counts as later than any that has.
func (p *Pod) StartedOrNever() int64 {
	if p.Started == 0 {
		return math.MaxInt64
	}
	return p.Started
}

// Trial takes pods off one node of a state and puts them back, to ask what would fit then. Every pod that was taken must be put back by
// End; until then nobody else may use the state.
type Trial struct {
	state   *State
	slot    Slot
	tallies bool
	ports   []HostPort
}

// Try begins a trial on a slot. The pods must be charged to it in this state. With tallies the censuses follow, else only what the node
// itself counts does.
func (s *State) Try(slot Slot, tallies bool) Trial { return Trial{s, slot, tallies, s.ports[slot]} }

// Take takes a pod off the node.
func (t *Trial) Take(pod *Pod) {
	t.state.discharge(t.slot, pod.Class, pod.holding())
	if t.tallies {
		pod.eachTally(func(id TallyID) { t.state.bump(t.slot, id, -1) })
	}
}

// Return puts a pod back.
func (t *Trial) Return(pod *Pod) {
	t.state.charge(t.slot, pod.Class, pod.holding())
	if t.tallies {
		pod.eachTally(func(id TallyID) { t.state.bump(t.slot, id, 1) })
	}
}

// End puts back the pods that are still off. The state is then as it was.
func (t *Trial) End(off []*Pod) {
	for _, pod := range off {
		t.Return(pod)
	}
	t.state.ports[t.slot] = t.ports
}

// Reranked is the log of slots on which preemption would choose among the same pods in another order, or count other violations. Its
// entries are of kind Recounted.
func (s *Store) Reranked() *Log { return &s.reranked }

func (s *Store) rerank(slot Slot) {
	if slot != NoSlot {
		s.reranked.append(Change{slot, Recounted})
	}
}

// lift takes victims off their nodes for the time of a judgement; lower puts them back.
func (s *Store) lift(victims []*Pod) {
	for _, pod := range victims {
		if pod.slot != NoSlot {
			s.discharge(pod.slot, pod.Class, pod.holding())
			s.tally(pod, -1)
			s.account(pod, -1)
			pod.lifted = true
		}
	}
}

func (s *Store) lower(victims []*Pod) {
	for _, pod := range victims {
		if pod.slot == NoSlot {
			continue
		}
		s.charge(pod.slot, pod.Class, pod.holding())
		s.tally(pod, 1)
		s.account(pod, 1)
		pod.lifted = false
		if s.guesses[pod.slot] > 0 {
			s.recount(pod.slot)
		}
	}
}

// victims looks the victims of a Plan up, and says what is wrong with them, if anything is.
func (s *Store) victims(plan *Plan) (victims []*Pod, reason string) {
	if len(plan.Victims) == 0 {
		return nil, ""
	}
	takers := s.takers(plan)
	named := make(map[UID]bool, len(plan.Victims))
	for _, uid := range plan.Victims {
		victim := s.pods[uid]
		if victim == nil || victim.slot == NoSlot || named[uid] {
			return nil, RejectVictimGone
		}
		named[uid] = true
		if _, ok := takers[victim.node]; !ok && (victim.Unit == nil || !victim.Unit.Atomic()) {
			return nil, RejectVictimGone
		}
		if !plan.Reclaims && !victim.Deleting && takers.outranked(victim) { // one that leaves anyway loses nothing
			return nil, RejectVictimOutranks
		}
		victims = append(victims, victim)
	}
	if s.tears(victims) {
		return nil, RejectTorn
	}
	return victims, ""
}

// takers is the lowest priority among the pods that a Plan puts on each node; under anywhere, of all.
type takers map[string]int32

const anywhere = ""

func (s *Store) takers(plan *Plan) takers {
	lowest := make(takers, len(plan.Placements)+1)
	for i := range plan.Placements {
		p := &plan.Placements[i]
		priority := int32(math.MaxInt32) // of one that is gone, which is rejected later
		if pod := s.pods[p.Pod]; pod != nil {
			priority = pod.Priority
		}
		for _, place := range [...]string{p.Node, anywhere} {
			if known, ok := lowest[place]; !ok || priority < known {
				lowest[place] = priority
			}
		}
	}
	return lowest
}

// outranked reports whether a victim has as high a priority as a pod that is to take its place. A member of a unit makes room everywhere.
func (t takers) outranked(victim *Pod) bool {
	place := victim.node
	if victim.Unit != nil {
		place = anywhere
	}
	priority, ok := t[place]
	return ok && priority <= victim.Priority
}

// tears reports whether the victims leave a unit that is more than its pods with fewer than it needs, but with some.
func (s *Store) tears(victims []*Pod) bool {
	var taken map[*Unit]int
	for _, victim := range victims {
		if u := victim.Unit; u != nil && u.Atomic() && victim.Placed() {
			if taken == nil {
				taken = make(map[*Unit]int)
			}
			taken[u]++
		}
	}
	for u, n := range taken {
		if n > u.Spare() && n < u.placed {
			return true
		}
	}
	return false
}

// claim makes the pods of a Plan wait for the victims on their nodes.
func (s *Store) claim(plan *Plan, victims []*Pod) {
	if len(victims) == 0 {
		return
	}
	on := make(map[string][]*Pod, len(plan.Placements))
	for i := range plan.Placements {
		pod := s.pods[plan.Placements[i].Pod]
		on[pod.node] = append(on[pod.node], pod)
	}
	first := []*Pod{s.pods[plan.Placements[0].Pod]}
	for _, victim := range victims {
		s.rerank(victim.slot)
		waiting := on[victim.node]
		if len(waiting) == 0 {
			waiting = first
		}
		for _, pod := range waiting {
			pod.victims, victim.claims = append(pod.victims, victim), append(victim.claims, pod)
		}
	}
}

// spare ends the pod's waiting: it is bound already, whoever did that, or waits no more.
func (s *Store) spare(pod *Pod) {
	for _, victim := range pod.victims {
		victim.claims = remove(victim.claims, pod)
		s.rerank(victim.slot)
	}
	pod.victims = nil
}

// absolve ends the pod's own waiting, and that for the pod.
func (s *Store) absolve(pod *Pod) {
	s.spare(pod)
	for _, waiting := range pod.claims {
		waiting.victims = remove(waiting.victims, pod)
	}
	pod.claims = nil
}

// remove returns the list without the pod, nil when nothing is left.
func remove(list []*Pod, pod *Pod) []*Pod {
	list = slices.DeleteFunc(list, func(p *Pod) bool { return p == pod })
	if len(list) == 0 {
		return nil
	}
	return list
}

// Recheck judges the placement of an assumed pod again, on the newest state, as if its victims had left: the empty string, or the reason
// why it must not be bound there any more.
func (s *Store) Recheck(uid UID, check Check) string {
	pod := s.pods[uid]
	if pod == nil || pod.Phase != Assumed {
		return RejectPodGone
	}
	if pod.slot == NoSlot {
		return RejectNodeGone
	}
	away := append(slices.Clone(pod.victims), pod)
	s.lift(away)
	class := pod.Class
	if pod.outdated {
		class = s.classify(pod, true)
	}
	grant := s.Held(pod.slot, pod)
	reason := check(&s.State, pod.slot, class, &grant)
	s.lower(away)
	return reason
}

// covering returns the disruption budgets that are about a pod, by name, so that counting does not depend on the order of events.
func (s *Store) covering(pod *Pod) []*Budget {
	if len(s.budgets) == 0 || len(pod.identity.labels) == 0 {
		return nil
	}
	if list, ok := s.covers[pod.identity]; ok {
		return list
	}
	if s.covers == nil || len(s.covers) > len(s.identities) { // identities that are gone leave entries behind
		s.covers = make(map[*identity][]*Budget)
	}
	var list []*Budget
	for _, b := range s.budgets {
		if b.Covers(pod) {
			list = append(list, b)
		}
	}
	slices.SortFunc(list, func(a, b *Budget) int { return strings.Compare(a.Name, b.Name) })
	s.covers[pod.identity] = list
	return list
}

// Covering visits the disruption budgets that are about the pod and do not count its eviction already, by name, until visit says no.
func (s *Store) Covering(pod *Pod, visit func(*Budget) bool) {
	for _, b := range s.covering(pod) {
		if !b.Disrupts(pod) && !visit(b) {
			return
		}
	}
}

// setBudget replaces a budget (nil: by none), and marks the nodes with pods that the old or the new one is about.
func (s *Store) setBudget(key budgetKey, b *Budget) {
	old := s.budgets[key]
	for _, id := range s.inNamespace[key.namespace] {
		if len(id.pods) == 0 || (old == nil || !old.Covers(id.pods[0])) && (b == nil || !b.Covers(id.pods[0])) {
			continue
		}
		delete(s.covers, id)
		for _, pod := range id.pods {
			s.rerank(pod.slot)
		}
	}
	if b == nil {
		delete(s.budgets, key)
		return
	}
	s.budgets[key] = b
}

func (s *Store) listBudgets(budgets []*Budget) {
	listed := make(map[budgetKey]bool, len(budgets))
	for _, b := range budgets {
		listed[b.key()] = true
		s.setBudget(b.key(), b)
	}
	gone := slices.DeleteFunc(slices.Collect(maps.Keys(s.budgets)), func(key budgetKey) bool { return listed[key] })
	slices.SortFunc(gone, func(a, b budgetKey) int {
		return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
	})
	for _, key := range gone {
		s.setBudget(key, nil)
	}
}
