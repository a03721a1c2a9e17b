package shrink

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

const mib = 1 << 20

// kernel is a hierarchy in memory: each cgroup holds bytes, of which some can be taken.
type kernel struct {
	mu       sync.Mutex
	held     map[string]int64 // memory.current
	stuck    map[string]int64 // what nobody can take of it
	stalled  map[string]int64 // microseconds
	took     time.Duration    // of a write
	perByte  time.Duration    // more of it
	fault    error            // what the next write answers
	noFile   bool             // there is no memory.reclaim
	noAsking bool             // it takes no swappiness
	writes   []string
	atOnce   map[string]int // writes under way, by cgroup
	overlaps int
}

func newKernel(cgroup string, held int64) *kernel {
	return &kernel{
		held: map[string]int64{cgroup: held}, stuck: map[string]int64{}, stalled: map[string]int64{}, atOnce: map[string]int{}, took: 20 * time.Millisecond,
	}
}

func (k *kernel) Read(path string) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	cgroup, file := path[:strings.LastIndexByte(path, '/')], path[strings.LastIndexByte(path, '/')+1:]
	if _, ok := k.held[cgroup]; !ok {
		return "", fmt.Errorf("%s: %w", path, syscall.ENOENT)
	}
	if file == "memory.pressure" {
		return fmt.Sprintf("some avg10=0.00 avg60=0.00 avg300=0.00 total=%d\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n", k.stalled[cgroup]), nil
	}
	return strconv.FormatInt(k.held[cgroup], 10) + "\n", nil
}

func (k *kernel) Write(path, value string) error {
	cgroup := strings.TrimSuffix(path, "/memory.reclaim")
	k.mu.Lock()
	k.writes = append(k.writes, value)
	k.atOnce[cgroup]++
	if k.atOnce[cgroup] > 1 {
		k.overlaps++
	}
	fault := k.fault
	k.fault = nil
	k.mu.Unlock()
	number, _, only := strings.Cut(value, " ")
	n, err := strconv.ParseInt(number, 10, 64)
	time.Sleep(k.took + time.Duration(n)*k.perByte)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.atOnce[cgroup]--
	_, there := k.held[cgroup]
	switch {
	case !there || k.noFile:
		return syscall.ENOENT
	case err != nil || (only && k.noAsking):
		return syscall.EINVAL
	case fault != nil && !errors.Is(fault, syscall.EINTR):
		return fault
	}
	got := min(n, max(k.held[cgroup]-k.stuck[cgroup], 0))
	if fault != nil {
		got /= 2
	}
	k.held[cgroup] -= got
	switch {
	case fault != nil:
		return fault
	case got < n:
		return syscall.EAGAIN
	}
	return nil
}

// bed runs a Shrinker and collects what it tells.
type bed struct {
	*Shrinker
	results chan Result
	end     context.CancelFunc
	ended   chan struct{}
}

func newBed(k *kernel, p Params, halt func() bool) *bed {
	ctx, end := context.WithCancel(context.Background())
	b := &bed{results: make(chan Result, 100), end: end, ended: make(chan struct{})}
	b.Shrinker = New(k, p, halt, func(r Result) { b.results <- r })
	go func() { b.Run(ctx); close(b.ended) }()
	synctest.Wait()
	return b
}

func (b *bed) stop() {
	b.end()
	<-b.ended
}

func never() bool { return false }

// one carries out one request.
func one(k *kernel, r Request, halt func() bool) Result {
	b := newBed(k, Defaults(), halt)
	defer b.stop()
	if err := b.Ask(r); err != nil {
		return Result{Err: err}
	}
	return <-b.results
}

