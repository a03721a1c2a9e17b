package advise

import (
	"math"
	"testing"
)

// TestPressureIsByCPU: of two pods whose threads wait equally the one with more threads has more pressure, and must not count for more.
func TestPressureIsByCPU(t *testing.T) {
	p := Defaults()
	pod := func(pool string, use, pressure Sample) Service {
		return Service{ID: "a", Pool: pool, CPUUse: use, CPUPressure: pressure}
	}
	for _, c := range []struct {
		name string
		node Sample
		pods []Service
		want Sample
	}{
		{"one CPU", Known(0.5), []Service{pod("share", Known(1), Known(0.5))}, Known(0.5)},
		{"half a CPU", Known(0.5), []Service{pod("share", Known(0.5), Known(0.5))}, Known(0.5)},
		{"two CPUs", Known(0.75), []Service{pod("share", Known(2), Known(0.75))}, Known(0.5)},
		{"the small one suffers more", Known(0.75), []Service{pod("share", Known(4), Known(0.75)), pod("share", Known(1), Known(0.6))}, Known(0.6)},
		{"always", Known(1), []Service{pod("share", Known(8), Known(1))}, Known(1)},
		{"use is not known", Known(0.5), []Service{pod("share", Sample{}, Known(0.5))}, Known(0.5)},
		{"its own CPUs do not count", Known(0.5), []Service{pod("", Known(1), Known(0.9)), pod("share", Known(1), Known(0.2))}, Known(0.2)},
		{"BestEffort pods do not count", Known(0.9), []Service{{Pool: "share", CPUUse: Known(1), CPUPressure: Known(0.9), BestEffort: true}, pod("share", Known(1), Known(0.2))}, Known(0.2)},
		{"no pod is told of", Known(0.5), nil, Known(0.5)},
		{"no pod's pressure is known", Known(0.5), []Service{pod("share", Known(4), Sample{})}, Known(0.5)},
		{"no more than of the node", Known(0.3), []Service{pod("share", Known(1), Known(0.9))}, Known(0.3)},
		{"calm", Known(0.05), []Service{pod("share", Known(2), Known(0.05))}, Known(0.05)},
		{"the node's is not known", Sample{}, []Service{pod("share", Known(1), Known(0.9))}, Sample{}},
	} {
		o := quiet(1)
		o.Node.CPUPressure, o.Services = c.node, c.pods
		if got := p.CPUPressure(o); got.Known != c.want.Known || math.Abs(got.Value-c.want.Value) > 1e-9 {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
