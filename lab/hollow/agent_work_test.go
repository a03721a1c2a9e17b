package hollow

import (
	"errors"
	"math"
	"syscall"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/internal/clock"
	"hilbert.dev/hilbert/node/enforce"
	"hilbert.dev/hilbert/node/observe"
	"hilbert.dev/hilbert/node/runtime"
)

// modelled is a node of eight CPUs with pods on it, whose time is the test's.
type modelled struct {
	*mapKernel
	*testing.T
	filesNow *clock.Stepped // what a reader of the files is shown
	now      time.Time
}

func newModelled(t *testing.T, online float64) *modelled {
	now := time.Now()
	m := &modelled{filesNow: clock.NewStepped(now), T: t}
	m.mapKernel = newMapKernel(m.filesNow)
	m.work = newWork(PairMachine(2, 1024), online, now)
	m.now = m.work.began
	return m
}

func (m *modelled) run(name string, cpus float64, reclaimed bool, set string) {
	s := runtime.Sandbox{Cgroup: name, Amounts: runtime.Amounts{MilliCPU: int64(cpus * milli), MemoryLimit: 64 << 20}}
	if reclaimed {
		s.Amounts = runtime.Amounts{}
		s.Labels = map[string]string{spec.LabelQoS: string(spec.QoSReclaimed)}
		s.Annotations = map[string]string{spec.AnnotationReclaimed: spec.ReclaimedAmounts{MilliCPU: int64(cpus * milli), MemoryMiB: 128}.String()}
	}
	m.work.add(&s, &runtime.Container{Cgroup: name + "/main"})
	m.makeCgroup(name)
	m.makeCgroup(name + "/main")
	m.files[name+"/main/"+enforce.CPUSet] = set
}

// seconds lets so many seconds pass.
func (m *modelled) seconds(n float64) {
	m.work.known = false
	m.now = m.now.Add(time.Duration(n * float64(time.Second)))
	m.work.pass(m.now, m.files)
}

// gets fails unless the pods get so many CPUs, in the order in which they came.
func (m *modelled) gets(want ...float64) {
	m.Helper()
	for i, p := range m.work.pods {
		if math.Abs(p.gets-want[i]) > 0.01 {
			m.Errorf("%s gets %.3f CPUs, want %.3f", p.cgroup, p.gets, want[i])
		}
	}
}

func TestPodsShareByWeight(t *testing.T) {
	m := newModelled(t, 0.5)
	m.run("web", 8, false, "0-3")
	m.run("low", 2, true, "4-7")
	m.run("high", 6, true, "4-7")
	m.seconds(10)
	m.gets(4, 1, 3)
	if w := m.work.now; w.OnlineWants != 4 || w.ReclaimedWants != 8 || !w.Short.IsZero() {
		t.Errorf("%+v", w)
	}
	m.work.online = 1 // more than its CPUs
	m.seconds(10)
	m.gets(4, 1, 3)
	if w := m.work.now; w.OnlineWants != 8 || w.Short != m.now || w.ShortFor != 10*time.Second {
		t.Errorf("%+v", w)
	}
	// It may run anywhere: it uses what is free first, and shares the rest by weight. Who is idle has next to nothing where all want all.
	m.files["web/main/"+enforce.CPUSet] = ""
	m.files["low/"+enforce.CPUIdle] = "1"
	m.seconds(10)
	if got := m.work.pods[0].gets + m.work.pods[1].gets + m.work.pods[2].gets; math.Abs(got-8) > 0.01 {
		t.Errorf("8 CPUs give %.3f", got)
	}
	if low := m.work.pods[1].gets; low > 0.1 {
		t.Errorf("the idle pod gets %.3f", low)
	}
	m.work.remove("web")
	m.files["low/"+enforce.CPUIdle] = "0"
	m.seconds(10)
	m.gets(1, 3)
}

// What the model says comes through package observe as it was.
func TestTheModelIsObserved(t *testing.T) {
	m := newModelled(t, 1)
	m.run("web", 6, false, "0-3")
	m.run("batch", 1, true, "4-5")
	reader := observe.New(workFiles{m.mapKernel}, observe.Params{SlowEvery: 1})
	defer reader.Close()
	groups := []observe.Cgroup{{ID: "web", Dir: "web"}, {ID: "main", Dir: "batch/main", Threads: true}, {ID: "w", Dir: "web/main", Threads: true}}
	const between = 300 * time.Millisecond
	reader.Read(0, groups)
	m.filesNow.Advance(between)
	o := reader.Read(between, groups)
	near := func(what string, s observe.Sample[float64], want float64) {
		t.Helper()
		if got, ok := s.Within(time.Second); !ok || math.Abs(got-want) > 0.01 {
			t.Errorf("%s: %g (%v), want %g", what, got, ok, want)
		}
	}
	near("a CPU of the online pod is busy", o.Node.CPUs[1].Busy, 1)
	near("so much is waited for it", o.Node.CPUs[1].RunDelay, 0.5)
	near("a CPU of the other is half busy", o.Node.CPUs[4].Busy, 0.5)
	near("a CPU of nobody is idle", o.Node.CPUs[7].Busy, 0)
	near("the online pod uses", o.Cgroups[0].CPU.Usage, 4)
	near("the reclaimed container uses", o.Cgroups[1].CPU.Usage, 1)
	near("and does not wait", o.Cgroups[1].CPU.RunDelay, 0)
	near("the online container waits", o.Cgroups[2].CPU.RunDelay, 2)
	near("and feels it", o.Cgroups[0].CPUPressure.Some.Now, 1-math.Exp(-2))
	if free, ok := o.Node.NUMANodes[1].Free.Within(time.Second); !ok || free != (1024-64)<<20 {
		t.Errorf("a NUMA node has %d MiB free (%v)", free>>20, ok)
	}
	// A file of a pod that is gone says so, whoever comes next under its name.
	file, err := workFiles{m.mapKernel}.Open(hierarchy + "web/cpu.stat")
	if err != nil {
		t.Fatal(err)
	}
	m.work.remove("web")
	m.run("web", 1, false, "")
	if _, err := file.ReadAt(make([]byte, 10), 0); !errors.Is(err, syscall.ENODEV) {
		t.Errorf("got %v", err)
	}
	m.work.blind = true
	if _, ok := reader.Read(time.Second, groups).Node.CPUs[1].Busy.Within(0); ok {
		t.Error("a kernel that shows nothing shows a CPU's use")
	}
}
