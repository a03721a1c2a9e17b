package perf

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/internal/clock"
)

// fakeKernel has two CPUs. Each cgroup in it has what it takes of cycles for an instruction.
type fakeKernel struct {
	cycles map[string]float64
	err    error
	opens  int
	open   int
	// share of the time in which a cgroup ran is counted; silent: nothing is, as where a cgroup did not run; falls: the second CPU's counters go backwards.
	share         float64
	silent, falls bool
	seconds       float64
}

const fakeCPUs = 2

func (k *fakeKernel) Files() int { return 2 * fakeCPUs }

func (k *fakeKernel) Open(cgroup string) (out []Counter, err error) {
	k.opens++
	if k.err != nil {
		return nil, k.err
	}
	if _, ok := k.cycles[cgroup]; !ok {
		return nil, fmt.Errorf("%w: %s", ErrGone, cgroup)
	}
	for cpu := range fakeCPUs {
		out = append(out, &fakeCounter{kernel: k, cgroup: cgroup, cpu: cpu})
	}
	k.open += k.Files()
	return out, nil
}

type fakeCounter struct {
	kernel *fakeKernel
	cgroup string
	cpu    int
}

func (c *fakeCounter) Read() (Count, error) {
	k := c.kernel
	if k.silent {
		return Count{}, nil
	}
	s := k.seconds * 1e9
	if k.falls && c.cpu == 1 {
		s = 1e12 - s
	}
	return Count{Enabled: uint64(s), Running: uint64(s * k.share), Instructions: uint64(s * k.share), Cycles: uint64(s * k.share * k.cycles[c.cgroup])}, nil
}

func (c *fakeCounter) Close() error { c.kernel.open -= 2; return nil }

func (k *fakeKernel) pass(r *Reader, wanted ...string) {
	k.seconds += 5
	r.Read(time.Duration(k.seconds*1e9), wanted)
}

// A value is of the time between two readings, and follows what the processor counts.
func TestCycles(t *testing.T) {
	k := &fakeKernel{cycles: map[string]float64{"web": 1.5}, share: 1}
	r := NewReader(k, DefaultParams())
	k.pass(r, "web")
	if got, ok := r.CyclesPerInstruction("web"); ok {
		t.Errorf("one reading says %v", got)
	}
	for _, share := range []float64{1, 0.5, 0.2} { // others use the counters too
		k.share = share
		k.pass(r, "web") // at another share than before: no difference of it means anything in the fake
		k.pass(r, "web")
		if got, ok := r.CyclesPerInstruction("web"); !ok || got < 1.49 || got > 1.51 {
			t.Errorf("share %v: %v, %v", share, got, ok)
		}
	}
	k.falls = true
	k.pass(r, "web")
	k.pass(r, "web")
	if got, ok := r.CyclesPerInstruction("web"); !ok || got < 1.49 || got > 1.51 {
		t.Errorf("one CPU's counters go backwards: %v, %v", got, ok)
	}
	if r.Close(); k.open != 0 {
		t.Errorf("%d files stay open", k.open)
	}
}

// What was not counted is unknown: a cgroup that does not run, one that is gone, counters that others have, a value of long ago.
func TestUnknown(t *testing.T) {
	for name, spoil := range map[string]func(k *fakeKernel){
		"it does not run": func(k *fakeKernel) { k.silent = true }, "it is gone": func(k *fakeKernel) { clear(k.cycles) },
		"it is counted too seldom": func(k *fakeKernel) { k.share = 0.05 }, "the last reading is old": func(k *fakeKernel) { k.seconds += 100 },
	} {
		k := &fakeKernel{cycles: map[string]float64{"web": 1.5}, share: 1}
		r := NewReader(k, DefaultParams())
		if name != "the last reading is old" {
			spoil(k)
		}
		k.pass(r, "web")
		k.pass(r, "web")
		if name == "the last reading is old" {
			spoil(k)
			k.pass(r, "web")
		}
		if got, ok := r.CyclesPerInstruction("web"); ok {
			t.Errorf("%s: %v", name, got)
		}
		if why := r.Status().Why; why != nil {
			t.Errorf("%s: the node has no counters: %v", name, why)
		}
	}
}

