package schedule

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/bind"
	"hilbert.dev/hilbert/schedule/queue"
)

// beside runs each scheduler's work on a goroutine of its own, as hilbertd does.
type beside struct {
	done []chan struct{}
	cpu  atomic.Int64 // that they used, in nanoseconds
}

func newBeside(n int) *beside {
	b := &beside{done: make([]chan struct{}, n)}
	for i := range b.done {
		b.done[i] = make(chan struct{}, 1)
	}
	return b
}

func (b *beside) Start(i int, work func()) {
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		began := threadTime()
		work()
		b.cpu.Add(int64(threadTime() - began))
		b.done[i] <- struct{}{}
	}()
}

func (b *beside) Wait(i int) { <-b.done[i] }

// threadTime is the CPU time that this thread has used.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}

// late runs work when it is waited for. What has happened meanwhile must not show.
type late []func()

func (l late) Start(i int, work func()) { l[i] = work }
func (l late) Wait(i int)               { l[i](); l[i] = nil }

// planLog is what became of every Plan.
type planLog struct {
	silent
	text   strings.Builder
	plans  int
	missed int
}

func (l *planLog) Judged(plan *cluster.Plan, v cluster.Verdict) {
	l.plans++
	for _, p := range plan.Placements {
		fmt.Fprintf(&l.text, "%d %s %s %v %s\n", plan.Scheduler, p.Pod, p.Node, v.Committed, v.Reason)
	}
}

func (l *planLog) MissedWakeup(*cluster.Pod, time.Time) { l.missed++ }

// dayPod is a pod of a random day: of one of 24 applications, some of which are spread. There are ever new ones.
func dayPod(uid int) facts.Pod {
	r := *benchRequirements(uid % 24)
	name := fmt.Sprint("app-", uid%24, "-", uid/100)
	replicas := facts.PodSelector{Namespaces: []string{"default"}, Labels: facts.LabelSelector{Expressions: []facts.Requirement{{Key: "app", Operator: facts.In, Values: []string{name}}}}}
	switch uid % 12 {
	case 3, 4:
		r.Spread = []facts.SpreadConstraint{{TopologyKey: "zone", MaxSkew: 1, MinDomains: 1, Pods: replicas}, {TopologyKey: facts.HostnameKey, MaxSkew: 1, MinDomains: 1, Pods: replicas}}
	case 5:
		r.Spread = []facts.SpreadConstraint{{TopologyKey: "zone", MaxSkew: 3, MinDomains: 1, Hard: true, Pods: replicas}}
	}
	return facts.Pod{
		UID: facts.UID(fmt.Sprint(uid)), Namespace: "default", Name: fmt.Sprint(uid), Ours: true, Created: int64(uid), Priority: int32(uid % 3), NeverPreempts: true,
		Labels: []facts.Label{{Key: "app", Value: name}}, Requirements: &r,
	}
}

// happen lets pods come, change and go, and nodes too. next is the pod that comes next.
func happen(s *Scheduler, rng *rand.Rand, next int, now time.Time) int {
	for range rng.IntN(40) {
		s.Apply(facts.PodUpserted{Pod: dayPod(next)}, now)
		next++
	}
	for range min(rng.IntN(20), next) {
		uid := rng.IntN(next)
		if rng.IntN(3) > 0 {
			s.Apply(facts.PodRemoved{UID: facts.UID(fmt.Sprint(uid))}, now)
			continue
		}
		p := dayPod(uid)
		if known := s.Store().Pod(p.UID); known != nil && known.Node() == "" {
			p.Deleting, p.Priority = rng.IntN(2) == 0, p.Priority+1
			s.Apply(facts.PodUpserted{Pod: p}, now)
		}
	}
	if rng.IntN(20) == 0 {
		n := benchNode(rng.IntN(44))
		n.Unschedulable = rng.IntN(3) == 0
		s.Apply(facts.NodeUpserted{Node: n}, now)
	}
	if rng.IntN(60) == 0 {
		s.Apply(facts.NodeRemoved{Name: benchNode(rng.IntN(44)).Name}, now)
	}
	return next
}

