package packing

import (
	"fmt"
	"io"
	"math"
	"slices"
	"time"
)

// ChurnOutcome is a run of one policy. Means are over the hours that were measured.
type ChurnOutcome struct {
	Policy       string  `json:"policy"`
	Load         float64 `json:"loadPercent"`
	MovesAllowed float64 `json:"movesAllowedPercentPerDay"`
	Seed         uint64  `json:"seed"`

	Allocated    float64 `json:"allocatedPercent"`
	Fragmented   float64 `json:"fragmentedPercent"` // of the cluster's GPUs
	MostFragment float64 `json:"mostFragmentedPercent"`
	OfFree       float64 `json:"fragmentedPercentOfFree"`
	// Excluded is the part of OfFree that no placement could help where the free GPUs are; LeastOfFree is the least that OfFree can be under any policy.
	Excluded    float64 `json:"excludedPercentOfFree"`
	LeastOfFree float64 `json:"leastFragmentedPercentOfFree"`

	Broken           float64 `json:"brokenPercent"`
	CPU              float64 `json:"cpuAllocatedPercent"`
	Memory           float64 `json:"memoryAllocatedPercent"`
	CPUFragmented    float64 `json:"cpuFragmentedPercent"`
	MemoryFragmented float64 `json:"memoryFragmentedPercent"`
	Running          float64 `json:"running"`

	Arrived int            `json:"arrived"`
	Served  float64        `json:"servedPercent"` // of the GPU hours that were asked for; of those of CPU or memory without GPUs
	Refused map[string]int `json:"refusedByGPUs"`
	// Unserved is what Served lacks of 100, by the size of the pods that found no room.
	Unserved         map[string]float64 `json:"unservedPercentByGPUs"`
	RefusedThoughFit int                `json:"refusedThoughFit"`
	Moves            int                `json:"moves"` // with those of the warm-up
	MovedPerDay      float64            `json:"movedPercentPerDay"`
	// Interrupted is the GPU hours for which the moved pods had run, in percent of the GPU hours that were served (of CPU or memory, where the load is of these): the work that is lost if all of
	// them begin anew.
	Interrupted   float64      `json:"interruptedPercent"`
	PodsPerSecond float64      `json:"podsPerSecond,omitempty"`
	Curve         []ChurnPoint `json:"curve"`

	decided, moved               int
	offered, served, interrupted float64
	lost                         map[string]float64
	samples                      []ChurnPoint
}

// curvePoints bounds the curve of an outcome.
const curvePoints = 200

func (o *ChurnOutcome) add(p ChurnPoint) { o.samples = append(o.samples, p) }

func (o *ChurnOutcome) finish(options *ChurnOptions, busy time.Duration) {
	n := float64(len(o.samples))
	free := 0.0
	for i := range o.samples {
		p := &o.samples[i]
		o.Allocated += p.Allocated / n
		o.Fragmented += p.Fragmented / n
		o.MostFragment = max(o.MostFragment, p.Fragmented)
		free += (100 - p.Allocated) / n
		o.Excluded += p.Excluded / n
		o.Broken += p.Broken / n
		o.CPU += p.CPU / n
		o.Memory += p.Memory / n
		o.CPUFragmented += p.CPUFragmented / n
		o.MemoryFragmented += p.MemoryFragmented / n
		o.Running += float64(p.Running) / n
	}
	if free > 0 {
		o.OfFree, o.Excluded = 100*o.Fragmented/free, 100*o.Excluded/free
	}
	if o.offered > 0 {
		o.Served = 100 * o.served / o.offered
		o.Unserved = make(map[string]float64)
		for size, work := range o.lost {
			o.Unserved[size] = 100 * work / o.offered
		}
	}
	if o.served > 0 {
		o.Interrupted = 100 * o.interrupted / o.served
	}
	o.MovedPerDay = 100 * float64(o.moved) / max(o.Running, 1) / (options.Measured.Hours() / 24)
	if busy > 0 {
		o.PodsPerSecond = math.Round(float64(o.decided) / busy.Seconds())
	}
	every := max(1, (len(o.samples)+curvePoints-1)/curvePoints)
	for i := 0; i < len(o.samples); i += every {
		o.Curve = append(o.Curve, o.samples[i])
	}
}

// name tells apart what a policy does with and without moves.
func (o *ChurnOutcome) name() string {
	if o.MovesAllowed > 0 {
		return o.Policy + " with moves"
	}
	return o.Policy
}

