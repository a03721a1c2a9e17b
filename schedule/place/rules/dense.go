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
	gpus                      bool     // it has some
}

// Fill reads the node in a slot.
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
	if d.gpus = s.HasGPUs(slot); d.gpus {
		d.packing = int8(MaxScore - max(s.GPUs(slot).Total(*s.Shape(slot)), 0)*MaxScore/(topology.FullGPU*topology.MaxGPUs))
	}
}

// IsOpen reports whether there is a node that is not reserved.
func (d *Dense) IsOpen() bool { return d.open }

// DenseScorer judges nodes by their Dense for pods of one class. Filters and CanScore say where it knows the answers of the tables; elsewhere the tables
// must be asked.
type DenseScorer struct {
	profile *Profile
	// Filters: a node that Fits lets in passes all local filters. Otherwise these filters must be asked about it. What Fits refuses, they refuse.
	Filters bool
	// Bounded: there is a bound that no node's score exceeds.
	Bounded  bool
	canScore bool // the Dense is enough for the LocalScore of nodes without a price
	priced   bool // nodes with GPUs have a price
	requests [2]int64
	scored   [2]int64
	pods     int32
	bounds   boundTerms
}

// DenseScorer returns the scorer of a class.
func (p *Profile) DenseScorer(c *cluster.Class) (x DenseScorer) {
	x = DenseScorer{profile: p, Filters: true, pods: 1}
	for _, a := range c.Amounts {
		switch a.Kind {
		case resource.CPU:
			x.requests[0] = a.Value
		case resource.Memory:
			x.requests[1] = a.Value
		case resource.Pods:
			x.pods = int32(a.Value)
		default:
			x.Filters = false
		}
	}
	x.scored = [2]int64{c.ScoreCPU - c.PodLevelCPU, c.ScoreMemory - c.PodLevelMemory}
	x.canScore = !asksDevices(c) && c.NUMANodes.IsZero() && !c.AsksReclaimed()
	x.priced = p.PriceList() != 0
	x.Filters = x.Filters && x.canScore && len(c.Ports) == 0
	x.canScore = x.canScore && !p.ReadsLoad() // a Dense does not say what the node uses
	w := &p.local
	x.Bounded = x.canScore && w[pointsScore] == 0 && min(x.requests[0], x.requests[1], x.scored[0], x.scored[1]) >= 0
	for _, score := range [...]int{leastScore, mostScore, balancedScore, packingScore, worthScore} {
		x.Bounded = x.Bounded && w[score] >= 0
	}
	x.bounds = x.boundTerms()
	return x
}

// CanScore reports whether Score knows the node's LocalScore.
func (x *DenseScorer) CanScore(d *Dense) bool { return x.canScore && (!x.priced || !d.gpus) }

// Fits reports whether cpu, memory and the number of pods let a pod in.
func (x *DenseScorer) Fits(d *Dense) bool {
	return d.open && x.pods <= d.pods && (x.requests[0] == 0 || x.requests[0] <= d.free[0]) && (x.requests[1] == 0 || x.requests[1] <= d.free[1])
}

// Score is the LocalScore of a node for which CanScore holds.
func (x *DenseScorer) Score(d *Dense) int64 {
	w := &x.profile.local
	after := [2]int64{d.scored[0] + x.scored[0], d.scored[1] + x.scored[1]}
	sum := x.otherScores(d.packing)
	if w[leastScore] != 0 {
		sum += w[leastScore] * leastAllocated(after, d.allocatable)
	}
	if w[mostScore] != 0 {
		sum += w[mostScore] * mostAllocated(after, d.allocatable)
	}
	if w[pointsScore] != 0 {
		sum += w[pointsScore] * capacityRatio(x.profile.ratio, after, d.allocatable)
	}
	if w[balancedScore] != 0 && x.asksCPUOrMemory() {
		requested := [2]int64{d.allocatable[0] - d.free[0] + x.requests[0], d.allocatable[1] - d.free[1] + x.requests[1]}
		sum += w[balancedScore] * balancedAfter(balance(requested, d.allocatable), int64(d.balance))
	}
	return sum
}

// otherScores is the part of the score that does not depend on cpu and memory, on a node without a price.
func (x *DenseScorer) otherScores(packing int8) int64 {
	if x.priced {
		return x.profile.local[worthScore] * MaxWorth
	}
	return x.profile.local[packingScore] * int64(packing)
}

func (x *DenseScorer) asksCPUOrMemory() bool { return x.requests[0] != 0 || x.requests[1] != 0 }
