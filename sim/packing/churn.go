package packing

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"hilbert.dev/hilbert/internal/heap"
	"hilbert.dev/hilbert/schedule/fragment"
	"hilbert.dev/hilbert/sim/trace"
	"hilbert.dev/hilbert/topology"
)

// streamChurn is the stream of the seed that arrivals are drawn from.
const streamChurn = 1003

// ChurnOptions of a run in which pods come and go.
type ChurnOptions struct {
	Policy string
	Params fragment.Params // of our policy
	// Load is how much is offered: what arrives in a second times how long it runs, of the cluster's GPUs; of its CPU or memory where it has none.
	Load float64
	// Warmup is not measured; then Measured is.
	Warmup, Measured time.Duration
	// Moves is the part of the running pods that may be moved in a day.
	Moves float64
	// Wall is the time since any beginning, for pods per second; nil: not measured.
	Wall func() time.Duration
	// Tell is told now and then which part is done; an error ends the run. May be nil.
	Tell func(done float64) error

	exhaustive bool // see Options
}

// Bounds of a run.
const (
	// MaxLoad is the most that may be offered, as a multiple of the cluster.
	MaxLoad = 4
	// MaxChurn is the longest time that is played.
	MaxChurn = 1000 * 24 * time.Hour
)

// tellEvery is how many arrivals lie between two times that a run tells how far it is.
const tellEvery = 2048

// Validate checks the options.
func (o *ChurnOptions) Validate() error {
	switch {
	case !(o.Load > 0 && o.Load <= MaxLoad):
		return fmt.Errorf("load %g: want a part of the cluster's GPUs above 0 and at most %d, for example 0.95", o.Load, MaxLoad)
	case !(o.Moves >= 0 && o.Moves <= 1):
		return fmt.Errorf("moves %g: want a part of the running pods from 0 to 1, for example 0.02", o.Moves)
	case o.Warmup < 0 || o.Measured < time.Hour || o.Warmup+o.Measured > MaxChurn:
		return fmt.Errorf("a warm-up of %v and %v that are measured: want at least an hour that is measured, and %v in sum at most", o.Warmup, o.Measured, MaxChurn)
	}
	return nil
}

// Steady is a cluster in which pods arrive at random times at a steady rate, run for as long as the list says, and end. A pod that finds no room
// when it arrives goes away.
//
// The cluster begins as if this had gone on for ever: the pods that run are drawn in proportion to how long they run, and each has a random part
// of that time behind it. Without that the longest pods, months long, would take months to appear. They are placed in one go, so their
// places are better than in a cluster that grew; the warm-up undoes that.
type Steady struct {
	arrivals  *Arrivals
	binding   binding
	durations []int64 // of the tasks of the list; their kinds are arrivals.pods
	seed      uint64
}

// NewSteady makes it of a workload whose tasks have times.
func NewSteady(w *trace.Workload, seed uint64) (*Steady, error) {
	a, err := newArrivals(w, seed)
	if err != nil {
		return nil, err
	}
	if a.pods, err = newCatalog(a).list(w.Tasks, a.workload); err != nil {
		return nil, err
	}
	s := &Steady{arrivals: a, seed: seed}
	for i := range w.Tasks {
		t := &w.Tasks[i]
		if t.Deleted == trace.Never {
			return nil, fmt.Errorf("%s: task %s: %w", w.Name, t.Name, ErrNoDurations)
		}
		s.durations = append(s.durations, max(t.Deleted-t.Created, leastDuration))
	}
	if err := s.bind(w.Name); err != nil {
		return nil, err
	}
	return s, nil
}

// bind finds the resource that loads are of.
func (s *Steady) bind(name string) error {
	if s.arrivals.capacity > 0 { // of GPUs, so far
		if !s.bindScarcest(bindingGPU) {
			return fmt.Errorf("%s: %w", name, trace.ErrNoGPURequest)
		}
		return nil
	}
	if !s.bindScarcest(bindingCPU, bindingMemory) {
		return fmt.Errorf("%s: %w", name, ErrNothingAsked)
	}
	return nil
}

