package observe

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// peakKernel is a kernel with one cgroup, which knows its memory's peak since it was made and, unless it is old, since each reader began it anew.
type peakKernel struct {
	*fakeKernel
	old     bool
	refuses bool // to begin a peak anew
	peak    int64
	current int64
	readers map[*peakHandle]int64
}

type peakHandle struct {
	*fakeHandle
	kernel *peakKernel
}

func newPeakKernel() *peakKernel {
	return &peakKernel{fakeKernel: newFakeKernel(), readers: make(map[*peakHandle]int64)}
}

const peakDir = "sys/fs/cgroup/pod/app/"

// use is what the cgroup has from now on, with so much cache in it.
func (k *peakKernel) use(bytes, cache int64) {
	k.current, k.peak = bytes, max(k.peak, bytes)
	for r := range k.readers {
		k.readers[r] = max(k.readers[r], bytes)
	}
	k.write(peakDir+"memory.current", fmt.Sprintln(bytes))
	k.write(peakDir+"memory.stat", fmt.Sprintf("anon %d\ninactive_file %d\n", bytes-cache, cache))
	k.write(peakDir+"memory.peak", fmt.Sprintln(k.peak))
}

// limited is how often the cgroup was at its limit.
func (k *peakKernel) limited(times int) {
	k.write(peakDir+"memory.events", fmt.Sprintf("low 0\nhigh 0\nmax %d\noom 0\noom_kill 0\n", times))
}

func (k *peakKernel) OpenPeak(name string) (File, error) {
	f, err := k.Open(name)
	if err != nil || k.old {
		return f, err
	}
	return &peakHandle{f.(*fakeHandle), k}, nil
}

func (h *peakHandle) Restart() error {
	if h.kernel.refuses {
		return os.ErrPermission
	}
	h.kernel.readers[h] = h.kernel.current
	return nil
}

func (h *peakHandle) ReadAt(p []byte, offset int64) (int, error) {
	since, restarted := h.kernel.readers[h]
	if n, err := h.fakeHandle.ReadAt(p, offset); err != nil || !restarted {
		return n, err
	}
	text := strconv.FormatInt(since, 10) + "\n"
	return copy(p, text[min(int(offset), len(text)):]), nil
}

func (h *peakHandle) Close() error {
	delete(h.kernel.readers, h)
	return h.fakeHandle.Close()
}

// TestPeaks: whatever a cgroup does, and whatever the kernel can, a peak that is told is the peak of the time between the last two readings. A kernel that can begin a peak anew
// tells each; one that cannot tells those that are higher than all before. Of a cgroup at its limit nothing is told of what is in use.
func TestPeaks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		k := newPeakKernel()
		k.old = rapid.Bool().Draw(t, "old kernel")
		r := New(k, Params{SlowEvery: 1, MaxOpenFiles: rapid.SampledFrom([]int{1, 1000}).Draw(t, "files")})
		defer r.Close()
		precise := !k.old && r.params.MaxOpenFiles > 1
		limits, ever, before := 0, int64(0), int64(0)
		for round := range rapid.IntRange(2, 12).Draw(t, "rounds") {
			if round > 0 && rapid.IntRange(0, 9).Draw(t, "made anew") == 0 {
				k.remove("sys/fs/cgroup/pod/app")
				k.peak, k.current, ever, before, round = 0, 0, 0, 0, 0
			}
			high, used, cacheMost := k.current, k.current-before, before
			for range rapid.IntRange(1, 4).Draw(t, "changes") {
				bytes := rapid.Int64Range(0, 1000).Draw(t, "bytes")
				cache := rapid.Int64Range(0, bytes).Draw(t, "cache")
				k.use(bytes, cache)
				high, used, cacheMost = max(high, bytes), max(used, bytes-cache), max(cacheMost, cache)
			}
			limited := rapid.IntRange(0, 4).Draw(t, "limited") == 0
			if limited {
				limits++
			}
			k.limited(limits)
			had := ever
			ever = k.peak
			o := r.Read(time.Duration(r.tick)*5*time.Second, []Cgroup{{ID: "app", Dir: "pod/app", Peak: true}})
			p := peakRound{high: high, used: used, cacheMost: cacheMost, before: before, told: round > 0 && (precise || ever > had), limited: limited}
			before = p.check(t, &o.Cgroups[0].Memory)
		}
	})
}

