package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/bandwidth"
	"hilbert.dev/hilbert/node/controller"
	"hilbert.dev/hilbert/node/enforce"
)

// fakeBandwidth says what pods take, of those that are watched.
type fakeBandwidth struct {
	mu    sync.Mutex
	rates map[string]float64 // by UID, in bytes per second
	why   error
	watch []bandwidth.Pod
	asked int // how often pods were named
	limit int
}

func (f *fakeBandwidth) Watch(pods []bandwidth.Pod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watch = pods
	f.asked++
}

func (f *fakeBandwidth) Of(uid string, _ time.Time) bandwidth.Use {
	f.mu.Lock()
	defer f.mu.Unlock()
	rate, ok := f.rates[uid]
	if !ok {
		return bandwidth.Use{}
	}
	return bandwidth.Use{Total: advise.Known(rate), Domains: map[int]float64{0: rate / 4, 1: 3 * rate / 4}}
}

func (f *fakeBandwidth) Status() bandwidth.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return bandwidth.Status{Known: len(f.rates), Groups: len(f.watch), Why: f.why}
}

func (f *fakeBandwidth) Limit(groups int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.limit = groups
}

func (f *fakeBandwidth) Run(ctx context.Context) { <-ctx.Done() }

func (f *fakeBandwidth) set(rates map[string]float64, why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rates, f.why = rates, why
}

// bandwidthRig is a service beside a reclaimed pod, whose memory bandwidth is read through so many groups.
func bandwidthRig(t *testing.T, f *fakeBandwidth, groups int) *harmRig {
	r := &harmRig{lender: &lender{world: newWorld(t), counters: newCounters(t), now: time.Now()}}
	r.bandwidth, r.groups = f, groups
	r.fill(t)
	return r
}

// The pods of the node are read, the largest users of CPU first, if groups may be made; what is known is added up; what is not is said to be unknown.
func TestMemoryBandwidth(t *testing.T) {
	absent := fmt.Errorf("%w: no such file", bandwidth.ErrAbsent)
	for name, c := range map[string]struct {
		groups  int
		rates   map[string]float64
		why     error
		parts   map[BandwidthPart]float64
		unknown string
	}{
		"off":     {0, map[string]float64{"web": 4e9}, nil, nil, "memory bandwidth: node.memoryBandwidth.groups is 0"},
		"absent":  {8, nil, absent, map[BandwidthPart]float64{}, "memory bandwidth: resctrl counts none on this machine"},
		"no why":  {8, nil, nil, map[BandwidthPart]float64{}, "memory bandwidth"},
		"of both": {8, map[string]float64{"web": 4e9, "hog": 8e9}, nil, map[BandwidthPart]float64{{0, spec.QoSShared}: 1e9, {1, spec.QoSShared}: 3e9, {0, spec.QoSReclaimed}: 2e9, {1, spec.QoSReclaimed}: 6e9}, ""},
		"of one":  {8, map[string]float64{"hog": 8e9}, nil, map[BandwidthPart]float64{{0, spec.QoSReclaimed}: 2e9, {1, spec.QoSReclaimed}: 6e9}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeBandwidth{rates: c.rates, why: c.why}
			r := bandwidthRig(t, f, c.groups)
			r.mode(spec.InterferenceReport)
			r.pass(3, 0.02, 4)
			var s State
			r.agent.Ask(time.Minute, func(a *Agent) { s = a.State() })
			if !maps.Equal(s.BandwidthParts, c.parts) || s.Bandwidth.Known != len(c.rates) {
				t.Errorf("%+v, %v", s.Bandwidth, s.BandwidthParts)
			}
			if c.groups == 0 {
				if f.asked > 0 {
					t.Errorf("pods are watched: %v", f.watch)
				}
			} else if len(f.watch) != 2 || f.watch[0] != (bandwidth.Pod{UID: "hog", Cgroup: r.hog, Reclaimed: true}) || f.watch[1] != (bandwidth.Pod{UID: "web", Cgroup: r.web}) {
				t.Errorf("watched: %+v", f.watch)
			}
			said := ""
			for _, text := range r.interference().Unknown {
				if len(text) >= 16 && text[:16] == "memory bandwidth" {
					said = text
				}
			}
			if said != c.unknown || len(said) > spec.MaxInterferenceUnknown {
				t.Errorf("unknown: %q, want %q", said, c.unknown)
			}
		})
	}
}

