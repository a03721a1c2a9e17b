package numa

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/topology"
)

// alone is one server of k workers on a machine of one zone, where nothing slows anything.
func alone(load, variability float64) *Options {
	o := DefaultOptions()
	o.Machine.Sockets, o.Machine.NUMANodes, o.Machine.Threads = 1, 1, 1
	o.Params = Params{Load: load, Variability: variability, Service: 5, Phase: 0.1}
	o.Seconds = 200
	return &o
}

func seated(o *Options, by Placement, cpus int) *node {
	n := newNode(&o.Machine, by)
	s := seat{server: server{id: 1, cpus: cpus, memory: 1024}}
	s.grant.CPUs[0], s.grant.Memory[0] = uint16(cpus), 1024
	n.seats = append(n.seats, s)
	return n
}

// TestQueueIsThatOfManyServers holds the mean wait against M/M/k, and against M/G/k with Lee and Longton's factor.
func TestQueueIsThatOfManyServers(t *testing.T) {
	for _, c := range []struct {
		workers     int
		load        float64
		variability float64
	}{{1, 0.5, 1}, {8, 0.8, 1}, {8, 0.8, 0.25}, {16, 0.9, 1}} {
		o := alone(c.load, c.variability)
		got := serve(o, seated(o, Static, c.workers), 7)
		a, b := float64(c.workers)*c.load, 1.0
		for k := 1; k <= c.workers; k++ {
			b = a * b / (float64(k) + a*b)
		}
		chance := b / (1 - c.load*(1-b))
		// A lognormal of variability 1 is no exponential: for more than one worker the factor is an approximation.
		wait := chance * 0.005 / (float64(c.workers) * (1 - c.load)) * (1 + c.variability) / 2
		mean := 0.0
		for _, x := range got.latencies {
			mean += x / float64(len(got.latencies))
		}
		if math.Abs(mean-0.005-wait) > 0.06*0.005+0.1*wait {
			t.Errorf("%+v: mean latency %.3f ms, want %.3f", c, mean*1000, 5+wait*1000)
		}
		if busy := got.busy / (got.span * float64(c.workers)); math.Abs(busy-c.load) > 0.02 {
			t.Errorf("%+v: busy %.3f", c, busy)
		}
	}
}

// short is a small experiment.
func short() Options {
	o := DefaultOptions()
	o.Seeds, o.Nodes, o.Seconds, o.Churn, o.Sweep = 2, 1, 0.5, 20, 0
	return o
}

// TestAwarenessPays: the gain is there, and goes where remote memory costs nothing.
func TestAwarenessPays(t *testing.T) {
	res, err := Run(t.Context(), short())
	if err != nil {
		t.Fatal(err)
	}
	stock, static, bound := &res.Mean[Stock], &res.Mean[Static], &res.Mean[Bound]
	if bound.Local < 95 || stock.Local > 60 || static.Split <= bound.Split {
		t.Errorf("local: stock %.1f, static %.1f, bound %.1f; split %.1f and %.1f", stock.Local, static.Local, bound.Local, static.Split, bound.Split)
	}
	for _, g := range res.Gains[:2] { // at equal terms
		if g.Mean.Mean < 3 || g.P99.Mean < 3 {
			t.Errorf("%s against %s: %+v", g.Of, g.Against, g)
		}
	}
	flat := short()
	flat.Machine.Near, flat.Machine.Far, flat.Machine.Link, flat.Params.Sibling = 1, 1, 1e9, 0
	flat.Machine.Bandwidth = 1e9
	if res, err = Run(t.Context(), flat); err != nil {
		t.Fatal(err)
	}
	for _, g := range res.Gains {
		if math.Abs(g.Mean.Mean) > 0.01 || math.Abs(g.P99.Mean) > 0.01 {
			t.Errorf("memory is equally near, and yet %s gains on %s: %+v", g.Of, g.Against, g)
		}
	}
}

// TestSameSeedSameFigures, and the same requests under each placement.
func TestSameSeedSameFigures(t *testing.T) {
	a, err := Run(t.Context(), short())
	if err != nil {
		t.Fatal(err)
	}
	b, err := Run(t.Context(), short())
	if err != nil {
		t.Fatal(err)
	}
	for i := range a.Runs {
		for by := range placements {
			if a.Runs[i].Outcomes[by] != b.Runs[i].Outcomes[by] {
				t.Errorf("seed %d: %+v and %+v", a.Runs[i].Seed, a.Runs[i].Outcomes[by], b.Runs[i].Outcomes[by])
			}
		}
		if o := a.Runs[i].Outcomes; o[Stock].Requests != o[Bound].Requests || o[Stock].Requests == 0 {
			t.Errorf("seed %d: %d and %d requests", a.Runs[i].Seed, o[Stock].Requests, o[Bound].Requests)
		}
	}
}

