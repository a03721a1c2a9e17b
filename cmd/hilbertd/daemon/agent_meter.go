package daemon

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/node"
)

// agentMeter copies out what the agent counts when it is scraped.
type agentMeter struct{ agent *node.Agent }

func agentDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("hilbert_agent_"+name, help, labels, nil)
}

// The agent's metrics.
var (
	agentPromises    = agentDesc("promises_total", "Dedicated pods admitted or refused, by what became of what they were promised: kept, moved, broken, forged, foreign (none was made).", "outcome")
	agentDevices     = agentDesc("device_promises_total", "Pods with promised GPUs or network cards, by what became of the promise: kept, moved, broken.", "outcome")
	agentWithheld    = agentDesc("containers_withheld_total", "Times that a container was not made because what its pod holds of GPUs or cards could not be put into it, by reason.", "reason")
	agentBooks       = agentDesc("kubelet_device_readings_total", "Questions to the kubelet which devices it gave to pods, by outcome.", "outcome")
	agentGiven       = agentDesc("kubelet_devices", "NVIDIA's devices that the kubelet gave to pods, by whether it is known which GPU each is: found, unknown.", "state")
	agentRefused     = agentDesc("pods_refused_total", "Pods that could not run here, by reason.", "reason")
	agentNotes       = agentDesc("notes_total", "What was to be told of pods and of the node, by reason.", "reason")
	agentWrites      = agentDesc("knob_writes_total", "Values that were written to the kernel.")
	agentReverted    = agentDesc("knobs_reverted_total", "Values that somebody else had changed and that were written again.")
	agentKnobRefused = agentDesc("knobs_refused_total", "Values that the kernel did not take.")
	agentEnforce     = agentDesc("enforce_seconds_total", "Time spent comparing the kernel with what is wanted, and writing to it.")
	agentKnobs       = agentDesc("knobs", "Values that are held in the kernel.")
	agentUpdates     = agentDesc("runtime_updates_total", "Containers updated through the runtime, by outcome.", "outcome")
	agentConnected   = agentDesc("runtime_connected", "1 while the container runtime is connected by NRI.")
	agentConnections = agentDesc("runtime_connections_total", "Connections to the container runtime.")
	agentUnsettled   = agentDesc("unsettled_creations_total", "Containers created before those who had their CPUs were seen to be moved off.")
	agentCheckpoints = agentDesc("checkpoint_writes_total", "Writes and reads of the checkpoint, by outcome.", "outcome")
	agentReports     = agentDesc("report_writes_total", "Writes of the CustomNodeResource, by outcome.", "outcome")
	agentEvictions   = agentDesc("evictions_total", "Evictions of pods whose promise was broken, by outcome.", "outcome")
	agentBuried      = agentDesc("pods_buried_total", "Pods that were gone without the runtime's saying so.")
	agentTicks       = agentDesc("ticks_total", "Comparisons of the whole node with what is wanted.")
	agentObserved    = agentDesc("observations_total", "Readings of the kernel's counters.")
	agentObserving   = agentDesc("observe_seconds_total", "Time spent reading the kernel's counters.")
	agentPods        = agentDesc("pods", "Pods that the agent places.")
	agentContainers  = agentDesc("containers", "Containers that the agent places.")
	agentReady       = agentDesc("ready", "1 while the agent sees and rules the node whole: the condition AgentReady.")
	agentDepth       = agentDesc("queue_depth", "Messages that wait for the loop.")
	agentLimit       = agentDesc("queue_limit", "Bound of hilbert_agent_queue_depth.")
	agentResponsive  = agentDesc("loop_responsive", "1 if the loop answered this scrape; else everything else is missing.")
	agentCollections = []*prometheus.Desc{
		agentPromises, agentDevices, agentWithheld, agentBooks, agentGiven, agentRefused, agentNotes, agentWrites, agentReverted, agentKnobRefused, agentEnforce, agentKnobs, agentUpdates, agentConnected,
		agentConnections, agentUnsettled, agentCheckpoints, agentReports, agentEvictions, agentTicks, agentPods, agentContainers, agentReady,
		agentDepth, agentLimit, agentResponsive, agentObserved, agentObserving, agentBuried,
	}
)

// Describe implements prometheus.Collector.
func (agentMeter) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range append(slices.Clone(agentCollections), agentLendings...) {
		out <- desc
	}
}

// Collect implements prometheus.Collector.
func (m agentMeter) Collect(out chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	var s node.State
	if !m.agent.Ask(scrapeTimeout, func(a *node.Agent) { s = a.State() }) {
		gauge(agentResponsive, 0)
		return
	}
	gauge(agentResponsive, 1)
	gauge(agentKnobs, float64(s.Knobs))
	gauge(agentPods, float64(s.Pods))
	gauge(agentContainers, float64(s.Containers))
	gauge(agentDepth, float64(s.Waiting))
	gauge(agentLimit, node.MaxMessages)
	gauge(agentConnected, oneIf(s.Connected))
	gauge(agentReady, oneIf(s.Ready))
	gauge(agentGiven, float64(s.GivenFound), "found")
	gauge(agentGiven, float64(s.GivenUnknown), "unknown")
	collectAgentCounts(out, &s)
	collectLending(out, &s)
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

func collectAgentCounts(out chan<- prometheus.Metric, s *node.State) {
	count := func(desc *prometheus.Desc, value uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(value), labels...)
	}
	outcomes := func(desc *prometheus.Desc, good, bad uint64) {
		count(desc, good, "ok")
		count(desc, bad, "failed")
	}
	count(agentPromises, s.Allocated.Kept, "kept")
	count(agentPromises, s.Allocated.Moved, "moved")
	count(agentPromises, s.Allocated.Broken, "broken")
	count(agentPromises, s.Allocated.Forged, "forged")
	count(agentPromises, s.Allocated.Foreign, "foreign")
	count(agentDevices, s.Allocated.DevicesKept, "kept")
	count(agentDevices, s.Allocated.DevicesMoved, "moved")
	count(agentDevices, s.Allocated.DevicesBroken, "broken")
	for reason, n := range s.Withheld {
		count(agentWithheld, n, reason)
	}
	for reason, n := range s.Refused {
		count(agentRefused, n, reason)
	}
	for reason, n := range s.Notes {
		count(agentNotes, n, reason)
	}
	count(agentWrites, s.Written)
	count(agentReverted, s.Reverted)
	count(agentKnobRefused, s.RefusedKnobs)
	out <- prometheus.MustNewConstMetric(agentEnforce, prometheus.CounterValue, s.EnforceSeconds)
	outcomes(agentUpdates, s.Updates, s.UpdatesFailed)
	count(agentConnections, s.Connections)
	count(agentUnsettled, s.Unsettled)
	outcomes(agentCheckpoints, s.Checkpoints, s.CheckpointErrors)
	outcomes(agentBooks, s.GivenRead, s.GivenUnread)
	outcomes(agentReports, s.Reports, s.ReportsFailed)
	outcomes(agentEvictions, s.Evictions, s.EvictionsFailed)
	count(agentTicks, s.Ticks)
	count(agentBuried, s.Buried)
	count(agentObserved, s.Observations)
	out <- prometheus.MustNewConstMetric(agentObserving, prometheus.CounterValue, s.ObserveSeconds)
}
