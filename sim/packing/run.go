package packing

import (
	"fmt"
	"math"
	"slices"
	"time"

	"hilbert.dev/hilbert/schedule/fragment"
	"hilbert.dev/hilbert/topology"
)

// Options of a run.
type Options struct {
	Policy string
	Params fragment.Params // of our policy
	// Wall is the time since any beginning, for pods per second; nil: not measured.
	Wall func() time.Duration
	// Defragment is the part of the running pods that may be moved, from 0 to 1: to make room for refused ones, and to where they are better.
	Defragment float64
	// Exhaustive computes all scores anew for every pod, which the tests hold the usual way against.
	Exhaustive bool
}

// Point is a moment of a run.
type Point struct {
	Arrived   float64 `json:"arrived"`   // percent of the cluster's GPUs asked for so far
	Allocated float64 `json:"allocated"` // percent of the cluster's GPUs
}

// Outcome is what a run ended with.
type Outcome struct {
	Policy string  `json:"policy"`
	Seed   uint64  `json:"seed"`
	Pods   int     `json:"pods"`
	Placed int     `json:"placed"`
	At100  float64 `json:"allocatedPercentAt100"` // when as much was asked for as the cluster has
	AtEnd  float64 `json:"allocatedPercent"`
	// Where pods may move: what AtEnd is without moves, and a bound on it with moves without limit if all pods are placed that came before the
	// first was refused without moves. Set by Play.
	Unmoved float64 `json:"allocatedPercentWithoutMoves,omitempty"`
	Bound   float64 `json:"boundPercent,omitempty"`

	Refused          int                `json:"refused"`
	RefusedThoughFit int                `json:"refusedThoughFit"`
	Moves            int                `json:"moves"`
	Stranded         map[string]float64 `json:"strandedPercentByCause"`
	PodsPerSecond    float64            `json:"podsPerSecond,omitempty"`
	Curve            []Point            `json:"curve,omitempty"`

	unrefused int // how many arrivals came before the first refusal
}

// run is a run in progress.
type run struct {
	a        *Arrivals
	o        *Options
	nodes    []fragment.Node
	policy   policy
	rankings []*ranking
	looks    *looks
	rough    []roughKind
	changes  int // of nodes
	busy     time.Duration

	removal *removal // where pods may move
	running int
}

// place is a node, and a GPU of it where a part of one is asked for. A lower score is better.
type place struct {
	node, gpu int
	score     float64
}

func newRun(a *Arrivals, o *Options) (*run, error) {
	nodes := slices.Clone(a.nodes)
	p, err := newPolicy(o.Policy, a, nodes, o.Params)
	if err != nil {
		return nil, err
	}
	r := &run{a: a, o: o, nodes: nodes, policy: p, rankings: make([]*ranking, len(a.kinds))}
	_, shares := p.(*byShares)
	r.looks = newLooks(nodes, shares)
	r.rough = r.looks.roughKinds(a.kinds)
	if o.Defragment > 0 {
		r.removal = &removal{mover: fragment.Mover{MaxGPUs: maxMovedGPUs}, pods: make([][]fragment.Occupant, len(nodes))}
	}
	return r, nil
}

// Run plays the arrivals under a policy.
func (a *Arrivals) Run(o Options) (*Outcome, error) {
	r, err := newRun(a, &o)
	if err != nil {
		return nil, err
	}
	out := &Outcome{Policy: o.Policy, Pods: len(a.pods)}
	var arrived, allocated int64
	out.unrefused = len(a.pods)
	percent := func(milli int64) float64 { return 100 * float64(milli) / float64(a.capacity) }
	for i, kind := range a.pods {
		if r.removal != nil {
			r.improve(i, allocated)
		}
		request := &a.kinds[kind]
		began := r.wall()
		node, gpu, ok := r.choose(kind)
		if !ok && r.removal != nil {
			node, gpu, ok = r.makeRoom(kind)
		}
		if ok {
			r.place(node, kind, gpu)
			allocated += request.GPU.Total()
			out.Placed++
		}
		r.policy.answered(kind, ok)
		r.busy += r.wall() - began
		if !ok {
			out.Refused++
			out.unrefused = min(out.unrefused, i)
			if r.fitsSomewhere(request) {
				out.RefusedThoughFit++
			}
		}
		arrived += request.GPU.Total()
		if arrived <= a.capacity {
			out.At100 = percent(allocated)
		}
		if n := len(out.Curve); n == 0 || percent(arrived) >= out.Curve[n-1].Arrived+1 {
			out.Curve = append(out.Curve, Point{percent(arrived), percent(allocated)})
		}
	}
	out.AtEnd = percent(allocated)
	out.Stranded = r.stranded()
	if r.removal != nil {
		out.Moves = r.removal.moves
	}
	if r.running != out.Placed {
		panic(fmt.Sprintf("packing: %d pods run, %d were placed", r.running, out.Placed))
	}
	if r.busy > 0 {
		out.PodsPerSecond = math.Round(float64(len(a.pods)) / r.busy.Seconds())
	}
	return out, nil
}

