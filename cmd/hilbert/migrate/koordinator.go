package migrate

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"

	"hilbert.dev/hilbert/api/spec"
)

const (
	koordinatorDomain = "koordinator.sh/"
	koordinatorGang   = "gang.scheduling.koordinator.sh/"
	koordinatorQuota  = "quota.scheduling.koordinator.sh/"
	koordinatorPlaces = "scheduling.koordinator.sh/"
)

func koordinator() system {
	return system{
		name: "koordinator", schedulers: []string{"koord-scheduler"},
		prefixes: []string{
			koordinatorDomain, koordinatorGang, koordinatorQuota, koordinatorPlaces, "node.koordinator.sh/", "internal.scheduling.koordinator.sh/",
			"pod-group.scheduling.sigs.k8s.io", "pod-group.scheduling.sigs.k8s.io/",
			"kubernetes.io/batch-cpu", "kubernetes.io/batch-memory", "kubernetes.io/mid-cpu", "kubernetes.io/mid-memory",
		},
		groups: []string{"config.koordinator.sh", "slo.koordinator.sh", "scheduling.koordinator.sh", "quota.koordinator.sh", "analysis.koordinator.sh", "scheduling.sigs.k8s.io"},
		kinds: map[string]func(*run, subject) ([]*yaml.Node, bool){
			"PodGroup": sigsPodGroup, "ElasticQuota": elasticQuota,
		},
		pod: koordinatorPod,
	}
}

func koordinatorPod(p *pod, _ bool) {
	koordinatorLevel(p)
	p.reclaimed("kubernetes.io/batch-cpu", "kubernetes.io/batch-memory")
	for _, c := range p.containers() {
		for _, name := range []string{"kubernetes.io/mid-cpu", "kubernetes.io/mid-memory"} {
			if w, ok := p.takeResource(c, name); ok {
				p.wrong(w, "Hilbert lends one class of idle resources, not two; make it a batch resource or an ordinary request")
			}
		}
		koordinatorGPU(p, c)
	}
	koordinatorCPUs(p)
	koordinatorDevices(p)
	koordinatorGangOf(p)
	if w, ok := p.take(koordinatorQuota + "name"); ok {
		p.run.inQueue(p.of, p.system.name, w, w.value)
	}
	p.takeLost(map[string]string{
		koordinatorDomain + "priority":         "pods of one PriorityClass are served in the order of their creation",
		koordinatorDomain + "netQoSClass":      "offline pods share one class of traffic",
		koordinatorDomain + "bandwidth":        "the agent limits what offline pods send together",
		koordinatorQuota + "preemptible":       "a Queue says whether what it has borrowed may be taken back (spec.reclaim)",
		koordinatorQuota + "tree-id":           "there is one tree of Queues",
		koordinatorPlaces + "eviction-cost":    "Hilbert weighs QoS level, priority and work lost",
		koordinatorPlaces + "soft-eviction":    "nobody asks a pod before it is evicted, but a PodDisruptionBudget",
		koordinatorPlaces + "resource-status":  "written by Koordinator",
		koordinatorPlaces + "device-allocated": "written by Koordinator",
	})
}

// koordinatorLevel: the QoS class counts; a pod without one gets it from its PriorityClass, as in Koordinator.
func koordinatorLevel(p *pod) {
	class, _ := p.root.at("spec").text("priorityClassName")
	priority := word{"priorityClassName", class, p.root.at("spec").line("priorityClassName")}
	ours := slices.Contains([]string{"koord-prod", "koord-mid", "koord-batch", "koord-free"}, class)
	if ours {
		p.say(Manual, priority, "the PriorityClass comes with Koordinator; keep it, or name another")
	}
	if w, ok := p.take(koordinatorDomain + "priority-class"); ok {
		p.lost(w, "priority comes from priorityClassName alone")
	}
	w, ok := p.take(koordinatorDomain + "qosClass")
	if !ok {
		if class == "koord-batch" || class == "koord-free" {
			p.level(priority, spec.QoSReclaimed)
		}
		return
	}
	switch w.value {
	case "LSE":
		p.level(w, spec.QoSDedicated)
	case "LSR":
		p.level(w, spec.QoSDedicated, "Koordinator lends what an LSR pod leaves idle; dedicated cores are lent to nobody")
	case "LS":
		p.level(w, spec.QoSShared)
	case "BE":
		p.level(w, spec.QoSReclaimed)
	case "SYSTEM":
		p.level(w, spec.QoSSystem)
	default:
		p.wrong(w, "want LSE, LSR, LS, BE or SYSTEM")
	}
}

// reclaimed rewrites lent CPU time, in thousandths of a CPU, and lent memory.
func (p *pod) reclaimed(cpu, memory string) {
	for _, c := range p.containers() {
		for _, r := range [][2]string{{cpu, spec.ResourceReclaimedCPU}, {memory, spec.ResourceReclaimedMemory}} {
			w, ok := p.takeResource(c, r[0])
			if !ok {
				continue
			}
			if _, err := resource.ParseQuantity(w.value); err != nil {
				p.wrong(w, "it is no quantity")
				continue
			}
			p.setResource(c, r[1], w.value)
			p.say(Translated, w, r[1]+": "+w.value)
		}
	}
}

