package node

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/bandwidth"
)

// fakeBandwidth says what pods take, of those that are watched.
type fakeBandwidth struct {
	mu    sync.Mutex
	rates map[string]float64 // by UID, in bytes per second
	why   error
	watch []bandwidth.Pod
	asked int // how often pods were named
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
		"of both": {8, map[string]float64{"web": 4e9, "hog": 8e9}, nil, map[BandwidthPart]float64{{0, false}: 1e9, {1, false}: 3e9, {0, true}: 2e9, {1, true}: 6e9}, ""},
		"of one":  {8, map[string]float64{"hog": 8e9}, nil, map[BandwidthPart]float64{{0, true}: 2e9, {1, true}: 6e9}, ""},
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
		pass(8, 2.4, 40e9, 4)
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
