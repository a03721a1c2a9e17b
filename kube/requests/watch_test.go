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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"hilbert.dev/hilbert/api/scheduling/v1alpha1"
	"hilbert.dev/hilbert/control/request"
	"hilbert.dev/hilbert/kube/apiserver"
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
	writer, err := NewWriter(r.server.Connection(), r.fence, watch, "hilbert", time.Minute)
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

// Pods are a request's if it is their controller, by group and kind too, and in its own namespace.
func TestOwners(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"another kind":       func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "ReplicaSet" },
		"another group":      func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion = "apps/v1" },
		"no controller":      func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil },
		"another namespace":  func(p *corev1.Pod) { p.Namespace = "evil" },
		"another request":    func(p *corev1.Pod) { p.OwnerReferences[0].UID = "u2" },
		"the request itself": func(*corev1.Pod) {},
	} {
		w := emptyWatch(slog.New(slog.DiscardHandler))
		w.listed = true
		w.addRequest(asks(t))
		p := owned("p", "u1", "n1")
		change(p)
		w.addPod(p)
		if shown := len(w.shown()) == 1; shown != (name == "the request itself") {
			t.Errorf("%s: it is shown as the request's: %v", name, shown)
		}
		w.removePod(p)
		w.shown()
		if len(w.pods) > 0 || len(w.owners) > 0 {
			t.Errorf("%s: the pod went, and %v is there", name, w.pods)
		}
	}
}

// another is a request of another name or UID.
func another(t *testing.T, name, uid string) *written {
	t.Helper()
	w := asks(t)
	w.Name, w.UID = name, types.UID(uid)
	w.Object.Name, w.Object.UID = w.Name, w.UID
	return w
}

// A request that was made anew under its name, or is not in a list any more, is forgotten.
func TestRequestsAreForgotten(t *testing.T) {
	w := emptyWatch(slog.New(slog.DiscardHandler))
	w.listed = true
	forgotten := func() (uids []string) {
		w.decide(nil, func(uid string) { uids = append(uids, uid) }, func(*request.View) {})
		slices.Sort(uids)
		return uids
	}
	w.addRequest(asks(t))
	w.addRequest(another(t, "other", "u2"))
	w.addRequest(another(t, "words", "u3"))
	if got := forgotten(); !slices.Equal(got, []string{"u1"}) || w.object(request.Key{Namespace: "ns", Name: "words"}, "u1") != nil || w.object(request.Key{Namespace: "ns", Name: "words"}, "u3") == nil {
		t.Errorf("made anew: %v are forgotten", got)
	}
	w.removeRequest(asks(t)) // of the one before
	if got := forgotten(); len(got) > 0 {
		t.Errorf("the end of another: %v are forgotten", got)
	}
	w.replaceRequests([]runtime.Object{another(t, "words", "u4")})
	if got := forgotten(); !slices.Equal(got, []string{"u2", "u3"}) || len(w.requests) != 1 || len(w.byUID) != 1 {
		t.Errorf("listed: %v are forgotten, and there are %v", got, w.requests)
	}
	w.replaceRequests(nil)
	if got := forgotten(); !slices.Equal(got, []string{"u4"}) || w.empty() != "" {
		t.Errorf("nothing listed: %v are forgotten, and there are %s", got, w.empty())
	}
}

// Lists are consistent, though reflectors ask for what a cache has: it may be older than what a leader before saw.
func TestListsAreConsistent(t *testing.T) {
	var asked metav1.ListOptions
	source, ok := listing(func(_ context.Context, o metav1.ListOptions) (*corev1.PodList, error) {
		asked = o
		return &corev1.PodList{}, nil
	}, nil, "label", &apiserver.Health{Log: slog.New(slog.DiscardHandler)}).(*cache.ListWatch)
	if !ok {
		t.Fatal("another ListerWatcher")
	}
	for given, want := range map[string]string{"0": "", "": "", "77": "77"} {
		if _, err := source.ListWithContextFunc(t.Context(), metav1.ListOptions{ResourceVersion: given}); err != nil || asked.ResourceVersion != want || asked.LabelSelector != "label" {
			t.Errorf("of version %q: it asks for %+v, %v", given, asked, err)
		}
	}
}

// In any second no more pods are made than PodsPerSecond, after a second without any at most twice as many.
func TestPodsPerSecond(t *testing.T) {
	const rate = 10
	o := object(t)
	o.Spec.Asks[0].Count = 500
	w := emptyWatch(slog.New(slog.DiscardHandler))
	w.listed = true
	a := &asked{object: o, Request: read(o)}
	w.requests[a.Key], w.byUID[a.UID], w.changed[a.Key] = a, a.Key, true
	now := time.Now()
	term := &term{
		Controller: &Controller{Options: Options{PodsPerSecond: rate}}, watch: w, state: request.NewState(request.Defaults()), at: now,
		due: make(map[request.Key]time.Time), todo: make(chan *request.Action, queued), results: make(chan done, queued),
	}
	made := 0
	for i, passed := range []time.Duration{0, 100, 100, 800, 0, 500, 500, 5000, 0, 100} {
		now = now.Add(passed * time.Millisecond)
		term.round(now)
		for more := true; more; {
			select {
			case action := <-term.todo:
				term.flying--
				if action.Create != nil {
					made++
				}
			default:
				more = false
			}
		}
		if want := []int{0, 1, 2, 10, 10, 15, 20, 30, 30, 31}[i]; made != want {
			t.Errorf("in round %d %d pods were made, want %d", i, made, want)
		}
	}
}
