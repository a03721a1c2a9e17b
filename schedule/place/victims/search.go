package victims

import (
	"cmp"
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/internal/heap"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place/pack"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// victimSearch is one search for victims. What it takes is lifted off the snapshot, what it places is assumed there, until it goes back.
type victimSearch struct {
	r        *Reclaimer
	snapshot *cluster.Snapshot
	ask      *pack.Ask
	unit     *cluster.Unit // nil for a single pod
	need     int
	now      int64
	quota    victimQuota

	gangs     map[*cluster.Unit]*gang
	fractions map[cluster.ClassID]int64
	budgeted  bool        // there are disruption budgets
	budgets   []budgetUse // by those who are taken

	removed map[*cluster.Pod]bool
	victims []victim
	awaited []*cluster.Pod // who leave anyway, and are waited for
	placed  []pack.MemberChoice
	cost    UnitCost
	// bound is what a better set must cost less than, if bounded.
	bound   UnitCost
	bounded bool

	excluded map[cluster.Slot]bool // nodes that turned out not to do

	// Of the class that is being placed:
	class         *cluster.Class
	domainFilters bool
	freeOnly      bool // only room that is there is offered
	costs         []memberCost
	position      []int32
	heap          *heap.Heap[cluster.Slot]
	inScope       []uint32 // by slot: the run that it was in inScope of
	runs          uint32

	// Scratch of one price.
	trial           cluster.Trial
	trialRemoved    []*cluster.Pod
	candidateGroups []victimGroup
	protected       []victimGroup
	taken           []victimGroup
	awaits          []*cluster.Pod
	trialBudgets    []budgetUse
	single          [1]*cluster.Pod
}

// victim is a party that is taken.
type victim struct {
	victimGroup
	pods  []*cluster.Pod
	holds resource.List
}

// memberCost is what one more member costs on a node.
type memberCost struct {
	cost    UnitCost
	awaited int // for so many pods that leave anyway
}

func (a *memberCost) compare(b *memberCost) int {
	return cmp.Or(a.cost.Compare(b.cost), cmp.Compare(a.awaited, b.awaited))
}

// searchPoint is how far a search was.
type searchPoint struct {
	assumed, victims, awaited, placed int
	cost                              UnitCost
	budgets                           []budgetUse
}

// open begins a search.
func (s *victimSearch) open(ask *pack.Ask, now int64) {
	s.ask, s.now, s.unit, s.need = ask, now, ask.Members[0].Unit, max(ask.Need, 1)
	s.gangs, s.fractions = make(map[*cluster.Unit]*gang), make(map[cluster.ClassID]int64)
	s.removed, s.excluded = make(map[*cluster.Pod]bool), make(map[cluster.Slot]bool)
	s.budgeted, s.bounded, s.cost = false, false, noCost()
	s.r.store.Budgets(func(*cluster.Budget) { s.budgeted = true })
	s.budgets, s.victims, s.awaited, s.placed = s.budgets[:0], s.victims[:0], s.awaited[:0], s.placed[:0]
	s.quota.open(s.r.store, ask)
	for slot := range s.r.pods.leavingSlots {
		for _, pod := range s.r.pods.leaving[slot] {
			s.quota.leave(pod)
		}
	}
	if s.heap == nil {
		s.heap = heap.New(s.costsLess, func(slot cluster.Slot, at int) { s.position[slot] = int32(at) })
	}
	for slots := s.state().Slots(); len(s.costs) < slots; {
		s.costs, s.position, s.inScope = append(s.costs, memberCost{}), append(s.position, notInHeap), append(s.inScope, 0)
	}
}

func (s *victimSearch) state() *cluster.State { return &s.snapshot.State }

// costsLess is the order of offers. Among equals the profile's tie break decides.
func (s *victimSearch) costsLess(a, b cluster.Slot) bool {
	if order := s.costs[a].compare(&s.costs[b]); order != 0 {
		return order < 0
	}
	return s.r.prefers(a, b)
}

// prefers decides between nodes that cost the same.
func (r *Reclaimer) prefers(a, b cluster.Slot) bool {
	if x, y := r.index.Tie(a), r.index.Tie(b); x != y {
		return x > y
	}
	return a < b
}

// checkpoint is the stage of now.
func (s *victimSearch) checkpoint() searchPoint {
	return searchPoint{s.snapshot.Mark(), len(s.victims), len(s.awaited), len(s.placed), s.cost, slices.Clone(s.budgets)}
}

// undoTo takes undoTo all that was done since a stage.
func (s *victimSearch) undoTo(to searchPoint) {
	for i := to.victims; i < len(s.victims); i++ {
		s.unmarkVictim(&s.victims[i])
	}
	for _, pod := range s.awaited[to.awaited:] {
		s.quota.countOn(pod, -1)
		delete(s.removed, pod)
	}
	for i := to.placed; i < len(s.placed); i++ {
		s.quota.place(s.placed[i].Pod.Class, -1)
	}
	s.victims, s.awaited, s.placed = s.victims[:to.victims], s.awaited[:to.awaited], s.placed[:to.placed]
	s.cost, s.budgets = to.cost, append(s.budgets[:0], to.budgets...)
	s.snapshot.Rollback(to.assumed)
}

// unmarkVictim strikes a victim off the books.
func (s *victimSearch) unmarkVictim(v *victim) {
	s.quota.take(v.account, v.holds, -1)
	s.quota.updateLevels(v.account)
	for _, pod := range v.pods {
		delete(s.removed, pod)
	}
	s.noteGang(v, false)
}

// fill gives up to want of the members places on some nodes at the least cost, one after the other, and returns how many have one. It gives up
// when it costs too much.
func (s *victimSearch) fill(slots []cluster.Slot, members []*cluster.Pod, want int) (count int) {
	for from := 0; from < len(members) && count < want; {
		to := from + 1
		for to < len(members) && members[to].Class == members[from].Class {
			to++
		}
		s.collect(slots, members[from].Class)
		for _, pod := range members[from:to] {
			if count == want || s.tooExpensive() || !s.placeOne(pod) {
				break
			}
			count++
		}
		from = to
	}
	return count
}

func (s *victimSearch) tooExpensive() bool { return s.bounded && s.cost.Compare(s.bound) >= 0 }

// collect asks all nodes what a member of a class costs there.
func (s *victimSearch) collect(slots []cluster.Slot, class *cluster.Class) {
	for s.heap.Len() > 0 {
		s.heap.Remove(s.heap.Len() - 1)
	}
	s.runs++
	s.class, s.domainFilters = class, rules.UsesDomainFilters(class)
	for _, slot := range slots {
		s.inScope[slot] = s.runs
		s.reevaluate(slot)
	}
}

// reevaluate asks a node anew.
func (s *victimSearch) reevaluate(slot cluster.Slot) {
	made, ok := s.evaluate(slot)
	at := s.position[slot]
	switch {
	case !ok && at != notInHeap:
		s.heap.Remove(int(at))
	case !ok:
	case at != notInHeap:
		s.costs[slot] = made
		s.heap.Fix(int(at))
	default:
		s.costs[slot] = made
		s.heap.Push(slot)
	}
}

// placeOne places a pod of the class at the least cost. The others' offers may be outdated: they can only have become dearer, except where a
// gang has left, which is seen to at once, and where constraints between pods are in play.
func (s *victimSearch) placeOne(pod *cluster.Pod) bool {
	for s.heap.Len() > 0 {
		slot := s.heap.First()
		made, ok := s.evaluate(slot)
		if !ok {
			s.heap.Pop()
			continue
		}
		if made.compare(&s.costs[slot]) > 0 {
			s.costs[slot] = made
			s.heap.Fix(0)
			continue
		}
		s.accept(slot, made, pod)
		return true
	}
	return false
}

// accept takes the parties of the latest price off and places the pod.
func (s *victimSearch) accept(slot cluster.Slot, made memberCost, pod *cluster.Pod) {
	first := len(s.victims)
	s.apply(slot, made, pod)
	s.reevaluate(slot)
	for i := first; i < len(s.victims); i++ {
		if s.victims[i].gang == nil {
			continue
		}
		for _, gone := range s.victims[i].pods {
			if other := s.r.store.Slot(gone.Node()); other != slot && s.inScope[other] == s.runs {
				s.reevaluate(other)
			}
		}
	}
}

// apply does what the latest price says, and places the pod.
func (s *victimSearch) apply(slot cluster.Slot, made memberCost, pod *cluster.Pod) {
	for i := range s.taken {
		s.take(s.taken[i])
	}
	for _, leaving := range s.awaits {
		s.await(leaving)
	}
	s.cost = s.cost.plus(made.cost)
	s.assume(slot, pod)
}

// take makes a party victims.
func (s *victimSearch) take(p victimGroup) {
	v := victim{victimGroup: p, pods: slices.Clone(s.pods(&p)), holds: s.holds(&p)}
	s.violations(&s.budgets, v.pods)
	s.lift(&v)
	s.victims = append(s.victims, v)
}

// lift takes a victim off its nodes and its queue's account.
func (s *victimSearch) lift(v *victim) {
	for _, pod := range v.pods {
		s.snapshot.Lift(pod)
	}
	s.markVictim(v)
}

// markVictim enters a victim that is off its nodes in the books.
func (s *victimSearch) markVictim(v *victim) {
	s.quota.take(v.account, v.holds, 1)
	s.quota.updateLevels(v.account)
	for _, pod := range v.pods {
		s.removed[pod] = true
	}
	s.noteGang(v, true)
}

// noteGang tells the gang that a victim is, or is a member of, that it is taken or not.
func (s *victimSearch) noteGang(v *victim, taken bool) {
	if v.gang != nil {
		v.gang.taken = taken
		return
	}
	if v.pod.Unit != nil {
		if g := s.gangs[v.pod.Unit]; g != nil {
			g.stale = true
		}
	}
}

// coveredByGang reports whether a victim was to leave singly before its whole gang was.
func (s *victimSearch) coveredByGang(v *victim) bool {
	if v.gang != nil || v.pod.Unit == nil {
		return false
	}
	g := s.gangs[v.pod.Unit]
	return g != nil && g.taken
}

// await lifts a pod that leaves anyway.
func (s *victimSearch) await(pod *cluster.Pod) {
	s.snapshot.Lift(pod)
	s.removed[pod] = true
	s.quota.countOn(pod, 1)
	s.awaited = append(s.awaited, pod)
}

// assume places a pod on a node on which it fits.
func (s *victimSearch) assume(slot cluster.Slot, pod *cluster.Pod) {
	choice := s.r.index.Choose(slot, pod.Class)
	s.snapshot.Assume(slot, pod, choice.Grant)
	s.quota.place(pod.Class, 1)
	s.placed = append(s.placed, pack.MemberChoice{Pod: pod, Choice: choice})
}

// plus is the cost of two sets of victims together.
func (c UnitCost) plus(d UnitCost) UnitCost {
	return UnitCost{
		Violations: c.Violations + d.Violations, Highest: max(c.Highest, d.Highest), Over: min(c.Over, d.Over), Gangs: c.Gangs + d.Gangs,
		Lost: resource.Add(c.Lost, d.Lost), Pods: c.Pods + d.Pods,
	}
}

// violations is how many of the pods would break a disruption budget, of which the list says what is spent already; it takes note of them.
func (s *victimSearch) violations(list *[]budgetUse, pods []*cluster.Pod) (count int) {
	if !s.budgeted {
		return 0
	}
	for _, pod := range pods {
		breaks := false
		s.r.store.Covering(pod, func(b *cluster.Budget) bool {
			at := slices.IndexFunc(*list, func(s budgetUse) bool { return s.budget == b })
			if at < 0 {
				at = len(*list)
				*list = append(*list, budgetUse{b, b.Allowed})
			}
			(*list)[at].left--
			breaks = breaks || (*list)[at].left < 0
			return true
		})
		if breaks {
			count++
		}
	}
	return count
}
