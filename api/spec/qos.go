package spec

import (
	"encoding/json"
	"fmt"
)

// QoSLevel says which CPUs a pod gets on a node.
type QoSLevel string

// The QoS levels.
const (
	// QoSDedicated: whole cores of its own.
	QoSDedicated QoSLevel = "dedicated_cores"
	// QoSShared: a pool that it shares with others of its business. This is what a pod without a level gets.
	QoSShared QoSLevel = "shared_cores"
	// QoSReclaimed: what the others leave, and it yields at once.
	QoSReclaimed QoSLevel = "reclaimed_cores"
	// QoSSystem: the cores that are reserved for the node's own services.
	QoSSystem QoSLevel = "system_cores"
)

// The QoS level of a pod.
const (
	// LabelQoS stands on a pod and names its level: QoSDedicated, QoSShared, QoSReclaimed or QoSSystem.
	LabelQoS = "hilbert.dev/qos-level"
	// AnnotationNUMA stands on a pod of level QoSDedicated: NUMABound or NUMAExclusive. Without it, memory may come from any NUMA node. On one of level
	// QoSShared it may be NUMABound: the pod runs on the CPUs of pool PoolShare that are in its NUMA nodes, beside others, and has its memory there.
	AnnotationNUMA = "hilbert.dev/numa"
	// AnnotationPool stands on a pod of level QoSShared and names the pool of CPUs that it runs in. Without it, the pool is PoolShare.
	AnnotationPool = "hilbert.dev/pool"

	// AnnotationMemoryBandwidth stands on a pod and says how it gets on with others at the memory of a NUMA node: BandwidthIntensive or BandwidthSensitive. Pods
	// of the one kind are kept off NUMA nodes with pods of the other kind. Without it, the pod gets on with all.
	AnnotationMemoryBandwidth = "hilbert.dev/memory-bandwidth"

	// AnnotationNUMANodes says what the pod was promised of each NUMA node: "0:8/4096Mi" is 8 CPUs and 4 GiB of NUMA node 0. Hilbert writes it with
	// the Binding; nothing else may.
	AnnotationNUMANodes = "hilbert.dev/numa-nodes"

	// AnnotationAdjusted stands on a container, not on a pod: the agent's mark that it has adjusted the container.
	AnnotationAdjusted = "hilbert.dev/adjusted"

	// AnnotationKatalystQoS is Katalyst's name of LabelQoS, read where that is missing.
	AnnotationKatalystQoS = "katalyst.kubewharf.io/qos_level"
	// AnnotationKatalystCPU is Katalyst's name of AnnotationPool, read where that is missing.
	AnnotationKatalystCPU = "katalyst.kubewharf.io/cpu_enhancement"
	// AnnotationKatalystMemory is Katalyst's name of AnnotationNUMA, read where that is missing.
	AnnotationKatalystMemory = "katalyst.kubewharf.io/memory_enhancement"
)

// Resources of reclaimed pods, which ask for these instead of cpu and memory. Only the CustomNodeResource offers them; a node's status never
// does.
const (
	// ResourceReclaimedCPU is CPU time, in thousandths of a CPU.
	ResourceReclaimedCPU = "hilbert.dev/reclaimed-millicpu"
	// ResourceReclaimedMemory is memory, in bytes.
	ResourceReclaimedMemory = "hilbert.dev/reclaimed-memory"
)

// Permissions of a namespace, with the value "true".
const (
	// LabelAllowDedicated allows the namespace's pods the level QoSDedicated.
	LabelAllowDedicated = "hilbert.dev/allow-dedicated-cores"
	// LabelAllowSystem allows the namespace's pods the level QoSSystem.
	LabelAllowSystem = "hilbert.dev/allow-system-cores"
)

// The values of AnnotationNUMA.
const (
	NUMABound     = "bound"
	NUMAExclusive = "exclusive"
)

// The values of AnnotationMemoryBandwidth.
const (
	// BandwidthIntensive: the pod loads the memory, as a scan, a shuffle or a copy of a model does.
	BandwidthIntensive = "intensive"
	// BandwidthSensitive: the pod is slow where others load the memory. It must be of level QoSDedicated, or bound to NUMA nodes.
	BandwidthSensitive = "sensitive"
)

// Names of the pools that are always there. A business cannot name its pool so.
const (
	PoolShare     = "share"
	PoolReclaimed = "reclaimed"
	PoolSystem    = "system"
)

// MaxPoolName is the longest name of a pool, in bytes.
const MaxPoolName = 63

// QoS is what a pod asks for.
type QoS struct {
	Level QoSLevel
	NUMA  string // "", NUMABound or NUMAExclusive of a dedicated pod, "" or NUMABound of a shared one
	Pool  string // of a shared pod only
	Said  bool   // the pod names its level
	// Bandwidth is "", BandwidthIntensive or BandwidthSensitive.
	Bandwidth string
}

