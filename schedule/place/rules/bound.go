package rules

import (
	"math"

	"hilbert.dev/hilbert/resource"
)

// Outline is what the bound of a node's score is computed from: 24 bytes, because a scan reads the outlines of all nodes. Its numbers have single
// precision, and bounds allow for the error (boundSlack).
type Outline struct {
	left, share      [2]float32 // cpu and memory: the free share as scores count it, −1 or more, and 1 / allocatable
	skew             float32    // the used share of cpu minus that of memory
	balance, packing int8       // as a Dense has them
	kind             outlineKind
}

type outlineKind uint8

const (
	closedNode outlineKind = iota // no pod may go there
	plainNode
	gpuNode
	unboundedNode // no bound is known, because it has no cpu or no memory, or more is requested than there is
)

// Outline computes the outline of a node.
func (d *Dense) Outline() (o Outline) {
	switch {
	case !d.open:
		return Outline{}
	case d.allocatable[0] <= 0 || d.allocatable[1] <= 0 || d.free[0] < 0 || d.free[1] < 0:
		return Outline{kind: unboundedNode}
	case d.gpus:
		o.kind = gpuNode
	default:
		o.kind = plainNode
	}
	used := [2]float64{}
	for i, all := range d.allocatable {
		o.share[i] = float32(1 / float64(all))
		o.left[i] = float32(max(float64(all-d.scored[i])/float64(all), -1)) // beyond that no score changes
		used[i] = float64(all-d.free[i]) / float64(all)
	}
	o.skew, o.balance, o.packing = float32(used[0]-used[1]), d.balance, d.packing
	return o
}

// Box has the least and the most of what some nodes have: of their outlines, and of what is free on them. It is an entry of an R-tree. The zero Box has
// no nodes.
type Box struct {
	left, share      [2]interval
	skew             interval
	sum              float32     // the most that is left of cpu and memory together
	free             [2][2]int64 // cpu and memory: the least and the most
	pods             [2]int32
	nodes            int32
	tie              uint32     // the greatest
	balance, packing int8       // the least, the greatest
	unbounded, plain bool       // some are of that kind
	state            GPUStateID // of all nodes; UnknownGPUs: they have several
}

type interval struct{ least, most float32 }

func (v *interval) cover(o interval) { v.least, v.most = min(v.least, o.least), max(v.most, o.most) }

func point(v float32) interval { return interval{v, v} }

// Nodes is the number of nodes in the box.
func (b *Box) Nodes() int { return int(b.nodes) }

// Tie is the greatest tie of a node in the box.
func (b *Box) Tie() uint32 { return b.tie }

// Add puts an open node into the box.
func (b *Box) Add(o *Outline, d *Dense, tie uint32) {
	b.Merge(&Box{
		left: [2]interval{point(o.left[0]), point(o.left[1])}, share: [2]interval{point(o.share[0]), point(o.share[1])}, skew: point(o.skew), sum: o.left[0] + o.left[1],
		free: [2][2]int64{{d.free[0], d.free[0]}, {d.free[1], d.free[1]}}, pods: [2]int32{d.pods, d.pods}, nodes: 1, tie: tie,
		balance: o.balance, packing: o.packing, unbounded: o.kind == unboundedNode, plain: o.kind == plainNode, state: d.state,
	})
}

// Merge puts the nodes of another box into the box.
func (b *Box) Merge(o *Box) {
	switch {
	case o.nodes == 0:
		return
	case b.nodes == 0:
		*b = *o
		return
	}
	for i := range b.left {
		b.left[i].cover(o.left[i])
		b.share[i].cover(o.share[i])
		b.free[i] = [2]int64{min(b.free[i][0], o.free[i][0]), max(b.free[i][1], o.free[i][1])}
	}
	b.skew.cover(o.skew)
	b.sum = max(b.sum, o.sum)
	b.pods = [2]int32{min(b.pods[0], o.pods[0]), max(b.pods[1], o.pods[1])}
	b.nodes += o.nodes
	b.tie = max(b.tie, o.tie)
	b.balance, b.packing = min(b.balance, o.balance), max(b.packing, o.packing)
	b.unbounded, b.plain = b.unbounded || o.unbounded, b.plain || o.plain
	if b.state != o.state {
		b.state = UnknownGPUs
	}
}