// playBeside plays a random day of a cluster: pods of ever new classes come and go, are edited and deleted, nodes change, quota changes, while schedulers decide.
// It returns the log of all Plans, and the pods that have a place in the end.
func playBeside(t *testing.T, seed uint64, schedulers int, runner Runner) (log string, placed int, counts WorkerCounts) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	cfg := spec.Default().Scheduling
	cfg.Schedulers = schedulers
	plans := &planLog{}
	s, err := New(Options{Config: cfg, Runner: runner, Observer: plans})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(0, 0)
	for i := range 40 {
		s.Apply(facts.NodeUpserted{Node: benchNode(i)}, now)
	}
	next := 0
	for step := range 200 {
		next = happen(s, rng, next, now)
		turn(s, now)
		if now = now.Add(time.Duration(rng.IntN(2000)) * time.Millisecond); step%40 == 0 {
			s.Flush()
			if err := s.Verify(); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
		}
	}
	for range 60 {
		for range 20 {
			turn(s, now)
		}
		now = now.Add(time.Second)
	}
	if err := s.Verify(); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if plans.missed > 0 {
		t.Errorf("seed %d: %d units had been forgotten", seed, plans.missed)
	}
	c := s.Workers()
	if c.Pending > 0 || c.Units != c.Committed+c.Elsewhere+c.Parked+c.Rejected+c.Gone {
		t.Errorf("seed %d: units are lost: %+v", seed, c)
	}
	s.Store().EachPod(func(p *cluster.Pod) {
		if p.Node() != "" {
			placed++
		}
	})
	return plans.text.String(), placed, c
}

// TestSchedulersBeside: what schedulers decide beside the ledger's goroutine is the same whether they run at once, as late as may be or on goroutines of their own;
// the race detector says whether they read what is written meanwhile. What one scheduler places, several place.
func TestSchedulersBeside(t *testing.T) {
	var sum WorkerCounts
	for seed := range uint64(2) {
		_, alone, none := playBeside(t, seed, 1, nil)
		if none != (WorkerCounts{}) {
			t.Errorf("one scheduler: %+v", none)
		}
		for _, n := range []int{2, 4} {
			inTurn, placed, counts := playBeside(t, seed, n, nil)
			afterwards, _, _ := playBeside(t, seed, n, make(late, n))
			parallel, _, _ := playBeside(t, seed, n, newBeside(n))
			if inTurn != afterwards || inTurn != parallel {
				t.Errorf("seed %d, %d schedulers: late: %v and goroutines: %v decide as those that run at once", seed, n, inTurn == afterwards, inTurn == parallel)
			}
			if placed < alone*99/100 {
				t.Errorf("seed %d: one scheduler places %d pods, %d place %d", seed, alone, n, placed)
			}
			sum.Add(counts)
		}
	}
	if sum.Committed == 0 || sum.Elsewhere == 0 || sum.Gone == 0 || sum.Rejected == 0 || sum.Parked == 0 {
		t.Errorf("something never happened: %+v", sum)
	}
}

// uniquePod prefers a node that no other does, so that no other's index serves it.
func uniquePod(uid int) facts.Pod {
	r := *benchRequirements(0)
	r.Preferred = []facts.WeightedTerm{{Weight: 1, Term: facts.Term{Expressions: []facts.Requirement{{Key: facts.HostnameKey, Operator: facts.In, Values: []string{benchNode(uid).Name}}}}}}
	return facts.Pod{UID: facts.UID(fmt.Sprint(uid)), Namespace: "default", Name: fmt.Sprint(uid), Ours: true, Created: int64(uid), NeverPreempts: true, Requirements: &r}
}

