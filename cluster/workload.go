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

// recheckPods gives the pods that wait, and about which something changed, their new class, and says so.
func (s *Store) recheckPods() {
	for len(s.selection.recheck) > 0 {
		pods := s.selection.recheck
		s.selection.recheck = nil
		for _, pod := range pods {
			if s.pods.byUID[pod.UID] != pod {
				continue
			}
			s.recheckPod(pod)
		}
	}
}

// recheckPod gives a pod its new class. One that is on its way to a node takes it in should it wait again, if it is charged anything else by it, or too many classes
// of its namespace wait.
func (s *Store) recheckPod(pod *Pod) {
	old := pod.Class
	switch pod.Phase {
	case Pending:
		s.refer(pod, s.classify(pod, true))
		if pod.Class != old {
			s.effects.emit(pod)
		}
	case Assumed:
		class := s.classify(pod, true)
		p := inLine(pod, class.key, class.weighed())
		if pod.outdated = class.request != old.request || !sameNeeds(class, old) || !s.waiting.Admits(&p, &old.key); !pod.outdated {
			s.refer(pod, class)
		}
	default:
	}
}

// sameNeeds reports whether the volumes and ResourceClaims of the pods of two classes ask for the same.
func sameNeeds(a, b *Class) bool {
	return a.VolumesWait == b.VolumesWait && a.ClaimsWait == b.ClaimsWait && string(a.needs().append(nil)) == string(b.needs().append(nil))
}

// classify returns the class that a pod should have; seeks says whether it is looking for a place.
func (s *Store) classify(pod *Pod, seeks bool) *Class {
	if seeks && pod.mustWait() {
		s.waiting.Release(pod.UID)
		return held(pod)
	}
	var asks needs
	if seeks && pod.Ours && pod.usesClaims {
		needs, waits := s.volumes.Needs(pod.UID)
		if waits != "" && pod.Phase == Pending {
			s.waiting.Release(pod.UID)
			return waitingForVolumes(pod, waits)
		}
		asks.volumes = needs
	}
	if seeks && pod.Ours && pod.usesResourceClaims {
		needs, waits := s.claims.dra.Needs(pod.UID)
		if waits != "" && pod.Phase == Pending {
			s.waiting.Release(pod.UID)
			return waitingForClaims(pod, waits)
		}
		asks.claims = needs
	}
	r := s.selection.effective(pod)
	if seeks && pod.Ours && pod.Phase == Pending && s.waiting.Most() > 0 {
		if class, known := s.admit(pod, r, asks); known {
			return class
		}
	}
	q := s.request(r)
	switch {
	case pod.Ours && seeks:
		return s.class(q, pod.identity, asks)
	case pod.Class != nil && pod.Class.request == q:
		return pod.Class
	}
	return s.class(q, nil, needs{})
}
