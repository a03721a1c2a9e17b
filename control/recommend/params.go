package recommend

import (
	"errors"
	"fmt"
	"time"
)

// Amounts are CPU in cores and memory in bytes.
type Amounts struct {
	CPU    float64 `json:"cpu"`
	Memory float64 `json:"memory"`
}

// Candidate is one way to tell the CPU to ask for: a percentile of a histogram whose samples weigh half after HalfLife, and a margin on top.
type Candidate struct {
	HalfLife   time.Duration
	Percentile float64
	Margin     float64
}

func (c Candidate) String() string {
	return fmt.Sprintf("p%g + %.0f %%, half-life %s", 100*c.Percentile, 100*c.Margin, c.HalfLife)
}

// Params are what recommendations are made by. DefaultParams has values for all; zero means zero.
type Params struct {
	// Every is how long a level of CPU stays as it is: candidates are judged by what they cost over such intervals.
	Every time.Duration
	// NewPodsEvery is Every where running pods stay as they are, so that a level has to last for the life of a pod.
	NewPodsEvery time.Duration
	// HalfLives, Percentiles and Margins make the candidates: every combination.
	HalfLives   []time.Duration
	Percentiles []float64
	Margins     []float64
	// First is the index in each of these of the candidate that is believed before there is evidence.
	First [3]int
	// Evidence is how long candidates are watched before one of them replaces the first.
	Evidence time.Duration
	// Shortage is how much worse a core too few is than one too many.
	Shortage float64
	// CostHalfLife is how fast costs of the past are forgotten.
	CostHalfLife time.Duration

	// MemoryPercentile is of the daily peaks of memory, whose weights halve after MemoryHalfLife.
	MemoryPercentile float64
	MemoryHalfLife   time.Duration
	// MemoryMargin is on top of that, and MemorySpread times the spread of these peaks more, at most MemoryMarginMost. While there is one day only it
	// is MemoryMarginFirst.
	MemoryMargin, MemorySpread, MemoryMarginMost, MemoryMarginFirst float64
	// OOMFactor and OOMBytes are how much more memory is asked for after a pod ran out of it: whichever is more.
	OOMFactor, OOMBytes float64

	// GrowBy and ShrinkBy are the shares by which a target has to differ from what a running pod has before the pod is changed, ShrinkAfter is how
	// long it has to be unchanged before it shrinks.
	GrowBy, ShrinkBy float64
	ShrinkAfter      time.Duration

	// Floor is what is always asked for.
	Floor Amounts
	// CPUScale divides use of CPU into buckets.
	CPUScale Scale

	// ConfidentAfter is how much history makes the confidence one half.
	ConfidentAfter time.Duration
}

// Bounds of the parameters: a Profile keeps a histogram by half-life and a cost by candidate.
const (
	maxHalfLives  = 8
	maxCandidates = 256
)

// DefaultParams were tuned on half of the jobs of a cluster; docs/benchmarks/recommendation.md has what they reach on the other half.
func DefaultParams() Params {
	return Params{
		Every: time.Hour, NewPodsEvery: 24 * time.Hour,
		HalfLives:   []time.Duration{time.Hour, 6 * time.Hour, 24 * time.Hour},
		Percentiles: []float64{0.9, 0.95, 0.98, 1},
		Margins:     []float64{0, 0.05, 0.1, 0.15, 0.25},
		First:       [3]int{2, 2, 2}, Evidence: 24 * time.Hour, Shortage: 40, CostHalfLife: 48 * time.Hour,
		MemoryPercentile: 0.9, MemoryHalfLife: 24 * time.Hour,
		MemoryMargin: 0.12, MemorySpread: 1, MemoryMarginMost: 0.22, MemoryMarginFirst: 0.25,
		OOMFactor: 1.2, OOMBytes: 100 << 20,
		GrowBy: 0.02, ShrinkBy: 0.1, ShrinkAfter: 6 * time.Hour,
		Floor:    Amounts{CPU: 0.025, Memory: 250 << 20},
		CPUScale: Scale{First: 0.01, Growth: 1.05, Most: 1000}, ConfidentAfter: 24 * time.Hour,
	}
}

