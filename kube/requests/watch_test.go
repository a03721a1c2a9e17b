package requests

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/control/request"
	"hilbert.dev/hilbert/kube/standin"
)

// asks is that ResourceRequest as a watch delivers it.
func asks(t *testing.T) *written {
	t.Helper()
	text, err := json.Marshal(object(t))
	if err != nil {
		t.Fatal(err)
	}
	w := &written{}
	if err := json.Unmarshal(text, w); err != nil {
		t.Fatal(err)
	}
	return w
}

// owned is a pod of a request; without a UID it is nobody's.
func owned(name, uid, node string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("pod-" + name)}, Spec: corev1.PodSpec{NodeName: node}}
	if uid != "" {
		p.OwnerReferences = owners(&v1alpha1.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Name: "words", UID: types.UID(uid)}})
	}
	return p
}

// empty says what a Watch that knows of nothing any more still has.
func (w *Watch) empty() string {
	for what, n := range map[string]int{
		"requests": len(w.requests), "UIDs": len(w.byUID), "owners' pods": len(w.pods), "pods' owners": len(w.owners), "waiting": len(w.waiting), "changed": len(w.changed), "gone": len(w.gone),
	} {
		if n > 0 {
			return fmt.Sprintf("%d %s", n, what)
		}
	}
	return ""
}

func (w *Watch) shown() map[string]*request.Pod {
	var pods map[string]*request.Pod
	w.decide([]request.Key{{Namespace: "ns", Name: "words"}}, func(string) {}, func(v *request.View) {
		if len(v.Requests) > 0 {
			pods = v.Requests[0].Pods
		}
	})
	return pods
}

// Whoever may change a pod may give it to another owner, as often as he likes. It is its last owner's alone, waits once, and is forgotten when it goes.
func TestPodsChangeOwners(t *testing.T) {
	for name, node := range map[string]string{"it waits": "", "it has a node": "n1"} {
		t.Run(name, func(t *testing.T) {
			w := emptyWatch(slog.New(slog.DiscardHandler))
			w.listed = true
			w.addRequest(asks(t))
			w.addPod(owned("p", "u1", node))
			if len(w.shown()) != 1 {
				t.Fatal("the request's pod is not shown")
			}
			for i := range 100 {
				w.addPod(owned("p", fmt.Sprint("forged", i), node))
			}
			if len(w.shown()) != 0 {
				t.Error("a pod that another owner has is shown as the request's")
			}
			waits := 0
			if node == "" {
				waits = 1
			}
			if _, waiting := w.Counts(); waiting != waits || len(w.pods) != 1 || len(w.owners) != 1 {
				t.Errorf("of one pod %d wait, under %d owners", waiting, len(w.pods))
			}
			w.addPod(owned("p", "u1", node))
			if len(w.shown()) != 1 {
				t.Error("the pod came back, and is not shown")
			}
			w.addPod(owned("p", "", node)) // it is left to nobody
			if len(w.shown()) != 0 || len(w.pods) != 0 {
				t.Errorf("an orphan is somebody's: %v", w.pods)
			}
			w.addPod(owned("p", "u1", node))
			w.removePod(owned("p", "forged", node)) // the last that is seen of it
			w.removeRequest(asks(t))
			w.shown()
			if is := w.empty(); is != "" {
				t.Errorf("all went, and there are %s", is)
			}
		})
	}
}

// Memory comes back in whatever order a request and its pods go, and when it is decided between.
func TestWhatWentIsForgotten(t *testing.T) {
	for name, steps := range map[string]string{
		"its pods first":             "pod pod gone decide gone decide end decide",
		"all in one decision":        "pod pod gone gone end decide",
		"the request first":          "pod pod end gone gone decide",
		"the request between them":   "pod pod gone end gone decide",
		"pods that have no node yet": "waits waits gone end gone decide",
		"before pods are listed":     "unlisted end",
	} {
		t.Run(name, func(t *testing.T) {
			w := emptyWatch(slog.New(slog.DiscardHandler))
			w.listed = true
			w.addRequest(asks(t))
			var pods []*corev1.Pod
			for step := range strings.FieldsSeq(steps) {
				switch step {
				case "pod", "waits":
					node := ""
					if step == "pod" {
						node = "n1"
					}
					pods = append(pods, owned(fmt.Sprint("p", len(pods)), "u1", node))
					w.addPod(pods[len(pods)-1])
				case "gone":
					w.removePod(pods[0])
					pods = pods[1:]
				case "end":
					w.removeRequest(asks(t))
				case "decide":
					w.decide(nil, func(string) {}, func(*request.View) {})
				case "unlisted":
					w.listed = false
				}
			}
			if is := w.empty(); is != "" {
				t.Errorf("all went, and there are %s", is)
			}
		})
	}
}

// When a term ends nobody takes results any more, and the writers end all the same: else the process would never let another lead.
func TestWritersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := emptyWatch(slog.New(slog.DiscardHandler))
		term := &term{writer: &Writer{watch: w}, todo: make(chan *request.Action, 2), results: make(chan done)}
		for range cap(term.todo) {
			term.todo <- &request.Action{Status: &request.Status{}} // of a request that went
		}
		close(term.todo)
		var running sync.WaitGroup
		running.Go(func() { term.write(ctx) })
		synctest.Wait() // it has a result
		cancel()
		running.Wait()
	})
}

// A status that becomes again what the watch still shows is written all the same: between the two another one was.
func TestStatusComesBackBeforeItsWatch(t *testing.T) {
	r := emptyRig(t)
	r.server.Set(standin.FromYAML(t, asksText))
	watch := emptyWatch(slog.New(slog.DiscardHandler))
	writer, err := NewWriter(r.server.Connection(), r.fence, watch, "hilbert", time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(writer.Close)
	o := object(t)
	waits, runs := request.Status{Summary: request.Summary{Generation: 1, Asked: 2, Waiting: 2, Reason: request.ReasonWaiting}}, request.Status{Summary: request.Summary{Generation: 1, Asked: 2, Running: 2, Reason: request.ReasonAllocated, Ready: true}}
	o.Status = *statusOf(&waits, &o.Status, time.Now())
	watch.requests[request.Key{Namespace: "ns", Name: "words"}] = &asked{object: o, Request: read(o)}
	for i, step := range []struct {
		status *request.Status
		first  bool
		sent   int
	}{{&waits, true, 0}, {&runs, false, 1}, {&waits, false, 2}} {
		s := *step.status
		s.First = step.first
		if got := writer.do(t.Context(), &request.Action{Request: request.Key{Namespace: "ns", Name: "words"}, UID: "u1", Status: &s}); got.err != nil || got.result != request.Done {
			t.Fatalf("step %d: %+v", i, got)
		}
		r.mu.Lock()
		sent := slices.DeleteFunc(slices.Clone(r.writes), func(text string) bool { return !strings.HasPrefix(text, http.MethodPatch) })
		r.mu.Unlock()
		if len(sent) != step.sent {
			t.Errorf("step %d: %d statuses were written, want %d", i, len(sent), step.sent)
		}
	}
	if s := r.status(); s.Waiting != 2 || s.Running != 0 {
		t.Errorf("the status is %+v", s)
	}
}
