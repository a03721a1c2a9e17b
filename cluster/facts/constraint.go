package facts

import "slices"

// LabelSelector is a conjunction of expressions over labels. Without expressions it matches everything, unless Nothing is set.
type LabelSelector struct {
	Nothing     bool
	Expressions []Requirement
}

// Matches reports whether the selector selects something with these labels, sorted by key.
func (s *LabelSelector) Matches(labels []Label) bool {
	if s.Nothing {
		return false
	}
	for i := range s.Expressions {
		value, ok := labelValue(labels, s.Expressions[i].Key)
		if !s.Expressions[i].holds(value, ok) {
			return false
		}
	}
	return true
}

// MatchesAll reports whether the selector selects everything.
func (s *LabelSelector) MatchesAll() bool { return !s.Nothing && len(s.Expressions) == 0 }

func labelValue(labels []Label, key string) (string, bool) {
	for i := range labels {
		if labels[i].Key == key {
			return labels[i].Value, true
		}
	}
	return "", false
}

// PodSelector selects pods by namespace and labels: the namespace is one of Namespaces or matches NamespaceSelector, and the labels match.
type PodSelector struct {
	// Namespaces, sorted.
	Namespaces []string
	// NamespaceSelector adds namespaces by their labels; nil adds none.
	NamespaceSelector *LabelSelector
	Labels            LabelSelector
}

// Selects reports whether the selector selects pods of a namespace with these labels. namespaces are the labels of the namespaces that are
// known. A namespace that is not known has no labels for the terms of pods that are there already (unknown is true), but none of an incoming
// pod's terms selects it, unless the term selects every namespace. Upstream does the same.
func (p *PodSelector) Selects(namespace string, labels []Label, namespaces map[string][]Label, unknown bool) bool {
	return (slices.Contains(p.Namespaces, namespace) || p.selectsNamespace(namespace, namespaces, unknown)) && p.Labels.Matches(labels)
}

func (p *PodSelector) selectsNamespace(name string, namespaces map[string][]Label, unknown bool) bool {
	if p.NamespaceSelector == nil {
		return false
	}
	labels, known := namespaces[name]
	return (known || unknown || p.NamespaceSelector.MatchesAll()) && p.NamespaceSelector.Matches(labels)
}

// SpreadConstraint limits, over the domains of a topology key, how unevenly the selected pods may stand.
type SpreadConstraint struct {
	TopologyKey string
	MaxSkew     int32
	// Hard: DoNotSchedule; else ScheduleAnyway, which is a score.
	Hard bool
	// MinDomains: with fewer domains the global minimum counts as 0. At least 1.
	MinDomains int32
	// Pods are the pods that are counted. matchLabelKeys are part of it.
	Pods PodSelector
	// HonorAffinity and HonorTaints: nodes that the pod's node affinity or tolerations exclude are not counted.
	HonorAffinity, HonorTaints bool
	// Default: the constraint comes from the cluster's defaults, so nodes without all of the keys are scored too.
	Default bool
}

// AffinityTerm asks for, or against, selected pods in the node's domain of a topology key.
type AffinityTerm struct {
	TopologyKey string
	Pods        PodSelector
}

// WeightedAffinityTerm is a preference; a negative weight is a preference against.
type WeightedAffinityTerm struct {
	Weight int32
	AffinityTerm
}
