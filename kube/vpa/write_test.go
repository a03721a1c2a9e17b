package vpa

import (
	"encoding/json"
	"errors"
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
		fence := lease.NewFence(time.Hour, time.Second)
		fence.Renewed(time.Now())
		connection := &rest.Config{Host: server.URL}
		reader, err := NewReader(connection, "hilbert", true, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		writer, err := NewWriter(connection, fence, reader, WriterOptions{Timeout: time.Second})
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
