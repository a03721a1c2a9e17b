package agent

import (
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/endpoints"
	"hilbert.dev/hilbert/node"
	"hilbert.dev/hilbert/node/evict"
)

// The metrics of lending. Amounts are missing while the agent does not know them.
var (
	agentHeadroom   = agentDesc("headroom", "Published headroom: what reclaimed pods may hold, running ones included, by resource: cpu in cores, memory in bytes.", "resource")
	agentLent       = agentDesc("lent", "What reclaimed pods have now, by resource: cpu (CPUs of their pool) in cores, memory in bytes.", "resource")
	agentSuppressed = agentDesc("suppression", "1 for the current level of suppression of reclaimed pods.", "level")
	agentClosed     = agentDesc("closed", "1 while the node accepts no reclaimed pods after an eviction.")
	agentPressures  = agentDesc("pressures_total", "How often the pressure that a detector watches rose to a level, by detector and level.", "detector", "level")
	agentBlind      = agentDesc("pressure_inputs_missing_total", "Evaluations of a detector that lacked an input.", "detector")
	agentRequested  = agentDesc("eviction_requests_total", "Evictions of reclaimed pods requested by the node, by detector.", "detector")
	agentFollowed   = agentDesc("evictions_followed_total", "Reclaimed pods that left after the node requested their eviction, by detector.", "detector")
	agentHeldBack   = agentDesc("evictions_held_back_total", "Ticks at which an eviction was due and had to wait for the bound per hour (node.eviction.plugins.perHour, node.eviction.network.perHour), by detector.", "detector")
	agentCrowded    = agentDesc("evictions_crowded_total", "Ticks at which an eviction was due and had to wait, because 16 pods had been asked to go already.")
	agentOverusing  = agentDesc("online_memory_overuse_pods", "Online pods that hold more memory, page cache left out, than they requested and node.eviction.online tolerates.")
	agentStopped    = agentDesc("pods_stopped_total", "Reclaimed pods that the agent stopped itself: a hard threshold was passed and no eviction came in time.")
	agentShrinks    = agentDesc("reclaim_requests_total", "Requests to reclaim memory from a cgroup, by outcome.", "outcome")
	agentShrunk     = agentDesc("reclaimed_bytes_total", "Memory reclaimed from cgroups, as the kernel reports it.")
	agentShrinking  = agentDesc("reclaim_requests_in_flight", "Cgroups whose memory is being reclaimed.")
	agentLogPages   = agentDesc("log_pages_dropped_bytes_total", "Page cache of log files that the kernel was asked to drop. Where it does not tell what is cached (before Linux 6.5), the length of the files.")
	agentPartBytes  = agentDesc("pod_memory_part_bytes", "Memory of pods by kind (sockets, which reclaim cannot get; huge_anon, anonymous memory in transparent huge pages, part of which may be unused) and by whose pods they are: reclaimed or online.", "kind", "pods")
	agentScrapes    = agentDesc("scrapes_total", "Scrapes of ServiceProfile metrics, by outcome.", "outcome")
	agentStorage    = agentDesc("storage_queries_total", "Queries of pod storage usage to the kubelet, by outcome.", "outcome")
	agentStored     = agentDesc("storage_known_pods", "Pods whose storage usage is known.")
	agentProfiled   = agentDesc("profile_pods", "Pods that a ServiceProfile selects, by profile and whether any of its indicators is known.", "profile", "samples")
	agentSteered    = agentDesc("steered_cpus", "Desired size of pools with a ServiceProfile, in CPUs.", "pool")
	agentWatched    = agentDesc("interference_services", "Services that are watched for harm by neighbours, by state: known, learning where too little was seen at their load, or unwatched where 64 others request more CPU.", "state")
	agentHarmed     = agentDesc("interference_findings", "Services that are harmed by a neighbour, by what is done about it, or in mode report would be.", "step")
	agentCounted    = agentDesc("counted_services", "Services whose cycles per instruction are wanted, by state: counted, waiting for their turn as files are bounded, or unknown where the node has no counters.", "state")
	agentCountFiles = agentDesc("counter_files", "Open files of the processor's counters; their bound is a quarter of those that the agent may open, and 16384.")
	agentMemoryPods = agentDesc("memory_bandwidth_pods", "Pods of which the memory bandwidth is wanted, by state: known, unknown where there is a group and no value, or waiting where there is no group for it.", "state")
	agentMemoryMade = agentDesc("memory_bandwidth_groups", "Monitoring groups of resctrl that the agent has made.")
	agentMemoryMost = agentDesc("memory_bandwidth_groups_limit", "Monitoring groups of resctrl that the agent may make: node.memoryBandwidth.groups, and no more than half of what the hardware has.")
	agentMemoryRate = agentDesc("memory_bandwidth_bytes_per_second", "Memory bandwidth of the pods of which it is known, by domain of the last-level cache and by the pods' QoS level. Of pods without a group nothing is known.", "domain", "level")
	agentIntensive  = agentDesc("memory_intensive_pods", "Pods that count as memory-intensive on this node, by how that is known: annotation, or measured above node.memoryBandwidth.intensiveBytesPerSecond.", "source")
	agentLadder     = agentDesc("interference_actions_total", "Steps against harmful neighbours that were decided.", "step")
	agentProbed     = agentDesc("run_queue_victims", "Services of which it is looked at the moment for whom their threads wait.")
	agentLooked     = agentDesc("run_queue_seconds_total", "Seconds in which the run queues were looked at.")
	agentUncounted  = agentDesc("run_queue_dropped_seconds_total", "Seconds of threads' waiting that were seen and found no room in the table of who waited for whom.")
	agentUnlooked   = agentDesc("run_queue_failures_total", "Looks at the run queues that failed.")
	agentOvercommit = agentDesc("overcommit_percent", "Percent of the CPUs that services share which may be promised to them, by why it is not more.", "reason")
	agentLendings   = []*prometheus.Desc{
		agentHeadroom, agentLent, agentSuppressed, agentClosed, agentPressures, agentBlind, agentRequested, agentFollowed, agentStopped, agentShrinks,
		agentShrunk, agentShrinking, agentLogPages, agentPartBytes, agentScrapes, agentStorage, agentStored, agentProfiled, agentSteered, agentWatched, agentHarmed, agentLadder, agentCounted, agentCountFiles,
		agentMemoryPods, agentMemoryMade, agentMemoryMost, agentMemoryRate, agentIntensive, agentProbed, agentLooked, agentUncounted, agentUnlooked,
		agentOvercommit, agentHeldBack, agentCrowded, agentOverusing,
	}
)

