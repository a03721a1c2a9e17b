package cluster

import (
	"cmp"
	"slices"
	"strings"

	"hilbert.dev/hilbert/cluster/facts"
)

type workloadKey struct {
	kind            facts.WorkloadKind
	namespace, name string
}

func keyOfWorkload(w *facts.Workload) workloadKey { return workloadKey{w.Kind, w.Namespace, w.Name} }

// effective returns the requirements of a pod with the cluster's defaults filled in.
func (b *selection) effective(pod *Pod) *facts.Requirements {
	r := pod.requirements
	if !pod.Ours || len(r.Spread) > 0 || len(b.defaults) == 0 {
		return r
	}
	selector := b.defaultSelector(pod)
	if selector.MatchesAll() {
		return r
	}
	copied := *r
	for _, d := range b.defaults {
		copied.Spread = append(copied.Spread, facts.SpreadConstraint{
			TopologyKey: d.TopologyKey, MaxSkew: d.MaxSkew, MinDomains: 1, HonorAffinity: true, Default: true,
			Pods: facts.PodSelector{Namespaces: []string{pod.Namespace}, Labels: selector},
		})
	}
	return &copied
}

// defaultSelector is what the pod's services and its controller select, all at once.
func (b *selection) defaultSelector(pod *Pod) facts.LabelSelector {
	var selector facts.LabelSelector
	for _, service := range b.services[pod.Namespace] {
		if service.Pods.Matches(pod.identity.Labels) {
			selector.Expressions = append(selector.Expressions, service.Pods.Expressions...)
		}
	}
	if owner := b.workloads[workloadKey{pod.owner.Kind, pod.Namespace, pod.owner.Name}]; owner != nil && owner.Kind != facts.Service && !owner.Pods.Nothing {
		if owner.Kind == facts.ReplicationController { // its labels take the place of the services', a ReplicaSet's expressions join them
			selector.Expressions = slices.DeleteFunc(selector.Expressions, func(r facts.Requirement) bool {
				return slices.ContainsFunc(owner.Pods.Expressions, func(x facts.Requirement) bool { return x.Key == r.Key })
			})
		}
		selector.Expressions = append(selector.Expressions, owner.Pods.Expressions...)
	}
	selector.Expressions = facts.Canonical(selector.Expressions)
	return selector
}

// setWorkload replaces what is known of a workload (nil: nothing), and marks the pods whose default spreading may follow from it.
func (b *selection) setWorkload(key workloadKey, w *facts.Workload) {
	old := b.workloads[key]
	if old == nil && w == nil || old != nil && w != nil && old.Pods.Equal(&w.Pods) {
		return
	}
	if w == nil {
		delete(b.workloads, key)
	} else {
		b.workloads[key] = w
	}
	if key.kind == facts.Service {
		services := slices.DeleteFunc(b.services[key.namespace], func(x *facts.Workload) bool { return x == old })
		if w != nil {
			services = append(services, w)
		}
		b.services[key.namespace] = services
	}
	for _, id := range b.inNamespace[key.namespace] {
		for _, pod := range id.pods {
			if key.kind == facts.Service || pod.owner == (facts.Owner{Kind: key.kind, Name: key.name}) {
				b.recheck = append(b.recheck, pod)
			}
		}
	}
}

// ofKind lists the workloads of a kind, by namespace and name.
func (b *selection) ofKind(kind facts.WorkloadKind) (list []workloadKey) {
	for key := range b.workloads {
		if key.kind == kind {
			list = append(list, key)
		}
	}
	slices.SortFunc(list, func(a, b workloadKey) int {
		return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
	})
	return list
}

// setNamespace takes in the labels of a namespace, or that it is not there, and reports whether that is new.
func (b *selection) setNamespace(name string, labels []facts.Label, known bool) bool {
	old, was := b.namespaces[name]
	if was == known && slices.Equal(old, labels) {
		return false
	}
	if known {
		b.namespaces[name] = labels
	} else {
		delete(b.namespaces, name)
	}
	for _, id := range b.inNamespace[name] {
		b.rematch(id)
	}
	return true
}