// QoSOf reads a pod's labels and annotations. The error names the key and what it may be; the QoS beside it is what the pod is then treated
// as: shared.
func QoSOf(labels, annotations map[string]string) (QoS, error) {
	q := QoS{Level: QoSShared, Pool: PoolShare}
	level, key := labels[LabelQoS], LabelQoS
	if level == "" {
		level, key = annotations[AnnotationKatalystQoS], AnnotationKatalystQoS
	}
	switch QoSLevel(level) {
	case "":
	case QoSDedicated, QoSShared, QoSReclaimed, QoSSystem:
		q.Level, q.Said = QoSLevel(level), true
	default:
		return q, fmt.Errorf("%s: %q is no QoS level; want %s, %s, %s or %s", key, level, QoSDedicated, QoSShared, QoSReclaimed, QoSSystem)
	}
	numa, pool, err := enhancements(annotations)
	if err != nil {
		return QoS{Level: QoSShared, Pool: PoolShare, Said: q.Said}, err
	}
	if q, err = q.with(numa, pool); err != nil {
		return q, err
	}
	return q.withBandwidth(annotations[AnnotationMemoryBandwidth])
}

func (q QoS) withBandwidth(bandwidth string) (QoS, error) {
	shared := QoS{Level: QoSShared, Pool: PoolShare, Said: q.Said}
	switch {
	case bandwidth == "":
	case bandwidth != BandwidthIntensive && bandwidth != BandwidthSensitive:
		return shared, fmt.Errorf("%s: %q: want %s or %s", AnnotationMemoryBandwidth, bandwidth, BandwidthIntensive, BandwidthSensitive)
	case q.Level == QoSSystem:
		return shared, fmt.Errorf("%s: pods of level %s are kept off no NUMA node; leave it out", AnnotationMemoryBandwidth, q.Level)
	case bandwidth == BandwidthSensitive && q.Level != QoSDedicated && q.NUMA == "":
		return shared, fmt.Errorf("%s: only a pod of level %s, or one with %s, can be %s", AnnotationMemoryBandwidth, QoSDedicated, AnnotationNUMA, bandwidth)
	}
	q.Bandwidth = bandwidth
	return q, nil
}

func (q QoS) with(numa, pool string) (QoS, error) {
	shared := QoS{Level: QoSShared, Pool: PoolShare, Said: q.Said}
	switch {
	case numa != "" && numa != NUMABound && numa != NUMAExclusive:
		return shared, fmt.Errorf("%s: %q: want %s or %s", AnnotationNUMA, numa, NUMABound, NUMAExclusive)
	case numa != "" && q.Level != QoSDedicated && q.Level != QoSShared:
		return shared, fmt.Errorf("%s: only pods of level %s or %s are bound to NUMA nodes, not %s", AnnotationNUMA, QoSDedicated, QoSShared, q.Level)
	case numa == NUMAExclusive && q.Level == QoSShared:
		return shared, fmt.Errorf("%s: a pod of level %s has no NUMA node alone; want %s, or level %s", AnnotationNUMA, q.Level, NUMABound, QoSDedicated)
	case numa != "" && pool != "" && pool != PoolShare && q.Level == QoSShared:
		return shared, fmt.Errorf("%s: a pod that is bound to NUMA nodes runs in pool %s; leave out %q or %s", AnnotationPool, PoolShare, pool, AnnotationNUMA)
	case pool != "" && q.Level != QoSShared:
		return shared, fmt.Errorf("%s: only pods of level %s choose a pool, not %s", AnnotationPool, QoSShared, q.Level)
	case pool == PoolReclaimed || pool == PoolSystem || len(pool) > MaxPoolName:
		return shared, fmt.Errorf("%s: %q: want a name of at most %d bytes that is neither %s nor %s", AnnotationPool, pool, MaxPoolName, PoolReclaimed, PoolSystem)
	}
	q.NUMA = numa
	switch {
	case q.Level != QoSShared:
		q.Pool = ""
	case pool != "":
		q.Pool = pool
	}
	return q, nil
}

// enhancements reads how the level is refined, by our names or by Katalyst's.
func enhancements(annotations map[string]string) (numa, pool string, err error) {
	numa, pool = annotations[AnnotationNUMA], annotations[AnnotationPool]
	if text := annotations[AnnotationKatalystMemory]; text != "" && numa == "" {
		var memory struct {
			Binding   string `json:"numa_binding"`
			Exclusive string `json:"numa_exclusive"`
		}
		if err := json.Unmarshal([]byte(text), &memory); err != nil {
			return "", "", fmt.Errorf("%s: %w; want for example {\"numa_binding\":\"true\"}", AnnotationKatalystMemory, err)
		}
		switch {
		case memory.Exclusive == "true":
			numa = NUMAExclusive
		case memory.Binding == "true":
			numa = NUMABound
		}
	}
	if text := annotations[AnnotationKatalystCPU]; text != "" && pool == "" {
		var cpu struct {
			Pool string `json:"cpuset_pool"`
		}
		if err := json.Unmarshal([]byte(text), &cpu); err != nil {
			return "", "", fmt.Errorf("%s: %w; want for example {\"cpuset_pool\":\"ads\"}", AnnotationKatalystCPU, err)
		}
		pool = cpu.Pool
	}
	return numa, pool, nil
}
