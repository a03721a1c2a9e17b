package daemon

import (
	"testing"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/topology"
)

// zonesGiven is so many CPUs of the first zone.
func zonesGiven(cpus uint16) (g topology.ZoneGrant) {
	g.CPUs[0] = cpus
	return g
}

func TestZoneMetrics(t *testing.T) {
	w := leader(t)
	w.meter.registry.MustRegister(w.loop)
	shape := topology.ZoneShape{Ruler: topology.RulerAgent, Zones: 1, Threads: 1}
	shape.Zone[0].CPUs = 4
	report := func(node string, change func(*facts.NodeReport)) {
		r := &facts.NodeReport{Zones: shape}
		change(r)
		w.apply(facts.NodeUpserted{Node: &facts.Node{Name: node, Allocatable: cores(8)}})
		w.apply(facts.NodeReported{Node: node, Report: r})
	}
	report("fresh", func(*facts.NodeReport) {})
	report("kubelet", func(r *facts.NodeReport) { r.Zones.Ruler = topology.RulerKubelet })
	report("stale", func(r *facts.NodeReport) { r.Zones.Ruler, r.Why = topology.RulerNone, facts.ReportStale })
	report("malformed", func(r *facts.NodeReport) { *r = facts.NodeReport{Why: facts.ReportMalformed} })
	w.apply(facts.NodeReported{Node: "unknown", Report: &facts.NodeReport{Zones: shape}})
	for _, name := range []string{"a", "b", "c", "guessed"} {
		p := pod(name, "fresh")
		p.Node = "fresh"
		p.Requirements = &facts.Requirements{Requests: cores(1), Zones: topology.ZoneRequest{CPUs: 1}}
		if name != "guessed" {
			p.Grant.Zones = zonesGiven(1)
		}
		w.apply(facts.PodUpserted{Pod: p})
	}
	w.expectMetrics("all are promised", `hilbert_overpromised_zones 0`, `hilbert_zone_promises{state="waiting"} 3`,
		`hilbert_zone_promises{state="confirmed"} 0`, `hilbert_zone_promises{state="moved"} 0`, `hilbert_zone_promises_unreadable_total 0`,
		`hilbert_zone_reports{state="fresh"} 1`, `hilbert_zone_reports{state="kubelet"} 1`,
		`hilbert_zone_reports{state="stale"} 1`, `hilbert_zone_reports{state="malformed"} 1`)
	report("fresh", func(r *facts.NodeReport) {
		r.Held = []facts.HeldZones{{UID: "a", Grant: zonesGiven(1)}, {UID: "b", Grant: zonesGiven(2)}}
	})
	w.expectMetrics("the node has spoken", `hilbert_overpromised_zones 1`, `hilbert_zone_promises{state="waiting"} 1`,
		`hilbert_zone_promises{state="confirmed"} 1`, `hilbert_zone_promises{state="moved"} 1`)
	w.apply(facts.PodRemoved{UID: "b"})
	w.expectMetrics("one has gone", `hilbert_overpromised_zones 0`, `hilbert_zone_promises{state="moved"} 0`)
	w.apply(facts.NodeRemoved{Name: "fresh"})
	w.expectMetrics("its node is gone", `hilbert_zone_promises{state="waiting"} 0`, `hilbert_zone_promises{state="confirmed"} 0`, `hilbert_zone_reports{state="fresh"} 0`)
}
