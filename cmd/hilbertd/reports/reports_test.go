package reports

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/control/metrics"
	kubemetrics "hilbert.dev/hilbert/kube/metrics"
	"hilbert.dev/hilbert/kube/visibility"
)

// replica is a Receiver behind a real server with TLS.
type replica struct {
	*Receiver
	server *httptest.Server
	mu     sync.Mutex
	got    map[string][]*metrics.Report // by node
}

// tokens are known; each is called as its node.
func identify(_ context.Context, token string) (string, error) {
	node, ok := strings.CutPrefix(token, "token-of-")
	switch {
	case !ok:
		return "", fmt.Errorf("%w: it is a tenant's", kubemetrics.ErrStranger)
	case node == "new":
		return "", visibility.ErrTooMany
	case node == "deleted":
		return "", visibility.ErrUnauthenticated
	case node == "unreachable":
		return "", errors.New("connection refused")
	}
	return node, nil
}

func newReplica(t *testing.T) *replica {
	t.Helper()
	r := &replica{got: make(map[string][]*metrics.Report)}
	r.Receiver = &Receiver{Identify: identify, Log: slog.New(slog.DiscardHandler), Take: func(node string, report *metrics.Report, _ time.Time) metrics.Taken {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.got[node] = append(r.got[node], report)
		return metrics.Taken{Taken: len(report.Pods)}
	}}
	r.server = httptest.NewTLSServer(r.Receiver)
	t.Cleanup(r.server.Close)
	return r
}

