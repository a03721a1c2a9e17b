package colocation

import (
	"math"
	"math/rand/v2"

	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/sim/trace"
)

// Streams of the seed. What a node draws has its own stream, so that nodes and variants draw the same whatever happens elsewhere.
const (
	streamServices = 301 + iota
	streamApps
	streamJobs
	streamFleet
	streamNodes = 1 << 20
)

// points of a synthetic day.
const syntheticPoints = 288

// SyntheticTide is days that services may have: one peak, two peaks, an evening peak. The mean is 1.
func SyntheticTide() *trace.Curves {
	c := &trace.Curves{Name: "synthetic tides"}
	for _, k := range []struct{ first, second, phase float64 }{{0.8, 0, 0}, {0.6, 0.35, 0.1}, {0.75, 0.2, 0.55}, {0.5, 0.1, 0.3}} {
		row := make([]float64, syntheticPoints)
		for i := range row {
			x := 2 * math.Pi * (float64(i)/syntheticPoints - k.phase)
			row[i] = max(1-k.first*math.Cos(x)-k.second*math.Cos(2*x), 0.05)
		}
		normalise(row)
		c.Rows = append(c.Rows, row)
	}
	return c
}

// SyntheticUse is machines whose use wanders and jumps, with PlanetLab's quantiles: the median mean is 7 %, one in ten has 30 %.
func SyntheticUse() *trace.Curves {
	c := &trace.Curves{Name: "synthetic use"}
	r := rand.New(rand.NewPCG(7, 7))
	for range 400 {
		mean, row, at := math.Exp(math.Log(0.07)+1.1*r.NormFloat64()), make([]float64, syntheticPoints), 0.0
		for i := range row {
			at = 0.9*at + 0.25*r.NormFloat64()
			row[i] = min(mean*math.Exp(at), 1)
		}
		c.Rows = append(c.Rows, row)
	}
	return c
}

// SyntheticJobs are jobs with the sizes and times of openb's BE tasks: half run for less than five minutes, one in ten for more than two hours.
func SyntheticJobs() []JobKind {
	r := rand.New(rand.NewPCG(8, 8))
	var kinds []JobKind
	for range 400 {
		size := []struct {
			cpu   int64
			gib   float64
			share float64
		}{{3152, 5.5, 0.45}, {4000, 10.5, 0.2}, {2000, 4, 0.15}, {8000, 30, 0.15}, {1000, 2, 0.05}}
		at, pick := r.Float64(), 0
		for at > size[pick].share && pick < len(size)-1 {
			at -= size[pick].share
			pick++
		}
		kinds = append(kinds, jobKind(size[pick].cpu, int64(size[pick].gib*(1<<30)), math.Exp(5.55+2.1*r.NormFloat64())))
	}
	return kinds
}

// JobsOf makes kinds of jobs of a trace's offline tasks: those of no or the lowest priority that end. GPUs do not count. One that asks for more than
// maxJobCPU becomes several.
func JobsOf(w []trace.Task) []JobKind {
	var kinds []JobKind
	for i := range w {
		t := &w[i]
		if t.Priority > 0 || t.Deleted == trace.Never || t.Request(resource.NameCPU) == 0 {
			continue
		}
		cpu, memory := t.Request(resource.NameCPU), t.Request(resource.NameMemory)
		parts := max(1, int((cpu+maxJobCPU-1)/maxJobCPU))
		k := jobKind(cpu/int64(parts), memory/int64(parts), float64(t.Deleted-t.Created)/1e9)
		k.Weight = parts
		kinds = append(kinds, k)
	}
	return kinds
}

// Bounds of jobs: CPU in millicores, memory in bytes, seconds.
const (
	maxJobCPU  = 8000
	leastWork  = 30
	mostWork   = 24 * 3600
	leastBytes = 512 << 20
)

// jobKind rounds what a job asks for, so that the scheduler has few classes: CPUs to halves, memory to powers of two and the middle between.
func jobKind(cpu, memory int64, seconds float64) JobKind {
	size := int64(leastBytes)
	for size < memory {
		if size*3/2 >= memory {
			size = size * 3 / 2
			break
		}
		size *= 2
	}
	return JobKind{MilliCPU: max((cpu+499)/500*500, 500), MemoryBytes: size, Seconds: min(max(seconds, leastWork), mostWork), Weight: 1}
}

func normalise(row []float64) {
	sum := 0.0
	for _, v := range row {
		sum += v
	}
	for i := range row {
		row[i] *= float64(len(row)) / sum
	}
}
