package rules

import (
	"math"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// Dense is what most pods' local filters and scores read of a node, side by side in memory, for a pass over all nodes.
type Dense struct {
	free, allocatable, scored [2]int64   // cpu and memory: what is free, what there is, and what is requested as scores count it
	share                     [2]float32 // 1 / allocatable, 0 for none
	pods                      int32      // how many more
	balance, packing          int8       // balance now, and scoreGPUPacking for pods without GPUs
	open                      bool       // there is a node, and it is not reserved
	gpus                      bool
}

// Fill makes it say what the state does of a slot.
func (d *Dense) Fill(s *cluster.State, slot cluster.Slot) {
	*d = Dense{}
	if s.Node(slot) == nil || s.Reservation(slot) != cluster.NoReservation {
		return
	}
	d.open, d.gpus = true, s.HasGPUs(slot)
	d.scored[0], d.scored[1] = s.ScoreRequested(slot)
	requested := [2]int64{}
	for i, kind := range [2]resource.Kind{resource.CPU, resource.Memory} {
		d.free[i], d.allocatable[i], requested[i] = s.Free(slot, kind), s.Allocatable(slot, kind), s.Requested(slot, kind)
		if d.allocatable[i] > 0 {
			d.share[i] = float32(1 / float64(d.allocatable[i]))
		}
	}
	d.pods = int32(min(max(s.Free(slot, resource.Pods), math.MinInt32), math.MaxInt32))
	d.balance = int8(balance(requested, d.allocatable))
	d.packing = MaxScore
	if d.gpus {
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
	x.bounded = w[leastScore] >= 0 && w[balancedScore] >= 0 && w[mostScore] == 0 && w[pointsScore] == 0
	return x
}

// Fits reports whether cpu, memory and the number of pods let a pod in.
func (x *DenseScorer) Fits(d *Dense) bool {
	return d.open && x.pods <= d.pods && (x.requests[0] == 0 || x.requests[0] <= d.free[0]) && (x.requests[1] == 0 || x.requests[1] <= d.free[1])
}

// Bound is at least Score, and costs no division.
func (x *DenseScorer) Bound(d *Dense) int64 {
	if !x.bounded {
		return math.MaxInt64 >> 40
	}
	const slack = 0.01 // more than single precision loses of a score
	w := &x.profile.local
	shares := [2]float64{float64(d.share[0]), float64(d.share[1])}
	left := [2]float64{}
	counted := 0.0
	for i := range left {
		if d.share[i] > 0 {
			counted++
			left[i] = max(float64(d.allocatable[i]-d.scored[i]-x.scored[i])*shares[i], 0)
		}
	}
	least := 0.0
	if counted > 0 {
		least = (left[0] + left[1]) * MaxScore / counted
	}
	balanced := 0.0
	if x.requests[0] != 0 || x.requests[1] != 0 {
		after := 100.0
		if counted == 2 {
			cpu, memory := min(1-float64(d.free[0]-x.requests[0])*shares[0], 1), min(1-float64(d.free[1]-x.requests[1])*shares[1], 1)
			after -= 50 * math.Abs(cpu-memory)
		}
		balanced = 75 + (after-float64(d.balance))/2
	}
	return int64(float64(w[leastScore])*(least+slack)+float64(w[balancedScore])*(balanced+slack)) + w[packingScore]*int64(d.packing)
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
