package affinity

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/internal/heap"
	"hilbert.dev/hilbert/sim/trace"
)

// streamBlind is the stream of a seed from which blind choices are drawn.
const streamBlind = 1

// usage is what is used of what may be short. It is a float, so that it can be multiplied by time.
type usage struct{ gpus, cores float64 }

func (u *usage) add(v usage, times float64) {
	u.gpus += v.gpus * times
	u.cores += v.cores * times
}

// replay is one run.
type replay struct {
	w       *trace.Workload
	mode    Mode
	draw    *rand.Rand
	wall    func() time.Duration
	asks    []*ask // by task
	nodes   map[*model][]*node
	at      map[int]*node // where a task is
	waiting []int         // tasks, in order of arrival
	leaving *heap.Heap[int]
	now     int64
	ranks   []rank // scratch

	gpus         int64   // of the cluster
	wanted, held usage   // at the moment
	departs      bool    // something leaves
	passed       float64 // seconds
	// What was wanted and held, times seconds.
	sinceWanted, sinceHeld usage

	checking time.Duration // what brute force took
	out      Outcome
}

// newReplay makes the machines of a workload: a share of those of each role.
func newReplay(w *trace.Workload, s *setup) (*replay, error) {
	r := &replay{
		w: w, mode: s.mode, draw: rand.New(rand.NewPCG(s.seed, streamBlind)), nodes: make(map[*model][]*node), at: make(map[int]*node),
		leaving: heap.New(func(a, b int) bool {
			if x, y := w.Tasks[a].Deleted, w.Tasks[b].Deleted; x != y {
				return x < y
			}
			return a < b
		}, nil),
	}
	models, spread := make(map[string]*model), make(map[string]int64)
	counts := make(map[string]int)
	for _, n := range w.Nodes {
		role := n.Labels[trace.LabelRole]
		if role == "" {
			return nil, errForeign
		}
		counts[role]++
		if models[role] != nil {
			continue
		}
		m, err := newModel(n)
		if err != nil {
			return nil, err
		}
		models[role] = m
		for _, q := range n.Allocatable {
			if strings.HasPrefix(q.Name, trace.ResourceSpread) {
				spread[q.Name] = q.Amount
			}
		}
	}
	for role, m := range models {
		for range max(int(float64(counts[role])*s.share+0.5), 1) {
			r.nodes[m] = append(r.nodes[m], newNode(m))
			r.gpus += int64(m.gpus)
			r.out.Machines++
		}
	}
	if err := r.read(models, spread); err != nil {
		return nil, err
	}
	r.demand(s.demand)
	return r, nil
}

// read turns requirements into asks; tasks share both.
func (r *replay) read(models map[string]*model, spread map[string]int64) error {
	apps := make(map[string]int)
	known := make(map[*facts.Requirements]*ask)
	for i := range r.w.Tasks {
		requirements := r.w.Tasks[i].Requirements
		if known[requirements] == nil {
			a, err := newAsk(requirements, models, apps, spread)
			if err != nil {
				return err
			}
			known[requirements] = a
		}
		r.asks = append(r.asks, known[requirements])
	}
	return nil
}

// demand multiplies what is asked of each card, up to all that a card has.
func (r *replay) demand(times float64) {
	scaled := make(map[*ask]bool)
	for _, a := range r.asks {
		if !scaled[a] && a.device.NIC.Count > 0 {
			a.device.NIC.Bandwidth = uint32(min(float64(a.device.NIC.Bandwidth)*times, cardBandwidth))
			scaled[a] = true
		}
	}
}

// play lets every task come and go.
func (r *replay) play() *Outcome {
	began := r.wall()
	for i := range r.w.Tasks {
		task := &r.w.Tasks[i]
		r.leave(task.Created)
		r.pass(task.Created)
		r.arrive(i)
		if task.Deleted != trace.Never {
			r.departs = true
			r.leaving.Push(i)
		}
	}
	r.leave(r.w.End())
	r.pass(r.w.End())
	for _, i := range r.waiting {
		r.never(i)
	}
	r.tell(r.wall() - began - r.checking)
	return &r.out
}

// pass lets time go by.
func (r *replay) pass(to int64) {
	seconds := float64(to-r.now) / 1e9
	r.now = to
	r.passed += seconds
	r.sinceWanted.add(r.wanted, seconds)
	r.sinceHeld.add(r.held, seconds)
}

