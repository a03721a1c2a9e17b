package ledgermetrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/cluster/census"
	"hilbert.dev/hilbert/schedule"
)

// The metrics of what keeps one namespace from taking the scheduler's time and memory from the others.
var (
	definitionsDesc = prometheus.NewDesc("hilbert_constraint_definitions", "What the ledger keeps for constraints between pods, by kind: topology_keys, tallies (selectors and terms) and censuses (a tally by a topology key).", []string{"kind"}, nil)
	postponedDesc   = prometheus.NewDesc("hilbert_explanations_postponed_total", "Times that pods which fit nowhere were not told why, because 64 different pods of their namespace had been explained within conditions.minInterval.", nil, nil)
	stepsDesc       = prometheus.NewDesc("hilbert_steps_ended_early_total", "Rounds of decisions that ended early, because their decisions had looked at 250,000 nodes to explain or to find victims.", nil, nil)
	triesDesc       = prometheus.NewDesc("hilbert_reservation_tries_total", "Gangs for which all nodes were looked at, to reserve some.", nil, nil)
	heldBackDesc    = prometheus.NewDesc("hilbert_pods_held_back", "Pods that are held back now with the condition TooManyDifferentPods, because as many pods that differ from one another wait in their namespace as scheduling.maxWaitingClasses allows.", nil, nil)
	crowdedDesc     = prometheus.NewDesc("hilbert_namespaces_held_back", "Namespaces of which pods are held back with the condition TooManyDifferentPods.", nil, nil)
	gpuStatesDesc   = prometheus.NewDesc("hilbert_scored_gpu_states", "States of nodes' GPUs that are told apart for scores by price, by kind: states (at most 4,096 for each profile) and worths (what requests destroy in them, and one for each request; at most 32,768).", []string{"kind"}, nil)
	gpuLimitsDesc   = prometheus.NewDesc("hilbert_scored_gpu_states_limited_total", "Times that a bound on GPU states took effect, by kind: states (one got no number, so that its node is scored by itself) and worths (all were forgotten).", []string{"kind"}, nil)

	backlogDesc = prometheus.NewDesc("hilbert_events_waiting", "Events that wait for their budget, by kind: failures (of pods that wait), placements (only with scheduling.events.scheduled) and nodes (that may have something to tell).", []string{"kind"}, nil)
	droppedDesc = prometheus.NewDesc("hilbert_events_dropped_total", "Events of placements that were left out, because 4,096 waited to be written.", nil, nil)
	apartDesc   = prometheus.NewDesc("hilbert_apart_pairs", "Pairs of pods that agents would rather have apart, at most 1,024.", nil, nil)
	keptDesc    = prometheus.NewDesc("hilbert_pods_kept_apart_total", "Pods that went to another node, because they are like one that harmed a service on the best one.", nil, nil)

	boundCollections = []*prometheus.Desc{definitionsDesc, postponedDesc, stepsDesc, triesDesc, heldBackDesc, crowdedDesc, gpuStatesDesc, gpuLimitsDesc, backlogDesc, droppedDesc, apartDesc, keptDesc}
)

// boundCounts is a copy of them.
type boundCounts struct {
	definitions census.Size
	schedule.BoundCounts
}

func newBoundCounts(s *schedule.Scheduler) boundCounts {
	return boundCounts{s.Store().Counts().Registry().Size(), s.Bounds()}
}

func (c *boundCounts) collect(out chan<- prometheus.Metric) {
	for kind, n := range map[string]int{"topology_keys": c.definitions.TopologyKeys, "tallies": c.definitions.Tallies, "censuses": c.definitions.Censuses} {
		out <- prometheus.MustNewConstMetric(definitionsDesc, prometheus.GaugeValue, float64(n), kind)
	}
	counter := func(desc *prometheus.Desc, n int) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n))
	}
	counter(postponedDesc, c.PostponedExplanations)
	counter(stepsDesc, c.EndedSteps)
	counter(triesDesc, c.ReservationTries)
	counter(droppedDesc, int(c.Events.Dropped))
	counter(keptDesc, c.Apart.Kept)
	out <- prometheus.MustNewConstMetric(apartDesc, prometheus.GaugeValue, float64(c.Apart.Pairs))
	for kind, n := range map[string]int{"failures": c.Events.Failures, "placements": c.Events.Placements, "nodes": c.NodeEvents} {
		out <- prometheus.MustNewConstMetric(backlogDesc, prometheus.GaugeValue, float64(n), kind)
	}
	g := c.GPUStates
	for kind, n := range map[string][2]int{"states": {g.States, g.Unnumbered}, "worths": {g.Worths, g.Forgotten}} {
		out <- prometheus.MustNewConstMetric(gpuStatesDesc, prometheus.GaugeValue, float64(n[0]), kind)
		out <- prometheus.MustNewConstMetric(gpuLimitsDesc, prometheus.CounterValue, float64(n[1]), kind)
	}
	for desc, n := range map[*prometheus.Desc]int{heldBackDesc: c.HeldBack, crowdedDesc: c.HeldBackIn} {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n))
	}
}
