package rules

import (
	"math"
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/schedule/fragment"
	"hilbert.dev/hilbert/topology"
)

// GPUStates numbers what nodes have free of GPUs, and remembers what pods destroy there. GPUWorth of a node depends on nothing else but its free CPU,
// for a price list and a request. Thousands of nodes have one of a few hundred states.
//
// Example: on 3,000 nodes with 8 idle GPUs a quarter of a GPU destroys the same, up to the CPU's part. That is worked out once.
type GPUStates struct {
	profile *Profile
	ids     map[gpuState]GPUStateID
	states  []gpuState // by id
	tables  map[topology.Request]*worthTable
	known   int    // worths, and tables
	list    uint64 // the price list that they are by
	counts  GPUStateCounts
	most    int
}

// GPUStateID is the number of a state.
type GPUStateID uint32

const (
	// UnknownGPUs: the state has no number. An agent reports the devices, or there are too many states, or no prices.
	UnknownGPUs GPUStateID = iota
	// NoGPUs: the node has none.
	NoGPUs
	firstGPUState
)

// The bounds of GPUStates.
const (
	maxGPUStates = 1 << 12
	maxGPUWorths = 1 << 15 // 232 bytes each
)

// gpuState is what nodes of one state have in common.
type gpuState struct {
	model     string
	gpus      int
	shareable bool
	free      topology.Free // the most first
}

// worthTable is what a request destroys, by state. It holds as long as the price list.
type worthTable struct {
	states  *GPUStates
	request topology.Request
	worths  []gpuWorth // by id, as far as there were states
}

// gpuWorth is what a request destroys of the GPUs in a state.
type gpuWorth struct {
	known, fits, priced bool
	exchange            fragment.Exchange
}

// NewGPUStates returns an empty one.
func NewGPUStates(p *Profile) *GPUStates {
	return &GPUStates{profile: p, ids: make(map[gpuState]GPUStateID), tables: make(map[topology.Request]*worthTable), most: maxGPUStates}
}

// Follow takes in a new price list. Where it returns true all numbers are void.
func (g *GPUStates) Follow() bool {
	list := g.profile.PriceList()
	if list == g.list {
		return false
	}
	first := g.list == 0
	g.list = list
	g.forget()
	if full := len(g.ids) >= g.most/2; !first && !full {
		return false
	}
	clear(g.ids)
	g.states = g.states[:0]
	return true
}

func (g *GPUStates) forget() {
	clear(g.tables)
	g.known = 0
}

// GPUStateCounts is what the bounds of GPUStates have done.
type GPUStateCounts struct {
	// States have a number, Worths are remembered, now.
	States, Worths int
	// Unnumbered is how often a state got no number, Forgotten how often all worths were forgotten, because there were too many.
	Unnumbered, Forgotten int
}

// Add adds those of another index.
func (c *GPUStateCounts) Add(other GPUStateCounts) {
	c.States += other.States
	c.Worths += other.Worths
	c.Unnumbered += other.Unnumbered
	c.Forgotten += other.Forgotten
}

// Counts returns what the bounds have done so far.
func (g *GPUStates) Counts() GPUStateCounts {
	c := g.counts
	c.States, c.Worths = len(g.states), g.known
	return c
}

// SetMost sets how many states get a number. Any number is exact; tests choose it.
func (g *GPUStates) SetMost(states int) { g.most = states }

// Len is how many states have a number.
func (g *GPUStates) Len() int { return len(g.states) }

// Of is the state of a node.
func (g *GPUStates) Of(s *cluster.State, slot cluster.Slot) GPUStateID {
	switch {
	case g.list == 0:
		return UnknownGPUs
	case !s.HasGPUs(slot):
		return NoGPUs
	}
	shape := s.Shape(slot)
	if shape.Devices != nil {
		return UnknownGPUs
	}
	state := gpuState{model: shape.Model, gpus: shape.GPUs, shareable: shape.Shareable, free: *s.GPUs(slot)}
	own := state.free[:min(shape.GPUs, topology.MaxGPUs)]
	slices.SortFunc(own, func(a, b int32) int { return int(b - a) })
	id, ok := g.ids[state]
	if ok {
		return id
	}
	if len(g.ids) >= g.most {
		g.counts.Unnumbered++
		return UnknownGPUs
	}
	id = firstGPUState + GPUStateID(len(g.states))
	g.ids[state] = id
	g.states = append(g.states, state)
	return id
}

// table is that of a request.
func (g *GPUStates) table(r *topology.Request) *worthTable {
	t := g.tables[*r]
	if t == nil {
		if g.known >= maxGPUWorths {
			g.counts.Forgotten++
			g.forget()
		}
		g.known++
		t = &worthTable{states: g, request: *r}
		g.tables[*r] = t
	}
	return t
}

// at is what the request destroys in a state that has a number.
func (t *worthTable) at(id GPUStateID) *gpuWorth {
	i := int(id - firstGPUState)
	if i >= len(t.worths) {
		t.grow()
	}
	w := &t.worths[i]
	if !w.known {
		t.find(w, &t.states.states[i])
	}
	return w
}

// grow makes room for all states that there are. Where the tables get too large, they start anew.
func (t *worthTable) grow() {
	g := t.states
	more := len(g.states) - len(t.worths)
	if g.known+more > maxGPUWorths {
		g.counts.Forgotten++
		g.forget()
		g.tables[t.request] = t
		g.known = 1 + len(t.worths)
	}
	g.known += more
	t.worths = append(t.worths, make([]gpuWorth, more)...)
}

func (t *worthTable) find(w *gpuWorth, state *gpuState) {
	w.known = true
	shape := topology.Shape{GPUs: state.gpus, Model: state.model, Shareable: state.shareable}
	grant, ok := topology.OfferGPUs(shape, &state.free, t.request)
	w.fits = ok
	prices := t.states.profile.market.at(state.model)
	if w.priced = prices != nil; !ok || !w.priced {
		return
	}
	w.exchange = prices.Exchange(&state.free, &grant)
	w.exchange.Bound()
}

// score is scoreGPUWorth of a node with so much CPU free.
func (w *gpuWorth) score(best, free, taken int64) int64 {
	switch {
	case !w.priced:
		return min(best, MaxWorth/2)
	case !w.fits:
		return 0
	}
	return scoreLoss(best, w.exchange.Loss(free, free-taken))
}

// bound is a score that no node exceeds whose free CPU is between two amounts.
func (w *gpuWorth) bound(best int64, free *[2]int64, taken int64) int64 {
	switch {
	case !w.priced:
		return min(best, MaxWorth/2)
	case !w.fits:
		return 0
	}
	return scoreLoss(best, w.exchange.LeastLoss(max(free[0], taken), free[1], taken))
}

func scoreLoss(best int64, loss float64) int64 {
	return min(max(best-int64(math.Round(loss)), 0), MaxWorth)
}

// bestWorth is the score of a pod that destroys nothing beyond its request.
func bestWorth(r *topology.Request) int64 {
	if r.IsZero() {
		return MaxWorth
	}
	return MaxWorth/2 + r.Total()
}
