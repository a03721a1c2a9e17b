package parse

import (
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/topology"
)

// bindings are the values of spec.QoS.NUMA of dedicated pods.
var bindings = map[string]topology.Binding{"": topology.Unbound, spec.NUMABound: topology.Bound, spec.NUMAExclusive: topology.Exclusive}

// qosKeys are what spec.QoSOf reads of a pod's annotations.
var qosKeys = [...]string{
	spec.AnnotationNUMA, spec.AnnotationMemoryBandwidth, spec.AnnotationPool, spec.AnnotationKatalystQoS, spec.AnnotationKatalystCPU, spec.AnnotationKatalystMemory,
}

// qos spells out what decides which cores the pod asks for.
func (k *specKey) qos(pod *corev1.Pod) {
	k.str(pod.Labels[spec.LabelQoS])
	if len(pod.Annotations) == 0 {
		k.num(0)
		return
	}
	for i, key := range qosKeys {
		if value, ok := pod.Annotations[key]; ok {
			k.num(int64(i + 1))
			k.str(value)
		}
	}
	k.num(0)
}

// numaRequest reads what a pod asks of NUMA nodes, from its effective request: cores of its own, or room in the shared pool of its NUMA nodes. impossible says, with what would mend it, why it cannot be
// placed: its QoS cannot be read, or cannot be had. A pod that is bound all the same is treated as shared then.
func numaRequest(pod *corev1.Pod, list corev1.ResourceList) (r topology.NUMARequest, impossible string) {
	qos, err := spec.QoSOf(pod.Labels, pod.Annotations)
	switch {
	case err != nil:
		return r, err.Error()
	case qos.Level == spec.QoSShared && qos.NUMA == spec.NUMABound:
		r, impossible = sharedRequest(list)
	case qos.Level == spec.QoSDedicated:
		r, impossible = dedicatedRequest(qos, list)
	}
	if !r.IsZero() {
		r.Bandwidth, _ = topology.ParseBandwidth(qos.Bandwidth) // QoSOf has judged it
	}
	return r, impossible
}

// dedicatedRequest is what a pod with cores of its own asks of NUMA nodes.
func dedicatedRequest(qos spec.QoS, list corev1.ResourceList) (r topology.NUMARequest, impossible string) {
	cpu := amount(corev1.ResourceCPU, list.Cpu())
	switch {
	case cpu <= 0:
		return r, fmt.Sprintf("%s: a pod of level %s needs a cpu request of 1 or more; it has none", spec.LabelQoS, qos.Level)
	case cpu%1000 != 0:
		return r, fmt.Sprintf("%s: a pod of level %s needs a cpu request of whole CPUs; request %d instead of %dm in sum", spec.LabelQoS, qos.Level, cpu/1000+1, cpu)
	case cpu/1000 > topology.MaxCPUs:
		return r, fmt.Sprintf("%s: the pod requests %d CPUs of its own; a node has at most %d", spec.LabelQoS, cpu/1000, topology.MaxCPUs)
	}
	r = topology.NUMARequest{CPUs: uint16(cpu / 1000), Binding: bindings[qos.NUMA]}
	if r.Binding == topology.Unbound {
		return r, ""
	}
	if r.Memory, impossible = numaMemory(list); impossible != "" {
		return topology.NUMARequest{}, impossible
	}
	return r, ""
}

// sharedRequest is what a shared pod asks of NUMA nodes. A part of a CPU is counted as a whole one.
func sharedRequest(list corev1.ResourceList) (r topology.NUMARequest, impossible string) {
	cpu := amount(corev1.ResourceCPU, list.Cpu())
	switch {
	case cpu <= 0:
		return r, spec.AnnotationNUMA + ": a pod that is bound to NUMA nodes needs a cpu request; it has none"
	case cpu > topology.MaxCPUs*1000:
		return r, fmt.Sprintf("%s: the pod requests %dm of CPU; a node has at most %d CPUs", spec.AnnotationNUMA, cpu, topology.MaxCPUs)
	}
	r = topology.NUMARequest{CPUs: uint16((cpu + 999) / 1000), Binding: topology.BoundShared}
	if r.Memory, impossible = numaMemory(list); impossible != "" {
		return topology.NUMARequest{}, impossible
	}
	return r, ""
}

// numaMemory is the MiB that a bound pod asks of its NUMA nodes.
func numaMemory(list corev1.ResourceList) (mebibytes uint32, impossible string) {
	memory := amount(corev1.ResourceMemory, list.Memory())
	if memory > math.MaxUint32*topology.Mebibyte {
		return 0, fmt.Sprintf("%s: the pod requests %d bytes of memory; no NUMA node has as much", spec.AnnotationNUMA, memory)
	}
	return uint32((max(memory, 0) + topology.Mebibyte - 1) / topology.Mebibyte), ""
}

// isReclaimed reports whether a pod is of the reclaimed level. One whose QoS cannot be read is shared.
func isReclaimed(pod *corev1.Pod) bool {
	qos, _ := spec.QoSOf(pod.Labels, pod.Annotations)
	return qos.Level == spec.QoSReclaimed
}

// numaGrant reads what a bound pod was promised of NUMA nodes. Without a record, or with one that does not answer the request, the ledger infers it.
func (p *Parser) numaGrant(pod *corev1.Pod, request topology.NUMARequest) topology.NUMAGrant {
	text, ok := pod.Annotations[spec.AnnotationNUMANodes]
	if !ok || request.IsZero() {
		return topology.NUMAGrant{}
	}
	grant, err := topology.ParseNUMAGrant(text)
	grant.Bandwidth = request.Bandwidth // a scheduler that did not know it has left it out
	if err == nil {
		err = answers(&grant, request)
	}
	if err != nil {
		if p.OnUnreadablePromise != nil {
			p.OnUnreadablePromise()
		}
		p.warner.Warn("pod "+pod.Namespace+"/"+pod.Name, "the record of the pod's NUMA nodes is unreadable, so they are guessed",
			"annotation", spec.AnnotationNUMANodes, "err", err)
		return topology.NUMAGrant{}
	}
	return grant
}

// answers reports as an error that a grant gives less than was asked for.
func answers(g *topology.NUMAGrant, r topology.NUMARequest) error {
	cpus, memory := g.Excess(r)
	switch {
	case cpus < 0:
		return fmt.Errorf("NUMA %q: the pod asks for %d CPUs", g, r.CPUs)
	case r.Binding != topology.Unbound && memory < 0:
		return fmt.Errorf("NUMA %q: the pod asks for %d MiB of memory", g, r.Memory)
	}
	return nil
}

// recorded reads what a bound pod was given.
func (p *Parser) recorded(pod *corev1.Pod, r *facts.Requirements) topology.Grant {
	grant := p.grant(pod, &r.GPU)
	grant.NUMANodes = p.numaGrant(pod, r.NUMANodes)
	return grant
}