func collectLending(out chan<- prometheus.Metric, s *node.State) {
	send := func(kind prometheus.ValueType, desc *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, kind, value, labels...)
	}
	if c := s.Colocation; c != nil {
		amounts := func(desc *prometheus.Desc, a spec.ReclaimedAmounts) {
			const milli, mebibyte = 1000, 1 << 20
			send(prometheus.GaugeValue, desc, float64(a.MilliCPU)/milli, "cpu")
			send(prometheus.GaugeValue, desc, float64(a.MemoryMiB)*mebibyte, "memory")
		}
		amounts(agentHeadroom, c.Headroom)
		amounts(agentLent, c.Lent)
		for _, level := range []string{spec.SuppressionNone, spec.SuppressionWeight, spec.SuppressionFloor, spec.SuppressionEvict} {
			send(prometheus.GaugeValue, agentSuppressed, endpoints.OneIf(c.Suppression == level), level)
		}
		send(prometheus.GaugeValue, agentClosed, endpoints.OneIf(c.Closed != ""))
	}
	byDetector := func(desc *prometheus.Desc, counts *evict.ByDetector, labels ...string) {
		for d, n := range counts {
			if n > 0 {
				send(prometheus.CounterValue, desc, float64(n), append([]string{evict.Detector(d).String()}, labels...)...)
			}
		}
	}
	byDetector(agentPressures, &s.Evicting.Soft, "soft")
	byDetector(agentPressures, &s.Evicting.Hard, "hard")
	byDetector(agentBlind, &s.Evicting.Unknown)
	byDetector(agentRequested, &s.Evicting.Requests)
	byDetector(agentFollowed, &s.Evicting.Evicted)
	send(prometheus.CounterValue, agentStopped, float64(s.Stops))
	byDetector(agentHeldBack, &s.Evicting.Held)
	send(prometheus.CounterValue, agentCrowded, float64(s.Evicting.Crowded))
	send(prometheus.GaugeValue, agentOverusing, float64(s.Overusing))
	for outcome, n := range s.Shrinking.Outcomes {
		send(prometheus.CounterValue, agentShrinks, float64(n), string(outcome))
	}
	for outcome, n := range s.Scrapes {
		send(prometheus.CounterValue, agentScrapes, float64(n), string(outcome))
	}
	for outcome, n := range s.Storage {
		send(prometheus.CounterValue, agentStorage, float64(n), string(outcome))
	}
	send(prometheus.GaugeValue, agentStored, float64(s.StorageKnown))
	for profile, pods := range s.Steered {
		send(prometheus.GaugeValue, agentProfiled, float64(pods.Known), profile, "known")
		send(prometheus.GaugeValue, agentProfiled, float64(pods.Silent), profile, "missing")
	}
	for pool, milliCPU := range s.SteeredPools {
		const milli = 1000
		send(prometheus.GaugeValue, agentSteered, float64(milliCPU)/milli, pool)
	}
	collectInterference(send, s)
	collectBandwidth(send, s)
	if o := s.Overcommit; o != nil {
		send(prometheus.GaugeValue, agentOvercommit, float64(o.Percent), o.Reason)
	}
	send(prometheus.CounterValue, agentShrunk, float64(s.Shrinking.Got))
	collectMemory(send, s)
	send(prometheus.GaugeValue, agentShrinking, float64(s.Shrinking.Working))
}

