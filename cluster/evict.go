package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
)

// A Plan may put a pod where there is room only when others, its victims, have left. It is charged to the node at once, beside them, so
// that everybody sees the room as taken; until they have left it is obliged, and must not be bound. A victim may be waited for by several
// pods: what counts is that all of them fit when it is gone.

// Obliged reports whether a victim of the pod's Plan is still on its node.
func (p *Pod) Obliged() bool { return len(p.victims) > 0 }

// Victims are the pods that must leave before the pod may be bound, as far as they have not; the caller must not change the slice.
func (p *Pod) Victims() []*Pod { return p.victims }

// TookBack reports whether the pod's place was taken back for what its queue is guaranteed, from pods of as high a priority, or was given up by a pod that had
// taken it back. It is not known of pods that another process placed.
func (p *Pod) TookBack() bool { return p.tookBack }

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

// RunningSince is since when a pod that has a place counts as running: since its node took it up; before that, or if the node's clock is ahead of now, since
// it was bound, or since its Plan was decided. 0: none of this is known.
func (p *Pod) RunningSince(now int64) int64 {
	if p.Started != 0 && p.Started <= now {
		return p.Started
	}
	return p.Scheduled
}

// victimLog is the log of slots on which preemption would choose among the same pods in another order, or count other violations.
type victimLog struct{ changes.Log }

func (l *victimLog) note(slot Slot) {
	if slot != NoSlot {
		l.Append(changes.Change{Slot: slot, Kind: changes.Recounted})
	}
}

// spare ends the pod's waiting for its victims: it is bound already, by us or by another scheduler, or does not want the place any more.
func (p *Pod) spare(log *victimLog) {
	for _, victim := range p.victims {
		victim.claims = remove(victim.claims, p)
		log.note(victim.slot)
	}
	p.victims = nil
}

// absolve ends the pod's own waiting, and that for the pod.
func (p *Pod) absolve(log *victimLog) {
	p.spare(log)
	for _, waiting := range p.claims {
		waiting.victims = remove(waiting.victims, p)
	}
	p.claims = nil
}

// verifyVictims holds a pod and its victims against one another.
func (p *Pod) verifyVictims(pods *podTable) error {
	for _, victim := range p.victims {
		if p.Phase != Assumed || pods.byUID[victim.UID] != victim || !slices.Contains(victim.claims, p) {
			return fmt.Errorf("pod %s (%s on %q) waits for %s (on %q), which does not know it", p.UID, p.Phase, p.node, victim.UID, victim.node)
		}
	}
	for _, waiting := range p.claims {
		if !slices.Contains(waiting.victims, p) {
			return fmt.Errorf("pod %s is claimed by %s, which does not wait for it", p.UID, waiting.UID)
		}
	}
	return nil
}

// remove returns the list without the pod, nil when nothing is left.
func remove(list []*Pod, pod *Pod) []*Pod {
	list = slices.DeleteFunc(list, func(p *Pod) bool { return p == pod })
	if len(list) == 0 {
		return nil
	}
	return list
}

// Recheck judges the placement of an assumed pod again, on the newest state: the empty string, or the reason why it must not be bound there any more.
// There must be room for it when its victims have left, without the pods that wait there for others; and beside those, when all victims have left.
func (s *Store) Recheck(uid facts.UID, check Check) string {
	pod := s.pods.byUID[uid]
	if pod == nil || pod.Phase != Assumed {
		return RejectPodGone
	}
	if pod.slot == NoSlot {
		return RejectNodeGone
	}
	now, later := append(slices.Clone(pod.victims), pod), []*Pod{pod}
	for _, other := range s.pods.onSlot[pod.slot] {
		if other != pod && other.Obliged() && !other.Claimed() {
			now = append(now, other)
		}
		if other != pod && other.Claimed() {
			later = append(later, other)
		}
	}
	reason := s.recheckWithout(now, pod, check)
	if reason == "" && pod.Class.Constraints == nil { // constraints between pods are judged by who is there now
		reason = s.recheckWithout(later, pod, check)
	}
	return reason
}