// FitSome is false if the pod fits on no node of the box, by cpu, memory and the number of pods. If it is true, the nodes have to be asked.
func (x *DenseScorer) FitSome(b *Box) bool {
	return b.nodes > 0 && x.pods <= b.pods[1] && (x.requests[0] == 0 || x.requests[0] <= b.free[0][1]) && (x.requests[1] == 0 || x.requests[1] <= b.free[1][1]) &&
		(!x.asksGPUs || x.fitsState(b.state))
}

// FitAll reports whether the pod fits on each node of the box, by cpu, memory and the number of pods.
func (x *DenseScorer) FitAll(b *Box) bool {
	return x.pods <= b.pods[0] && (x.requests[0] == 0 || x.requests[0] <= b.free[0][0]) && (x.requests[1] == 0 || x.requests[1] <= b.free[1][0]) &&
		(!x.asksGPUs || b.state != UnknownGPUs && x.fitsState(b.state))
}

// CanFilterAll reports whether a box that FitAll lets in has only nodes that pass all local filters.
func (x *DenseScorer) CanFilterAll(b *Box) bool {
	return x.Filters || x.filtersGPUs && b.state != UnknownGPUs
}

// boundSlack is more than single precision loses of a percentage.
const boundSlack = 0.0002

// boundTerms is what a bound is computed from besides the node: the pod and the weights of scores.
type boundTerms struct {
	requests, scored               [2]float32
	least, most, balanced, packing int64 // weights
	priced                         int64 // what a price list adds
}

func (x *DenseScorer) boundTerms() boundTerms {
	w := &x.profile.local
	amounts := func(of [2]int64) [2]float32 { // a node of MaxAmount is the largest
		return [2]float32{float32(min(of[0], resource.MaxAmount)), float32(min(of[1], resource.MaxAmount))}
	}
	t := boundTerms{
		requests: amounts(x.requests), scored: amounts(x.scored),
		least: w[leastScore], most: w[mostScore], balanced: w[balancedScore], packing: w[packingScore],
	}
	if !x.asksCPUOrMemory() {
		t.balanced = 0
	}
	if x.priced {
		t.packing, t.priced = 0, x.otherScores(0)
	}
	return t
}

// BoxBound is a score that no node of the box exceeds. It may be asked for if Bounded.
func (x *DenseScorer) BoxBound(b *Box) int64 {
	t := &x.bounds
	switch {
	case b.unbounded:
		return Unbounded
	case x.states != nil && b.state >= firstGPUState:
		return x.profile.local[worthScore] * x.worth(b.state).bound(bestWorth(&x.gpu), &b.free[0], x.requests[0])
	case !b.plain && x.priced:
		return t.priced
	}
	sum := t.priced + t.packing*int64(b.packing)
	if t.least != 0 {
		sum += t.least * b.mostLeft(t.scored[0]*b.share[0].least, t.scored[1]*b.share[1].least)
	}
	if t.most != 0 {
		sum += t.most * ((percent(1-b.left[0].least+t.scored[0]*b.share[0].most) + percent(1-b.left[1].least+t.scored[1]*b.share[1].most)) / 2)
	}
	if t.balanced != 0 {
		least := t.requests[0]*b.share[0].least - t.requests[1]*b.share[1].most
		most := t.requests[0]*b.share[0].most - t.requests[1]*b.share[1].least
		var skew float32
		if at := b.skew.least + least; at > 0 {
			skew = at
		} else if at := b.skew.most + most; at < 0 {
			skew = -at
		}
		after := min(percent(1-skew/2)-int64(b.balance), b.gain(least, most))
		sum += t.balanced * balancedAfter(after, 0)
	}
	return sum
}

// mostLeft bounds leastAllocated of pods that take these shares of cpu and memory, or more.
func (b *Box) mostLeft(cpu, memory float32) int64 {
	apart := (percent(b.left[0].most-cpu) + percent(b.left[1].most-memory)) / 2
	if left := b.sum - cpu - memory; b.left[0].least >= cpu && b.left[1].least >= memory {
		return min(apart, percent(left/2))
	}
	return apart
}

