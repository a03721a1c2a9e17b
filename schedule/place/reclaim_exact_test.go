package place

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place/pack"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/schedule/place/victims"
)

// TestReclaimIsFeasibleAndMinimal holds evictions for units of one class on small clusters against brute force over all sets of parties:
// there is a set exactly when one is found; none has a lower highest priority; and no party can be done without.
func TestReclaimIsFeasibleAndMinimal(t *testing.T) {
	shared := 0
	rapid.Check(t, func(t *rapid.T) {
		w := newSiege(t, false, false)
		w.claim(t)
		shared += len(w.shared)
		best, any := w.brute(func([]int) int { return 0 })
		found, ok := w.evict(t)
		if ok != any {
			t.Fatalf("evicts: %v, brute force: %v", ok, any)
		}
		if ok && found.Cost.Highest != best.Highest {
			t.Fatalf("highest priority %d of %v, brute force says %d", found.Cost.Highest, names(found.Victims), best.Highest)
		}
	})
	if shared == 0 {
		t.Error("no victim was ever shared")
	}
}

// TestReclaimSparesBudgets does so for units of one among pods of one size, with disruption budgets: no set violates them less, and of those
// that violate them as little none has a lower highest priority.
func TestReclaimSparesBudgets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newSiege(t, true, false)
		allowed := [2]int{rapid.IntRange(0, 2).Draw(t, "allowed"), rapid.IntRange(0, 2).Draw(t, "allowed")}
		for i := range allowed {
			w.store.Apply(facts.BudgetUpserted{Budget: &facts.Budget{
				Name: fmt.Sprint(i), Allowed: int32(allowed[i]), Pods: facts.LabelSelector{Expressions: []facts.Requirement{
					{Key: "app", Operator: facts.In, Values: []string{fmt.Sprint(i)}},
				}},
			}})
		}
		best, any := w.brute(func(set []int) (violations int) {
			left := allowed
			for _, i := range set {
				for _, pod := range w.groups[i].pods {
					if app := w.app[pod.UID]; app < len(left) {
						left[app]--
						if left[app] < 0 {
							violations++
						}
					}
				}
			}
			return violations
		})
		found, ok := w.evict(t)
		if ok != any || ok && (found.Cost.Violations != best.Violations || found.Cost.Highest != best.Highest) {
			t.Fatalf("evicts: %v at %+v: %v, brute force: %v at %+v", ok, found.Cost, names(found.Victims), any, best)
		}
	})
}

// siege is a small cluster full of pods and gangs, and a unit that wants in.
type siege struct {
	store  *cluster.Store
	r      *reclaimWorld
	ask    *pack.Ask
	app    map[facts.UID]int
	groups []naiveGroup
	now    int64
	// minRuntime is that of the queue that all pods but those of the unit are in, -1 where there are no queues; others are in namespace.
	minRuntime int64
	namespace  string
	unitIn     string  // the unit's namespace: that of the others, or one that feeds another queue
	ends       []int64 // of the protection of parties that may not leave yet
	// shared are pods that Plans of before claim, and that the unit may count on.
	shared []*cluster.Pod
}

// naiveGroup is who leaves together, by definition.
type naiveGroup struct {
	pods []*cluster.Pod
	gang bool
}

