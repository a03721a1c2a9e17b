package rules

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestNextSkipsNoBetterNode draws nodes, over-committed ones too, and pods, and holds the bar just below each node: by a point of score, or by one
// of the tie. The node must not be skipped.
func TestNextSkipsNoBetterNode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		profile, err := NewProfile(map[string]int64{
			"LeastAllocated": rapid.Int64Range(0, 3).Draw(t, "least"), "BalancedAllocation": rapid.Int64Range(0, 3).Draw(t, "balanced"),
			"GPUPacking": rapid.Int64Range(-20, 20).Draw(t, "packing"),
		})
		if err != nil {
			t.Fatal(err)
		}
		d := Dense{open: true, pods: 10, packing: int8(rapid.IntRange(0, MaxScore).Draw(t, "packed"))}
		x := DenseScorer{profile: profile, Whole: true, bounded: true, pods: 1}
		var used [2]int64
		for i, most := range [2]int64{256_000, 2 << 40} {
			d.allocatable[i] = rapid.Int64Range(1, most).Draw(t, "allocatable")
			used[i] = rapid.Int64Range(0, d.allocatable[i]+d.allocatable[i]/3).Draw(t, "used")
			d.free[i] = d.allocatable[i] - used[i]
			d.scored[i] = used[i] + rapid.Int64Range(0, most/8).Draw(t, "scored beyond what is requested")
			if d.free[i] > 0 {
				x.requests[i] = rapid.Int64Range(0, d.free[i]).Draw(t, "request")
			}
			x.scored[i] = max(x.requests[i], rapid.Int64Range(0, most/100).Draw(t, "scored"))
		}
		d.balance = int8(balance(used, d.allocatable))
		if !x.Fits(&d) {
			t.Fatalf("%+v refuses %+v", d, x)
		}
		score, tie := x.Score(&d), rapid.Uint32Range(1, math.MaxUint32).Draw(t, "tie")
		for _, bar := range []Bar{{float32(score - 1), math.MaxUint32}, {float32(score), tie - 1}, {float32(math.Inf(-1)), 0}} {
			v := Sieve{Outlines: []Outline{profile.Outline(&d)}, Ties: []uint32{tie}, Of: []int32{0}, Position: []int32{0}, Bars: []Bar{bar}}
			if x.Next(&v, 0) != 0 {
				t.Fatalf("%+v scores %d by %+v with the tie %d, and was skipped for %+v", d, score, x, tie, bar)
			}
		}
		if closed := profile.Outline(&Dense{}); !math.IsInf(float64(closed.base), -1) {
			t.Fatalf("a closed node has the outline %+v", closed)
		}
	})
}
