package pods

import (
	"math"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/runtime"
	"hilbert.dev/hilbert/topology"
)

// Asked reads what a sandbox asks for: its labels and annotations, and the amounts that the kubelet told the runtime.
func Asked(s *runtime.Sandbox) allocate.Pod {
	p := allocate.Pod{
		UID: s.UID, Namespace: s.Namespace, Name: s.Name, MilliCPU: s.Amounts.MilliCPU, BestEffort: s.BestEffort,
		MemoryLimit: s.Amounts.MemoryLimit, Within: s.Within,
	}
	qos, err := spec.QoSOf(s.Labels, s.Annotations)
	if p.QoS = qos; err != nil {
		p.Invalid = err.Error()
	}
	if text := s.Annotations[spec.AnnotationNUMANodes]; text != "" {
		grant, err := topology.ParseNUMAGrant(text)
		if p.Promise = grant; err != nil {
			p.Forged = err.Error()
		}
	}
	if text := s.Annotations[spec.AnnotationReclaimed]; text != "" && qos.Level == spec.QoSReclaimed {
		amounts, err := spec.ParseReclaimed(text)
		if p.Reclaimed = amounts; err != nil {
			p.Forged = err.Error()
		}
	}
	promisedDevices(&p, s.Annotations)
	if qos.Level == spec.QoSDedicated || qos.Level == spec.QoSShared && qos.NUMA != "" {
		p.Request = requestOf(qos, s.Amounts, p.Promise)
		if !p.Promise.IsZero() && p.Promise.Bandwidth == topology.BandwidthUnsaid {
			p.Promise.Bandwidth = p.Request.Bandwidth // a scheduler that did not know it has left it out
		}
	}
	return p
}

// promisedDevices reads what a pod was promised of GPUs and network cards, and how close they must be. What is only preferred was heeded when the
// promise was made.
func promisedDevices(p *allocate.Pod, annotations map[string]string) {
	var err error
	if text := annotations[spec.AnnotationGPUs]; text != "" {
		err = p.Devices.ParseGPUs(text, nil)
	}
	if text := annotations[spec.AnnotationNICs]; text != "" && err == nil {
		err = p.Devices.ParseNICs(text, nil)
	}
	if err != nil {
		p.Devices, p.DevicesForged = topology.Grant{}, err.Error()
		return
	}
	words, err := spec.DeviceWordsOf(annotations)
	if err != nil {
		return // the scheduler did not read them either
	}
	if level, ok := topology.ParseLevel(words.Near); ok && words.Required {
		p.Near = topology.Near{Level: level, Required: true}
	}
	switch words.NUMAPolicy {
	case spec.NUMAPolicyRestricted:
		p.Near = topology.Near{Level: topology.SameNUMA, Required: true, Relax: true}
	case spec.NUMAPolicySingle:
		p.Near = topology.Near{Level: topology.SameNUMA, Required: true}
	}
}

// requestOf is what a pod asks of NUMA nodes that is dedicated, or shared and bound. Its CPUs are its request. The runtime is told no memory request, only the limit; the
// Binding was made for the request. So the promise says how much memory is bound, as long as it is no more than the limit.
func requestOf(qos spec.QoS, a runtime.Amounts, promise topology.NUMAGrant) topology.NUMARequest {
	r := topology.NUMARequest{CPUs: uint16(min((a.MilliCPU+999)/1000, math.MaxUint16))}
	r.Bandwidth, _ = topology.ParseBandwidth(qos.Bandwidth) // QoSOf has judged it
	switch qos.NUMA {
	case spec.NUMABound:
		if r.Binding = topology.Bound; qos.Level == spec.QoSShared {
			r.Binding = topology.BoundShared
		}
	case spec.NUMAExclusive:
		r.Binding = topology.Exclusive
	default:
		return r
	}
	var promised int64
	for _, memory := range promise.Memory {
		promised += int64(memory)
	}
	memory := (a.MemoryLimit + topology.Mebibyte - 1) / topology.Mebibyte
	if promised > 0 && (memory == 0 || promised < memory) {
		memory = promised
	}
	r.Memory = uint32(min(memory, math.MaxUint32))
	return r
}
