package rules

import (
	"math"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// MaxScore is the best score that one score function gives.
const MaxScore = 100

// afterwards returns the node's cpu and memory with the pod on it, as least- and most-allocated count them.
func afterwards(s *cluster.State, slot cluster.Slot, c *cluster.Class) (requested, allocatable [2]int64) {
	cpu, memory := s.ScoreRequested(slot)
	requested = [2]int64{cpu + c.ScoreCPU - c.PodLevelCPU, memory + c.ScoreMemory - c.PodLevelMemory}
	allocatable = [2]int64{s.Allocatable(slot, resource.CPU), s.Allocatable(slot, resource.Memory)}
	return requested, allocatable
}

// scoreLeastAllocated is the mean free share of cpu and memory, in percent.
func scoreLeastAllocated(_ *Profile, s *cluster.State, slot cluster.Slot, c *cluster.Class) int64 {
	return leastAllocated(afterwards(s, slot, c))
}

func leastAllocated(requested, allocatable [2]int64) int64 {
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

// scoreLoadAware is the mean share of cpu and memory that the node will not use, in percent: LeastAllocated, with what is used in the place of what is
// requested. The pod that is placed counts with its request.
func scoreLoadAware(_ *Profile, s *cluster.State, slot cluster.Slot, c *cluster.Class) int64 {
	cpu, memory := s.Load(slot)
	_, allocatable := afterwards(s, slot, c)
	return leastAllocated([2]int64{resource.Add(cpu, c.ScoreCPU), resource.Add(memory, c.ScoreMemory)}, allocatable)
}

// scoreMostAllocated is the mean used share of cpu and memory, in percent.
func scoreMostAllocated(_ *Profile, s *cluster.State, slot cluster.Slot, c *cluster.Class) int64 {
	return mostAllocated(afterwards(s, slot, c))
}

func mostAllocated(requested, allocatable [2]int64) int64 {
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
func scoreBalancedAllocation(_ *Profile, s *cluster.State, slot cluster.Slot, c *cluster.Class) int64 {
	cpu, memory := c.Amounts.Get(resource.CPU), c.Amounts.Get(resource.Memory)
	if cpu == 0 && memory == 0 {
		return 0
	}
	allocatable := [2]int64{s.Allocatable(slot, resource.CPU), s.Allocatable(slot, resource.Memory)}
	before := [2]int64{s.Requested(slot, resource.CPU), s.Requested(slot, resource.Memory)}
	after := [2]int64{before[0] + cpu, before[1] + memory}
	return balancedAfter(balance(after, allocatable), balance(before, allocatable))
}

func balancedAfter(after, before int64) int64 { return MaxScore/2 + (MaxScore/2+after-before)/2 }

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

// scoreGPUPacking keeps whole GPUs whole. For a pod with a GPU request a node scores higher if less would be left: of the GPU that a
// fraction would share, or of the node's free GPUs for a request of whole ones. For other pods a node scores higher if it has fewer free GPUs, which
// lack of CPU or memory could strand.
func scoreGPUPacking(_ *Profile, s *cluster.State, slot cluster.Slot, c *cluster.Class) int64 {
	if !s.HasGPUs(slot) {
		return MaxScore
	}
	shape, free := s.Shape(slot), s.GPUs(slot)
	if c.GPU.Milli > 0 {
		v := s.View(slot)
		grant, ok := v.Offer(&c.GPU, nil)
		if !ok {
			return 0
		}
		return MaxScore - leftover(free, grant)*MaxScore/topology.FullGPU
	}
	left := free.Total(*shape) - c.GPU.Total()
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

// scoreCapacityRatio reads, for cpu and memory, the configured score of the used share, and returns the mean of those above 0.
func scoreCapacityRatio(p *Profile, s *cluster.State, slot cluster.Slot, c *cluster.Class) int64 {
	requested, allocatable := afterwards(s, slot, c)
	return capacityRatio(p.ratio, requested, allocatable)
}

func capacityRatio(points []spec.RatioPoint, requested, allocatable [2]int64) int64 {
	var sum, count int64
	for i := range requested {
		if allocatable[i] == 0 {
			continue
		}
		utilization := int64(100)
		if requested[i] <= allocatable[i] {
			utilization = requested[i] * 100 / allocatable[i]
		}
		if score := ratioScore(points, utilization); score > 0 {
			sum += score
			count++
		}
	}
	if count == 0 {
		return 0
	}
	return int64(math.Round(float64(sum) / float64(count)))
}

// ratioScore is the broken line through the points, at a utilization in percent.
func ratioScore(points []spec.RatioPoint, utilization int64) int64 {
	for i, point := range points {
		if utilization > point.Utilization {
			continue
		}
		if i == 0 {
			return point.Score
		}
		before := points[i-1]
		return before.Score + (point.Score-before.Score)*(utilization-before.Utilization)/(point.Utilization-before.Utilization)
	}
	return points[len(points)-1].Score
}
