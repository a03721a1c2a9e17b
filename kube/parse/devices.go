package parse

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/topology"
)

// compute are the ways to ask for GPUs, and what is one whole GPU in each. Of a pod that asks in several ways the last counts.
var compute = [...]struct {
	name  corev1.ResourceName
	whole int64
}{{spec.ResourceGPUCore, 100}, {spec.ResourceGPUMilli, topology.FullGPU}, {spec.ResourceNvidiaGPU, 1}}

// wholeGPU is what one whole GPU is in a resource; 0 of a resource that is none.
func wholeGPU(name corev1.ResourceName) int64 {
	for _, way := range compute {
		if way.name == name {
			return way.whole
		}
	}
	return 0
}

// isDevice reports whether a resource is of GPUs or network cards, which are counted one by one and not as a sum.
func isDevice(name corev1.ResourceName) bool {
	return name == spec.ResourceGPUMemory || name == spec.ResourceRDMA || name == spec.ResourceNICBandwidth || name == spec.ResourceNICFunctions ||
		wholeGPU(name) > 0
}

// deviceKeys are what spec.DeviceWordsOf reads of a pod's annotations.
var deviceKeys = [...]string{spec.AnnotationIsolation, spec.AnnotationNear, spec.AnnotationNUMAPolicy}

// devices spells out what decides how the pod's devices are given.
func (k *specKey) devices(pod *corev1.Pod) {
	for i, key := range deviceKeys {
		if value := pod.Annotations[key]; value != "" {
			k.num(int64(i + 1))
			k.str(value)
		}
	}
	k.num(0)
}

// deviceRequest reads which GPUs and network cards a pod asks for, from its effective request, and how near they are to be to each other and
// to its NUMA nodes. impossible names, with what would mend it, the first thing that no node can fulfil. The request beside it is what a pod that is
// bound all the same is charged.
func deviceRequest(pod *corev1.Pod, list corev1.ResourceList, numaNodes topology.NUMARequest) (r topology.Request, impossible string) {
	asks := &asked{pod: pod, list: list}
	r, impossible = asks.gpus()
	if r.Milli > 0 {
		r.Tenant = topology.TenantOf(pod.Namespace)
	}
	memory, why := asks.gpuMemory(r)
	r.Memory, impossible = memory, cmp.Or(impossible, why)
	r.NIC, why = asks.nics()
	impossible = cmp.Or(impossible, why)
	r.Resources = resourceRequest(list)

	words, err := spec.DeviceWordsOf(pod.Annotations)
	if err != nil {
		return r, cmp.Or(impossible, err.Error())
	}
	if impossible != "" { // what follows from a request that is none would only confuse
		return r, impossible
	}
	r.Isolation, why = isolation(words, r)
	impossible = cmp.Or(impossible, why)
	r.Near, why = nearness(words, r, numaNodes)
	return r, cmp.Or(impossible, why)
}

// asked is what a pod asks for.
type asked struct {
	pod  *corev1.Pod
	list corev1.ResourceList
}

func (a *asked) amount(name corev1.ResourceName) int64 {
	q, ok := a.list[name]
	if !ok {
		return 0
	}
	return amount(name, &q)
}

// gpus reads compute.
func (a *asked) gpus() (r topology.Request, impossible string) {
	var last corev1.ResourceName
	for _, way := range compute {
		n := a.amount(way.name)
		if n == 0 {
			continue
		}
		if last != "" {
			impossible = fmt.Sprintf("the pod requests both %s and %s; request one of them", last, way.name)
		}
		var why string
		r, why = gpusOf(way.name, n, way.whole)
		last, impossible = way.name, cmp.Or(impossible, why)
	}
	return r, impossible
}

// gpusOf turns an amount of a resource into a part of a GPU or whole ones.
func gpusOf(name corev1.ResourceName, n, whole int64) (r topology.Request, impossible string) {
	switch {
	case n < 0:
		return r, fmt.Sprintf("%s: %d is less than nothing", name, n)
	case n < whole:
		return topology.Request{Milli: int16(n * topology.FullGPU / whole)}, ""
	case n%whole != 0:
		return r, fmt.Sprintf("%s: %d is neither a part of one GPU (1 to %d) nor whole ones (a multiple of %d); request %d or %d",
			name, n, whole-1, whole, n/whole*whole, (n/whole+1)*whole)
	case n/whole > topology.MaxGPUs:
		return topology.Request{Whole: topology.MaxGPUs}, fmt.Sprintf("the pod requests %d GPUs; a node has at most %d", n/whole, topology.MaxGPUs)
	}
	return topology.Request{Whole: int8(n / whole)}, ""
}

// gpuMemory reads the memory of each GPU of a request, in MiB.
func (a *asked) gpuMemory(r topology.Request) (uint32, string) {
	n := a.amount(spec.ResourceGPUMemory)
	switch {
	case n == 0:
		return 0, ""
	case r.IsZero():
		return 0, fmt.Sprintf("%s: the pod requests memory of no GPU; request %s or %s beside it", spec.ResourceGPUMemory, spec.ResourceGPUCore, spec.ResourceNvidiaGPU)
	case n < 0 || n > topology.MaxAmount:
		return 0, fmt.Sprintf("%s: no GPU has %d MiB", spec.ResourceGPUMemory, n)
	case r.Whole > 1 && a.saidTwice(spec.ResourceGPUMemory):
		return uint32(n), spec.ResourceGPUMemory + ": it is of each GPU, and several containers request it; request it in one of them"
	}
	return uint32(n), ""
}