func newSiege(t *rapid.T, equal, protected bool) *siege {
	w := &siege{store: cluster.NewStore(), app: make(map[facts.UID]int), now: 10e9}
	if protected {
		w.protect(t)
	}
	nodes := rapid.IntRange(1, 4).Draw(t, "nodes")
	for i := range nodes {
		w.store.Apply(facts.NodeUpserted{Node: &facts.Node{
			Name: fmt.Sprint("n", i), Labels: map[string]string{"rack": fmt.Sprint(i % 2)},
			Allocatable: quantities(resource.NameCPU, rapid.IntRange(1, 6).Draw(t, "cpu"), resource.NameMemory, rapid.IntRange(3, 6).Draw(t, "mem"), resource.NamePods, 5),
		}})
	}
	gangs := rapid.IntRange(0, 2).Draw(t, "gangs")
	if equal {
		gangs = 0
	}
	for i := range gangs {
		w.store.Apply(facts.UnitUpserted{Unit: &facts.Unit{
			UnitName: facts.UnitName{Namespace: w.namespace, Name: fmt.Sprint("g", i)}, MinMember: int32(rapid.IntRange(1, 3).Draw(t, "min")), Indivisible: rapid.Bool().Draw(t, "whole"),
		}})
	}
	for i := range rapid.IntRange(1, 9).Draw(t, "pods") {
		f := facts.Pod{
			UID: facts.UID(fmt.Sprint("v", i)), Namespace: w.namespace, Name: fmt.Sprint("v", i), Node: fmt.Sprint("n", rapid.IntRange(0, nodes-1).Draw(t, "node")),
			Priority: rapid.Int32Range(0, 4).Draw(t, "priority"), Started: rapid.Int64Range(0, 9).Draw(t, "started") * 1e9,
		}
		if w.namespace != "" {
			f.Scheduled = rapid.Int64Range(0, 9).Draw(t, "scheduled") * 1e9
		}
		cpu, mem := 1, 1
		if !equal {
			cpu, mem = rapid.IntRange(1, 4).Draw(t, "cpu"), rapid.IntRange(0, 2).Draw(t, "mem")
		}
		f.Requirements = &facts.Requirements{Requests: quantities(resource.NameCPU, cpu, resource.NameMemory, mem)}
		if unit := rapid.IntRange(0, 3).Draw(t, "unit"); unit < gangs {
			f.Unit = fmt.Sprint("g", unit)
		}
		w.app[f.UID] = rapid.IntRange(0, 3).Draw(t, "app")
		f.Labels = []facts.Label{{Key: "app", Value: fmt.Sprint(w.app[f.UID])}}
		w.store.Apply(facts.PodUpserted{Pod: f})
	}
	w.ask = &pack.Ask{Need: 1}
	size := 1
	if !equal {
		size = rapid.IntRange(1, 4).Draw(t, "size")
		w.ask.Need = rapid.IntRange(1, size).Draw(t, "need")
		if rapid.Bool().Draw(t, "required") {
			w.ask.Topology.Required = "rack"
		}
	}
	w.store.Apply(facts.UnitUpserted{Unit: &facts.Unit{UnitName: facts.UnitName{Namespace: w.unitIn, Name: "u"}, MinMember: int32(w.ask.Need)}})
	r := &facts.Requirements{Requests: quantities(resource.NameCPU, rapid.IntRange(1, 4).Draw(t, "cpu"), resource.NameMemory, rapid.IntRange(1, 3).Draw(t, "mem"))}
	priority := rapid.Int32Range(1, 4).Draw(t, "priority")
	for i := range size {
		uid := facts.UID(fmt.Sprint("u", i))
		w.store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: uid, Namespace: w.unitIn, Name: string(uid), Ours: true, Unit: "u", Priority: priority, Requirements: r}})
		w.ask.Members = append(w.ask.Members, w.store.Pod(uid))
	}
	w.r = newReclaimer(t, w.store)
	w.enlist()
	return w
}

