package kube

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube/standin"
	"hilbert.dev/hilbert/schedule/bind"
)

func evictionOf(uid facts.UID) bind.Write {
	return bind.Write{Kind: bind.EvictPod, Pod: uid, Namespace: "default", Name: "p", Node: "n1"}
}

func eventOf(name string) bind.Write {
	return bind.Write{
		Kind: bind.WriteEvent, Pod: facts.UID("uid-" + name), Namespace: "default", Name: name,
		Condition: facts.Condition{Reason: spec.ReasonEvictionRefusedByBudget, Message: "a budget"},
	}
}

// answering answers evictions with a status.
func answering(code int, cause metav1.CauseType) standin.Intercept {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(&metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Message: "no", Code: int32(code),
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: cause, Message: "because"}}},
		})
		return true
	}
}

// Only a disruption budget's no is Withheld; an API server that is overloaded is asked again.
func TestReliefEvictions(t *testing.T) {
	for name, c := range map[string]struct {
		uid       facts.UID
		absent    bool
		intercept standin.Intercept
		want      bind.Outcome
		gone      bool
	}{
		"granted":         {uid: "uid-p", want: bind.Written, gone: true},
		"another's UID":   {uid: "uid-q", want: bind.Gone},
		"no such pod":     {uid: "uid-p", absent: true, want: bind.Gone, gone: true},
		"budget":          {uid: "uid-p", intercept: answering(http.StatusTooManyRequests, policyv1.DisruptionBudgetCause), want: bind.Withheld},
		"broken budget":   {uid: "uid-p", intercept: answering(http.StatusForbidden, policyv1.DisruptionBudgetCause), want: bind.Withheld},
		"forbidden":       {uid: "uid-p", intercept: answering(http.StatusForbidden, "Other"), want: bind.Refused},
		"several budgets": {uid: "uid-p", intercept: answering(http.StatusInternalServerError, "Other"), want: bind.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1, 2*time.Second)
			if !c.absent {
				r.server.SetPod(testPod("p", "n1"))
			}
			r.server.Intercept(c.intercept)
			got := r.do(t, evictionOf(c.uid))
			if got.Outcome != c.want || r.server.Pod("default", "p") == nil != c.gone {
				t.Errorf("got %+v, want %v; the pod: %v", got, c.want, r.server.Pod("default", "p") != nil)
			}
		})
	}
}

// An event is written once, whoever says it again.
func TestReliefEvent(t *testing.T) {
	r := newRig(t, 1, 2*time.Second)
	write := eventOf("p")
	if got := r.do(t, write); got.Outcome != bind.Written {
		t.Fatalf("got %+v", got)
	}
	if got := r.do(t, write); got.Outcome != bind.Refused {
		t.Errorf("the second time: %+v", got)
	}
	events := r.server.Events()
	event := events["default/p.uid-p.refused"]
	if len(events) != 1 || event == nil {
		t.Fatalf("events %v", events)
	}
	for _, field := range [][]string{
		{spec.ReasonEvictionRefusedByBudget, "reason"}, {"a budget", "note"}, {"Warning", "type"}, {"uid-p", "regarding", "uid"}, {"Evict", "action"}, {"hilbert-test", "reportingInstance"},
	} {
		if got, _, _ := unstructured.NestedString(event.Object, field[1:]...); got != field[0] {
			t.Errorf("%v: %q", field[1:], got)
		}
	}
}