func (r *run) wall() time.Duration {
	if r.o.Wall == nil {
		return 0
	}
	return r.o.Wall()
}

// choose finds the best node for a pod that arrives.
func (r *run) choose(kind int32) (node, gpu int, ok bool) {
	if r.policy.see(kind) {
		for _, known := range r.rankings {
			if known != nil {
				known.void = true
			}
		}
	}
	p, ok := r.best(kind)
	return p.node, p.gpu, ok
}

// best finds the best node.
func (r *run) best(kind int32) (place, bool) {
	if r.o.Exhaustive {
		return r.bestOfAll(kind)
	}
	return r.rank(kind).best(r.looks)
}

// bestOfAll is best by its definition: all nodes are looked at, each for itself.
func (r *run) bestOfAll(kind int32) (best place, ok bool) {
	for i := range r.nodes {
		if score, gpu := r.score(i, kind); !math.IsInf(score, 1) && (!ok || score < best.score) {
			best, ok = place{i, int(gpu), score}, true
		}
	}
	return best, ok
}

// rank brings the scores of a kind up to date.
func (r *run) rank(kind int32) *ranking {
	ranking := r.rankings[kind]
	if ranking == nil {
		ranking = newRanking()
		r.rankings[kind] = ranking
	}
	ranking.resize(r.looks.count())
	log := r.looks.log
	if ranking.void || len(log)-ranking.cursor > r.looks.count() {
		r.rankAll(ranking, kind)
	} else {
		for at := ranking.cursor; at < len(log); at++ {
			if look := int(log[at]); r.looks.last[look] == at {
				score, gpu := r.scoreLook(look, kind)
				ranking.set(look, score, gpu)
			}
		}
	}
	ranking.cursor = len(log)
	return ranking
}

func (r *run) rankAll(ranking *ranking, kind int32) {
	for at, b := range ranking.blocks {
		b.low, b.stale = math.Inf(1), false
		from := at * blockSize
		for i := range min(blockSize, r.looks.count()-from) {
			b.score[i], b.gpu[i] = r.scoreLook(from+i, kind)
			if b.score[i] < b.low {
				b.low = b.score[i]
			}
		}
	}
	ranking.void = false
}

// scoreLook is the score of all nodes that look so.
func (r *run) scoreLook(look int, kind int32) (float64, int8) {
	if r.looks.rough[look].lacks(&r.rough[kind]) {
		return math.Inf(1), 0
	}
	node, ok := r.looks.first(look)
	if !ok {
		return math.Inf(1), 0
	}
	return r.score(node, kind)
}

// score is infinite where the pod does not fit.
func (r *run) score(node int, kind int32) (float64, int8) {
	score, gpu, ok := r.policy.score(node, kind)
	if !ok {
		return math.Inf(1), 0
	}
	return score, int8(gpu)
}

func (r *run) place(node int, kind int32, gpu int) topology.Grant {
	before := r.nodes[node]
	grant := r.nodes[node].Take(&r.a.kinds[kind], gpu)
	if r.removal != nil {
		r.removal.pods[node] = append(r.removal.pods[node], fragment.Occupant{Kind: kind, Grant: grant})
	}
	r.running++
	r.policy.holds(kind, 1)
	r.touch(node, &before)
	return grant
}

// release gives back what a pod holds.
func (r *run) release(node int, kind int32, grant topology.Grant) {
	before := r.nodes[node]
	r.nodes[node].Give(&r.a.kinds[kind], grant)
	r.running--
	r.policy.holds(kind, -1)
	r.touch(node, &before)
}

// touch notes that a node has changed.
func (r *run) touch(node int, before *fragment.Node) {
	r.policy.changed(node)
	r.looks.changed(node, before, &r.nodes[node])
	r.changes++
}

// fitsSomewhere looks at every node and asks the allocator, so that a refusal does not rest on what the policies believe.
func (r *run) fitsSomewhere(request *fragment.Request) bool {
	for i := range r.nodes {
		n := &r.nodes[i]
		if n.CPU < request.CPU || n.Memory < request.Memory {
			continue
		}
		if _, ok := topology.OfferGPUs(n.Shape, &n.Free, request.GPU); ok && (request.GPU.IsZero() || request.Models.Allows(n.Shape.Model)) {
			return true
		}
	}
	return false
}