// nics reads network cards.
func (a *asked) nics() (r topology.NICRequest, impossible string) {
	rdma, functions, bandwidth := a.amount(spec.ResourceRDMA), a.amount(spec.ResourceNICFunctions), a.amount(spec.ResourceNICBandwidth)
	count, name := max(rdma, functions), spec.ResourceRDMA
	if rdma < functions {
		name = spec.ResourceNICFunctions
	}
	if count == 0 && bandwidth != 0 {
		count = 1
	}
	r = topology.NICRequest{
		Count: uint8(min(max(count, 0), topology.MaxNICs)), RDMA: rdma > 0, Function: functions > 0,
		Bandwidth: uint32(min(max(bandwidth, 0), topology.MaxAmount)),
	}
	switch {
	case min(rdma, functions, bandwidth) < 0:
		impossible = fmt.Sprintf("%s: %d, %s: %d, %s: %d: one is less than nothing",
			spec.ResourceRDMA, rdma, spec.ResourceNICFunctions, functions, spec.ResourceNICBandwidth, bandwidth)
	case count > topology.MaxNICs:
		impossible = fmt.Sprintf("%s: the pod requests %d network cards; a node has at most %d", name, count, topology.MaxNICs)
	case rdma > 0 && functions > 0 && rdma != functions:
		impossible = fmt.Sprintf("%s: the pod requests %d virtual functions and %d network cards with RDMA; request as many of both, for each function is of another card",
			spec.ResourceNICFunctions, functions, rdma)
	case bandwidth > topology.MaxAmount:
		impossible = fmt.Sprintf("%s: no network card has %d Mbit/s", spec.ResourceNICBandwidth, bandwidth)
	case count > 1 && a.saidTwice(spec.ResourceNICBandwidth):
		impossible = spec.ResourceNICBandwidth + ": it is of each network card, and several containers request it; request it in one of them"
	}
	return r, impossible
}

// saidTwice reports whether several containers request the resource: what is meant of each device must not be added up.
func (a *asked) saidTwice(name corev1.ResourceName) bool {
	n := 0
	for _, list := range [2][]corev1.Container{a.pod.Spec.InitContainers, a.pod.Spec.Containers} {
		for i := range list {
			if q, ok := list[i].Resources.Requests[name]; ok && !q.IsZero() {
				n++
			}
		}
	}
	return n > 1
}

// isolation reads the least isolation of a part of a GPU.
func isolation(words spec.DeviceWords, r topology.Request) (topology.Isolation, string) {
	switch {
	case words.Isolation == "":
		return topology.IsolationAny, ""
	case r.IsZero():
		return topology.IsolationAny, fmt.Sprintf("%s: the pod requests no GPU; leave it out, or request %s", spec.AnnotationIsolation, spec.ResourceGPUCore)
	case r.Whole > 0:
		return topology.IsolationAny, fmt.Sprintf("%s: %s is for a part of one GPU, and the pod has %d whole ones for itself; leave it out, or request less than one",
			spec.AnnotationIsolation, words.Isolation, r.Whole)
	}
	i, _ := topology.ParseIsolation(words.Isolation) // the words are the same; a test holds them together
	return i, ""
}

// numaPolicies are the values of spec.DeviceWords.NUMAPolicy.
var numaPolicies = map[string]topology.Near{
	"": {}, spec.NUMAPolicyNone: {},
	spec.NUMAPolicyBestEffort: {Level: topology.SameNUMA},
	spec.NUMAPolicyRestricted: {Level: topology.SameNUMA, Required: true, Relax: true},
	spec.NUMAPolicySingle:     {Level: topology.SameNUMA, Required: true},
}

// nearness reads how near GPUs, network cards and NUMA nodes are to be.
func nearness(words spec.DeviceWords, r topology.Request, numaNodes topology.NUMARequest) (topology.Near, string) {
	near, key := numaPolicies[words.NUMAPolicy], spec.AnnotationNUMAPolicy
	if words.Near != "" {
		level, _ := topology.ParseLevel(words.Near)
		near, key = topology.Near{Level: level, Required: words.Required}, spec.AnnotationNear
	}
	devices := !r.IsZero() || r.NIC.Count > 0
	switch {
	case near == topology.Near{}:
	case !devices && numaNodes.IsZero() && r.Resources == "":
		return topology.Near{}, key + ": the pod requests nothing that can be near: no GPU, no network card, no CPUs of its own, nothing that a plugin could bring; leave it out"
	case !devices && near.Level == topology.SameSwitch:
		return topology.Near{}, fmt.Sprintf("%s: the pod requests no GPU and no network card, and CPUs hang on no switch; want %s or %s", key, spec.NearNUMA, spec.NearSocket)
	}
	return near, ""
}