func collectMemory(send func(prometheus.ValueType, *prometheus.Desc, float64, ...string), s *node.State) {
	for part, bytes := range s.MemoryParts {
		send(prometheus.GaugeValue, agentPartBytes, float64(bytes), part.Kind, whose(part.Reclaimed))
	}
	send(prometheus.CounterValue, agentLogPages, float64(s.LogPages))
}

func collectBandwidth(send func(prometheus.ValueType, *prometheus.Desc, float64, ...string), s *node.State) {
	b := &s.Bandwidth
	send(prometheus.GaugeValue, agentMemoryPods, float64(b.Known), "known")
	send(prometheus.GaugeValue, agentMemoryPods, float64(b.Unknown), "unknown")
	send(prometheus.GaugeValue, agentMemoryPods, float64(b.Waiting), "waiting")
	send(prometheus.GaugeValue, agentMemoryMade, float64(b.Groups))
	send(prometheus.GaugeValue, agentMemoryMost, float64(b.Limit))
	for part, rate := range s.BandwidthParts {
		send(prometheus.GaugeValue, agentMemoryRate, rate, strconv.Itoa(part.Domain), string(part.Level))
	}
	for source, pods := range s.MemoryIntensive {
		send(prometheus.GaugeValue, agentIntensive, float64(pods), source)
	}
}

func whose(reclaimed bool) string {
	if reclaimed {
		return "reclaimed"
	}
	return "online"
}

func collectInterference(send func(prometheus.ValueType, *prometheus.Desc, float64, ...string), s *node.State) {
	for step, n := range s.InterferenceActions {
		send(prometheus.CounterValue, agentLadder, float64(n), strings.ReplaceAll(string(step), " ", "_"))
	}
	send(prometheus.GaugeValue, agentProbed, float64(s.RunQueues.Victims))
	send(prometheus.CounterValue, agentLooked, s.RunQueues.Looked.Seconds())
	send(prometheus.CounterValue, agentUncounted, s.RunQueues.Dropped.Seconds())
	send(prometheus.CounterValue, agentUnlooked, float64(s.RunQueues.Failed))
	i := s.Interference
	if i == nil {
		return
	}
	unknown := 0
	if s.Counters.Why != nil {
		unknown = i.Watched
	}
	send(prometheus.GaugeValue, agentCounted, float64(s.Counters.Counted), "counted")
	send(prometheus.GaugeValue, agentCounted, float64(s.Counters.Waiting), "waiting")
	send(prometheus.GaugeValue, agentCounted, float64(unknown), "unknown")
	send(prometheus.GaugeValue, agentCountFiles, float64(s.Counters.Files))
	send(prometheus.GaugeValue, agentWatched, float64(i.Watched-i.Learning), "known")
	send(prometheus.GaugeValue, agentWatched, float64(i.Learning), "learning")
	send(prometheus.GaugeValue, agentWatched, float64(s.Unwatched), "unwatched")
	found := map[string]float64{spec.InterferenceGrowthStopped: 0, spec.InterferenceLimited: 0, spec.InterferenceEvicting: 0, spec.InterferenceLeftAlone: 0}
	for _, f := range i.Findings {
		found[f.Step]++
	}
	for step, n := range found {
		send(prometheus.GaugeValue, agentHarmed, n, step)
	}
}
