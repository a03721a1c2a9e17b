package place

import (
	"cmp"
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/internal/heap"
	"hilbert.dev/hilbert/resource"
)

// seeker is one search for victims. What it takes is lifted off the snapshot, what it places is assumed there, until it goes back.
type seeker struct {
	r     *Reclaimer
	ask   *Ask
	unit  *cluster.Unit // nil for a single pod
	need  int
	now   int64
	books books

	gangs     map[*cluster.Unit]*gang
	fractions map[cluster.ClassID]int64
	budgeted  bool    // there are disruption budgets
	spent     []spent // by those who are taken

	lifted  map[*cluster.Pod]bool
	victims []victim
	waits   []*cluster.Pod // who leave anyway, and are waited for
	placed  []MemberChoice
	cost    UnitCost
	// most is what a better set must cost less than, if bounded.
	most    UnitCost
	bounded bool

	barred map[cluster.Slot]bool // nodes that turned out not to do

	// Of the class that is being placed:
	class    *cluster.Class
	far      bool
	freeOnly bool // only room that is there is offered
	offers   []offer
	position []int32
	heap     *heap.Heap[cluster.Slot]
	scope    []uint32 // by slot: the run that it was in scope of
	runs     uint32

	// Scratch of one price.
	trial    cluster.Trial
	off      []*cluster.Pod
	parties  []party
	guarded  []party
	taken    []party
	waitsOn  []*cluster.Pod
	trySpent []spent
	single   [1]*cluster.Pod
}

// victim is a party that is taken.
type victim struct {
	party
	pods  []*cluster.Pod
	holds resource.List
}

// offer is what one more member costs on a node.
type offer struct {
	cost  UnitCost
	waits int // for so many pods that leave anyway
}

func (a *offer) compare(b *offer) int {
	return cmp.Or(a.cost.Compare(b.cost), cmp.Compare(a.waits, b.waits))
}

// stage is how far a search was.
type stage struct {
	assumed, victims, waits, placed int
	cost                            UnitCost
	spent                           []spent
}

// open begins a search.
func (s *seeker) open(ask *Ask, now int64) {
	s.ask, s.now, s.unit, s.need = ask, now, ask.Members[0].Unit, max(ask.Need, 1)
	s.gangs, s.fractions = make(map[*cluster.Unit]*gang), make(map[cluster.ClassID]int64)
	s.lifted, s.barred = make(map[*cluster.Pod]bool), make(map[cluster.Slot]bool)
	s.budgeted, s.bounded, s.cost = false, false, free()
	s.r.store.Budgets(func(*cluster.Budget) { s.budgeted = true })
	s.spent, s.victims, s.waits, s.placed = s.spent[:0], s.victims[:0], s.waits[:0], s.placed[:0]
	s.books.open(s.r.store, ask)
	for slot := range s.r.roll.departing {
		for _, pod := range s.r.roll.leaving[slot] {
			s.books.leave(pod)
		}
	}
	if s.heap == nil {
		s.heap = heap.New(s.before, func(slot cluster.Slot, at int) { s.position[slot] = int32(at) })
	}
	for slots := s.state().Slots(); len(s.offers) < slots; {
		s.offers, s.position, s.scope = append(s.offers, offer{}), append(s.position, absent), append(s.scope, 0)
	}
}

func (s *seeker) state() *cluster.State { return &s.r.placer.snapshot.State }

// before is the order of offers. Among equals the profile's tie break decides.
func (s *seeker) before(a, b cluster.Slot) bool {
	if order := s.offers[a].compare(&s.offers[b]); order != 0 {
		return order < 0
	}
	return s.r.prefers(a, b)
}

// prefers decides between nodes that cost the same.
func (r *Reclaimer) prefers(a, b cluster.Slot) bool {
	if x, y := r.placer.tie(a), r.placer.tie(b); x != y {
		return x > y
	}
	return a < b
}

// here is the stage of now.
func (s *seeker) here() stage {
	return stage{s.r.placer.snapshot.Mark(), len(s.victims), len(s.waits), len(s.placed), s.cost, slices.Clone(s.spent)}
}

// back takes back all that was done since a stage.
func (s *seeker) back(to stage) {
	for i := to.victims; i < len(s.victims); i++ {
		s.spare(&s.victims[i])
	}
	for _, pod := range s.waits[to.waits:] {
		s.books.wait(pod, -1)
		delete(s.lifted, pod)
	}
	for i := to.placed; i < len(s.placed); i++ {
		s.books.place(s.placed[i].Pod.Class, -1)
	}
	s.victims, s.waits, s.placed = s.victims[:to.victims], s.waits[:to.waits], s.placed[:to.placed]
	s.cost, s.spent = to.cost, append(s.spent[:0], to.spent...)
	s.r.placer.snapshot.Rollback(to.assumed)
}

// spare strikes a victim off the books.
func (s *seeker) spare(v *victim) {
	s.books.take(v.account, v.holds, -1)
	s.books.settle(v.account)
	for _, pod := range v.pods {
		delete(s.lifted, pod)
	}
	s.mark(v, false)
}

// fill gives up to want of the members places on some nodes at the least cost, one after the other, and returns how many have one. It gives up
// when it costs too much.
func (s *seeker) fill(slots []cluster.Slot, members []*cluster.Pod, want int) (count int) {
	for from := 0; from < len(members) && count < want; {
		to := from + 1
		for to < len(members) && members[to].Class == members[from].Class {
			to++
		}
		s.collect(slots, members[from].Class)
		for _, pod := range members[from:to] {
			if count == want || s.tooDear() || !s.placeOne(pod) {
				break
			}
			count++
		}
		from = to
	}
	return count
}

