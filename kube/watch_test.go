package kube

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube/parse"
	"hilbert.dev/hilbert/kube/standin"
)

// patience is how long a test waits for something that must happen. Nothing is asserted about how long it takes.
const patience = 60 * time.Second

func testNode() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{Allocatable: standin.Resources("cpu", "8", "pods", "10")}}
}

// next returns the next event, in a rendering that the tests below compare. Empty lists of what a test does not have come at any time
// and are left out.
func next(t *testing.T, w *Watch) string {
	t.Helper()
	for {
		select {
		case event := <-w.Events():
			if line := describe(event); line != "" {
				return line
			}
		case <-time.After(patience):
			t.Fatal("no event")
			return ""
		}
	}
}

func describe(event facts.Event) string {
	switch e := event.(type) {
	case facts.NodesListed:
		names := make([]string, 0, len(e.Nodes))
		for _, n := range e.Nodes {
			names = append(names, n.Name)
		}
		return "nodes " + sorted(names)
	case facts.PodsListed:
		names := make([]string, 0, len(e.Pods))
		for i := range e.Pods {
			names = append(names, string(e.Pods[i].UID)+"@"+e.Pods[i].Node)
		}
		return "pods " + sorted(names)
	case facts.FinishedListed:
		if len(e.Pods) == 0 {
			return ""
		}
		names := make([]string, 0, len(e.Pods))
		for i := range e.Pods {
			names = append(names, string(e.Pods[i].UID))
		}
		return "finished " + sorted(names)
	case facts.NodeUpserted:
		return fmt.Sprintf("node %s unschedulable=%v", e.Node.Name, e.Node.Unschedulable)
	case facts.NodeRemoved:
		return "node " + e.Name + " gone"
	case facts.PodUpserted:
		return fmt.Sprintf("pod %s@%s deleting=%v", e.Pod.UID, e.Pod.Node, e.Pod.Deleting)
	case facts.PodRemoved:
		return fmt.Sprintf("pod %s gone", e.UID)
	}
	return describeOther(event)
}

func sorted(names []string) string {
	out := map[string]bool{}
	for _, n := range names {
		out[n] = true
	}
	return fmt.Sprint(out) // fmt prints maps sorted by key
}

func expect(t *testing.T, w *Watch, want ...string) {
	t.Helper()
	for _, line := range want {
		if got := next(t, w); got != line {
			t.Fatalf("got event %q, want %q", got, line)
		}
	}
}

// both waits for the two first lists, which come in any order.
func both(t *testing.T, w *Watch, want ...string) {
	t.Helper()
	got := map[string]bool{next(t, w): true, next(t, w): true}
	for _, line := range want {
		if !got[line] {
			t.Fatalf("got lists %v, want %q", got, want)
		}
	}
}

func startWatch(t *testing.T, s *standin.Server, log *slog.Logger) *Watch {
	t.Helper()
	w, err := StartWatch(t.Context(), s.Connection(), WatchOptions{SchedulerName: "hilbert"}, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return w
}

var quiet = slog.New(slog.DiscardHandler)

func TestWatch(t *testing.T) {
	for _, streamed := range []bool{true, false} {
		t.Run(fmt.Sprintf("streamed=%v", streamed), func(t *testing.T) {
			s := standin.New(t)
			if !streamed {
				s.WithoutStreaming()
			}
			foreign := standin.Pod("foreign", "")
			foreign.Spec.SchedulerName = "other"
			finished := standin.Pod("finished", "n1")
			finished.Status.Phase = corev1.PodSucceeded
			s.SetNode(testNode())
			for _, pod := range []*corev1.Pod{standin.Pod("a", ""), standin.Pod("b", "n1"), foreign, finished} {
				s.SetPod(pod)
			}
			w := startWatch(t, s, quiet)
			both(t, w, "nodes map[n1:true]", "pods map[uid-a@:true uid-b@n1:true]")

			// What changes nothing for placement is not told: the next thing told is what comes after it.
			beat := testNode()
			beat.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, LastHeartbeatTime: metav1.Now()}}
			s.SetNode(beat)
			cordoned := testNode()
			cordoned.Spec.Unschedulable = true
			s.SetNode(cordoned)
			expect(t, w, "node n1 unschedulable=true")

			running := standin.Pod("b", "n1")
			running.Status.Phase = corev1.PodRunning
			s.SetPod(running)
			bound := standin.Pod("a", "n1")
			s.SetPod(bound)
			expect(t, w, "pod uid-a@n1 deleting=false")

			foreign.Labels = map[string]string{"still": "not bound"}
			s.SetPod(foreign)
			foreign.Spec.NodeName = "n1"
			s.SetPod(foreign)
			expect(t, w, "pod uid-foreign@n1 deleting=false")

			now := metav1.Now()
			bound.DeletionTimestamp = &now
			s.SetPod(bound)
			s.DeletePod("default", "a")
			running.Status.Phase = corev1.PodFailed
			s.SetPod(running)
			expect(t, w, "pod uid-a@n1 deleting=true", "pod uid-a gone", "pod uid-b gone")
			s.DeleteNode("n1")
			expect(t, w, "node n1 gone")
		})
	}
}

