package moves

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/control/reschedule"
)

// lifecycle answers as an API server that may serve EvictionRequests.
type lifecycle struct {
	server
	served  bool
	forbids bool
	request *lifecyclev1alpha1.EvictionRequest
	writes  []string
}

func (s *lifecycle) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const group = "/apis/lifecycle.k8s.io/v1alpha1"
	if !strings.HasPrefix(r.URL.Path, group) || s.failures > 0 {
		s.server.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	answer := func(code int, object any) {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(object)
	}
	none := func(code int) { answer(code, &metav1.Status{Status: metav1.StatusFailure, Code: int32(code)}) }
	if r.Method != http.MethodGet {
		s.writes = append(s.writes, r.Method+" "+strings.TrimPrefix(r.URL.Path, group))
	}
	body, _ := io.ReadAll(r.Body)
	switch {
	case !s.served:
		none(http.StatusNotFound)
	case r.URL.Path == group:
		answer(http.StatusOK, &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "evictions"}, {Name: "evictionrequests"}}})
	case s.forbids:
		none(http.StatusForbidden)
	case r.Method == http.MethodPost && s.request != nil:
		none(http.StatusConflict)
	case r.Method == http.MethodPost:
		s.request = &lifecyclev1alpha1.EvictionRequest{}
		if err := json.Unmarshal(body, s.request); err != nil {
			none(http.StatusBadRequest)
			return
		}
		answer(http.StatusCreated, s.request)
	case s.request == nil:
		none(http.StatusNotFound)
	case r.Method == http.MethodDelete:
		s.request = nil
		answer(http.StatusOK, &metav1.Status{Status: metav1.StatusSuccess})
	default:
		answer(http.StatusOK, s.request)
	}
}

// Where EvictionRequests are served they are what asks; else, and where nobody knows, pods are evicted as ever.
func TestUseRequests(t *testing.T) {
	s := &lifecycle{server: server{pod: web(), evict: http.StatusCreated}}
	client, _ := start(t, s)
	if served, err := client.UseRequests(t.Context(), true); served || err != nil {
		t.Fatalf("served %v, %v", served, err)
	}
	if _, err := client.Evict(t.Context(), carried()); err != nil || len(s.bodies) != 1 || len(s.writes) > 0 {
		t.Fatalf("%v: %v, %v", err, s.bodies, s.writes)
	}
	s.failures = 1
	if _, err := client.UseRequests(t.Context(), true); err == nil {
		t.Fatal("it is known what cannot be read")
	}
	s.served = true
	if served, err := client.UseRequests(t.Context(), true); !served || err != nil {
		t.Fatalf("served %v, %v", served, err)
	}
	for range 2 { // the second one finds the first
		if _, err := client.Evict(t.Context(), carried()); err != nil || len(s.bodies) != 1 {
			t.Fatalf("%v: %v, %v", err, s.bodies, s.writes)
		}
	}
	if r := s.request; r.Spec.Target.Pod.UID != "u" || r.Spec.Target.Pod.Name != "web-0" || r.Spec.Requester != requester || r.Spec.Intent != lifecyclev1alpha1.EvictionRequestIntentEviction {
		t.Errorf("it asks for %+v", r.Spec)
	}
	for range 2 {
		if err := client.GiveBack(t.Context(), carried()); err != nil || s.request != nil {
			t.Fatalf("%v, and it still asks: %v", err, s.request)
		}
	}
	const path = "/namespaces/ns/evictionrequests"
	if want := []string{"POST " + path, "POST " + path, "DELETE " + path + "/hilbert-move-u", "DELETE " + path + "/hilbert-move-u"}; !slices.Equal(s.writes, want) {
		t.Errorf("sent %q", s.writes)
	}
}