// peakRound is what a cgroup did between two readings, in bytes.
type peakRound struct {
	high, used int64 // the most at once: with cache, and without
	cacheMost  int64 // the most cache
	before     int64 // the cache at the reading before
	told       bool  // its peak is to be told
	limited    bool  // it was at its limit
}

// check compares it with a reading, and returns the cache that was read.
func (p *peakRound) check(t *rapid.T, m *CgroupMemory) (cache int64) {
	got, known := m.Peak.Get()
	if known != p.told || known && got != p.high {
		t.Fatalf("peak %d %v; want %d, %v: %s", got, known, p.high, p.told, m.Peak.Reason())
	}
	inUse, told := m.PeakInUse.Get()
	if told != (known && !p.limited) {
		t.Fatalf("in use is told: %v, and the peak: %v, at the limit: %v", told, known, p.limited)
	}
	cache, _ = m.InactiveFile.Get()
	if want := max(0, p.high-max(cache, p.before)); told && inUse != want {
		t.Fatalf("%d in use; want %d", inUse, want)
	}
	if told && inUse > p.used && p.cacheMost <= max(cache, p.before) {
		t.Fatalf("%d in use, but it had %d without cache at most", inUse, p.used)
	}
	return cache
}

// TestPeaksThatAreNotAskedFor: their file is not opened, and they are not known.
func TestPeaksThatAreNotAskedFor(t *testing.T) {
	t.Parallel()
	for _, asked := range []bool{false, true} {
		k := newPeakKernel()
		r := New(k, Params{SlowEvery: 1})
		for i, bytes := range []int64{100, 300} {
			k.use(bytes, 0)
			k.limited(0)
			o := r.Read(time.Duration(i)*time.Second, []Cgroup{{ID: "app", Dir: "pod/app", Peak: asked}})
			if peak, known := o.Cgroups[0].Memory.Peak.Get(); known != (asked && i == 1) || known && peak != 300 {
				t.Errorf("asked %v, reading %d: %d %v", asked, i, peak, known)
			}
		}
		if len(k.readers) > 0 != asked {
			t.Errorf("asked %v: %d files", asked, len(k.readers))
		}
		r.Close()
	}
}

// TestPeakThatCannotBeginAnew: a refusal makes the peak one of which only the rise is known, until the kernel obeys again.
func TestPeakThatCannotBeginAnew(t *testing.T) {
	t.Parallel()
	k := newPeakKernel()
	k.limited(0)
	r := New(k, Params{SlowEvery: 1})
	defer r.Close()
	var got []string
	for i, bytes := range []int64{500, 100, 200, 300, 100, 150} {
		k.use(bytes, 0)
		k.refuses = i == 1 || i == 2
		m := &r.Read(time.Duration(i)*time.Second, []Cgroup{{ID: "app", Dir: "pod/app", Peak: true}}).Cgroups[0].Memory
		peak, known := m.Peak.Get()
		got = append(got, fmt.Sprint(peak, " ", known))
	}
	// The second reading is since the first, which began anew; the third and the fourth are since the first as well, and not known unless they rise.
	if want := []string{"0 false", "500 true", "0 false", "0 false", "300 true", "150 true"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestPeakFiles: a file that may be written can begin anew, another is read all the same.
func TestPeakFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "memory.peak"), []byte("700\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Root(dir).(PeakFiles).OpenPeak("memory.peak")
	if err != nil {
		t.Fatal(err)
	}
	if p, can := f.(PeakFile); !can || p.Restart() != nil {
		t.Errorf("%T cannot begin anew", f)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "memory.peak")); err != nil || string(text) == "700\n" {
		t.Errorf("nothing was written: %q %v", text, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Root(dir).(PeakFiles).OpenPeak("other"); reasonOf(err) != Absent {
		t.Errorf("a file that is not there: %v", err)
	}
}
