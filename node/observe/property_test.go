package observe

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A rate is a difference of two readings that were made, over the time between them, or there is none.
func TestRateProperty(t *testing.T) {
	l := limits{least: 100 * time.Millisecond, most: time.Minute, maxAge: 30 * time.Second}
	rapid.Check(t, func(t *rapid.T) {
		type made struct {
			at    time.Duration
			value int64
		}
		var readings []made
		var values [3]int64
		track, now, ok := newTrack(), time.Duration(0), false
		for range rapid.IntRange(1, 30).Draw(t, "readings") {
			step := rapid.OneOf(rapid.Int64Range(1, 300), rapid.Int64Range(1000, 5000), rapid.Int64Range(50_000, 70_000)).Draw(t, "ms")
			now += time.Duration(step) * time.Millisecond
			if ok = rapid.IntRange(0, 5).Draw(t, "fails") > 0; !ok {
				track.fail(Failed)
			} else {
				values[track.free] = rapid.Int64Range(0, 1_000_000).Draw(t, "value")
				readings = append(readings, made{now, values[track.free]})
				track.accept(now, l.least)
			}
			s := track.span(now, l)
			got := rate(&s, counter{values[track.last], values[track.base], true, true}, 1)
			value, has := got.Within(math.MaxInt64)
			assertState(t, got, ok, l)
			if !has {
				n := len(readings)
				if ok && n > 1 && readings[n-1].value >= readings[n-2].value {
					if d := readings[n-1].at - readings[n-2].at; d >= l.least && d <= l.most && track.before == readings[n-2].at {
						t.Fatalf("no rate over %v: %v", d, got)
					}
				}
				continue
			}
			last := readings[len(readings)-1]
			isBase := func(base made) bool {
				d := last.at - base.at
				want := float64(last.value-base.value) / d.Seconds()
				return d >= l.least && d <= l.most && last.value >= base.value && math.Abs(want-value) < 1e-6*(1+want)
			}
			if !slices.ContainsFunc(readings[:len(readings)-1], isBase) {
				t.Fatalf("%v is between no two of %v", value, readings)
			}
		}
	})
}

// assertState holds what a state means: Valid after a reading that went well, Stale not for ever.
func assertState(t *rapid.T, s Sample[float64], ok bool, l limits) {
	value, has := s.Within(math.MaxInt64)
	if (s.State() == Valid) != (has && ok) || s.State() == Stale && ok {
		t.Fatalf("%v after a reading that went well: %v", s, ok)
	}
	if s.State() == Stale && s.Age() > l.maxAge {
		t.Fatalf("a sample is stale for %v", s.Age())
	}
	if !has && value != 0 {
		t.Fatalf("%v without a value gives %v", s, value)
	}
}

// TestStory lets cgroups come and go, each using CPU at a rate of its own as long as it lives, while reads fail. Whatever the Reader says
// of a cgroup's CPU and memory is true of the one that lives now; it has no file open too many, and none at the end.
func TestStory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &story{kernel: newFakeKernel(), cores: map[string]float64{}, born: map[string]time.Duration{}, now: time.Second}
		r := New(w.kernel, Params{
			SlowEvery:    rapid.IntRange(1, 4).Draw(t, "slow"),
			MaxOpenFiles: rapid.SampledFrom([]int{1, 7, 100}).Draw(t, "open"),
		})
		for range rapid.IntRange(2, 40).Draw(t, "steps") {
			w.step(t)
			var cgroups []Cgroup
			for i := range 3 {
				if rapid.IntRange(0, 9).Draw(t, "listed") > 0 {
					cgroups = append(cgroups, Cgroup{ID: fmt.Sprint(i), Dir: fmt.Sprint(i), Threads: true})
				}
			}
			o := r.Read(w.now, cgroups)
			for i := range o.Cgroups {
				w.check(t, &o.Cgroups[i])
			}
			if w.kernel.open != o.Counts.OpenFiles || w.kernel.open > r.params.MaxOpenFiles {
				t.Fatalf("%d files open, %d counted", w.kernel.open, o.Counts.OpenFiles)
			}
			if rapid.Bool().Draw(t, "recycle") {
				r.Recycle(o)
			}
		}
		r.Close()
		if w.kernel.open != 0 {
			t.Fatalf("%d files open at the end", w.kernel.open)
		}
	})
}

type story struct {
	kernel *fakeKernel
	cores  map[string]float64 // of the cgroups that live
	born   map[string]time.Duration
	now    time.Duration
}

func (w *story) step(t *rapid.T) {
	w.now += time.Duration(rapid.Int64Range(50, 3000).Draw(t, "ms")) * time.Millisecond
	dir := fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "cgroup"))
	switch rapid.IntRange(0, 3).Draw(t, "what") {
	case 0:
		w.kernel.remove("sys/fs/cgroup/" + dir)
		delete(w.cores, dir)
	case 1:
		if w.cores[dir] == 0 {
			w.cores[dir], w.born[dir] = float64(rapid.IntRange(1, 64).Draw(t, "cores")), w.now
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(w.cores)) {
		cores := w.cores[dir]
		usage := int64(cores * float64((w.now - w.born[dir]).Microseconds()))
		w.kernel.write("sys/fs/cgroup/"+dir+"/cpu.stat", fmt.Sprintf("usage_usec %d\nuser_usec 0\nsystem_usec 0\n", usage))
		w.kernel.write("sys/fs/cgroup/"+dir+"/memory.current", fmt.Sprintf("%d\n", w.now))
		w.kernel.write("sys/fs/cgroup/"+dir+"/pids.current", fmt.Sprintf("%d\n", w.born[dir]))
	}
	for _, name := range slices.Sorted(maps.Keys(w.kernel.files)) {
		f := w.kernel.files[name]
		f.openErr, f.readErr = nil, nil
		switch rapid.IntRange(0, 9).Draw(t, "fault") {
		case 0:
			f.openErr = errnos["EACCES"]
		case 1:
			f.readErr = errnos["EIO"]
		case 2:
			f.text = f.text[:len(f.text)/2]
		}
	}
}

func (w *story) check(t *rapid.T, c *CgroupUse) {
	cores, alive := w.cores[c.ID]
	if usage, ok := c.CPU.Usage.Get(); ok && (!alive || math.Abs(usage-cores) > 1e-3*cores+1e-4) {
		t.Fatalf("cgroup %s uses %v, not %v (alive: %v)", c.ID, usage, cores, alive)
	}
	if c.CPU.Usage.State() == Reversed {
		t.Fatalf("cgroup %s: two lives were compared", c.ID)
	}
	if memory, ok := c.Memory.Current.Get(); ok && (!alive || time.Duration(memory) != w.now-c.Memory.Current.Age()) {
		t.Fatalf("cgroup %s has %v, not %v (alive: %v)", c.ID, memory, w.now, alive)
	}
}
