package corun

import (
	"bufio"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"hilbert.dev/hilbert/node/advise"
)

// erlangC is the chance to wait in M/M/c, exactly.
func erlangC(c int, use float64) float64 {
	a, b := float64(c)*use, 1.0
	for k := 1; k <= c; k++ {
		b = a * b / (float64(k) + a*b)
	}
	return b / (1 - use*(1-b))
}

func TestWaitIsThatOfManyServers(t *testing.T) {
	for _, c := range []int{2, 8, 16, 30} {
		for _, use := range []float64{0.3, 0.5, 0.7, 0.85, 0.95} {
			got, want := queueWait(use, float64(c), 1, 1, 0.01), erlangC(c, use)
			if math.Abs(got.chance-want) > 0.06 {
				t.Errorf("c=%d use=%.2f: chance to wait %.3f, exactly %.3f", c, use, got.chance, want)
			}
			if mean := 0.01 / (float64(c) * (1 - use)); math.Abs(got.mean-mean) > 1e-12 {
				t.Errorf("c=%d use=%.2f: mean wait %.5f, want %.5f", c, use, got.mean, mean)
			}
		}
	}
}

// TestLateIsTheTailOfTheSum integrates what late has in closed form.
func TestLateIsTheTailOfTheSum(t *testing.T) {
	for _, w := range []tail{{0, 0}, {0.3, 0.02}, {1, 0.005}, {0.5, 0.01}, {0.9, 0.1}} {
		for _, target := range []float64{0.005, 0.02, 0.05} {
			const service, steps = 0.01, 200_000
			sum := (1 - w.chance) * math.Exp(-target/service)
			if w.chance > 0 {
				waited := math.Exp(-target / w.mean)
				for i := range steps {
					at := (float64(i) + 0.5) / steps * target
					waited += math.Exp(-at/w.mean) / w.mean * math.Exp(-(target-at)/service) * target / steps
				}
				sum += w.chance * waited
			}
			if got := w.late(service, target); math.Abs(got-sum) > 1e-4 {
				t.Errorf("%+v target %.3f: late %.5f, integrated %.5f", w, target, got, sum)
			}
		}
	}
}

// world is a drawn machine and its load.
type world struct {
	machine  Machine
	params   Params
	services []Service
	jobs     []Job
	offered  []float64
	lend     int
}

func drawWorld(t *rapid.T) *world {
	w := &world{machine: DefaultMachine(), params: DefaultParams().Scaled(rapid.Float64Range(0.5, 2).Draw(t, "scale"))}
	for range rapid.IntRange(1, 6).Draw(t, "services") {
		mean := rapid.Float64Range(0.001, 0.03).Draw(t, "mean")
		s := Service{
			NUMANode: rapid.IntRange(0, 1).Draw(t, "numaNode"), Request: rapid.Float64Range(1, 16).Draw(t, "request"), Mean: mean,
			Target: mean * rapid.Float64Range(5, 20).Draw(t, "target"), Bandwidth: rapid.Float64Range(0, 3).Draw(t, "bandwidth"),
			Cache: rapid.Float64Range(0, 4).Draw(t, "cache"), Memory: rapid.Float64Range(1e9, 4e10).Draw(t, "memory"),
		}
		w.services = append(w.services, s)
		w.offered = append(w.offered, rapid.Float64Range(0, 1).Draw(t, "load")*s.Request)
	}
	for i := range rapid.IntRange(0, 12).Draw(t, "jobs") {
		w.jobs = append(w.jobs, drawJob(t, int64(i)))
	}
	w.lend = rapid.IntRange(1, 14).Draw(t, "lend")
	return w
}

func drawJob(t *rapid.T, id int64) Job {
	return Job{
		ID: id, MilliCPU: 4000, MemoryBytes: 8 << 30, Demand: rapid.Float64Range(0.5, 8).Draw(t, "demand"), Work: 1e9,
		Bandwidth: rapid.Float64Range(0, 6).Draw(t, "jobBandwidth"), Cache: rapid.Float64Range(0, 4).Draw(t, "jobCache"),
		Memory: rapid.Float64Range(1e8, 8e9).Draw(t, "jobMemory"),
	}
}

// run lets a minute pass and returns the node.
func (w *world) run(pooled bool) *Node {
	n := NewNode(&w.machine, &w.params, w.services, pooled)
	for _, j := range w.jobs {
		n.Start(j)
	}
	for z := range w.machine.NUMANodes {
		n.Lend(z, w.lend, 0)
	}
	for range 60 {
		n.Step(w.offered)
	}
	return n
}

func (n *Node) lateRequests() float64 {
	sum := 0.0
	for _, w := range n.window {
		sum += w.late
	}
	return sum
}

// overload is how far a count may be off while queues swing: each second goes by what was wanted and what waited in the one before.
const overload = 0.02

// TestNeighboursNeverHelp is of cores that are lent. Where CPUs are shared by weight, those who wait longer get more, and in overload the queues
// swing.
func TestNeighboursNeverHelp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		before := w.run(true).lateRequests()
		more := drawJob(t, 99)
		more.Bandwidth, more.Cache = 6, 4 // at least as much as any: where CPUs are few, a modest job dilutes the others
		w.jobs = append(w.jobs, more)
		if after := w.run(true).lateRequests(); after < before*(1-overload) {
			t.Fatalf("with one more job %.6f requests are late, without it %.6f", after, before)
		}
	})
}

