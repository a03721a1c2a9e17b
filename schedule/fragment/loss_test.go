package fragment

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/topology"
)

// The loss is the worth before less the worth after, whatever GPU a request is given.
func TestLossIsItsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.SliceOfN(rapid.Custom(drawNode), 1, 12).Draw(t, "nodes")
		kinds := rapid.SliceOfN(rapid.Custom(drawRequest), 1, 6).Draw(t, "kinds")
		m := learned(nodes, kinds...)
		for i := range nodes {
			n, p := &nodes[i], m.At(nodes[i].Shape.Model)
			for k := range kinds {
				r := &kinds[k]
				for gpu := range max(n.Shape.GPUs, 1) {
					if !n.Fits(r) || r.GPU.Milli > 0 && n.Free[gpu] < int32(r.GPU.Milli) {
						continue
					}
					after := *n
					g := after.Take(r, gpu)
					was, is := p.State(n), p.State(&after)
					got, want := p.Loss(&n.Free, n.CPU, after.CPU, &g), was.Worth()-is.Worth()
					if !(math.Abs(got-want) <= 1e-6*max(1, was.Worth())) {
						t.Fatalf("node %+v, request %+v on GPU %d: %v, want %v", n, r, gpu, got, want)
					}
				}
			}
		}
	})
}

func TestRatioStep(t *testing.T) {
	for cpu := int64(0); cpu < 400_000; cpu += 37 {
		x := float64(cpu)/1000 + 0.5
		if got, want := ratioStep(x), int8(math.Round(cpuSteps*math.Log(x))); got != want {
			t.Fatalf("%v has step %d, want %d", x, got, want)
		}
	}
}

// No node between two amounts of CPU loses less than LeastLoss, and it is the loss where they are one amount.
func TestLeastLoss(t *testing.T) {
	tight := 0
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.SliceOfN(rapid.Custom(drawNode), 1, 12).Draw(t, "nodes")
		kinds := rapid.SliceOfN(rapid.Custom(drawRequest), 1, 6).Draw(t, "kinds")
		m := learned(nodes, kinds...)
		n, r := &nodes[0], rapid.Custom(drawRequest).Draw(t, "request")
		r.Models = Models{}
		n.CPU = rapid.Int64Range(r.CPU, 200_000).Draw(t, "cpu")
		grant, ok := topology.OfferGPUs(n.Shape, &n.Free, r.GPU)
		if !ok {
			return
		}
		p := m.At(n.Shape.Model)
		e := p.Exchange(&n.Free, &grant)
		e.Bound()
		loss := e.Loss(n.CPU, n.CPU-r.CPU)
		least, most := rapid.Int64Range(r.CPU, n.CPU).Draw(t, "least"), rapid.Int64Range(n.CPU, 400_000).Draw(t, "most")
		if bound := e.LeastLoss(least, most, r.CPU); bound > loss {
			t.Fatalf("%v of %+v: it loses %v, by the bound of %d to %d millicores %v", r, n, loss, least, most, bound)
		}
		if e.falls {
			tight++
		}
		if bound := e.LeastLoss(n.CPU, n.CPU, r.CPU); math.Abs(bound-loss) > 1e-3 {
			t.Fatalf("%v of %+v: it loses %v, the bound of its CPU alone is %v", r, n, loss, bound)
		}
	})
	if tight == 0 {
		t.Error("no bound was the closer one")
	}
}

// GPUs in another order lose the same, to the last bit.
func TestLossIgnoresTheOrderOfGPUs(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	n := node(64_000, "A", 1000, 1000, 870, 640, 530, 410, 310, 190)
	p := learned([]Node{n}, slice(3000, 190), slice(7000, 330), slice(1000, 470), whole(9000, 1)).At("A")
	for range 2000 {
		for i := range n.Shape.GPUs {
			n.Free[i] = []int32{1000, 870, 640, 530, 410, 310, 190}[random.IntN(7)]
		}
		other := n.Free
		random.Shuffle(n.Shape.GPUs, func(i, j int) { other[i], other[j] = other[j], other[i] })
		before, request := random.Int64N(64_000), topology.Request{Milli: 190}
		g, _ := topology.OfferGPUs(n.Shape, &n.Free, request)
		h, _ := topology.OfferGPUs(n.Shape, &other, request)
		if a, b := p.Loss(&n.Free, before, before/2, &g), p.Loss(&other, before, before/2, &h); a != b {
			t.Fatalf("%v loses %v, %v %v", n.Free, a, other, b)
		}
	}
}