// newSender makes a sender for n1 that trusts a replica, and finds it at these hosts.
func newSender(t *testing.T, r *replica, hosts ...string) *Sender {
	t.Helper()
	dir := t.TempDir()
	port := r.server.URL[strings.LastIndexByte(r.server.URL, ':')+1:]
	c := spec.NodeMetrics{
		Address: "metrics:" + port, ServerName: "example.com", CAFile: filepath.Join(dir, "ca.crt"), TokenFile: filepath.Join(dir, "token"), Interval: spec.Duration(15 * time.Second),
	}
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.server.Certificate().Raw})
	if err := errors.Join(os.WriteFile(c.CAFile, authority, 0o600), os.WriteFile(c.TokenFile, []byte("token-of-n1\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	s := NewSender(c, "n1", slog.New(slog.DiscardHandler))
	s.lookup = func(context.Context, string) ([]string, error) { return hosts, nil }
	return s
}

func see(s *Sender) {
	s.See(spec.PodRef{Namespace: "shop", Name: "web", UID: "u"}, metrics.CPUUse, 1, time.Now())
}

func TestReportsArrive(t *testing.T) {
	r := newReplica(t)
	s := newSender(t, r, "127.0.0.1")
	if err := s.round(t.Context()); err != nil || len(r.got) != 0 {
		t.Fatalf("nothing was read, and sent is %v: %v", r.got, err)
	}
	see(s)
	if err := s.round(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := r.got["n1"]
	if len(got) != 1 || len(got[0].Pods) != 1 || got[0].Pods[0].Values["cpuUse"].Sum != metrics.Micro {
		t.Fatalf("got %+v", r.got)
	}
	if sent, failed := s.Counts(); sent != 1 || failed != 0 {
		t.Errorf("sent %d, failed %d", sent, failed)
	}
	see(s) // at once: it comes too soon
	if err := s.round(t.Context()); err == nil || !strings.Contains(err.Error(), "one report a second") || len(r.got["n1"]) != 1 {
		t.Errorf("the second report in a second: %v", err)
	}
	if n := r.Results(); n["taken"] != 1 || n["limited"] != 1 {
		t.Errorf("results %v", n)
	}
}

// TestEveryReplicaGetsReports: each address is sent to, and one that does not answer keeps none from the others.
func TestEveryReplicaGetsReports(t *testing.T) {
	r := newReplica(t)
	s := newSender(t, r, "127.0.0.1", "127.9.9.9") // a test server listens on 127.0.0.1 alone
	see(s)
	if err := s.round(t.Context()); err == nil || len(r.got["n1"]) != 1 {
		t.Errorf("got %v, error %v", r.got, err)
	}
	if sent, failed := s.Counts(); sent != 1 || failed != 1 {
		t.Errorf("sent %d, failed %d", sent, failed)
	}
}

// TestTokensGoToNobodyElse: without the certificate that is expected, no request is made.
func TestTokensGoToNobodyElse(t *testing.T) {
	r, other := newReplica(t), newReplica(t)
	s := newSender(t, r, "127.0.0.1")
	s.config.ServerName = "another.example.org"
	see(s)
	if err := s.round(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("error %v", err)
	}
	if err := os.WriteFile(s.config.TokenFile, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	see(s)
	if err := s.round(t.Context()); err == nil || !strings.Contains(err.Error(), "node.metrics.tokenFile") || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("error %v", err)
	}
	if err := os.WriteFile(s.config.CAFile, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	see(s)
	if err := s.round(t.Context()); err == nil || !strings.Contains(err.Error(), "caFile") {
		t.Errorf("error %v", err)
	}
	if sent, failed := s.Counts(); sent != 0 || failed != 3 {
		t.Errorf("sent %d, failed %d; want each round counted that sent nothing", sent, failed)
	}
	for _, at := range []*replica{r, other} {
		if n := at.Results(); n["taken"]+n["refused"]+n["limited"]+n["bad"] != 0 {
			t.Errorf("requests came: %v", n)
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		token, body string
		code        int
		result      string
	}{
		{"", `{"pods":[]}`, http.StatusUnauthorized, "refused"},
		{"Basic abc", `{"pods":[]}`, http.StatusUnauthorized, "refused"},
		{"Bearer tenant", `{"pods":[]}`, http.StatusForbidden, "refused"},
		{"Bearer token-of-new", `{"pods":[]}`, http.StatusTooManyRequests, "limited"},
		{"Bearer token-of-deleted", `{"pods":[]}`, http.StatusForbidden, "refused"},
		{"Bearer token-of-unreachable", `{"pods":[]}`, http.StatusServiceUnavailable, "limited"},
		{"Bearer token-of-n1", `{`, http.StatusBadRequest, "bad"},
		{"Bearer token-of-n1", `{"pods":[` + strings.Repeat(" ", maxReport) + `]}`, http.StatusRequestEntityTooLarge, "bad"},
		{"Bearer token-of-n1", `{"pods":[]}`, http.StatusNoContent, "taken"},
	} {
		r := newReplica(t)
		w := httptest.NewRecorder()
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, Path, bytes.NewBufferString(c.body))
		request.Header.Set("Authorization", c.token)
		r.ServeHTTP(w, request)
		if w.Code != c.code || r.Results()[c.result] != 1 {
			t.Errorf("%q %.20s: %d %s %v", c.token, c.body, w.Code, w.Body, r.Results())
		}
	}
}

// TestReportsThatAreReadAreBounded: one more than are read at once is sent away, and those who are no agents take no place.
func TestReportsThatAreReadAreBounded(t *testing.T) {
	r := newReplica(t)
	asked, identified := make(chan string), make(chan struct{})
	r.Identify = func(ctx context.Context, token string) (string, error) {
		if token == "tenant" {
			asked <- token
			<-identified
		}
		return identify(ctx, token)
	}
	send := func(token string, body io.Reader) int {
		w := httptest.NewRecorder()
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, Path, body)
		request.Header.Set("Authorization", "Bearer "+token)
		r.ServeHTTP(w, request)
		return w.Code
	}
	var all sync.WaitGroup
	for range maxReading {
		all.Go(func() { send("tenant", http.NoBody) })
		<-asked
	}
	if code := send("token-of-first", strings.NewReader(`{"pods":[]}`)); code != http.StatusNoContent {
		t.Errorf("while strangers wait, an agent gets %d", code)
	}
	close(identified)
	all.Wait()
	var bodies []*io.PipeWriter
	for i := range maxReading {
		body, write := io.Pipe()
		bodies = append(bodies, write)
		all.Go(func() { send(fmt.Sprint("token-of-n", i), body) })
		if _, err := io.WriteString(write, "{"); err != nil { // it is being read
			t.Fatal(err)
		}
	}
	if code := send("token-of-last", strings.NewReader(`{"pods":[]}`)); code != http.StatusTooManyRequests {
		t.Errorf("one more than are read at once gets %d", code)
	}
	for _, body := range bodies {
		_ = body.Close()
	}
	all.Wait()
	if code := send("token-of-later", strings.NewReader(`{"pods":[]}`)); code != http.StatusNoContent {
		t.Errorf("once they are read, the next gets %d", code)
	}
}
