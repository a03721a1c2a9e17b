package parse

import (
	"encoding/binary"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	componentresource "k8s.io/component-helpers/resource"

	"hilbert.dev/hilbert/cluster/facts"
)

// specKey spells fields out in a buffer. Every string and list carries its length, so different fields never give equal bytes.
type specKey struct {
	bytes []byte
	names []string // scratch for the keys of a map
}

func (k *specKey) reset() { k.bytes = k.bytes[:0] }

func (k *specKey) num(n int64) { k.bytes = binary.AppendVarint(k.bytes, n) }

func (k *specKey) str(s string) {
	k.bytes = binary.AppendUvarint(k.bytes, uint64(len(s)))
	k.bytes = append(k.bytes, s...)
}

func (k *specKey) strings(list []string) {
	k.num(int64(len(list)))
	for _, s := range list {
		k.str(s)
	}
}

func (k *specKey) flag(b bool) {
	if b {
		k.num(1)
		return
	}
	k.num(0)
}

// resources spells a list out by name, each quantity as it was written: 1000m and 1 are different keys for equal Requirements.
func (k *specKey) resources(list corev1.ResourceList) {
	if list == nil {
		k.num(-1)
		return
	}
	k.num(int64(len(list)))
	names := k.names[:0]
	for name := range list {
		names = append(names, string(name))
	}
	if len(names) > 1 {
		slices.Sort(names)
	}
	for _, name := range names {
		q := list[corev1.ResourceName(name)]
		k.str(name)
		k.str(q.String())
	}
	k.names = names
}

func (k *specKey) stringMap(m map[string]string) {
	k.num(int64(len(m)))
	names := k.names[:0]
	for name := range m {
		names = append(names, name)
	}
	if len(names) > 1 {
		slices.Sort(names)
	}
	for _, name := range names {
		k.str(name)
		k.str(m[name])
	}
	k.names = names
}

// takes spells out all that decides what the pod takes of its node: requests and host ports.
func (k *specKey) takes(pod *corev1.Pod) {
	s := &pod.Spec
	for _, list := range [2][]corev1.Container{s.InitContainers, s.Containers} {
		k.num(int64(len(list)))
		for i := range list {
			k.flag(sidecar(&list[i]))
			k.resources(list[i].Resources.Requests)
			k.ports(list[i].Ports)
		}
	}
	k.flag(componentresource.IsPodLevelRequestsSet(pod))
	if s.Resources != nil {
		k.resources(s.Resources.Requests)
	}
	k.resources(s.Overhead)
	k.observed(pod)
}

func (k *specKey) disks(list []facts.Disk) {
	k.num(int64(len(list)))
	for i := range list {
		k.str(list[i].Kind)
		k.str(list[i].Name)
		k.flag(list[i].ReadOnly)
		k.strings(list[i].Monitors)
	}
}

func (k *specKey) ports(ports []corev1.ContainerPort) {
	for i := range ports {
		if ports[i].HostPort > 0 {
			k.num(int64(ports[i].HostPort))
			k.str(string(ports[i].Protocol))
			k.str(ports[i].HostIP)
		}
	}
	k.num(0)
}

// observed spells out what the node says that the pod takes, where that is not what the spec says: while a pod is resized, and where
// claims take of the node.
func (k *specKey) observed(pod *corev1.Pod) {
	s := &pod.Status
	if !resized(pod) {
		k.num(0)
		return
	}
	k.num(1)
	k.flag(componentresource.IsPodResizeInfeasible(pod))
	for _, list := range [2][]corev1.ContainerStatus{s.ContainerStatuses, s.InitContainerStatuses} {
		k.num(int64(len(list)))
		for i := range list {
			k.num(int64(place(pod, list[i].Name)))
			k.resources(list[i].AllocatedResources)
			k.flag(list[i].Resources != nil)
			if list[i].Resources != nil {
				k.resources(list[i].Resources.Requests)
			}
		}
	}
	k.resources(s.AllocatedResources)
	k.flag(s.Resources != nil)
	if s.Resources != nil {
		k.resources(s.Resources.Requests)
	}
	k.num(int64(len(s.NodeAllocatableResourceClaimStatuses)))
	for i := range s.NodeAllocatableResourceClaimStatuses {
		k.claim(&s.NodeAllocatableResourceClaimStatuses[i])
	}
}