func (s *seeker) tooDear() bool { return s.bounded && s.cost.Compare(s.most) >= 0 }

// collect asks all nodes what a member of a class costs there.
func (s *seeker) collect(slots []cluster.Slot, class *cluster.Class) {
	for s.heap.Len() > 0 {
		s.heap.Remove(s.heap.Len() - 1)
	}
	s.runs++
	s.class, s.far = class, reachesFar(class)
	for _, slot := range slots {
		s.scope[slot] = s.runs
		s.reprice(slot)
	}
}

// reprice asks a node anew.
func (s *seeker) reprice(slot cluster.Slot) {
	made, ok := s.price(slot)
	at := s.position[slot]
	switch {
	case !ok && at != absent:
		s.heap.Remove(int(at))
	case !ok:
	case at != absent:
		s.offers[slot] = made
		s.heap.Fix(int(at))
	default:
		s.offers[slot] = made
		s.heap.Push(slot)
	}
}

// placeOne places a pod of the class at the least cost. The others' offers may be outdated: they can only have become dearer, except where a
// gang has left, which is seen to at once, and where constraints between pods are in play.
func (s *seeker) placeOne(pod *cluster.Pod) bool {
	for s.heap.Len() > 0 {
		slot := s.heap.First()
		made, ok := s.price(slot)
		if !ok {
			s.heap.Pop()
			continue
		}
		if made.compare(&s.offers[slot]) > 0 {
			s.offers[slot] = made
			s.heap.Fix(0)
			continue
		}
		s.accept(slot, made, pod)
		return true
	}
	return false
}

// accept takes the parties of the latest price off and places the pod.
func (s *seeker) accept(slot cluster.Slot, made offer, pod *cluster.Pod) {
	first := len(s.victims)
	s.enact(slot, made, pod)
	s.reprice(slot)
	for i := first; i < len(s.victims); i++ {
		if s.victims[i].gang == nil {
			continue
		}
		for _, gone := range s.victims[i].pods {
			if other := s.r.store.Slot(gone.Node()); other != slot && s.scope[other] == s.runs {
				s.reprice(other)
			}
		}
	}
}

// enact does what the latest price says, and places the pod.
func (s *seeker) enact(slot cluster.Slot, made offer, pod *cluster.Pod) {
	for i := range s.taken {
		s.take(s.taken[i])
	}
	for _, leaving := range s.waitsOn {
		s.await(leaving)
	}
	s.cost = s.cost.plus(made.cost)
	s.assume(slot, pod)
}

// take makes a party victims.
func (s *seeker) take(p party) {
	v := victim{party: p, pods: slices.Clone(s.pods(&p)), holds: s.holds(&p)}
	s.violations(&s.spent, v.pods)
	s.lift(&v)
	s.victims = append(s.victims, v)
}

// lift takes a victim off its nodes and its queue's account.
func (s *seeker) lift(v *victim) {
	for _, pod := range v.pods {
		s.r.placer.snapshot.Lift(pod)
	}
	s.enter(v)
}

// enter enters a victim that is off its nodes in the books.
func (s *seeker) enter(v *victim) {
	s.books.take(v.account, v.holds, 1)
	s.books.settle(v.account)
	for _, pod := range v.pods {
		s.lifted[pod] = true
	}
	s.mark(v, true)
}

// mark tells the gang that a victim is, or is a member of, that it is taken or not.
func (s *seeker) mark(v *victim, taken bool) {
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

// inWhole reports whether a victim was to leave singly before its whole gang was.
func (s *seeker) inWhole(v *victim) bool {
	if v.gang != nil || v.pod.Unit == nil {
		return false
	}
	g := s.gangs[v.pod.Unit]
	return g != nil && g.taken
}

// await lifts a pod that leaves anyway.
func (s *seeker) await(pod *cluster.Pod) {
	s.r.placer.snapshot.Lift(pod)
	s.lifted[pod] = true
	s.books.wait(pod, 1)
	s.waits = append(s.waits, pod)
}

// assume places a pod on a node on which it fits.
func (s *seeker) assume(slot cluster.Slot, pod *cluster.Pod) {
	choice := s.r.placer.choose(slot, pod.Class)
	s.r.placer.snapshot.Assume(slot, pod, choice.Grant)
	s.books.place(pod.Class, 1)
	s.placed = append(s.placed, MemberChoice{pod, choice})
}

// plus is the cost of two sets of victims together.
func (c UnitCost) plus(d UnitCost) UnitCost {
	return UnitCost{
		Violations: c.Violations + d.Violations, Highest: max(c.Highest, d.Highest), Over: min(c.Over, d.Over), Gangs: c.Gangs + d.Gangs,
		Lost: resource.Add(c.Lost, d.Lost), Pods: c.Pods + d.Pods,
	}
}

// violations is how many of the pods would break a disruption budget, of which the list says what is spent already; it takes note of them.
func (s *seeker) violations(list *[]spent, pods []*cluster.Pod) (count int) {
	if !s.budgeted {
		return 0
	}
	for _, pod := range pods {
		breaks := false
		s.r.store.Covering(pod, func(b *cluster.Budget) bool {
			at := slices.IndexFunc(*list, func(s spent) bool { return s.budget == b })
			if at < 0 {
				at = len(*list)
				*list = append(*list, spent{b, b.Allowed})
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
