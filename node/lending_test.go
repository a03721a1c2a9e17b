package node

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/observe"
	"hilbert.dev/hilbert/node/runtime"
)

// counters are a kernel's, as files that a Reader reads: eight CPUs, two NUMA nodes of 2 GiB.
type counters struct {
	*testing.T
	dir    string
	reader *observe.Reader
	ticks  [8]int // hundredths of a second that a CPU was busy
	delays [8]int // nanoseconds that tasks waited for it
	passed time.Duration
	free   [2]int // MiB of a NUMA node
	lost   bool   // the kernel shows nothing
	// fixture are files that stand in for those that are written here.
	fixture map[string]string
	stat    string // lines that each cgroup's memory.stat has besides
	min     int    // MiB: the min watermark of each NUMA node; low is a half more
}

func newCounters(t *testing.T) *counters {
	c := &counters{T: t, dir: t.TempDir(), free: [2]int{1800, 1800}}
	c.reader = observe.New(observe.Root(c.dir), observe.Params{SlowEvery: 1, PageSize: 4096})
	t.Cleanup(c.reader.Close)
	return c
}

func (c *counters) write(name, text string) {
	c.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		c.Fatal(err)
	}
	// Not os.WriteFile: a file system such as ext4 brings a file to the disk when it is closed after it was truncated to nothing, and tests write thousands.
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		c.Fatal(err)
	}
	_, err = file.WriteString(text)
	if err = errors.Join(err, file.Truncate(int64(len(text))), file.Close()); err != nil {
		c.Fatal(err)
	}
}

// second lets a second pass in which each CPU was busy to that share, and waited for, and says what was seen.
func (c *counters) second(busy, waiting [8]float64, cgroups []observe.Cgroup) *observe.Observation {
	c.passed += time.Second
	var stat, schedstat strings.Builder
	total := 0
	for i := range busy {
		c.ticks[i] += int(busy[i] * 100)
		total += c.ticks[i]
	}
	fmt.Fprintf(&stat, "cpu  %d 0 0 %d 0 0 0 0 0 0\n", total, len(busy)*int(c.passed.Seconds()*100)-total)
	schedstat.WriteString("version 17\ntimestamp 1\n")
	for i := range busy {
		c.delays[i] += int(waiting[i] * 1e9)
		fmt.Fprintf(&stat, "cpu%d %d 0 0 %d 0 0 0 0 0 0\n", i, c.ticks[i], int(c.passed.Seconds()*100)-c.ticks[i])
		fmt.Fprintf(&schedstat, "cpu%d 0 0 0 0 0 0 %d %d 1\n", i, c.ticks[i]*1e7, c.delays[i])
	}
	if c.lost {
		stat.Reset()
	}
	c.write("proc/stat", stat.String())
	c.write("proc/schedstat", schedstat.String())
	c.write("proc/meminfo", fmt.Sprintf("MemTotal: %d kB\nMemFree: %d kB\nMemAvailable: %[2]d kB\n", 4096<<10, (c.free[0]+c.free[1])<<10))
	c.write("sys/devices/system/node/online", "0-1\n")
	if c.min > 0 {
		var zones strings.Builder
		for node, free := range c.free {
			const pages = 1 << 20 / 4096
			fmt.Fprintf(&zones, "Node %d, zone   Normal\n  pages free     %d\n        min      %d\n        low      %d\n        high     %d\n        managed  %d\n",
				node, free*pages, c.min*pages, c.min*3/2*pages, c.min*2*pages, 2048*pages)
		}
		c.write("proc/zoneinfo", zones.String())
	}
	for node, free := range c.free {
		c.write(fmt.Sprintf("sys/devices/system/node/node%d/meminfo", node), fmt.Sprintf(
			"Node %[1]d MemTotal: %[2]d kB\nNode %[1]d MemFree: %[3]d kB\nNode %[1]d FilePages: 0 kB\nNode %[1]d AnonPages: 0 kB\nNode %[1]d Slab: 0 kB\nNode %[1]d Inactive(file): 0 kB\n",
			node, 2048<<10, free<<10))
	}
	for name, text := range c.fixture {
		c.write(name, text)
	}
	for _, g := range cgroups {
		c.write("sys/fs/cgroup/"+g.Dir+"/memory.current", "104857600\n")
		c.write("sys/fs/cgroup/"+g.Dir+"/memory.stat", "anon 104857600\nfile 0\nshmem 0\ninactive_file 0\nactive_file 0\n"+c.stat)
		c.write("sys/fs/cgroup/"+g.Dir+"/memory.numa_stat", "anon N0=52428800 N1=0\nfile N0=0 N1=52428800\n")
	}
	return c.reader.Read(c.passed, cgroups)
}

