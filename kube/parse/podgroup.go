package parse

import (
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// The versions of the API server's own PodGroup that can be read: v1beta1 as k8s.io/api has it (Kubernetes 1.37), its twin v1alpha3 and the
// older v1alpha2 (1.36) by AlphaPodGroup. 1.35 had pods name a Workload (workloadRef) and no PodGroup; it is not read.
const (
	GroupScheduling = "scheduling.k8s.io"
	GroupSigs       = "scheduling.x-k8s.io"
	VersionSigs     = "v1alpha1"
	PodGroups       = "podgroups"
)

// PodGroupVersions are the preferred first.
var PodGroupVersions = [...]string{"v1beta1", "v1alpha3", "v1alpha2"}

// The types of the conditions that say that a PodGroup was whole: what v1beta1 and v1alpha3 call it, and what v1alpha2 did.
const (
	ConditionInitiallyScheduled = "PodGroupInitiallyScheduled"
	ConditionScheduled          = "PodGroupScheduled"
)

// AlphaPodGroup is a PodGroup of scheduling.k8s.io/v1alpha3 or v1alpha2, as far as it matters here.
type AlphaPodGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		ParentCompositePodGroupName string `json:"parentCompositePodGroupName"`
		SchedulingPolicy            struct {
			Basic *struct{} `json:"basic"`
			Gang  *struct {
				MinCount int32 `json:"minCount"`
			} `json:"gang"`
		} `json:"schedulingPolicy"`
		SchedulingConstraints struct {
			Topology []struct {
				Key string `json:"key"`
			} `json:"topology"`
		} `json:"schedulingConstraints"`
		ResourceClaims   []struct{}     `json:"resourceClaims"`
		DisruptionMode   disruptionMode `json:"disruptionMode"`
		Priority         *int32         `json:"priority"`
		PreemptionPolicy string         `json:"preemptionPolicy"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

// disruptionMode says whether the pods of a group go together or one by one; neither if it is left out. v1alpha2 says it by a word, later versions by a
// member of a union.
type disruptionMode struct{ all, single bool }

// UnmarshalJSON reads "PodGroup" and {"all": {}}, "Pod" and {"single": {}}. Everything else says nothing.
func (m *disruptionMode) UnmarshalJSON(data []byte) error {
	var union struct{ All, Single *struct{} }
	if len(data) > 0 && data[0] == '{' {
		if err := json.Unmarshal(data, &union); err != nil {
			return err
		}
	}
	m.all = union.All != nil || string(data) == `"PodGroup"`
	m.single = union.Single != nil || string(data) == `"Pod"`
	return nil
}

// DeepCopyObject copies what can be changed from outside; the spec is only ever read.
func (g *AlphaPodGroup) DeepCopyObject() runtime.Object {
	out := *g
	g.DeepCopyInto(&out.ObjectMeta)
	out.Spec.SchedulingConstraints.Topology = slices.Clone(g.Spec.SchedulingConstraints.Topology)
	out.Spec.ResourceClaims = slices.Clone(g.Spec.ResourceClaims)
	out.Status.Conditions = slices.Clone(g.Status.Conditions)
	return &out
}

// SigsPodGroup is a PodGroup of scheduling.x-k8s.io/v1alpha1, as far as it matters here. Its minResources only spares a scheduler attempts.
type SigsPodGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		MinMember              int32  `json:"minMember"`
		ScheduleTimeoutSeconds *int32 `json:"scheduleTimeoutSeconds"`
	} `json:"spec"`
	Status struct {
		Phase string `json:"phase"`
	} `json:"status"`
}

// The phases of a SigsPodGroup that this package looks at or sets.
const (
	PhasePending    = "Pending"    // accepted, and without a place
	PhaseScheduling = "Scheduling" // minMember pods have a place
	PhaseRunning    = "Running"
	PhaseFinished   = "Finished"
)

// DeepCopyObject copies what can be changed from outside; the spec is only ever read.
func (g *SigsPodGroup) DeepCopyObject() runtime.Object {
	out := *g
	g.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// ListOf is a list of objects that are read by types of ours.
type ListOf[T any] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []T `json:"items"`
}

// DeepCopyObject copies the list; its items are only ever read.
func (l *ListOf[T]) DeepCopyObject() runtime.Object {
	out := *l
	l.DeepCopyInto(&out.ListMeta)
	out.Items = slices.Clone(l.Items)
	return &out
}
