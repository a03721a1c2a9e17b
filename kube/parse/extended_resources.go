package parse

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"hilbert.dev/hilbert/cluster/facts"
)

// extendedResources lists what the containers of a pod ask for of extended resources. Those that Hilbert counts itself are left out: no DeviceClass stands for them.
func (p *Parser) extendedResources(pod *corev1.Pod) (list []facts.ExtendedContainer) {
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		ends := c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways
		list = p.addExtended(list, i, c, ends)
	}
	for i := range pod.Spec.Containers {
		list = p.addExtended(list, len(pod.Spec.InitContainers)+i, &pod.Spec.Containers[i], false)
	}
	return list
}

func (p *Parser) addExtended(list []facts.ExtendedContainer, index int, c *corev1.Container, ends bool) []facts.ExtendedContainer {
	var requests []facts.ExtendedRequest
	for name, q := range c.Resources.Requests {
		count, whole := q.AsInt64()
		if !isExtended(name) || isDevice(name) || !whole || count <= 0 {
			continue
		}
		names := slices.Sorted(maps.Keys(c.Resources.Requests))
		requests = append(requests, facts.ExtendedRequest{Resource: p.strings.get(string(name)), Place: slices.Index(names, name), Count: count})
	}
	if len(requests) == 0 {
		return list
	}
	slices.SortFunc(requests, func(a, b facts.ExtendedRequest) int { return strings.Compare(a.Resource, b.Resource) })
	return append(list, facts.ExtendedContainer{Index: index, Name: p.strings.get(c.Name), Ends: ends, Requests: requests})
}

// isExtended reports whether a DeviceClass may stand for a resource. (Upstream's IsDRAExtendedResourceName.)
func isExtended(name corev1.ResourceName) bool {
	text := string(name)
	if strings.HasPrefix(text, facts.ImplicitResourcePrefix) {
		return true
	}
	return strings.Contains(text, "/") && !strings.Contains(text, corev1.ResourceDefaultNamespacePrefix) && !strings.HasPrefix(text, corev1.DefaultResourceRequestsPrefix) &&
		!strings.HasPrefix(text, ownResources)
}

// ownResources begins the names of the resources that Hilbert's agent publishes.
const ownResources = "hilbert.dev/"