// Band is a range of allocation of one point, and what is fragmented in it under each policy that was there for long enough.
type Band struct {
	Allocated  int                `json:"allocatedPercent"` // from here to one more
	Fragmented map[string]float64 `json:"fragmentedPercent"`
	Hours      map[string]int     `json:"hours"`
}

// bandHours is how many hours a policy has to be in a band to be compared there.
const bandHours = 6

// ChurnResult is the experiment.
type ChurnResult struct {
	Workload string          `json:"workload"`
	Warmup   float64         `json:"warmupDays"`
	Measured float64         `json:"measuredDays"`
	Outcomes []*ChurnOutcome `json:"outcomes"`
	// Bands compare at equal allocation, over all loads and seeds.
	Bands []Band `json:"atEqualAllocation"`
	// AtEqual is the mean over the bands in which all were, by policy.
	AtEqual map[string]float64 `json:"meanFragmentedPercentAtEqualAllocation,omitempty"`
}

// Add puts an outcome in.
func (r *ChurnResult) Add(o *ChurnOutcome) { r.Outcomes = append(r.Outcomes, o) }

// Finish compares at equal allocation.
func (r *ChurnResult) Finish() {
	type cell struct {
		sum   float64
		hours int
	}
	bands := make(map[int]map[string]cell)
	for _, o := range r.Outcomes {
		for i := range o.samples {
			at := int(o.samples[i].Allocated)
			if bands[at] == nil {
				bands[at] = make(map[string]cell)
			}
			c := bands[at][o.name()]
			c.sum += o.samples[i].Fragmented
			c.hours++
			bands[at][o.name()] = c
		}
	}
	names := r.names()
	all := make(map[string]float64)
	shared := 0.0
	for at := range 101 {
		b := Band{Allocated: at, Fragmented: make(map[string]float64), Hours: make(map[string]int)}
		for name, c := range bands[at] {
			if c.hours >= bandHours {
				b.Fragmented[name], b.Hours[name] = c.sum/float64(c.hours), c.hours
			}
		}
		if len(b.Fragmented) > 0 {
			r.Bands = append(r.Bands, b)
		}
		if len(b.Fragmented) == len(names) {
			shared++
			for name, x := range b.Fragmented {
				all[name] += x
			}
		}
	}
	if shared > 0 {
		r.AtEqual = all
		for name := range all {
			all[name] /= shared
		}
	}
}

// names lists what was compared, in order.
func (r *ChurnResult) names() []string {
	var list []string
	for _, o := range r.Outcomes {
		if !slices.Contains(list, o.name()) {
			list = append(list, o.name())
		}
	}
	return list
}

// WriteTable writes the experiment for people.
func (r *ChurnResult) WriteTable(w io.Writer) error {
	p := &printer{w: w}
	p.line("%s: %g days after a warm-up of %g; percent of the cluster\n", r.Workload, r.Measured, r.Warmup)
	p.line("%-5s %-19s %9s %10s %8s %8s %7s %7s %7s %7s %9s %8s %9s %11s %9s\n", "load", "policy", "allocated", "fragmented", "of free", "excluded", "broken",
		"served", "cpu", "memory", "cpu frag.", "running", "moved/day", "interrupted", "pods/s")
	for _, o := range r.Outcomes {
		p.line("%-5.0f %-19s %9.2f %10.2f %8.2f %8.2f %7.2f %7.2f %7.2f %7.2f %9.2f %8.0f %9.2f %11.2f %9.0f\n", o.Load, o.name(), o.Allocated, o.Fragmented, o.OfFree,
			o.Excluded, o.Broken, o.Served, o.CPU, o.Memory, o.CPUFragmented, o.Running, o.MovedPerDay, o.Interrupted, o.PodsPerSecond)
	}
	if len(r.Outcomes) > 0 && r.Outcomes[0].LeastOfFree > 0 {
		p.line("no policy can have less than %.2f of what is free fragmented\n", r.Outcomes[0].LeastOfFree)
	}
	if len(r.AtEqual) > 0 {
		p.line("at equal allocation, fragmented:")
		for _, name := range r.names() {
			p.line("  %s %.2f", name, r.AtEqual[name])
		}
		p.line("\n")
	}
	for _, o := range r.Outcomes {
		if o.RefusedThoughFit > 0 {
			p.line("%s at %.0f %%: %d pods were refused though they fit\n", o.name(), o.Load, o.RefusedThoughFit)
		}
	}
	return p.err
}

func (r *ChurnResult) String() string { return fmt.Sprintf("%s: %d runs", r.Workload, len(r.Outcomes)) }
