package packing

import (
	"fmt"
	"math"

	"hilbert.dev/hilbert/schedule/fragment"
)

// Names of policies.
const (
	PolicyFGD     = "fgd"
	PolicyBestFit = "bestfit"
	PolicyHilbert = "hilbert"
)

// Policies lists them.
func Policies() []string { return []string{PolicyFGD, PolicyBestFit, PolicyHilbert} }

// policy scores placements of pods on nodes.
type policy interface {
	// see tells of an arrival, before its pod is placed; true voids all scores of before.
	see(kind int32) bool
	// changed tells that a node is not what it was.
	changed(node int)
	// holds tells that a pod has begun to run (1), or has ended (-1); one that moves does both.
	holds(kind int32, pods int64)
	// answered tells whether a pod that arrived found a place.
	answered(kind int32, placed bool)
	// score is lower for better nodes. gpu is where a fraction goes. ok is false where the pod does not fit.
	score(node int, kind int32) (score float64, gpu int, ok bool)
}

func newPolicy(name string, a *Arrivals, nodes []fragment.Node, params fragment.Params) (policy, error) {
	switch name {
	case PolicyFGD:
		return &fgd{a: a, nodes: nodes, common: remember(a.workload.Common(fragment.CommonCover))}, nil
	case PolicyBestFit:
		return newBestFit(a, nodes), nil
	case PolicyHilbert:
		return newHilbert(a, nodes, params), nil
	case PolicyCPUWorth:
		h := newHilbert(a, nodes, params)
		h.hosts = &fragment.HostPrices{}
		return h, nil
	case PolicySpread, PolicyPacked:
		return &byShares{a: a, nodes: nodes, empty: a.nodes, spreads: name == PolicySpread}, nil
	}
	return nil, fmt.Errorf("policy %q is not known; want one of %v", name, append(Policies(), HostPolicies()...))
}

// fgd is Fragmentation Gradient Descent in its published form: it knows the whole workload's mix from the beginning.
type fgd struct {
	a      *Arrivals
	nodes  []fragment.Node
	common *remembered
}

func (f *fgd) see(int32) bool { return false }
func (f *fgd) changed(int)    {}

func (f *fgd) holds(int32, int64)   {}
func (f *fgd) answered(int32, bool) {}

func (f *fgd) score(node int, kind int32) (float64, int, bool) {
	score, gpu, ok := fragment.Gradient(&f.nodes[node], &f.a.kinds[kind], f.common.fragmentation)
	return -float64(score), gpu, ok
}

// bestFit prefers the node with the least left: half the CPU and half the GPUs, each as a part of the largest node's, in hundredths. A fraction
// goes to the fullest GPU that has room.
type bestFit struct {
	a        *Arrivals
	nodes    []fragment.Node
	cpu, gpu float64 // of the largest node
}

func newBestFit(a *Arrivals, nodes []fragment.Node) *bestFit {
	b := &bestFit{a: a, nodes: nodes, cpu: 1, gpu: 1}
	for i := range nodes {
		b.cpu = max(b.cpu, float64(nodes[i].CPU))
		b.gpu = max(b.gpu, float64(nodes[i].Free.Total(nodes[i].Shape)))
	}
	return b
}

func (b *bestFit) see(int32) bool { return false }
func (b *bestFit) changed(int)    {}

func (b *bestFit) holds(int32, int64)   {}
func (b *bestFit) answered(int32, bool) {}

func (b *bestFit) score(node int, kind int32) (float64, int, bool) {
	n, r := &b.nodes[node], &b.a.kinds[kind]
	if !n.Fits(r) {
		return 0, 0, false
	}
	gpu := 0
	if r.GPU.Milli > 0 {
		best := int32(math.MaxInt32)
		for i := range n.Shape.GPUs {
			if f := n.Free[i]; f >= int32(r.GPU.Milli) && f < best {
				best, gpu = f, i
			}
		}
	}
	left := float64(n.CPU-r.CPU)/b.cpu/2 + float64(n.Free.Total(n.Shape)-r.GPU.Total())/b.gpu/2
	return -math.Floor(100 * (1 - left)), gpu, true
}

