package vpa

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"hilbert.dev/hilbert/control/vpa"
	"hilbert.dev/hilbert/kube/lease"
)

// An eviction that a disruption budget refuses is told apart from one that may have been done, and from one whose pod is gone.
func TestEvictionAnswers(t *testing.T) {
	for code, want := range map[int]struct{ refused, failed bool }{
		http.StatusCreated: {}, http.StatusNotFound: {}, http.StatusConflict: {}, http.StatusTooManyRequests: {true, true}, http.StatusInternalServerError: {false, true},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			_ = json.NewEncoder(w).Encode(&metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Code: int32(code), Message: "no"})
		}))
		fence := lease.NewFence(time.Hour, time.Minute)
		fence.Renewed(time.Now())
		connection := &rest.Config{Host: server.URL}
		reader, err := NewReader(connection, "hilbert", true, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		writer, err := NewWriter(connection, fence, reader, WriterOptions{Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		_, err = writer.Do(t.Context(), &vpa.Action{Evict: &vpa.Evict{Pod: &vpa.Pod{Namespace: "ns", Name: "p", UID: "u"}}}, time.Now())
		if errors.Is(err, ErrRefused) != want.refused || (err != nil) != want.failed {
			t.Errorf("%d: %v", code, err)
		}
		writer.Close()
		server.Close()
	}
}

// A status is written into the object that it was decided about, and not into one that was made anew under its name: of statuses, the API server passes over the UID in a merge patch.
func TestStatusNamesItsObject(t *testing.T) {
	var sent string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent = r.Method + " " + r.URL.Path + " " + r.Header.Get("Content-Type") + " " + string(body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(server.Close)
	fence := lease.NewFence(time.Hour, time.Minute)
	fence.Renewed(time.Now())
	connection := &rest.Config{Host: server.URL}
	reader, err := NewReader(connection, "hilbert", false, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	writer, err := NewWriter(connection, fence, reader, WriterOptions{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(writer.Close)
	key := vpa.Key{Namespace: "ns", Name: "web"}
	reader.autoscalers = map[vpa.Key]*Autoscaler{key: {ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "u"}}}
	if _, err := writer.Do(t.Context(), &vpa.Action{Object: key, Status: &vpa.Status{Generation: 3}}, time.Now()); err != nil {
		t.Fatal(err)
	}
	const want = `PATCH /apis/autoscaling.k8s.io/v1/namespaces/ns/verticalpodautoscalers/web/status application/json-patch+json ` +
		`[{"op":"test","path":"/metadata/uid","value":"u"},{"op":"add","path":"/status","value":{"observedGeneration":3}}]`
	if sent != want {
		t.Errorf("sent %s\nwant %s", sent, want)
	}
}