// besideWorld is a cluster with schedulers that each see all nodes, and so many pods that wait, each of a class of its own.
func besideWorld(t *testing.T, nodes, pods, schedulers, maxAhead int) *Scheduler {
	t.Helper()
	cfg := spec.Default().Scheduling
	cfg.Schedulers, cfg.Binding.MaxAhead, cfg.Partitions.When = schedulers, maxAhead, spec.PartitionsByLoad
	s, err := New(Options{Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	for i := range nodes {
		s.Apply(facts.NodeUpserted{Node: benchNode(i)}, time.Unix(0, 0))
	}
	for i := range pods {
		s.Apply(facts.PodUpserted{Pod: uniquePod(i)}, time.Unix(0, 0))
	}
	return s
}

// accounted fails if a unit that was handed out is neither decided nor pending.
func accounted(t *testing.T, s *Scheduler) WorkerCounts {
	t.Helper()
	c := s.Workers()
	if c.Units != c.Committed+c.Elsewhere+c.Parked+c.Rejected+c.Gone+c.Pending {
		t.Fatalf("units are lost: %+v", c)
	}
	return c
}

// TestBatchesFollowWhatIsReady: a worker gets half of its share of what is ready, within bounds; when a Step ends every worker has a batch, unless nothing more can be written.
func TestBatchesFollowWhatIsReady(t *testing.T) {
	now := time.Unix(0, 0)
	for _, c := range []struct{ ready, want int }{{2000, maxBatch}, {400, 100}, {100, minBatch}, {20, 20}} {
		s := besideWorld(t, 20, c.ready, 2, 10_000)
		if s.sharing.handOut(); len(s.sharing.workers.list[0].batch) != c.want {
			t.Errorf("of %d that are ready a worker gets %d, want %d", c.ready, len(s.sharing.workers.list[0].batch), c.want)
		}
	}
	s := besideWorld(t, 20, 2000, 2, 10_000)
	s.Step(now, 1)
	for _, w := range s.sharing.workers.list {
		if len(w.batch) == 0 {
			t.Errorf("scheduler %d has nothing to do until the next Step", w.number)
		}
	}
	accounted(t, s)
	s = besideWorld(t, 20, 2000, 2, 1)
	if s.Step(now, 1); !s.binder.Full() || s.sharing.workers.free() == nil {
		t.Fatal("nothing waits for its write, or no scheduler is free")
	}
	before := accounted(t, s).Batches
	if more := s.Step(now, 1); more != 0 || accounted(t, s).Batches != before {
		t.Errorf("while nothing more can be written a Step returns %d, and hands out %d batches", more, s.Workers().Batches-before)
	}
}

// TestBatchesAreBounded: where each pod has all nodes looked at, neither a scheduler that is waited for nor a Step that takes in its batch looks at many more nodes than a Step may
// (a Step that is not yet at its bound takes in what one scheduler has looked at); what is left is for the next Steps. So it is with schedulers in the process and elsewhere.
func TestBatchesAreBounded(t *testing.T) {
	const nodes, pods, slack = 12_000, 300, 2 * 12_000
	now := time.Unix(0, 0)
	t.Run("in the process", func(t *testing.T) {
		s := besideWorld(t, nodes, pods, 2, 10_000)
		playBatches(t, s, func() bool {
			taken := 0 // what the scheduler has looked at whose batch is taken in first
			if len(s.sharing.workers.out) > 0 {
				taken = s.sharing.workers.out[0].looked
			}
			more := turn(s, now)
			if s.decisions.looked < taken || s.decisions.looked > 2*maxLooks+slack {
				t.Fatalf("a Step has looked at %d nodes, and takes in a batch for which %d were looked at", s.decisions.looked, taken)
			}
			for _, w := range s.sharing.workers.list {
				if w.looked > maxLooks+slack {
					t.Fatalf("a scheduler has looked at %d nodes before it was waited for", w.looked)
				}
			}
			return more
		})
	})
	t.Run("elsewhere", func(t *testing.T) {
		s := besideWorld(t, nodes, 0, 1, 10_000)
		e := newElsewhere(t, s)
		for e.join(now); !s.sharing.outsiders.list[0].complete || s.sharing.outsiders.list[0].waits; e.deliver(now) {
			e.follow(now)
		}
		for i := range pods {
			s.Apply(facts.PodUpserted{Pod: uniquePod(i)}, now)
		}
		playBatches(t, s, func() bool {
			more := turn(s, now)
			if s.decisions.looked > maxLooks+slack {
				t.Fatalf("a Step has looked at %d nodes", s.decisions.looked)
			}
			e.follow(now)
			e.deliver(now)
			return more
		})
	})
}

// playBatches takes turns until there is nothing to do. All pods must have a place then, some by a scheduler and some because its search was cut short.
func playBatches(t *testing.T, s *Scheduler, turn func() (more bool)) {
	t.Helper()
	turns := 1
	for turn() || s.Workers().Pending > 0 {
		accounted(t, s)
		if turns++; turns > 60 {
			t.Fatalf("there is no end: %+v", s.Workers())
		}
	}
	if c := accounted(t, s); c.Committed == 0 || c.Elsewhere == 0 || s.Bounds().EndedSteps == 0 {
		t.Errorf("after %d turns, %d Steps ended early: %+v", turns, s.Bounds().EndedSteps, c)
	}
	if p := s.Pending(); p.Active+p.Unschedulable > 0 {
		t.Errorf("pods are left: %+v", p)
	}
	if err := s.Verify(); err != nil {
		t.Error(err)
	}
}

// TestOutranksWhatIsLeft: of a batch that was taken in halfway, what is left counts.
func TestOutranksWhatIsLeft(t *testing.T) {
	high, low := task{pod: cluster.Pod{Priority: 9}}, task{pod: cluster.Pod{Priority: 1}}
	w := &workers{out: []*worker{{batch: []task{high, low}}}}
	unit := &queue.Unit{Priority: 5}
	if before := w.outranks(unit); !before {
		t.Error("a unit of higher priority is not seen")
	}
	if w.out[0].taken = 1; w.outranks(unit) {
		t.Error("a unit that was taken in is seen")
	}
}

// BenchmarkSchedulers fills 20,000 nodes again and again with pods of 16 classes, which come in bursts and are bound at once. What is counted is placements that were
// committed. Each b.N is one burst; rows take turns within one process, so that they are compared on the machine as it is. There is no row with more than two schedulers and more than there are
// CPUs.
func BenchmarkSchedulers(b *testing.B) {
	const nodes, classes, burst = 20000, 16, 20000
	type row struct {
		n      int
		s      *Scheduler
		pod    int
		placed int
		took   time.Duration
		cpu    time.Duration
		loop   time.Duration // CPU time of the goroutine that commits
		beside *beside
	}
	var rows []*row
	for n := range min(max(runtime.GOMAXPROCS(0), 2), 4) {
		rows = append(rows, &row{n: n + 1})
	}
	now := time.Unix(0, 0)
	var requirements []*facts.Requirements
	for i := range classes {
		requirements = append(requirements, benchRequirements(i))
	}
	play := func(r *row) {
		for i := range burst {
			uid := r.pod + i
			r.s.Apply(facts.PodUpserted{Pod: facts.Pod{UID: facts.UID(fmt.Sprint(uid)), Ours: true, Created: int64(uid), Requirements: requirements[uid*7919%classes]}}, now)
			if old := uid - 8*nodes; old >= 0 {
				r.s.Apply(facts.PodRemoved{UID: facts.UID(fmt.Sprint(old))}, now)
			}
			if i%256 == 255 {
				turn(r.s, now)
			}
		}
		for turn(r.s, now) {
		}
		r.pod += burst
	}
	for _, r := range rows {
		cfg := spec.Default().Scheduling
		cfg.Schedulers = r.n
		r.beside = newBeside(r.n)
		s, err := New(Options{Config: cfg, Runner: r.beside})
		if err != nil {
			b.Fatal(err)
		}
		for i := range nodes {
			s.Apply(facts.NodeUpserted{Node: benchNode(i)}, now)
		}
		r.s = s
		for r.pod < 8*nodes {
			play(r)
		}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, r := range rows {
		r.beside.cpu.Store(0)
	}
	for b.Loop() {
		for _, r := range rows {
			runtime.GC()
			began, cpu, loop := time.Now(), processTime(), threadTime()
			play(r)
			r.took, r.cpu, r.loop, r.placed = r.took+time.Since(began), r.cpu+processTime()-cpu, r.loop+threadTime()-loop, r.placed+burst
		}
	}
	for _, r := range rows {
		if p := r.s.Pending(); p.InFlight+p.Active+p.Unschedulable > 0 {
			b.Fatalf("%d schedulers: pods are left: %+v", r.n, p)
		}
		b.ReportMetric(float64(r.placed)/r.took.Seconds(), fmt.Sprintf("placements/s-%d", r.n))
		b.ReportMetric(float64(r.loop.Microseconds())/float64(r.placed), fmt.Sprintf("cpu-µs-loop-%d", r.n))
		b.ReportMetric(float64(r.cpu.Microseconds())/float64(r.placed), fmt.Sprintf("cpu-µs/placement-%d", r.n))
		if r.n > 1 {
			b.ReportMetric(float64(r.beside.cpu.Load())/1000/float64(r.placed), fmt.Sprintf("cpu-µs-beside-%d", r.n))
			b.ReportMetric(rows[0].took.Seconds()/r.took.Seconds(), fmt.Sprintf("speedup-%d", r.n))
			b.Logf("%d schedulers: %+v", r.n, r.s.Workers())
		}
	}
}

// turn is a round of a shell whose writes are answered at once. It reports whether there was anything to do.
func turn(s *Scheduler, now time.Time) bool {
	decisions := s.Step(now, 128)
	writes := s.Ready(now)
	ids := make([]bind.WriteID, len(writes))
	for i := range writes {
		ids[i] = writes[i].ID
	}
	for _, id := range ids {
		s.Finish(bind.Result{ID: id, Outcome: bind.Written}, now)
	}
	return decisions+len(ids) > 0
}