// A service's instructions take twice the cycles when two pods come, and nobody waits. The one whose memory bandwidth is large is named; without bandwidth, the one that uses more CPU. A pod that says
// that it loads the memory is read before the others.
func TestMemoryBandwidthNames(t *testing.T) {
	for _, groups := range []int{8, 0} {
		p, f := &fakeProcessor{}, &fakeBandwidth{}
		r := &harmRig{lender: &lender{world: newWorld(t), counters: newCounters(t), now: time.Now()}}
		r.processor, r.bandwidth, r.groups = p, f, groups
		r.fill(t)
		pinned := sandbox("pinned", 0, "qos=reclaimed_cores", "besteffort")
		pinned.Annotations[spec.AnnotationReclaimed], pinned.Annotations[spec.AnnotationMemoryBandwidth] = "4000m/512Mi", spec.BandwidthIntensive
		r.mustRun(pinned)
		r.agent.Configure(wanted(`{"interference": {"mode": "report", "counters": true}}`))
		pass := func(windows int, cycles, hog, cpus float64) {
			p.set(cycles, nil)
			f.set(map[string]float64{"web": 1e9, "hog": hog, "pinned": 1e8}, nil)
			for range windows {
				r.used[pinned.Cgroup] += int(cpus * 1.5e6)
				r.pass(1, 0.02, cpus)
			}
		}
		pass(60, 1.2, 0, 0)
		if groups > 0 && f.watch[0].UID != "pinned" {
			t.Errorf("watched: %+v", f.watch)
		}
		pass(5, 2.4, 40e9, 4)
		i := r.interference()
		want, says := "hog", "the memory bandwidth of default/pod-hog goes with it, from 0.0 to 40.0 GB/s"
		if groups == 0 {
			want, says = "pinned", "the use of default/pod-pinned"
		}
		if len(i.Findings) != 1 || i.Findings[0].Culprit == nil || i.Findings[0].Culprit.UID != want || !strings.Contains(i.Findings[0].Message, says) {
			t.Errorf("%d groups: %+v, want %s: %s", groups, i.Findings, want, says)
		}
	}
}

// What a NodeConfiguration says of groups counts from the next observation on, in both directions: with none, nothing is added up and nobody is named to the reader.
func TestMemoryBandwidthIsSwitched(t *testing.T) {
	f := &fakeBandwidth{rates: map[string]float64{"hog": 8e9}}
	r := bandwidthRig(t, f, 0)
	for _, groups := range []int{0, 4, 0, 2} {
		r.agent.Configure(wanted(fmt.Sprintf(`{"memoryBandwidth": {"groups": %d}}`, groups)))
		asked := f.asked
		r.pass(2, 0.02, 4)
		var s State
		r.agent.Ask(time.Minute, func(a *Agent) { s = a.State() })
		if f.limit != groups || (f.asked > asked) != (groups > 0) || (len(s.BandwidthParts) > 0) != (groups > 0) {
			t.Errorf("%d groups: the reader has %d, pods are watched %t, %v", groups, f.limit, f.asked > asked, s.BandwidthParts)
		}
	}
}

// fullMemory is a Governor that says whether memory is full.
type fullMemory bool

func (fullMemory) Tick(time.Duration, []enforce.Pod) ([]enforce.DesiredKnob, []allocate.Note) {
	return nil, nil
}
func (fullMemory) Close()             {}
func (f fullMemory) MemoryFull() bool { return bool(f) }

