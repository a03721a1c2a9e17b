//go:build unix

package schedule

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/bind"
)

// BenchmarkUnits measures gangs' whole way through the core on 10,000 nodes with 100,000 pods, in 50 queues on 3 levels of which each holds
// 30 % more than its guarantee: a PodGroup and its pods are created, decided, committed, written out and confirmed, and a gang of the same
// size has ended. One op is one gang.
func BenchmarkUnits(b *testing.B) {
	for _, members := range []int{1, 3, 32, 512} {
		b.Run(fmt.Sprintf("members=%d", members), func(b *testing.B) { benchmarkUnits(b, members) })
	}
}

const (
	unitNodes = 10_000
	unitPods  = 100_000
)

// unitBench is the world of BenchmarkUnits.
type unitBench struct {
	s            *Scheduler
	now          time.Time
	requirements []*facts.Requirements
	members      int
	next, oldest int
}

func benchmarkUnits(b *testing.B, members int) {
	w := newUnitBench(b, members)
	for range unitPods / members {
		w.start()
	}
	if p := w.s.Pending(); p != (Pending{}) {
		b.Fatalf("the fill left some behind: %+v", p)
	}
	b.ReportAllocs()
	b.ResetTimer()
	before := processTime()
	for range b.N {
		w.end()
		w.start()
	}
	spent := processTime() - before
	b.ReportMetric(float64(b.N*members)/b.Elapsed().Seconds(), "pods/s")
	b.ReportMetric(float64(b.N*members)/spent.Seconds(), "pods/cpu-s")
	b.ReportMetric(float64(spent.Microseconds())/float64(b.N), "cpu-µs/gang")
	if p := w.s.Pending(); p != (Pending{}) {
		b.Fatalf("some were left behind: %+v", p)
	}
	if err := w.s.Verify(); err != nil {
		b.Fatal(err)
	}
}

// processTime is the CPU time that the process has used: what is left of a busy machine does not change it much.
func processTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func newUnitBench(b *testing.B, members int) *unitBench {
	s, err := New(Options{Config: spec.Default().Scheduling})
	if err != nil {
		b.Fatal(err)
	}
	w := &unitBench{s: s, now: time.Unix(0, 0), members: members}
	for i := range unitNodes {
		s.Apply(facts.NodeUpserted{Node: benchNode(i)}, w.now)
	}
	for i := range 16 {
		w.requirements = append(w.requirements, benchRequirements(i))
	}
	guarantee := func(share int) []resource.Quantity { // cores: the pods ask for 1.4 on average
		return []resource.Quantity{{Name: resource.NameCPU, Amount: 1400 * unitPods / int64(share) * 100 / 130}}
	}
	for i := range 2 {
		s.Apply(facts.QueueUpserted{Queue: &facts.Queue{Name: fmt.Sprint("org-", i), Guaranteed: guarantee(2), Weight: 1, Sort: facts.Fair}}, w.now)
	}
	for i := range 8 {
		s.Apply(facts.QueueUpserted{Queue: &facts.Queue{
			Name: fmt.Sprint("division-", i), Parent: fmt.Sprint("org-", i%2), Guaranteed: guarantee(8), Weight: 1, Sort: facts.Fair,
		}}, w.now)
	}
	for i := range 40 {
		s.Apply(facts.QueueUpserted{Queue: &facts.Queue{
			Name: fmt.Sprint("team-", i), Parent: fmt.Sprint("division-", i%8), Guaranteed: guarantee(40), Weight: 1,
			Max: []resource.Quantity{{Name: resource.NameCPU, Amount: 1400 * unitPods}},
		}}, w.now)
		s.Apply(facts.NamespaceUpserted{Namespace: facts.Namespace{
			Name: fmt.Sprint("team-", i), Labels: []facts.Label{{Key: spec.LabelQueue, Value: fmt.Sprint("team-", i)}},
		}}, w.now)
	}
	return w
}

