package victims

import (
	"cmp"
	"math"
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/place/index"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// Preemptor finds the node on which a pod that fits nowhere would fit at the least cost to pods of lower priority. It looks at all nodes.
//
// For classes whose filters look at one node only it keeps, per class and priority, the cost of every node in a heap that follows the
// ledger's logs from its own cursors, so that one preemption evaluates the nodes that have changed since the last. Other classes are
// evaluated on every node each time, because what a victim's leaving means depends on other nodes.
type Preemptor struct {
	index      *index.Index
	snapshot   *cluster.Snapshot
	store      *cluster.Store
	maxIndexes int

	pods   podsByImportance
	tables map[preemptionKey]*costIndex
	clock  uint64 // counts uses, for the least recently used index

	// Scratch of one evaluation.
	removed, protected, others []*cluster.Pod
	budgets                    []budgetUse
}

// preemptionKey is what the cost of a node depends on, beside the node.
type preemptionKey struct {
	class    cluster.ClassID
	priority int32
}

// Preemption is a node, and the pods that have to leave it.
type Preemption struct {
	index.Choice
	// Victims, the most important first.
	Victims []*cluster.Pod
	Cost    Cost
}

// Cost is what evicting the victims of one node costs. It orders candidates as upstream does: field by field, less is better, except Start (victims that
// started later go first). For example, a node where one disruption budget would be violated loses against any node without a violation, even if the
// latter's victims have a higher priority.
type Cost struct {
	// Violations is how many victims a disruption budget would have spared.
	Violations int
	// Highest is the highest priority of a victim.
	Highest int32
	// Sum of the victims' priorities, each raised by 2³¹, so that more victims of negative priority cost more.
	Sum   int64
	Count int
	// Start is the earliest start of the victims of the highest priority, in nanoseconds; the later the better.
	Start int64
}

// Compare is negative when c is cheaper than d.
func (c Cost) Compare(d Cost) int {
	return cmp.Or(cmp.Compare(c.Violations, d.Violations), cmp.Compare(c.Highest, d.Highest), cmp.Compare(c.Sum, d.Sum),
		cmp.Compare(c.Count, d.Count), cmp.Compare(d.Start, c.Start))
}

// NewPreemptor returns a Preemptor for the Index's snapshot of the store. maxIndexes bounds the memory (56 bytes a node, each).
func NewPreemptor(x *index.Index, store *cluster.Store, maxIndexes int) *Preemptor {
	return &Preemptor{index: x, snapshot: x.Snapshot(), store: store, maxIndexes: max(maxIndexes, 1), tables: make(map[preemptionKey]*costIndex)}
}

// Preempt returns the cheapest candidate for a pod that fits nowhere. ok is false when no victims would help. It brings the snapshot to
// the store's newest state.
func (e *Preemptor) Preempt(pod *cluster.Pod) (Preemption, bool) {
	e.follow()
	if e.noVictims(pod) {
		return Preemption{}, false
	}
	var best cluster.Slot
	if rules.UsesDomainFilters(pod.Class) {
		best = e.scan(pod.Class, pod.Priority)
	} else {
		best = e.table(pod.Class, pod.Priority).best()
	}
	if best == cluster.NoSlot {
		return Preemption{}, false
	}
	return e.candidate(best, pod.Class, e.pods.below(best, pod.Priority))
}

// Resume returns the pod's nominated node if those that are being deleted there are all that have to leave: its victims of before a
// restart. ok is false when they are not, or not enough.
func (e *Preemptor) Resume(pod *cluster.Pod) (Preemption, bool) {
	slot := e.store.Slot(pod.Nominated)
	if slot == cluster.NoSlot {
		return Preemption{}, false
	}
	e.follow()
	var leaving []*cluster.Pod
	for _, victim := range e.pods.below(slot, pod.Priority) {
		if victim.Deleting {
			leaving = append(leaving, victim)
		}
	}
	return e.candidate(slot, pod.Class, leaving)
}

// AwaitsVictims reports whether the pod must not preempt now: pods of lower priority are leaving its nominated node, and it could run there.
func (e *Preemptor) AwaitsVictims(pod *cluster.Pod) bool {
	slot := e.store.Slot(pod.Nominated)
	if slot == cluster.NoSlot || !rules.FitsIn(rules.Static, &e.store.State, slot, pod.Class) {
		return false
	}
	return slices.ContainsFunc(e.store.PodsOn(slot), func(p *cluster.Pod) bool { return p.Deleting && p.Priority < pod.Priority })
}

// follow brings the snapshot and the sorted pods to the store's newest state.
func (e *Preemptor) follow() {
	e.snapshot.Advance(e.store)
	e.pods.follow(e.store)
}

// noVictims reports whether no node that could ever take the pod has one of lower priority.
func (e *Preemptor) noVictims(pod *cluster.Pod) bool {
	s := &e.snapshot.State
	for slot, lowest := range e.pods.lowest {
		if lowest < int64(pod.Priority) && rules.FitsIn(rules.Static, s, cluster.Slot(slot), pod.Class) {
			return false
		}
	}
	return true
}

// scan evaluates every node. It returns NoSlot when none is a candidate.
func (e *Preemptor) scan(class *cluster.Class, priority int32) cluster.Slot {
	best := cluster.NoSlot
	var least nodeCost
	for i := range e.pods.lowest {
		if made, ok := e.cost(cluster.Slot(i), class, priority); ok && (best == cluster.NoSlot || made.cheaper(least)) {
			best, least = cluster.Slot(i), made
		}
	}
	return best
}

// cost evaluates a node.
func (e *Preemptor) cost(slot cluster.Slot, class *cluster.Class, priority int32) (nodeCost, bool) {
	_, cost, ok := e.evaluate(slot, class, e.pods.below(slot, priority))
	if !ok {
		return nodeCost{}, false
	}
	return nodeCost{cost, e.index.Tie(slot)}, true
}

// Candidates returns every node on which the pod would fit at the expense of others, without an index, in slot order. Preempt takes the
// cheapest.
func (e *Preemptor) Candidates(pod *cluster.Pod) []Preemption {
	e.follow()
	var list []Preemption
	for i := range e.pods.lowest {
		if c, ok := e.candidate(cluster.Slot(i), pod.Class, e.pods.below(cluster.Slot(i), pod.Priority)); ok {
			list = append(list, c)
		}
	}
	return list
}

// candidate is the preemption on a node at the expense of some of the pods, sorted by importance.
func (e *Preemptor) candidate(slot cluster.Slot, class *cluster.Class, lower []*cluster.Pod) (Preemption, bool) {
	victims, cost, ok := e.evaluate(slot, class, lower)
	if !ok {
		return Preemption{}, false
	}
	found := Preemption{Choice: index.Choice{Slot: slot}, Victims: slices.Clone(victims), Cost: cost}
	if class.AsksGrant() {
		s := &e.snapshot.State
		trial := s.Try(slot, false)
		for _, victim := range victims {
			trial.Take(victim)
		}
		found.Grant, _ = s.Offer(slot, class)
		trial.End()
	}
	return found, true
}

// evaluate takes the pods off the node, all of which may be victims, and puts back as many as the class leaves room for: first those that a
// disruption budget would spare, then the rest, each the most important first. The victims are valid until the next call.
func (e *Preemptor) evaluate(slot cluster.Slot, class *cluster.Class, lower []*cluster.Pod) (victims []*cluster.Pod, cost Cost, ok bool) {
	s := &e.snapshot.State
	if len(lower) == 0 || !rules.FitsIn(rules.Static, s, slot, class) {
		return nil, Cost{}, false
	}
	far := rules.UsesDomainFilters(class)
	fits := func() bool {
		return rules.FitsIn(rules.Local, s, slot, class) && (!far || rules.FitsIn(rules.Domain, s, slot, class))
	}
	trial := s.Try(slot, far)
	for _, pod := range lower {
		trial.Take(pod)
	}
	if !fits() {
		trial.End()
		return nil, Cost{}, false
	}
	e.splitByBudget(lower)
	e.removed = e.removed[:0]
	reprieve := func(list []*cluster.Pod) {
		for _, pod := range list {
			trial.Return(pod)
			if !fits() {
				trial.Take(pod)
				e.removed = append(e.removed, pod)
			}
		}
	}
	reprieve(e.protected)
	violations := len(e.removed)
	reprieve(e.others)
	trial.End()
	if len(e.removed) == 0 {
		return nil, Cost{}, false // it fits as it is, so nothing has to leave
	}
	if violations > 0 && len(e.removed) > violations {
		slices.SortFunc(e.removed, cluster.MoreImportant)
	}
	return e.removed, costOf(e.removed, violations), true
}

// costOf sums up victims, sorted by importance.
func costOf(victims []*cluster.Pod, violations int) Cost {
	// The first is the most important: of the highest priority, and of those the earliest started.
	cost := Cost{Violations: violations, Highest: victims[0].Priority, Count: len(victims), Start: victims[0].StartedOrNever()}
	for _, victim := range victims {
		cost.Sum += int64(victim.Priority) - math.MinInt32
	}
	return cost
}

// budgetUse is what is left of a disruption budget.
type budgetUse struct {
	budget *facts.Budget
	left   int32
}

// splitByBudget parts the pods, sorted by importance, into those whose leaving would break a disruption budget, if all of them left in that
// order, and the others.
func (e *Preemptor) splitByBudget(pods []*cluster.Pod) {
	e.protected, e.others, e.budgets = e.protected[:0], e.others[:0], e.budgets[:0]
	for _, pod := range pods {
		breaks := false
		e.store.Budgets().Covering(pod, func(b *facts.Budget) bool {
			at := slices.IndexFunc(e.budgets, func(s budgetUse) bool { return s.budget == b })
			if at < 0 {
				at = len(e.budgets)
				e.budgets = append(e.budgets, budgetUse{b, b.Allowed})
			}
			e.budgets[at].left--
			breaks = e.budgets[at].left < 0
			return !breaks
		})
		if breaks {
			e.protected = append(e.protected, pod)
		} else {
			e.others = append(e.others, pod)
		}
	}
}
