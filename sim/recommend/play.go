package recommend

import (
	"math"
	"time"

	"hilbert.dev/hilbert/control/recommend"
	"hilbert.dev/hilbert/sim/trace"
)

// Score is what a policy's allocations would have cost.
type Score struct {
	Policy string `json:"policy"`
	// PodDays are the days that were judged: a pod of a job for a day.
	PodDays int `json:"podDays"`
	// CPUSlack and MemorySlack are what was allocated and not used, as shares of what was allocated.
	CPUSlack    float64 `json:"cpuSlack"`
	MemorySlack float64 `json:"memorySlack"`
	// CPUOfAsked and MemoryOfAsked are what was allocated, as shares of what the jobs asked for.
	CPUOfAsked    float64 `json:"cpuOfAsked"`
	MemoryOfAsked float64 `json:"memoryOfAsked"`
	// OOMs are pods that would have run out of memory, by thousand pod-days.
	OOMs float64 `json:"oomsPerThousandPodDays"`
	// ThrottledHours are hours in which more CPU was used than was allocated, by thousand pod-days; Short is what was used beyond it, as a share of
	// all use.
	ThrottledHours float64 `json:"throttledHoursPerThousandPodDays"`
	Short          float64 `json:"cpuShort"`
	// Changes are changes of running pods by pod-day: resizes in place, or pods made anew.
	Changes float64 `json:"changesPerPodDay"`
}

// sums are what a Score is made of.
type sums struct {
	podDays, ooms, changes              int
	cpu, cpuFree, cpuUsed, cpuShort     float64
	memory, memoryFree                  float64
	cpuAsked, memoryAsked, throttledFor float64
}

func (s *sums) add(o *sums) {
	s.podDays += o.podDays
	s.ooms += o.ooms
	s.changes += o.changes
	for _, pair := range [...]struct{ to, from *float64 }{
		{&s.cpu, &o.cpu},
		{&s.cpuFree, &o.cpuFree},
		{&s.cpuUsed, &o.cpuUsed},
		{&s.cpuShort, &o.cpuShort},
		{&s.memory, &o.memory},
		{&s.memoryFree, &o.memoryFree},
		{&s.cpuAsked, &o.cpuAsked},
		{&s.memoryAsked, &o.memoryAsked},
		{&s.throttledFor, &o.throttledFor},
	} {
		*pair.to += *pair.from
	}
}

func (s *sums) score(name string) Score {
	days := max(float64(s.podDays), 1)
	return Score{
		Policy: name, PodDays: s.podDays,
		CPUSlack: share(s.cpuFree, s.cpu), MemorySlack: share(s.memoryFree, s.memory),
		CPUOfAsked: share(s.cpu, s.cpuAsked), MemoryOfAsked: share(s.memory, s.memoryAsked),
		OOMs: 1000 * float64(s.ooms) / days, ThrottledHours: 1000 * s.throttledFor / days, Short: share(s.cpuShort, s.cpuUsed),
		Changes: float64(s.changes) / days,
	}
}

func share(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return part / whole
}

// maxRestarts bounds how often a pod is made anew within one step.
const maxRestarts = 20

// epoch is when day 0 of a trace begins: a Monday.
var epoch = time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC)

// play has a policy answer for all days of a job. The first is not judged, and the job has what it asked for.
func play(p policy, job *trace.Job, request recommend.Amounts) sums {
	var s sums
	for i := range job.Days {
		d := &job.Days[i]
		began := epoch.AddDate(0, 0, d.Day)
		step := 24 * time.Hour / time.Duration(len(d.CPU))
		if i > 0 {
			s.podDays++
		}
		for k := range d.CPU {
			now := began.Add(time.Duration(k) * step)
			used := recommend.Sample{CPU: d.CPU[k] * request.CPU, Memory: d.Memory[k] * request.Memory}
			if i > 0 {
				s.judge(p, used, now, k == 0, step)
				s.cpuAsked += request.CPU
				s.memoryAsked += request.Memory
			}
			p.see(used, now.Add(step))
		}
	}
	return s
}

// judge lets a step pass.
func (s *sums) judge(p policy, used recommend.Sample, now time.Time, fresh bool, step time.Duration) {
	has := p.allocate(now, fresh)
	for range maxRestarts {
		if !(used.Memory > has.Memory) { // NaN is not known
			break
		}
		s.ooms++
		p.ranOut(has.Memory, now)
		has = p.allocate(now, true)
	}
	s.cpu += has.CPU
	s.memory += has.Memory
	if !math.IsNaN(used.Memory) {
		s.memoryFree += max(has.Memory-used.Memory, 0)
	}
	if math.IsNaN(used.CPU) {
		return
	}
	s.cpuUsed += used.CPU
	s.cpuFree += max(has.CPU-used.CPU, 0)
	if used.CPU > has.CPU {
		s.cpuShort += used.CPU - has.CPU
		s.throttledFor += step.Hours()
	}
}
