package place

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/schedule/place/explain"
	"hilbert.dev/hilbert/schedule/place/pack"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// TestUnitsHoldWhatIsAsked: whatever a unit asks of whatever cluster, what is placed passes every filter at its turn, is enough, and is
// packed as required; and what is not placed leaves the snapshot as it was.
func TestUnitsHoldWhatIsAsked(t *testing.T) { rapid.Check(t, checkUnit) }

// FuzzPlaceUnit is the same, led by coverage.
func FuzzPlaceUnit(f *testing.F) { f.Fuzz(rapid.MakeFuzz(checkUnit)) }

func checkUnit(t *rapid.T) {
	w := drawUnitWorld(t)
	t.Logf("%d members, %d needed, topology %+v, subgroups %+v, anchors %v, within %v", len(w.ask.Members), w.ask.Need, w.ask.Topology, w.ask.Subgroups, w.ask.Anchors, w.ask.Within)
	for range rapid.IntRange(1, 2).Draw(t, "rounds") { // the second finds all that is kept of the first
		before, mark := rows(w.snapshot), w.snapshot.Mark()
		placed, ok := w.placer.PlaceUnit(&w.ask)
		if ok {
			w.checkPlaced(t, placed)
			w.checkBest(t, placed)
			w.checkSpread(t, placed)
		}
		w.checkFound(t, placed, ok)
		w.snapshot.Rollback(mark)
		if after := rows(w.snapshot); after != before {
			t.Fatalf("the snapshot was\n%s and is\n%s", before, after)
		}
		if err := w.snapshot.Verify(); err != nil {
			t.Fatal(err)
		}
		checkIndex(t, w.placer)
	}
}

// checkPlaced judges the choices one after the other.
func (w *unitWorld) checkPlaced(t *rapid.T, placed []pack.MemberChoice) {
	if len(placed) < max(w.ask.Need, 1) {
		t.Fatalf("%d placed, %d needed", len(placed), w.ask.Need)
	}
	s := cluster.NewSnapshot()
	s.Advance(w.store)
	seen := make(map[*cluster.Pod]bool)
	for _, m := range placed {
		if seen[m.Pod] || !slices.Contains(w.ask.Members, m.Pod) || !w.allows(m.Slot) {
			t.Fatalf("%s on %d: placed twice, not of the unit, or where it must not be", m.Pod.Name, m.Slot)
		}
		seen[m.Pod] = true
		if refused := rules.Commits(&s.State, m.Slot, m.Pod.Class, &m.Grant); refused != "" {
			t.Fatalf("%s refuses %s on %d", refused, m.Pod.Name, m.Slot)
		}
		s.Assume(m.Slot, m.Pod, m.Grant)
	}
	for _, key := range []string{w.ask.Topology.Required, w.ask.Topology.Uniform} {
		w.checkOne(t, key, placed, w.ask.Anchors)
	}
	for _, group := range []string{"g1", "g2"} {
		of := slices.DeleteFunc(slices.Clone(placed), func(m pack.MemberChoice) bool { return m.Pod.Subgroup != group })
		at := slices.DeleteFunc(slices.Clone(w.ask.Anchors), func(a pack.Anchor) bool { return a.Subgroup != group })
		for _, key := range []string{w.ask.Subgroups.Required, w.ask.Subgroups.Uniform} {
			w.checkOne(t, key, of, at)
		}
	}
}

// checkOne: all members are in one domain of the label, and in one where others run already.
func (w *unitWorld) checkOne(t *rapid.T, key string, placed []pack.MemberChoice, anchors []pack.Anchor) {
	if key == "" || len(placed) == 0 {
		return
	}
	want, ok := w.value(placed[0].Slot, key)
	for _, m := range placed {
		if value, has := w.value(m.Slot, key); !ok || !has || value != want {
			t.Fatalf("members on %s %q and %q", key, want, value)
		}
	}
	anchored := make(map[string]bool)
	for _, a := range anchors {
		if value, ok := w.value(a.Slot, key); ok {
			anchored[value] = true
		}
	}
	if len(anchored) > 0 && !anchored[want] {
		t.Fatalf("members on %s %q, others run on %v", key, want, anchored)
	}
}

