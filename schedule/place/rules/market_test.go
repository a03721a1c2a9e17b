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
			m.Learn(store)
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

// GPUs of a model are worth more when pods that name it want all of them: those that run, however few have arrived lately, and those that wait.
func TestMarketSeesScarceModels(t *testing.T) {
	named := &facts.Requirements{GPU: topology.Request{Whole: 1}, NodeSelector: []facts.Label{{Key: "hilbert.dev/gpu-model", Value: "B"}}}
	loss := func(bound, waiting int) (a, b float64) {
		store := cluster.NewStore()
		for i, model := range []string{"A", "A", "B", "B"} {
			store.Apply(facts.NodeUpserted{Node: &facts.Node{
				Name: fmt.Sprint(i), GPU: topology.Shape{GPUs: 4, Model: model, Shareable: true}, Allocatable: []resource.Quantity{{Name: "cpu", Amount: 64000}, {Name: "pods", Amount: 100}},
			}})
		}
		for i := range bound + waiting {
			pod := facts.Pod{UID: facts.UID(fmt.Sprint(i)), Ours: true, Requirements: named}
			if i < bound {
				pod.Node, pod.Grant = "2", topology.Grant{GPUs: 1 << i, Milli: topology.FullGPU}
			}
			store.Apply(facts.PodUpserted{Pod: pod})
		}
		m := newMarket()
		m.Arrived(named)
		for range 30 {
			m.Arrived(&facts.Requirements{GPU: topology.Request{Whole: 1}})
		}
		m.Learn(store)
		free, grant := topology.NewFree(topology.Shape{GPUs: 4}), topology.Grant{GPUs: 1, Milli: topology.FullGPU}
		return m.at("A").Loss(&free, 64000, 64000, &grant), m.at("B").Loss(&free, 64000, 64000, &grant)
	}
	baseA, baseB := loss(0, 0)
	for _, c := range []struct{ bound, waiting int }{{4, 0}, {0, 8}, {4, 4}} {
		if a, b := loss(c.bound, c.waiting); b-a < baseB-baseA+100 {
			t.Errorf("%+v: a GPU costs %.0f of A and %.0f of B, without such pods %.0f and %.0f", c, a, b, baseA, baseB)
		}
	}
}
