package write

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube/standin"
	"hilbert.dev/hilbert/schedule/bind"
)

// TestBindingComesAfterTheCondition: a pod that is just being told why it waits is bound after that; other pods do not wait. If the condition is not answered in time, the Binding
// has not left.
func TestBindingComesAfterTheCondition(t *testing.T) {
	r := newRig(t, 4, 30*time.Minute)
	s, w := r.server, r.writer
	for _, name := range []string{"a", "b"} {
		s.SetPod(standin.Pod(name, ""))
	}
	arrived, answer := make(chan string, 8), make(chan struct{})
	s.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		_, what, _ := strings.Cut(r.URL.Path, "/pods/")
		if r.Method == http.MethodPost || r.Method == http.MethodPatch {
			arrived <- what
		}
		if what == "a/status" {
			<-answer
		}
		return false
	})
	told := bind.Write{
		ID: bind.WriteID{Number: 1}, Kind: bind.WriteCondition, Pod: "uid-a", Namespace: "default", Name: "a", Condition: facts.Condition{Reason: "Unschedulable", Message: "no room"},
	}
	for i, write := range []bind.Write{told, bindingOf("a"), bindingOf("b")} {
		write.ID.Number = uint64(i + 1)
		if !w.Start(write) {
			t.Fatal("not started")
		}
	}
	first := map[string]bool{<-arrived: true, <-arrived: true}
	if !first["a/status"] || !first["b/binding"] {
		t.Fatalf("%v arrive first", first)
	}
	if r := <-w.Results(); r.ID.Number != 3 || r.Outcome != bind.Written {
		t.Fatalf("answered first: %+v", r)
	}
	select {
	case what := <-arrived:
		t.Fatalf("%s, while the condition is under way", what)
	default:
	}
	close(answer)
	for range 2 {
		if r := <-w.Results(); r.Outcome != bind.Written {
			t.Errorf("%+v", r)
		}
	}
	if len(w.order.conditions) != 0 {
		t.Errorf("%d pods are remembered", len(w.order.conditions))
	}
}

func TestBindingDoesNotLeaveBehindACondition(t *testing.T) {
	r := newRig(t, 1, 50*time.Millisecond)
	r.server.SetPod(standin.Pod("a", ""))
	r.server.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/binding") {
			t.Error("the Binding has left")
		}
		return false
	})
	r.writer.order.add(bind.Write{Kind: bind.WriteCondition, Pod: "uid-a"}) // it is never answered
	if got := r.do(t, bindingOf("a")); got.Outcome != bind.NotSent {
		t.Errorf("%+v", got)
	}
}