// claim lets pods come one after the other that evict others, and whose victims have not left when the unit comes.
func (w *siege) claim(t *rapid.T) {
	for i := range rapid.IntRange(0, 3).Draw(t, "claimants") {
		uid := facts.UID(fmt.Sprint("q", i))
		w.store.Apply(facts.PodUpserted{Pod: facts.Pod{
			UID: uid, Namespace: w.unitIn, Name: string(uid), Ours: true, Priority: rapid.Int32Range(1, 5).Draw(t, "priority"),
			Requirements: &facts.Requirements{Requests: quantities(resource.NameCPU, rapid.IntRange(1, 3).Draw(t, "cpu"), resource.NameMemory, 1)},
		}})
		ask := &pack.Ask{Members: []*cluster.Pod{w.store.Pod(uid)}, Need: 1}
		found, ok := w.r.Evict(ask, w.now)
		if !ok {
			if found.Placements, ok = w.r.placer.PlaceUnit(ask); !ok {
				w.store.Apply(facts.PodRemoved{UID: uid})
				continue
			}
		}
		if verdict := w.store.Commit(planOf(w.store, &found), rules.Commits); !verdict.Committed {
			t.Fatalf("%v for %s: %v", names(found.Victims), uid, verdict)
		}
	}
	w.r.placer.snapshot.Advance(w.store)
	w.enlist()
}

// enlist lists the parties that may be taken, and the pods that may be shared.
func (w *siege) enlist() {
	priority := w.ask.Members[0].Priority
	w.groups, w.ends, w.shared = nil, nil, nil
	add := func(gang bool, pods ...*cluster.Pod) {
		if slices.ContainsFunc(pods, (*cluster.Pod).Claimed) {
			w.share(pods, gang)
			return
		}
		if end := w.protectedUntil(pods); end > w.now {
			w.ends = append(w.ends, end)
			return
		}
		if !slices.ContainsFunc(pods, func(p *cluster.Pod) bool { return p.Priority >= priority }) {
			w.groups = append(w.groups, naiveGroup{pods, gang})
		}
	}
	for i := range 2 {
		u := w.store.Units().Get(facts.UnitName{Namespace: w.namespace, Name: fmt.Sprint("g", i)})
		if u == nil {
			continue
		}
		members := slices.Clone(u.Pods())
		slices.SortFunc(members, cluster.MoreImportant)
		singly := len(members)
		if u.Facts.MinMember > 1 || u.Facts.Indivisible {
			singly = spareOf(u, members)
			if len(members) > 0 {
				add(true, members...)
			}
		}
		for _, pod := range members[len(members)-singly:] {
			add(false, pod)
		}
	}
	for i := range w.store.Slots() {
		for _, pod := range w.store.PodsOn(cluster.Slot(i)) {
			if pod.Unit == nil {
				add(false, pod)
			}
		}
	}
}

// spareOf is how many members a gang can lose one by one.
func spareOf(u *cluster.Unit, members []*cluster.Pod) int {
	if u.Facts.Indivisible {
		return 0
	}
	spare := len(members) - int(u.Facts.MinMember)
	for _, pod := range members {
		if pod.Claimed() {
			spare--
		}
	}
	return max(spare, 0)
}

// share lists what may be counted on of a party of which Plans claim some: what is less important than the unit. A gang goes whole if it is claimed
// whole; of another one those go that are claimed, because it can spare them.
func (w *siege) share(pods []*cluster.Pod, gang bool) {
	staying := func(pod *cluster.Pod) bool { return !pod.Claimed() }
	lower := func(pod *cluster.Pod) bool { return pod.Priority < w.ask.Members[0].Priority }
	switch whole := !slices.ContainsFunc(pods, staying); {
	case gang && whole:
		if !slices.ContainsFunc(pods, func(pod *cluster.Pod) bool { return !lower(pod) }) {
			w.shared = append(w.shared, pods...)
		}
	default:
		for _, pod := range pods {
			if !staying(pod) && lower(pod) && !slices.Contains(w.shared, pod) {
				w.shared = append(w.shared, pod)
			}
		}
	}
}