func TestScalingUpNeverHelps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		before := w.run(true).lateRequests()
		w.params = w.params.Scaled(1.3)
		if after := w.run(true).lateRequests(); after < before*(1-overload) {
			t.Fatalf("with dearer neighbours %.6f requests are late, before %.6f", after, before)
		}
	})
}

func TestCoresNeverHurt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		w.jobs = nil // or the cores would go to jobs, which want memory bandwidth
		before := w.run(true).lateRequests()
		w.lend--
		if after := w.run(true).lateRequests(); after > before*(1+overload) {
			t.Fatalf("with one more core %.6f requests are late, without it %.6f", after, before)
		}
	})
}

// TestObservationIsFinite also holds that the latencies cannot be seen: targets change nothing.
func TestObservationIsFinite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, pooled := drawWorld(t), rapid.Bool().Draw(t, "pooled")
		for i := range w.offered {
			w.offered[i] *= rapid.SampledFrom([]float64{0, 1, 10, 1e6}).Draw(t, "flood")
		}
		var o, again advise.Observation
		w.run(pooled).Observe(&o, time.Minute, time.Time{})
		finite(t, reflect.ValueOf(o))
		for i := range w.services {
			w.services[i].Target *= 3
		}
		w.run(pooled).Observe(&again, time.Minute, time.Time{})
		if !reflect.DeepEqual(o, again) {
			t.Fatal("the agent sees the targets")
		}
		for z := range o.NUMANodes {
			if use := o.NUMANodes[z].SharedUse; !use.Known || use.Value < 0 || use.Value > float64(w.machine.Divisible())+1e-9 {
				t.Fatalf("NUMA node %d: use %+v", z, use)
			}
		}
	})
}

func finite(t *rapid.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Float64:
		if x := v.Float(); math.IsNaN(x) || math.IsInf(x, 0) {
			t.Fatalf("a number is %v", x)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for _, field := range v.Fields() {
			finite(t, field)
		}
	case reflect.Slice:
		for i := range v.Len() {
			finite(t, v.Index(i))
		}
	default: // no number
	}
}

// TestMachine plays machines: what they cost their services is a text that can be read.
func TestMachine(t *testing.T) {
	datadriven.RunTest(t, "testdata/machine", func(t *testing.T, d *datadriven.TestData) string {
		w := world{machine: DefaultMachine(), params: DefaultParams()}
		pooled, scale, jobs, use, demand, bandwidth, jobMemory := true, 1.0, 0, 0.2, 4.0, 1.5, 4.0
		for _, a := range d.CmdArgs {
			value := func(x any) {
				if len(a.Vals) != 1 {
					t.Fatalf("%s: %s wants a value", d.Pos, a.Key)
				}
				if _, err := fmt.Sscan(a.Vals[0], x); err != nil {
					t.Fatalf("%s: %s: %v", d.Pos, a.Key, err)
				}
			}
			switch a.Key {
			case "shared":
				pooled = false
			case "scale":
				value(&scale)
			case "jobs":
				value(&jobs)
			case "use":
				value(&use)
			case "demand":
				value(&demand)
			case "bandwidth":
				value(&bandwidth)
			case "memory":
				value(&jobMemory)
			case "lend":
				value(&w.lend)
			default:
				t.Fatalf("%s: what is %s?", d.Pos, a.Key)
			}
		}
		w.params = w.params.Scaled(scale)
		for i := range 4 {
			w.services = append(w.services, Service{NUMANode: i % 2, Request: 14, Mean: 0.005, Target: 0.005 * math.Log(100) * 2.2, Bandwidth: 0.8, Cache: 2, Memory: 25 << 30})
			w.offered = append(w.offered, use*float64(w.machine.CPUs())/4)
		}
		for i := range jobs {
			w.jobs = append(w.jobs, Job{ID: int64(i), Demand: demand, Work: 1e9, Bandwidth: bandwidth, Cache: 1.2, Memory: jobMemory * (1 << 30)})
		}
		return w.run(pooled).describe()
	})
}

func (n *Node) describe() string {
	var b strings.Builder
	out := bufio.NewWriter(&b)
	m, requests, late := n.Measured(), 0.0, 0.0
	for _, w := range n.window {
		requests, late = requests+w.requests, late+w.late
	}
	cpus := float64(n.machine.CPUs())
	steps := float64(n.seen.steps)
	fmt.Fprintf(out, "busy: services %.1f%%, jobs %.1f%%; late requests %.3f%%; seconds late %.1f%%\n",
		100*m.Online/cpus/steps, 100*m.Offline/cpus/steps, 100*late/requests, 100*float64(m.Late)/float64(m.Seconds))
	fmt.Fprintf(out, "work of jobs %.0f, shed %.0f of %.0f, killed %d, stalls %d\n", m.Work, m.Shed, m.Offered, m.OOMs, m.Stalls)
	var o advise.Observation
	n.Observe(&o, time.Minute, time.Time{})
	fmt.Fprintf(out, "seen: %.1f CPUs busy in NUMA node 0, waiting %.2f, pressure %.2f, free %.0f GiB\n",
		o.NUMANodes[0].SharedUse.Value, o.NUMANodes[0].SharedDelay.Value, o.Node.CPUPressure.Value, o.Node.MemoryAvailable.Value/(1<<30))
	_ = out.Flush()
	return b.String()
}

