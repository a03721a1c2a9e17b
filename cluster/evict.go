package cluster

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"hilbert.dev/hilbert/cluster/facts"
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
	ports   []facts.HostPort
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

// VictimLog is the log of slots on which preemption would choose among the same pods in another order, or count other violations. Its
// entries are of kind Recounted.
func (s *Store) VictimLog() *Log { return &s.victimLog }

func (s *Store) noteVictims(slot Slot) {
	if slot != NoSlot {
		s.victimLog.append(Change{slot, Recounted})
	}
}

// liftAll takes pods off their nodes for the time of a judgement; lowerAll puts them back.
func (s *Store) liftAll(pods []*Pod) {
	for _, pod := range pods {
		if pod.slot != NoSlot {
			s.discharge(pod.slot, pod.Class, pod.holding())
			s.tally(pod, -1)
			s.quota.Account(pod.tenant, pod.Class.Charge, -1)
			pod.lifted = true
		}
	}
}

func (s *Store) lowerAll(pods []*Pod) {
	for _, pod := range pods {
		if pod.slot == NoSlot {
			continue
		}
		s.charge(pod.slot, pod.Class, pod.holding())
		s.tally(pod, 1)
		s.quota.Account(pod.tenant, pod.Class.Charge, 1)
		pod.lifted = false
		if s.guesses[pod.slot] > 0 {
			s.recount(pod.slot)
		}
	}
}

// spare ends the pod's waiting: it is bound already, whoever did that, or waits no more.
func (s *Store) spare(pod *Pod) {
	for _, victim := range pod.victims {
		victim.claims = remove(victim.claims, pod)
		s.noteVictims(victim.slot)
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
func (s *Store) Recheck(uid facts.UID, check Check) string {
	pod := s.pods[uid]
	if pod == nil || pod.Phase != Assumed {
		return RejectPodGone
	}
	if pod.slot == NoSlot {
		return RejectNodeGone
	}
	away := append(slices.Clone(pod.victims), pod)
	s.liftAll(away)
	class := pod.Class
	if pod.outdated {
		class = s.classify(pod, true)
	}
	grant := s.Held(pod.slot, pod)
	reason := check(&s.State, pod.slot, class, &grant)
	s.lowerAll(away)
	return reason
}

// covering returns the disruption budgets that are about a pod, by name, so that counting does not depend on the order of events.
func (k *budgetBook) covering(pod *Pod, identities int) []*facts.Budget {
	if len(k.byKey) == 0 || len(pod.identity.labels) == 0 {
		return nil
	}
	if list, ok := k.found[pod.identity]; ok {
		return list
	}
	if k.found == nil || len(k.found) > identities { // identities that are gone leave entries behind
		k.found = make(map[*identity][]*facts.Budget)
	}
	var list []*facts.Budget
	for _, b := range k.byKey {
		if covers(b, pod) {
			list = append(list, b)
		}
	}
	slices.SortFunc(list, func(a, b *facts.Budget) int { return strings.Compare(a.Name, b.Name) })
	k.found[pod.identity] = list
	return list
}

// Covering visits the disruption budgets that are about the pod and do not count its eviction already, by name, until visit says no.
func (s *Store) Covering(pod *Pod, visit func(*facts.Budget) bool) {
	for _, b := range s.budgets.covering(pod, len(s.selection.identities)) {
		if !disrupts(b, pod) && !visit(b) {
			return
		}
	}
}

// setBudget replaces a budget (nil: by none), and marks the nodes with pods that the old or the new one is about.
func (s *Store) setBudget(key budgetKey, b *facts.Budget) {
	old := s.budgets.byKey[key]
	for _, id := range s.selection.inNamespace[key.namespace] {
		if len(id.pods) == 0 || (old == nil || !covers(old, id.pods[0])) && (b == nil || !covers(b, id.pods[0])) {
			continue
		}
		delete(s.budgets.found, id)
		for _, pod := range id.pods {
			s.noteVictims(pod.slot)
		}
	}
	if b == nil {
		delete(s.budgets.byKey, key)
		return
	}
	s.budgets.byKey[key] = b
}

func (s *Store) listBudgets(budgets []*facts.Budget) {
	listed := make(map[budgetKey]bool, len(budgets))
	for _, b := range budgets {
		listed[keyOfBudget(b)] = true
		s.setBudget(keyOfBudget(b), b)
	}
	gone := slices.DeleteFunc(slices.Collect(maps.Keys(s.budgets.byKey)), func(key budgetKey) bool { return listed[key] })
	slices.SortFunc(gone, func(a, b budgetKey) int {
		return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
	})
	for _, key := range gone {
		s.setBudget(key, nil)
	}
}

type budgetKey struct{ namespace, name string }

func keyOfBudget(b *facts.Budget) budgetKey { return budgetKey{b.Namespace, b.Name} }

// covers reports whether the budget is about the pod.
func covers(b *facts.Budget, pod *Pod) bool {
	return b.Namespace == pod.Namespace && !b.Pods.MatchesAll() && b.Pods.Matches(pod.identity.labels)
}

// disrupts reports whether the pod's eviction is counted in the budget already.
func disrupts(b *facts.Budget, pod *Pod) bool {
	_, found := slices.BinarySearch(b.Disrupted, pod.Name)
	return found
}

// budgetBook is the disruption budgets, and which of them are about the pods of each identity, as far as somebody has asked.
type budgetBook struct {
	byKey map[budgetKey]*facts.Budget
	found map[*identity][]*facts.Budget // a cache of covering
}

// Budgets visits the disruption budgets, in no particular order.
func (s *Store) Budgets(visit func(*facts.Budget)) {
	for _, b := range s.budgets.byKey {
		visit(b)
	}
}
