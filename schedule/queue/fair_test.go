package queue

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
)

// vessel is one of those that an amount is poured into.
type vessel struct{ want, guaranteed, weight float64 }

// pour fills vessels to one level by definition: it looks for the level at which they hold the amount.
func pour(vessels []vessel, amount float64) []float64 {
	gets := make([]float64, len(vessels))
	at := func(scale, level float64) (sum float64) {
		for i, v := range vessels {
			gets[i] = min(v.want, min(v.guaranteed, v.want)*scale+level*v.weight)
			sum += gets[i]
		}
		return sum
	}
	low, high := 0.0, amount
	if at(1, 0) > amount { // not even the guarantees can be kept: each gets its proportion
		low, high = 0, 1
		for range 100 {
			if middle := (low + high) / 2; at(middle, 0) > amount {
				high = middle
			} else {
				low = middle
			}
		}
		at(low, 0)
		return gets
	}
	for range 100 {
		if middle := (low + high) / 2; at(1, middle) > amount {
			high = middle
		} else {
			low = middle
		}
	}
	at(1, low)
	return gets
}

// tenancy is a closed loop: leaves that want so many pods of one CPU at a time, each of which ends after a while and is followed by another,
// on a cluster that cannot hold them all.
type tenancy struct {
	*world
	capacity int
	running  []*cluster.Pod
	serial   int
	random   *rand.Rand
}

func newTenancy(capacity int, seed uint64, queues ...*facts.Queue) *tenancy {
	w := &tenancy{world: newWorld(), capacity: capacity, random: rand.New(rand.NewPCG(seed, 0))}
	w.world.capacity(int64(capacity))
	w.see(facts.QueuesListed{Queues: queues})
	for _, q := range queues {
		w.feed(q.Name, q.Name)
	}
	return w
}

// want makes so many pods more wait in the namespace of a queue.
func (w *tenancy) want(queue string, pods int) {
	for range pods {
		w.serial++
		seen := podFacts(queue, fmt.Sprint("p", w.serial), 1)
		seen.Created = int64(w.serial)
		w.see(facts.PodUpserted{Pod: seen})
	}
}

// fill places units until the cluster is full; who is refused by a limit waits for it.
func (w *tenancy) fill() {
	for len(w.running) < w.capacity {
		u := w.q.Pop()
		if u == nil {
			return
		}
		if short, ok := u.Queue().Admits(u.Class.Charge); !ok {
			w.q.BlockByQuota(u, short.Queue)
			continue
		}
		members := slices.Clone(u.Members())
		w.place(members)
		w.q.Done(u)
		w.running = append(w.running, members...)
	}
}

// end lets one of those that run end; another of its queue follows.
func (w *tenancy) end() {
	i := w.random.IntN(len(w.running))
	pod := w.running[i]
	w.running = slices.Delete(w.running, i, i+1)
	w.see(facts.PodRemoved{UID: pod.UID})
	w.want(pod.Namespace, 1)
}

func (w *tenancy) used(queue string) int { return int(w.store.Quota().Queue(queue).Used(resource.CPU)) }

func leafFacts(name, parent string, weight, guaranteed int64) *facts.Queue {
	return &facts.Queue{
		Name: name, Parent: parent, Weight: weight, Guaranteed: []resource.Quantity{{Name: resource.NameCPU, Amount: guaranteed}},
	}
}

// TestSharesConverge: queues that want more than there is come to what is ideal, whoever was first, and stay within one pod of it.
func TestSharesConverge(t *testing.T) {
	w := newTenancy(600, 1, leafFacts("a", "", 1, 100), leafFacts("b", "", 2, 0), leafFacts("c", "", 3, 50))
	w.want("b", 1000) // b borrows everything
	w.fill()
	w.want("a", 1000)
	w.want("c", 1000)
	ideal := pour([]vessel{{1000, 100, 1}, {1000, 0, 2}, {1000, 50, 3}}, 600)
	for turn := range 6000 {
		w.end()
		w.fill()
		if turn < 3000 {
			continue
		}
		for i, name := range []string{"a", "b", "c"} {
			if off := math.Abs(float64(w.used(name)) - ideal[i]); off > 1 {
				t.Fatalf("turn %d: %s has %d, its share is %.1f", turn, name, w.used(name), ideal[i])
			}
		}
	}
}