// checkBest: where the domain is all that counts, each member has the best node of it at its turn.
func (w *unitWorld) checkBest(t *rapid.T, placed []pack.MemberChoice) {
	p := w.ask.Topology
	if !w.ask.Subgroups.IsZero() || p.Preferred != "" || p.Spread != "" {
		return
	}
	s := cluster.NewSnapshot()
	s.Advance(w.store)
	judge := NewPlacer(s, w.placer.index.Profile(), 7, 1)
	in, _ := w.domain(placed[0].Slot, p.Uniform, p.Required)
	for _, m := range placed {
		want := bestAmong(judge, m.Pod.Class, func(slot cluster.Slot) bool {
			at, ok := w.domain(slot, p.Uniform, p.Required)
			return ok && at == in && w.allows(slot)
		})
		if m.Slot != want {
			t.Fatalf("%s went to %d, brute force says %d", m.Pod.Name, m.Slot, want)
		}
		s.Assume(m.Slot, m.Pod, m.Grant)
	}
}

// checkFound compares with brute force over all domains, for members that are alike and have no constraints between them: a domain that
// holds them is found, it is the smallest that does, and preferred domains are as few as can be.
func (w *unitWorld) checkFound(t *rapid.T, placed []pack.MemberChoice, ok bool) {
	p, all, need := w.ask.Topology, len(w.ask.Members), max(w.ask.Need, 1)
	if !w.plain || !w.ask.Subgroups.IsZero() || all == 0 {
		return
	}
	pod := w.ask.Members[0]
	sums := w.capacities(pod, w.pinned(p.Uniform, p.Required), p.Uniform, p.Required)
	if len(sums) == 0 {
		sums[""] = 0
	}
	most := slices.Max(slices.Collect(maps.Values(sums)))
	if ok != (most >= need) {
		t.Fatalf("placed: %v, but %d of %d needed fit in the best of %v", ok, most, need, sums)
	}
	if !ok {
		return
	}
	if len(placed) != min(most, all) {
		t.Fatalf("%d placed, %d would fit in the best of %v", len(placed), most, sums)
	}
	in, _ := w.domain(placed[0].Slot, p.Uniform, p.Required)
	nearest := p.Uniform != "" && p.Preferred != "" && len(placed) == all
	if nearest && len(w.ask.Anchors) == 0 {
		w.checkNearest(t, pod, sums, placed)
	}
	for name, sum := range sums {
		if sum >= len(placed) && sum < sums[in] && !nearest {
			t.Fatalf("%d went into %q, but %q is smaller: %v", len(placed), in, name, sums)
		}
	}
	within := func(slot cluster.Slot) bool { at, ok := w.domain(slot, p.Uniform, p.Required); return ok && at == in }
	if p.Preferred != "" {
		w.checkPreferred(t, placed, within)
	}
}

// checkNearest: where some uniform value has one preferred domain that holds all members, they are in one.
func (w *unitWorld) checkNearest(t *rapid.T, pod *cluster.Pod, sums map[string]int, placed []pack.MemberChoice) {
	p := w.ask.Topology
	used := make(map[string]bool)
	for _, m := range placed {
		value, _ := w.value(m.Slot, p.Preferred)
		used[value] = true
	}
	for name := range sums {
		of := func(slot cluster.Slot) bool { at, ok := w.domain(slot, p.Uniform, p.Required); return ok && at == name }
		for domain, room := range w.capacities(pod, of, p.Preferred) {
			if room >= len(placed) && len(used) > 1 {
				t.Fatalf("%d went into %d domains, %q of %q holds them all", len(placed), len(used), domain, name)
			}
		}
	}
}

// pinned returns whether a slot may be used, as far as the nodes of running members say.
func (w *unitWorld) pinned(keys ...string) func(cluster.Slot) bool {
	return func(slot cluster.Slot) bool {
		for _, key := range keys {
			some, same := false, false
			for _, a := range w.ask.Anchors {
				if value, ok := w.value(a.Slot, key); ok {
					here, _ := w.value(slot, key)
					some, same = true, same || here == value
				}
			}
			if key != "" && some && !same {
				return false
			}
		}
		return true
	}
}

