package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/advise"
	"hilbert.dev/hilbert/node/perf"
)

// fakeProcessor says what the instructions of each cgroup that is watched take.
type fakeProcessor struct {
	mu     sync.Mutex
	cycles float64 // 0: it is not known
	why    error
	watch  []string
}

func (f *fakeProcessor) Watch(cgroups []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watch = cgroups
}

func (f *fakeProcessor) CyclesPerInstruction(cgroup string, _ time.Time) advise.Sample {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cycles == 0 || !slices.Contains(f.watch, cgroup) {
		return advise.Sample{}
	}
	return advise.Known(f.cycles)
}

func (f *fakeProcessor) Status() perf.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return perf.Status{Counted: len(f.watch), Why: f.why}
}

func (f *fakeProcessor) Run(ctx context.Context) { <-ctx.Done() }

func (f *fakeProcessor) set(cycles float64, why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cycles, f.why = cycles, why
}

// onCPU is an error as the reader has it.
func onCPU(why error) error {
	return fmt.Errorf("%w: perf_event_open for kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podweb.slice on CPU 0: %w", why, os.ErrNotExist)
}

// checkUnknown checks what a report says of cycles, and that the API server takes it.
func checkUnknown(t *testing.T, unknown []string, ofCycles string) {
	t.Helper()
	got := ""
	for _, text := range unknown {
		if strings.HasPrefix(text, "cycles") {
			got = text
		}
		if len(text) > spec.MaxInterferenceUnknown {
			t.Errorf("the API server refuses a report that says %q", text)
		}
	}
	if got != ofCycles {
		t.Errorf("unknown: %q, want %q", unknown, ofCycles)
	}
}

// A service that waits for nothing, and whose instructions take twice the cycles while the hog runs, is harmed by the hog: if the counters are wanted, and there.
func TestCyclesTellHarm(t *testing.T) {
	for _, c := range []struct {
		name, knob string
		after      float64
		why        error
		found      int
		unknown    string
	}{
		{"counted", "true", 2.4, nil, 1, ""},
		{"not wanted", "false", 2.4, nil, 0, "cycles per instruction: node.interference.counters is off"},
		{"absent", "true", 0, onCPU(perf.ErrAbsent), 0, "cycles per instruction: the machine shows no counters"},
		{"refused", "true", 0, onCPU(perf.ErrRefused), 0, "cycles per instruction: the agent lacks the capability PERFMON"},
		{"another", "true", 0, onCPU(errors.New("too many files are open")), 0, "cycles per instruction: too many files are open: perf_event_open"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fakeProcessor{}
			r := newHarmRigWith(t, f)
			r.agent.Configure(wanted(`{"interference": {"mode": "report", "counters": ` + c.knob + `}}`))
			f.set(1.2, nil)
			if c.why != nil {
				f.set(0, c.why)
			}
			r.pass(60, 0.02, 0)
			f.set(c.after, c.why)
			r.pass(8, 0.02, 4)
			i := r.interference()
			if len(i.Findings) != c.found || c.found > 0 && (i.Findings[0].Culprit == nil || i.Findings[0].Culprit.UID != "hog" || !strings.Contains(i.Findings[0].Message, "cycles per instruction is ")) {
				t.Errorf("%+v", i.Findings)
			}
			checkUnknown(t, i.Unknown, c.unknown)
			if want := c.knob == "true"; (len(f.watch) == 1) != want || want && f.watch[0] != r.web {
				t.Errorf("watched: %q", f.watch)
			}
			r.mode(spec.InterferenceOff)
			r.pass(1, 0.02, 0)
			if s := f.Status(); s.Counted != 0 {
				t.Errorf("it is off, and %+v", s)
			}
		})
	}
}
