package place

import (
	"fmt"
	"maps"
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// MaxScore is the best score that one score function gives.
const MaxScore = 100

// LocalScore judges a node by itself, from 0 to MaxScore, as if a pod of the class were placed there.
type LocalScore struct {
	Name    string
	Default int64 // weight in the default profile
	Score   func(s *cluster.State, slot cluster.Slot, c *cluster.Class) int64
}

// NormalizedScore gives a node a raw value from its properties alone; the raw values of all feasible nodes are then scaled to 0 to
// MaxScore by the greatest of them. Reverse: the greatest raw value is the worst.
type NormalizedScore struct {
	Name    string
	Default int64
	Reverse bool
	Raw     func(n *cluster.Node, c *cluster.Class) int64
}

// LocalScores is every score that looks at one node only. Formulas follow kube-scheduler v1.37 where the names do.
var LocalScores = []LocalScore{
	{"LeastAllocated", 1, scoreLeastAllocated},
	{"MostAllocated", 0, scoreMostAllocated},
	{"BalancedAllocation", 1, scoreBalancedAllocation},
	{"GPUPacking", 20, scoreGPUPacking},
}

// NormalizedScores is every score that is relative to the feasible nodes. There are at most maxNormalized.
var NormalizedScores = []NormalizedScore{
	{"TaintToleration", 3, true, rawTaints},
	{"NodeAffinity", 2, false, rawAffinity},
}

const maxNormalized = 2

// Profile is the weights of both tables, by index.
type Profile struct {
	local      []int64
	normalized [maxNormalized]int64
}

// NewProfile returns the default weights with the given ones, by name, in their place.
func NewProfile(weights map[string]int64) (*Profile, error) {
	p := &Profile{local: make([]int64, len(LocalScores))}
	known := make(map[string]*int64)
	for i := range LocalScores {
		p.local[i] = LocalScores[i].Default
		known[LocalScores[i].Name] = &p.local[i]
	}
	for i := range NormalizedScores {
		p.normalized[i] = NormalizedScores[i].Default
		known[NormalizedScores[i].Name] = &p.normalized[i]
	}
	for _, name := range slices.Sorted(maps.Keys(weights)) {
		weight, ok := known[name]
		if !ok {
			return nil, fmt.Errorf("scheduling.scores.%s: no such score; known are %v", name, slices.Sorted(maps.Keys(known)))
		}
		*weight = weights[name]
	}
	return p, nil
}

// localScore is the weighted sum of the local scores.
func (p *Profile) localScore(s *cluster.State, slot cluster.Slot, c *cluster.Class) int64 {
	var sum int64
	for i, weight := range p.local {
		if weight != 0 {
			sum += weight * LocalScores[i].Score(s, slot, c)
		}
	}
	return sum
}

type rawValues [maxNormalized]int64

func (p *Profile) raw(n *cluster.Node, c *cluster.Class) (raw rawValues) {
	for i := range NormalizedScores {
		if p.normalized[i] != 0 {
			raw[i] = NormalizedScores[i].Raw(n, c)
		}
	}
	return raw
}

// normalizedScore is the weighted sum of the normalised scores of a node with these raw values, given the greatest of all feasible nodes.
func (p *Profile) normalizedScore(raw, greatest rawValues) int64 {
	var sum int64
	for i := range NormalizedScores {
		var score int64
		if greatest[i] > 0 {
			score = MaxScore * raw[i] / greatest[i]
		}
		if NormalizedScores[i].Reverse {
			score = MaxScore - score
		}
		sum += p.normalized[i] * score
	}
	return sum
}

// afterwards returns the node's cpu and memory with the pod on it, as least- and most-allocated count them.
func afterwards(s *cluster.State, slot cluster.Slot, c *cluster.Class) (requested, allocatable [2]int64) {
	cpu, memory := s.ScoreRequested(slot)
	requested = [2]int64{cpu + c.ScoreCPU, memory + c.ScoreMemory}
	allocatable = [2]int64{s.Allocatable(slot, resource.CPU), s.Allocatable(slot, resource.Memory)}
	return requested, allocatable
}

// scoreLeastAllocated is the mean free share of cpu and memory, in percent.
func scoreLeastAllocated(s *cluster.State, slot cluster.Slot, c *cluster.Class) int64 {
	requested, allocatable := afterwards(s, slot, c)
	var sum, count int64
	for i := range requested {
		if allocatable[i] == 0 {
			continue
		}
		count++
		if requested[i] <= allocatable[i] {
			sum += (allocatable[i] - requested[i]) * MaxScore / allocatable[i]
		}
	}
	if count == 0 {
		return 0
	}
	return sum / count
}

// scoreMostAllocated is the mean used share of cpu and memory, in percent.
func scoreMostAllocated(s *cluster.State, slot cluster.Slot, c *cluster.Class) int64 {
	requested, allocatable := afterwards(s, slot, c)
	var sum, count int64
	for i := range requested {
		if allocatable[i] == 0 {
			continue
		}
		count++
		sum += min(requested[i], allocatable[i]) * MaxScore / allocatable[i]
	}
	if count == 0 {
		return 0
	}
	return sum / count
}

// scoreBalancedAllocation is how much the pod brings the used shares of cpu and memory together: 75 for no change, towards 100 for
// better, towards 50 for worse. A pod that requests neither scores 0 everywhere.
func scoreBalancedAllocation(s *cluster.State, slot cluster.Slot, c *cluster.Class) int64 {
	cpu, memory := c.Amounts.Get(resource.CPU), c.Amounts.Get(resource.Memory)
	if cpu == 0 && memory == 0 {
		return 0
	}
	allocatable := [2]int64{s.Allocatable(slot, resource.CPU), s.Allocatable(slot, resource.Memory)}
	before := [2]int64{s.Requested(slot, resource.CPU), s.Requested(slot, resource.Memory)}
	after := [2]int64{before[0] + cpu, before[1] + memory}
	return MaxScore/2 + (MaxScore/2+balance(after, allocatable)-balance(before, allocatable))/2
}

// balance is (1 − standard deviation of the two used shares) × MaxScore. The conversions keep compilers from fusing operations.
func balance(requested, allocatable [2]int64) int64 {
	if allocatable[0] == 0 || allocatable[1] == 0 {
		return MaxScore
	}
	cpu := min(float64(requested[0])/float64(allocatable[0]), 1)
	memory := min(float64(requested[1])/float64(allocatable[1]), 1)
	deviation := max(cpu-memory, memory-cpu) / 2
	return int64(float64(1-deviation) * MaxScore)
}

// scoreGPUPacking keeps whole GPUs whole. A pod with a GPU request scores a node by how little it leaves of what it touches: of the one
// GPU that a fraction would share, or of the node's free GPUs for whole ones. A pod without one scores by how few GPUs it would strand.
func scoreGPUPacking(s *cluster.State, slot cluster.Slot, c *cluster.Class) int64 {
	shape := s.Node(slot).GPU
	if shape.GPUs == 0 {
		return MaxScore
	}
	free := s.GPUs(slot)
	if c.GPU.Milli > 0 {
		grant, ok := topology.Offer(shape, free, c.GPU)
		if !ok {
			return 0
		}
		return MaxScore - leftover(free, grant)*MaxScore/topology.FullGPU
	}
	left := free.Total(shape) - c.GPU.Total()
	return MaxScore - max(left, 0)*MaxScore/(topology.FullGPU*topology.MaxGPUs)
}

// leftover is what a fractional grant leaves on its GPU, in thousandths.
func leftover(free *topology.Free, grant topology.Grant) int64 {
	for i := range free {
		if grant.GPUs == 1<<i {
			return int64(free[i]) - int64(grant.Milli)
		}
	}
	return topology.FullGPU
}

// rawTaints counts the PreferNoSchedule taints that the class does not tolerate.
func rawTaints(n *cluster.Node, c *cluster.Class) int64 {
	var count int64
	for i := range n.Taints {
		if taint := &n.Taints[i]; taint.Effect == cluster.PreferNoSchedule && !tolerated(c.Tolerations, taint) {
			count++
		}
	}
	return count
}

// rawAffinity is the sum of the weights of the preferred terms that match.
func rawAffinity(n *cluster.Node, c *cluster.Class) int64 {
	var sum int64
	for i := range c.Preferred {
		if c.Preferred[i].Term.Matches(n) {
			sum += int64(c.Preferred[i].Weight)
		}
	}
	return sum
}
