package explain

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/cmd/hilbert/output"
)

// TestExplainRequest: each container that the status names is told, and pods without a node with the scheduler's words; those that have one, or go, are not.
func TestExplainRequest(t *testing.T) {
	a := requestAnswer{Namespace: "etl", Name: "words"}
	if err := json.Unmarshal([]byte(`{
		"asked": 4, "waiting": 2, "allocated": 0, "running": 1, "succeeded": 0, "failed": 1, "released": 0,
		"allocations": [
			{"ask": "map", "index": 0, "state": "Running", "pod": "words-map-0", "node": "n1"},
			{"ask": "map", "index": 3, "state": "Failed", "pod": "words-map-3", "node": "n2", "failures": 7, "reason": "Error", "message": "exit code 1"}],
		"conditions": [{"type": "Ready", "status": "False", "reason": "ContainersWait", "message": "2 wait"}]}`), &a.Status); err != nil {
		t.Fatal(err)
	}
	var pods []corev1.Pod
	if err := json.Unmarshal([]byte(`[
		{"metadata": {"name": "words-map-2", "labels": {"hilbert.dev/ask": "map"}}, "status": {"phase": "Pending"}},
		{"metadata": {"name": "words-map-1", "labels": {"hilbert.dev/ask": "map"}}, "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes fit"}]}},
		{"metadata": {"name": "words-map-9", "deletionTimestamp": "2026-11-26T20:00:00Z"}, "status": {"phase": "Pending"}},
		{"metadata": {"name": "words-map-8"}, "status": {"phase": "Failed"}}]`), &pods); err != nil {
		t.Fatal(err)
	}
	a.wait(pods)
	const want = `ResourceRequest etl/words: 4 asked, 2 waiting, 0 allocated, 1 running, 0 succeeded, 1 failed, 0 released

Conditions:
  Ready is False (ContainersWait): 2 wait

ASK  INDEX  STATE    NODE  POD          FAILURES  WHY
map  0      Running  n1    words-map-0  0         
map  3      Failed   n2    words-map-3  7         Error: exit code 1

Without a node:
  words-map-1 of map: 0/3 nodes fit
  words-map-2 of map: the scheduler has not said anything yet

What would help: hilbert explain pod etl/words-map-1
`
	expectText(t, &a, want)
	var many []corev1.Pod
	for i := range mostWaiting + 1 {
		many = append(many, corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending}})
		many[i].Name = fmt.Sprint(i)
	}
	crowd := requestAnswer{Unread: "who knows"}
	crowd.wait(many)
	var out strings.Builder
	if err := crowd.WriteText(&out); err != nil {
		t.Fatal(err)
	}
	for _, said := range []string{"controller has not said anything", "and more", "not known: who knows"} {
		if !strings.Contains(out.String(), said) {
			t.Errorf("%q is not in %s", said, out.String())
		}
	}
	if len(crowd.Waiting) != mostWaiting {
		t.Errorf("%d pods are told", len(crowd.Waiting))
	}
}

// TestExplainTidePool: how nodes are divided, why, and which change hands.
func TestExplainTidePool(t *testing.T) {
	a := tideAnswer{Name: "mixed"}
	if err := json.Unmarshal([]byte(`{
		"nodes": 10, "online": 6, "offline": 4, "wanted": 7, "why": "window day",
		"changing": [{"node": "n7", "to": "online", "pods": 2, "why": "a target is asked for"}],
		"next": {"name": "night", "begins": "2026-11-27T20:00:00Z", "online": 2}, "forecast": "not used: no better than the same as now",
		"handOvers": [{"at": "2026-11-26T19:00:00Z", "nodes": 2}, {"at": "2026-11-26T19:10:00Z", "nodes": 1}],
		"conditions": [{"type": "Satisfied", "status": "False", "reason": "Changing", "message": "1 node is to change hands"}]}`), &a.Status); err != nil {
		t.Fatal(err)
	}
	expectText(t, &a, `TidePool mixed: 10 nodes, 6 with online (7 wanted), 4 with offline

Why so many for online:
  window day

Conditions:
  Satisfied is False (Changing): 1 node is to change hands

Changing hands:
  n7 is with online, 2 pods of the other side are there: a target is asked for

Next:
  window night begins at 2026-11-27T20:00:00Z: at least 2 nodes for online

Forecast:
  not used: no better than the same as now

In the last hour:
  3 nodes changed hands
`)
	var out strings.Builder
	if err := (&tideAnswer{Status: v1alpha1.TidePoolStatus{}}).WriteText(&out); err != nil || !strings.Contains(out.String(), "controller has not said anything") {
		t.Errorf("of a silent one it says %q, err %v", out.String(), err)
	}
}

// expectText compares what an answer says with what it should.
func expectText(t *testing.T, a output.Answer, want string) {
	t.Helper()
	var out strings.Builder
	if err := a.WriteText(&out); err != nil {
		t.Fatal(err)
	}
	if out.String() != want {
		t.Errorf("it says\n%s\nwant\n%s", out.String(), want)
	}
}
