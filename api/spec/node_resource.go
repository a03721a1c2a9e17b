package spec

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// AnnotationResources is what the containers of a pod may have of resources that plugins of the node's agent bring: "main/example.com/fpga=2". The container
// runtime does not tell the agent of them. Hilbert writes it with the Binding; nothing else may. An init container that ends before the others begin is written
// "first:setup/example.com/fpga=1".
const AnnotationResources = "hilbert.dev/node-resources"

// AnnotationResourceNUMANodes is what the pod was promised of these resources by NUMA node: "example.com/fpga=0:2,1:1;example.com/key=far:1" is two of NUMA node 0, one of
// NUMA node 1, and a key that is near none. Hilbert writes it with the Binding; nothing else may. The agent gives something else where it has to, and reports it.
const AnnotationResourceNUMANodes = "hilbert.dev/resource-numa-nodes"

const (
	endsFirst = "first:"
	// maxResourceAmount and maxResourceEntries bound what one pod asks for.
	maxResourceAmount  = 1 << 40
	maxResourceEntries = 64
)

// ContainerAmount is how much a container asks for.
type ContainerAmount struct {
	Container string
	// EndsFirst: it is an init container whose share the others use again.
	EndsFirst bool
	Amount    int64
}

// ResourceRequest is what the containers of a pod ask for of one resource.
type ResourceRequest struct {
	Resource   string
	Containers []ContainerAmount
}

// Amount is what the pod needs as a whole: the sum of its containers, or what an init container needs that ends before.
func (r *ResourceRequest) Amount() int64 {
	var sum, first int64
	for _, c := range r.Containers {
		if c.EndsFirst {
			first = max(first, c.Amount)
		} else {
			sum += c.Amount
		}
	}
	return max(sum, first)
}

// FormatResources writes what ParseResources reads.
func FormatResources(requests []ResourceRequest) string {
	var out []string
	for i := range requests {
		for _, c := range requests[i].Containers {
			name := c.Container
			if c.EndsFirst {
				name = endsFirst + name
			}
			out = append(out, name+"/"+requests[i].Resource+"="+strconv.FormatInt(c.Amount, 10))
		}
	}
	return strings.Join(out, ",")
}

// ParseResources reads what FormatResources writes, by resource. The error says what it should be.
func ParseResources(text string) (out []ResourceRequest, err error) {
	bad := func(field string) error {
		return fmt.Errorf("%s: %q: want CONTAINER/DOMAIN/NAME=AMOUNT, each once, as in main/example.com/fpga=2", AnnotationResources, field)
	}
	fields := strings.Split(text, ",")
	if len(fields) > maxResourceEntries {
		return nil, fmt.Errorf("%s: %d entries; at most %d", AnnotationResources, len(fields), maxResourceEntries)
	}
	for _, field := range fields {
		names, amount, ok := strings.Cut(field, "=")
		container, resource, named := strings.Cut(names, "/")
		c := ContainerAmount{}
		c.Container, c.EndsFirst = strings.CutPrefix(container, endsFirst)
		domain, name, full := strings.Cut(resource, "/")
		n, failed := strconv.ParseInt(amount, 10, 64)
		if !ok || !named || !full || c.Container == "" || domain == "" || name == "" || strings.Contains(name, "/") || failed != nil || n <= 0 || n > maxResourceAmount {
			return nil, bad(field)
		}
		c.Amount = n
		at := slices.IndexFunc(out, func(r ResourceRequest) bool { return r.Resource == resource })
		if at < 0 {
			at, out = len(out), append(out, ResourceRequest{Resource: resource})
		}
		if slices.ContainsFunc(out[at].Containers, func(x ContainerAmount) bool { return x.Container == c.Container }) {
			return nil, bad(field)
		}
		out[at].Containers = append(out[at].Containers, c)
	}
	slices.SortFunc(out, func(a, b ResourceRequest) int { return cmp.Compare(a.Resource, b.Resource) })
	return out, nil
}