func TestSeeRequests(t *testing.T) {
	now := metav1.Now()
	for name, c := range map[string]struct {
		change func(*lifecyclev1alpha1.EvictionRequest)
		want   reschedule.Seen
	}{
		"ours": {func(*lifecyclev1alpha1.EvictionRequest) {}, reschedule.Seen{Requested: true}},
		"it works": {func(r *lifecyclev1alpha1.EvictionRequest) {
			r.Status.Conditions = []metav1.Condition{{Type: "Failed", Status: metav1.ConditionFalse, Reason: "AwaitingEviction"}}
		}, reschedule.Seen{Requested: true}},
		"it failed": {func(r *lifecyclev1alpha1.EvictionRequest) {
			r.Status.Conditions = []metav1.Condition{{Type: "TargetEvicted", Status: metav1.ConditionTrue}, {Type: "Failed", Status: metav1.ConditionTrue, Reason: "NoFurtherResponder", Message: "m"}}
		}, reschedule.Seen{Requested: true, Failed: "NoFurtherResponder: m"}},
		"withdrawn":         {func(r *lifecyclev1alpha1.EvictionRequest) { r.DeletionTimestamp = &now }, reschedule.Seen{}},
		"another requester": {func(r *lifecyclev1alpha1.EvictionRequest) { r.Spec.Requester = "acme.io/foo" }, reschedule.Seen{Vetoed: "somebody else"}},
		"another's pod":     {func(r *lifecyclev1alpha1.EvictionRequest) { r.Spec.Target.Pod.UID = "v" }, reschedule.Seen{Vetoed: "somebody else"}},
		"no pod":            {func(r *lifecyclev1alpha1.EvictionRequest) { r.Spec.Target.Pod = nil }, reschedule.Seen{Vetoed: "somebody else"}},
		"an intent withdrawn": {func(r *lifecyclev1alpha1.EvictionRequest) {
			r.Spec.Intent = lifecyclev1alpha1.EvictionRequestIntentWithdrawn
		}, reschedule.Seen{Vetoed: "somebody else"}},
	} {
		s := &lifecycle{server: server{pod: web()}, served: true}
		client, fence := start(t, s)
		if _, err := client.UseRequests(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Evict(t.Context(), carried()); err != nil {
			t.Fatal(err)
		}
		c.change(s.request)
		got, err := client.See(t.Context(), carried())
		if err != nil || !got.Known || got.Requested != c.want.Requested || got.Failed != c.want.Failed || (got.Vetoed == "") != (c.want.Vetoed == "") || !strings.Contains(got.Vetoed, c.want.Vetoed) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		sent := len(s.writes)
		fence.Shut()
		_, evicting := client.Evict(t.Context(), carried())
		if withdrawing := client.Withdraw(t.Context(), carried()); evicting == nil || withdrawing == nil || len(s.writes) != sent {
			t.Errorf("%s: a deposed leader writes", name)
		}
	}
}

// Who is not to use EvictionRequests any more still withdraws those that a leader before has made, if it is allowed to.
func TestRequestsOfALeaderBefore(t *testing.T) {
	s := &lifecycle{server: server{pod: web(), evict: http.StatusCreated}, served: true}
	client, _ := start(t, s)
	if _, err := client.UseRequests(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Evict(t.Context(), carried()); err != nil || s.request == nil {
		t.Fatal(err)
	}
	if s.request.Labels[spec.LabelMove] != "" || len(s.request.Labels) != 1 {
		t.Errorf("labels %v", s.request.Labels)
	}
	next, _ := start(t, s)
	if used, err := next.UseRequests(t.Context(), false); used || err != nil {
		t.Fatalf("used %v, %v", used, err)
	}
	if seen, err := next.See(t.Context(), carried()); err != nil || !seen.Requested {
		t.Fatalf("%+v, %v", seen, err)
	}
	s.forbids = true
	if seen, err := next.See(t.Context(), carried()); err != nil || seen.Requested || !seen.Known {
		t.Errorf("who need not use them is stopped by not being allowed to: %+v, %v", seen, err)
	}
	if err := next.GiveBack(t.Context(), carried()); err != nil || s.request == nil {
		t.Error(err)
	}
	if _, err := client.See(t.Context(), carried()); err == nil {
		t.Error("who uses them does not notice that it may not look")
	}
	s.forbids = false
	if err := next.GiveBack(t.Context(), carried()); err != nil || s.request != nil {
		t.Errorf("it still asks: %v, %v", s.request, err)
	}
}
