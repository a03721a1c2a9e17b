package recommend

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Checkpoint is a Profile in a form that can be stored. Weights are rounded to thousandths of the heaviest bucket, so that it stays small.
type Checkpoint struct {
	CPU []HistogramCheckpoint `json:"cpu"`
	// Level is what each candidate asks for until the interval ends, Cost what it cost so far; both are in the order of the parameters.
	Level []float64 `json:"level,omitempty"`
	Cost  []float64 `json:"cost"`
	// Until is when the interval ends, Began the first sample, Latest the newest one.
	Until   time.Time        `json:"until,omitzero"`
	Began   time.Time        `json:"began,omitzero"`
	Latest  time.Time        `json:"latest,omitzero"`
	Samples int64            `json:"samples"`
	Memory  []PeakCheckpoint `json:"memory,omitempty"`
	// MemoryLatest is the newest sample of memory.
	MemoryLatest time.Time `json:"memoryLatest,omitzero"`
}

// HistogramCheckpoint has the weights that are not nothing.
type HistogramCheckpoint struct {
	HalfLife  int64     `json:"halfLifeSeconds"`
	Reference time.Time `json:"reference,omitzero"`
	// Total is the sum of the weights, and Weights are shares of the heaviest bucket, in thousandths, from the bucket First on.
	Total   float64  `json:"total"`
	First   int      `json:"first"`
	Weights []uint16 `json:"weights,omitempty"`
}

// PeakCheckpoint is the most memory of a day.
type PeakCheckpoint struct {
	Day    int64   `json:"day"`
	Bytes  float64 `json:"bytes"`
	RanOut bool    `json:"ranOut,omitempty"`
}

// thousandths is what the heaviest bucket of a checkpoint has.
const thousandths = 1000

// Checkpoint returns what Restore makes an equal profile of, but for rounding.
func (f *Profile) Checkpoint() *Checkpoint {
	c := &Checkpoint{
		Level: append([]float64(nil), f.level...), Cost: append([]float64(nil), f.cost...),
		Until: f.until, Began: f.began, Latest: f.latest, Samples: f.samples, MemoryLatest: f.memory.latest,
	}
	for _, h := range f.cpu {
		c.CPU = append(c.CPU, h.checkpoint())
	}
	for _, p := range f.memory.peaks {
		c.Memory = append(c.Memory, PeakCheckpoint{Day: p.day, Bytes: p.bytes, RanOut: p.ranOut})
	}
	return c
}

func (h *Histogram) checkpoint() HistogramCheckpoint {
	c := HistogramCheckpoint{HalfLife: int64(h.halfLife / time.Second), Reference: h.reference, Total: h.total, First: h.low}
	if h.Empty() {
		return c
	}
	most := 0.0
	for _, w := range h.weights[h.low : h.high+1] {
		most = max(most, w)
	}
	for _, w := range h.weights[h.low : h.high+1] {
		share := math.Round(thousandths * w / most)
		if w >= weightless {
			share = max(share, 1) // a rare peak is what the highest percentile is about
		}
		c.Weights = append(c.Weights, uint16(share))
	}
	return c
}

// errCheckpoint is why a checkpoint cannot be used.
var errCheckpoint = errors.New("the checkpoint is not of these parameters")

// Restore makes a profile of a checkpoint. One of other parameters, or with numbers that no profile has, is an error; a new profile has to do then.
func Restore(p *Params, c *Checkpoint) (*Profile, error) {
	f := NewProfile(p)
	if len(c.CPU) != len(f.cpu) || len(c.Cost) != len(f.cost) || len(c.Level) != 0 && len(c.Level) != len(f.cost) || len(c.Memory) > daysKept {
		return nil, fmt.Errorf("%w: %d histograms, %d costs, %d levels, %d days", errCheckpoint, len(c.CPU), len(c.Cost), len(c.Level), len(c.Memory))
	}
	for i := range c.CPU {
		if err := f.cpu[i].restore(&c.CPU[i]); err != nil {
			return nil, err
		}
	}
	for _, list := range [][]float64{c.Cost, c.Level} {
		for _, x := range list {
			if !(x >= 0) || math.IsInf(x, 0) {
				return nil, fmt.Errorf("%w: a cost or level of %g", errCheckpoint, x)
			}
		}
	}
	for i, m := range c.Memory {
		if !counts(m.Bytes, 1) || i > 0 && m.Day <= c.Memory[i-1].Day {
			return nil, fmt.Errorf("%w: memory of day %d is %g", errCheckpoint, m.Day, m.Bytes)
		}
		f.memory.peaks = append(f.memory.peaks, peak{m.Day, m.Bytes, m.RanOut})
	}
	copy(f.cost, c.Cost)
	if len(c.Level) > 0 {
		f.level = append([]float64(nil), c.Level...)
	}
	if c.Samples < 0 || c.Samples > 0 && f.cpu[0].Empty() {
		return nil, fmt.Errorf("%w: %d samples", errCheckpoint, c.Samples)
	}
	f.until, f.began, f.latest, f.samples, f.memory.latest = c.Until, c.Began, c.Latest, c.Samples, c.MemoryLatest
	return f, nil
}

func (h *Histogram) restore(c *HistogramCheckpoint) error {
	if c.HalfLife != int64(h.halfLife/time.Second) || c.First < 0 || c.First > len(h.weights)-len(c.Weights) || !(c.Total >= 0) || math.IsInf(c.Total, 0) {
		return fmt.Errorf("%w: a histogram of half-life %d s with %d weights from %d on, in all %g", errCheckpoint, c.HalfLife, len(c.Weights), c.First, c.Total)
	}
	sum := 0.0
	for _, w := range c.Weights {
		sum += float64(w)
	}
	if sum == 0 {
		return nil
	}
	h.reference, h.total = c.Reference, c.Total
	h.low, h.high = c.First, c.First+len(c.Weights)-1
	for i, w := range c.Weights {
		h.weights[c.First+i] = float64(w) / sum * c.Total
	}
	h.shrink()
	return nil
}

// Sampled is how many samples of CPU were seen.
func (f *Profile) Sampled() int64 { return f.samples }
