package sim

import (
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"hilbert.dev/hilbert/schedule"
)

// Report is what came of a run. Figures that were not measured are absent.
type Report struct {
	Workload   string `json:"workload"`
	Seed       uint64 `json:"seed"`
	Schedulers int    `json:"schedulers"`

	Nodes int `json:"nodes"`
	// Pods of ours that were created; Placed of them were bound once, Unplaced never.
	Pods     int `json:"pods"`
	Placed   int `json:"placed"`
	Unplaced int `json:"unplaced"`
	// Reasons counts the unplaced pods by the filter that stopped the nodes which came furthest through the table of filters.
	Reasons map[string]int `json:"reasons"`

	// Allocated percentages are of what the nodes offer: the mean over time from the first arrival to the last event of the workload, or
	// the value at the end where pods only arrive (Measure says which).
	Measure                string  `json:"measure"`
	CPUAllocatedPercent    float64 `json:"cpuAllocatedPercent"`
	MemoryAllocatedPercent float64 `json:"memoryAllocatedPercent"`
	GPUAllocatedPercent    float64 `json:"gpuAllocatedPercent"`
	CPUPeakPercent         float64 `json:"cpuPeakPercent"`
	MemoryPeakPercent      float64 `json:"memoryPeakPercent"`
	GPUPeakPercent         float64 `json:"gpuPeakPercent"`
	// GPUAllocatedPercentAtFull is the percentage when the GPU thousandths of the arrivals had reached the cluster's.
	GPUAllocatedPercentAtFull *float64 `json:"gpuAllocatedPercentAtFull,omitempty"`

	// Decisions per second of WallSeconds, in which everything but reading the workload is counted.
	Decisions          int      `json:"decisions"`
	DecisionsPerSecond *float64 `json:"decisionsPerSecond,omitempty"`
	// DecisionsPerCPUSecond is the same by the time that the process had on CPUs, which neighbours change little; the command fills it in.
	DecisionsPerCPUSecond *float64 `json:"decisionsPerCPUSecond,omitempty"`
	// DecisionP99Micros is the time from the end of one decision to the end of the next, commit included.
	DecisionP50Micros *float64 `json:"decisionP50Micros,omitempty"`
	DecisionP99Micros *float64 `json:"decisionP99Micros,omitempty"`
	WallSeconds       *float64 `json:"wallSeconds,omitempty"`
	// PeakRSSBytes is the process's, filled in by the command.
	PeakRSSBytes *int64 `json:"peakRSSBytes,omitempty"`
	// VirtualSeconds is how far the virtual clock came.
	VirtualSeconds float64 `json:"virtualSeconds"`

	// ConflictPercent of the Plans were rejected by the committer.
	ConflictPercent float64 `json:"conflictPercent"`
	// Partitioned is how often the nodes were divided among several schedulers.
	Partitioned *Partitioned `json:"partitioned,omitempty"`
	// Beside is what has come of the units that Config.Schedulers decided on beside the process's own, or schedulers elsewhere.
	Beside *schedule.WorkerCounts `json:"beside,omitempty"`
	// Elsewhere is what has come of schedulers in processes of their own.
	Elsewhere *schedule.OutsideCounts `json:"elsewhere,omitempty"`
	// RefusedThoughFit counts decisions that nothing fits though the naive judge found a node. It is counted when steps are checked.
	RefusedThoughFit *int `json:"refusedThoughFit,omitempty"`
	// Released placements were given up because their Binding failed.
	Released int `json:"released"`
	// Preempted pods were evicted for one of higher priority; each is created anew, which is not counted in Pods.
	Preempted int `json:"preempted,omitempty"`
	// Faults counts what was injected, and what the scheduler was answered. A node raced for was over-committed by bindings of two
	// schedulers that could not know of one another, which no scheduler can prevent.
	Faults map[string]int `json:"faults,omitempty"`

	Steps int `json:"steps"`
	// Digest is a hash over every Binding in order: pod, node, GPUs, virtual time.
	Digest string `json:"digest"`
	// Interrupted: the run was ended early.
	Interrupted bool `json:"interrupted,omitempty"`
}

// Partitioned counts how often the nodes were divided, no longer divided or into fewer partitions, and divided anew because free capacity lay unevenly.
type Partitioned struct {
	Splits     int `json:"splits"`
	Merges     int `json:"merges"`
	Rebalances int `json:"rebalances"`
}

// add adds what another scheduler has done, if it had anything to divide.
func (p *Partitioned) add(other *Partitioned) {
	if other != nil {
		p.Splits, p.Merges, p.Rebalances = p.Splits+other.Splits, p.Merges+other.Merges, p.Rebalances+other.Rebalances
	}
}

// What the allocated percentages are.
const (
	MeasureMean  = "mean over time"
	MeasureFinal = "at the end"
)