func TestOutcomes(t *testing.T) {
	for _, c := range []struct {
		name    string
		request Request
		prepare func(*kernel)
		want    Outcome
		got     int64
		steps   int
	}{
		{"all in steps", Request{Cgroup: "p", Bytes: 100 * mib}, nil, Done, 100 * mib, 4},
		{"page cache alone", Request{Cgroup: "p", Bytes: mib, FileOnly: true}, nil, Done, mib, 1},
		{"no more is found", Request{Cgroup: "p", Bytes: 100 * mib}, func(k *kernel) { k.stuck["p"] = 150 * mib }, Partial, 50 * mib, 2},
		{"a signal", Request{Cgroup: "p", Bytes: 32 * mib}, func(k *kernel) { k.fault = syscall.EINTR }, Done, 32 * mib, 2},
		{"the cgroup is not there", Request{Cgroup: "q", Bytes: mib}, nil, Gone, 0, 0},
		{"an old kernel", Request{Cgroup: "p", Bytes: mib}, func(k *kernel) { k.noFile = true }, Unsupported, 0, 1},
		{"no page cache alone", Request{Cgroup: "p", Bytes: mib, FileOnly: true}, func(k *kernel) { k.noAsking = true }, Unsupported, 0, 1},
		{"no right", Request{Cgroup: "p", Bytes: mib}, func(k *kernel) { k.fault = syscall.EACCES }, Failed, 0, 1},
		{"a slow kernel", Request{Cgroup: "p", Bytes: 150 * mib}, func(k *kernel) { k.took = 4 * time.Second }, Late, 56 * mib, 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			k := newKernel("p", 200*mib)
			if c.prepare != nil {
				c.prepare(k)
			}
			got := one(k, c.request, never)
			if got.Outcome != c.want || got.Got != c.got || got.Steps != c.steps {
				t.Errorf("%s: %+v; want %s, %d MiB in %d", c.name, got, c.want, c.got/mib, c.steps)
			}
			if (got.Err != nil) != (c.want == Gone || c.want == Failed || c.want == Unsupported) {
				t.Errorf("%s: error %v", c.name, got.Err)
			}
		})
	}
}

// A slow kernel is asked for less at a time, down to a bound, and for more again when it is quick.
func TestStepsFollowTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel("p", 1<<40)
		k.took, k.perByte = 0, 50*time.Nanosecond // 32 MiB in 1.7 s, 4 MiB in 0.2
		got := one(k, Request{Cgroup: "p", Bytes: 60 * mib}, never)
		want := fmt.Sprint([]int{32 * mib, 16 * mib, 8 * mib, 4 * mib})
		if got.Outcome != Done || fmt.Sprint(k.writes) != want {
			t.Errorf("writes %v, want %s; %+v", k.writes, want, got)
		}
		k.writes, k.perByte = nil, 0
		if one(k, Request{Cgroup: "p", Bytes: 96 * mib}, never); len(k.writes) != 3 {
			t.Errorf("a quick kernel gets %v", k.writes)
		}
	})
}

// Pressure and the end of the agent stop a request within one write.
func TestHalts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel("p", 1<<40)
		k.took = time.Second
		began := time.Now()
		got := one(k, Request{Cgroup: "p", Bytes: 1 << 30}, func() bool { return time.Since(began) > 1500*time.Millisecond })
		if got.Outcome != Pressed || got.Took > 3*time.Second || got.Steps != 2 {
			t.Errorf("under pressure: %+v", got)
		}
		b := newBed(k, Defaults(), never)
		if err := b.Ask(Request{Cgroup: "p", Bytes: 1 << 30}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
		began = time.Now()
		b.stop()
		if got := <-b.results; got.Outcome != Stopped || time.Since(began) > time.Second {
			t.Errorf("at the end, after %s: %+v", time.Since(began), got)
		}
		if err := b.Ask(Request{Cgroup: "p", Bytes: 1}); !errors.Is(err, ErrStopped) {
			t.Errorf("after the end: %v", err)
		}
	})
}

func TestAskNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel("a", 1<<30)
		k.held["b"], k.held["c"], k.took = 1<<30, 1<<30, time.Second
		p := Defaults()
		p.Workers = 2
		b := newBed(k, p, never)
		defer b.stop()
		began := time.Now()
		for _, c := range []struct {
			cgroup string
			bytes  int64
			want   error
		}{{"a", mib, nil}, {"a", mib, ErrBusy}, {"b", mib, nil}, {"c", mib, ErrFull}, {"c", 0, ErrNothing}, {"", mib, ErrNothing}} {
			if err := b.Ask(Request{Cgroup: c.cgroup, Bytes: c.bytes}); !errors.Is(err, c.want) {
				t.Errorf("%q by %d: %v, want %v", c.cgroup, c.bytes, err, c.want)
			}
		}
		if time.Since(began) != 0 || !b.Busy("a") || b.Counts().Working != 2 {
			t.Errorf("it took %s; %+v", time.Since(began), b.Counts())
		}
		<-b.results
		<-b.results
		synctest.Wait()
		if b.Busy("a") {
			t.Error("busy without work")
		}
		if c := b.Counts(); c.Requests != 2 || c.Refused != 4 || c.Working != 0 || c.Steps != 2 || c.Got != 2*mib || c.Outcomes[Done] != 2 {
			t.Errorf("counts %+v", c)
		}
	})
}

// Whatever is asked: no write asks for more than MaxStep, a cgroup is written by one at a time, each request that is taken is told of once, and no
// more is taken than was asked for.
func TestAlways(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		const cgroups = "abc"
		type ask struct {
			cgroup, wait int
			bytes        int64
		}
		asks := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) ask {
			return ask{rapid.IntRange(0, 2).Draw(r, "cgroup"), rapid.IntRange(0, 300).Draw(r, "wait"), rapid.Int64Range(1, 200*mib).Draw(r, "bytes")}
		}), 1, 20).Draw(r, "asks")
		step := rapid.Int64Range(0, 1<<30).Draw(r, "step")
		synctest.Test(t, func(*testing.T) {
			k := newKernel("a", 1<<30)
			k.held["b"], k.held["c"], k.stuck["c"] = 100*mib, 300*mib, 200*mib
			p := Defaults()
			p.Step = step
			b := newBed(k, p, never)
			taken := 0
			for _, a := range asks {
				if b.Ask(Request{Cgroup: cgroups[a.cgroup : a.cgroup+1], Bytes: a.bytes}) == nil {
					taken++
				}
				time.Sleep(time.Duration(a.wait) * time.Millisecond)
			}
			b.stop()
			if len(b.results) != taken || k.overlaps > 0 {
				r.Fatalf("%d of %d told, %d writes at once", len(b.results), taken, k.overlaps)
			}
			for range taken {
				if got := <-b.results; got.Got > got.Bytes || got.Got < 0 {
					r.Fatalf("%+v", got)
				}
			}
			for _, w := range k.writes {
				if n, err := strconv.Atoi(w); err != nil || n <= 0 || n > MaxStep {
					r.Fatalf("wrote %s", w)
				}
			}
		})
	})
}

func TestGauge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel("p", 1)
		g := NewGauge(k, 0.1)
		g.Watch([]string{"p", "gone"})
		look := func(stall, pass time.Duration, want bool, what string) {
			t.Helper()
			k.stalled["p"] += stall.Microseconds()
			time.Sleep(pass)
			if got := g.High(); got != want {
				t.Errorf("%s: %t", what, got)
			}
		}
		look(time.Hour, time.Second, false, "what was before it was watched")
		look(10*time.Millisecond, 200*time.Millisecond, false, "a little")
		look(30*time.Millisecond, 200*time.Millisecond, true, "much")
		look(0, time.Second, true, "shortly after")
		look(0, 1500*time.Millisecond, false, "later")
		look(time.Hour, time.Minute, false, "a minute that nobody looked at")
		look(90*time.Millisecond, 50*time.Millisecond, false, "too short a time")
		look(0, 60*time.Millisecond, true, "a little more")
		g.Watch(nil)
		look(time.Second, 3*time.Second, false, "nobody is watched")
		g = NewGauge(broken{}, 0.1)
		g.Watch([]string{"p"})
		look(0, time.Second, true, "what cannot be read")
	})
}

// broken can read nothing.
type broken struct{ Kernel }

func (broken) Read(string) (string, error) { return "", syscall.EOPNOTSUPP }