// koordinatorCPUs: how CPUs are chosen.
func koordinatorCPUs(p *pod) {
	if w, ok := p.take(koordinatorPlaces + "resource-spec"); ok {
		var s struct{ PreferredCPUBindPolicy, PreferredCPUExclusivePolicy, RequiredCPUBindPolicy string }
		if err := json.Unmarshal([]byte(w.value), &s); err != nil {
			p.wrong(w, "it is no JSON object: "+err.Error())
			return
		}
		for _, bind := range []string{s.PreferredCPUBindPolicy, s.RequiredCPUBindPolicy} {
			switch bind {
			case "", "Default":
			case "FullPCPUs":
				p.say(Translated, w, "dedicated pods always get whole cores")
			case "SpreadByPCPUs", "ConstrainedBurst":
				p.lost(w, bind+": dedicated pods always get whole cores")
			default:
				p.wrong(w, "the bind policy "+bind+" is not known")
			}
		}
		switch s.PreferredCPUExclusivePolicy {
		case "", "None":
		case "PCPULevel":
			p.say(Translated, w, "no other pod runs on the cores of a dedicated pod")
		case "NUMANodeLevel":
			if level, _ := p.peek(spec.LabelQoS); level != string(spec.QoSDedicated) {
				p.lost(w, "only dedicated pods have NUMA nodes of their own")
				break
			}
			p.setAnnotation(spec.AnnotationNUMA, spec.NUMAExclusive)
			p.say(Invented, w, spec.AnnotationNUMA+": "+spec.NUMAExclusive+", which no dedicated pod shares, where Koordinator kept out those with the same word only, and only if it could")
		default:
			p.wrong(w, "the exclusive policy "+s.PreferredCPUExclusivePolicy+" is not known")
		}
	}
	if w, ok := p.take(koordinatorPlaces + "numa-topology-spec"); ok {
		var s struct{ NUMATopologyPolicy string }
		if err := json.Unmarshal([]byte(w.value), &s); err != nil {
			p.wrong(w, "it is no JSON object: "+err.Error())
			return
		}
		policy := map[string]string{"": "none", "BestEffort": "best-effort", "Restricted": "restricted", "SingleNUMANode": "single-numa-node"}[s.NUMATopologyPolicy]
		if policy == "" {
			p.wrong(w, "the policy "+s.NUMATopologyPolicy+" is not known")
			return
		}
		p.setAnnotation(spec.AnnotationNUMAPolicy, policy)
		p.say(Translated, w, spec.AnnotationNUMAPolicy+": "+policy)
	}
}

// koordinatorGPU: percent of compute and of memory, or bytes.
func koordinatorGPU(p *pod, c object) {
	both, hasBoth := p.takeResource(c, koordinatorDomain+"gpu")
	core, hasCore := p.takeResource(c, koordinatorDomain+"gpu-core")
	ratio, hasRatio := p.takeResource(c, koordinatorDomain+"gpu-memory-ratio")
	memory, hasMemory := p.takeResource(c, koordinatorDomain+"gpu-memory")
	if hasBoth {
		core, ratio, hasCore, hasRatio = both, both, true, true
	}
	if shared, ok := p.takeResource(c, koordinatorDomain+"gpu.shared"); ok && shared.value != "1" {
		p.wrong(shared, "a pod has parts of one GPU, not of several")
	}
	if !hasCore {
		for _, w := range []word{ratio, memory} {
			if w.key != "" {
				p.wrong(w, "it is a share of a GPU without compute; add "+koordinatorDomain+"gpu-core, 1 to 99 percent")
			}
		}
		return
	}
	percent, ok := whole(core.value)
	if !ok || percent < 1 || percent > 99 && percent%100 != 0 {
		p.wrong(core, "want 1 to 99 percent of one GPU, or a multiple of 100")
		return
	}
	p.setResource(c, spec.ResourceGPUCore, core.value)
	p.say(Translated, core, spec.ResourceGPUCore+": "+core.value)
	switch {
	case hasMemory:
		p.gpuMemory(c, memory, max(percent/100, 1))
	case hasRatio && ratio.value == core.value: // what Hilbert takes without a word
	case hasRatio && p.run.options.GPUMemoryMiB > 0:
		p.gpuMemoryShare(c, ratio, max(percent/100, 1))
	case hasRatio:
		p.lost(ratio, fmt.Sprintf("the pod gets %s %% of a GPU's memory with its compute; say how much memory a GPU has (--gpu-memory) to keep the ratio", core.value))
	}
	if w, ok := p.take(koordinatorDomain + "gpu-isolation-provider"); ok {
		p.setAnnotation(spec.AnnotationIsolation, "soft")
		p.say(Translated, w, spec.AnnotationIsolation+": soft")
	}
}

