package cluster

import (
	"cmp"
	"maps"
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
		if service.Pods.Matches(pod.identity.labels) {
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
	slices.SortFunc(selector.Expressions, func(a, b facts.Requirement) int {
		return cmp.Or(strings.Compare(a.Key, b.Key), cmp.Compare(a.Operator, b.Operator), slices.Compare(a.Values, b.Values))
	})
	selector.Expressions = slices.CompactFunc(selector.Expressions, func(a, b facts.Requirement) bool {
		return a.Key == b.Key && a.Operator == b.Operator && slices.Equal(a.Values, b.Values)
	})
	return selector
}

func (s *Store) upsertWorkload(w *facts.Workload) {
	old := s.selection.workloads[keyOfWorkload(w)]
	if old != nil && old.Pods.Equal(&w.Pods) {
		return
	}
	s.selection.workloads[keyOfWorkload(w)] = w
	s.workloadChanged(old, w)
}

func (s *Store) removeWorkload(key workloadKey) {
	if old := s.selection.workloads[key]; old != nil {
		delete(s.selection.workloads, key)
		s.workloadChanged(old, nil)
	}
}

// workloadChanged reconsiders the pods whose defaults may follow from the workload. Either may be nil.
func (s *Store) workloadChanged(old, w *facts.Workload) {
	of := cmp.Or(old, w)
	if of.Kind == facts.Service {
		services := slices.DeleteFunc(s.selection.services[of.Namespace], func(x *facts.Workload) bool { return x == old })
		if w != nil {
			services = append(services, w)
		}
		s.selection.services[of.Namespace] = services
	}
	for _, id := range s.selection.inNamespace[of.Namespace] {
		for _, pod := range id.pods {
			if of.Kind == facts.Service || pod.owner == (facts.Owner{Kind: of.Kind, Name: of.Name}) {
				s.recheck = append(s.recheck, pod)
			}
		}
	}
}

func (s *Store) listWorkloads(kind facts.WorkloadKind, workloads []*facts.Workload) {
	listed := make(map[workloadKey]bool, len(workloads))
	for _, w := range workloads {
		listed[keyOfWorkload(w)] = true
	}
	var gone []workloadKey
	for key := range s.selection.workloads {
		if key.kind == kind && !listed[key] {
			gone = append(gone, key)
		}
	}
	slices.SortFunc(gone, func(a, b workloadKey) int {
		return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
	})
	for _, key := range gone {
		s.removeWorkload(key)
	}
	for _, w := range workloads {
		s.upsertWorkload(w)
	}
}

func (s *Store) setNamespace(name string, labels []facts.Label, known bool) {
	old, was := s.selection.namespaces[name]
	if was == known && slices.Equal(old, labels) {
		return
	}
	if known {
		s.selection.namespaces[name] = labels
	} else {
		delete(s.selection.namespaces, name)
	}
	for _, id := range s.selection.inNamespace[name] {
		s.rematch(id)
	}
	if t := s.quota.Relabel(name); t != nil {
		s.tell(t)
	}
}

func (s *Store) listNamespaces(namespaces []facts.Namespace) {
	listed := make(map[string]bool, len(namespaces))
	for i := range namespaces {
		listed[namespaces[i].Name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(s.selection.namespaces)) {
		if !listed[name] {
			s.setNamespace(name, nil, false)
		}
	}
	for i := range namespaces {
		s.setNamespace(namespaces[i].Name, namespaces[i].Labels, true)
	}
}

// recheckPods gives the pods that wait, and about which something changed, their new class, and says so.
func (s *Store) recheckPods() {
	for len(s.recheck) > 0 {
		pods := s.recheck
		s.recheck = nil
		for _, pod := range pods {
			if s.pods[pod.UID] != pod {
				continue
			}
			if pod.Phase != Pending {
				pod.outdated = true // should it wait again
				continue
			}
			old := pod.Class
			s.reclass(pod, s.classify(pod, true))
			if pod.Class != old {
				s.emit(pod)
			}
		}
	}
}

// classify returns the class that a pod should have; seeks says whether it is looking for a place.
func (s *Store) classify(pod *Pod, seeks bool) *Class {
	b := s.intern(s.selection.effective(pod))
	switch {
	case pod.Ours && seeks:
		return s.class(b, pod.identity)
	case pod.Class != nil && pod.Class.base == b:
		return pod.Class
	}
	return s.class(b, nil)
}
