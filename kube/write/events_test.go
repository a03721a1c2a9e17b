package write

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
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

func eventOf() bind.Write {
	return bind.Write{
		Kind: bind.WriteEvent, Pod: "uid-p", Namespace: "default", Name: "p",
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
			r := newRig(t, 1, time.Minute)
			if !c.absent {
				r.server.SetPod(standin.Pod("p", "n1"))
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
	r := newRig(t, 1, time.Minute)
	write := eventOf()
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

// nodeEventOf is an event that a node's agent reports, of a pod or, with no name, of the node.
func nodeEventOf(name string, count int32, known bool) bind.Write {
	w := bind.Write{
		Kind: bind.WriteNodeEvent, Node: "n1", Condition: facts.Condition{Reason: spec.ReasonPromiseBroken, Message: "no CPUs"},
		Series: bind.Series{Count: count, First: 1_700_000_000_000_000_000, Last: 1_700_000_060_000_000_000}, Known: known,
	}
	if name != "" {
		w.Pod, w.Namespace, w.Name = facts.UID("uid-"+name), "default", name
	}
	return w
}

// What a node's agent reports is one Event, whoever writes it, and counts on.
func TestNodeEvent(t *testing.T) {
	r := newRig(t, 1, time.Minute)
	if got := r.do(t, nodeEventOf("p", 2, true)); got.Outcome != bind.Refused {
		t.Errorf("counted on before it is there: %+v", got)
	}
	for i, want := range []bind.Outcome{bind.Written, bind.Refused} {
		if got := r.do(t, nodeEventOf("p", 1, false)); got.Outcome != want {
			t.Errorf("creation %d: %+v", i, got)
		}
	}
	if got := r.do(t, nodeEventOf("p", 3, true)); got.Outcome != bind.Written {
		t.Errorf("counted on: %+v", got)
	}
	if got := r.do(t, nodeEventOf("", 2, false)); got.Outcome != bind.Written {
		t.Errorf("of the node: %+v", got)
	}
	ofPod, ofNode := &eventsv1.Event{}, &eventsv1.Event{}
	for key, event := range r.server.Events() {
		into := ofNode
		if event.GetName()[0] == 'p' {
			into = ofPod
		}
		text, err := event.MarshalJSON()
		if err := errors.Join(err, json.Unmarshal(text, into)); err != nil {
			t.Fatal(key, err)
		}
	}
	if ofPod.Namespace != "default" || ofPod.Regarding.UID != "uid-p" || ofPod.Reason != spec.ReasonPromiseBroken || ofPod.Note != "no CPUs" || ofPod.Type != "Warning" ||
		ofPod.ReportingController != "hilbert.dev/agent" || ofPod.ReportingInstance != "n1" || ofPod.Series == nil || ofPod.Series.Count != 3 || ofPod.EventTime.Unix() != 1_700_000_000 {
		t.Errorf("of the pod: %+v", ofPod)
	}
	if ofNode.Namespace != "default" || ofNode.Regarding.Kind != "Node" || ofNode.Regarding.Name != "n1" || ofNode.Series == nil || ofNode.Series.Count != 2 {
		t.Errorf("of the node: %+v", ofNode)
	}
}

const nodeReportText = "apiVersion: node.hilbert.dev/v1alpha1\nkind: CustomNodeResource\nmetadata: {name: n1}\n"

// A node is told which of its requests are refused: all of them, each time.
func TestRefusals(t *testing.T) {
	const reports = "customnoderesources.node.hilbert.dev"
	r := newRig(t, 1, time.Minute)
	r.server.Offer(reports, "v1alpha1")
	refused := func(names ...string) bind.Write {
		w := bind.Write{Kind: bind.WriteRefusals, Node: "n1"}
		for _, name := range names {
			w.Refused = append(w.Refused, bind.PodName{Namespace: "default", Name: name, UID: facts.UID("uid-" + name)})
		}
		return w
	}
	if got := r.do(t, refused("p")); got.Outcome != bind.Refused {
		t.Errorf("a node without a report: %+v", got)
	}
	r.server.Set(standin.FromYAML(t, nodeReportText))
	for want, write := range map[string]bind.Write{"uid-p uid-q": refused("p", "q"), "": refused()} {
		if got := r.do(t, write); got.Outcome != bind.Written {
			t.Errorf("%q: %+v", want, got)
		}
		list, _, _ := unstructured.NestedSlice(r.server.Stored(reports, "", "n1").Object, "spec", "refusedEvictions")
		var uids []string
		for _, p := range list {
			uids = append(uids, p.(map[string]any)["uid"].(string))
		}
		if got := strings.Join(uids, " "); got != want {
			t.Errorf("told %q, want %q", got, want)
		}
	}
}

// Events about scheduling have the names, reasons and types that upstream's have, and those that tools look for.
func TestPodEvents(t *testing.T) {
	r := newRig(t, 1, time.Minute)
	for reason, kind := range map[string]string{"FailedScheduling": "Warning", "Scheduled": "Normal", "Preempted": "Normal"} {
		write := eventOf()
		write.Condition = facts.Condition{Reason: reason, Message: "a message"}
		for i, want := range []bind.Outcome{bind.Written, bind.Refused} {
			if got := r.do(t, write); got.Outcome != want {
				t.Errorf("%s, time %d: %+v", reason, i+1, got)
			}
		}
		found := false
		for _, e := range r.server.Events() {
			told, _, _ := unstructured.NestedString(e.Object, "reason")
			typ, _, _ := unstructured.NestedString(e.Object, "type")
			note, _, _ := unstructured.NestedString(e.Object, "note")
			found = found || told == reason && typ == kind && note == "a message" && strings.HasPrefix(e.GetName(), "p.")
		}
		if !found {
			t.Errorf("%s: %v", reason, r.server.Events())
		}
	}
	other := eventOf()
	other.Condition = facts.Condition{Reason: "FailedScheduling", Message: "another message"}
	if got := r.do(t, other); got.Outcome != bind.Written || len(r.server.Events()) != 4 {
		t.Errorf("another message: %+v, %d events", got, len(r.server.Events()))
	}
}

// The event of a victim refers to the pod that takes its place, that of a gang to its PodGroup.
func TestEventsRefer(t *testing.T) {
	r := newRig(t, 1, time.Minute)
	r.server.Offer(standin.PodGroups, "v1beta1")
	victim := eventOf()
	victim.Condition = facts.Condition{Reason: "Preempted", Message: "m"}
	victim.Related = bind.PodName{Namespace: "default", Name: "preemptor", UID: "uid-preemptor"}
	gang := bind.Write{
		Kind: bind.WriteEvent, Unit: facts.UnitName{Namespace: "default", Name: "g"}, UnitUID: "uid-g", Namespace: "default", Name: "g",
		Condition: facts.Condition{Reason: "FailedScheduling", Message: "m"},
	}
	for _, w := range []bind.Write{victim, gang} {
		if got := r.do(t, w); got.Outcome != bind.Written {
			t.Fatalf("%+v", got)
		}
	}
	said := make(map[string]bool)
	for _, e := range r.server.Events() {
		for _, ref := range []string{"regarding", "related"} {
			if at, ok, _ := unstructured.NestedStringMap(e.Object, ref); ok {
				said[ref+" "+at["apiVersion"]+" "+at["kind"]+" "+at["name"]+" "+at["uid"]] = true
			}
		}
	}
	for _, want := range []string{"regarding v1 Pod p uid-p", "related v1 Pod preemptor uid-preemptor", "regarding scheduling.k8s.io/v1beta1 PodGroup g uid-g"} {
		if !said[want] {
			t.Errorf("no event with %q: %v", want, said)
		}
	}
}
