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
	state                     GPUStateID
}

// Fill reads the node in a slot.
func (d *Dense) Fill(s *cluster.State, slot cluster.Slot, states *GPUStates) {
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
	d.packing, d.state = MaxScore, states.Of(s, slot)
	if d.gpus = s.HasGPUs(slot); d.gpus {
		d.packing = int8(MaxScore - max(s.GPUs(slot).Total(*s.Shape(slot)), 0)*MaxScore/(topology.FullGPU*topology.MaxGPUs))
	}
}

// HasUnknownGPUs reports whether pods may go to the node, and what is free of its GPUs has no number.
func (d *Dense) HasUnknownGPUs() bool { return d.gpus && d.state == UnknownGPUs }

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
	// Of pods whose score on a node follows from the state of its GPUs and its free CPU.
	states      *GPUStates  // nil: it does not
	worths      *worthTable // of the gpu request, once it is needed: a new price list comes before
	gpu         topology.Request
	asksGPUs    bool // for some
	filtersGPUs bool // where the state is known, a node that Fits lets in passes all local filters
}

// DenseScorer returns the scorer of a class. The states are those that the Denses name.
func (p *Profile) DenseScorer(c *cluster.Class, states *GPUStates) (x DenseScorer) {
	x = DenseScorer{profile: p, pods: 1}
	amountsOnly := len(c.Ports)+len(c.Disks) == 0 && c.Claims == nil && (c.Volumes == nil || len(c.Volumes.Drivers)+len(c.Volumes.Users) == 0)
	for _, a := range c.Amounts {
		switch a.Kind {
		case resource.CPU:
			x.requests[0] = a.Value
		case resource.Memory:
			x.requests[1] = a.Value
		case resource.Pods:
			x.pods = int32(a.Value)
		default:
			amountsOnly = false
		}
	}
	x.scored = [2]int64{c.ScoreCPU - c.PodLevelCPU, c.ScoreMemory - c.PodLevelMemory}
	plain := c.NUMANodes.IsZero() && !c.AsksReclaimed() && c.GPU.Resources == ""
	x.priced = p.PriceList() != 0
	x.Filters = amountsOnly && plain && !asksDevices(c)
	plain = plain && !p.ReadsLoad() && !p.PricesHosts(c) // a Dense does not say what the node uses, and no bound is known of CPUWorth
	x.canScore = plain && !asksDevices(c)
	if plain && x.priced && (x.canScore || asksGPUsOnly(c)) {
		x.states, x.gpu = states, topology.Request{Milli: c.GPU.Milli, Whole: c.GPU.Whole}
		x.asksGPUs = !x.canScore
		x.filtersGPUs = x.asksGPUs && amountsOnly
	}
	w := &p.local
	x.Bounded = (x.canScore || x.asksGPUs) && w[pointsScore] == 0 && min(x.requests[0], x.requests[1], x.scored[0], x.scored[1]) >= 0
	for _, score := range [...]int{leastScore, mostScore, balancedScore, packingScore, worthScore} {
		x.Bounded = x.Bounded && w[score] >= 0
	}
	x.bounds = x.boundTerms()
	return x
}

// KnowsPrices reports whether scores on nodes with GPUs change with the price list, and follow from the state of the GPUs, so that a search needs no table.
func (x *DenseScorer) KnowsPrices() bool {
	return x.states != nil && x.Bounded && (x.Filters || x.filtersGPUs)
}

func (x *DenseScorer) worth(id GPUStateID) *gpuWorth {
	if x.worths == nil {
		x.worths = x.states.table(&x.gpu)
	}
	return x.worths.at(id)
}

// asksGPUsOnly reports whether the class asks for GPUs that are counted, without any condition.
func asksGPUsOnly(c *cluster.Class) bool {
	return !c.GPU.IsZero() && c.GPU == topology.Request{Milli: c.GPU.Milli, Whole: c.GPU.Whole, Tenant: c.GPU.Tenant} && c.GPU.Contradiction(nil) == ""
}

// CanScore reports whether Score knows the node's LocalScore.
func (x *DenseScorer) CanScore(d *Dense) bool {
	return x.canScore && (!x.priced || !d.gpus) || x.states != nil && d.state >= firstGPUState
}

// CanFilter reports whether a node that Fits lets in passes all local filters.
func (x *DenseScorer) CanFilter(d *Dense) bool {
	return x.Filters || x.filtersGPUs && d.state != UnknownGPUs
}

// Fits reports whether cpu, memory, the number of pods and the state of the GPUs let a pod in.
func (x *DenseScorer) Fits(d *Dense) bool {
	return d.open && x.pods <= d.pods && (x.requests[0] == 0 || x.requests[0] <= d.free[0]) && (x.requests[1] == 0 || x.requests[1] <= d.free[1]) &&
		(!x.asksGPUs || x.fitsState(d.state))
}

// fitsState is false if the state of the GPUs refuses the pod.
func (x *DenseScorer) fitsState(id GPUStateID) bool {
	return id == UnknownGPUs || id != NoGPUs && x.worth(id).fits
}

// Score is the LocalScore of a node for which CanScore holds.
func (x *DenseScorer) Score(d *Dense) int64 {
	w := &x.profile.local
	if x.states != nil && d.state >= firstGPUState {
		return w[worthScore] * x.worth(d.state).score(bestWorth(&x.gpu), d.free[0], x.requests[0])
	}
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
