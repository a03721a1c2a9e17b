package v1alpha1

import (
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/crdtest"
)

func definition(t *testing.T) *crdtest.Definition {
	t.Helper()
	return crdtest.Read(t, "queue.yaml")
}

func TestDefinitionNamesTheTypes(t *testing.T) {
	d := definition(t)
	if d.Name != Queues+"."+Group || d.Group != Group || d.Scope != "Cluster" || d.Kind != "Queue" || d.Plural != Queues || d.Version != Version || !d.Status {
		t.Errorf("got %+v", d)
	}
}

// The definition has the fields of the Go types and no others, and bounds every list, map and free text that people write.
func TestDefinitionHasTheFields(t *testing.T) {
	definition(t).Compare(t, reflect.TypeFor[Queue](), crdtest.Rules{
		Texts:   []reflect.Type{reflect.TypeFor[metav1.Duration](), reflect.TypeFor[metav1.Time]()},
		Amounts: []reflect.Type{reflect.TypeFor[apiresource.Quantity]()},
		Lenient: true,
	})
}

// The values of the enumerations are the constants.
func TestDefinitionHasTheValues(t *testing.T) {
	spec := definition(t).Schema.Properties["spec"].Properties
	for field, want := range map[string][]string{
		"sortPolicy": {string(SortPriorityFIFO), string(SortFIFO), string(SortFair), string(SortFairHistory), string(SortSmallestFirst)},
		"borrowing":  {string(Allowed), string(Never)},
		"reclaim":    {string(Allowed), string(Never)},
		"preemption": {string(PreemptLowerPriority), string(PreemptNever)},
	} {
		if !slices.Equal(spec[field].Enum, want) {
			t.Errorf("%s: %v, want %v", field, spec[field].Enum, want)
		}
	}
}

func fullQueue() *Queue {
	list := func(cpu string) corev1.ResourceList { return corev1.ResourceList{"cpu": apiresource.MustParse(cpu)} }
	return &Queue{
		ObjectMeta: metav1.ObjectMeta{Name: "q", Labels: map[string]string{"a": "b"}},
		Spec: QueueSpec{
			Parent: "p", Guaranteed: list("1"), Max: list("2"), Weight: 3, HistoryHalfLife: &metav1.Duration{Duration: 4},
			ReclaimMinRuntime: &metav1.Duration{Duration: 5},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
		},
		Status: QueueStatus{Used: list("5"), Borrowed: list("6"), FairShare: list("7"), Conditions: []metav1.Condition{{Type: ConditionReady}}},
	}
}

func TestDeepCopySharesNothing(t *testing.T) {
	original := &QueueList{Items: []Queue{*fullQueue()}}
	copied, ok := original.DeepCopyObject().(*QueueList)
	if !ok || !reflect.DeepEqual(original, copied) {
		t.Fatalf("got %+v", copied)
	}
	q := &copied.Items[0]
	q.Spec.ReclaimMinRuntime.Duration = 2
	q.Labels["a"], q.Spec.HistoryHalfLife.Duration, q.Spec.NamespaceSelector.MatchLabels["a"], q.Status.Conditions[0].Type = "x", 1, "x", "x"
	for _, list := range []corev1.ResourceList{q.Spec.Guaranteed, q.Spec.Max, q.Status.Used, q.Status.Borrowed, q.Status.FairShare} {
		list["cpu"] = apiresource.MustParse("99")
	}
	if !reflect.DeepEqual(original.Items[0], *fullQueue()) {
		t.Errorf("the original changed: %+v", original.Items[0])
	}
	if (*Queue)(nil).DeepCopy() != nil {
		t.Error("the copy of nothing is something")
	}
}