// BindScarcest has loads be of the resource that the pods want the largest part of, also where there are GPUs.
func (s *Steady) BindScarcest() { s.bindScarcest(bindingGPU, bindingCPU, bindingMemory) }

// bindScarcest has loads be of that one of some resources of which the pods want the largest part. It answers false if they want none.
func (s *Steady) bindScarcest(of ...binding) bool {
	most := 0.0
	for _, b := range of {
		if all := b.capacity(s.arrivals.nodes); all > 0 && s.work(b)/float64(all) > most {
			s.binding, s.arrivals.capacity, most = b, all, s.work(b)/float64(all)
		}
	}
	return most > 0
}

// ErrNothingAsked says that no load can be offered.
var ErrNothingAsked = errors.New("its pods ask for nothing that its nodes have")

// work is the mean of what a task asks of a resource times seconds.
func (s *Steady) work(b binding) float64 {
	sum := 0.0
	for i, k := range s.arrivals.pods {
		sum += float64(b.amount(&s.arrivals.kinds[k])) * seconds(s.durations[i])
	}
	return sum / float64(len(s.durations))
}

func seconds(d int64) float64 { return float64(d) / float64(time.Second) }

// tenant is a pod that runs.
type tenant struct {
	kind     int32
	node     int
	grant    topology.Grant
	began    int64 // when it was placed first
	moved    int64 // when it was moved last, or began
	ends     int64
	sequence int
	at       int // in the list of its node
}

// churn is a run in progress.
type churn struct {
	*run

	steady *Steady
	o      *ChurnOptions
	random *rand.Rand
	now    int64
	gap    float64 // mean time between arrivals, nanoseconds
	ends   *heap.Heap[*tenant]
	onNode [][]*tenant
	count  int // of pods placed
	begun  bool

	moves *moves
	gauge *gauge
	out   *ChurnOutcome
}

// Run plays it under a policy.
func (s *Steady) Run(o ChurnOptions) (*ChurnOutcome, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	r, err := newRun(s.arrivals, &Options{Policy: o.Policy, Params: o.Params, Wall: o.Wall, Exhaustive: o.exhaustive})
	if err != nil {
		return nil, err
	}
	c := &churn{
		run: r, steady: s, o: &o, random: rand.New(rand.NewPCG(s.seed, streamChurn)), onNode: make([][]*tenant, len(r.nodes)),
		gap: s.work(s.binding) / (o.Load * float64(s.arrivals.capacity)) * float64(time.Second),
		out: &ChurnOutcome{Policy: o.Policy, Load: 100 * o.Load, MovesAllowed: 100 * o.Moves, Seed: s.seed, Refused: make(map[string]int), lost: make(map[string]float64)},
	}
	c.ends = heap.New(func(a, b *tenant) bool {
		return a.ends < b.ends || a.ends == b.ends && a.sequence < b.sequence
	}, nil)
	c.gauge = newGauge(s.arrivals, s.binding)
	c.moves = newMoves(c)
	c.begin()
	if err := c.play(); err != nil {
		return nil, err
	}
	return c.finish(), nil
}

// begin fills the cluster with the pods that would run if the load had been offered for ever.
func (c *churn) begin() {
	s := c.steady
	sums := make([]float64, len(s.durations))
	total := 0.0
	for i, d := range s.durations {
		total += seconds(d)
		sums[i] = total
	}
	target, offered := int64(math.Round(c.o.Load*float64(c.a.capacity))), int64(0)
	for offered < target {
		i, _ := slices.BinarySearch(sums, c.random.Float64()*total)
		i = min(i, len(sums)-1)
		left := max(int64(c.random.Float64()*float64(s.durations[i])), 1)
		kind := s.arrivals.pods[i]
		offered += s.binding.amount(&c.a.kinds[kind])
		c.arrive(kind, left, left-s.durations[i])
	}
}

