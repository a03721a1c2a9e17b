package parse

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

const (
	maxNodeResources  = topology.MaxResources
	maxResourceAmount = topology.MaxResourceAmount
)

// NodeResources turns what a node's agent says that plugins bring into the ledger's terms. What Kubernetes or Hilbert itself knows is no plugin's.
func NodeResources(list []spec.NodeResource) (out []resource.Quantity, err error) {
	if len(list) > maxNodeResources {
		return nil, fmt.Errorf("resources: %d; at most %d", len(list), maxNodeResources)
	}
	for i := range list {
		r := &list[i]
		domain, name, qualified := strings.Cut(r.Name, "/")
		foreign := slices.ContainsFunc([]string{"kubernetes.io", "k8s.io", "hilbert.dev", "nvidia.com"}, func(d string) bool {
			return domain == d || strings.HasSuffix(domain, "."+d)
		})
		switch {
		case !qualified || domain == "" || name == "" || foreign || strings.ContainsAny(r.Name, ",;=: "):
			return nil, fmt.Errorf("resources[%d].name: %q; a plugin brings resources of a domain of its own, as example.com/fpga", i, shortened(r.Name))
		case r.Amount < 0 || r.Amount > maxResourceAmount:
			return nil, fmt.Errorf("resources[%d].amount: %d; write 0 to %d", i, r.Amount, int64(maxResourceAmount))
		case slices.ContainsFunc(out, func(q resource.Quantity) bool { return q.Name == r.Name }):
			return nil, fmt.Errorf("resources[%d].name: %q stands twice", i, shortened(r.Name))
		}
		out = append(out, resource.Quantity{Name: r.Name, Amount: r.Amount})
	}
	slices.SortFunc(out, func(a, b resource.Quantity) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// counts reports whether what a report says of resources counts: what is malformed does not.
func counts(list []spec.NodeResource) bool {
	_, err := NodeResources(list)
	return err == nil
}

// ResourcesByNUMANode turns what a node's agent says of NUMA nodes that plugins bring into the ledger's terms: what each has of it, and what pods hold, by UID. A resource of
// which it names no NUMA node is not in it.
func ResourcesByNUMANode(s *spec.NodeStatus) (brought []topology.Resource, held []facts.HeldResources, err error) {
	if !slices.ContainsFunc(s.Resources, func(r spec.NodeResource) bool { return len(r.NUMANodes) > 0 }) {
		return nil, nil, nil
	}
	nodes, err := numaNodes(s.Topology)
	if err != nil || len(nodes) > topology.MaxNUMANodes {
		return nil, nil, err
	}
	if !counts(s.Resources) {
		return nil, nil, nil // NodeResources says so to its own caller
	}
	grants := make(map[facts.UID][]topology.Resource)
	for i := range s.Resources {
		r := &s.Resources[i]
		if len(r.NUMANodes) == 0 {
			continue
		}
		at := topology.Resource{Name: r.Name}
		for _, n := range r.NUMANodes {
			if err = addPart(&at.Amounts, nodes, n.Name, n.Amount); err != nil {
				return nil, nil, fmt.Errorf("resources[%d].numaNodes: %w", i, err)
			}
		}
		at.Amounts.Far = max(r.Amount-at.Amounts.Sum(), 0)
		brought = append(brought, at)
		for j := range r.Allocations {
			a := &r.Allocations[j]
			of := topology.Resource{Name: r.Name, Amounts: topology.Amounts{Far: a.Far}}
			for _, n := range a.NUMANodes {
				err = cmp.Or(err, addPart(&of.Amounts, nodes, n.Name, n.Amount))
			}
			uid := facts.UID(a.UID)
			switch {
			case err != nil:
			case uid == "" || slices.ContainsFunc(grants[uid], func(x topology.Resource) bool { return x.Name == r.Name }):
				err = fmt.Errorf("uid %q: want the UID of a pod, each once", a.UID)
			case a.Far < 0 || a.Far > maxResourceAmount:
				err = fmt.Errorf("far: %d; write 0 to %d", a.Far, int64(maxResourceAmount))
			}
			if err != nil {
				return nil, nil, fmt.Errorf("resources[%d].allocations[%d]: %w", i, j, err)
			}
			grants[uid] = append(grants[uid], of)
		}
	}
	slices.SortFunc(brought, func(a, b topology.Resource) int { return cmp.Compare(a.Name, b.Name) })
	for _, uid := range slices.Sorted(maps.Keys(grants)) {
		if g := topology.MakeResourceGrant(grants[uid]); g != "" {
			held = append(held, facts.HeldResources{UID: uid, Grant: g})
		}
	}
	return brought, held, nil
}

// addPart adds the amount of the NUMA node with a number.
func addPart(a *topology.Amounts, nodes []numaNode, name string, amount int64) error {
	i := slices.IndexFunc(nodes, func(n numaNode) bool { return n.Name == name })
	switch {
	case i < 0:
		return fmt.Errorf("NUMA node %q is not in the topology", shortened(name))
	case amount < 0 || amount > maxResourceAmount || a.NUMA[i] != 0:
		return fmt.Errorf("NUMA node %s: %d; write 0 to %d, once", name, amount, int64(maxResourceAmount))
	}
	a.NUMA[i] = amount
	return nil
}

// resourceRequest is what a pod asks for, as a whole, of resources that plugins could bring.
func resourceRequest(list corev1.ResourceList) topology.ResourceRequest {
	var names []corev1.ResourceName
	for name := range list {
		if isExtended(name) && !isDevice(name) && !strings.HasPrefix(string(name), facts.ImplicitResourcePrefix) && !strings.ContainsAny(string(name), ",;=: ") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return topology.MakeResourceRequest(func(yield func(string, int64) bool) {
		for _, name := range names {
			q := list[name]
			if !yield(string(name), amount(name, &q)) {
				return
			}
		}
	})
}

// readResources reads what a Binding promised of what the pod asks for.
func readResources(text string, grant *topology.Grant, r topology.ResourceRequest) error {
	g, err := topology.ParseResourceGrant(text)
	if err == nil && !g.Answers(r) {
		err = fmt.Errorf("resources by NUMA node %q: the pod asks for something else", text)
	}
	if err == nil {
		grant.Resources = g
	}
	return err
}
