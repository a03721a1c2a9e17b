package advise

import (
	"math"
	"time"

	"hilbert.dev/hilbert/api/spec"
)

// What a node uses, as the scheduler's score LoadAware reads it, is an average that forgets: a reading of t ago has the weight e^(-t/usageDecay). It is
// said anew when it has moved by a part of the capacity, so that a node that is steadily busy writes nothing.
const (
	usageDecay = 30 * time.Second
	// usageWindow: what started so long ago is in the average to 95 %.
	usageWindow = 3 * usageDecay
	// usageStep is the part of the capacity by which the average must have moved.
	usageStep = 0.05
)

// UsageReading is what a node uses at one moment, and what it has: CPU in logical CPUs, memory in bytes. Reclaimed is the part that reclaimed pods use.
type UsageReading struct {
	At                time.Duration // since the node's boot
	CPU, ReclaimedCPU Sample
	CPUs              float64
	Memory, Reclaimed Sample
	MemoryTotal       Sample
}

// UsageState is what Usage remembers. The zero value has seen nothing.
type UsageState struct {
	since, at   time.Duration // of the first and the latest reading of this average
	seen        bool
	cpu, memory float64
	said        *spec.NodeUsage
}

// Usage is what a node uses without its reclaimed pods; nil: not known, because too little was seen or because readings were missing for a while.
//
// For example: pods use 4 of 16 CPUs for two minutes, then 8. Thirty seconds later the average is 6.5, which is said; at 90 s 7.8.
func Usage(r *UsageReading, s *UsageState) *spec.NodeUsage {
	known := r.CPU.Known && r.ReclaimedCPU.Known && r.Memory.Known && r.Reclaimed.Known && r.MemoryTotal.Known
	if s.seen && (r.At < s.at || r.At-s.at > usageDecay) {
		*s = UsageState{} // it has been blind for too long, or the clock went back
	}
	if !known {
		return s.said
	}
	cpu, memory := max(r.CPU.Value-r.ReclaimedCPU.Value, 0), max(r.Memory.Value-r.Reclaimed.Value, 0)
	if !s.seen {
		*s = UsageState{since: r.At, at: r.At, seen: true, cpu: cpu, memory: memory}
		return nil
	}
	weight := 1 - math.Exp(-(r.At-s.at).Seconds()/usageDecay.Seconds())
	s.cpu += weight * (cpu - s.cpu)
	s.memory += weight * (memory - s.memory)
	s.at = r.At
	if s.at-s.since < usageWindow {
		return nil
	}
	const milli, mebibyte = 1000, 1 << 20
	if old := s.said; old == nil || math.Abs(s.cpu-float64(old.MilliCPU)/milli) >= usageStep*r.CPUs ||
		math.Abs(s.memory-float64(old.MemoryMiB)*mebibyte) >= usageStep*r.MemoryTotal.Value {
		s.said = &spec.NodeUsage{
			MilliCPU: int64(math.Round(s.cpu * milli)), MemoryMiB: int64(math.Round(s.memory / mebibyte)), WindowSeconds: int64(usageWindow / time.Second),
		}
	}
	return s.said
}
