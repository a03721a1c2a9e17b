package rules

import (
	"math"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// Dense is what most pods' local filters and scores read of a node, side by side in memory, for a pass over all nodes.
type Dense struct {
	free, allocatable, scored [2]int64 // cpu and memory: what is free, what there is, and what is requested as scores count it
	pods                      int32    // how many more
	balance, packing          int8     // balance now, and scoreGPUPacking for pods without GPUs
	open                      bool     // there is a node, and it is not reserved
}

// Fill makes it say what the state does of a slot.
func (d *Dense) Fill(s *cluster.State, slot cluster.Slot) {
	*d = Dense{}
	if s.Node(slot) == nil || s.Reservation(slot) != cluster.NoReservation {
		return
	}
	d.open = true
	d.scored[0], d.scored[1] = s.ScoreRequested(slot)
	requested := [2]int64{}
	for i, kind := range [2]resource.Kind{resource.CPU, resource.Memory} {
		d.free[i], d.allocatable[i], requested[i] = s.Free(slot, kind), s.Allocatable(slot, kind), s.Requested(slot, kind)
	}
	d.pods = int32(min(max(s.Free(slot, resource.Pods), math.MinInt32), math.MaxInt32))
	d.balance = int8(balance(requested, d.allocatable))
	d.packing = MaxScore
	if s.HasGPUs(slot) {
		d.packing = int8(MaxScore - max(s.GPUs(slot).Total(*s.Shape(slot)), 0)*MaxScore/(topology.FullGPU*topology.MaxGPUs))
	}
}

// DenseScorer judges nodes by their Dense for pods of one class.
type DenseScorer struct {
	profile *Profile
	// Whole: nothing but the Dense has to be asked. Otherwise what it refuses is refused, and what it lets in must be asked the tables.
	Whole    bool
	bounded  bool
	requests [2]int64
	scored   [2]int64
	pods     int32
}

// DenseScorer returns the class's.
func (p *Profile) DenseScorer(c *cluster.Class) (x DenseScorer) {
	x = DenseScorer{profile: p, Whole: true, pods: 1}
	for _, a := range c.Amounts {
		switch a.Kind {
		case resource.CPU:
			x.requests[0] = a.Value
		case resource.Memory:
			x.requests[1] = a.Value
		case resource.Pods:
			x.pods = int32(a.Value)
		default:
			x.Whole = false
		}
	}
	x.scored = [2]int64{c.ScoreCPU - c.PodLevelCPU, c.ScoreMemory - c.PodLevelMemory}
	x.Whole = x.Whole && len(c.Ports) == 0 && !asksDevices(c) && c.NUMANodes.IsZero() && !c.AsksReclaimed() && p.PriceList() == 0
	w := &p.local
	x.bounded = x.Whole && w[leastScore] >= 0 && w[balancedScore] >= 0 && w[mostScore] == 0 && w[pointsScore] == 0 &&
		MaxScore*(w[leastScore]+2*w[balancedScore]+max(w[packingScore], -w[packingScore])) < maxBounded
	return x
}

// Fits reports whether cpu, memory and the number of pods let a pod in.
func (x *DenseScorer) Fits(d *Dense) bool {
	return d.open && x.pods <= d.pods && (x.requests[0] == 0 || x.requests[0] <= d.free[0]) && (x.requests[1] == 0 || x.requests[1] <= d.free[1])
}

// Outline is what a bound of a node's score is made of, in 24 bytes, because a pass over all nodes reads it of each. It holds single precision
// with slack, so that the bound is never below the score.
type Outline struct {
	base        float32    // what does not depend on the pod; +Inf where there is no bound, −Inf where no pod may go
	left, share [2]float32 // cpu and memory: the free share, and 1 / allocatable
	skew        float32    // the used share of cpu minus that of memory
}

// boundSlack is more than single precision loses of a score below maxBounded.
const (
	boundSlack = 0.05
	maxBounded = 50_000
)

// Outline returns a node's.
func (p *Profile) Outline(d *Dense) (o Outline) {
	w := &p.local
	inf := float32(math.Inf(1))
	switch {
	case !d.open:
		return Outline{base: -inf}
	case d.allocatable[0] <= 0 || d.allocatable[1] <= 0 || d.free[0] < 0 || d.free[1] < 0:
		return Outline{base: inf}
	}
	used := [2]float64{}
	for i, all := range d.allocatable {
		o.share[i] = float32(1 / float64(all))
		o.left[i] = float32(float64(all-d.scored[i]) / float64(all))
		used[i] = float64(all-d.free[i]) / float64(all)
	}
	o.skew = float32(used[0] - used[1])
	o.base = float32(float64(w[balancedScore])*(75+float64(MaxScore-int64(d.balance))/2)+float64(w[packingScore]*int64(d.packing))) + boundSlack
	return o
}

// Bar is the best that is known of a group of nodes: a better one scores more, or as much with a greater tie.
type Bar struct {
	Score float32 // −Inf: nothing is known
	Tie   uint32
}

// Sieve is what Next passes over: by slot the outlines, the ties, and the groups as a selection numbers them.
type Sieve struct {
	Outlines []Outline
	Ties     []uint32
	Of       []int32
	Position []int32 // by group: its bar, negative where its nodes may not be used
	Bars     []Bar
}

// Next returns the next slot whose bound does not rule out that it is better than its group's bar, from one on; the number of slots when there is none.
func (x *DenseScorer) Next(v *Sieve, from int) int {
	w := &x.profile.local
	least, apart := float32(w[leastScore])*MaxScore/2, float32(w[balancedScore])*MaxScore/4
	if x.requests[0] == 0 && x.requests[1] == 0 {
		apart = 0
	}
	scored := [2]float32{float32(x.scored[0]), float32(x.scored[1])}
	requests := [2]float32{float32(x.requests[0]), float32(x.requests[1])}
	ties, of := v.Ties[:len(v.Outlines)], v.Of[:len(v.Outlines)]
	for i := from; i < len(v.Outlines); i++ {
		group := of[i]
		if group < 0 {
			continue
		}
		at := v.Position[group]
		if at < 0 {
			continue
		}
		if !x.bounded {
			return i
		}
		o := &v.Outlines[i]
		cpu, memory := o.left[0]-scored[0]*o.share[0], o.left[1]-scored[1]*o.share[1]
		if cpu < 0 {
			cpu = 0
		}
		if memory < 0 {
			memory = 0
		}
		skew := o.skew + requests[0]*o.share[0] - requests[1]*o.share[1]
		if skew < 0 {
			skew = -skew
		}
		bound := o.base + least*(cpu+memory) - apart*skew
		bar := v.Bars[at]
		if bound < bar.Score || bound < bar.Score+1 && ties[i] < bar.Tie {
			continue
		}
		return i
	}
	return len(v.Outlines)
}

// Score is the LocalScore, if Whole.
func (x *DenseScorer) Score(d *Dense) int64 {
	w := &x.profile.local
	after := [2]int64{d.scored[0] + x.scored[0], d.scored[1] + x.scored[1]}
	sum := w[packingScore] * int64(d.packing)
	if w[leastScore] != 0 {
		sum += w[leastScore] * leastAllocated(after, d.allocatable)
	}
	if w[mostScore] != 0 {
		sum += w[mostScore] * mostAllocated(after, d.allocatable)
	}
	if w[pointsScore] != 0 {
		sum += w[pointsScore] * capacityRatio(x.profile.ratio, after, d.allocatable)
	}
	if w[balancedScore] != 0 && (x.requests[0] != 0 || x.requests[1] != 0) {
		requested := [2]int64{d.allocatable[0] - d.free[0] + x.requests[0], d.allocatable[1] - d.free[1] + x.requests[1]}
		sum += w[balancedScore] * balancedAfter(balance(requested, d.allocatable), int64(d.balance))
	}
	return sum
}
