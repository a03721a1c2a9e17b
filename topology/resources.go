package topology

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
)

const (
	// MaxResources is the most resources of plugins that one node counts by NUMA node. Its agent reports no more.
	MaxResources = 16
	// MaxResourceAmount is the most of one resource, so that no sum overflows.
	MaxResourceAmount = 1 << 40
)

// Resource is what a machine has of a resource that a plugin of its agent brings, by NUMA node.
type Resource struct {
	Name    string
	Amounts Amounts
}

// SortedResources reports whether resources are sorted by name, each once.
func SortedResources(list []Resource) bool {
	for i := range len(list) - 1 {
		if list[i].Name >= list[i+1].Name {
			return false
		}
	}
	return true
}

// ResourceFree is what is left of a node's Resources, at the same indices. It may be negative where a plugin brings less than before.
type ResourceFree [MaxResources]Amounts

// NewResourceFree is what an empty machine has.
func NewResourceFree(list []Resource) (f ResourceFree) {
	for i := range min(len(list), MaxResources) {
		f[i] = list[i].Amounts
	}
	return f
}

// ResourceRequest is what a pod asks for of resources that plugins bring: "example.com/fpga=2,example.com/key=1", by name. It is text, so that a Request can be
// compared and copied. Whether a resource is counted by NUMA node, each node says; what a node does not say so of is not looked at.
type ResourceRequest string

// MakeResourceRequest is the request for amounts of resources. Names must be sorted; those without an amount are left out.
func MakeResourceRequest(amounts iter.Seq2[string, int64]) ResourceRequest {
	var b strings.Builder
	for name, amount := range amounts {
		if amount <= 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(name)
		b.WriteByte('=')
		b.WriteString(strconv.FormatInt(amount, 10))
	}
	return ResourceRequest(b.String())
}

// All visits what is asked for. What cannot be read is not visited.
func (r ResourceRequest) All() iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		for field := range strings.SplitSeq(string(r), ",") {
			name, text, _ := strings.Cut(field, "=")
			amount, err := strconv.ParseInt(text, 10, 64)
			if err == nil && amount > 0 && !yield(name, amount) {
				return
			}
		}
	}
}

// ResourceGrant is what a pod holds of resources that plugins bring, as the Binding's annotation has it: "example.com/fpga=0:2,1:1;example.com/key=far:1" is two of
// NUMA node 0, one of NUMA node 1, and a key that is near none. By name; text, so that a Grant can be compared and copied.
type ResourceGrant string

// far stands for no NUMA node.
const far = "far"

// String is "0:2,1:1": two of NUMA node 0 and one of NUMA node 1; "far:1" is one that is near none.
func (a Amounts) String() string {
	var b strings.Builder
	write := func(where string, n int64) {
		if n != 0 {
			if b.Len() > 0 {
				b.WriteByte(',')
			}
			b.WriteString(where)
			b.WriteByte(':')
			b.WriteString(strconv.FormatInt(n, 10))
		}
	}
	for z, n := range a.NUMA {
		write(strconv.Itoa(z), n)
	}
	write(far, a.Far)
	return b.String()
}

// append adds what is held of one more resource. Names must come sorted.
func (g ResourceGrant) append(name string, a *Amounts) ResourceGrant {
	one := name + "=" + a.String()
	if g == "" {
		return ResourceGrant(one)
	}
	return g + ";" + ResourceGrant(one)
}

// MakeResourceGrant is the grant of amounts of resources, in any order, each once. Those of which nothing is held are left out.
func MakeResourceGrant(list []Resource) (g ResourceGrant) {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b Resource) int { return strings.Compare(a.Name, b.Name) })
	for i := range list {
		if list[i].Amounts != (Amounts{}) {
			g = g.append(list[i].Name, &list[i].Amounts)
		}
	}
	return g
}

// All visits what is held. The grant must be one that MakeResourceGrant or ParseResourceGrant returned; what cannot be read is not visited.
func (g ResourceGrant) All() iter.Seq2[string, Amounts] {
	return func(yield func(string, Amounts) bool) {
		if g == "" {
			return
		}
		for field := range strings.SplitSeq(string(g), ";") {
			if name, amounts, err := parseAmounts(field); err == nil && !yield(name, amounts) {
				return
			}
		}
	}
}

// Of is what is held of one resource.
func (g ResourceGrant) Of(name string) Amounts {
	for held, amounts := range g.All() {
		if held == name {
			return amounts
		}
	}
	return Amounts{}
}

// NUMANodes is the set of NUMA nodes that it touches.
func (g ResourceGrant) NUMANodes() (set uint8) {
	for _, amounts := range g.All() {
		set |= amounts.NUMANodes()
	}
	return set
}

// Answers reports whether the grant gives as much as is asked for of each resource that it names, and names none that is not asked for.
func (g ResourceGrant) Answers(r ResourceRequest) bool {
	named := 0
	for name, amount := range r.All() {
		if a := g.Of(name); a != (Amounts{}) {
			named++
			if a.Sum() != amount {
				return false
			}
		}
	}
	for range g.All() {
		named--
	}
	return named == 0
}

// ParseResourceGrant reads what a Binding's annotation says. The error says what it should be.
func ParseResourceGrant(text string) (ResourceGrant, error) {
	fields := strings.Split(text, ";")
	if len(fields) > MaxResources {
		return "", fmt.Errorf("resources by NUMA node: %d of them; at most %d", len(fields), MaxResources)
	}
	var list []Resource
	for _, field := range fields {
		name, amounts, err := parseAmounts(field)
		if err != nil {
			return "", err
		}
		if slices.ContainsFunc(list, func(r Resource) bool { return r.Name == name }) {
			return "", fmt.Errorf("resources by NUMA node %q: %s stands twice", text, name)
		}
		list = append(list, Resource{name, amounts})
	}
	return MakeResourceGrant(list), nil
}

func parseAmounts(field string) (name string, a Amounts, err error) {
	bad := func() error {
		return fmt.Errorf("resources by NUMA node: %q: want DOMAIN/NAME=NUMA:AMOUNT, the NUMA node from 0 to %d or %s, each once, as in example.com/fpga=0:2,1:1", field, MaxNUMANodes-1, far)
	}
	name, rest, ok := strings.Cut(field, "=")
	if domain, base, qualified := strings.Cut(name, "/"); !ok || !qualified || domain == "" || base == "" || strings.ContainsAny(name, ",: ") {
		return "", Amounts{}, bad()
	}
	for part := range strings.SplitSeq(rest, ",") {
		where, text, _ := strings.Cut(part, ":")
		amount, failed := strconv.ParseInt(text, 10, 64)
		if failed != nil || amount <= 0 || amount > MaxResourceAmount {
			return "", Amounts{}, bad()
		}
		at := &a.Far
		if where != far {
			z, failed := strconv.ParseUint(where, 10, 8)
			if failed != nil || z >= MaxNUMANodes {
				return "", Amounts{}, bad()
			}
			at = &a.NUMA[z]
		}
		if *at != 0 {
			return "", Amounts{}, bad()
		}
		*at = amount
	}
	return name, a, nil
}
