package queue

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/resource"
)

// grove is a random tree of queues and what is wanted in it.
type grove struct {
	facts    []*facts.Queue
	wants    map[string]int64 // own demand of a queue
	capacity int64
	random   *rand.Rand
}

func newGrove(seed uint64) *grove {
	g := &grove{wants: make(map[string]int64), random: rand.New(rand.NewPCG(seed, 2))}
	scale := int64(1)
	if g.random.IntN(2) == 0 {
		scale = 1 << 40 // bytes
	}
	names := []string{""}
	for i := range 1 + g.random.IntN(9) {
		f := &facts.Queue{Name: fmt.Sprint("q", i), Parent: names[g.random.IntN(len(names))], Weight: int64(1 + g.random.IntN(4))}
		if g.random.IntN(2) == 0 {
			f.Guaranteed = []resource.Quantity{{Name: resource.NameCPU, Amount: int64(g.random.IntN(30)) * scale}}
		}
		if g.random.IntN(3) == 0 {
			f.Max = []resource.Quantity{{Name: resource.NameCPU, Amount: int64(g.random.IntN(60)) * scale}}
		}
		g.facts, names = append(g.facts, f), append(names, f.Name)
		g.wants[f.Name] = int64(g.random.IntN(50)) * scale
	}
	g.capacity = int64(g.random.IntN(200)) * scale
	return g
}

// plant returns the root of a ledger that has seen the queues in some order.
func (g *grove) plant() *cluster.Store {
	store := cluster.NewStore()
	for _, i := range g.random.Perm(len(g.facts)) {
		store.Apply(facts.QueueUpserted{Queue: g.facts[i]})
	}
	return store
}

// shares works out what everybody ought to have of the CPU, by name.
func (g *grove) shares(store *cluster.Store) map[string]int64 {
	demand := make(map[*quota.Queue][]int64)
	for name, amount := range g.wants {
		demand[store.Quota().Queue(name)] = []int64{amount}
	}
	got := make(map[string]int64)
	for q, column := range FairShares(store.Quota().Root(), []int64{g.capacity}, demand) {
		got[q.Name] = column[resource.CPU]
	}
	return got
}

// wanted is what a queue and those below it ask for.
func wanted(q *quota.Queue, own map[string]int64) int64 {
	sum := own[q.Name]
	for _, child := range q.Children() {
		sum += wanted(child, own)
	}
	return min(sum, q.Limit(resource.CPU))
}

// TestFairShares: what is dealt out adds up, at every queue, to what there is or what is wanted; nobody gets more than it may or wants;
// what one gets is what pouring gives; and the order in which queues were made does not matter.
func TestFairShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := newGrove(rapid.Uint64().Draw(t, "seed"))
		store := g.plant()
		got := g.shares(store)
		if want := min(g.capacity, wanted(store.Quota().Root(), g.wants)); got[""] != want {
			t.Fatalf("%d are dealt out, want %d", got[""], want)
		}
		store.Quota().Root().Each(func(q *quota.Queue) { checkDeal(t, g, q, got) })
		again := g.shares(g.plant())
		for name, amount := range got {
			if again[name] != amount {
				t.Fatalf("%s gets %d, or %d if the queues are made in another order", name, amount, again[name])
			}
		}
	})
}

func checkDeal(t *rapid.T, g *grove, q *quota.Queue, got map[string]int64) {
	if got[q.Name] < 0 || got[q.Name] > q.Limit(resource.CPU) || got[q.Name] > wanted(q, g.wants) {
		t.Fatalf("%s gets %d, but may have %d and wants %d", q.Name, got[q.Name], q.Limit(resource.CPU), wanted(q, g.wants))
	}
	if len(q.Children()) == 0 {
		return
	}
	rest := got[q.Name]
	vessels := []vessel{{float64(g.wants[q.Name]), 0, 1}}
	weights := int64(1)
	for _, child := range q.Children() {
		rest -= got[child.Name]
		weights += child.Weight()
		vessels = append(vessels, vessel{float64(wanted(child, g.wants)), float64(child.Guaranteed(resource.CPU)), float64(child.Weight())})
	}
	if rest < 0 || rest > g.wants[q.Name] {
		t.Fatalf("%s gets %d, its children leave %d of it for its own pods, which want %d", q.Name, got[q.Name], rest, g.wants[q.Name])
	}
	for i, ideal := range pour(vessels, float64(got[q.Name])) {
		has := rest
		if i > 0 {
			has = got[q.Children()[i-1].Name]
		}
		if off := math.Abs(float64(has) - ideal); off > float64(weights)+ideal*1e-9 {
			t.Fatalf("of %s, sharer %d gets %d, want %f", q.Name, i, has, ideal)
		}
	}
}

// TestFairSharesAreMonotone: nobody gets less because there is more, or because it wants more. Where guarantees have to be cut, the
// proportions are rounded, which can cost one unit.
func TestFairSharesAreMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := newGrove(rapid.Uint64().Draw(t, "seed"))
		store := g.plant()
		before := g.shares(store)
		g.capacity += int64(g.random.IntN(20))
		after := g.shares(store)
		for name, amount := range before {
			if after[name] < amount-1 {
				t.Fatalf("%s gets %d, and %d when there is more", name, amount, after[name])
			}
		}
		name := g.facts[g.random.IntN(len(g.facts))].Name
		g.wants[name] += int64(g.random.IntN(20))
		more := g.shares(store)
		if own(store.Quota().Queue(name), more) < own(store.Quota().Queue(name), after)-1 {
			t.Fatalf("%s gets %d for itself, and %d when it wants more", name, own(store.Quota().Queue(name), after), own(store.Quota().Queue(name), more))
		}
	})
}

// own is what a queue has for its own pods.
func own(q *quota.Queue, shares map[string]int64) int64 {
	rest := shares[q.Name]
	for _, child := range q.Children() {
		rest -= shares[child.Name]
	}
	return rest
}

// TestFairSharesOfManyKinds: each resource is dealt out for itself, and amounts near the end of int64 do no harm.
func TestFairSharesOfManyKinds(t *testing.T) {
	store := cluster.NewStore()
	for _, name := range []string{"a", "b"} {
		store.Apply(facts.QueueUpserted{Queue: &facts.Queue{Name: name, Weight: math.MaxInt64}})
	}
	a, b := store.Quota().Queue("a"), store.Quota().Queue("b")
	shares := FairShares(store.Quota().Root(), []int64{10, math.MaxInt64}, map[*quota.Queue][]int64{a: {8, math.MaxInt64}, b: {8}})
	if !slices.Equal(shares[a], []int64{8, math.MaxInt64}) || !slices.Equal(shares[b], []int64{2, 0}) {
		t.Errorf("a gets %v, b %v", shares[a], shares[b])
	}
	shares = FairShares(store.Quota().Root(), []int64{10}, map[*quota.Queue][]int64{a: {1}, store.Quota().Root(): {5}})
	if !slices.Equal(shares[a], []int64{1}) || !slices.Equal(shares[store.Quota().Root()], []int64{6}) {
		t.Errorf("a gets %v, the root %v", shares[a], shares[store.Quota().Root()])
	}
}
