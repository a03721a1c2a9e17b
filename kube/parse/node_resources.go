package parse

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/resource"
)

const (
	maxNodeResources  = 16
	maxResourceAmount = 1 << 40
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
		case !qualified || domain == "" || name == "" || foreign:
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