// protect puts all pods but those of the unit into a queue of which the unit may take all by its priority, if they have run for long enough.
func (w *siege) protect(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "own queue") == 0 {
		w.unitIn = "theirs"
	}
	w.namespace, w.minRuntime = "theirs", rapid.Int64Range(0, 15).Draw(t, "min runtime")*1e9
	f := &facts.Queue{Name: "theirs", Parent: "above", Weight: 1, ReclaimMinRuntime: &w.minRuntime}
	above := &facts.Queue{Name: "above", Weight: 1, ReclaimMinRuntime: new(int64(3e9))}
	if rapid.Bool().Draw(t, "inherited") {
		f.ReclaimMinRuntime, above.ReclaimMinRuntime = nil, &w.minRuntime
	}
	w.store.Apply(facts.QueueUpserted{Queue: above})
	w.store.Apply(facts.QueueUpserted{Queue: f})
	w.store.Apply(facts.NamespaceUpserted{Namespace: facts.Namespace{Name: "theirs", Labels: []facts.Label{{Key: spec.LabelQueue, Value: "theirs"}}}})
}

// protectedUntil is when those that leave together may leave, by the rule as users know it: all that their gang needs have run for long enough. The members
// come the most important first.
func (w *siege) protectedUntil(pods []*cluster.Pod) (end int64) {
	if w.unitIn == w.namespace {
		return 0
	}
	needed := pods
	if u := pods[0].Unit; u != nil && len(pods) > 1 && !u.Facts.Indivisible {
		needed = pods[:min(len(pods), int(u.Facts.MinMember))]
	}
	for _, pod := range needed {
		since := pod.Started
		if since == 0 {
			since = pod.Scheduled
		}
		if since > 0 {
			end = max(end, since+w.minRuntime)
		}
	}
	return end
}

// TestReclaimSparesTheYoung holds evictions from a queue with a minimum runtime against brute force over all sets of parties that have run for long
// enough; and where there is none, what is said of when to look again against the first time at which there is one.
func TestReclaimSparesTheYoung(t *testing.T) {
	waited := 0
	rapid.Check(t, func(t *rapid.T) {
		for range 20 {
			for w := newSiege(t, false, true); !w.settled(t); {
				waited++
			}
		}
	})
	if waited == 0 {
		t.Error("nothing was ever protected")
	}
}

// settled asks for victims. If there are none now and there will be, it goes on to that time.
func (w *siege) settled(t *rapid.T) bool {
	best, any := w.brute(func([]int) int { return 0 })
	found, ok := w.evict(t)
	if ok != any || ok && found.Cost.Highest != best.Highest {
		t.Fatalf("at %v evicts %v, of priority %d: %v; brute force: priority %d, %v", w.now, names(found.Victims), found.Cost.Highest, ok, best.Highest, any)
	}
	if ok || w.fitsWithout(nil) {
		return true
	}
	next := slices.Clone(w.ends)
	slices.Sort(next)
	for _, w.now = range next {
		w.enlist()
		if _, any = w.brute(func([]int) int { return 0 }); any {
			break
		}
	}
	if any && found.Protected.Until == 0 || found.Protected.Until > w.now {
		t.Fatalf("is to look again at %v, and may evict at %v: %v", found.Protected.Until, w.now, any)
	}
	if any && found.Protected.Queue != w.namespace {
		t.Fatalf("it waits for queue %q", found.Protected.Queue)
	}
	return !any
}

// fits counts by hand whether the unit fits without some parties, when those that leave for others have left.
func (w *siege) fits(set []int) bool {
	off := make(map[*cluster.Pod]bool)
	for _, pod := range w.shared {
		off[pod] = true
	}
	for _, i := range set {
		for _, pod := range w.groups[i].pods {
			off[pod] = true
		}
	}
	return w.fitsWithout(off)
}

func (w *siege) fitsWithout(off map[*cluster.Pod]bool) bool {
	for _, n := range w.places(off) {
		if n >= int64(w.ask.Need) {
			return true
		}
	}
	return false
}

