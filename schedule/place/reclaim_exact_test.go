package place

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

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
	rapid.Check(t, func(t *rapid.T) {
		w := newSiege(t, false)
		best, any := w.brute(func([]int) int { return 0 })
		found, ok := w.evict(t)
		if ok != any {
			t.Fatalf("evicts: %v, brute force: %v", ok, any)
		}
		if ok && found.Cost.Highest != best.Highest {
			t.Fatalf("highest priority %d of %v, brute force says %d", found.Cost.Highest, names(found.Victims), best.Highest)
		}
	})
}

// TestReclaimSparesBudgets does so for units of one among pods of one size, with disruption budgets: no set violates them less, and of those
// that violate them as little none has a lower highest priority.
func TestReclaimSparesBudgets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newSiege(t, true)
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
}

// naiveGroup is who leaves together, by definition.
type naiveGroup struct {
	pods []*cluster.Pod
	gang bool
}

func newSiege(t *rapid.T, equal bool) *siege {
	w := &siege{store: cluster.NewStore(), app: make(map[facts.UID]int)}
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
			UnitName: facts.UnitName{Name: fmt.Sprint("g", i)}, MinMember: int32(rapid.IntRange(1, 3).Draw(t, "min")), Indivisible: rapid.Bool().Draw(t, "whole"),
		}})
	}
	for i := range rapid.IntRange(1, 9).Draw(t, "pods") {
		f := facts.Pod{
			UID: facts.UID(fmt.Sprint("v", i)), Name: fmt.Sprint("v", i), Node: fmt.Sprint("n", rapid.IntRange(0, nodes-1).Draw(t, "node")),
			Priority: rapid.Int32Range(0, 4).Draw(t, "priority"), Started: rapid.Int64Range(0, 9).Draw(t, "started") * 1e9,
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
	w.store.Apply(facts.UnitUpserted{Unit: &facts.Unit{UnitName: facts.UnitName{Name: "u"}, MinMember: int32(w.ask.Need)}})
	r := &facts.Requirements{Requests: quantities(resource.NameCPU, rapid.IntRange(1, 4).Draw(t, "cpu"), resource.NameMemory, rapid.IntRange(1, 3).Draw(t, "mem"))}
	priority := rapid.Int32Range(1, 4).Draw(t, "priority")
	for i := range size {
		uid := facts.UID(fmt.Sprint("u", i))
		w.store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: uid, Name: string(uid), Ours: true, Unit: "u", Priority: priority, Requirements: r}})
		w.ask.Members = append(w.ask.Members, w.store.Pod(uid))
	}
	w.r = newReclaimer(t, w.store)
	w.enlist(gangs)
	return w
}

// enlist lists the parties that may be taken.
func (w *siege) enlist(gangs int) {
	priority := w.ask.Members[0].Priority
	add := func(gang bool, pods ...*cluster.Pod) {
		if !slices.ContainsFunc(pods, func(p *cluster.Pod) bool { return p.Priority >= priority }) {
			w.groups = append(w.groups, naiveGroup{pods, gang})
		}
	}
	for i := range gangs {
		u := w.store.Units().Get(facts.UnitName{Name: fmt.Sprint("g", i)})
		members := slices.Clone(u.Pods())
		slices.SortFunc(members, cluster.MoreImportant)
		singly := len(members)
		if u.Facts.MinMember > 1 || u.Facts.Indivisible {
			singly = 0
			if !u.Facts.Indivisible {
				singly = max(len(members)-int(u.Facts.MinMember), 0)
			}
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

// fits counts by hand whether the unit fits without some parties.
func (w *siege) fits(set []int) bool {
	off := make(map[*cluster.Pod]bool)
	for _, i := range set {
		for _, pod := range w.groups[i].pods {
			off[pod] = true
		}
	}
	return w.fitsWithout(off)
}

func (w *siege) fitsWithout(off map[*cluster.Pod]bool) bool {
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
		domain := ""
		if w.ask.Topology.Required != "" {
			domain = w.store.Node(slot).Labels["rack"]
		}
		places[domain] += n
	}
	for _, n := range places {
		if n >= int64(w.ask.Need) {
			return true
		}
	}
	return false
}

// brute returns the least of Violations and Highest over all sets of parties without which the unit fits.
func (w *siege) brute(violations func(set []int) int) (best victims.UnitCost, ok bool) {
	if w.fits(nil) {
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
	return best, ok
}

// evict asks for victims, and checks what holds for all: they may be taken, none is superfluous, and the ledger takes the Plan.
func (w *siege) evict(t *rapid.T) (victims.Eviction, bool) {
	hopeless := w.r.NoVictims(w.ask)
	found, ok := w.r.Evict(w.ask, 10e9)
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
	for _, p := range w.minimal(off) {
		t.Fatalf("%v need not leave, of %v", names(p.pods), names(found.Victims))
	}
	if verdict := w.store.Commit(planOf(w.store, &found), rules.Commits); !verdict.Committed {
		t.Fatalf("%v for %v: %v", names(found.Victims), found.Placements, verdict)
	}
	return found, true
}

// minimal returns the parties that could stay: of a gang that is torn down the whole, else the pods.
func (w *siege) minimal(off map[*cluster.Pod]bool) (superfluous []naiveGroup) {
	for _, p := range w.groups {
		all := !slices.ContainsFunc(p.pods, func(pod *cluster.Pod) bool { return !off[pod] })
		if !all || !p.gang && w.torn(p.pods[0].Unit, off) {
			continue
		}
		for _, pod := range p.pods {
			off[pod] = false
		}
		if w.fitsWithout(off) {
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
