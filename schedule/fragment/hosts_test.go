package fragment

import (
	"testing"

	"hilbert.dev/hilbert/topology"
)

// The example of HostPrices: room for the large kind, which few nodes have, is dear.
func TestHostPrices(t *testing.T) {
	small, large := Request{CPU: 8, Memory: 1}, Request{CPU: 32, Memory: 1}
	var mix Mix
	for _, r := range []*Request{&small, &large, {CPU: 1, GPU: topology.Request{Whole: 1}}} {
		mix.Add(r)
	}
	nodes := []Node{{CPU: 32, Memory: 100}, {CPU: 12, Memory: 100}, {CPU: 1000, Memory: 1000, Shape: topology.Shape{GPUs: 1}}}
	var p HostPrices
	p.Learn(&mix, nodes)
	if len(p.kinds) != 2 || p.kinds[0].price != 1.0/6 || p.kinds[1].price != 1.0/2 {
		t.Fatalf("%+v, want 1/6 (five fit, and one) and 1/2 (one fits, and one)", p.kinds)
	}
	if a, b := p.Worth(32, 100, &small), p.Worth(12, 100, &small); a >= b {
		t.Errorf("a pod of 8 CPUs is worth %g on the node with 32 free, and %g on the one with 12", a, b)
	}
	if w := p.Worth(7, 100, &Request{CPU: 4, Memory: 1}); w != 1 {
		t.Errorf("a pod where no frequent one fits is worth %g, want 1", w)
	}
	// What binds may be the memory.
	if fit := p.kinds[0].fits(1000, 3); fit != 3 {
		t.Errorf("%d pods of 1 memory fit beside 3, want 3", fit)
	}
	var none HostPrices
	if w := none.Worth(8, 8, &small); w != 1 {
		t.Errorf("without prices a pod is worth %g, want 1", w)
	}
}

// The kinds that are priced are bounded: the most frequent ones.
func TestHostPricesAreBounded(t *testing.T) {
	var mix Mix
	for i := range int64(3 * MaxHostKinds) {
		for range i + 1 {
			mix.Add(&Request{CPU: i + 1})
		}
	}
	var p HostPrices
	p.Learn(&mix, []Node{{CPU: 1000}})
	if len(p.kinds) != MaxHostKinds || p.kinds[0].cpu != 3*MaxHostKinds || p.kinds[MaxHostKinds-1].cpu != 2*MaxHostKinds+1 {
		t.Errorf("%+v", p.kinds)
	}
}