// TestSharesConvergeInTrees does the same with random trees, demands and limits: the use comes within one pod for each queue above and beside.
func TestSharesConvergeInTrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		const capacity = 200
		var seen []*facts.Queue
		var above []vessel
		below := make([][]vessel, 2+random.IntN(2))
		for i := range below {
			parent := fmt.Sprint("q", i)
			var sum vessel
			for block := range 1 + random.IntN(3) {
				v := vessel{float64(random.IntN(250)), float64(random.IntN(20)), float64(1 + random.IntN(3))}
				seen = append(seen, leafFacts(fmt.Sprint(parent, ".", block), parent, int64(v.weight), int64(v.guaranteed)))
				sum.want, sum.guaranteed = sum.want+v.want, sum.guaranteed+v.guaranteed
				below[i] = append(below[i], v)
			}
			sum.weight = float64(1 + random.IntN(3))
			f := leafFacts(parent, "", int64(sum.weight), int64(sum.guaranteed))
			f.Sort = facts.Fair
			if random.IntN(3) == 0 {
				limit := sum.guaranteed + float64(random.IntN(80))
				f.Max = []resource.Quantity{{Name: resource.NameCPU, Amount: int64(limit)}}
				sum.want = min(sum.want, limit)
			}
			above, seen = append(above, sum), append(seen, f)
		}
		w := newTenancy(capacity, random.Uint64(), seen...)
		for _, i := range random.Perm(len(below)) {
			for block, v := range below[i] {
				w.want(fmt.Sprint("q", i, ".", block), int(v.want))
			}
		}
		w.fill()
		for range 1500 {
			if len(w.running) > 0 {
				w.end()
			}
			w.fill()
		}
		for i, amount := range pour(above, capacity) {
			for block, ideal := range pour(below[i], amount) {
				name := fmt.Sprint("q", i, ".", block)
				if off := math.Abs(float64(w.used(name)) - ideal); off > 2 {
					t.Fatalf("%s has %d, its share is %.1f", name, w.used(name), ideal)
				}
			}
		}
	})
}

// TestNobodyStarves: under policies that do not put some units behind others for good, a unit is placed after those that were before it in
// its queue, and as many of the other queues as their shares allow, however many come after it.
func TestNobodyStarves(t *testing.T) {
	for _, sort := range []facts.SortPolicy{facts.PriorityFIFO, facts.FIFO, facts.Fair, facts.FairHistory} {
		var seen []*facts.Queue
		for i := range 4 {
			f := leafFacts(fmt.Sprint("q", i), "", 1, 0)
			f.Sort, f.HalfLife = sort, int64(time.Minute)
			seen = append(seen, f)
		}
		w := newTenancy(40, 2, seen...)
		for _, f := range seen {
			w.want(f.Name, 100)
		}
		w.fill()
		waited := make(map[facts.UID]int) // turns
		for range 4000 {
			w.end()
			before := len(w.running)
			w.fill()
			for _, pod := range w.running[before:] {
				delete(waited, pod.UID)
			}
			w.now = w.now.Add(time.Second)
			w.q.Expire(w.now)
			for uid := range w.q.units {
				waited[uid]++
				if waited[uid] > 600 {
					t.Fatalf("%s: %s has waited for %d turns, with at most 100 before it in each of 4 queues", policies[sort].name, uid, waited[uid])
				}
			}
		}
	}
}

// TestHistoryCounts: two namespaces that want the same share what is free by what they have had, and what was long ago counts less.
func TestHistoryCounts(t *testing.T) {
	seen := leafFacts("q", "", 1, 0)
	seen.Sort, seen.HalfLife = facts.FairHistory, int64(100*time.Second)
	w := newTenancy(100, 3, seen)
	for _, namespace := range []string{"greedy", "modest"} {
		w.feed(namespace, "q")
	}
	w.want("greedy", 60)
	w.fill()
	for range 100 { // greedy holds 60 of 100 for 100 seconds, one half-life
		w.now = w.now.Add(time.Second)
		w.q.Expire(w.now)
		w.q.sync()
	}
	history := &w.q.tree.leaves[w.store.Quota().Queue("q")].tenants["greedy"].history
	if history.settle(w.now, seen.HalfLife); math.Abs(history.average-0.3) > 1e-6 {
		t.Fatalf("after a half-life with 0.6 of the cluster the average is %v, want 0.3", history.average)
	}
	for len(w.running) > 0 { // then nobody holds anything
		w.see(facts.PodRemoved{UID: w.running[0].UID})
		w.running = w.running[1:]
	}
	w.q.sync()
	w.want("greedy", 50)
	w.want("modest", 50)
	count := func() (greedy int) {
		for range 40 {
			u := w.q.Pop()
			if u.namespace() == "greedy" {
				greedy++
			}
			pods := slices.Clone(u.Members())
			w.place(pods)
			w.q.Done(u)
		}
		return greedy
	}
	if greedy := count(); greedy != 5 {
		t.Errorf("greedy got %d of the first 40, want 5: modest is given the 0.3 that greedy had, then they take turns", greedy)
	}
}

// TestHistoryIsTheIntegral compares the averages with the integral, summed step by step, for random uses.
func TestHistoryIsTheIntegral(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const halfLife = 1000
		h := usageHistory{at: time.Unix(0, 0)}
		var uses []float64 // one for each nanosecond
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			use, length := rapid.Float64Range(0, 1).Draw(t, "use"), rapid.IntRange(1, 500).Draw(t, "length")
			h.current = use
			for range length {
				uses = append(uses, use)
			}
			h.settle(h.at.Add(time.Duration(length)), halfLife)
		}
		var want float64
		for i, use := range uses {
			age := float64(len(uses) - i)
			want += use * (math.Exp2(-(age-1)/halfLife) - math.Exp2(-age/halfLife))
		}
		if math.Abs(h.average-want) > 1e-9 {
			t.Fatalf("average %v, want %v", h.average, want)
		}
	})
}