// Where the machine has no counters, that is said, and tried again seldom; a reason ends with its cause.
func TestAbsent(t *testing.T) {
	for _, why := range []error{ErrAbsent, ErrRefused} {
		k := &fakeKernel{cycles: map[string]float64{"web": 1.5, "db": 1}, share: 1, err: fmt.Errorf("%w: in a test", why)}
		r := NewReader(k, DefaultParams())
		for range 20 {
			k.pass(r, "web", "db")
		}
		if _, ok := r.CyclesPerInstruction("web"); ok || !errors.Is(r.Status().Why, why) || k.opens != 1 {
			t.Errorf("%v: known %v, %+v, tried %d times", why, ok, r.Status(), k.opens)
		}
		k.err = nil
		for range 130 {
			k.pass(r, "web", "db")
		}
		if _, ok := r.CyclesPerInstruction("web"); !ok || r.Status().Why != nil || r.Status().Counted != 2 {
			t.Errorf("after they came: known %v, %+v", ok, r.Status())
		}
		k.err = why // and a third pod comes: what was open goes on or ends, but nothing is made up
		k.cycles["new"] = 1
		k.pass(r, "web", "db", "new")
		if s := r.Status(); s.Why == nil || k.open != 4*s.Counted {
			t.Errorf("refused again: %+v, %d files", s, k.open)
		}
	}
	r := NewReader(&fakeKernel{}, Params{MaxFiles: 3})
	if r.Read(time.Second, []string{"web"}); r.Status().Why == nil || !strings.Contains(r.Status().Why.Error(), "4 open files") {
		t.Errorf("too few files: %+v", r.Status())
	}
}

// Whatever is wanted, no more files are open than may be, all of them are accounted for, and everybody has a turn that is long enough.
func TestTurns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := &fakeKernel{cycles: make(map[string]float64), share: 1}
		p := Params{MaxFiles: rapid.IntRange(4, 40).Draw(t, "files"), Turn: time.Minute, Retry: time.Minute}
		r := NewReader(k, p)
		var wanted []string
		for i := range rapid.IntRange(0, 30).Draw(t, "cgroups") {
			wanted = append(wanted, fmt.Sprint("pod-", i))
			k.cycles[wanted[i]] = 1.5
		}
		inRow, longest := make(map[string]int), make(map[string]int)
		for range 12 * 32 {
			k.pass(r, wanted...)
			if s := r.Status(); k.open > p.MaxFiles || s.Files != k.open || s.Counted+s.Waiting != len(wanted) || s.Why != nil {
				t.Fatalf("%d files are open of %d: %+v", k.open, p.MaxFiles, s)
			}
			for _, w := range wanted {
				if _, ok := r.CyclesPerInstruction(w); ok {
					inRow[w]++
					longest[w] = max(longest[w], inRow[w])
				} else {
					inRow[w] = 0
				}
			}
		}
		for _, w := range wanted {
			if longest[w] < 10 {
				t.Fatalf("%s was known for %d readings in a row", w, longest[w])
			}
		}
		if k.pass(r); k.open != 0 {
			t.Fatalf("nothing is wanted, and %d files are open", k.open)
		}
	})
}

// The loop asks beside the reader; what is old is not known any more.
func TestPoller(t *testing.T) {
	at := clock.NewStepped(time.Unix(1000, 0))
	k := &fakeKernel{cycles: map[string]float64{"web": 1.5}, share: 1}
	p := NewPoller(NewReader(k, DefaultParams()), at)
	p.Watch([]string{"web"})
	begun := at.Now()
	for range 2 {
		at.Advance(Interval)
		k.seconds += 5
		p.Read(begun)
	}
	if s := p.CyclesPerInstruction("web", at.Now()); !s.Known || s.Value < 1.49 || p.CyclesPerInstruction("db", at.Now()).Known || p.Status().Counted != 1 {
		t.Errorf("%+v, %+v", s, p.Status())
	}
	if s := p.CyclesPerInstruction("web", at.Now().Add(4*Interval)); s.Known {
		t.Errorf("an old value is %+v", s)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if p.Run(ctx); k.open != 0 {
		t.Errorf("at the end %d files are open", k.open)
	}
}