// leave takes away what is deleted until then.
func (r *replay) leave(until int64) {
	for r.leaving.Len() > 0 && r.w.Tasks[r.leaving.First()].Deleted <= until {
		i := r.leaving.Pop()
		r.pass(r.w.Tasks[i].Deleted)
		r.wanted.add(r.asks[i].usage(), -1)
		n := r.at[i]
		if n == nil {
			r.forget(i)
			continue
		}
		r.held.add(r.asks[i].usage(), -1)
		n.drop(i)
		delete(r.at, i)
		r.retry(n)
	}
}

// forget is for a task that left while it waited.
func (r *replay) forget(task int) {
	for k, i := range r.waiting {
		if i == task {
			r.waiting = append(r.waiting[:k], r.waiting[k+1:]...)
			r.never(i)
			return
		}
	}
}

// never counts a task that had no place for as long as it lived.
func (r *replay) never(task int) {
	r.out.Never++
	if r.asks[task].device.Count() > 0 {
		r.out.NeverGPU++
	}
}

// retry tries those that wait on the machine that something has left; elsewhere nothing has changed for them.
func (r *replay) retry(n *node) {
	kept := r.waiting[:0]
	for _, i := range r.waiting {
		if a := r.asks[i]; a.model != n.model || !r.try(n, i, false) {
			kept = append(kept, i)
		}
	}
	r.waiting = kept
}

// arrive places a task, or lets it wait.
func (r *replay) arrive(i int) {
	a := r.asks[i]
	r.out.Instances++
	r.wanted.add(a.usage(), 1)
	near := a.together() || a.device.NIC.Count > 0
	if r.mode == Sought && near && r.place(i, true) {
		return
	}
	if r.place(i, false) {
		return
	}
	r.out.Waited++
	if a.device.Count() > 0 {
		r.out.WaitedGPU++
	}
	r.waiting = append(r.waiting, i)
	before := r.wall()
	for _, n := range r.nodes[a.model] {
		if fits(n, a, r.mode) {
			r.out.RefusedThoughFit++
			break
		}
	}
	r.checking += r.wall() - before
}

// rank orders the machines that have room: fewest free GPUs, then fewest free cores, then the lowest index.
type rank struct {
	gpus  int
	cores int64
	index int
}

func (a rank) compare(b rank) int {
	return cmp.Or(cmp.Compare(a.gpus, b.gpus), cmp.Compare(a.cores, b.cores), cmp.Compare(a.index, b.index))
}

// place puts a task on the fullest machine that holds it.
func (r *replay) place(i int, must bool) bool {
	a := r.asks[i]
	nodes := r.nodes[a.model]
	ranks := r.ranks[:0]
	for k, n := range nodes {
		if n.counts(a) {
			ranks = append(ranks, rank{n.spare, n.left.cores, k})
		}
	}
	r.ranks = ranks
	if len(ranks) == 0 {
		return false
	}
	if r.try(nodes[slices.MinFunc(ranks, rank.compare).index], i, must) { // mostly
		return true
	}
	slices.SortFunc(ranks, rank.compare)
	for _, at := range ranks[1:] {
		if r.try(nodes[at.index], i, must) {
			return true
		}
	}
	return false
}

// try places a task on a machine if it fits there.
func (r *replay) try(n *node, i int, must bool) bool {
	a := r.asks[i]
	if !n.counts(a) {
		return false
	}
	h, ok := r.mode.choose(n, a, must, r.draw)
	if !ok {
		return false
	}
	r.judge(n, h)
	n.take(i, h)
	r.at[i] = n
	r.held.add(a.usage(), 1)
	return true
}

// judge counts how near things are.
func (r *replay) judge(n *node, h *holding) {
	o := &r.out
	o.Placed++
	if r.mode.aware() && !sound(n, h) {
		o.Wrong++
	}
	switch a := h.ask; {
	case a.together():
		o.Together++
		if oneSwitch(n, &h.grant) {
			o.OneSwitch++
		}
		if oneNUMANode(n, &h.grant) {
			o.TogetherNUMANode++
		}
	case a.device.NIC.Count > 0:
		o.Cards++
		if oneNUMANode(n, &h.grant) {
			o.CardsNUMANode++
		}
	}
}
