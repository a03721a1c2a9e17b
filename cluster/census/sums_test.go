package census_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster/census"
	"hilbert.dev/hilbert/cluster/facts"
)

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
		rows := make([]map[census.TallyID]int32, slots)
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			slot := rapid.IntRange(0, slots-1).Draw(t, "slot")
			if rapid.IntRange(0, 4).Draw(t, "moves") == 0 {
				set(slot)
			} else {
				id := about[rapid.IntRange(0, terms-1).Draw(t, "term")]
				if rows[slot] == nil {
					rows[slot] = make(map[census.TallyID]int32)
				}
				delta := int32(1)
				if rows[slot][id] > 0 && rapid.Bool().Draw(t, "leaves") {
					delta = -1
				}
				rows[slot][id] += delta
				counts.Bump(census.Slot(slot), id, delta)
			}
			for slot := range slots {
				var against, towards int64
				for other := range slots {
					if domains[slot] == "" || domains[other] != domains[slot] {
						continue
					}
					for _, id := range repels {
						against += int64(rows[other][id])
					}
					for _, id := range attracts {
						towards += weights[id] * int64(rows[other][id])
					}
				}
				for id, want := range map[census.ID]int64{c.ExistingAntiAffinity[0]: against, c.Preferred[0].Census: towards} {
					if got := counts.Census(id); got.Count(got.Domain(census.Slot(slot))) != want {
						t.Fatalf("slot %d: the sum is %d, want %d", slot, got.Count(got.Domain(census.Slot(slot))), want)
					}
				}
			}
			if err := counts.Verify(); err != nil {
				t.Fatal(err)
			}
		}
		r.Release(c)
		if counts.Learn(); r.Size().Censuses != 0 {
			t.Fatalf("%d censuses are left", r.Size().Censuses)
		}
	})
}
