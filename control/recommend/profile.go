package recommend

import (
	"fmt"
	"math"
	"time"
)

// Sample is what a pod of the workload used. A number that is negative or not finite is not known.
type Sample struct {
	CPU, Memory float64
}

// Profile is what is known of a workload's use. It has a bounded size: a histogram by half-life, a level and a cost by candidate, and daysKept peaks.
type Profile struct {
	params  *Params
	cpu     []*Histogram
	level   []float64 // of each candidate, until the interval ends; empty: none yet
	cost    []float64
	until   time.Time
	began   time.Time // the first sample
	latest  time.Time
	samples int64
	memory  memoryUse
}

// NewProfile returns an empty profile. The parameters have to be valid and stay as they are.
func NewProfile(p *Params) *Profile {
	f := &Profile{params: p, cost: make([]float64, len(p.HalfLives)*len(p.Percentiles)*len(p.Margins)), memory: memoryUse{params: p}}
	for _, h := range p.HalfLives {
		f.cpu = append(f.cpu, NewHistogram(p.CPUScale, h))
	}
	return f
}

// See counts a sample. Samples that are older than the newest one are not counted.
func (f *Profile) See(s Sample, at time.Time) {
	if at.Before(f.latest) || at.Before(f.memory.latest) {
		return
	}
	if counts(s.CPU, 1) {
		f.seeCPU(s.CPU, at)
	}
	if counts(s.Memory, 1) {
		f.memory.see(peak{day: dayOf(at), bytes: s.Memory})
		f.memory.latest = at
	}
}

func (f *Profile) seeCPU(cores float64, at time.Time) {
	if f.began.IsZero() {
		f.began = at
	}
	if !at.Before(f.until) {
		f.levels(at)
	}
	for i, level := range f.level {
		if cores > level {
			f.cost[i] += f.params.Shortage * (cores - level)
		} else {
			f.cost[i] += level - cores
		}
	}
	for _, h := range f.cpu {
		h.Add(cores, 1, at)
	}
	f.latest = at
	f.samples++
}

// levels begins an interval: each candidate says what it would ask for, and old costs fade.
func (f *Profile) levels(at time.Time) {
	passed := at.Sub(f.until)
	if f.until.IsZero() {
		passed = 0
	}
	fade := math.Exp2(-float64(f.params.Every+passed) / float64(f.params.CostHalfLife))
	f.until = at.Add(f.params.Every)
	if f.cpu[0].Empty() {
		return // nothing is known yet, and nothing can be judged
	}
	if f.level == nil {
		f.level = make([]float64, len(f.cost))
	}
	for i := range f.cost {
		f.cost[i] *= fade
		f.level[i] = f.ask(i)
	}
}

// ask is what a candidate asks for now.
func (f *Profile) ask(i int) float64 {
	c := f.params.candidate(i)
	value, _ := f.cpu[i/(len(f.params.Percentiles)*len(f.params.Margins))].Percentile(c.Percentile)
	return max(value*(1+c.Margin), f.params.Floor.CPU)
}

// best is the candidate with the least cost so far, and the first one before there is evidence. Of equal ones the first in order wins.
func (f *Profile) best() int {
	first := f.params.first()
	if f.latest.Sub(f.began) < f.params.Evidence {
		return first
	}
	best := first
	for i, cost := range f.cost {
		if cost < f.cost[best] {
			best = i
		}
	}
	return best
}

// RanOut notes that a pod with this much memory ran out of it. The next ones ask for more.
func (f *Profile) RanOut(bytes float64, at time.Time) {
	if counts(bytes, 1) {
		f.memory.ranOut(bytes, at)
	}
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// bytesInWords writes an amount of memory for people.
func bytesInWords(bytes float64) string {
	if bytes >= 10<<30 {
		return fmt.Sprintf("%.1f GiB", bytes/(1<<30))
	}
	return fmt.Sprintf("%.0f MiB", bytes/(1<<20))
}
