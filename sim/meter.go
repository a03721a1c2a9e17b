package sim

import (
	"math/bits"
	"time"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/sim/trace"
)

// Why a pod was never placed, where no filter is the reason.
const (
	reasonWaiting = "Waiting" // not decided yet
	reasonLeft    = "LeftBeforeItsTurn"
)

// meter counts what happens.
type meter struct {
	created, placed           int
	committed, rejected       int
	released                  int
	evicted                   int
	decisions                 int
	faults                    map[string]int // what went wrong, by name
	reasons                   map[string]int
	latest                    map[*facts.Requirements]string // why a class fits nowhere
	latency                   histogram
	capacity, allocated       trace.Capacity
	start, end, since         int64 // of the time over which means are taken; when allocated last changed
	cpuArea, memArea, gpuArea float64
	cpuPeak, memPeak, gpuPeak int64
	gpuRequested              int64
	gpuAtFull                 int64 // allocated when the GPU thousandths requested reached the cluster's
	full                      bool
}

func newMeter(w *trace.Workload) *meter {
	m := &meter{
		reasons: make(map[string]int), faults: make(map[string]int), latest: make(map[*facts.Requirements]string), capacity: w.Capacity(), end: w.End(),
	}
	if len(w.Tasks) > 0 {
		m.start = w.Tasks[0].Created
	}
	m.since = m.start
	return m
}

// integrate adds up what was allocated since the last change.
func (m *meter) integrate(now int64) {
	now = min(now, m.end)
	if now <= m.since {
		return
	}
	span := float64(now - m.since)
	m.cpuArea += span * float64(m.allocated.CPU)
	m.memArea += span * float64(m.allocated.Memory)
	m.gpuArea += span * float64(m.allocated.GPUMilli)
	m.since = now
}

// move takes note that a pod took its place (sign 1) or gave it back (-1).
func (m *meter) move(now int64, r *facts.Requirements, sign int64) {
	m.integrate(now)
	a := &m.allocated
	for _, q := range r.Requests {
		switch q.Name {
		case resource.NameCPU:
			a.CPU += sign * q.Amount
		case resource.NameMemory:
			a.Memory += sign * q.Amount
		}
	}
	a.GPUMilli += sign * r.GPU.Total()
	m.cpuPeak, m.memPeak, m.gpuPeak = max(m.cpuPeak, a.CPU), max(m.memPeak, a.Memory), max(m.gpuPeak, a.GPUMilli)
}

// arrived takes note of a pod of ours. It is called before anything is decided about the pod.
func (m *meter) arrived(r *facts.Requirements) {
	m.created++
	if !m.full && m.capacity.GPUMilli > 0 && m.gpuRequested >= m.capacity.GPUMilli {
		m.full, m.gpuAtFull = true, m.allocated.GPUMilli
	}
	m.gpuRequested += r.GPU.Total()
}

func (m *meter) unplaced(reason string) { m.reasons[reason]++ }

// explain remembers why a class fits nowhere: the filter that rejected the nodes that had passed the most filters.
func (m *meter) explain(r *facts.Requirements, counts []schedule.FilterCount) {
	reason := "NoNodes"
	if len(counts) > 0 {
		reason = counts[len(counts)-1].Filter
	}
	m.latest[r] = reason
}

// histogram counts durations in buckets of a sixteenth of their size.
type histogram struct {
	counts [64 * 16]uint32
	total  int
}

func bucket(d time.Duration) int {
	n := uint64(max(d, 0))
	if n < 32 {
		return int(n)
	}
	shift := bits.Len64(n) - 5
	return shift*16 + int(n>>shift)
}

// ceiling is the largest duration of a bucket.
func ceiling(bucket int) time.Duration {
	if bucket < 32 {
		return time.Duration(bucket)
	}
	shift := bucket/16 - 1
	return time.Duration((uint64(bucket-shift*16)+1)<<shift - 1)
}

func (h *histogram) add(d time.Duration) {
	h.counts[min(bucket(d), len(h.counts)-1)]++
	h.total++
}

// quantile returns the duration that permille of a thousand do not exceed.
func (h *histogram) quantile(permille int) time.Duration {
	need := (h.total*permille + 999) / 1000
	for i, n := range h.counts {
		if need -= int(n); need <= 0 && h.total > 0 {
			return ceiling(i)
		}
	}
	return 0
}
