package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"time"
)

// Summary is the key figures of a run. Its JSON is what `-o json` prints; a figure that does not exist (the percentage of no
// GPUs, the median of no pods) is absent.
type Summary struct {
	Title      string    `json:"title"`
	Source     string    `json:"source"`
	Scheduler  string    `json:"scheduler,omitempty"`
	Kubernetes string    `json:"kubernetes,omitempty"`
	Started    time.Time `json:"started"`
	Seconds    float64   `json:"seconds"`
	Complete   bool      `json:"complete"`
	Partial    string    `json:"partial,omitempty"`
	Notes      []string  `json:"notes,omitempty"`

	Nodes         int `json:"nodes"`
	PodsCreated   int `json:"podsCreated"`
	PodsBound     int `json:"podsBound"`
	PodsRunning   int `json:"podsRunning"`
	PodsSucceeded int `json:"podsSucceeded"`
	PodsFailed    int `json:"podsFailed"`
	PodsPending   int `json:"podsPending"`
	MostPending   int `json:"mostPending"`

	// PodsPerSecond is the mean over the seconds in which at least one pod was bound; Best is the most in any one second.
	PodsPerSecond     *float64 `json:"podsPerSecond,omitempty"`
	BestPodsPerSecond int      `json:"bestPodsPerSecond"`

	CreationToBinding *Quantiles `json:"creationToBinding,omitempty"`

	CPU    *Share `json:"cpuAllocated,omitempty"`
	Memory *Share `json:"memoryAllocated,omitempty"`
	GPU    *Share `json:"gpuAllocated,omitempty"`

	Workloads []Workload `json:"workloads,omitempty"`
	Unplaced  []Unplaced `json:"unplaced,omitempty"`

	// Colocation is of the other half of the demo, without its samples and its map.
	Colocation *Colocation `json:"colocation,omitempty"`
}

// Quantiles of a distribution of waits, in milliseconds; each is the smallest value that at least so many are at or below.
type Quantiles struct {
	P50 float64 `json:"p50Millis"`
	P90 float64 `json:"p90Millis"`
	P99 float64 `json:"p99Millis"`
	Max float64 `json:"maxMillis"`
}

// Share is how much of one resource was allocated, in percent of what the nodes offer.
type Share struct {
	Peak    float64 `json:"peakPercent"`       // the most at any moment
	Final   float64 `json:"finalPercent"`      // at the end
	Online  float64 `json:"onlinePeakPercent"` // of Peak, held by online work
	Offline float64 `json:"offlinePeakPercent"`
}

// Summarise computes the key figures.
func Summarise(r *Run) *Summary {
	s := &Summary{
		Title: r.Title, Source: r.Source, Scheduler: r.Scheduler, Kubernetes: r.Kubernetes, Started: r.Started.UTC(),
		Seconds: seconds(r.Elapsed), Complete: r.Partial == "", Partial: r.Partial, Notes: r.Notes,
		Nodes: len(r.Nodes), Workloads: r.Workloads, Unplaced: r.Unplaced,
		CreationToBinding: quantiles(r.Waits),
	}
	if r.Colocation != nil {
		figures := *r.Colocation
		figures.Samples, figures.Map = nil, nil
		s.Colocation = &figures
	}
	s.PodsPerSecond, s.BestPodsPerSecond = bindingRate(r.BoundAt)
	for _, sample := range r.Samples {
		s.MostPending = max(s.MostPending, sample.Pending)
	}
	if len(r.Samples) == 0 {
		return s
	}
	last := r.Samples[len(r.Samples)-1]
	s.PodsCreated, s.PodsBound, s.PodsPending = last.Created, last.Bound, last.Pending
	s.PodsRunning, s.PodsSucceeded, s.PodsFailed = last.Running, last.Succeeded, last.Failed
	capacity := r.Capacity()
	share := func(of func(Amount) int64) *Share {
		all := of(capacity)
		if all <= 0 {
			return nil
		}
		peak := r.Samples[peakSample(r.Samples, of)]
		percent := func(part int64) float64 { return round(100*float64(part)/float64(all), 2) }
		return &Share{
			Peak:    percent(of(peak.Online.Plus(peak.Offline))),
			Final:   percent(of(last.Online.Plus(last.Offline))),
			Online:  percent(of(peak.Online)),
			Offline: percent(of(peak.Offline)),
		}
	}
	s.CPU, s.Memory, s.GPU = share(cpuOf), share(memoryOf), share(gpuOf)
	return s
}

// WriteJSON writes the summary as indented JSON.
func (s *Summary) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

func cpuOf(a Amount) int64    { return a.CPU }
func memoryOf(a Amount) int64 { return a.Memory }
func gpuOf(a Amount) int64    { return a.GPU }

// peakSample is the first sample with the most of one resource allocated; 0 when there are none.
func peakSample(samples []Sample, of func(Amount) int64) int {
	best := 0
	for i, s := range samples {
		if of(s.Online.Plus(s.Offline)) > of(samples[best].Online.Plus(samples[best].Offline)) {
			best = i
		}
	}
	return best
}

func quantiles(waits []time.Duration) *Quantiles {
	if len(waits) == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(waits))
	at := func(q float64) float64 {
		return round(float64(sorted[rank(len(sorted), q)])/float64(time.Millisecond), 2)
	}
	return &Quantiles{P50: at(.50), P90: at(.90), P99: at(.99), Max: at(1)}
}

// rank is the index of the smallest of n sorted values that at least the fraction q of them are at or below.
func rank(n int, q float64) int {
	return min(max(int(math.Ceil(q*float64(n)))-1, 0), n-1)
}

// bindingRate is the mean over the seconds in which something was bound, and the most in one second.
func bindingRate(boundAt []time.Duration) (mean *float64, best int) {
	if len(boundAt) == 0 {
		return nil, 0
	}
	perSecond := make(map[int64]int)
	for _, at := range boundAt {
		second := int64(math.Floor(at.Seconds()))
		perSecond[second]++
		best = max(best, perSecond[second])
	}
	rate := round(float64(len(boundAt))/float64(len(perSecond)), 1)
	return &rate, best
}

func seconds(d time.Duration) float64 { return round(d.Seconds(), 3) }

func round(x float64, digits int) float64 {
	p := math.Pow10(digits)
	return math.Round(x*p) / p
}
