package parse

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	componentresource "k8s.io/component-helpers/resource"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
)

// maxMemo bounds the Requirements that a memo remembers; when it is full it starts anew.
const maxMemo = 1 << 13

// requirementsMemo makes Requirements of pods, and remembers what pods' fields were parsed to. A workload's pods are alike, and adding up Quantities costs
// some twenty times what comparing their spelling does. The key is everything that the result depends on, spelled out, so equal keys mean equal results.
type requirementsMemo struct {
	strings     *interner
	amounts     amounts
	constraints constraints
	images      *imageSets
	warner      *Warner
	promised    bool // see Parser.PromisedCPU

	known  map[string]remembered
	key    specKey
	serial uint64
	latest uint64 // the serial number of the Requirements that were asked for last
}

// remembered is Requirements and a number that no others have.
type remembered struct {
	*facts.Requirements
	serial uint64
}

// of returns what the pod's placement depends on; of a pod that is not ours, what bears on others.
func (m *requirementsMemo) of(pod *corev1.Pod, ours bool) *facts.Requirements {
	key := &m.key
	key.reset()
	key.takes(pod)
	key.qos(pod)
	key.devices(pod)
	key.podAffinity(pod)
	taken := disks(&pod.Spec)
	key.disks(taken)
	key.flag(ours)
	if m.promised {
		key.str(pod.Annotations[spec.AnnotationRequestedCPU])
	}
	var cannot, features []string
	if ours {
		cannot, features = unsupported(pod), neededFeatures(&pod.Spec)
		key.wants(&pod.Spec)
		key.spread(pod)
		key.images(&pod.Spec)
		key.strings(cannot)
		key.strings(features)
	}
	if r, ok := m.known[string(key.bytes)]; ok {
		m.latest = r.serial
		return r.Requirements
	}
	r := &facts.Requirements{Ports: m.hostPorts(pod), Disks: taken}
	m.requests(pod, r)
	malformed := m.constraints.podAffinity(pod, r)
	if ours {
		r.NodeSelector = m.constraints.nodeSelector(pod.Spec.NodeSelector)
		m.constraints.nodeAffinity(pod.Spec.Affinity, r)
		r.Tolerations = m.constraints.tolerations(pod.Spec.Tolerations)
		malformed = cmp.Or(malformed, m.constraints.spread(pod, r))
		r.Features, r.Images = features, m.images.names(&pod.Spec)
		r.Unsupported = cannot
		r.Impossible = cmp.Or(r.Impossible, malformed)
	} else {
		r.Impossible = "" // it may not be possible for us, but it is there
		if malformed != "" {
			m.warner.Warn("pod "+pod.Namespace+"/"+pod.Name, "a pod's affinity is malformed and that list of terms ignored, as kube-scheduler ignores it",
				"err", malformed)
		}
	}
	m.add(r)
	return r
}

func (m *requirementsMemo) add(r *facts.Requirements) {
	if m.known == nil || len(m.known) >= maxMemo {
		m.known = make(map[string]remembered)
	}
	m.serial++
	m.latest = m.serial
	m.known[string(m.key.bytes)] = remembered{r, m.serial}
}

// requests fills in what the pod takes of its node.
func (m *requirementsMemo) requests(pod *corev1.Pod, r *facts.Requirements) {
	list := podRequests(pod, requestOptions)
	r.Requests = m.amounts.quantities(list)
	if m.promised {
		r.Requests = withPromised(r.Requests, askedCPU(pod, list))
	}
	var why string
	r.NUMANodes, r.Impossible = numaRequest(pod, list)
	r.GPU, why = deviceRequest(pod, list, r.NUMANodes)
	r.Impossible = cmp.Or(why, r.Impossible)
	r.Reclaimed = isReclaimed(pod)

	scored := list
	if missing := missingRequests(pod, list); len(missing) > 0 {
		options := requestOptions
		options.NonMissingContainerRequests = missing
		scored = podRequests(pod, options)
	}
	r.ScoreCPU = amount(corev1.ResourceCPU, scored.Cpu())
	r.ScoreMemory = amount(corev1.ResourceMemory, scored.Memory())
	if componentresource.IsPodLevelRequestsSet(pod) || resized(pod) {
		containers := podRequests(pod, containerOptions)
		r.PodLevelCPU = r.ScoreCPU - amount(corev1.ResourceCPU, containers.Cpu())
		r.PodLevelMemory = r.ScoreMemory - amount(corev1.ResourceMemory, containers.Memory())
	}
}

// hostPorts lists the ports of the node that the pod occupies for its whole life: those of containers and of sidecars.
func (m *requirementsMemo) hostPorts(pod *corev1.Pod) []facts.HostPort {
	var ports []facts.HostPort
	add := func(c *corev1.Container) {
		for i := range c.Ports {
			port := &c.Ports[i]
			if port.HostPort <= 0 {
				continue
			}
			ports = append(ports, facts.HostPort{
				Protocol: m.strings.get(cmp.Or(string(port.Protocol), string(corev1.ProtocolTCP))),
				IP:       m.strings.get(cmp.Or(port.HostIP, facts.AnyIP)),
				Port:     port.HostPort,
			})
		}
	}
	for i := range pod.Spec.InitContainers {
		if sidecar(&pod.Spec.InitContainers[i]) {
			add(&pod.Spec.InitContainers[i])
		}
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i])
	}
	slices.SortFunc(ports, facts.HostPort.Compare)
	return slices.Compact(ports)
}