// While a governor says that memory is full, an idle machine lends no more cores than the floor; what it said too long ago holds nothing.
func TestFullMemoryStopsGrowth(t *testing.T) {
	for _, c := range []struct {
		full   fullMemory
		looks  int // seconds in which the governor is asked, of sixty
		lended bool
	}{{false, 60, true}, {true, 60, false}, {true, 1, true}} {
		l := newLender(t)
		batch := sandbox("batch", 0, "qos=reclaimed_cores", "besteffort")
		batch.Annotations[spec.AnnotationReclaimed] = "4000m/512Mi"
		l.mustRun(sandbox("web", 6, "qos=shared_cores"))
		l.mustRun(batch)
		l.agent.Ask(time.Minute, func(a *Agent) {
			a.onTick = slices.DeleteFunc(a.onTick, func(c controller.Ticker) bool { return c == controller.Ticker(a.governors) }) // by the test's time alone
			a.options.Governors = []Governor{c.full}
		})
		for second := range 60 {
			if second < c.looks {
				l.agent.Ask(time.Minute, func(a *Agent) { a.governors.Tick(l.now) })
				l.eventually("the governor has looked", func() (done bool) {
					l.agent.Ask(time.Minute, func(a *Agent) { done = a.governors.seen.Equal(l.now) })
					return done
				})
			}
			l.run(1)
		}
		if got := l.batch(); (got != "3,7") != c.lended {
			t.Errorf("%+v: the reclaimed pod runs on %s", c, got)
		}
	}
}

// A pod that says nothing and is read to load the memory is kept off the NUMA node of a sensitive pod, until it has been calm for long or the threshold goes; while nothing is known of it, it stays
// what it was, and it keeps its group. That is told once each time, and nobody is evicted for it.
func TestMeasuredIntensive(t *testing.T) {
	f := &fakeBandwidth{}
	r := bandwidthRig(t, f, 8)
	quiet := sandbox("quiet", 1, "qos=dedicated_cores", "numa=bound", "numaNodes=1:1/100Mi,sensitive")
	quiet.Annotations[spec.AnnotationMemoryBandwidth] = spec.BandwidthSensitive
	r.mustRun(quiet)
	check := func(at, cpus string, measured int, told uint64) {
		t.Helper()
		var hog, web string
		var s State
		r.agent.Ask(time.Minute, func(a *Agent) {
			h, _ := a.node.Manager.Placement("hog")
			w, _ := a.node.Manager.Placement("web")
			hog, web, s = h.CPUs.String(), w.CPUs.String(), a.State()
		})
		want := map[string]int{"annotation": 0, "measured": measured}
		if measured < 0 {
			want = nil
		}
		if hog != cpus || web != "1-2,5-6" || !maps.Equal(s.MemoryIntensive, want) || s.Notes[spec.ReasonMemoryIntensive] != told {
			t.Errorf("%s: the reclaimed pod runs on %s, want %s; the service on %s; %v, want %v; told %d times, want %d", at, hog, cpus, web, s.MemoryIntensive, want, s.Notes[spec.ReasonMemoryIntensive], told)
		}
		if list := r.requested(); len(list) > 0 {
			t.Errorf("%s: evictions are requested: %q", at, list)
		}
	}
	read := func(windows int, rates map[string]float64) {
		f.set(rates, nil)
		r.pass(windows, 0.02, 1)
	}
	loud := map[string]float64{"hog": 12e9, "web": 4e9}
	read(20, loud)
	check("without a threshold", "3,7", -1, 0)
	r.agent.Configure(wanted(`{"memoryBandwidth": {"groups": 8, "intensiveBytesPerSecond": 10000000000}}`))
	read(5, loud)
	check("not for a minute yet", "3,7", 0, 0)
	read(3, loud)
	check("for a minute", "3", 1, 1)
	if f.watch[0].UID != "hog" {
		t.Errorf("watched are %+v", f.watch)
	}
	read(40, nil)
	check("not known", "3", 1, 1)
	read(20, map[string]float64{"hog": 1e9})
	check("calm for three minutes", "3", 1, 1)
	read(12, map[string]float64{"hog": 1e9})
	check("calm for five minutes", "3,7", 0, 1)
	read(10, loud)
	check("again", "3", 1, 2)
	r.agent.Configure(wanted(`{"memoryBandwidth": {"groups": 8}}`))
	read(1, loud)
	check("the threshold is gone", "3,7", -1, 2)
	r.agent.Configure(wanted(`{"memoryBandwidth": {"groups": 8, "intensiveBytesPerSecond": 10000000000}}`))
	read(8, loud)
	check("it is back", "3", 1, 3)
	r.agent.Configure(wanted(`{"memoryBandwidth": {"groups": 0, "intensiveBytesPerSecond": 10000000000}}`))
	read(1, loud)
	check("nothing is read", "3,7", -1, 3)
}
