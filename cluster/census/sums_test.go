package census_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster/census"
	"hilbert.dev/hilbert/cluster/facts"
)

// sums is what the rows say of many terms, by hand.
type sums struct {
	counts           *census.Counts
	domains          []string // by slot
	rows             []map[census.TallyID]int32
	repels, attracts []census.TallyID
	weights          map[census.TallyID]int64
	read             map[census.ID]func(slot int) int64
}

// bump has one carrier more of a term on a slot, or one less.
func (w *sums) bump(t *rapid.T, slot int, id census.TallyID) {
	if w.rows[slot] == nil {
		w.rows[slot] = make(map[census.TallyID]int32)
	}
	delta := int32(1)
	if w.rows[slot][id] > 0 && rapid.Bool().Draw(t, "leaves") {
		delta = -1
	}
	w.rows[slot][id] += delta
	w.counts.Bump(census.Slot(slot), id, delta)
}

// sum adds up what the rows of a slot's domain say, each term by its weight.
func (w *sums) sum(slot int, terms []census.TallyID, weight func(census.TallyID) int64) (sum int64) {
	for other, row := range w.rows {
		if w.domains[slot] == "" || w.domains[other] != w.domains[slot] {
			continue
		}
		for _, id := range terms {
			sum += weight(id) * int64(row[id])
		}
	}
	return sum
}

func (w *sums) against(slot int) int64 {
	return w.sum(slot, w.repels, func(census.TallyID) int64 { return 1 })
}

func (w *sums) towards(slot int) int64 {
	return w.sum(slot, w.attracts, func(id census.TallyID) int64 { return w.weights[id] })
}

func (w *sums) check(t *rapid.T) {
	for slot := range w.rows {
		for id, want := range w.read {
			if got := w.counts.Census(id); got.Count(got.Domain(census.Slot(slot))) != want(slot) {
				t.Fatalf("slot %d: the sum is %d, want %d", slot, got.Count(got.Domain(census.Slot(slot))), want(slot))
			}
		}
	}
	if err := w.counts.Verify(); err != nil {
		t.Fatal(err)
	}
}

// TestSumsOfTerms: what a pod reads of many terms that are about it is, in each domain, what the rows say: how often terms that repel are carried there, and the weights
// of those that attract, however the carriers and the nodes change.
func TestSumsOfTerms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := census.NewRegistry()
		counts := census.NewCounts(r)
		const slots, terms = 6, 40
		domains := make([]string, slots)
		set := func(slot int) {
			domains[slot] = rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "zone")
			labels := map[string]string{}
			if domains[slot] != "" {
				labels["zone"] = domains[slot]
			}
			counts.SetNode(census.Slot(slot), &facts.Node{Name: fmt.Sprint(slot), Labels: labels})
		}
		for slot := range slots {
			counts.AddSlot()
			set(slot)
		}
		var repels, attracts []census.TallyID
		weights := make(map[census.TallyID]int64)
		for i := range terms {
			term := facts.AffinityTerm{TopologyKey: "zone", Pods: facts.PodSelector{Namespaces: []string{"ns"}, Labels: facts.LabelSelector{
				Expressions: []facts.Requirement{{Key: "pod", Operator: facts.NotIn, Values: []string{fmt.Sprint(i)}}},
			}}}
			of := &facts.Requirements{AntiAffinity: []facts.AffinityTerm{term}}
			if i%2 == 0 {
				of = &facts.Requirements{PreferredPods: []facts.WeightedAffinityTerm{{Weight: int32(i - 20), AffinityTerm: term}}}
			}
			id := r.Carry(of)[0]
			r.Act(id)
			if i%2 == 0 {
				attracts = append(attracts, id)
				weights[id] = int64(i - 20)
			} else {
				repels = append(repels, id)
			}
		}
		me := &census.Subject{Namespace: "ns", Labels: []facts.Label{{Key: "pod", Value: "me"}}}
		about := r.Match(me, nil).AffectedBy
		c, _ := r.Constrain(&facts.Requirements{}, []int32{0}, about)
		if len(about) != terms || len(c.ExistingAntiAffinity) != 1 || len(c.Preferred) != 1 {
			t.Fatalf("of %d terms it reads %d and %d censuses", len(about), len(c.ExistingAntiAffinity), len(c.Preferred))
		}
		w := &sums{
			counts: &counts, domains: domains, repels: repels, attracts: attracts, weights: weights,
			rows: make([]map[census.TallyID]int32, slots), read: map[census.ID]func(slot int) int64{},
		}
		w.read[c.ExistingAntiAffinity[0]], w.read[c.Preferred[0].Census] = w.against, w.towards
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			slot := rapid.IntRange(0, slots-1).Draw(t, "slot")
			if rapid.IntRange(0, 4).Draw(t, "moves") == 0 {
				set(slot)
			} else {
				w.bump(t, slot, about[rapid.IntRange(0, terms-1).Draw(t, "term")])
			}
			w.check(t)
		}
		r.Release(c)
		if counts.Learn(); r.Size().Censuses != 0 {
			t.Fatalf("%d censuses are left", r.Size().Censuses)
		}
	})
}
