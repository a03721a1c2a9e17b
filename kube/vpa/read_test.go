package vpa

import (
	"encoding/json"
	"log/slog"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/control/recommend"
	"hilbert.dev/hilbert/control/vpa"
)

// TestSelectorOf: a target without a selector selects no pods, never all of its namespace.
func TestSelectorOf(t *testing.T) {
	web := labels.Set{"app": "web"}
	for text, want := range map[string]struct{ selects, problem bool }{
		`{"matchLabels": {"app": "web"}}`:                                    {true, false},
		`{"matchLabels": {"app": "other"}}`:                                  {false, false},
		`{"matchExpressions": [{"key": "app", "operator": "Exists"}]}`:       {true, false},
		`{"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}`: {false, false},
		`{"app": "web"}`:         {true, false}, // a ReplicationController's
		`{"matchLabels": "web"}`: {false, false},
		`{}`:                     {false, true},
		`null`:                   {false, true},
		``:                       {false, true},
		`{"matchLabels": {}}`:    {false, true},
		`{"matchExpressions": [{"key": "app", "operator": "Sometimes"}]}`: {false, true},
	} {
		selector, problem := selectorOf(json.RawMessage(text))
		if (problem != "") != want.problem || problem == "" && selector.Matches(web) != want.selects {
			t.Errorf("%s: problem %q, want selects %t, problem %t", text, problem, want.selects, want.problem)
		}
	}
}

func requests(cpu string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}
}

// TestResizeOf: a resize is under way from when the spec has it until the kubelet has done it.
func TestResizeOf(t *testing.T) {
	pending := func(kind corev1.PodConditionType, reason string, status corev1.ConditionStatus) corev1.PodStatus {
		return corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: kind, Reason: reason, Status: status}}}
	}
	allocated := func(cpu string) corev1.PodStatus {
		return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "app", AllocatedResources: requests(cpu).Requests}}}
	}
	for name, x := range map[string]struct {
		status corev1.PodStatus
		want   recommend.Resize
	}{
		"nothing is known":      {corev1.PodStatus{}, recommend.ResizeNone},
		"it never fits":         {pending(corev1.PodResizePending, corev1.PodReasonInfeasible, corev1.ConditionTrue), recommend.ResizeInfeasible},
		"it does not fit now":   {pending(corev1.PodResizePending, corev1.PodReasonDeferred, corev1.ConditionTrue), recommend.ResizeDeferred},
		"it is being done":      {pending(corev1.PodResizeInProgress, "", corev1.ConditionTrue), recommend.ResizeInProgress},
		"it was being done":     {pending(corev1.PodResizeInProgress, "", corev1.ConditionFalse), recommend.ResizeNone},
		"the kubelet is behind": {allocated("1"), recommend.ResizeInProgress},
		"the kubelet has it":    {allocated("2000m"), recommend.ResizeNone},
	} {
		p := corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: requests("2")}}}, Status: x.status}
		if got := resizeOf(&p); got != x.want {
			t.Errorf("%s: %q, want %q", name, got, x.want)
		}
	}
}

