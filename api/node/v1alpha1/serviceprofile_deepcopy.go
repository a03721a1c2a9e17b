package v1alpha1

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"hilbert.dev/hilbert/api/spec"
)

// DeepCopyInto copies into out.
func (p *ServiceProfile) DeepCopyInto(out *ServiceProfile) {
	*out = *p
	p.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec = copyProfile(&p.Spec)
}

// DeepCopy returns a copy.
func (p *ServiceProfile) DeepCopy() *ServiceProfile {
	if p == nil {
		return nil
	}
	out := new(ServiceProfile)
	p.DeepCopyInto(out)
	return out
}

// DeepCopyObject returns a copy.
func (p *ServiceProfile) DeepCopyObject() runtime.Object { return p.DeepCopy() }

// copyProfile copies a spec.
func copyProfile(p *spec.ServiceProfile) spec.ServiceProfile {
	out := *p
	out.Selector.MatchLabels = maps.Clone(p.Selector.MatchLabels)
	out.Selector.MatchExpressions = slices.Clone(p.Selector.MatchExpressions)
	for i := range out.Selector.MatchExpressions {
		out.Selector.MatchExpressions[i].Values = slices.Clone(out.Selector.MatchExpressions[i].Values)
	}
	out.Indicators = slices.Clone(p.Indicators)
	for i := range out.Indicators {
		if m := out.Indicators[i].Metric; m != nil {
			metric := *m
			metric.Labels = maps.Clone(m.Labels)
			out.Indicators[i].Metric = &metric
		}
	}
	return out
}

// DeepCopyObject returns a copy.
func (l *ServiceProfileList) DeepCopyObject() runtime.Object {
	out := &ServiceProfileList{TypeMeta: l.TypeMeta}
	l.DeepCopyInto(&out.ListMeta)
	if l.Items != nil {
		out.Items = make([]ServiceProfile, len(l.Items))
		for i := range l.Items {
			l.Items[i].DeepCopyInto(&out.Items[i])
		}
	}
	return out
}
