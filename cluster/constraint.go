package cluster

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

// Owner is the controller of a pod, as far as default spreading looks at it.
type Owner struct {
	Kind WorkloadKind // zero: none that matters
	Name string
}

// WorkloadKind is a kind of object that selects pods.
type WorkloadKind uint8

// The kinds whose selectors default spreading looks at.
const (
	Service WorkloadKind = iota + 1
	ReplicationController
	ReplicaSet
	StatefulSet
)

// Workload is an object that selects pods of its namespace. It is immutable.
type Workload struct {
	Kind            WorkloadKind
	Namespace, Name string
	Pods            LabelSelector
}

// Namespace is a namespace's name and its labels, sorted by key.
type Namespace struct {
	Name   string
	Labels []Label
}

// Image is a container image that a node has.
type Image struct {
	Name string // as the node reports it; each of its names is an Image
	Size int64  // bytes
}

// Budget is a PodDisruptionBudget: how many more of the selected pods of its namespace may be disrupted now.
type Budget struct {
	Namespace, Name string
	Pods            LabelSelector
	Allowed         int32
	// Disrupted names the pods whose eviction is under way and counted in Allowed already, sorted.
	Disrupted []string
}

func (w *keyWriter) requirements(list []Requirement) {
	w.num(int64(len(list)))
	for _, r := range list {
		w.str(r.Key)
		w.num(int64(r.Operator))
		w.num(int64(len(r.Values)))
		for _, v := range r.Values {
			w.str(v)
		}
	}
}

func (w *keyWriter) labelSelector(s *LabelSelector) {
	w.bool(s.Nothing)
	w.requirements(s.Expressions)
}

func (w *keyWriter) podSelector(s *PodSelector) {
	w.num(int64(len(s.Namespaces)))
	for _, n := range s.Namespaces {
		w.str(n)
	}
	w.bool(s.NamespaceSelector != nil)
	if s.NamespaceSelector != nil {
		w.labelSelector(s.NamespaceSelector)
	}
	w.labelSelector(&s.Labels)
}

func (w *keyWriter) spread(c *SpreadConstraint) {
	w.str(c.TopologyKey)
	w.num(int64(c.MaxSkew))
	w.bool(c.Hard)
	w.num(int64(c.MinDomains))
	w.podSelector(&c.Pods)
	w.bool(c.HonorAffinity)
	w.bool(c.HonorTaints)
	w.bool(c.Default)
}

func (w *keyWriter) affinity(terms []AffinityTerm) {
	w.num(int64(len(terms)))
	for i := range terms {
		w.str(terms[i].TopologyKey)
		w.podSelector(&terms[i].Pods)
	}
}
