package advise

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// TestLaws runs the stories in testdata/laws. Run with -rewrite to accept new output.
//
//	node [numaNodes=1] [cpus=32] [threads=2] [memory=64] [wall=03:00] [PARAM=VALUE …]   a node that needs little, in GiB
//	set [numaNode=0] INPUT=VALUE|? …     what is seen from now on; ? is not known. demand=N is an online load that wants N CPUs: use and delay follow
//	run FOR [lag=N] [tick=1s] [quiet]   ticks; what is lent is there N ticks later. It prints what changes
//	explain                          the headroom and its terms
//	reboot, restart                  time starts anew; the memory is lost
func TestLaws(t *testing.T) {
	datadriven.Walk(t, "testdata/laws", func(t *testing.T, path string) {
		var s *story
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "node" {
				s = newStory(t, d)
				return ""
			}
			return s.run(t, d)
		})
	})
}

type story struct {
	o      *Observation
	p      Params
	m      State
	last   Advice
	demand []float64 // by NUMA node; negative: use and delay are set
	asked  [][]int   // Lend of the last ticks
	began  time.Duration
}

// round are parameters that are easy to reckon with. What the defaults lead to, other tests and the simulator hold.
func round() Params {
	p := Defaults()
	p.TargetUse, p.Margin, p.MarginShare, p.RequestShare, p.CPUReserve = 0.55, 1, 0, 0.2, 0.02
	p.PressureLow, p.PressureHigh, p.PressureCritical, p.HoldMax = 0.1, 0.25, 0.6, 16*time.Minute
	p.FileShare, p.GrowthReserve, p.UntouchedShare = 0.5, 0.05, 0
	return p
}

func newStory(t *testing.T, d *datadriven.TestData) *story {
	s := &story{p: round()}
	numaNodes, cpus, threads, memory, wall := 1, 32, 2, 64.0, "03:00"
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "numaNodes":
			numaNodes = whole(t, a)
		case "cpus":
			cpus = whole(t, a)
		case "threads":
			threads = whole(t, a)
		case "memory":
			memory = float64(whole(t, a))
		case "wall":
			wall = a.Vals[0]
		default:
			if err := s.p.Set(a.Key, a.Vals[0]); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.p.Explain = true
	if err := s.p.Validate(); err != nil {
		t.Fatal(err)
	}
	s.o = quiet(numaNodes)
	clock, err := time.Parse("15:04", wall)
	if err != nil {
		t.Fatal(err)
	}
	s.o.Wall = time.Date(2026, 11, 20, clock.Hour(), clock.Minute(), 0, 0, time.UTC)
	for i := range s.o.NUMANodes {
		z := &s.o.NUMANodes[i]
		z.Divisible, z.Threads, z.MemoryTotal, z.Lent = cpus, threads, Known(memory*(1<<30)), threads
		s.demand = append(s.demand, -1)
	}
	return s
}

func (s *story) run(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "set":
		s.set(t, d)
		return ""
	case "run":
		return s.ticks(t, d)
	case "explain":
		return s.explain()
	case "reboot":
		s.o.At, s.began = 0, 0
		return ""
	case "restart":
		s.m = State{}
		return ""
	}
	d.Fatalf(t, "unknown command")
	return ""
}

func (s *story) set(t *testing.T, d *datadriven.TestData) {
	z := 0
	for _, a := range d.CmdArgs {
		if a.Key == "numaNode" {
			z = whole(t, a)
			continue
		}
		numa, v, gib := &s.o.NUMANodes[z], sample(t, a), sample(t, a)
		gib.Value *= 1 << 30
		switch a.Key {
		case "use":
			numa.SharedUse, s.demand[z] = v, -1
		case "delay":
			numa.SharedDelay = v
		case "demand":
			s.demand[z] = v.Value
		case "requests":
			numa.SharedRequests = v
		case "divisible":
			numa.Divisible = int(v.Value)
		case "pressure":
			s.o.Node.CPUPressure = v
		case "pods":
			s.o.Reclaimed = s.o.Reclaimed[:0]
			for i := range int(v.Value) {
				s.o.Reclaimed = append(s.o.Reclaimed, Reclaimed{ID: fmt.Sprint(i), MilliCPU: 4000, MemoryBytes: 4 << 30, CPUUse: Known(3), RunDelay: Known(1)})
			}
		case "starved":
			for i := range s.o.Reclaimed {
				s.o.Reclaimed[i].CPUUse, s.o.Reclaimed[i].RunDelay = Known(0.1), v
			}
		case "stop":
			s.o.StopLending = v.Value > 0
		case "free":
			numa.MemoryFree = gib
		case "file":
			numa.InactiveFile = gib
		case "held":
			numa.ReclaimedMemory = gib
		case "total":
			numa.MemoryTotal = gib
		case "promised":
			numa.Promised = int64(gib.Value)
		case "touched":
			numa.PromisedUse = gib
		case "reserved":
			numa.Reserved = int64(gib.Value)
		case "available":
			s.o.Node.MemoryAvailable = gib
		case "memoryPressure":
			s.o.Node.MemoryPressure = v
		default:
			t.Fatalf("%s: unknown input %s", d.Pos, a.Key)
		}
	}
}

