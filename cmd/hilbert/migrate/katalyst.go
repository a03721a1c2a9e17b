package migrate

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"hilbert.dev/hilbert/api/spec"
)

const (
	katalystDomain    = "katalyst.kubewharf.io/"
	katalystResources = "resource.katalyst.kubewharf.io/"
)

func katalyst() system {
	return system{
		name: "katalyst", schedulers: []string{"katalyst-scheduler"},
		prefixes: []string{katalystDomain, katalystResources},
		groups: []string{
			"node.katalyst.kubewharf.io", "workload.katalyst.kubewharf.io", "config.katalyst.kubewharf.io", "autoscaling.katalyst.kubewharf.io",
			"overcommit.katalyst.kubewharf.io", "tide.katalyst.kubewharf.io", "recommendation.katalyst.kubewharf.io",
		},
		pod: katalystPod,
	}
}

func katalystPod(p *pod, _ bool) {
	if w, ok := p.take(katalystDomain + "qos_level"); ok {
		level := spec.QoSLevel(w.value)
		if slices.Contains([]spec.QoSLevel{spec.QoSDedicated, spec.QoSShared, spec.QoSReclaimed, spec.QoSSystem}, level) {
			p.level(w, level)
		} else {
			p.wrong(w, "want dedicated_cores, shared_cores, reclaimed_cores or system_cores")
		}
	}
	p.enhancements(katalystDomain+"memory_enhancement", func(w word, key, value string) bool {
		switch key {
		case "numa_binding":
			if exclusive, _ := p.peekEnhancement(w, "numa_exclusive"); value == "true" && exclusive != "true" {
				p.setAnnotation(spec.AnnotationNUMA, spec.NUMABound)
				p.say(Translated, w, spec.AnnotationNUMA+": "+spec.NUMABound)
			}
		case "numa_exclusive":
			if value == "true" {
				p.setAnnotation(spec.AnnotationNUMA, spec.NUMAExclusive)
				p.say(Translated, w, spec.AnnotationNUMA+": "+spec.NUMAExclusive)
			}
		case "rss_overuse_threshold":
			p.lost(w, key+": pods that use more memory than they ask for are not evicted while the node has enough")
		case "oom_priority":
			p.lost(w, key+": when memory runs out, the QoS level and the priority decide")
		default:
			return false
		}
		return true
	})
	p.enhancements(katalystDomain+"cpu_enhancement", func(w word, key, value string) bool {
		switch key {
		case "cpuset_pool":
			p.setAnnotation(spec.AnnotationPool, value)
			p.say(Translated, w, spec.AnnotationPool+": "+value)
		case "suppression_tolerance_rate":
			p.lost(w, key+": which reclaimed pods give way follows from their priority")
		case "numa_share":
			p.lost(w, key+": a NUMA-bound pod shares its NUMA nodes with others unless it says exclusive")
		case "full_pcpus_pairing":
			p.say(Translated, w, key+": dedicated pods always get whole cores")
		case "align_by_socket", "distribute_evenly_across_numa":
			p.lost(w, key+": a pod of several NUMA nodes gets those that lie nearest to each other")
		case "cpu_burst_policy", "cpu_burst_percent", "cpu_burst_threshold":
			p.lost(w, key+": the agent sets no CPU burst")
		default:
			return false
		}
		return true
	})
	p.enhancements(katalystDomain+"network_enhancement", func(w word, key, _ string) bool {
		p.lost(w, key+": cards are chosen by nearness and bandwidth, see "+spec.ResourceNICBandwidth)
		return true
	})
	p.reclaimed(katalystResources+"reclaimed_millicpu", katalystResources+"reclaimed_memory")
	for _, c := range p.containers() {
		for _, name := range []string{katalystResources + "milligpu", katalystResources + "gpu_memory"} {
			if w, ok := p.takeResource(c, name); ok {
				p.wrong(w, fmt.Sprintf("its unit is what the operator has set; write %s (thousandths) and %s (MiB)", spec.ResourceGPUMilli, spec.ResourceGPUMemory))
			}
		}
	}
	p.takeLost(map[string]string{
		katalystDomain + "pod_eviction_priority": "evictions follow QoS level, priority and gain",
	})
}

// enhancements reads a JSON object of strings, key by key. do reports whether it knows the key.
func (p *pod) enhancements(key string, do func(w word, key, value string) bool) {
	w, ok := p.take(key)
	if !ok {
		return
	}
	var fields map[string]string
	if err := json.Unmarshal([]byte(w.value), &fields); err != nil {
		p.wrong(w, "it is no JSON object of texts: "+err.Error())
		return
	}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if !do(w, field, fields[field]) {
			p.wrong(w, "the key "+field+" is not known")
		}
	}
}

// peekEnhancement is another key of the same object.
func (p *pod) peekEnhancement(w word, key string) (string, bool) {
	var fields map[string]string
	if err := json.Unmarshal([]byte(w.value), &fields); err != nil {
		return "", false
	}
	value, ok := fields[key]
	return value, ok
}
