package queue

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
)

// BenchmarkNext measures how long it takes to say who is next while 100,000 units wait in 1,000 queues on 3 levels, every tenth of them a
// gang of 4: each Pop finds the use of the queue that the last unit came from changed, and that of one that a pod has left. ns/op is the whole
// turn: Pop, the commit and the end of another unit in the ledger, a new unit that takes its place; ns/next is the
// median of Pop alone.
func BenchmarkNext(b *testing.B) {
	for _, policy := range []facts.SortPolicy{facts.PriorityFIFO, facts.Fair, facts.FairHistory, facts.SmallestFirst} {
		b.Run(policies[policy].name, func(b *testing.B) { benchmarkNext(b, newForest(policy, 10, 100)) })
	}
	b.Run("one-queue", func(b *testing.B) { benchmarkNext(b, newForest(facts.PriorityFIFO, 0, 100_000)) })
}

func benchmarkNext(b *testing.B, f *forest) {
	for range 2000 {
		f.turn()
	}
	f.popping = f.popping[:0]
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		f.turn()
	}
	slices.Sort(f.popping)
	b.ReportMetric(float64(f.popping[len(f.popping)/2].Nanoseconds()), "ns/next")
	b.ReportMetric(float64(f.popping[len(f.popping)*99/100].Nanoseconds()), "ns/next-p99")
}

// forest is a world in which everything that ends is followed by its like.
type forest struct {
	*world
	leaves  int
	serial  int
	running [][]*cluster.Pod
	popping []time.Duration
}

// newForest has wide³ leaves (or the default queue only) with so many units each.
func newForest(policy facts.SortPolicy, wide, units int) *forest {
	f := &forest{world: newWorld(), leaves: 1}
	f.capacity(1_000_000_000)
	var seen []*facts.Queue
	grow := func(name, parent string, i int) {
		seen = append(seen, &facts.Queue{
			Name: name, Parent: parent, Sort: policy, Weight: int64(1 + i%3), HalfLife: int64(time.Hour),
			Guaranteed: []resource.Quantity{{Name: resource.NameCPU, Amount: int64(i%2) * 100}},
		})
	}
	var namespaces []facts.Namespace
	if wide > 0 {
		f.leaves = wide * wide * wide
		for i := range wide {
			grow(fmt.Sprint("q", i), "", i)
			for block := range wide {
				grow(fmt.Sprint("q", i, ".", block), fmt.Sprint("q", i), block)
				for k := range wide {
					name := fmt.Sprint("q", i, ".", block, ".", k)
					grow(name, fmt.Sprint("q", i, ".", block), k)
					namespaces = append(namespaces, facts.Namespace{
						Name: fmt.Sprint("n", len(namespaces)), Labels: []facts.Label{{Key: "scheduling.hilbert.dev/queue", Value: name}},
					})
				}
			}
		}
		f.see(facts.QueuesListed{Queues: seen})
		f.see(facts.NamespacesListed{Namespaces: namespaces})
	}
	for i := range f.leaves * units {
		f.arrive(i % f.leaves)
	}
	return f
}

// arrive makes a unit wait in a leaf.
func (f *forest) arrive(leaf int) {
	f.serial++
	namespace, size := fmt.Sprint("n", leaf), 1
	gang := ""
	if f.serial%10 == 0 {
		gang, size = fmt.Sprint("g", f.serial), 4
		f.see(facts.UnitUpserted{Unit: &facts.Unit{UnitName: facts.UnitName{Namespace: namespace, Name: gang}, MinMember: 4}})
	}
	for i := range size {
		seen := podFacts(namespace, fmt.Sprint("p", f.serial, ".", i), int64(1+f.serial%5))
		seen.Unit, seen.Created, seen.Priority = gang, int64(f.serial), int32(f.serial%3)
		f.see(facts.PodUpserted{Pod: seen})
	}
}

// turn places the next unit; another one ends, and is followed by a new one.
func (f *forest) turn() {
	start := time.Now()
	u := f.q.Pop()
	f.popping = append(f.popping, time.Since(start))
	var leaf int
	_, _ = fmt.Sscanf(u.namespace(), "n%d", &leaf)
	members := append([]*cluster.Pod(nil), u.Members()...)
	if v := f.place(members); !v.Committed {
		panic(v.Reason)
	}
	f.q.Done(u)
	f.running = append(f.running, members)
	if len(f.running) > 5000 {
		i := f.serial * 7919 % len(f.running)
		for _, pod := range f.running[i] {
			f.see(facts.PodRemoved{UID: pod.UID})
		}
		if gang := f.running[i][0].Unit; gang != nil {
			f.see(facts.UnitRemoved{Name: gang.UnitName})
		}
		f.running[i] = f.running[len(f.running)-1]
		f.running = f.running[:len(f.running)-1]
	}
	f.arrive(leaf)
}