func TestJobsEnd(t *testing.T) {
	m, p := DefaultMachine(), DefaultParams()
	n := NewNode(&m, &p, []Service{{Request: 4, Mean: 0.01, Target: 0.1}}, true)
	n.Start(Job{ID: 7, Demand: 2, Work: 30})
	n.Start(Job{ID: 8, Demand: 2, Work: 1e6})
	n.Lend(0, 4, 0)
	seconds := 0
	for ; len(n.Done(nil)) == 0 && seconds < 100; seconds++ {
		n.Step([]float64{1})
	}
	if n.Jobs() != 1 || seconds < 30 || seconds > 50 {
		t.Fatalf("after %d s %d jobs are left", seconds, n.Jobs())
	}
	if had, ok := n.End(8); !ok || had < 25 || had > 31 {
		t.Fatalf("the other had %.1f s (%v)", had, ok)
	}
	if _, ok := n.End(8); ok {
		t.Fatal("it ended twice")
	}
}

// A change of the pools takes the delay that it is given, and no more.
func TestLendTakesTime(t *testing.T) {
	m, p := DefaultMachine(), DefaultParams()
	n := NewNode(&m, &p, nil, true)
	n.Start(Job{ID: 1, Demand: 100, Work: 1e9})
	n.Lend(0, 8, 0.25)
	if _, offline := n.Step(nil); offline != 12 {
		t.Fatalf("16 CPUs after a quarter of a second: %v", offline)
	}
	n.Lend(0, 2, 0.5)
	if _, offline := n.Step(nil); offline != 10 {
		t.Fatalf("from 16 CPUs to 4 after half a second: %v", offline)
	}
	if _, offline := n.Step(nil); offline != 4 {
		t.Fatalf("4 CPUs: %v", offline)
	}
}

func benchNode() (*Node, []float64) {
	m, p := DefaultMachine(), DefaultParams()
	var services []Service
	var offered []float64
	for i := range 6 {
		services = append(services, Service{NUMANode: i % 2, Request: 9, Mean: 0.005, Target: 0.05, Bandwidth: 0.8, Cache: 3, Memory: 16 << 30})
		offered = append(offered, 2.5)
	}
	n := NewNode(&m, &p, services, true)
	for i := range 9 {
		n.Start(Job{ID: int64(i), Demand: 4, Work: 1e12, Bandwidth: 1.5, Cache: 1.5, Memory: 4 << 30})
	}
	n.Lend(0, 9, 0)
	n.Lend(1, 9, 0)
	return n, offered
}

func BenchmarkStep(b *testing.B) {
	n, offered := benchNode()
	b.ReportAllocs()
	for b.Loop() {
		n.Step(offered)
	}
}

func BenchmarkObserve(b *testing.B) {
	n, offered := benchNode()
	n.Step(offered)
	var o advise.Observation
	b.ReportAllocs()
	for b.Loop() {
		n.Observe(&o, time.Second, time.Time{})
	}
}

// TestCyclesPerInstruction: neighbours that want memory bandwidth, cache or siblings make a service's instructions take more cycles; none makes them take less, and an idle machine adds nothing.
func TestCyclesPerInstruction(t *testing.T) {
	cycles := func(job *Job) float64 {
		machine, params := DefaultMachine(), DefaultParams()
		n := NewNode(&machine, &params, []Service{{NUMANode: 0, Request: 8, Mean: 0.005, Target: 0.1, Bandwidth: 1, Cache: 1, Memory: 1 << 30}}, false)
		if job != nil {
			n.Start(*job)
		}
		for range 10 {
			n.Step([]float64{2})
		}
		var o advise.Observation
		n.Observe(&o, 0, time.Time{})
		return n.CyclesPerInstruction(0)
	}
	alone := cycles(nil)
	if !(alone >= 1 && alone < 1.1) {
		t.Errorf("alone an instruction takes %v", alone)
	}
	small := cycles(&Job{ID: 1, Demand: 10, Work: 1e9, Bandwidth: 1, Cache: 0.5})
	for name, job := range map[string]*Job{
		"threads": {ID: 1, Demand: 50, Work: 1e9, Bandwidth: 1, Cache: 0.5}, "bandwidth": {ID: 1, Demand: 10, Work: 1e9, Bandwidth: 15, Cache: 0.5}, "cache": {ID: 1, Demand: 10, Work: 1e9, Bandwidth: 1, Cache: 12},
	} {
		if got := cycles(job); got < alone || got < 1.05*small {
			t.Errorf("beside %s an instruction takes %v, alone %v, beside a small job %v", name, got, alone, small)
		}
	}
}