// claim spells out what a resource claim takes of the node.
func (k *specKey) claim(c *corev1.NodeAllocatableResourceClaimStatus) {
	k.num(int64(len(c.Containers)))
	k.num(int64(len(c.Mapping)))
	for i := range c.Mapping {
		k.str(string(c.Mapping[i].Name))
		k.str(c.Mapping[i].Quantity.String())
	}
	k.num(int64(len(c.Overhead)))
	for i := range c.Overhead {
		k.str(string(c.Overhead[i].Name))
		k.str(c.Overhead[i].PerPod.String())
		k.str(c.Overhead[i].PerContainer.String())
	}
}

// place is the position of a container by its name: init containers from -1 down, containers from 0 up; -1<<31 for none.
func place(pod *corev1.Pod, name string) int {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == name {
			return i
		}
	}
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == name {
			return -1 - i
		}
	}
	return -1 << 31
}

// resized reports whether the status may ask for other resources than the spec. It may answer true without need, but never false.
func resized(pod *corev1.Pod) bool {
	s := &pod.Status
	if len(s.NodeAllocatableResourceClaimStatuses) > 0 || s.AllocatedResources != nil || s.Resources != nil ||
		componentresource.IsPodResizeInfeasible(pod) {
		return true
	}
	for _, list := range [2][]corev1.ContainerStatus{s.ContainerStatuses, s.InitContainerStatuses} {
		for i := range list {
			c := &list[i]
			if c.AllocatedResources == nil && c.Resources == nil {
				continue
			}
			asked := requestsOf(pod, c.Name)
			if c.AllocatedResources != nil && !equalLists(c.AllocatedResources, asked) ||
				c.Resources != nil && c.Resources.Requests != nil && !equalLists(c.Resources.Requests, asked) {
				return true
			}
		}
	}
	return false
}

func requestsOf(pod *corev1.Pod, container string) corev1.ResourceList {
	switch i := place(pod, container); {
	case i >= 0:
		return pod.Spec.Containers[i].Resources.Requests
	case i > -1<<31:
		return pod.Spec.InitContainers[-1-i].Resources.Requests
	}
	return nil
}

func equalLists(a, b corev1.ResourceList) bool {
	if len(a) != len(b) {
		return false
	}
	for name, q := range a {
		other, ok := b[name]
		if !ok || !equalQuantities(&q, &other) {
			return false
		}
	}
	return true
}

func equalQuantities(a, b *apiresource.Quantity) bool { return a.Cmp(*b) == 0 }

// wants spells out the constraints on where the pod may go.
func (k *specKey) wants(s *corev1.PodSpec) {
	k.stringMap(s.NodeSelector)
	k.num(int64(len(s.Tolerations)))
	for i := range s.Tolerations {
		t := &s.Tolerations[i]
		k.str(t.Key)
		k.str(string(t.Operator))
		k.str(t.Value)
		k.str(string(t.Effect))
	}
	if s.Affinity == nil || s.Affinity.NodeAffinity == nil {
		k.num(0)
		return
	}
	k.num(1)
	required := s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	k.flag(required != nil)
	if required != nil {
		k.num(int64(len(required.NodeSelectorTerms)))
		for i := range required.NodeSelectorTerms {
			k.term(&required.NodeSelectorTerms[i])
		}
	}
	preferred := s.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	k.num(int64(len(preferred)))
	for i := range preferred {
		k.num(int64(preferred[i].Weight))
		k.term(&preferred[i].Preference)
	}
}

func (k *specKey) term(t *corev1.NodeSelectorTerm) {
	for _, list := range [2][]corev1.NodeSelectorRequirement{t.MatchExpressions, t.MatchFields} {
		k.num(int64(len(list)))
		for i := range list {
			k.str(list[i].Key)
			k.str(string(list[i].Operator))
			k.strings(list[i].Values)
		}
	}
}
