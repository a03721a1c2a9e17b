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
	shared   []sharedScore // by look
	pass     int           // numbers the passes over all nodes
	log      []int32       // nodes in the order of their changes
	last     []int         // where in the log a node's last change is
	busy     time.Duration

	removal *removal // where pods may move
	running int
}

// sharedScore is the score of a kind on all nodes that look alike.
type sharedScore struct {
	score float64
	gpu   int8
	pass  int // in which it was computed
}

func newRun(a *Arrivals, o *Options) (*run, error) {
	nodes := slices.Clone(a.nodes)
	p, err := newPolicy(o.Policy, a, nodes, o.Params)
	if err != nil {
		return nil, err
	}
	r := &run{a: a, o: o, nodes: nodes, policy: p, rankings: make([]*ranking, len(a.kinds)), last: make([]int, len(nodes)), looks: newLooks(nodes)}
	r.shared = make([]sharedScore, r.looks.most())
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
	if r.policy.see(kind) || r.o.Exhaustive {
		for _, known := range r.rankings {
			if known != nil {
				known.void = true
			}
		}
	}
	return r.pick(kind)
}

// pick finds the best node.
func (r *run) pick(kind int32) (node, gpu int, ok bool) {
	ranking := r.rank(kind)
	node, ok = ranking.best()
	return node, int(ranking.gpu[node]), ok
}

// rank brings the scores of a kind up to date.
func (r *run) rank(kind int32) *ranking {
	ranking := r.rankings[kind]
	if ranking == nil {
		ranking = newRanking(len(r.nodes))
		r.rankings[kind] = ranking
	}
	if ranking.void || len(r.log)-ranking.cursor > 2*len(r.nodes) {
		r.rankAll(ranking, kind)
	} else {
		for at := ranking.cursor; at < len(r.log); at++ {
			if i := int(r.log[at]); r.last[i] == at {
				score, gpu := r.score(i, kind)
				ranking.set(i, score, gpu)
			}
		}
	}
	ranking.cursor = len(r.log)
	return ranking
}

// rankAll scores all nodes, those that look alike once.
func (r *run) rankAll(ranking *ranking, kind int32) {
	r.pass++
	for i, look := range r.looks.of {
		s := &r.shared[look]
		if s.pass != r.pass || r.o.Exhaustive {
			s.score, s.gpu = r.score(i, kind)
			s.pass = r.pass
		}
		ranking.score[i], ranking.gpu[i] = s.score, s.gpu
	}
	ranking.settle()
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
	grant := r.nodes[node].Take(&r.a.kinds[kind], gpu)
	if r.removal != nil {
		r.removal.pods[node] = append(r.removal.pods[node], fragment.Occupant{Kind: kind, Grant: grant})
	}
	r.running++
	r.touch(node)
	return grant
}

// touch notes that a node has changed.
func (r *run) touch(node int) {
	r.policy.changed(node)
	r.looks.changed(r.nodes, node)
	r.last[node] = len(r.log)
	r.log = append(r.log, int32(node))
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
