package ledgermetrics

import (
	"slices"
	"strings"
	"testing"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/topology"
)

func TestGPUMetrics(t *testing.T) {
	w := newWorld(t)
	w.apply(facts.NodeUpserted{Node: &facts.Node{Name: "plain", Allocatable: cores(8)}})
	if strings.Contains(w.scrape(), "hilbert_gpu") {
		t.Error("there are no GPUs, but metrics of them")
	}
	for _, name := range []string{"n1", "n2"} {
		w.apply(facts.NodeUpserted{Node: &facts.Node{Name: name, Allocatable: cores(8), GPU: topology.Shape{GPUs: 2, Model: "counted", Shareable: true}}})
	}
	gpu := topology.GPU{Model: "reported", Memory: 1000, Clients: 4, Strengths: topology.StrengthsOf(topology.Accounting)}
	d := &topology.Devices{Owner: topology.OwnerHilbert, GPU: slices.Repeat([]topology.GPU{gpu}, 4), ClosedGPUs: 0b1000}
	w.apply(facts.NodeUpserted{Node: &facts.Node{Name: "n3", Allocatable: cores(8)}})
	w.apply(facts.NodeReported{Node: "n3", Report: &facts.NodeReport{Devices: d}})
	p := bound("a", "n1")
	p.Requirements = &facts.Requirements{Requests: cores(1), GPU: topology.Request{Milli: 400}}
	p.Grant = topology.Grant{GPUs: 1, Milli: 400}
	w.apply(facts.PodUpserted{Pod: p})
	w.expect("two models",
		`hilbert_gpus{model="counted",state="idle"} 3`, `hilbert_gpus{model="counted",state="shared"} 1`,
		`hilbert_gpu_free{model="counted"} 3.6`,
		`hilbert_gpu_fragmentation_ratio{model="counted",size="0.5"} 0`,
		`hilbert_gpu_fragmentation_ratio{model="counted",size="1"} 0.16666666666666666`,
		`hilbert_gpu_fragmentation_ratio{model="counted",size="2"} 0.4444444444444444`,
		`hilbert_gpu_fragmentation_ratio{model="counted",size="4"} 1`,
		`hilbert_gpu_fits{model="counted",size="0.5"} 7`, `hilbert_gpu_fits{model="counted",size="2"} 1`,
		`hilbert_gpus{model="reported",state="idle"} 3`, `hilbert_gpus{model="reported",state="closed"} 1`,
		`hilbert_gpu_free{model="reported"} 3`)
	silent := *d
	silent.Owner = topology.OwnerNone
	w.apply(facts.NodeReported{Node: "n3", Report: &facts.NodeReport{Devices: &silent, Why: facts.ReportStale}})
	w.expect("a report that is too old frees nothing", `hilbert_gpus{model="reported",state="closed"} 4`, `hilbert_gpu_free{model="reported"} 0`,
		`hilbert_gpu_fits{model="reported",size="1"} 0`)
	if strings.Contains(w.scrape(), `hilbert_gpu_fragmentation_ratio{model="reported"`) {
		t.Error("nothing is free, and a share of it is told")
	}
}