// ticks runs the laws and prints what changes, by the time since the story began.
func (s *story) ticks(t *testing.T, d *datadriven.TestData) string {
	long, err := time.ParseDuration(d.CmdArgs[0].Key)
	if err != nil {
		t.Fatal(err)
	}
	lag, tick, silent := 0, time.Second, false
	for _, a := range d.CmdArgs[1:] {
		switch a.Key {
		case "lag":
			lag = whole(t, a)
		case "tick":
			if tick, err = time.ParseDuration(a.Vals[0]); err != nil {
				t.Fatal(err)
			}
		case "quiet":
			silent = true
		}
	}
	var b strings.Builder
	for end := s.o.At + long; s.o.At < end; {
		s.o.At += tick
		s.o.Wall = s.o.Wall.Add(tick)
		s.load()
		a := Step(s.o, &s.p, &s.m)
		if !silent {
			for _, c := range Changes(&s.last, &a) {
				if c.What != "numaNodes" {
					fmt.Fprintf(&b, "%6s %s\n", s.o.At-s.began, c.text())
				}
			}
		}
		s.last = a
		s.last.NUMANodes = append([]NUMAAdvice(nil), a.NUMANodes...)
		s.act(lag)
	}
	return b.String()
}

func (c Change) text() string {
	where := "node"
	if c.NUMANode >= 0 {
		where = fmt.Sprint("NUMA node ", c.NUMANode)
	}
	out := fmt.Sprintf("%s %s %s→%s", where, c.What, short(c.What, c.From), short(c.What, c.To))
	if c.Why != "" {
		out += " " + string(c.Why)
	}
	return out
}

// short has memory in MiB.
func short(what, value string) string {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || what != "memory" {
		return value
	}
	return fmt.Sprint(n>>20, "Mi")
}

// load is a plant of the plainest kind: what does not find a CPU waits.
func (s *story) load() {
	for i, demand := range s.demand {
		if demand < 0 {
			continue
		}
		z := &s.o.NUMANodes[i]
		shared := float64(z.Divisible - z.Lent)
		z.SharedUse, z.SharedDelay = Known(min(demand, shared)), Known(max(0, demand-shared))
	}
}

// act makes what was lent so many ticks ago.
func (s *story) act(lag int) {
	var cores []int
	for i := range s.last.NUMANodes {
		cores = append(cores, s.last.NUMANodes[i].Lend)
	}
	s.asked = append(s.asked, cores)
	if len(s.asked) <= lag {
		return
	}
	for i, n := range s.asked[len(s.asked)-1-lag] {
		s.o.NUMANodes[i].Lent = n * s.o.NUMANodes[i].Threads
	}
	s.asked = s.asked[len(s.asked)-1-lag:]
}

func (s *story) explain() string {
	var b strings.Builder
	for i := range s.last.NUMANodes {
		z := &s.last.NUMANodes[i]
		fmt.Fprintf(&b, "NUMA node %d: lend %d, %s\n", i, z.Lend, z.LendReason)
		for _, h := range []struct {
			name string
			Headroom
			unit int64
		}{{"cpu", z.CPU, 1}, {"memory Mi", z.Memory, 1 << 20}} {
			fmt.Fprintf(&b, "  %s: %d now, %d published, %s\n", h.name, h.Now/h.unit, h.Published/h.unit, h.Reason)
			for _, term := range h.Terms {
				fmt.Fprintf(&b, "    %8d %s\n", term.Value/h.unit, term.Name)
			}
		}
	}
	fmt.Fprintf(&b, "suppression %s\n", s.last.Suppression)
	return b.String()
}

func whole(t *testing.T, a datadriven.CmdArg) int {
	t.Helper()
	n, err := strconv.Atoi(a.Vals[0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func sample(t *testing.T, a datadriven.CmdArg) Sample {
	t.Helper()
	if a.Vals[0] == "?" {
		return Sample{}
	}
	v, err := strconv.ParseFloat(a.Vals[0], 64)
	if err != nil {
		t.Fatal(err)
	}
	return Known(v)
}
