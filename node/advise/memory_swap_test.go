package advise

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
)

// swapper is a node with swap and one reclaimed pod.
func swapper() (*MemoryObservation, *spec.NodeMemory) {
	p := spec.DefaultNodeMemory()
	p.Swap = spec.MemorySwap{Share: 0.5, Floor: 64 * mib, Step: 32 * mib, Interval: seconds(5)}
	pod := MemoryPod{
		ID: "a/b", Dir: "k/besteffort/pod1", Reclaimed: true, Amount: 256 * mib, NUMANode: AnyNUMANode, Current: Known(200 * mib), Swap: Known(0), SwapMax: Known(Unlimited),
		Pressure: Known(0), Refaults: Known(0), Anon: Known(200 * mib), InactiveFile: Known(0), ActiveFile: Known(0), SwapRoom: Known(0),
	}
	return &MemoryObservation{
		At: time.Minute, Total: Known(8 * gib), Free: Known(4 * gib), SwapTotal: Known(gib), SwapFree: Known(gib), OnlinePressure: Known(0), Headroom: Known(4 * gib), Pods: []MemoryPod{pod},
	}, &p
}

func seconds(n int) spec.Duration { return spec.Duration(time.Duration(n) * time.Second) }

// A pod may swap step by step up to its share; no more while somebody waits, it is at its floor, or swap is short; and nothing is set where nothing is wanted.
func TestSwaps(t *testing.T) {
	o, p := swapper()
	var m MemoryState
	pod := &o.Pods[0]
	next := func(after time.Duration, swap int64) int64 {
		t.Helper()
		o.At += after
		pod.Swap = Known(float64(swap))
		a := StepMemory(o, p, &m)
		if len(a.Swaps) != 1 || a.Swaps[0].Dir != pod.Dir || a.Swaps[0].Release {
			t.Fatalf("swaps %+v", a.Swaps)
		}
		return a.Swaps[0].Max
	}
	want := func(got, want int64) {
		t.Helper()
		if got != want {
			t.Errorf("it may swap %d MiB, want %d", got/mib, want/mib)
		}
	}
	want(next(time.Second, 0), 32*mib)
	want(next(time.Second, 20*mib), 32*mib) // once in an interval
	want(next(5*time.Second, 30*mib), 62*mib)
	want(next(5*time.Second, 120*mib), 128*mib) // half of its amount
	pod.Pressure = Known(p.Offload.Pressure)
	want(next(5*time.Second, 100*mib), 100*mib) // it waits
	pod.Pressure = Known(0)
	want(next(5*time.Second, 100*mib), 128*mib)
	o.OnlinePressure = Sample{} // whether others do is not known
	want(next(5*time.Second, 90*mib), 90*mib)
	want(next(5*time.Second, 95*mib), 90*mib)
	o.OnlinePressure = Known(p.Reclaim.Pressure) // they do
	want(next(5*time.Second, 95*mib), 90*mib)
	o.OnlinePressure = Known(0)
	pod.Current = Known(64 * mib) // the floor
	want(next(5*time.Second, 90*mib), 90*mib)
	pod.Current = Known(200 * mib)
	o.SwapFree = Known(float64(p.Offload.SwapReserve + 8*mib))
	want(next(5*time.Second, 90*mib), 98*mib)
	o.SwapFree = Known(float64(p.Offload.SwapReserve))
	want(next(5*time.Second, 90*mib), 90*mib)
	o.SwapFree = Known(gib)
	pod.Refaults = Known(100 * mib) // what went out comes back
	want(next(5*time.Second, 80*mib), 80*mib)
	pod.Refaults = Known(0)
	p.Swap.ZswapShare = 0.25
	o.At += time.Minute
	if a := StepMemory(o, p, &m); a.Swaps[0].Zswap != 64*mib {
		t.Errorf("zswap %+v", a.Swaps)
	}

	// Not wanted any more: what the kernel has is taken back, once.
	p.Swap.Share = 0
	pod.SwapMax = Known(80 * mib)
	if a := StepMemory(o, p, &m); len(a.Swaps) != 1 || !a.Swaps[0].Release || a.Swaps[0].Max != Unlimited {
		t.Errorf("swaps %+v, want what was set taken back", a.Swaps)
	}
	pod.SwapMax = Known(Unlimited)
	if a := StepMemory(o, p, &m); len(a.Swaps) != 0 {
		t.Errorf("swaps %+v, though nothing is wanted", a.Swaps)
	}
	p.Swap.Share = 0.5
	o.SwapTotal = Known(0)
	if a := StepMemory(o, p, &m); len(a.Swaps) != 0 {
		t.Errorf("swaps %+v on a node without swap", a.Swaps)
	}
}

// Whatever is seen: only reclaimed pods may swap; none gets more than its share or a step beyond what it has; and while it may not, its bound never rises.
func TestSwapsProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, p := swapper()
		m := MemoryState{}
		bound, at := int64(-1), time.Duration(-1)
		for range rapid.IntRange(1, 30).Draw(t, "ticks") {
			pod := &o.Pods[0]
			o.At += time.Duration(rapid.IntRange(0, 7).Draw(t, "after")) * time.Second
			pod.Swap, pod.Current, pod.Pressure, pod.Refaults = memSample().Draw(t, "swap"), memSample().Draw(t, "current"), memRate().Draw(t, "own"), memRate().Draw(t, "refaults")
			o.OnlinePressure, o.SwapFree = memRate().Draw(t, "online"), memSample().Draw(t, "free")
			a := StepMemory(o, p, &m)
			for _, s := range a.Swaps {
				used, known := bytesOf(pod.Swap)
				rose := s.Max > bound && bound >= 0
				switch {
				case s.Max < 0 || s.Release:
					t.Fatalf("%+v", s)
				case !known && rose, rose && o.At-at < p.Swap.Interval.D():
					t.Fatalf("it rose from %d to %d after %v", bound, s.Max, o.At-at)
				case known && rose && s.Max > min(128*mib, used+pageBytes+p.Swap.Step):
					t.Fatalf("it may swap %d with %d in swap", s.Max, used)
				}
				if pressure, ok := shareOf(o.OnlinePressure); (!ok || pressure >= p.Reclaim.Pressure) && rose {
					t.Fatalf("it rose to %d while others wait", s.Max)
				}
				if rose || bound < 0 {
					at = o.At
				}
				bound = s.Max
			}
		}
	})
}

// What a pod keeps at least is beside its sockets' buffers, which reclaim cannot get.
func TestLeastIsBesideSockets(t *testing.T) {
	o, p := swapper()
	o.Headroom = Known(mib)
	pod := &o.Pods[0]
	pod.Current, pod.Sockets = Known(70*mib), Known(10*mib)
	for _, c := range []struct {
		sockets Sample
		want    int64
	}{{Known(10 * mib), 74 * mib}, {Sample{}, 64 * mib}, {Known(gib), 256 * mib}} {
		pod.Sockets = c.sockets
		var m MemoryState
		if a := StepMemory(o, p, &m); len(a.Limits) != 1 || a.Limits[0].High != c.want {
			t.Errorf("limits %+v, want memory.high %d MiB", a.Limits, c.want/mib)
		}
	}
}
