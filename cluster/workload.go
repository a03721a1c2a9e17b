package cluster

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// SpreadDefault is a soft spread constraint for pods without any, over the pods that their services and their controller select.
type SpreadDefault struct {
	TopologyKey string
	MaxSkew     int32
}

// SystemSpreadDefaults are upstream's.
var SystemSpreadDefaults = []SpreadDefault{
	{TopologyKey: HostnameKey, MaxSkew: 3},
	{TopologyKey: "topology.kubernetes.io/zone", MaxSkew: 5},
}

type workloadKey struct {
	kind            WorkloadKind
	namespace, name string
}

func (w *Workload) key() workloadKey { return workloadKey{w.Kind, w.Namespace, w.Name} }

// effective returns the requirements of a pod with the cluster's defaults filled in.
func (s *Store) effective(pod *Pod) *Requirements {
	r := pod.requirements
	if !pod.Ours || len(r.Spread) > 0 || len(s.spreadDefaults) == 0 {
		return r
	}
	selector := s.defaultSelector(pod)
	if selector.MatchesAll() {
		return r
	}
	copied := *r
	for _, d := range s.spreadDefaults {
		copied.Spread = append(copied.Spread, SpreadConstraint{
			TopologyKey: d.TopologyKey, MaxSkew: d.MaxSkew, MinDomains: 1, HonorAffinity: true, Default: true,
			Pods: PodSelector{Namespaces: []string{pod.Namespace}, Labels: selector},
		})
	}
	return &copied
}

// defaultSelector is what the pod's services and its controller select, all at once.
func (s *Store) defaultSelector(pod *Pod) LabelSelector {
	var selector LabelSelector
	for _, service := range s.services[pod.Namespace] {
		if service.Pods.Matches(pod.identity.labels) {
			selector.Expressions = append(selector.Expressions, service.Pods.Expressions...)
		}
	}
	if owner := s.workloads[workloadKey{pod.owner.Kind, pod.Namespace, pod.owner.Name}]; owner != nil && owner.Kind != Service && !owner.Pods.Nothing {
		if owner.Kind == ReplicationController { // its labels take the place of the services', a ReplicaSet's expressions join them
			selector.Expressions = slices.DeleteFunc(selector.Expressions, func(r Requirement) bool {
				return slices.ContainsFunc(owner.Pods.Expressions, func(x Requirement) bool { return x.Key == r.Key })
			})
		}
		selector.Expressions = append(selector.Expressions, owner.Pods.Expressions...)
	}
	slices.SortFunc(selector.Expressions, func(a, b Requirement) int {
		return cmp.Or(strings.Compare(a.Key, b.Key), cmp.Compare(a.Operator, b.Operator), slices.Compare(a.Values, b.Values))
	})
	selector.Expressions = slices.CompactFunc(selector.Expressions, func(a, b Requirement) bool {
		return a.Key == b.Key && a.Operator == b.Operator && slices.Equal(a.Values, b.Values)
	})
	return selector
}

func (s *Store) upsertWorkload(w *Workload) {
	old := s.workloads[w.key()]
	if old != nil && equalSelectors(&old.Pods, &w.Pods) {
		return
	}
	s.workloads[w.key()] = w
	s.workloadChanged(old, w)
}

func (s *Store) removeWorkload(key workloadKey) {
	if old := s.workloads[key]; old != nil {
		delete(s.workloads, key)
		s.workloadChanged(old, nil)
	}
}

// workloadChanged reconsiders the pods whose defaults may follow from the workload. Either may be nil.
func (s *Store) workloadChanged(old, w *Workload) {
	of := cmp.Or(old, w)
	if of.Kind == Service {
		services := slices.DeleteFunc(s.services[of.Namespace], func(x *Workload) bool { return x == old })
		if w != nil {
			services = append(services, w)
		}
		s.services[of.Namespace] = services
	}
	for _, id := range s.inNamespace[of.Namespace] {
		for _, pod := range id.pods {
			if of.Kind == Service || pod.owner == (Owner{of.Kind, of.Name}) {
				s.restless = append(s.restless, pod)
			}
		}
	}
}

func (s *Store) listWorkloads(kind WorkloadKind, workloads []*Workload) {
	listed := make(map[workloadKey]bool, len(workloads))
	for _, w := range workloads {
		listed[w.key()] = true
	}
	var gone []workloadKey
	for key := range s.workloads {
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

func equalSelectors(a, b *LabelSelector) bool {
	return a.Nothing == b.Nothing && slices.EqualFunc(a.Expressions, b.Expressions, func(x, y Requirement) bool {
		return x.Key == y.Key && x.Operator == y.Operator && slices.Equal(x.Values, y.Values)
	})
}

func (s *Store) setNamespace(name string, labels []Label, known bool) {
	old, was := s.namespaces[name]
	if was == known && slices.Equal(old, labels) {
		return
	}
	if known {
		s.namespaces[name] = labels
	} else {
		delete(s.namespaces, name)
	}
	for _, id := range s.inNamespace[name] {
		s.rematch(id)
	}
	if t := s.tenants[name]; t != nil {
		s.transfer(t)
	}
}

func (s *Store) listNamespaces(namespaces []Namespace) {
	listed := make(map[string]bool, len(namespaces))
	for i := range namespaces {
		listed[namespaces[i].Name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(s.namespaces)) {
		if !listed[name] {
			s.setNamespace(name, nil, false)
		}
	}
	for i := range namespaces {
		s.setNamespace(namespaces[i].Name, namespaces[i].Labels, true)
	}
}

// settleRestless gives the pods that wait, and about which something changed, their new class, and says so.
func (s *Store) settleRestless() {
	for len(s.restless) > 0 {
		pods := s.restless
		s.restless = nil
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
	b := s.intern(s.effective(pod))
	switch {
	case pod.Ours && seeks:
		return s.class(b, pod.identity)
	case pod.Class != nil && pod.Class.base == b:
		return pod.Class
	}
	return s.class(b, nil)
}
