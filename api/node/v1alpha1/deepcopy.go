package v1alpha1

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"hilbert.dev/hilbert/api/spec"
)

// DeepCopyInto copies into out.
func (c *CustomNodeResource) DeepCopyInto(out *CustomNodeResource) {
	*out = *c
	c.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	c.Status.DeepCopyInto(&out.Status)
}

// DeepCopy returns a copy.
func (c *CustomNodeResource) DeepCopy() *CustomNodeResource {
	if c == nil {
		return nil
	}
	out := new(CustomNodeResource)
	c.DeepCopyInto(out)
	return out
}

// DeepCopyObject returns a copy.
func (c *CustomNodeResource) DeepCopyObject() runtime.Object { return c.DeepCopy() }

// DeepCopyInto copies into out.
func (s *CustomNodeResourceStatus) DeepCopyInto(out *CustomNodeResourceStatus) {
	*out = *s
	out.Zones = copyZones(s.Zones)
	out.Pools = slices.Clone(s.Pools)
	out.Conditions = slices.Clone(s.Conditions)
}

// copyZones copies a tree of zones.
func copyZones(zones []spec.Zone) []spec.Zone {
	out := slices.Clone(zones)
	for i := range out {
		z := &out[i]
		if z.Capacity != nil {
			z.Capacity = new(*z.Capacity)
		}
		if z.Allocatable != nil {
			z.Allocatable = new(*z.Allocatable)
		}
		z.Allocations = slices.Clone(z.Allocations)
		z.Attributes = maps.Clone(z.Attributes)
		z.Children = copyZones(z.Children)
	}
	return out
}

// DeepCopyObject returns a copy.
func (l *CustomNodeResourceList) DeepCopyObject() runtime.Object {
	out := &CustomNodeResourceList{TypeMeta: l.TypeMeta}
	l.DeepCopyInto(&out.ListMeta)
	if l.Items != nil {
		out.Items = make([]CustomNodeResource, len(l.Items))
		for i := range l.Items {
			l.Items[i].DeepCopyInto(&out.Items[i])
		}
	}
	return out
}