// gpuMemory asks for memory of each GPU; Koordinator's bytes are for all of them.
func (p *pod) gpuMemory(c object, w word, gpus int64) {
	q, err := resource.ParseQuantity(w.value)
	if err != nil || q.Sign() <= 0 {
		p.wrong(w, "it is no quantity of bytes")
		return
	}
	mib := strconv.FormatInt(int64(math.Ceil(q.AsApproximateFloat64()/float64(gpus)/(1<<20))), 10)
	p.setResource(c, spec.ResourceGPUMemory, mib)
	p.say(Translated, w, fmt.Sprintf("%s: %s, the MiB of each GPU", spec.ResourceGPUMemory, mib))
}

// gpuMemoryShare asks for a percentage of the memory that a GPU of the cluster has; of several GPUs, the percentage is of all together.
func (p *pod) gpuMemoryShare(c object, w word, gpus int64) {
	percent, err := strconv.ParseInt(w.value, 10, 64)
	if err != nil || percent < 1 || percent > 100*gpus {
		p.wrong(w, "want a percentage")
		return
	}
	mib := strconv.FormatInt(p.run.options.GPUMemoryMiB*percent/100/gpus, 10)
	p.setResource(c, spec.ResourceGPUMemory, mib)
	p.say(Translated, w, fmt.Sprintf("%s: %s, that share of %d MiB", spec.ResourceGPUMemory, mib, p.run.options.GPUMemoryMiB))
}

// koordinatorDevices: cards, and how near they are to GPUs.
func koordinatorDevices(p *pod) {
	for _, c := range p.containers() {
		w, ok := p.takeResource(c, koordinatorDomain+"rdma")
		if !ok {
			continue
		}
		percent, ok := whole(w.value)
		if !ok || percent < 1 {
			p.wrong(w, "want a percentage, 100 a card")
			continue
		}
		cards := strconv.FormatInt((percent+99)/100, 10)
		p.setResource(c, spec.ResourceRDMA, cards)
		p.say(Translated, w, spec.ResourceRDMA+": "+cards)
		if percent%100 != 0 {
			p.lost(w, "a part of a card; several pods may use one card in Hilbert, see "+spec.ResourceNICBandwidth)
		}
	}
	if w, ok := p.take(koordinatorPlaces + "device-joint-allocate"); ok {
		var s struct {
			DeviceTypes   []string
			RequiredScope string
		}
		if err := json.Unmarshal([]byte(w.value), &s); err != nil || s.RequiredScope != "" && s.RequiredScope != "SamePCIe" {
			p.wrong(w, `want {"deviceTypes": […], "requiredScope": "SamePCIe"}`)
			return
		}
		near := "switch"
		if s.RequiredScope != "" {
			near += ",required"
		}
		p.setAnnotation(spec.AnnotationNear, near)
		p.say(Translated, w, spec.AnnotationNear+": "+near)
	}
	p.takeLost(map[string]string{
		koordinatorPlaces + "device-allocate-hint": "devices are chosen by nearness and by what they leave for others",
		koordinatorPlaces + "gpu-partition-spec":   "several GPUs of a pod are the best connected ones that are free",
	})
}

// koordinatorGangOf: gangs by annotations, or by a label of the old PodGroup.
func koordinatorGangOf(p *pod) {
	for _, key := range []string{koordinatorGang + "name", "pod-group.scheduling.sigs.k8s.io", "pod-group.scheduling.sigs.k8s.io/name"} {
		if w, ok := p.take(key); ok {
			p.inGang(w, w.value)
		}
	}
	for _, key := range []string{koordinatorGang + "min-available", "pod-group.scheduling.sigs.k8s.io/min-available"} {
		if w, ok := p.take(key); ok {
			if n, ok := p.number(w); ok {
				p.gang.min = n
				p.say(Translated, w, fmt.Sprintf("the PodGroup needs %d members", n))
			}
		}
	}
	if w, ok := p.take(koordinatorGang + "waiting-time"); ok {
		p.gang.timeout = w.value
		p.say(Translated, w, spec.AnnotationTimeout+": "+w.value+" on the PodGroup; members hold no nodes meanwhile")
	}
	if w, ok := p.take(koordinatorGang + "mode"); ok {
		switch w.value {
		case "Strict":
			p.say(Translated, w, "gangs are whole or not at all")
		case "NonStrict":
			p.lost(w, "members that fit do not keep their places while the gang waits")
		default:
			p.wrong(w, "want Strict or NonStrict")
		}
	}
	if w, ok := p.take(koordinatorGang + "groups"); ok {
		if strings.Contains(w.value, ",") {
			p.lost(w, "several gangs cannot wait for each other; make them one gang, with subgroups ("+spec.LabelSubgroup+")")
		} else {
			p.say(Translated, w, "a gang of its own")
		}
	}
	if w, ok := p.take(koordinatorGang + "network-topology-spec"); ok {
		p.say(Manual, w, "name the node label of the layer on the PodGroup: "+spec.AnnotationRequiredTopology+" or "+spec.AnnotationPreferredTopology)
	}
	p.takeLost(map[string]string{
		koordinatorGang + "total-number":                "the members that exist are counted",
		koordinatorGang + "match-policy":                "running members count, also those of a gang that was whole once",
		"pod-group.scheduling.sigs.k8s.io/match-policy": "running members count, also those of a gang that was whole once",
		koordinatorGang + "network-topology-index":      "members of a gang are interchangeable",
	})
}
