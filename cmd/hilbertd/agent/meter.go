package agent

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/cmd/hilbertd/endpoints"
	"hilbert.dev/hilbert/node"
)

// agentMeter exports the agent's counters. It copies them at each scrape.
type agentMeter struct{ agent *node.Agent }

func agentDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("hilbert_agent_"+name, help, labels, nil)
}

// The agent's metrics.
var (
	agentPromises       = agentDesc("promises_total", "Dedicated pods that came to the node, by what became of the promise in their annotation: kept, moved, broken, forged, foreign (no promise).", "outcome")
	agentDevices        = agentDesc("device_promises_total", "Pods with promised GPUs or network cards that came to the node, by what became of the promise: kept, moved, broken.", "outcome")
	agentWithheld       = agentDesc("containers_withheld_total", "Container creations refused because the pod's GPUs or network cards could not be injected, by reason.", "reason")
	agentDeviceQueries  = agentDesc("kubelet_device_queries_total", "Queries to the kubelet for the devices it assigned to pods, by outcome.", "outcome")
	agentKubeletDevices = agentDesc("kubelet_devices", "NVIDIA devices the kubelet assigned to pods, by whether the GPU was identified: found, unknown.", "state")
	agentRefused        = agentDesc("pods_refused_total", "Pods refused by the agent, by reason.", "reason")
	agentNotes          = agentDesc("notes_total", "Notes about pods and the node, by reason.", "reason")
	agentWrites         = agentDesc("knob_writes_total", "Values written to the kernel.")
	agentReverted       = agentDesc("knobs_reverted_total", "Values rewritten because something else had changed them.")
	agentKnobRefused    = agentDesc("knobs_refused_total", "Values refused by the kernel.")
	agentEnforce        = agentDesc("enforce_seconds_total", "Time spent comparing kernel knobs with their desired values and writing them.")
	agentKnobs          = agentDesc("knobs", "Kernel knobs under control.")
	agentUpdates        = agentDesc("runtime_updates_total", "Updates of containers through the container runtime, by outcome.", "outcome")
	agentConnected      = agentDesc("runtime_connected", "1 while the container runtime is connected.")
	agentConnections    = agentDesc("runtime_connections_total", "Connections to the container runtime.")
	agentUnsettled      = agentDesc("early_container_creations_total", "Containers created before other containers were confirmed off their CPUs.")
	agentNotStarted     = agentDesc("container_starts_refused_total", "Containers whose start was refused because they lacked what they were given.")
	agentMissed         = agentDesc("missed_containers_total", "Containers that started without the agent and needed it, by outcome: adjusted, ended, or left alone.", "outcome")
	agentCheckpoints    = agentDesc("checkpoint_writes_total", "Writes and reads of the checkpoint, by outcome.", "outcome")
	agentReports        = agentDesc("report_writes_total", "Writes of the node's CustomNodeResource, by outcome.", "outcome")
	agentEventsDropped  = agentDesc("events_dropped_total", "Events that the report had no room for; counters by reason count them too.")
	agentBroken         = agentDesc("broken_promises", "Pods in the report that cannot have what they were promised.")
	agentVanished       = agentDesc("pods_vanished_total", "Pods whose cgroup vanished without an event from the runtime.")
	agentPlugins        = agentDesc("plugin_allocations_total", "Resources of plugins that pods were given, by what became of them: allocated, released, refused (the pod's admission failed), lost (the plugin had forgotten them), unknown (the plugin had them set up for no pod).", "outcome")
	agentPluginFailed   = agentDesc("plugin_failures_total", "Calls of plugins that ended with an error, or with an answer that cannot be true.")
	agentTicks          = agentDesc("ticks_total", "Full comparisons of the node with its desired state.")
	agentObserved       = agentDesc("observations_total", "Readings of the kernel's counters.")
	agentObserving      = agentDesc("observe_seconds_total", "Time spent reading the kernel's counters.")
	agentLeftOut        = agentDesc("cgroups_left_out_total", "Cgroups of pods that readings of the kernel's counters left out, beyond 4,096: the laws know nothing of them.")
	agentPods           = agentDesc("pods", "Pods that the agent manages.")
	agentContainers     = agentDesc("containers", "Containers that the agent manages.")
	agentReady          = agentDesc("ready", "1 while the agent has no known problem: the condition AgentReady.")
	agentDepth          = agentDesc("queue_depth", "Messages queued for the agent's loop.")
	agentLimit          = agentDesc("queue_limit", "Capacity of the queue that hilbert_agent_queue_depth measures.")
	agentResponsive     = agentDesc("loop_responsive", "1 if the loop answered this scrape; otherwise the other agent metrics are missing.")
	agentCollections    = []*prometheus.Desc{
		agentPromises, agentDevices, agentWithheld, agentDeviceQueries, agentKubeletDevices, agentRefused, agentNotes, agentWrites, agentReverted, agentKnobRefused, agentEnforce, agentKnobs, agentUpdates, agentConnected,
		agentConnections, agentUnsettled, agentNotStarted, agentMissed, agentCheckpoints, agentReports, agentBroken, agentEventsDropped, agentTicks, agentPods, agentContainers, agentReady,
		agentDepth, agentLimit, agentResponsive, agentObserved, agentObserving, agentLeftOut, agentVanished, agentPlugins, agentPluginFailed,
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
	if !m.agent.Ask(endpoints.ScrapeTimeout, func(a *node.Agent) { s = a.State() }) {
		gauge(agentResponsive, 0)
		return
	}
	gauge(agentResponsive, 1)
	gauge(agentKnobs, float64(s.Knobs))
	gauge(agentPods, float64(s.Pods))
	gauge(agentContainers, float64(s.Containers))
	gauge(agentBroken, float64(s.Broken))
	gauge(agentDepth, float64(s.Waiting))
	gauge(agentLimit, node.MaxMessages)
	gauge(agentConnected, endpoints.OneIf(s.Connected))
	gauge(agentReady, endpoints.OneIf(s.Ready))
	gauge(agentKubeletDevices, float64(s.Kubelet.Found), "found")
	gauge(agentKubeletDevices, float64(s.Kubelet.Unknown), "unknown")
	collectAgentCounts(out, &s)
	collectLending(out, &s)
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
	count(agentUnsettled, s.Unapplied)
	count(agentNotStarted, s.NotStarted)
	count(agentMissed, s.MissedAdjusted, "adjusted")
	count(agentMissed, s.MissedEnded, "ended")
	count(agentMissed, s.MissedLeft, "left")
	outcomes(agentCheckpoints, s.Checkpoints, s.CheckpointErrors)
	outcomes(agentDeviceQueries, s.Kubelet.Read, s.Kubelet.Unread)
	outcomes(agentReports, s.Reports, s.ReportsFailed)
	count(agentEventsDropped, s.EventsDropped)
	for outcome, n := range map[string]uint64{
		"allocated": s.Plugins.Allocated, "released": s.Plugins.Released, "refused": s.Plugins.Refused, "lost": s.Plugins.Lost, "unknown": s.Plugins.Unknown,
	} {
		count(agentPlugins, n, outcome)
	}
	count(agentPluginFailed, s.Plugins.Failures)
	count(agentTicks, s.Ticks)
	count(agentVanished, s.Vanished)
	count(agentObserved, s.Observations)
	count(agentLeftOut, s.CgroupsLeftOut)
	out <- prometheus.MustNewConstMetric(agentObserving, prometheus.CounterValue, s.ObserveSeconds)
}