// play lets pods come and go until the end.
func (c *churn) play() error {
	c.begun = true
	warm := int64(c.o.Warmup)
	end := warm + int64(c.o.Measured)
	sample := warm
	arrival := c.next()
	for c.now < end {
		next := min(arrival, sample)
		if c.ends.Len() > 0 && c.ends.First().ends <= next {
			t := c.ends.Pop()
			c.pass(t.ends)
			c.leave(t)
			continue
		}
		c.pass(next)
		if next == sample {
			c.sample()
			sample += int64(time.Hour)
			continue
		}
		i := c.random.IntN(len(c.steady.durations))
		arrival = c.next()
		if c.o.Tell != nil && c.out.decided%tellEvery == 0 {
			if err := c.o.Tell(float64(c.now) / float64(end)); err != nil {
				return err
			}
		}
		c.moves.improve()
		c.arrive(c.steady.arrivals.pods[i], c.steady.durations[i], c.now)
	}
	return nil
}

// next draws when the next pod arrives.
func (c *churn) next() int64 { return c.now + int64(c.random.ExpFloat64()*c.gap) }

// pass lets time pass.
func (c *churn) pass(to int64) {
	c.moves.earn(to - c.now)
	c.now = to
}

func (c *churn) measured() bool { return c.begun && c.now >= int64(c.o.Warmup) }

// arrive places a pod that runs this much longer, or turns it away.
func (c *churn) arrive(kind int32, left, began int64) {
	request := &c.a.kinds[kind]
	wall := c.wall()
	node, gpu, ok := c.choose(kind)
	if !ok {
		node, gpu, ok = c.moves.makeRoom(kind)
	}
	var t *tenant
	if ok {
		t = &tenant{kind: kind, node: node, began: began, moved: began, ends: c.now + left, sequence: c.count}
		t.grant = c.place(node, kind, gpu)
		c.settle(t)
		c.ends.Push(t)
		c.count++
	}
	c.policy.answered(kind, ok)
	c.moves.answered(kind, ok)
	c.busy += c.wall() - wall
	c.out.decided++
	if !c.measured() {
		return
	}
	c.out.Arrived++
	work := float64(c.steady.binding.amount(request)) * seconds(left)
	c.out.offered += work
	if ok {
		c.out.served += work
		return
	}
	c.out.Refused[sizeOf(request)]++
	c.out.lost[sizeOf(request)] += work
	if c.fitsSomewhere(request) {
		c.out.RefusedThoughFit++
	}
}

// sizeOf names the sizes of pods that refusals are told by.
func sizeOf(r *fragment.Request) string {
	switch {
	case r.GPU.Milli > 0:
		return "part"
	case r.GPU.Whole == 0:
		return "none"
	case r.GPU.Whole == 1:
		return "one"
	}
	return "several"
}

func (c *churn) settle(t *tenant) {
	t.at = len(c.onNode[t.node])
	c.onNode[t.node] = append(c.onNode[t.node], t)
}

// unsettle takes a pod out of the list of its node.
func (c *churn) unsettle(t *tenant) {
	list := c.onNode[t.node]
	last := len(list) - 1
	list[t.at] = list[last]
	list[t.at].at = t.at
	c.onNode[t.node] = list[:last]
}

func (c *churn) leave(t *tenant) {
	c.unsettle(t)
	c.release(t.node, t.kind, t.grant)
}

// sample measures the cluster as it is.
func (c *churn) sample() {
	p := c.gauge.read(c.nodes)
	p.Day = float64(c.now) / float64(24*time.Hour)
	p.Running, p.Moves = c.running, c.out.Moves
	c.out.add(p)
}

var errBooks = errors.New("packing: what nodes have free and what pods hold do not add up")

// finish computes the means.
func (c *churn) finish() *ChurnOutcome {
	if err := c.audit(); err != nil {
		panic(err)
	}
	c.out.finish(c.o, c.busy)
	c.out.LeastOfFree = 100 * c.gauge.least
	return c.out
}

// audit adds up what the pods hold.
func (c *churn) audit() error {
	for i := range c.nodes {
		n := c.nodes[i]
		for _, t := range c.onNode[i] {
			n.Give(&c.a.kinds[t.kind], t.grant)
		}
		if n != c.a.nodes[i] {
			return fmt.Errorf("%w: node %d: %+v, was %+v", errBooks, i, n, c.a.nodes[i])
		}
	}
	return nil
}
