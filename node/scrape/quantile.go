package scrape

import (
	"math"
	"slices"
	"time"
)

// history is what is remembered of a target.
type history struct {
	// base is what the next quantile is the difference to; nil: there is none.
	base   *series
	baseAt time.Time
	last   Result
}

// see takes a series in and says what is known now.
func (h *history) see(now time.Time, s *series, quantile float64, p *Params) Result {
	if s.bounds == nil {
		return Result{Outcome: Read, Value: s.value, At: now}
	}
	before := h.base
	if before == nil {
		h.begin(now, s)
		return Result{Outcome: First}
	}
	counts, ok := s.since(before)
	if !ok {
		h.begin(now, s)
		h.last = Result{}
		return Result{Outcome: Reset}
	}
	total, waited := counts[len(counts)-1], now.Sub(h.baseAt)
	switch {
	case total >= p.MinSamples, total > 0 && waited >= p.Window:
		h.begin(now, s)
		h.last = Result{Outcome: Read, Value: quantileOf(s.bounds, counts, quantile), At: now}
		return h.last
	case waited >= p.Window: // it served no request: that says nothing of its latency
		h.begin(now, s)
		return Result{Outcome: Few}
	case h.last.Outcome == Read && now.Sub(h.last.At) < p.Window:
		return h.last
	}
	return Result{Outcome: Few}
}

// begin has the next difference begin now.
func (h *history) begin(now time.Time, s *series) { h.base, h.baseAt = s, now }

// since is what has been added to the buckets. False: they are others, or the counters have begun anew.
func (s *series) since(before *series) ([]float64, bool) {
	if !slices.Equal(s.bounds, before.bounds) {
		return nil, false
	}
	out, last := make([]float64, len(s.counts)), 0.0
	for i := range out {
		if out[i] = s.counts[i] - before.counts[i]; out[i] < 0 {
			return nil, false
		}
		out[i] = max(out[i], last) // the page is not a snapshot
		last = out[i]
	}
	return out, true
}

// quantileOf is linear within a bucket, as Prometheus has it. What lies in the last bucket is at least the bound before it, and taken for that.
func quantileOf(bounds, counts []float64, quantile float64) float64 {
	rank := quantile * counts[len(counts)-1]
	i, _ := slices.BinarySearch(counts, rank)
	i = min(i, len(counts)-1)
	low, below := 0.0, 0.0
	if i > 0 {
		low, below = bounds[i-1], counts[i-1]
	}
	if math.IsInf(bounds[i], 1) || bounds[i] <= 0 || counts[i] <= below {
		return max(low, 0)
	}
	return max(low, 0) + (bounds[i]-max(low, 0))*(rank-below)/(counts[i]-below)
}
