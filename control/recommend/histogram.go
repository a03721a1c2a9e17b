package recommend

import (
	"fmt"
	"math"
	"time"
)

// Scale is how a Histogram divides numbers into buckets: the first is as wide as First, and each further one is Growth times as wide as the one
// before. Numbers from Most on share the last bucket.
type Scale struct{ First, Growth, Most float64 }

// maxBuckets bounds a histogram's memory: 8 KiB.
const maxBuckets = 1024

// buckets is how many buckets there are.
func (s Scale) buckets() int {
	n := math.Ceil(math.Log(s.Most*(s.Growth-1)/s.First+1)/math.Log(s.Growth)) + 1
	return int(min(n, maxBuckets))
}

// start is where a bucket begins.
func (s Scale) start(bucket int) float64 {
	if bucket == 0 {
		return 0
	}
	return s.First * (math.Pow(s.Growth, float64(bucket)) - 1) / (s.Growth - 1)
}

// bucket is the one that a number falls into.
func (s Scale) bucket(value float64, buckets int) int {
	if value < s.First {
		return 0
	}
	b := math.Log(value*(s.Growth-1)/s.First+1) / math.Log(s.Growth)
	return int(min(b, float64(buckets-1))) // before it is cut off: of a huge number no integer is made
}

// Validate says what is wrong with the scale.
func (s Scale) Validate() error {
	if !(s.First > 0 && s.Growth > 1 && s.Most > s.First) || math.IsInf(s.Most, 0) || math.IsInf(s.Growth, 0) {
		return fmt.Errorf("histogram: first bucket %g, growth %g, most %g: want a first bucket above 0, growth above 1, and most above the first bucket", s.First, s.Growth, s.Most)
	}
	return nil
}

// Histogram is a distribution whose samples weigh half as much after each half-life. It says of a share of the weight which value it lies below.
//
// The buckets, the decay and the rule of percentiles are those of the Vertical Pod Autoscaler, so that the same samples give the same answers. Weights
// are kept as of a reference: a later sample weighs more, and old weights are never touched. Before the factor grows too large, all weights move to a
// newer reference.
//
// The zero Histogram is not ready; NewHistogram makes one.
type Histogram struct {
	scale     Scale
	halfLife  time.Duration
	weights   []float64
	total     float64
	reference time.Time
	low, high int // the buckets that may have weight
}

// maxHalvings is how many half-lives a sample may be newer than the reference.
const maxHalvings = 100

// weightless is what a bucket counts as empty below: what subtraction and decay leave.
const weightless = 1e-4

// NewHistogram returns an empty histogram. The scale has to be valid, and the half-life above 0.
func NewHistogram(scale Scale, halfLife time.Duration) *Histogram {
	n := scale.buckets()
	return &Histogram{scale: scale, halfLife: halfLife, weights: make([]float64, n), low: n - 1}
}

// Add counts a sample. What is not a number, negative, or has no weight is no sample, and false is answered.
func (h *Histogram) Add(value, weight float64, at time.Time) bool {
	if !counts(value, weight) {
		return false
	}
	b := h.scale.bucket(value, len(h.weights))
	weight *= h.factor(at)
	h.weights[b] += weight
	h.total += weight
	if h.weights[b] >= weightless {
		h.low, h.high = min(h.low, b), max(h.high, b)
	}
	return true
}

// Subtract takes a sample back that was added with the same arguments.
func (h *Histogram) Subtract(value, weight float64, at time.Time) {
	if !counts(value, weight) {
		return
	}
	b := h.scale.bucket(value, len(h.weights))
	weight *= h.factor(at)
	h.total, h.weights[b] = less(h.total, weight), less(h.weights[b], weight)
	h.shrink()
}

// counts says whether this is a sample.
func counts(value, weight float64) bool {
	return value >= 0 && weight > 0 && !math.IsInf(value, 0) && !math.IsInf(weight, 0)
}

// less subtracts; what rounding leaves is nothing.
func less(weight, by float64) float64 {
	if weight -= by; weight < weightless {
		return 0
	}
	return weight
}

// shrink leaves out empty buckets at both ends.
func (h *Histogram) shrink() {
	for h.low < len(h.weights)-1 && h.weights[h.low] < weightless {
		h.low++
	}
	for h.high > 0 && h.weights[h.high] < weightless {
		h.high--
	}
}

// factor is what a sample of that time weighs, compared with one of the reference.
func (h *Histogram) factor(at time.Time) float64 {
	if h.reference.IsZero() {
		h.reference = at.Round(h.halfLife)
	}
	if at.After(h.reference.Add(h.halfLife * maxHalvings)) {
		h.rebase(at.Round(h.halfLife))
	}
	return math.Exp2(float64(at.Sub(h.reference)) / float64(h.halfLife))
}

// rebase makes that time the reference.
func (h *Histogram) rebase(reference time.Time) {
	factor := math.Exp2(-math.Round(float64(reference.Sub(h.reference)) / float64(h.halfLife)))
	for i := range h.weights {
		h.weights[i] *= factor
	}
	h.total *= factor
	h.reference = reference
	h.shrink()
}

// Empty says whether nothing has weight.
func (h *Histogram) Empty() bool { return h.weights[h.low] < weightless }

// Percentile is the end of the bucket below which this share of the weight lies, 0 to 1. An empty histogram knows none: false.
func (h *Histogram) Percentile(share float64) (float64, bool) {
	if h.Empty() {
		return 0, false
	}
	sum, want, b := 0.0, share*h.total, h.low
	for ; b < h.high; b++ {
		if sum += h.weights[b]; sum >= want {
			break
		}
	}
	if b+1 < len(h.weights) { // the last bucket has no end
		b++
	}
	return h.scale.start(b), true
}