// checkPreferred: the members are in one preferred domain if one holds them, else in one of the next wider level that does, and so on; and
// there in as few as possible. Where members run already, nothing is said.
func (w *unitWorld) checkPreferred(t *rapid.T, placed []pack.MemberChoice, within func(cluster.Slot) bool) {
	if len(w.ask.Anchors) > 0 || len(placed) < len(w.ask.Members) {
		return
	}
	p, levels := w.ask.Topology, w.levels
	fixed := []string{p.Uniform, p.Required}
	for at := slices.Index(levels, p.Preferred); at >= 0 && !slices.Contains(fixed, levels[at]); at-- {
		sums := w.capacities(placed[0].Pod, within, levels[at])
		smallest := 0
		for _, sum := range sums {
			if sum >= len(placed) && (smallest == 0 || sum < smallest) {
				smallest = sum
			}
		}
		if smallest == 0 {
			continue
		}
		in, _ := w.domain(placed[0].Slot, levels[at])
		w.checkOne(t, levels[at], placed, nil)
		if sums[in] != smallest {
			t.Fatalf("%d went into %s %q, which has room for %d, but one has for %d", len(placed), levels[at], in, sums[in], smallest)
		}
		outer := within
		within = func(slot cluster.Slot) bool {
			here, ok := w.domain(slot, levels[at])
			return ok && here == in && outer(slot)
		}
		break
	}
	if !slices.Contains(fixed, p.Preferred) {
		w.checkFew(t, placed, within)
	}
}

// checkFew: the members are in as few preferred domains as it takes, and outside of all only what is left over.
func (w *unitWorld) checkFew(t *rapid.T, placed []pack.MemberChoice, within func(cluster.Slot) bool) {
	key := w.ask.Topology.Preferred
	sums := slices.Sorted(maps.Values(w.capacities(placed[0].Pod, within, key)))
	left, few := len(placed), 0
	for i := len(sums) - 1; i >= 0 && left > 0 && sums[i] > 0; i-- {
		left -= sums[i]
		few++
	}
	used, outside := make(map[string]bool), 0
	for _, m := range placed {
		if at, ok := w.domain(m.Slot, key); ok {
			used[at] = true
		} else {
			outside++
		}
	}
	if len(used) != few || outside != max(left, 0) {
		t.Fatalf("%d members in %d domains of %s and %d in none; %d would do, of %v", len(placed), len(used), key, outside, few, sums)
	}
}

// checkSpread: each member went to a domain that had the fewest, of those that had room at its turn.
func (w *unitWorld) checkSpread(t *rapid.T, placed []pack.MemberChoice) {
	p := w.ask.Topology
	if w.bound || p.Spread == "" || p.Spread == p.Uniform || p.Spread == p.Required || p.Preferred != "" || !w.ask.Subgroups.IsZero() {
		return
	}
	scope, _ := w.domain(placed[0].Slot, p.Uniform, p.Required)
	counts := make(map[string]int)
	for _, a := range w.ask.Anchors {
		if at, ok := w.domain(a.Slot, p.Spread); ok {
			counts[at]++
		}
	}
	s := cluster.NewSnapshot()
	s.Advance(w.store)
	for i, m := range placed {
		in, ok := w.domain(m.Slot, p.Spread)
		for j := range s.Slots() {
			slot := cluster.Slot(j)
			name, has := w.domain(slot, p.Spread)
			at, inside := w.domain(slot, p.Uniform, p.Required)
			if !has || !inside || at != scope || !w.allows(slot) || ok && counts[name] >= counts[in] {
				continue
			}
			if rules.Fits(&s.State, slot, m.Pod.Class) {
				t.Fatalf("member %d went to %s %q with %d members, but %q has %d, and room", i, p.Spread, in, counts[in], name, counts[name])
			}
		}
		counts[in]++
		s.Assume(m.Slot, m.Pod, m.Grant)
	}
}

// checkIndex compares every capacity, every sum by domain and every partition with a recount.
func checkIndex(t *rapid.T, p *Placer) {
	if err := p.index.Verify(); err != nil {
		t.Fatal(err)
	}
}

// bestAmong is Placer.Best as if the cluster had only some of its nodes.
func bestAmong(p *Placer, c *cluster.Class, has func(cluster.Slot) bool) cluster.Slot {
	return explain.Best(p.index, p.index.Profile().Judge(&p.snapshot.State, c, has))
}
