package rules

import (
	"fmt"
	"slices"
	"testing"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

func TestNewProfileNamesAnUnknownScore(t *testing.T) {
	if _, err := NewProfile(map[string]int64{"LeastAlocated": 1}); err == nil {
		t.Error("a misspelt score was taken")
	}
	p, err := NewProfile(map[string]int64{"TaintToleration": 0, "MostAllocated": 5})
	if err != nil || p.normalized[0] != 0 || p.local[1] != 5 || p.local[0] != LocalScores[0].Default {
		t.Errorf("weights were not taken: %+v, %v", p, err)
	}
}

// Which models a pod allows is read from its selector or its affinity, and left open where these leave it open.
func TestModelsOf(t *testing.T) {
	model := func(values ...string) facts.Term {
		return facts.Term{Expressions: []facts.Requirement{{Key: "zone", Operator: facts.Exists}, {Key: "hilbert.dev/gpu-model", Operator: facts.In, Values: values}}}
	}
	for _, c := range []struct {
		r    facts.Requirements
		want string
	}{
		{facts.Requirements{}, "any"},
		{facts.Requirements{NodeSelector: []facts.Label{{Key: "hilbert.dev/gpu-model", Value: "T4"}}}, "T4"},
		{facts.Requirements{Required: []facts.Term{model("T4"), model("G2", "P100")}}, "G2|P100|T4"},
		{facts.Requirements{Required: []facts.Term{model("T4"), {}}}, "any"},
	} {
		if got := modelsOf(&c.r).String(); got != c.want {
			t.Errorf("%+v allows %q, want %q", c.r, got, c.want)
		}
	}
}

// Prices are due after arrivals that ask for GPUs only, and the lists become rarer, but never stop.
func TestPricesAreDue(t *testing.T) {
	store := cluster.NewStore()
	for i := range 300 {
		store.Apply(facts.NodeUpserted{Node: &facts.Node{
			Name: fmt.Sprint(i), GPU: topology.Shape{GPUs: 8, Model: "A", Shareable: true}, Allocatable: []resource.Quantity{{Name: "cpu", Amount: 64000}, {Name: "pods", Amount: 100}},
		}})
	}
	m := newMarket()
	plain, half := &facts.Requirements{}, &facts.Requirements{GPU: topology.Request{Milli: 500}}
	var at []int
	for i := range 1000 {
		m.Arrived(plain)
		if m.Arrived(half); m.Due() {
			m.Learn(&store.State)
			at = append(at, i+1)
		}
	}
	if want := []int{16, 32, 48, 72, 108, 162, 243, 364, 546, 746, 946}; !slices.Equal(at, want) {
		t.Errorf("prices are found after %v arrivals, want %v", at, want)
	}
	if m.Revision() != uint64(len(at)) {
		t.Errorf("the list has number %d after %d", m.Revision(), len(at))
	}
}