// start creates a gang and lets it be placed and bound.
func (w *unitBench) start() {
	name, namespace := fmt.Sprint("gang-", w.next), fmt.Sprint("team-", w.next%40)
	seen := facts.Pod{
		Namespace: namespace, Ours: true, Created: int64(w.next), Requirements: w.requirements[w.next*7919%len(w.requirements)],
	}
	if w.members > 1 {
		seen.Unit = name
		w.s.Apply(facts.UnitUpserted{Unit: &facts.Unit{
			UnitName: facts.UnitName{Namespace: namespace, Name: name}, UID: facts.UID(name), MinMember: int32(w.members),
		}}, w.now)
	}
	for i := range w.members {
		seen.Name = fmt.Sprint(name, "-", i)
		seen.UID = facts.UID(seen.Name)
		w.s.Apply(facts.PodUpserted{Pod: seen}, w.now)
	}
	w.s.Step(w.now, 16)
	for writes := w.s.Ready(w.now); len(writes) > 0; writes = w.s.Ready(w.now) {
		for _, write := range writes {
			w.s.Finish(bind.Result{ID: write.ID, Outcome: bind.Written}, w.now)
		}
	}
	w.now = w.now.Add(time.Millisecond)
	w.next++
}

// end removes the oldest gang.
func (w *unitBench) end() {
	name, namespace := fmt.Sprint("gang-", w.oldest), fmt.Sprint("team-", w.oldest%40)
	for i := range w.members {
		w.s.Apply(facts.PodRemoved{UID: facts.UID(fmt.Sprint(name, "-", i))}, w.now)
	}
	if w.members > 1 {
		w.s.Apply(facts.UnitRemoved{Name: facts.UnitName{Namespace: namespace, Name: name}}, w.now)
	}
	w.oldest++
}

// BenchmarkCrowd measures what one pod that ends costs while 100,000 wait in 1,000 queues for a cluster that is full: who wants its room is
// woken, one is placed, and the others sleep again.
func BenchmarkCrowd(b *testing.B) {
	const nodes, queues, waiting = 1000, 1000, 100_000
	s, err := New(Options{Config: spec.Default().Scheduling})
	if err != nil {
		b.Fatal(err)
	}
	now := time.Unix(0, 0)
	for i := range nodes {
		s.Apply(facts.NodeUpserted{Node: benchNode(i)}, now)
	}
	for i := range queues {
		name := fmt.Sprint("team-", i)
		s.Apply(facts.QueueUpserted{Queue: &facts.Queue{Name: name, Weight: 1}}, now)
		s.Apply(facts.NamespaceUpserted{Namespace: facts.Namespace{Name: name, Labels: []facts.Label{{Key: spec.LabelQueue, Value: name}}}}, now)
	}
	requirements := make([]*facts.Requirements, 16)
	for i := range requirements {
		requirements[i] = benchRequirements(i)
	}
	pod := 0
	create := func() {
		s.Apply(facts.PodUpserted{Pod: facts.Pod{
			UID: facts.UID(fmt.Sprint(pod)), Name: fmt.Sprint(pod), Namespace: fmt.Sprint("team-", pod*7919%queues), Ours: true, Created: int64(pod),
			NeverPreempts: true, Requirements: requirements[pod%16],
		}}, now)
		pod++
	}
	settle := func() {
		for {
			decided := s.Step(now, 128)
			writes := s.Ready(now)
			for _, w := range writes {
				s.Finish(bind.Result{ID: w.ID, Outcome: bind.Written}, now)
			}
			if decided == 0 && len(writes) == 0 {
				return
			}
		}
	}
	for range waiting + nodes*30 {
		create()
	}
	settle()
	var running []facts.UID
	s.Store().EachPod(func(p *cluster.Pod) {
		if p.Phase == cluster.Bound {
			running = append(running, p.UID)
		}
	})
	b.ReportAllocs()
	b.ResetTimer()
	before := processTime()
	for i := range b.N {
		s.Apply(facts.PodRemoved{UID: running[i]}, now)
		create()
		settle()
	}
	b.ReportMetric(float64((processTime()-before).Microseconds())/float64(b.N), "cpu-µs/op")
}
