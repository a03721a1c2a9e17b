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
	out.Spec.RefusedEvictions = slices.Clone(c.Spec.RefusedEvictions)
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
	out.Topology = copyNUMANodes(s.Topology)
	out.Pools = slices.Clone(s.Pools)
	out.Colocation = copyColocation(s.Colocation)
	if s.Usage != nil {
		out.Usage = new(*s.Usage)
	}
	out.BrokenPromises = slices.Clone(s.BrokenPromises)
	out.Events = slices.Clone(s.Events)
	for i := range out.Events {
		if p := &out.Events[i].Pod; *p != nil {
			*p = new(**p)
		}
	}
	out.Devices = copyDevices(s.Devices)
	out.Conditions = slices.Clone(s.Conditions)
}

func copyColocation(c *spec.Colocation) *spec.Colocation {
	if c == nil {
		return nil
	}
	out := new(*c)
	out.NUMANodes, out.Evictions = slices.Clone(c.NUMANodes), slices.Clone(c.Evictions)
	return out
}

// copyDevices copies the devices of a node.
func copyDevices(d *spec.Devices) *spec.Devices {
	if d == nil {
		return nil
	}
	out := new(*d)
	out.GPUs, out.NICs, out.Allocations = slices.Clone(d.GPUs), slices.Clone(d.NICs), slices.Clone(d.Allocations)
	for i := range out.GPUs {
		g := &out.GPUs[i]
		g.Isolation, g.Instances, g.Links = slices.Clone(g.Isolation), slices.Clone(g.Instances), slices.Clone(g.Links)
		g.DevicePlace = copyPlace(g.DevicePlace)
	}
	for i := range out.NICs {
		out.NICs[i].DevicePlace = copyPlace(out.NICs[i].DevicePlace)
	}
	if d.Kubelet != nil {
		out.Kubelet = new(*d.Kubelet)
		out.Kubelet.Others = slices.Clone(d.Kubelet.Others)
		for i := range out.Kubelet.Others {
			if g := &out.Kubelet.Others[i].GPU; *g != nil {
				*g = new(**g)
			}
		}
	}
	return out
}

func copyPlace(p spec.DevicePlace) spec.DevicePlace {
	for _, number := range []**int{&p.Switch, &p.NUMA, &p.Socket} {
		if *number != nil {
			*number = new(**number)
		}
	}
	return p
}

// copyNUMANodes copies a tree of NUMA nodes.
func copyNUMANodes(numaNodes []spec.TopologyElement) []spec.TopologyElement {
	out := slices.Clone(numaNodes)
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
		z.Children = copyNUMANodes(z.Children)
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
