package fragment

import (
	"math"
	"testing"

	"pgregory.net/rapid"
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
