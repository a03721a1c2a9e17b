package facts

import (
	"cmp"
	"slices"
)

// Namespace is a namespace's name and its labels, sorted by key.
type Namespace struct {
	Name   string
	Labels []Label
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

// Budget is a PodDisruptionBudget: how many more of the selected pods of its namespace may be disrupted now.
type Budget struct {
	Namespace, Name string
	Pods            LabelSelector
	Allowed         int32
	// Disrupted names the pods whose eviction is under way and counted in Allowed already, sorted.
	Disrupted []string
}

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

// Equal reports whether two selectors have the same expressions in the same order.
func (s *LabelSelector) Equal(t *LabelSelector) bool {
	return s.Nothing == t.Nothing && slices.EqualFunc(s.Expressions, t.Expressions, Requirement.Equal)
}

// Equal reports whether two expressions say the same in the same order.
func (r Requirement) Equal(s Requirement) bool {
	return r.Key == s.Key && r.Operator == s.Operator && slices.Equal(r.Values, s.Values)
}

// Canonical sorts expressions that must all hold, and drops repeated ones, in place: lists that say the same are then equal.
func Canonical(list []Requirement) []Requirement {
	slices.SortFunc(list, func(a, b Requirement) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Operator, b.Operator), slices.Compare(a.Values, b.Values))
	})
	return slices.CompactFunc(list, Requirement.Equal)
}
