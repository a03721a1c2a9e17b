package judge

import (
	"slices"
	"testing"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
)

// TestCutsGuarantee: queue train is guaranteed 2 GPUs and its child vision 1. A pod with a GPU of vision may go for CPUs only if both keep that.
func TestCutsGuarantee(t *testing.T) {
	gpus := func(n int64) []resource.Quantity {
		return []resource.Quantity{{Name: spec.ResourceGPUMilli, Amount: n * 1000}}
	}
	tenants := NewTenants()
	tenants.Queues["train"] = &facts.Queue{Name: "train", Weight: 1, Guaranteed: gpus(2)}
	tenants.Queues["vision"] = &facts.Queue{Name: "vision", Parent: "train", Weight: 1, Guaranteed: gpus(1)}
	tenants.Namespaces["v"] = []facts.Label{{Key: spec.LabelQueue, Value: "vision"}}
	cpus := []resource.Quantity{{Name: resource.NameCPU, Amount: 1000}}
	victim, plain := &facts.Requirements{Requests: cpus}, &facts.Requirements{Requests: cpus}
	victim.GPU.Whole = 1
	left := func(vision, train int64) Bill {
		return Bill{"vision": {spec.ResourceGPUMilli: vision * 1000}, "train": {spec.ResourceGPUMilli: train * 1000}}
	}
	claimed := map[string]bool{resource.NameCPU: true}
	for _, c := range []struct {
		name    string
		left    Bill
		victim  *facts.Requirements
		claimed map[string]bool
		want    string
	}{
		{"both keep enough", left(1, 2), victim, claimed, ""},
		{"the child does not", left(0, 2), victim, claimed, "vision"},
		{"the parent does not", left(1, 1), victim, claimed, "train"},
		{"the victim holds none", left(0, 0), plain, claimed, ""},
		{"it is claimed", left(0, 0), victim, map[string]bool{spec.ResourceGPUMilli: true}, ""},
	} {
		if got := tenants.CutsGuarantee("v", "train", c.left, Charge(c.victim), c.claimed); got != c.want {
			t.Errorf("%s: queue %q has less than it is guaranteed, want %q", c.name, got, c.want)
		}
	}
}

// TestUpTo: a rule for the side of the tree that a queue is on looks at no queue above that.
func TestUpTo(t *testing.T) {
	tenants := NewTenants()
	tenants.Queues["company"] = &facts.Queue{Name: "company", Weight: 1, KeepsBorrowed: true}
	tenants.Queues["train"] = &facts.Queue{Name: "train", Parent: "company", Weight: 1}
	tenants.Queues["vision"] = &facts.Queue{Name: "vision", Parent: "train", Weight: 1}
	tenants.Namespaces["v"] = []facts.Label{{Key: spec.LabelQueue, Value: "vision"}}
	for _, c := range []struct {
		side  string
		want  []string
		keeps bool
	}{
		{"vision", []string{"vision"}, false},
		{"train", []string{"vision", "train"}, false},
		{"company", []string{"vision", "train", "company"}, true},
		{"elsewhere", []string{"vision", "train", "company"}, true},
	} {
		if got := tenants.upTo("vision", c.side); !slices.Equal(got, c.want) {
			t.Errorf("vision up to %s: %v, want %v", c.side, got, c.want)
		}
		if got := tenants.KeepsBorrowed("v", c.side); got != c.keeps {
			t.Errorf("vision up to %s keeps what it has borrowed: %v, want %v", c.side, got, c.keeps)
		}
	}
	if tenants.KeepsBorrowed("v", "") {
		t.Error("without a side, the queues above are asked too")
	}
	if claims := tenants.Claims("vision", "elsewhere", nil, map[string]int64{resource.NameCPU: 1}); len(claims) > 0 {
		t.Errorf("vision claims %v on a side that it is not on", claims)
	}
}