// Validate says what is wrong with the parameters.
func (p *Params) Validate() error {
	n := len(p.HalfLives) * len(p.Percentiles) * len(p.Margins)
	if n == 0 || n > maxCandidates || len(p.HalfLives) > maxHalfLives {
		return fmt.Errorf("recommend: %d half-lives, %d percentiles, %d margins: want at least one each, at most %d half-lives and %d combinations",
			len(p.HalfLives), len(p.Percentiles), len(p.Margins), maxHalfLives, maxCandidates)
	}
	for _, h := range p.HalfLives {
		if h < time.Minute {
			return fmt.Errorf("recommend: a half-life of %s: want at least a minute", h)
		}
	}
	for _, q := range p.Percentiles {
		if !(q > 0 && q <= 1) {
			return fmt.Errorf("recommend: percentile %g: want more than 0 and at most 1", q)
		}
	}
	for _, m := range p.Margins {
		if !(m >= 0 && m <= 10) {
			return fmt.Errorf("recommend: margin %g: want 0 to 10", m)
		}
	}
	for i, n := range []int{len(p.HalfLives), len(p.Percentiles), len(p.Margins)} {
		if p.First[i] < 0 || p.First[i] >= n {
			return fmt.Errorf("recommend: first[%d] is %d: want 0 to %d", i, p.First[i], n-1)
		}
	}
	switch {
	case p.Every < time.Minute || p.Every > 7*24*time.Hour:
		return fmt.Errorf("recommend: every %s: want a minute to seven days", p.Every)
	case p.NewPodsEvery < time.Minute || p.NewPodsEvery > 7*24*time.Hour:
		return fmt.Errorf("recommend: new pods every %s: want a minute to seven days", p.NewPodsEvery)
	case p.Evidence < 0 || p.CostHalfLife < time.Minute || p.ConfidentAfter <= 0:
		return errors.New("recommend: want evidence of at least 0, a half-life of costs of at least a minute, and confidence after more than 0")
	case !(p.Shortage > 0):
		return fmt.Errorf("recommend: shortage %g: want more than 0", p.Shortage)
	case !(p.MemoryPercentile > 0 && p.MemoryPercentile <= 1) || p.MemoryHalfLife < time.Hour:
		return fmt.Errorf("recommend: percentile %g of memory's daily peaks, half-life %s: want more than 0 and at most 1, and at least an hour", p.MemoryPercentile, p.MemoryHalfLife)
	case !(p.MemoryMargin > 0 && p.MemorySpread >= 0 && p.MemoryMarginMost >= p.MemoryMargin && p.MemoryMarginFirst >= p.MemoryMargin):
		return fmt.Errorf("recommend: memory margin %g, spread %g, most %g, first %g: want a margin above 0, a spread of at least 0, and the others at least the margin",
			p.MemoryMargin, p.MemorySpread, p.MemoryMarginMost, p.MemoryMarginFirst)
	case !(p.OOMFactor >= 1 && p.OOMBytes >= 0):
		return fmt.Errorf("recommend: after running out of memory, factor %g and %g bytes: want at least 1 and 0", p.OOMFactor, p.OOMBytes)
	case !(p.GrowBy >= 0 && p.ShrinkBy >= 0 && p.ShrinkBy < 1 && p.ShrinkAfter >= 0):
		return fmt.Errorf("recommend: grow by %g, shrink by %g after %s: want shares from 0 to 1 and a time of at least 0", p.GrowBy, p.ShrinkBy, p.ShrinkAfter)
	case !(p.Floor.CPU >= 0 && p.Floor.Memory >= 0):
		return fmt.Errorf("recommend: a floor of %g cores and %g bytes: want at least 0", p.Floor.CPU, p.Floor.Memory)
	}
	return p.CPUScale.Validate()
}

// candidate is the i-th combination.
func (p *Params) candidate(i int) Candidate {
	m := i % len(p.Margins)
	i /= len(p.Margins)
	return Candidate{HalfLife: p.HalfLives[i/len(p.Percentiles)], Percentile: p.Percentiles[i%len(p.Percentiles)], Margin: p.Margins[m]}
}

// first is the number of the combination that is believed at first.
func (p *Params) first() int {
	return (p.First[0]*len(p.Percentiles)+p.First[1])*len(p.Margins) + p.First[2]
}