func TestWatchListsAnewWhenItCannotResume(t *testing.T) {
	s := standin.New(t)
	s.SetPod(standin.Pod("a", ""))
	s.SetPod(standin.Pod("b", ""))
	w := startWatch(t, s, quiet)
	both(t, w, "pods map[uid-a@:true uid-b@:true]")
	s.DeletePod("default", "a")
	expect(t, w, "pod uid-a gone")

	s.Intercept(func(w http.ResponseWriter, _ *http.Request) bool { // nobody sees what happens now
		http.Error(w, "starting", http.StatusServiceUnavailable)
		return true
	})
	s.BreakWatches()
	s.DeletePod("default", "b")
	s.SetPod(standin.Pod("c", ""))
	s.Expire()
	s.Intercept(nil)
	seen := map[string]bool{}
	for !seen["pods map[uid-c@:true]"] {
		seen[next(t, w)] = true
	}
	s.SetPod(standin.Pod("d", ""))
	for !seen["pod uid-d@ deleting=false"] {
		seen[next(t, w)] = true
	}
	if seen["pod uid-b@ deleting=false"] {
		t.Error("a pod came back that was deleted while nobody watched")
	}
}

// lines collects what is logged.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), text)
}

func TestWatchWaitsForAHalfStartedServer(t *testing.T) {
	s := standin.New(t)
	s.SetNode(testNode())
	var asked sync.Map // each path is refused once
	s.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if _, again := asked.LoadOrStore(r.URL.Path, true); again {
			return false
		}
		http.Error(w, "the API server is starting", http.StatusForbidden)
		return true
	})
	log := &lines{}
	w := startWatch(t, s, slog.New(slog.NewTextHandler(log, nil)))
	both(t, w, "nodes map[n1:true]", "pods map[]")
	for _, text := range []string{"cannot reach the API server (nodes)", "reached the API server (nodes) again"} {
		if n := log.count(text); n != 1 {
			t.Errorf("%d lines say %q:\n%s", n, text, log.buf.String())
		}
	}
}

func TestFullQueueHoldsTheWatchUp(t *testing.T) {
	events := make(chan facts.Event, 1)
	ctx, cancel := context.WithCancel(t.Context())
	sink := &podSink{out: outlet{ctx, events}, parser: parse.NewParser("hilbert", nil), watches: newPodWatches()}
	if err := sink.Add(standin.Pod("a", "")); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- sink.Add(standin.Pod("b", "")) }()
	if got := describe(<-events) + ", " + describe(<-events); got != "pod uid-a@ deleting=false, pod uid-b@ deleting=false" {
		t.Errorf("got %s", got)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := sink.Add(standin.Pod("c", "")); err != nil {
		t.Fatal(err)
	}
	go func() { done <- sink.Add(standin.Pod("d", "")) }()
	cancel()
	if err := <-done; err == nil {
		t.Error("a stopped watch waits for ever")
	}
}
