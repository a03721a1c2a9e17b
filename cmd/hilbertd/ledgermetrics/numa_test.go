package ledgermetrics

import (
	"testing"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/topology"
)

// numaGiven is so many CPUs of the first NUMA node.
func numaGiven(cpus uint16) (g topology.NUMAGrant) {
	g.CPUs[0] = cpus
	return g
}

func TestNUMAMetrics(t *testing.T) {
	w := newWorld(t)
	shape := topology.NUMAShape{Ruler: topology.RulerAgent, NUMANodes: 1, Threads: 1}
	shape.NUMANode[0].CPUs = 4
	report := func(node string, change func(*facts.NodeReport)) {
		r := &facts.NodeReport{NUMANodes: shape}
		change(r)
		w.apply(facts.NodeUpserted{Node: &facts.Node{Name: node, Allocatable: cores(8)}})
		w.apply(facts.NodeReported{Node: node, Report: r})
	}
	report("fresh", func(*facts.NodeReport) {})
	report("kubelet", func(r *facts.NodeReport) { r.NUMANodes.Ruler = topology.RulerKubelet })
	report("stale", func(r *facts.NodeReport) { r.NUMANodes.Ruler, r.Why = topology.RulerNone, facts.ReportStale })
	report("malformed", func(r *facts.NodeReport) { *r = facts.NodeReport{Why: facts.ReportMalformed} })
	w.apply(facts.NodeReported{Node: "unknown", Report: &facts.NodeReport{NUMANodes: shape}})
	for _, name := range []string{"a", "b", "c", "guessed"} {
		p := bound(name, "fresh")
		p.Requirements = &facts.Requirements{Requests: cores(1), NUMANodes: topology.NUMARequest{CPUs: 1}}
		if name != "guessed" {
			p.Grant.NUMANodes = numaGiven(1)
		}
		w.apply(facts.PodUpserted{Pod: p})
	}
	w.expect("all are promised", `hilbert_overpromised_numa_nodes 0`, `hilbert_numa_node_promises{state="waiting"} 3`,
		`hilbert_numa_node_promises{state="confirmed"} 0`, `hilbert_numa_node_promises{state="moved"} 0`,
		`hilbert_numa_node_reports{state="fresh"} 1`, `hilbert_numa_node_reports{state="kubelet"} 1`,
		`hilbert_numa_node_reports{state="stale"} 1`, `hilbert_numa_node_reports{state="malformed"} 1`)
	report("fresh", func(r *facts.NodeReport) {
		r.Held = []facts.HeldNUMA{{UID: "a", Grant: numaGiven(1)}, {UID: "b", Grant: numaGiven(2)}}
	})
	w.expect("the node has spoken", `hilbert_overpromised_numa_nodes 1`, `hilbert_numa_node_promises{state="waiting"} 1`,
		`hilbert_numa_node_promises{state="confirmed"} 1`, `hilbert_numa_node_promises{state="moved"} 1`)
	w.apply(facts.PodRemoved{UID: "b"})
	w.expect("one has gone", `hilbert_overpromised_numa_nodes 0`, `hilbert_numa_node_promises{state="moved"} 0`)
	w.apply(facts.NodeRemoved{Name: "fresh"})
	w.expect("its node is gone", `hilbert_numa_node_promises{state="waiting"} 0`, `hilbert_numa_node_promises{state="confirmed"} 0`, `hilbert_numa_node_reports{state="fresh"} 0`)
}
