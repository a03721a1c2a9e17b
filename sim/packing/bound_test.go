package packing

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/schedule/fragment"
	"hilbert.dev/hilbert/topology"
)

func TestCeiling(t *testing.T) {
	for _, c := range []struct {
		name    string
		demands []demand
		gpus    int
		want    float64
	}{
		{"nothing is asked for", nil, 3, 0},
		{"all fits", []demand{{1000, 2, 3}}, 4, 3000},
		{"the GPUs are the limit", []demand{{1000, 2, 9}}, 4, 4000},
		{"each 810 leaves 190, and four are filled", []demand{{190, 0, 4}, {810, 10, 10}}, 10, 8860},
		{"whole ones are better than 810s, but the 810s are placed", []demand{{810, 6, 6}, {1000, 0, 10}}, 10, 8860},
		{"810s that are not placed need not be", []demand{{810, 0, 6}, {1000, 0, 10}}, 10, 10_000},
		{"pairs of 470s", []demand{{470, 20, 30}}, 10, 9400},
		{"a part of a cut counts", []demand{{400, 0, 9}, {600, 0, 1}}, 2, 1800},
	} {
		if got := ceiling(c.demands, c.gpus); math.Abs(got-c.want) > 0.01 {
			t.Errorf("%s: %.3f, want %.0f", c.name, got, c.want)
		}
	}
}

// The pods before the one that is named are placed, and only they; one that asks for several GPUs counts for as many.
func TestBoundOfArrivals(t *testing.T) {
	a := &Arrivals{
		kinds: []fragment.Request{{GPU: topology.Request{Milli: 810}}, {CPU: 1000}, {GPU: topology.Request{Whole: 2}}},
		pods:  []int32{0, 1, 0, 0, 0, 0, 2, 2, 2, 2, 2},
	}
	for _, c := range []struct {
		before int
		gpus   int64
		want   float64
	}{{0, 10, 10_000}, {1, 10, 9810}, {3, 10, 9620}, {11, 16, 14_050}} {
		a.capacity = c.gpus * topology.FullGPU
		if got := a.bound(c.before); math.Abs(got-c.want) > 0.01 {
			t.Errorf("%d before: %.2f on %d GPUs, want %.0f", c.before, got, c.gpus, c.want)
		}
	}
}

// Nothing that can be packed is above the ceiling, and the ceiling is no more than the GPUs and what is asked for.
func TestCeilingHolds(t *testing.T) {
	tight := 0
	rapid.Check(t, func(t *rapid.T) {
		gpus := rapid.IntRange(1, 3).Draw(t, "gpus")
		var demands []demand
		size, asked := 0, 0
		for range rapid.IntRange(1, 4).Draw(t, "sizes") {
			size += rapid.IntRange(1, 7).Draw(t, "more") * 50
			if size > topology.FullGPU {
				break
			}
			all := rapid.IntRange(1, 3).Draw(t, "all")
			demands = append(demands, demand{size, rapid.IntRange(0, all).Draw(t, "placed"), all})
			asked += size * all
		}
		most, ok := pack(demands, make([]int, gpus))
		if !ok {
			t.Skip("those that are placed do not fit")
		}
		got := ceiling(demands, gpus)
		if got < float64(most)-0.01 || got > float64(min(asked, gpus*topology.FullGPU))+0.01 {
			t.Fatalf("%v on %d: the ceiling is %.2f, and %d can be packed", demands, gpus, got, most)
		}
		if got < float64(most)+0.01 {
			tight++
		}
	})
	if tight == 0 {
		t.Error("the ceiling is never reached")
	}
}

// pack tries everything: the most that can be placed if those that have to be are. ok is false if they do not fit.
func pack(demands []demand, used []int) (most int, ok bool) {
	if len(demands) == 0 {
		return 0, true
	}
	d := demands[0]
	if d.all == 0 {
		return pack(demands[1:], used)
	}
	rest := append([]demand{{d.size, max(d.placed-1, 0), d.all - 1}}, demands[1:]...)
	if d.placed == 0 {
		most, ok = pack(rest, used)
	}
	for g := range used {
		if used[g]+d.size > topology.FullGPU {
			continue
		}
		used[g] += d.size
		if m, fits := pack(rest, used); fits && (!ok || m+d.size > most) {
			most, ok = m+d.size, true
		}
		used[g] -= d.size
	}
	return most, ok
}