// TestStaticFillsTheFullestNUMANode: what the kubelet does without a topology manager, and Bound pods do not.
func TestStaticFillsTheFullestNUMANode(t *testing.T) {
	o := DefaultOptions()
	n := newNode(&o.Machine, Static)
	n.free[1].CPUs, n.free[2].CPUs = 10, 40
	g := n.offerStatic(server{cpus: 16, memory: 16 << 10})
	if g.CPUs[1] != 10 || g.CPUs[0] != 6 || g.Memory[1] != 10<<10 || g.Memory[0] != 6<<10 {
		t.Errorf("static: %s", g)
	}
	if g = n.offerStatic(server{cpus: 100, memory: 100 << 10}); g.CPUs[0] != 48 || g.CPUs[3] != 48 || g.CPUs[1] != 4 {
		t.Errorf("static, of whole NUMA nodes: %s", g)
	}
	n.by = Bound
	if g, ok := n.offer(server{cpus: 16, memory: 16 << 10}, false, nil); !ok || g.CPUs[2] != 16 {
		t.Errorf("aware: %s", g)
	}
	n.free[0].Memory, n.free[1].Memory = 1<<10, 0
	g = topology.NUMAGrant{}
	if n.pour(&g, 0, 4<<10); g.Memory[0] != 1<<10 || g.Memory[2] != 3<<10 {
		t.Errorf("memory without room: %s", g)
	}
}

// TestServe: all is served, nothing is left, whatever the parameters.
func TestServe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := short()
		o.Seconds, o.Churn = 0.05, 5
		o.Params.Load = rapid.Float64Range(0.1, 0.9).Draw(t, "load")
		o.Params.Flow = rapid.Float64Range(0, 8).Draw(t, "flow")
		o.Params.Burst = rapid.Float64Range(0, 0.9).Draw(t, "burst")
		o.Params.OneLoader = rapid.Bool().Draw(t, "oneLoader")
		o.Machine.Far = rapid.Float64Range(1, 4).Draw(t, "far")
		seed := rapid.Uint64Range(0, 1<<30).Draw(t, "seed")
		f := newFleet(&o, newDraw(seed))
		for _, n := range f.nodes {
			e := play(&o, n, seed)
			settled(t, &o, n, e)
			seatsHold(t, &o, n)
		}
	})
}

// settled: nobody is busy, nothing flows, and every latency is a number.
func settled(t *rapid.T, o *Options, n *node, e *engine) {
	for z := range o.Machine.numaNodes() {
		if e.busyIn[z] != 0 || e.from[z] > 1e-6 {
			t.Fatalf("%s: NUMA node %d: %d busy, %g GB/s left", n.by, z, e.busyIn[z], e.from[z])
		}
		if n.free[z].Memory < 0 || n.free[z].CPUs < 0 {
			t.Fatalf("%s: NUMA node %d has %+v", n.by, z, n.free[z])
		}
	}
	for _, x := range e.latencies {
		if !(x > 0) || math.IsInf(x, 0) {
			t.Fatalf("%s: a latency of %g", n.by, x)
		}
	}
}

// seatsHold: each server has its CPUs, unless it runs anywhere, and its memory.
func seatsHold(t *rapid.T, o *Options, n *node) {
	for i := range n.seats {
		cpus, memory := 0, 0
		for z := range o.Machine.numaNodes() {
			cpus += int(n.seats[i].grant.CPUs[z])
			memory += int(n.seats[i].grant.Memory[z])
		}
		if (n.by != Stock && cpus != n.seats[i].cpus) || memory < n.seats[i].memory-o.Machine.numaNodes() {
			t.Fatalf("%s: %+v", n.by, n.seats[i])
		}
	}
}

func TestBadOptions(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"seeds": func(o *Options) { o.Seeds = 0 }, "nodes": func(o *Options) { o.Nodes = -1 }, "load": func(o *Options) { o.Params.Load = 1 },
		"numaNodes": func(o *Options) { o.Machine.NUMANodes = 9 }, "burst": func(o *Options) { o.Params.Burst = 1 }, "full": func(o *Options) { o.Full = 1.1 },
		"seconds": func(o *Options) { o.Seconds = math.NaN() },
	} {
		o := short()
		change(&o)
		if _, err := Run(t.Context(), o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