// places is how many members each domain takes without some pods.
func (w *siege) places(off map[*cluster.Pod]bool) map[string]int64 {
	places := make(map[string]int64)
	for i := range w.store.Slots() {
		slot := cluster.Slot(i)
		n := int64(math.MaxInt64)
		for _, a := range w.ask.Members[0].Class.Amounts {
			free := w.store.Allocatable(slot, a.Kind)
			for _, pod := range w.store.PodsOn(slot) {
				if !off[pod] {
					free -= pod.Class.Amounts.Get(a.Kind)
				}
			}
			n = min(n, max(free, 0)/a.Value)
		}
		places[w.domain(slot)] += n
	}
	return places
}

// domain is the one that all members must share with a node; "" if they need not.
func (w *siege) domain(slot cluster.Slot) string {
	if w.ask.Topology.Required == "" {
		return ""
	}
	return w.store.Node(slot).Labels["rack"]
}

// brute returns the least of Violations and Highest over all sets of parties without which the unit fits.
func (w *siege) brute(violations func(set []int) int) (best victims.UnitCost, ok bool) {
	if w.fitsWithout(nil) {
		return best, false
	}
	for bits := range 1 << len(w.groups) {
		var set []int
		cost := victims.UnitCost{Highest: math.MinInt32}
		for i := range w.groups {
			if bits&(1<<i) != 0 {
				set = append(set, i)
				for _, pod := range w.groups[i].pods {
					cost.Highest = max(cost.Highest, pod.Priority)
				}
			}
		}
		cost.Violations = violations(set)
		if (!ok || cost.Compare(best) < 0) && w.fits(set) {
			best, ok = cost, true
		}
	}
	if best.Highest == math.MinInt32 { // nobody more has to leave
		best.Highest = 0
	}
	return best, ok
}

// evict asks for victims, and checks what holds for all: they may be taken, none is superfluous, and the ledger takes the Plan.
func (w *siege) evict(t *rapid.T) (victims.Eviction, bool) {
	hopeless := w.r.NoVictims(w.ask)
	found, ok := w.r.Evict(w.ask, w.now)
	checkUntouched(t, w.r)
	if !ok {
		return found, false
	}
	if hopeless {
		t.Fatalf("%v leave, though it was said to be hopeless", names(found.Victims))
	}
	off := make(map[*cluster.Pod]bool)
	for _, pod := range found.Victims {
		off[pod] = true
	}
	for _, p := range w.minimal(off, w.domain(found.Placements[0].Slot)) {
		t.Fatalf("%v need not leave, of %v", names(p.pods), names(found.Victims))
	}
	if verdict := w.store.Commit(planOf(w.store, &found), rules.Commits); !verdict.Committed {
		t.Fatalf("%v for %v: %v", names(found.Victims), found.Placements, verdict)
	}
	return found, true
}

// minimal returns the parties that could stay while the unit goes to its domain: of a gang that is torn down the whole, else the pods. In another domain it
// may fit without one of them, where a gang has members in both: domains are compared before superfluous victims are put back.
func (w *siege) minimal(off map[*cluster.Pod]bool, domain string) (superfluous []naiveGroup) {
	for _, p := range w.groups {
		all := !slices.ContainsFunc(p.pods, func(pod *cluster.Pod) bool { return !off[pod] })
		if !all || !p.gang && w.torn(p.pods[0].Unit, off) {
			continue
		}
		for _, pod := range p.pods {
			off[pod] = false
		}
		if w.places(off)[domain] >= int64(w.ask.Need) {
			superfluous = append(superfluous, p)
		}
		for _, pod := range p.pods {
			off[pod] = true
		}
	}
	return superfluous
}

// torn reports whether the unit goes whole.
func (w *siege) torn(u *cluster.Unit, off map[*cluster.Pod]bool) bool {
	return u != nil && u.Atomic() && !slices.ContainsFunc(u.Pods(), func(pod *cluster.Pod) bool { return !off[pod] })
}

func names(pods []*cluster.Pod) (list []string) {
	for _, pod := range pods {
		list = append(list, pod.Name)
	}
	return list
}