// lender is a node whose time is the test's.
type lender struct {
	*world
	counters *counters
	now      time.Time
	busy     [8]float64
	waiting  [8]float64
}

func newLender(t *testing.T) *lender {
	l := &lender{world: newWorld(t), counters: newCounters(t)}
	l.start()
	l.now = time.Now()
	return l
}

// run lets so many seconds pass, with a tick of the laws in each.
func (l *lender) run(seconds int) (out *spec.Colocation) {
	l.Helper()
	for range seconds {
		l.now = l.now.Add(time.Second)
		done := l.agent.Ask(time.Minute, func(a *Agent) {
			o := l.counters.second(l.busy, l.waiting, a.node.Pods.Watched(true))
			a.observer.Put(o, l.now)
			a.observed(l.now)
			out = a.lending.colocation(l.now, a.eviction)
		})
		if !done {
			l.Fatal("the loop does not come round")
		}
	}
	return out
}

func (l *lender) batch() string {
	l.Helper()
	var out string
	l.agent.Ask(time.Minute, func(a *Agent) {
		p, _ := a.node.Manager.Placement("batch")
		out = p.CPUs.String()
	})
	return out
}

// What online pods do not use is lent step by step, offered after three minutes, and given back in the tick in which they need it.
func TestLending(t *testing.T) {
	l := newLender(t)
	web := sandbox("web", 6, "qos=shared_cores")
	batch := sandbox("batch", 0, "qos=reclaimed_cores", "besteffort")
	batch.Annotations[spec.AnnotationReclaimed] = "4000m/512Mi"
	for _, s := range []runtime.Sandbox{web, batch} {
		if err := l.agent.RunSandbox(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if got := l.batch(); got != "3,7" {
		t.Fatalf("the reclaimed pod begins on CPUs %s, want the floor 3,7", got)
	}
	for i := range l.busy {
		l.busy[i] = 0.1
	}
	first := l.run(2)
	if first == nil || first.Headroom.MilliCPU != 0 || first.Suppression != spec.SuppressionNone {
		t.Errorf("after two seconds %+v is offered, want nothing yet: it has not been so for long", first)
	}
	offered := l.run(240)
	if h := offered.Headroom; h.MilliCPU < 1000 || h.MilliCPU > 6500 || h.MemoryMiB < 2000 || h.MemoryMiB > 3600 {
		t.Errorf("on an idle machine of seven CPUs and 3600 MiB %+v is offered", h)
	}
	if sum := offered.NUMANodes[0].MilliCPU + offered.NUMANodes[1].MilliCPU; len(offered.NUMANodes) != 2 || sum != offered.Headroom.MilliCPU || offered.NUMANodes[1].Message == "" {
		t.Errorf("NUMA %+v of %+v", offered.NUMANodes, offered.Headroom)
	}
	if offered.Lent.MemoryMiB != 100 {
		t.Errorf("the reclaimed pod holds %d MiB, want 100", offered.Lent.MemoryMiB)
	}
	lent := l.batch()
	if len(lent) <= len("3,7") {
		t.Errorf("the reclaimed pod still runs on %s", lent)
	}
	// Online load comes back: all its CPUs are busy, and tasks wait.
	for i := range l.busy {
		l.busy[i], l.waiting[i] = 1, 2
	}
	suppressed := l.run(3)
	if got := l.batch(); got != "3,7" {
		t.Errorf("after three seconds of waiting the reclaimed pod has CPUs %s, want the floor", got)
	}
	if suppressed.Suppression == spec.SuppressionNone || suppressed.Headroom.MilliCPU >= offered.Headroom.MilliCPU {
		t.Errorf("suppression %s, headroom %d of %d", suppressed.Suppression, suppressed.Headroom.MilliCPU, offered.Headroom.MilliCPU)
	}
	l.eventually("the suppressed pod is idle", func() bool {
		l.kernel.make(batch.Cgroup)
		idle := ""
		l.agent.Ask(time.Minute, func(a *Agent) {
			p, _ := a.node.Manager.Placement("batch")
			idle = fmt.Sprint(p.Idle, p.Weight)
		})
		return idle == "true 0"
	})
}

// What the kernel no longer shows is not taken for idleness.
func TestLendingWithoutCounters(t *testing.T) {
	l := newLender(t)
	for i := range l.busy {
		l.busy[i] = 0.9
	}
	before := l.run(200)
	l.counters.lost = true
	after := l.run(300)
	if after == nil || after.Headroom.MilliCPU > before.Headroom.MilliCPU || after.NUMANodes[0].CPUReason != "Missing" {
		t.Errorf("without counters %+v is offered, with them it was %+v", after, before)
	}
	// Nor does the agent repeat what it cannot vouch for.
	l.agent.Ask(time.Minute, func(a *Agent) { after = a.lending.colocation(l.now.Add(time.Hour), a.eviction) })
	if after != nil {
		t.Errorf("an hour later %+v is offered", after)
	}
}

// A node that does not lend, or whose kubelet rules, says nothing of it.
func TestNoLending(t *testing.T) {
	l := &lender{world: newWorld(t), counters: newCounters(t)}
	l.mode = spec.ModeKubelet
	l.start()
	if got := l.run(5); got != nil {
		t.Errorf("where the kubelet rules %+v is offered", got)
	}
}

// An agent that starts again knows what it had learned, and a node that was closed stays closed.
func TestLawStateOutlastsTheAgent(t *testing.T) {
	l := newLender(t)
	for i := range l.busy {
		l.busy[i] = 0.5
	}
	l.run(400)
	l.eventually("the law state is kept", func() bool {
		l.lawState.mu.Lock()
		defer l.lawState.mu.Unlock()
		return l.lawState.data != nil
	})
	l.stop()
	l.start()
	var use float64
	l.agent.Ask(time.Minute, func(a *Agent) {
		if len(a.lending.state.NUMANodes) == 2 {
			use = a.lending.state.NUMANodes[1].Smooth.Value
		}
	})
	if use < 1 || use > 2 {
		t.Errorf("the laws know a use of %g CPUs, want what NUMA node 1 used", use)
	}
	l.stop()
	l.lawState.data = []byte("{")
	l.start()
	l.agent.Ask(time.Minute, func(a *Agent) { use = float64(len(a.lending.state.NUMANodes)) })
	if use != 0 {
		t.Error("a law state that cannot be read is believed")
	}
}

// What was recorded can be replayed, and says the same.
func TestLendingIsRecorded(t *testing.T) {
	var record bytes.Buffer
	l := newLender(t)
	l.agent.Ask(time.Minute, func(a *Agent) { a.options.Record = &record })
	for i := range l.busy {
		l.busy[i] = 0.3
	}
	l.run(20)
	l.stop()
	ticks := 0
	err := advise.Replay(&record, nil, func(tick advise.Replayed) error {
		if ticks++; len(tick.Observation.NUMANodes) != 2 || tick.Recorded == nil || !reflect.DeepEqual(tick.Recorded.NUMANodes, tick.Advice.NUMANodes) {
			t.Errorf("tick %d: %+v", ticks, tick)
		}
		return nil
	})
	if err != nil || ticks != 20 {
		t.Errorf("%d ticks, %v", ticks, err)
	}
}

// What each tick compares is what is reported, but for the words.
func TestLoanIsTheReportWithoutWords(t *testing.T) {
	l := newLender(t)
	said := l.run(240)
	var loan *spec.Colocation
	l.agent.Ask(time.Minute, func(a *Agent) { loan = a.lending.headroom(l.now, a.eviction) })
	for z := range said.NUMANodes {
		if said.NUMANodes[z].Message == "" || loan.NUMANodes[z].Message != "" {
			t.Errorf("NUMA node %d: %q is reported, %q is compared", z, said.NUMANodes[z].Message, loan.NUMANodes[z].Message)
		}
		said.NUMANodes[z].Message = ""
	}
	if said.Headroom.MilliCPU == 0 || !reflect.DeepEqual(said, loan) {
		t.Errorf("%+v is reported, %+v is compared", said, loan)
	}
}
