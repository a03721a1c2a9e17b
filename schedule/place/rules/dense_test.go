package rules

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/resource"
)

// TestBoundsHold draws nodes, over-committed ones too, a pod and weights. No bound may be below a score: a node must be looked at when the bar is
// just below it, by a point of score or by one of the tie, and so must each box that it is in.
func TestBoundsHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := map[string]int64{"GPUPacking": rapid.Int64Range(0, 20).Draw(t, "packing")}
		for _, name := range []string{"LeastAllocated", "BalancedAllocation", "MostAllocated"} {
			weights[name] = rapid.Int64Range(0, 3).Draw(t, name)
		}
		profile, err := NewProfile(weights)
		if err != nil {
			t.Fatal(err)
		}
		x := DenseScorer{profile: profile, Filters: true, canScore: true, Bounded: true, pods: 1}
		for i, most := range [2]int64{32_000, 128 << 30} {
			if rapid.Bool().Draw(t, "asks") {
				x.requests[i] = rapid.Int64Range(0, most).Draw(t, "request")
			}
			x.scored[i] = max(x.requests[i], rapid.Int64Range(0, most/10).Draw(t, "scored"))
			if rapid.IntRange(0, 9).Draw(t, "extreme") == 0 {
				x.requests[i], x.scored[i] = rapid.SampledFrom([]int64{0, resource.MaxAmount}).Draw(t, "extreme request"), resource.MaxSum
			}
		}
		x.bounds = x.boundTerms()
		machine := drawDense(t, nil)
		var all, left, right Box
		for i := range rapid.IntRange(1, 6).Draw(t, "nodes") {
			like := &machine
			if rapid.Bool().Draw(t, "another machine") {
				like = nil
			}
			d, tie := drawDense(t, like), rapid.Uint32Range(1, math.MaxUint32).Draw(t, "tie")
			outline := d.Outline()
			checkConversions(t, &x.bounds, &outline)
			box := []*Box{&left, &right}[i%2]
			box.Add(&outline, &d, tie)
			all = Box{}
			all.Merge(&left)
			all.Merge(&right)
			boxes := []*Box{box, &all}
			checkBounds(t, &x, &d, tie, boxes)
		}
	})
}

// drawDense draws what a node has; like another one: as a machine.
func drawDense(t *rapid.T, like *Dense) Dense {
	d := Dense{open: true, pods: rapid.Int32Range(0, 10).Draw(t, "pods"), packing: int8(rapid.IntRange(0, MaxScore).Draw(t, "packed")), gpus: rapid.Bool().Draw(t, "GPUs")}
	var used [2]int64
	for i, most := range [2]int64{256_000, 2 << 40} {
		if d.allocatable[i] = rapid.Int64Range(0, most).Draw(t, "allocatable"); like != nil {
			d.allocatable[i] = like.allocatable[i]
		}
		used[i] = rapid.Int64Range(0, d.allocatable[i]+d.allocatable[i]/20).Draw(t, "used")
		if rapid.Bool().Draw(t, "in percent") { // where scores change
			used[i] = d.allocatable[i] / 100 * rapid.Int64Range(0, 100).Draw(t, "percent")
		}
		d.free[i] = d.allocatable[i] - used[i]
		d.scored[i] = used[i] + rapid.Int64Range(0, most/8).Draw(t, "scored beyond what is requested")
		if rapid.IntRange(0, 9).Draw(t, "extreme") == 0 { // a tiny machine, or one with very many pods without requests
			used[i] = rapid.Int64Range(0, 1).Draw(t, "used of one")
			d.allocatable[i], d.free[i], d.scored[i] = 1, 1-used[i], resource.MaxSum
		}
	}
	d.balance = int8(balance(used, d.allocatable))
	return d
}

// checkConversions: an int64 holds what bounds convert to one. On amd64 a float that is too small happens to give the right bound.
func checkConversions(t *rapid.T, of *boundTerms, o *Outline) {
	const most = math.MaxInt64 / MaxScore
	for i := range o.left {
		if taken := max(of.requests[i], of.scored[i]) * o.share[i]; magnitude(o.left[i])+magnitude(o.skew)+taken >= most {
			t.Fatalf("%+v of %+v: the node has %g left and the pod takes %g of it", of, o, o.left[i], taken)
		}
	}
}

func checkBounds(t *rapid.T, x *DenseScorer, d *Dense, tie uint32, boxes []*Box) {
	fits := x.Fits(d)
	for _, b := range boxes {
		if fits && !x.FitSome(b) || !fits && x.FitAll(b) {
			t.Fatalf("%+v: %v that %+v lets the pod in, its box %+v says some %v, all %v", x, fits, d, b, x.FitSome(b), x.FitAll(b))
		}
	}
	if !fits {
		return
	}
	score, outline := x.Score(d), d.Outline()
	for _, b := range boxes {
		if bound := x.BoxBound(b); bound < score || b.Tie() < tie {
			t.Fatalf("%+v scores %d by %+v with the tie %d, and its box %+v has the bound %d", d, score, x, tie, b, bound)
		}
	}
	for _, bar := range []Bar{{score - 1, math.MaxUint32}, {score, tie - 1}, {NoBar, 0}} {
		v := ScanInput{Outlines: []Outline{outline}, Ties: []uint32{tie}, Of: []int32{0}, Position: []int32{0}, Bars: []Bar{bar}}
		if x.Next(&v, 0) != 0 {
			t.Fatalf("%+v scores %d by %+v with the tie %d, and was skipped for %+v", d, score, x, tie, bar)
		}
	}
	if closed := (&Dense{}).Outline(); x.MayBeat(&closed, tie, Bar{NoBar, 0}) {
		t.Fatalf("a pod may go to a closed node by the outline %+v", closed)
	}
}
