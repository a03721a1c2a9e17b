package devices

import (
	"context"
	"fmt"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"

	"hilbert.dev/hilbert/cluster/dra"
	"hilbert.dev/hilbert/cluster/facts"
)

// Explain says how many devices of each class that the claims name the node has, and how many of these are taken.
func (a *Allocator) Explain(q *dra.Query) string {
	ctx, cancel := a.within()
	defer cancel()
	if _, refusal := a.Allocate(q); refusal != "" && refusal != refused {
		return "cannot help: " + refusal
	}
	var phrases []string
	for _, claim := range q.Claims {
		for _, use := range claim.Classes {
			if phrase := a.explainClass(ctx, q, use.Class); !slices.Contains(phrases, phrase) {
				phrases = append(phrases, phrase)
			}
		}
	}
	return strings.Join(phrases, ", and ")
}

func (a *Allocator) explainClass(ctx context.Context, q *dra.Query, name string) string {
	class, err := classes(q.Classes).Get(name)
	if err != nil {
		return "cannot help: " + err.Error()
	}
	all, taken := 0, 0
	for _, s := range slicesOf(q) {
		if s.Spec.NodeName != nil && *s.Spec.NodeName != q.Node.Name {
			continue
		}
		for i := range s.Spec.Devices {
			if !a.matches(ctx, s.Spec.Driver, &s.Spec.Devices[i], class.Spec.Selectors) {
				continue
			}
			all++
			id := facts.DeviceID{Driver: s.Spec.Driver, Pool: s.Spec.Pool.Name, Device: s.Spec.Devices[i].Name}
			if slices.ContainsFunc(q.Taken, func(d facts.AllocatedDevice) bool { return d.DeviceID == id && !d.Admin }) {
				taken++
			}
		}
	}
	switch {
	case all == 0:
		return "has no device of class " + name
	case taken == 0:
		return fmt.Sprintf("has %d devices of class %s, none of them taken, and not what the pod's claims ask for", all, name)
	}
	return fmt.Sprintf("has %d of %d devices of class %s taken", taken, all, name)
}

// matches reports whether a device is of a class.
func (a *Allocator) matches(ctx context.Context, driver string, d *resourcev1.Device, selectors []resourcev1.DeviceSelector) bool {
	for _, s := range selectors {
		if s.CEL == nil {
			return false
		}
		expression := a.expressions.GetOrCompile(s.CEL.Expression)
		if expression.Error != nil {
			return false
		}
		ok, _, err := expression.DeviceMatches(ctx, cel.Device{
			Driver: driver, AllowMultipleAllocations: d.AllowMultipleAllocations, Attributes: d.Attributes, Capacity: d.Capacity,
		})
		if err != nil || !ok {
			return false
		}
	}
	return true
}