// TestPlaceOf: only a place that the status calls Reserved is one; a Reservation that does not say from what the container grows is none.
func TestPlaceOf(t *testing.T) {
	for name, x := range map[string]struct {
		from   string
		places []v1alpha1.ReservedPlace
		want   vpa.PlaceState
		reason string
	}{
		"not answered":     {`{"CPU": 1}`, nil, vpa.PlaceWaiting, "no node fits"},
		"reserved":         {`{"CPU": 1}`, []v1alpha1.ReservedPlace{{State: "Reserved", Node: "n1"}}, vpa.PlaceReserved, "no node fits"},
		"lost":             {`{"CPU": 1}`, []v1alpha1.ReservedPlace{{State: "Lost", Node: "n1", Reason: "NodeGone"}}, vpa.PlaceGone, "NodeGone"},
		"consumed":         {`{"CPU": 1}`, []v1alpha1.ReservedPlace{{State: "Consumed", Node: "n1"}}, vpa.PlaceGone, "it is Consumed"},
		"from what is not": {``, []v1alpha1.ReservedPlace{{State: "Reserved", Node: "n1"}}, vpa.PlaceGone, "its annotation " + spec.AnnotationGrowthFrom + " cannot be read"},
	} {
		o := v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "r", Annotations: map[string]string{spec.AnnotationGrowthFrom: x.from}}}
		o.Spec.Template.Spec.Containers = []corev1.Container{{Name: "growth", Resources: requests("500m")}}
		o.Status.Places = x.places
		o.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Message: "no node fits"}}
		if got := placeOf(&o); got.State != x.want || got.Reason != x.reason || got.Amounts != (recommend.Amounts{CPU: 0.5}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestPlacesBesideUnreadable: whoever may write a Reservation may give it our label. If it cannot be read, the others are known all the same, and it keeps no room.
func TestPlacesBesideUnreadable(t *testing.T) {
	ours, err := json.Marshal(&v1alpha1.Reservation{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "ours", Annotations: map[string]string{spec.AnnotationGrowthFrom: `{"CPU": 1}`}},
		Status:     v1alpha1.ReservationStatus{Places: []v1alpha1.ReservedPlace{{State: "Reserved", Node: "n1"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, template := range []string{`{"spec": {"containers": "none"}}`, `{"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "much"}}}]}}`} {
		text := `{"items": [{"metadata": {"namespace": "evil", "name": "mine"}, "spec": {"template": ` + template + `}, "status": {"places": [{"state": "Reserved", "node": "n1"}]}}, ` + string(ours) + `]}`
		r := Reader{api: answers{v1alpha1.Reservations: text}, log: slog.New(slog.DiscardHandler), trouble: make(map[string]bool)}
		places, known := r.places(t.Context())
		if !known || len(places) != 2 || places[0].State != vpa.PlaceGone || places[0].Name != "mine" || places[1].State != vpa.PlaceReserved || places[1].Node != "n1" {
			t.Errorf("beside %s: %+v, known %v", template, places, known)
		}
	}
	r := Reader{api: answers{}, log: slog.New(slog.DiscardHandler), trouble: make(map[string]bool)}
	if places, known := r.places(t.Context()); known || places != nil {
		t.Errorf("what cannot be listed is known: %+v", places)
	}
}

// TestObject: what an object says is read as it is meant; what it leaves out is not forbidden.
func TestObject(t *testing.T) {
	var a Autoscaler
	if err := json.Unmarshal([]byte(`{"metadata": {"namespace": "shop", "name": "v", "uid": "u", "generation": 4}, "spec": {"updatePolicy": {"updateMode": "InPlaceOrRecreate"}, "recommenders": [{"name": "hilbert"}],
		"resourcePolicy": {"containerPolicies": [
			{"containerName": "app", "minAllowed": {"cpu": "250m"}, "maxAllowed": {"cpu": "4", "memory": "2Gi"}},
			{"containerName": "cpu", "controlledResources": ["cpu"], "controlledValues": "RequestsOnly"},
			{"containerName": "none", "controlledResources": []},
			{"containerName": "off", "mode": "Off"}]}}}`), &a); err != nil {
		t.Fatal(err)
	}
	want := []vpa.ContainerPolicy{
		{Container: "app", Policy: recommend.Policy{Min: recommend.Amounts{CPU: 0.25}, Max: recommend.Amounts{CPU: 4, Memory: 2 << 30}}},
		{Container: "cpu", Policy: recommend.Policy{KeepMemory: true, RequestsOnly: true}},
		{Container: "none", Policy: recommend.Policy{KeepCPU: true, KeepMemory: true}},
		{Container: "off", Off: true},
	}
	if o := a.object(); !slices.Equal(o.Policies, want) || o.UpdateMode != "InPlaceOrRecreate" || o.UID != "u" || o.Generation != 4 || o.Key != (vpa.Key{Namespace: "shop", Name: "v"}) {
		t.Errorf("read %+v", o)
	}
	for text, ours := range map[string]bool{`[{"name": "hilbert"}]`: true, `[{"name": "other"}]`: false, `[{"name": "hilbert"}, {"name": "other"}]`: false, `[]`: false, `null`: false} {
		a.Spec.Recommenders = nil
		if err := json.Unmarshal([]byte(text), &a.Spec.Recommenders); err != nil || a.ours("hilbert") != ours {
			t.Errorf("recommenders %s are ours: %v, %v", text, !ours, err)
		}
	}
}

// TestStatusComesBack: what is written into a status is read from it again, so that what has not changed is not written anew.
func TestStatusComesBack(t *testing.T) {
	wrote := vpa.Status{
		Generation: 3,
		Containers: []vpa.ContainerStatus{{
			Container: "app", CPU: vpa.Bounds{Known: true, Target: 563, Lower: 500, Upper: 1200, Uncapped: 600}, Memory: vpa.Bounds{Known: true, Target: 750 << 20, Lower: 1 << 20, Upper: 1 << 30, Uncapped: 750 << 20},
		}, {
			Container: "sidecar", Memory: vpa.Bounds{Known: true, Target: 1 << 20, Lower: 1 << 20, Upper: 1 << 20, Uncapped: 1 << 20},
		}},
		Conditions: []vpa.Condition{{Type: vpa.Applied, Reason: "Waiting", Message: "m"}, {Type: vpa.RecommendationProvided, True: true}},
	}
	earlier, now := metav1.Unix(1000, 0), metav1.Unix(2000, 0)
	s := body(&wrote, []condition{{Type: vpa.Applied, Status: corev1.ConditionFalse, LastTransitionTime: earlier}, {Type: vpa.RecommendationProvided, Status: corev1.ConditionFalse, LastTransitionTime: earlier}}, now.Time)
	if a, p := s.Conditions[0].LastTransitionTime, s.Conditions[1].LastTransitionTime; !a.Equal(&earlier) || !p.Equal(&now) {
		t.Errorf("times of transitions are %v and %v", a, p)
	}
	data, err := json.Marshal(&s)
	if err != nil {
		t.Fatal(err)
	}
	var a Autoscaler
	if err := json.Unmarshal(data, &a.Status); err != nil {
		t.Fatal(err)
	}
	got := a.object()
	if len(got.Status.Containers) != 2 || got.Status.Containers[0] != wrote.Containers[0] || got.Status.Containers[1] != wrote.Containers[1] || got.Status.Generation != 3 {
		t.Errorf("read %+v, wrote %+v", got.Status, wrote)
	}
	for i, c := range got.Status.Conditions {
		if c != wrote.Conditions[i] {
			t.Errorf("read %+v, wrote %+v", c, wrote.Conditions[i])
		}
	}
}
