package controlplane

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube"
)

// gate holds back what long watches of unfinished pods say, as a slow network does. Short watches pass; their end is told.
type gate struct {
	next http.RoundTripper

	mu     sync.Mutex
	open   chan struct{} // closed: nothing is held back
	probed chan struct{} // gets the end of each short watch of pods that began since the last hold
}

func newGate() *gate {
	g := &gate{open: make(chan struct{}), probed: make(chan struct{}, 100)}
	close(g.open)
	return g
}

func (g *gate) hold() (release func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	open := make(chan struct{})
	g.open, g.probed = open, make(chan struct{}, 100)
	return func() { close(open) }
}

func (g *gate) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := g.next.RoundTrip(r)
	query := r.URL.Query()
	if err != nil || r.URL.Path != "/api/v1/pods" || query.Get("watch") == "" {
		return response, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	response.Body = &gatedBody{ReadCloser: response.Body, gate: g, short: query.Get("timeoutSeconds") == "3", closed: g.probed}
	return response, nil
}

type gatedBody struct {
	io.ReadCloser
	gate   *gate
	short  bool
	closed chan struct{}
	once   sync.Once
}

func (b *gatedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if !b.short {
		b.gate.mu.Lock()
		open := b.gate.open
		b.gate.mu.Unlock()
		<-open
	}
	return n, err
}

func (b *gatedBody) Close() error {
	if b.short {
		b.once.Do(func() { b.closed <- struct{}{} })
	}
	return b.ReadCloser.Close()
}

// TestCatchUp: a real API server tells, within seconds and without a list of everything, that a Binding was made which the watch has not told yet; and that there
// was none, though other resources have changed.
func TestCatchUp(t *testing.T) {
	c := start(t, Options{})
	admin := client(t, c.AdminConfig())
	pods := admin.CoreV1().Pods(metav1.NamespaceDefault)
	for _, name := range []string{"a", "b"} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.PodSpec{SchedulerName: "hilbert", Containers: []corev1.Container{{Name: "main", Image: "image"}}},
		}
		if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	gate := newGate()
	connection := rest.CopyConfig(c.AdminConfig())
	connection.Wrap(func(next http.RoundTripper) http.RoundTripper {
		gate.next = next
		return gate
	})
	w, err := kube.StartWatch(t.Context(), connection, kube.WatchOptions{SchedulerName: "hilbert"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	events := podEvents(t, w)
	for lists := (kube.Lists{}); !lists.Complete(); {
		lists.Note(events())
	}
	told := func(want ...string) {
		t.Helper()
		for _, line := range want {
			begin := time.Now()
			if got := said(t, w, events); got != line {
				t.Fatalf("told %q, want %q", got, line)
			}
			t.Logf("%s: after %s", line, time.Since(begin).Round(time.Millisecond))
		}
	}

	w.CatchUp()
	told("caught up")

	release := gate.hold()
	bind := func(name string) {
		t.Helper()
		binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: name}, Target: corev1.ObjectReference{Kind: "Node", Name: "n1"}}
		if err := pods.Bind(t.Context(), binding, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	bind("a")
	if _, err := admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "later"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.CatchUp()
	select { // the second watch has ended, so that it is known what is missing
	case <-gate.probed:
	case <-time.After(patience):
		t.Fatal("nobody looked for what was missing")
	}
	release()
	told("pod a on n1", "caught up")

	for range 20 { // the store goes on, and pods do not change
		if _, err := admin.CoreV1().Namespaces().Update(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "later", Labels: map[string]string{"at": fmt.Sprint(time.Now().UnixNano())}}}, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	w.CatchUp()
	told("caught up")
}

// podEvents yields the watch's events, one after the other.
func podEvents(t *testing.T, w *kube.Watch) func() facts.Event {
	return func() facts.Event {
		t.Helper()
		select {
		case event := <-w.Events():
			return event
		case <-time.After(patience):
			t.Fatal("no event")
			return nil
		}
	}
}

// said is the next that is told of pods, or that all was told. A machine that is too slow to find out in time tries again: it is asked what is told, not when.
func said(t *testing.T, w *kube.Watch, events func() facts.Event) string {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		switch e := events().(type) {
		case facts.CaughtUp:
			switch {
			case e.Failure == "":
				return "caught up"
			case strings.Contains(e.Failure, "not within") && time.Now().Before(end):
				w.CatchUp()
			default:
				return e.Failure
			}
		case facts.PodUpserted:
			return "pod " + e.Pod.Name + " on " + e.Pod.Node
		}
	}
}