// gain is the most that balance can grow by on a node of the box, if the pod changes the skew by an amount between two: (|skew| - |skew + change|) / 2,
// in percent. That falls as the skew grows if the change is above 0, and grows with it otherwise. Balances are rounded down, so that their difference
// may be up to one greater.
func (b *Box) gain(least, most float32) int64 {
	var growth float32
	switch {
	case least >= 0: // the smaller the skew is, the better
		growth = magnitude(b.skew.least) - magnitude(b.skew.least+min(max(-b.skew.least, least), most))
	case most <= 0:
		growth = magnitude(b.skew.most) - magnitude(b.skew.most+min(max(-b.skew.most, least), most))
	default:
		growth = max(-least, most)
	}
	percent := growth*(MaxScore/2) + boundSlack
	if whole := int64(percent); percent <= float32(whole) {
		return whole
	} else if percent > 0 {
		return whole + 1
	}
	return int64(percent) // towards 0, which is up
}

func magnitude(v float32) float32 {
	if v < 0 {
		return -v
	}
	return v
}

// nodeBound is a score that the node does not exceed.
func (x *DenseScorer) nodeBound(o *Outline) int64 {
	t := &x.bounds
	switch {
	case o.kind == unboundedNode:
		return Unbounded
	case o.kind == gpuNode && x.priced:
		return t.priced
	}
	sum := t.priced + t.packing*int64(o.packing)
	if t.least != 0 {
		sum += t.least * ((percent(o.left[0]-t.scored[0]*o.share[0]) + percent(o.left[1]-t.scored[1]*o.share[1])) / 2)
	}
	if t.most != 0 {
		sum += t.most * ((percent(1-o.left[0]+t.scored[0]*o.share[0]) + percent(1-o.left[1]+t.scored[1]*o.share[1])) / 2)
	}
	if t.balanced != 0 {
		skew := o.skew + t.requests[0]*o.share[0] - t.requests[1]*o.share[1]
		sum += t.balanced * balancedAfter(percent(1-magnitude(skew)/2), int64(o.balance))
	}
	return sum
}

// percent is a share in whole percent, a little too much rather than too little. Its inputs are clamped (Outline, boundTerms), because
// what Go makes of a float that no int64 holds depends on the platform. To clamp here would make a search a tenth slower.
func percent(share float32) int64 { return min(max(int64(share*MaxScore+boundSlack), 0), MaxScore) }

// Bar is the score and the tie of the best node so far. The next one has to score more; or as much, with a greater tie; or the same, in an earlier slot.
type Bar struct {
	Score int64 // NoBar: there is no node so far
	Tie   uint32
}

// NoBar is less than any score, Unbounded more.
const (
	NoBar     = math.MinInt64
	Unbounded = math.MaxInt64
)

// BeatenBy reports whether a node of that score and tie is better than the best so far, or as good, so that the slots decide.
func (b Bar) BeatenBy(score int64, tie uint32) bool {
	return score > b.Score || score == b.Score && tie >= b.Tie
}

// MayBeat is false if the node cannot beat the bar, by its outline.
func (x *DenseScorer) MayBeat(o *Outline, tie uint32, bar Bar) bool {
	return o.kind != closedNode && (!x.Bounded || bar.BeatenBy(x.nodeBound(o), tie))
}

// ScanInput is what Next looks through: by slot the outlines, the ties, and the groups.
type ScanInput struct {
	Outlines []Outline
	Ties     []uint32
	Of       []int32
	Position []int32 // by group: its place in Bars, negative where its nodes may not be used
	Bars     []Bar
}

// Next returns the first slot, at from or after it, whose node may beat the bar of its group; the number of slots when there is none.
func (x *DenseScorer) Next(v *ScanInput, from int) int {
	ties, of := v.Ties[:len(v.Outlines)], v.Of[:len(v.Outlines)]
	for i := from; i < len(v.Outlines); i++ {
		group := of[i]
		if group < 0 {
			continue
		}
		at := v.Position[group]
		if at < 0 || !x.MayBeat(&v.Outlines[i], ties[i], v.Bars[at]) {
			continue
		}
		return i
	}
	return len(v.Outlines)
}
