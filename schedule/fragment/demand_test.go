package fragment

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/topology"
)

// scarceMarket is a market over nodes of the models A and B, where pods that name B arrive seldom, and want this part of B's GPUs in the long run.
func scarceMarket(nodes []Node, part, scarcity float64) *Market {
	var mix Mix
	var d Demand
	one, named := whole(4000, 1), slice(4000, 0, "B")
	named.GPU.Whole = 1
	for range 50 {
		mix.Add(&one)
	}
	mix.Add(&named)
	capacity := 0.0
	for i := range nodes {
		if s := &nodes[i].Shape; s.Model == "B" {
			capacity += float64(s.GPUs)
		}
	}
	d.Add(&named, int64(part*capacity))
	d.Add(&one, int64(capacity))
	m := &Market{Params: Defaults()}
	m.Params.Scarcity = scarcity
	m.Learn(&mix, &d, nodes)
	return m
}

// A pod that may use any model keeps off the one that others need, as long as there is room elsewhere.
func TestScarceModelsAreKept(t *testing.T) {
	nodes := []Node{node(32_000, "A", 1000, 1000), node(32_000, "B", 1000, 1000)}
	one := whole(4000, 1)
	for _, c := range []struct {
		part, scarcity float64
		keeps          bool
	}{{1, Defaults().Scarcity, true}, {0, Defaults().Scarcity, false}, {1, 0, false}} {
		m := scarceMarket(nodes, c.part, c.scarcity)
		onA, _ := score(m, &nodes[0], &one)
		onB, _ := score(m, &nodes[1], &one)
		if keeps := onB-onA > 50; keeps != c.keeps {
			t.Errorf("%+v: the pod costs %v on A and %v on B", c, onA, onB)
		}
	}
}

// What is bound is never more than there is or than is wanted; it does not depend on the order in which demand comes; what is taken back leaves nothing.
func TestScarcityIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := drawModels(t)
		sets := []Models{NewModels("A"), NewModels("A", "B"), NewModels("C"), NewModels("D"), {}}
		type entry struct {
			r    Request
			pods int64
		}
		list := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) entry {
			r := Request{GPU: topology.Request{Whole: rapid.SampledFrom([]int8{1, 1, 4, 8}).Draw(t, "whole")}, Models: rapid.SampledFrom(sets).Draw(t, "models")}
			return entry{r, rapid.Int64Range(1, 20).Draw(t, "pods")}
		}), 0, 8).Draw(t, "demand")
		bound := func(reversed bool) (list2 []float64) {
			m := &Market{Params: Defaults(), items: []item{
				{key: itemKey{parts: parts, models: sets[0]}}, {key: itemKey{parts: parts, models: sets[2]}}, {key: itemKey{parts: parts}},
			}}
			m.bidders(nodes)
			var d Demand
			wanted, capacity := 0.0, 0.0
			for i := range list {
				e := &list[i]
				if reversed {
					e = &list[len(list)-1-i]
				}
				d.Add(&e.r, e.pods)
				wanted += float64(e.pods * e.r.GPU.Total())
			}
			m.scarcity(&d, nodes)
			all := 0.0
			for _, b := range m.tables {
				if b.bound < 0 || b.bound > b.capacity {
					t.Fatalf("%v is bound of %v", b.bound, b.capacity)
				}
				capacity += b.capacity
				all += b.bound
				list2 = append(list2, b.bound)
			}
			if all > max(wanted, capacity)+1e-6 {
				t.Fatalf("%v is bound, %v wanted", all, wanted)
			}
			for _, e := range list {
				d.Add(&e.r, -e.pods)
			}
			if len(d.kinds) != 0 {
				t.Fatalf("%v is left", d.kinds)
			}
			return list2
		}
		if a, b := bound(false), bound(true); !slices.Equal(a, b) {
			t.Fatalf("in another order %v is bound, not %v", b, a)
		}
	})
}

// drawModels draws nodes of three models.
func drawModels(t *rapid.T) (nodes []Node) {
	for range rapid.IntRange(1, 6).Draw(t, "nodes") {
		n := node(8000, rapid.SampledFrom([]string{"A", "B", "C"}).Draw(t, "model"))
		n.Shape.GPUs = rapid.IntRange(0, 8).Draw(t, "gpus")
		nodes = append(nodes, n)
	}
	return nodes
}