func (s *simulation) report(wall time.Duration) *Report {
	m := s.meter
	m.integrate(s.clock.now)
	for i := range s.api.pods {
		if p := &s.api.pods[i]; p.exists && p.ours && p.bound == 0 {
			m.unplaced(s.process.whyPending(p, reasonWaiting))
		}
	}
	r := &Report{
		Workload: s.w.Name, Seed: s.o.Seed, Schedulers: s.o.Schedulers,
		Nodes: len(s.w.Nodes), Pods: m.created, Placed: m.placed, Unplaced: m.created - m.placed, Reasons: m.reasons,
		CPUPeakPercent:    percent(float64(m.cpuPeak), m.capacity.CPU),
		MemoryPeakPercent: percent(float64(m.memPeak), m.capacity.Memory),
		GPUPeakPercent:    percent(float64(m.gpuPeak), m.capacity.GPUMilli),
		Decisions:         m.decisions, VirtualSeconds: time.Duration(s.clock.now).Seconds(),
		ConflictPercent: percent(float64(m.rejected), int64(m.rejected+m.committed)),
		Released:        m.released, Preempted: m.evicted, Faults: m.faults,
		Steps: s.clock.step, Digest: hex.EncodeToString(s.server.digest.Sum(nil)),
	}
	s.process.countPartitions()
	if s.o.Partitions {
		r.Partitioned = &s.process.divided
	}
	if s.o.Config.Schedulers > 1 || s.o.Elsewhere > 0 {
		r.Beside = &s.process.beside
	}
	if e := s.process.elsewhere; e != nil {
		if s.process.scheduler != nil {
			e.add(s.process.scheduler)
		}
		r.Elsewhere = &e.counts
	}
	s.reportAllocated(r)
	s.reportTimes(r, wall)
	if s.check != nil {
		r.RefusedThoughFit = &s.check.RefusedThoughFit
	}
	return r
}

func (s *simulation) reportAllocated(r *Report) {
	m := s.meter
	if span := float64(m.since - m.start); !s.o.Final && span > 0 {
		r.Measure = MeasureMean
		r.CPUAllocatedPercent = percent(m.cpuArea/span, m.capacity.CPU)
		r.MemoryAllocatedPercent = percent(m.memArea/span, m.capacity.Memory)
		r.GPUAllocatedPercent = percent(m.gpuArea/span, m.capacity.GPUMilli)
		return
	}
	r.Measure = MeasureFinal
	r.CPUAllocatedPercent = percent(float64(m.allocated.CPU), m.capacity.CPU)
	r.MemoryAllocatedPercent = percent(float64(m.allocated.Memory), m.capacity.Memory)
	r.GPUAllocatedPercent = percent(float64(m.allocated.GPUMilli), m.capacity.GPUMilli)
	if s.o.Final && m.full {
		at := percent(float64(m.gpuAtFull), m.capacity.GPUMilli)
		r.GPUAllocatedPercentAtFull = &at
	}
}

func (s *simulation) reportTimes(r *Report, wall time.Duration) {
	if s.o.Wall == nil {
		return
	}
	seconds := wall.Seconds()
	r.WallSeconds = &seconds
	if m := s.meter; m.decisions > 0 && seconds > 0 {
		rate := float64(m.decisions) / seconds
		p50, p99 := micros(m.latency.quantile(500)), micros(m.latency.quantile(990))
		r.DecisionsPerSecond, r.DecisionP50Micros, r.DecisionP99Micros = &rate, &p50, &p99
	}
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// percent rounds to four places, so that machines which differ in the last bit print the same. A share of nothing is zero.
func percent(part float64, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return math.Round(part/float64(whole)*1e6) / 1e4
}

// WriteTable writes the report for people.
func (r *Report) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		_, _ = fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) // Flush tells
	}
	row("workload", "%s", r.Workload)
	if r.Interrupted {
		row("interrupted", "at virtual time %v", time.Duration(r.VirtualSeconds*float64(time.Second)).Round(time.Second))
	}
	row("seed, schedulers", "%d, %d", r.Seed, r.Schedulers)
	row("nodes", "%d", r.Nodes)
	row("pods", "%d: %d placed, %d not", r.Pods, r.Placed, r.Unplaced)
	for _, reason := range slices.Sorted(maps.Keys(r.Reasons)) {
		row("  "+reason, "%d", r.Reasons[reason])
	}
	row("allocated "+r.Measure, "cpu %.2f %%, memory %.2f %%, gpu %.2f %%", r.CPUAllocatedPercent, r.MemoryAllocatedPercent, r.GPUAllocatedPercent)
	row("allocated at the peak", "cpu %.2f %%, memory %.2f %%, gpu %.2f %%", r.CPUPeakPercent, r.MemoryPeakPercent, r.GPUPeakPercent)
	if r.GPUAllocatedPercentAtFull != nil {
		row("gpu at 100 % arrived", "%.2f %%", *r.GPUAllocatedPercentAtFull)
	}
	row("decisions", "%d, %.2f %% of the plans conflicted", r.Decisions, r.ConflictPercent)
	if r.Preempted > 0 {
		row("pods preempted", "%d", r.Preempted)
	}
	if len(r.Faults) > 0 {
		row("placements released", "%d", r.Released)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Faults)) {
		row("  "+name, "%d", r.Faults[name])
	}
	if r.RefusedThoughFit != nil {
		row("refused though fit", "%d", *r.RefusedThoughFit)
	}
	if r.DecisionsPerSecond != nil {
		row("speed", "%.0f decisions/s, p50 %.1f µs, p99 %.1f µs", *r.DecisionsPerSecond, *r.DecisionP50Micros, *r.DecisionP99Micros)
	}
	if r.DecisionsPerCPUSecond != nil {
		row("", "%.0f decisions per second of CPU time", *r.DecisionsPerCPUSecond)
	}
	if r.WallSeconds != nil {
		row("time", "%.2f s for %s of virtual time", *r.WallSeconds, span(r.VirtualSeconds))
	}
	if r.PeakRSSBytes != nil {
		row("peak memory", "%.0f MiB", float64(*r.PeakRSSBytes)/(1<<20))
	}
	row("digest", "%s", r.Digest)
	return t.Flush()
}

func span(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second)).Round(time.Second)
	if days := int(d.Hours()) / 24; days > 1 {
		return fmt.Sprintf("%d days", days)
	}
	return strings.TrimSuffix(d.String(), "0s")
}
