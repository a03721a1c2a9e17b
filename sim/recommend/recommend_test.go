package recommend

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/control/recommend"
	"hilbert.dev/hilbert/sim/trace"
)

// tides are jobs with a tide and chance.
func tides(n, days int) (jobs []trace.Job) {
	random := rand.New(rand.NewPCG(1, 1))
	for i := range n {
		j := trace.Job{Name: fmt.Sprint("job", i)}
		for day := 1; day <= days; day++ {
			d := trace.JobDay{Day: day}
			for k := range 288 {
				tide := 1 + 0.5*math.Sin(2*math.Pi*float64(k)/288)
				d.CPU = append(d.CPU, 0.2*tide*(1+0.05*random.NormFloat64()))
				d.Memory = append(d.Memory, 0.3*(1+0.1*tide+0.01*random.NormFloat64()))
			}
			j.Days = append(j.Days, d)
		}
		jobs = append(jobs, j)
	}
	return jobs
}

// TestOrder: on jobs with a tide Hilbert in place has less CPU slack than the Vertical Pod Autoscaler at no more OOMs, and is throttled for less than one
// hour of two hundred.
func TestOrder(t *testing.T) {
	o := DefaultOptions()
	res, err := Run(t.Context(), tides(12, 4), &o, nil)
	if err != nil {
		t.Fatal(err)
	}
	by := make(map[string]Score)
	for _, s := range res.Scores {
		by[s.Policy] = s
	}
	ours, vpa, asked := by[nameHilbert], by[nameVPAPlace], by[nameAsked]
	if ours.CPUSlack >= vpa.CPUSlack || ours.MemorySlack >= vpa.MemorySlack || ours.ThrottledHours > 100 || ours.OOMs > vpa.OOMs {
		t.Errorf("ours %+v\nthe Vertical Pod Autoscaler %+v", ours, vpa)
	}
	if asked.CPUOfAsked != 1 || asked.OOMs != 0 || asked.Changes != 0 || asked.PodDays != 3*res.Jobs {
		t.Errorf("as asked: %+v", asked)
	}
	if err := res.WriteHTML(&strings.Builder{}); err != nil {
		t.Error(err)
	}
}

// fixed is a policy that gives the same always, and what it was told.
type fixed struct {
	has  recommend.Amounts
	told []recommend.Sample
	oom  int
}

func (p *fixed) allocate(time.Time, bool) recommend.Amounts { return p.has }
func (p *fixed) see(s recommend.Sample, _ time.Time)        { p.told = append(p.told, s) }
func (p *fixed) ranOut(had float64, _ time.Time)            { p.has.Memory = had * 2; p.oom++ }

// TestJudge counts by hand.
func TestJudge(t *testing.T) {
	row := func(x ...float64) []float64 { return x }
	job := trace.Job{Name: "j", Days: []trace.JobDay{
		{Day: 1, CPU: row(9, 9), Memory: row(9, 9)}, // for learning
		{Day: 2, CPU: row(0.5, 2), Memory: row(0.25, 3)},
		{Day: 3, CPU: row(math.NaN(), 1), Memory: row(math.NaN(), 4)},
	}}
	p := &fixed{has: recommend.Amounts{CPU: 1, Memory: 1}}
	s := play(p, &job, recommend.Amounts{CPU: 1, Memory: 1})
	// Memory 3 needs 1 → 2 → 4: two pods run out. One of four steps is throttled: half a day.
	if s.podDays != 2 || s.ooms != 2 || s.throttledFor != 12 || s.cpuShort != 1 || s.cpuFree != 0.5 || s.memoryFree != 0.75+1 || s.memory != 1+4+4+4 {
		t.Errorf("sums are %+v", s)
	}
	if len(p.told) != 6 || p.oom != 2 {
		t.Errorf("the policy was told %v", p.told)
	}
}

// TestNoLookAhead: a policy that is told of a step only after it was judged cannot change the step's outcome.
func TestNoLookAhead(t *testing.T) {
	o := DefaultOptions()
	jobs := tides(1, 3)
	first := play(newHilbert(&o, true), &jobs[0], o.Request)
	last := len(jobs[0].Days[2].CPU) - 1
	jobs[0].Days[2].CPU[last], jobs[0].Days[2].Memory[last] = 0, 0
	second := play(newHilbert(&o, true), &jobs[0], o.Request)
	if first.cpu != second.cpu || first.memory != second.memory {
		t.Errorf("the last step's use changed what was allocated for it: %+v, %+v", first, second)
	}
}

// TestRecorded holds the figures of docs/benchmarks/recommendation.md loosely, where the trace is at hand.
func TestRecorded(t *testing.T) {
	path := filepath.Join(os.Getenv("HILBERT_TRACES"), "gcd2011", "use.csv.gz")
	if _, err := os.Stat(path); err != nil || testing.Short() {
		t.Skip("the trace is not there, or the tests are short: ", path)
	}
	jobs, err := trace.LoadJobs(path)
	if err != nil {
		t.Fatal(err)
	}
	o := DefaultOptions()
	res, err := Run(t.Context(), jobs, &o, nil)
	if err != nil {
		t.Fatal(err)
	}
	ours, vpa := res.Scores[0], res.Scores[3]
	if ours.CPUSlack > vpa.CPUSlack-0.04 || ours.ThrottledHours > vpa.ThrottledHours || ours.MemorySlack > vpa.MemorySlack || ours.OOMs > 1.25*vpa.OOMs {
		t.Errorf("ours %+v\nthe Vertical Pod Autoscaler %+v", ours, vpa)
	}
}