// recheckWithout judges the placement of an assumed pod as if some pods were not there.
func (s *Store) recheckWithout(away []*Pod, pod *Pod, check Check) (reason string) {
	if pod.usesResourceClaims { // what its claims have there is for it
		view := s.views[pod.slot]
		s.views[pod.slot] = s.claims.dra.ViewWithout(pod.UID, s.nodes[pod.slot])
		defer func() { s.views[pod.slot] = view }()
	}
	s.supposing(away, s.reserved[pod.slot], func() { // whoever has reserved the node since came later
		class := pod.Class
		if pod.outdated {
			class = s.classifier.classify(pod, true)
		}
		grant := s.Held(pod.slot, pod)
		if class.private || class.Absent != "" {
			reason = RejectHeld
			return
		}
		reason = check(&s.State, pod.slot, class, &grant)
	})
	return reason
}

// Budgets are the disruption budgets.
type Budgets struct {
	byKey map[budgetKey]*facts.Budget
}

type budgetKey struct{ namespace, name string }

func keyOfBudget(b *facts.Budget) budgetKey { return budgetKey{b.Namespace, b.Name} }

// covers reports whether the budget is about the pod.
func covers(b *facts.Budget, pod *Pod) bool {
	return b.Namespace == pod.Namespace && !b.Pods.MatchesAll() && b.Pods.Matches(pod.identity.Labels)
}

// disrupts reports whether the pod's eviction is counted in the budget already.
func disrupts(b *facts.Budget, pod *Pod) bool {
	_, found := slices.BinarySearch(b.Disrupted, pod.Name)
	return found
}

// Each visits the disruption budgets, in no particular order.
func (b *Budgets) Each(visit func(*facts.Budget)) {
	for _, budget := range b.byKey {
		visit(budget)
	}
}

// Covering visits the disruption budgets that are about the pod and do not count its eviction already, by name, until visit says no.
func (b *Budgets) Covering(pod *Pod, visit func(*facts.Budget) bool) {
	for _, budget := range b.covering(pod) {
		if !disrupts(budget, pod) && !visit(budget) {
			return
		}
	}
}

// keys lists the budgets, by namespace and name.
func (b *Budgets) keys() []budgetKey {
	return slices.SortedFunc(maps.Keys(b.byKey), func(a, b budgetKey) int {
		return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
	})
}

// covering returns the disruption budgets that are about a pod, by name, so that counting does not depend on the order of events. The pod's
// identity remembers them.
func (b *Budgets) covering(pod *Pod) []*facts.Budget {
	if len(b.byKey) == 0 || len(pod.identity.Labels) == 0 || pod.placeholder {
		return nil
	}
	if pod.identity.budgetsKnown {
		return pod.identity.budgets
	}
	var list []*facts.Budget
	for _, budget := range b.byKey {
		if covers(budget, pod) {
			list = append(list, budget)
		}
	}
	slices.SortFunc(list, func(a, b *facts.Budget) int { return strings.Compare(a.Name, b.Name) })
	pod.identity.budgets, pod.identity.budgetsKnown = list, true
	return list
}

// set replaces a budget (nil: by none), and marks the nodes with pods that the old or the new one is about.
func (b *Budgets) set(key budgetKey, budget *facts.Budget, identities []*identity, log *victimLog) {
	old := b.byKey[key]
	for _, id := range identities {
		if len(id.pods) == 0 || (old == nil || !covers(old, id.pods[0])) && (budget == nil || !covers(budget, id.pods[0])) {
			continue
		}
		id.budgets, id.budgetsKnown = nil, false
		for _, pod := range id.pods {
			log.note(pod.slot)
		}
	}
	if budget == nil {
		delete(b.byKey, key)
		return
	}
	b.byKey[key] = budget
}
