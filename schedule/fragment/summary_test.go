package fragment

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/topology"
)

// requestOf is the request of one of the Sizes, without CPU.
func requestOf(size int) Request {
	if Sizes[size] < topology.FullGPU {
		return slice(0, int16(Sizes[size]))
	}
	return whole(0, int8(Sizes[size]/topology.FullGPU))
}

// TestSummaryIsFGDs: for each size, what is useless is FGD's fragmentation under a mix of that size alone, and as many fit as can be placed one
// after the other.
func TestSummaryIsFGDs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rest GPUSummary
		var want ModelSummary
		for range rapid.IntRange(1, 4).Draw(t, "nodes") {
			free := rapid.SliceOfN(rapid.SampledFrom([]int32{0, 100, 249, 250, 400, 500, 760, 1000, 1000, 1000}), 1, 9).Draw(t, "free")
			n := node(0, "m", free...)
			rest.Add(&topology.View{Shape: &n.Shape, Free: &n.Free})
			want.Left += n.Free.Total(n.Shape)
			for size := range Sizes {
				r := requestOf(size)
				want.Useless[size] += int64(Target{{r, 1}}.Fragmentation(&n) + 0.5)
				for left := n; left.Fits(&r); want.Fits[size]++ {
					left.Take(&r, slices.IndexFunc(left.Free[:], func(f int32) bool { return f >= Sizes[size] }))
				}
			}
		}
		got := rest.Models()[0]
		if got.Left != want.Left || got.Useless != want.Useless || got.Fits != want.Fits {
			t.Fatalf("got %+v, want %+v", got, want)
		}
		if got.Idle+got.Shared+got.Held != got.GPUs {
			t.Fatalf("%+v: a GPU is several things, or none", got)
		}
		part, ok := got.Fragmentation(2)
		if ok != (want.Left > 0) || ok && part != float64(want.Useless[2])/float64(want.Left) {
			t.Fatalf("fragmentation %v, %v of %+v", part, ok, want)
		}
	})
}

// TestSummaryOfDevices counts what an agent reports: GPUs of every kind.
func TestSummaryOfDevices(t *testing.T) {
	gpu := topology.GPU{Memory: 8192, Grain: 20, Clients: 2, Strengths: topology.StrengthsOf(topology.Soft)}
	divided := topology.GPU{
		Memory: 8192, Strengths: topology.StrengthsOf(topology.Hard),
		Instances: []topology.Instance{{Name: "1g", Milli: 250, Memory: 1024}, {Name: "2g", Milli: 500, Memory: 4096}},
	}
	d := &topology.Devices{Owner: topology.OwnerHilbert, GPU: []topology.GPU{gpu, gpu, gpu, gpu, divided, divided}, ClosedGPUs: 0b1000}
	free, left := topology.NewFree(topology.Shape{Devices: d}), topology.NewDeviceFree(d)
	v := topology.View{Shape: &topology.Shape{Devices: d, Model: "m"}, Free: &free, Devices: &left}
	for _, g := range []topology.Grant{
		{GPUs: 0b1, Milli: 1000},
		{GPUs: 0b10, Milli: 260, Memory: 10, Isolation: topology.Soft},
		{GPUs: 0b100000, Milli: 250, Memory: 1024, Isolation: topology.Hard, Instance: 1},
		{GPUs: 0b100000, Milli: 500, Memory: 4096, Isolation: topology.Hard, Instance: 2},
	} {
		v.Commit(&g)
	}
	var rest GPUSummary
	rest.Add(&v)
	want := ModelSummary{
		Model: "m", GPUs: 6, Idle: 1, Shared: 1, Divided: 1, Held: 2, Closed: 1, Left: 740 + 1000 + 750,
		Useless: [...]int64{0, 0, 740 + 750, 2490, 2490, 2490},
		Fits:    [...]int64{1 + 2 + 2, 1 + 2 + 1, 1, 0, 0, 0},
	}
	if got := rest.Models(); len(got) != 1 || *got[0] != want {
		t.Errorf("got  %+v\nwant %+v", *got[0], want)
	}
	d.Owner = topology.OwnerNone
	rest = GPUSummary{}
	rest.Add(&v)
	if m := rest.Models()[0]; m.Closed != 6 || m.Left != 0 || m.Fits != (ModelSummary{}).Fits {
		t.Errorf("nobody gives them out: %+v", m)
	}
	if _, ok := rest.Models()[0].Fragmentation(0); ok {
		t.Error("nothing is left, and a part of it is useless")
	}
}

func TestRestIsBounded(t *testing.T) {
	var rest GPUSummary
	for i := range MaxModels + 5 {
		n := node(0, fmt.Sprintf("m%03d", i), 1000, 500)
		for range 2 {
			rest.Add(&topology.View{Shape: &n.Shape, Free: &n.Free})
		}
	}
	models := rest.Models()
	if len(models) != MaxModels+1 || models[0].Model != OtherModels || models[0].GPUs != 20 || models[1].GPUs != 4 {
		t.Errorf("%d models, the first %+v", len(models), models[0])
	}
}

// BenchmarkSummary is a scrape of 20,000 nodes of eight GPUs.
func BenchmarkSummary(b *testing.B) {
	gpu := topology.GPU{Memory: 81920, Grain: 8, Clients: 24, Strengths: topology.StrengthsOf(topology.Accounting, topology.Soft)}
	d := &topology.Devices{Owner: topology.OwnerHilbert, GPU: slices.Repeat([]topology.GPU{gpu}, 8)}
	shape := topology.Shape{Devices: d, Model: "m"}
	const nodes = 20_000
	free, left := make([]topology.Free, nodes), make([]topology.DeviceFree, nodes)
	for i := range nodes {
		free[i], left[i] = topology.NewFree(shape), topology.NewDeviceFree(d)
		v := topology.View{Shape: &shape, Free: &free[i], Devices: &left[i]}
		for g := range i % 9 {
			v.Commit(&topology.Grant{GPUs: 1 << g, Milli: int16(100 + 100*(i%10)), Memory: 100, Isolation: topology.Soft})
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		var rest GPUSummary
		for i := range nodes {
			rest.Add(&topology.View{Shape: &shape, Free: &free[i], Devices: &left[i]})
		}
	}
}