// hilbert is our policy: it learns the mix from what arrives, and finds prices anew now and then.
type hilbert struct {
	a      *Arrivals
	nodes  []fragment.Node
	mix    fragment.Mix
	market fragment.Market
	hosts  *fragment.HostPrices // nil: without CPUWorth
	fresh  int                  // arrivals since prices were found
	due    float64
	values []value // by node

	held  []int64 // by kind: pods that run
	asked []tally // by kind, lately
}

// tally is how many pods came, and how many of them found a place.
type tally struct{ came, placed float64 }

// tallied is how many arrivals of a kind weigh in full.
const tallied = 64

// value is what a node is worth as it is. Of nodes that look alike few are asked for it.
type value struct {
	prices   *fragment.Prices // nil: not computed since the node or the prices changed
	standing fragment.NodeState
}

// Between two times that prices are found, arrivals grow by half, and by no more than a number for each node. First, there are a few.
const (
	firstLearn   = 16
	learnPerNode = 0.33
)

func newHilbert(a *Arrivals, nodes []fragment.Node, params fragment.Params) *hilbert {
	return &hilbert{a: a, nodes: nodes, due: firstLearn, market: fragment.Market{Params: params}, values: make([]value, len(nodes)), held: make([]int64, len(a.kinds)), asked: make([]tally, len(a.kinds))}
}

func (h *hilbert) see(kind int32) bool {
	h.mix.Add(&h.a.kinds[kind])
	if h.fresh++; float64(h.fresh) < h.due {
		return false
	}
	h.fresh = 0
	h.due = max(firstLearn, min(h.mix.Seen()/2, learnPerNode*float64(len(h.nodes))))
	h.market.Learn(&h.mix, h.wanted(), h.nodes)
	if h.hosts != nil {
		h.hosts.Learn(&h.mix, h.nodes)
	}
	clear(h.values)
	return true
}

// holds takes in that a pod of a kind has begun to run, or has ended.
func (h *hilbert) holds(kind int32, pods int64) { h.held[kind] += pods }

// answered takes in whether a pod that came found a place.
func (h *hilbert) answered(kind int32, placed bool) {
	t := &h.asked[kind]
	if t.came++; placed {
		t.placed++
	}
	if t.came >= tallied {
		t.came, t.placed = t.came/2, t.placed/2
	}
}

// wanted is what would run if none were turned away: pods that find no place do not wait here, as they would in a cluster.
func (h *hilbert) wanted() *fragment.Demand {
	var d fragment.Demand
	for k := range h.held {
		pods := h.held[k]
		if t := &h.asked[k]; t.placed > 0 {
			pods = int64(math.Round(float64(pods) * t.came / t.placed))
		}
		d.Add(&h.a.kinds[k], pods)
	}
	return &d
}

func (h *hilbert) changed(node int) { h.values[node].prices = nil }

func (h *hilbert) score(node int, kind int32) (float64, int, bool) {
	n, r := &h.nodes[node], &h.a.kinds[kind]
	if h.hosts != nil && n.Shape.GPUs == 0 && r.GPU.IsZero() {
		if !n.Fits(r) {
			return 0, 0, false
		}
		return -h.hosts.Worth(n.CPU, n.Memory, r), 0, true
	}
	v := h.value(node)
	return v.prices.Score(n, &v.standing, r)
}

func (h *hilbert) value(node int) *value {
	v := &h.values[node]
	if v.prices == nil {
		v.prices = h.market.At(h.nodes[node].Shape.Model)
		v.standing = v.prices.State(&h.nodes[node])
	}
	return v
}

func (h *hilbert) gain(node int, after *fragment.Node) float64 {
	v := h.value(node)
	s := v.prices.State(after)
	return h.unit() * (s.Worth() - v.standing.Worth())
}

func (h *hilbert) unit() float64 { return fragment.ScoreUnit }
