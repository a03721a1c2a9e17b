package kube

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nodev1alpha1 "hilbert.dev/hilbert/api/node/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube/parse"
	"hilbert.dev/hilbert/topology"
)

// agentReport is what a node of one zone says, observed so long after the test began by its own clock.
func agentReport(name string, cpus int, began time.Time, observed time.Duration) *nodev1alpha1.CustomNodeResource {
	amounts := spec.NUMAAmounts{CPUs: cpus, MemoryMiB: 64}
	n := &nodev1alpha1.CustomNodeResource{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.ObservedAt = metav1.NewTime(began.Add(observed))
	n.Status.Mode, n.Status.ThreadsPerCore = spec.ModeAgent, 1
	n.Status.Topology = []spec.TopologyElement{{Type: spec.ElementSocket, Name: "0", Children: []spec.TopologyElement{{Type: spec.ElementNUMANode, Name: "0", Capacity: &amounts, Allocatable: &amounts}}}}
	return n
}

// unsaid is what an agent has created and not yet said anything in.
func unsaid(name string) *nodev1alpha1.CustomNodeResource {
	return &nodev1alpha1.CustomNodeResource{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// Reports grow stale unless their agents vouch for them; clocks that differ do no harm.
func TestReportsGrowStale(t *testing.T) {
	began := time.Unix(1_800_000_000, 0)
	now := began
	told := &collector{}
	f := newFreshness(told, staleAges{10 * time.Minute, time.Hour, time.Hour})
	f.now = func() time.Time { return now }
	var log bytes.Buffer
	m := mirrorReports(f, parse.NewParser("hilbert", slog.New(slog.NewTextHandler(&log, nil))))
	odd := unsaid("m")
	odd.Status.Mode = "odd"
	at := func(minutes int) time.Duration { return time.Duration(minutes) * time.Minute }
	update := func(cpus, observed int) func() {
		return func() { _ = m.Update(agentReport("n", cpus, began, at(observed))) }
	}
	for i, step := range []struct {
		minute int
		do     func()
		want   string
	}{
		{0, func() { _ = m.Replace(nil, "") }, ""},
		{0, update(4, -4), "report n agent 4/64 []"}, // seen for the first time, it is as old as it says
		{5, func() { _ = f.expire() }, ""},
		{6, func() { _ = f.expire() }, "report n none 4/64 [] stale"},
		{7, func() { _ = f.expire() }, ""},                // told once
		{7, update(5, -4), "report n none 5/64 [] stale"}, // it says something else, and vouches for nothing
		{8, update(5, -3), "report n agent 5/64 []"},      // its clock is slow, but it runs
		{17, update(5, -3), ""},
		{18, func() { _ = f.expire() }, "report n none 5/64 [] stale"},
		{19, update(5, 900), "report n agent 5/64 []"}, // its clock is fast
		{28, update(5, 901), "report n agent 5/64 []"}, // it says the same again, which is news
		{30, func() { _ = f.expire() }, ""},
		{31, func() { _ = m.Delete(agentReport("n", 5, began, 0)) }, "report n gone"},
		{60, func() { _ = f.expire() }, ""},
		{61, update(6, 0), "report n none 6/64 [] stale"}, // after a restart of ours, of an agent that is long silent
		{62, func() { _ = m.Replace([]any{agentReport("n", 6, began, 0), agentReport("m", 7, began, at(62))}, "") }, "report m agent 7/64 []; report n none 6/64 [] stale"},
		{63, func() { _ = m.Update(odd) }, "report m none 0/0 [] malformed"},
		{99, func() { _ = f.expire() }, "report m none 0/0 [] malformed"},
		{99, func() { _ = m.Add(unsaid("x")) }, ""},                 // there is an agent, which has said nothing yet
		{99, func() { _ = m.Update(unsaid("m")) }, "report m gone"}, // it is made anew
		{99, func() { _ = m.Update(odd) }, "report m none 0/0 [] malformed"},
		{99, func() { _ = m.Replace([]any{unsaid("n"), unsaid("m")}, "") }, ""}, // a list of no reports
	} {
		now = began.Add(at(step.minute))
		step.do()
		if got := told.take(); got != step.want {
			t.Errorf("step %d: told %q, want %q", i, got, step.want)
		}
	}
	if complaints := log.String(); strings.Count(complaints, "malformed") != 1 || !strings.Contains(complaints, "customnoderesource m") {
		t.Errorf("complained %q, want once, of m", complaints)
	}
}

// What is stale is told by the clock, without anything from the API server.
func TestFreshnessRuns(t *testing.T) {
	events := make(chan facts.Event, 9)
	f := newFreshness(outlet{t.Context(), events}, staleAges{40 * time.Millisecond, time.Hour, time.Hour})
	m := mirrorReports(f, parse.NewParser("hilbert", nil))
	_ = m.Update(agentReport("n", 4, time.Now(), time.Hour))
	go f.run(t.Context())
	for _, want := range []string{"report n agent 4/64 []", "report n none 4/64 [] stale"} {
		if got := describeOther(<-events); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// lentReport is a report of what a node lends.
func lentReport(began time.Time, observed time.Duration, c *spec.Colocation) *nodev1alpha1.CustomNodeResource {
	n := agentReport("n", 4, began, observed)
	n.Status.Colocation = c
	return n
}

// Headroom and eviction requests grow stale sooner than NUMA nodes do, and by our clock.
func TestHeadroomGrowsStale(t *testing.T) {
	began := time.Unix(1_800_000_000, 0)
	now := began
	told := &collector{}
	f := newFreshness(told, staleAges{10 * time.Minute, time.Minute, time.Hour})
	f.now = func() time.Time { return now }
	m := mirrorReports(f, parse.NewParser("hilbert", nil))
	amounts := spec.ReclaimedAmounts{MilliCPU: 3000, MemoryMiB: 2}
	lends := &spec.Colocation{Headroom: amounts, Evictions: []spec.EvictionRequest{{Namespace: "ns", Name: "p", UID: "u"}}}
	closed := &spec.Colocation{Headroom: amounts, Closed: "evicted"}
	const fresh, stale = " lends 3000/2097152 open requests 1", " lends 3000/2097152 stale requests 0"
	for i, step := range []struct {
		second int
		do     func()
		want   string
	}{
		{0, func() { _ = m.Update(lentReport(began, -30*time.Second, lends)) }, "report n agent 4/64 []" + fresh},
		{29, func() { _ = f.expire() }, ""},
		{30, func() { _ = f.expire() }, "report n agent 4/64 []" + stale}, // the NUMA nodes are promised on
		{31, func() { _ = f.expire() }, ""},
		{40, func() { _ = m.Update(lentReport(began, -29*time.Second, lends)) }, "report n agent 4/64 []" + fresh}, // its clock is slow, but it runs
		{99, func() { _ = f.expire() }, ""},
		{100, func() { _ = f.expire() }, "report n agent 4/64 []" + stale},
		{120, func() { _ = m.Update(lentReport(began, 0, closed)) }, "report n agent 4/64 [] lends 3000/2097152 closed requests 0"},
		{180, func() { _ = f.expire() }, "report n agent 4/64 []" + stale},
		{720, func() { _ = f.expire() }, "report n none 4/64 [] stale" + stale},
		{730, func() { _ = m.Update(lentReport(began, 1, nil)) }, "report n agent 4/64 []"},
		{800, func() { _ = f.expire() }, "report n agent 4/64 []"},
	} {
		now = began.Add(time.Duration(step.second) * time.Second)
		step.do()
		if got := told.take(); got != step.want {
			t.Errorf("step %d: told %q, want %q", i, got, step.want)
		}
	}
}

// sentEvents keeps what it is sent.
type sentEvents []facts.Event

func (l *sentEvents) send(e facts.Event) error {
	*l = append(*l, e)
	return nil
}

// A report that nobody vouches for gives no device, says so once, and gives them again when it is fresh.
func TestStaleDevices(t *testing.T) {
	p, now := parse.NewParser("hilbert", nil), time.Unix(1000, 0)
	out := new(sentEvents)
	f := newFreshness(out, staleAges{time.Minute, time.Minute, time.Minute})
	f.now = func() time.Time { return now }
	report := p.NodeReport(reportOfGPUs("a", spec.OwnerHilbert))
	for name, r := range map[string]*facts.NodeReport{"a": report, "k": p.NodeReport(reportOfGPUs("k", spec.OwnerKubelet))} {
		if got := f.upserted(nodeReport{name, r, now}).(facts.NodeReported).Report; got != r {
			t.Errorf("a fresh report is %+v", got)
		}
	}
	now = now.Add(time.Hour)
	if err := f.expire(); err != nil {
		t.Fatal(err)
	}
	said := map[string]*facts.NodeReport{}
	for _, e := range *out {
		r := e.(facts.NodeReported)
		said[r.Node] = r.Report
	}
	stale := said["a"]
	if stale == nil || stale.Devices.Owner != topology.OwnerNone || stale.Devices.ClosedGPUs != 0b11 || stale.Devices.ClosedNICs != 0b11 ||
		stale.DeviceNote != facts.ReportStale || !slices.Equal(stale.HeldDevices, report.HeldDevices) || report.Devices.ClosedGPUs != 0 {
		t.Errorf("a stale report is %+v", stale)
	}
	if k := said["k"]; k == nil || k.Devices != nil {
		t.Errorf("of the kubelet's GPUs a stale report says %+v", k)
	}
	if again := f.upserted(nodeReport{"a", report, time.Unix(1000, 0)}).(facts.NodeReported).Report; again.Devices != stale.Devices {
		t.Error("the same stale report has other devices")
	}
	if fresh := f.upserted(nodeReport{"a", report, time.Unix(2000, 0)}).(facts.NodeReported).Report; fresh != report {
		t.Errorf("a report that is fresh again is %+v", fresh)
	}
}

// reportOfGPUs is what a node says that has two GPUs and two network cards, which are somebody's to give out.
func reportOfGPUs(name, owner string) *nodev1alpha1.CustomNodeResource {
	n := agentReport(name, 4, time.Unix(1000, 0), 0)
	gpu := spec.GPU{MemoryMiB: 81920, Multiprocessors: 132, Isolation: []string{"accounting"}, Links: []int{0, 4}}
	second := gpu
	second.Index, second.Links = 1, []int{4, 0}
	n.Status.Devices = &spec.Devices{
		Owner: owner, GPUs: []spec.GPU{gpu, second},
		NICs: []spec.NIC{{Index: 0, Address: "0000:3c:00.0", Name: "mlx5_0"}, {Index: 1, Address: "0000:5f:00.0", Name: "mlx5_1"}},
	}
	return n
}

// What a node uses is believed for a time of its own; the rest of the report is believed for longer.
func TestStaleUsage(t *testing.T) {
	now := time.Unix(1000, 0)
	out := new(sentEvents)
	f := newFreshness(out, staleAges{promises: time.Hour, lent: 2 * time.Hour, usage: time.Minute})
	f.now = func() time.Time { return now }
	n := agentReport("a", 4, now, 0)
	n.Status.Usage = &spec.NodeUsage{MilliCPU: 1500, MemoryMiB: 2, WindowSeconds: 90}
	n.Status.Overcommit = &spec.NodeOvercommitStatus{Percent: 120, ExtraMilliCPU: 800}
	parser := parse.NewParser("hilbert", nil)
	parser.PromisedCPU = 150
	report := parser.NodeReport(n)
	if want := (facts.Overcommit{ExtraCPU: 800, Percent: 120}); report.Overcommit != want {
		t.Fatalf("%+v, want %+v", report.Overcommit, want)
	}
	if want := (facts.Usage{MilliCPU: 1500, Memory: 2 << 20, Since: 910 * 1e9}); report.Usage != want {
		t.Fatalf("the use is %+v, want %+v", report.Usage, want)
	}
	f.upserted(nodeReport{"a", report, now})
	for _, step := range []struct {
		after time.Duration
		want  int // events
	}{{59 * time.Second, 0}, {time.Second, 1}, {time.Minute, 0}} {
		now = now.Add(step.after)
		*out = nil
		if err := f.expire(); err != nil || len(*out) != step.want {
			t.Fatalf("at %v: %d events, %v; want %d", now, len(*out), err, step.want)
		}
		if step.want == 0 {
			continue
		}
		said := (*out)[0].(facts.NodeReported).Report
		if said.Usage.Known() || said.NUMANodes != report.NUMANodes || said.Overcommit != (facts.Overcommit{}) {
			t.Errorf("a report whose use is stale is %+v", said)
		}
	}
	if again := f.upserted(nodeReport{"a", report, now}).(facts.NodeReported).Report; !again.Usage.Known() || again.Overcommit != report.Overcommit {
		t.Error("a report that is fresh again has no use")
	}
}

func TestMalformedUsage(t *testing.T) {
	for _, u := range []spec.NodeUsage{{MilliCPU: -1}, {MemoryMiB: -1}, {WindowSeconds: -1}, {MilliCPU: 1 << 40}, {MemoryMiB: 1 << 40}, {WindowSeconds: 1 << 40}} {
		var log bytes.Buffer
		n := agentReport("a", 4, time.Unix(1000, 0), 0)
		n.Status.Usage = &u
		got := parse.NewParser("hilbert", slog.New(slog.NewTextHandler(&log, nil))).NodeReport(n)
		if got.Usage.Known() || !strings.Contains(log.String(), "usage.") || got.NUMANodes.Ruler != topology.RulerAgent {
			t.Errorf("%+v: the use is %+v, the log says %s", u, got.Usage, log.String())
		}
	}
}
