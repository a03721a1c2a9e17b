package bind

import (
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
)

// resourcesOf is what containers ask for of what plugins of the node's agent bring, for the Binding's annotation: neither kubelet nor runtime tells the agent.
func resourcesOf(containers []facts.ExtendedContainer, brought []resource.Quantity) string {
	var out []spec.ResourceRequest
	for _, q := range brought {
		request := spec.ResourceRequest{Resource: q.Name}
		for i := range containers {
			for _, r := range containers[i].Requests {
				if r.Resource == q.Name {
					request.Containers = append(request.Containers, spec.ContainerAmount{Container: containers[i].Name, EndsFirst: containers[i].Ends, Amount: r.Count})
				}
			}
		}
		if len(request.Containers) > 0 {
			out = append(out, request)
		}
	}
	return spec.FormatResources(out)
}
