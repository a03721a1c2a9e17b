package facts

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// A pod may ask for devices in the words of old: as an extended resource in the requests of its containers. Where a DeviceClass stands for the resource, and the node
// publishes none of it, the scheduler makes a ResourceClaim for the pod and gives it devices of the class.

// ImplicitResourcePrefix begins the extended resource that every DeviceClass stands for: the name of the class follows.
const ImplicitResourcePrefix = "deviceclass.resource.kubernetes.io/"

// ExtendedContainer is what a container asks of extended resources.
type ExtendedContainer struct {
	// Index is its place among the init containers and then the containers.
	Index int
	Name  string
	// Ends: it is an init container that ends before the containers begin, which use its devices again.
	Ends     bool
	Requests []ExtendedRequest // sorted by resource
}

// ExtendedRequest is so many of a resource. Place is that of the resource among all that the container requests, sorted.
type ExtendedRequest struct {
	Resource string
	Place    int
	Count    int64
}

// DeviceRequest is a request of a claim that is made for extended resources.
type DeviceRequest struct {
	Name, Class string
	Count       int64
}

// RequestMapping says which request of the claim has the devices that a container asks for.
type RequestMapping struct{ Container, Resource, Request string }

// ExtendedResources lists the resources that containers ask for, sorted.
func ExtendedResources(containers []ExtendedContainer) (names []string) {
	for i := range containers {
		for j := range containers[i].Requests {
			names = append(names, containers[i].Requests[j].Resource)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// ExtendedClaim is what a claim asks for that stands for some resources of the containers, and which container has what of it. classOf are the classes of these
// resources. Init containers that end before others begin use the requests of these, and of one another. (Upstream's createRequestsAndMappings.)
func ExtendedClaim(containers []ExtendedContainer, classOf map[string]string) (requests []DeviceRequest, mappings []RequestMapping) {
	var resources []string
	for resource := range classOf {
		resources = append(resources, resource)
	}
	slices.Sort(resources)
	for _, resource := range resources {
		r, m := claimOneResource(containers, resource, classOf[resource])
		requests, mappings = append(requests, r...), append(mappings, m...)
	}
	slices.SortFunc(requests, func(a, b DeviceRequest) int { return strings.Compare(a.Name, b.Name) })
	return requests, mappings
}

func claimOneResource(containers []ExtendedContainer, resource, class string) (requests []DeviceRequest, mappings []RequestMapping) {
	lasting := make(map[int]DeviceRequest) // by container
	var indices []int
	for i := range containers {
		if c := &containers[i]; !c.Ends {
			if r, m, ok := c.claim(resource, class, nil); ok {
				lasting[c.Index] = r
				indices = append(indices, c.Index)
				mappings = append(mappings, m...)
			}
		}
	}
	var most DeviceRequest
	var ending []RequestMapping
	names := make(map[string]bool)
	for i := range containers {
		c := &containers[i]
		if !c.Ends {
			continue
		}
		var reusable []DeviceRequest
		for _, at := range indices {
			if at >= c.Index {
				reusable = append(reusable, lasting[at])
			}
		}
		r, m, ok := c.claim(resource, class, reusable)
		if ok {
			names[r.Name] = true
			if r.Count > most.Count {
				most = r
			}
		}
		ending = append(ending, m...)
	}
	for i := range ending {
		if names[ending[i].Request] {
			ending[i].Request = most.Name
		}
	}
	if most.Count > 0 {
		requests = append(requests, most)
	}
	for _, at := range indices {
		requests = append(requests, lasting[at])
	}
	return requests, append(mappings, ending...)
}

// claim is what a container asks for beyond requests that it may use; ok is false if that is nothing.
func (c *ExtendedContainer) claim(resource, class string, reusable []DeviceRequest) (request DeviceRequest, mappings []RequestMapping, ok bool) {
	at := slices.IndexFunc(c.Requests, func(r ExtendedRequest) bool { return r.Resource == resource })
	if at < 0 || c.Requests[at].Count <= 0 {
		return request, nil, false
	}
	asked := c.Requests[at].Count
	for _, r := range reusable {
		asked -= r.Count
		mappings = append(mappings, RequestMapping{c.Name, resource, r.Name})
		if asked <= 0 {
			return request, mappings, false
		}
	}
	request = DeviceRequest{Name: fmt.Sprintf("container-%d-request-%d", c.Index, c.Requests[at].Place), Class: class, Count: asked}
	return request, append(mappings, RequestMapping{c.Name, resource, request.Name}), true
}

// maxClaimName leaves room for what is appended to a pod's name.
const maxClaimName = 253 - len(extendedInfix) - 2*extendedHash

const (
	extendedInfix = "-extended-resources-"
	extendedHash  = 5 // bytes
)

// ExtendedClaimName is the name of the claim that is made for a pod's extended resources. It says what the claim asks for, so that who does not know what became of
// its creation can ask again.
func ExtendedClaimName(namespace, pod string, uid UID, key string) ClaimName {
	h := sha256.Sum256([]byte(string(uid) + "\x00" + key))
	return ClaimName{namespace, strings.TrimRight(pod[:min(len(pod), maxClaimName)], "-.") + extendedInfix + hex.EncodeToString(h[:extendedHash])}
}
