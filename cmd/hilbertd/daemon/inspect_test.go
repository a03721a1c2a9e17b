package daemon

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbert/render"
	"hilbert.dev/hilbert/cmd/hilbertd/endpoints"
	"hilbert.dev/hilbert/cmd/hilbertd/endpoints/endpointstest"
	"hilbert.dev/hilbert/kube/standin"
	"hilbert.dev/hilbert/kube/visibility"
	"hilbert.dev/hilbert/schedule/inspect"
)

// visibleRoot is where the aggregated API begins.
const visibleRoot = "/apis/visibility.hilbert.dev/v1alpha1"

// What is asked on this host is answered to those who may ask, and a snapshot says later what the live process said.
func TestInspection(t *testing.T) {
	s := standin.New(t)
	s.User("viewer", "ada", "get podexplanations.visibility.hilbert.dev default", "list queuereports.visibility.hilbert.dev", "get snapshots.visibility.hilbert.dev")
	s.User("stranger", "bob")
	s.SetNode(apiNode("4"))
	s.SetPod(apiPod("fits", "1"))
	s.SetPod(apiPod("large", "100"))
	p := start(t, s, quickConfig())
	endpointstest.Eventually(t, "the small pod is bound", func() bool { return bound(s) == 1 })
	endpointstest.Eventually(t, "the large pod has been tried", func() bool {
		_, body := p.Fetch(t, visibleRoot+"/queuereports", "viewer")
		return strings.Contains(body, `"unschedulable": 1`)
	})
	const large = visibleRoot + "/namespaces/default/podexplanations/large"
	for _, c := range []struct {
		path, token string
		code        int
		want        string
	}{
		{large, "viewer", http.StatusOK, `"missing": 97000`},
		{visibleRoot + "/namespaces/default/podexplanations/fits", "viewer", http.StatusOK, `"node": "n1"`},
		{visibleRoot + "/namespaces/default/podexplanations/none", "viewer", http.StatusNotFound, "knows no pod default/none"},
		{visibleRoot + "/queuereports?limit=x", "viewer", http.StatusBadRequest, "limit"},
		{large, "", http.StatusUnauthorized, "ask by a bearer token"},
		{large, "wrong", http.StatusUnauthorized, "does not know the token"},
		{large, "stranger", http.StatusForbidden, "bob may not get podexplanations.visibility.hilbert.dev in the namespace default"},
		{visibleRoot + "/snapshots/current", "", http.StatusUnauthorized, ""},
		{visibleRoot + "/queuereports", "stranger", http.StatusForbidden, ""},
		{"/configz", "viewer", http.StatusForbidden, ""},
		{"/livez", "", http.StatusOK, ""},
		{"/readyz", "", http.StatusOK, ""},
		{"/metrics", "", http.StatusOK, ""},
		{visibleRoot + "/other", "viewer", http.StatusNotFound, ""},
	} {
		if code, body := p.Fetch(t, c.path, c.token); code != c.code || !strings.Contains(body, c.want) {
			t.Errorf("%s as %q: %d %s", c.path, c.token, code, body)
		}
	}
	live := rendered(t, p, large)
	_, body := p.Fetch(t, visibleRoot+"/snapshots/current", "viewer")
	dump, err := inspect.ReadDump(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := dump.Explain("default", "large")
	if err != nil {
		t.Fatal(err)
	}
	var later strings.Builder
	if err := render.Pod(&later, answer); err != nil || later.String() != live {
		t.Errorf("live:\n%s\nfrom the snapshot (%v):\n%s", live, err, later.String())
	}
	s.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "reviews") {
			http.Error(w, "down", http.StatusInternalServerError)
			return true
		}
		return false
	})
	if code, _ := p.Fetch(t, large, "new"); code != http.StatusServiceUnavailable {
		t.Errorf("without reviews: %d", code)
	}
	p.Stop(t)
}

func rendered(t *testing.T, p *endpointstest.Process, path string) string {
	t.Helper()
	_, body := p.Fetch(t, path, "viewer")
	var a inspect.Answer
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	var b strings.Builder
	if err := render.Pod(&b, &a); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Who is not on this host needs a right for the metrics; agents on all nodes would else be asked by anyone what runs there.
func TestMetricsNeedARight(t *testing.T) {
	s := standin.New(t)
	s.User("prometheus", "monitoring", "/metrics")
	s.User("stranger", "bob")
	r, err := visibility.NewReviewer(s.Connection())
	if err != nil {
		t.Fatal(err)
	}
	served := newInspector(newWorld(t).loop, r).guardedElsewhere(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	for _, c := range []struct {
		from, token string
		want        int
	}{
		{"127.0.0.1:1", "", http.StatusOK},
		{"[::1]:1", "", http.StatusOK},
		{"[::ffff:127.0.0.1]:1", "", http.StatusOK},
		{"10.0.0.1:1", "prometheus", http.StatusOK},
		{"10.0.0.1:1", "", http.StatusUnauthorized},
		{"10.0.0.1:1", "wrong", http.StatusUnauthorized},
		{"10.0.0.1:1", "stranger", http.StatusForbidden},
		{"127.0.0.1.evil.example:1", "", http.StatusUnauthorized},
		{"", "", http.StatusUnauthorized},
	} {
		q := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		q.RemoteAddr = c.from
		if c.token != "" {
			q.Header.Set("Authorization", "Bearer "+c.token)
		}
		w := httptest.NewRecorder()
		if served(w, q); w.Code != c.want {
			t.Errorf("from %q as %q: %d, want %d", c.from, c.token, w.Code, c.want)
		}
	}
}

// TestEveryPathIsGuarded: of all that hilbertd serves, a stranger gets discovery and whether it lives, and a user of the cluster without rights gets no more.
func TestEveryPathIsGuarded(t *testing.T) {
	s := standin.New(t)
	s.User("prometheus", "monitoring", "/metrics")
	s.User("stranger", "bob")
	r, err := visibility.NewReviewer(s.Connection())
	if err != nil {
		t.Fatal(err)
	}
	served := paths(newInspector(newWorld(t).loop, r), &visibility.Server{Rights: r, Log: slog.New(slog.DiscardHandler)})
	get := func(path, token string) int {
		q := httptest.NewRequest(http.MethodGet, path, nil)
		q.RemoteAddr = "10.0.0.1:1"
		if token != "" {
			q.Header.Set("Authorization", "Bearer "+token)
		}
		w := httptest.NewRecorder()
		served.ServeHTTP(w, q)
		return w.Code
	}
	explanation := visibleRoot + "/namespaces/default/podexplanations/p"
	for _, c := range []struct {
		path, token string
		want        int
	}{
		{"/metrics", "", http.StatusUnauthorized},
		{"/metrics", "stranger", http.StatusForbidden},
		{"/metrics", "prometheus", http.StatusOK},
		{"/configz", "", http.StatusUnauthorized},
		{"/configz", "prometheus", http.StatusForbidden},
		{visibleRoot, "", http.StatusOK},
		{visibleRoot + "/snapshots/current", "", http.StatusUnauthorized},
		{explanation, "", http.StatusUnauthorized},
		{explanation, "stranger", http.StatusUnauthorized}, // a token from elsewhere is not looked at
		{"/debug/pprof/", "", http.StatusNotFound},
		{"/v1/explain", "", http.StatusNotFound},
	} {
		if got := get(c.path, c.token); got != c.want {
			t.Errorf("%s as %q: %d, want %d", c.path, c.token, got, c.want)
		}
	}
	// Profiles are for whom the path is granted, once they are switched on.
	s.User("developer", "alice", endpoints.ProfilesPath, endpoints.ProfilesPath+"heap")
	l := newWorld(t).loop
	l.config.Server.Profiling = true
	served = paths(newInspector(l, r), &visibility.Server{Rights: r, Log: slog.New(slog.DiscardHandler)})
	for _, path := range []string{endpoints.ProfilesPath, endpoints.ProfilesPath + "heap", endpoints.ProfilesPath + "cmdline", endpoints.ProfilesPath + "profile", endpoints.ProfilesPath + "symbol", endpoints.ProfilesPath + "trace"} {
		granted := http.StatusForbidden
		if path == endpoints.ProfilesPath || path == endpoints.ProfilesPath+"heap" {
			granted = http.StatusOK
		}
		for token, want := range map[string]int{"": http.StatusUnauthorized, "prometheus": http.StatusForbidden, "developer": granted} {
			if got := get(path, token); got != want {
				t.Errorf("%s as %q: %d, want %d", path, token, got, want)
			}
		}
	}
}

// allowAll is a reviewer without doubts.
type allowAll struct{}

func (allowAll) MayGet(context.Context, string, string) error { return nil }

// Answers cost memory: who comes while others are asking is told to come back. A loop that does not come round is said to be so.
func TestInspectionsAreBounded(t *testing.T) {
	w := newWorld(t)
	i := newInspector(w.loop, allowAll{})
	ask := func(here bool) error {
		return i.Answer(t.Context(), io.Discard, &visibility.Question{Resource: visibility.QueueReports, Here: here})
	}
	for range maxInspections {
		i.slots <- struct{}{}
	}
	if err := ask(true); err == nil || !strings.Contains(err.Error(), "others are asking") || i.refused.Load() != 1 {
		t.Errorf("with others asking: %v", err)
	}
	<-i.slots
	go func() {
		for question := range w.asks {
			question()
		}
	}()
	if err := ask(true); err == nil || !strings.Contains(err.Error(), "not listed yet") {
		t.Errorf("before the lists: %v", err)
	}
	w.list()
	if err := ask(true); err != nil {
		t.Errorf("after the lists: %v", err)
	}
	if err := ask(false); !errors.Is(err, visibility.ErrFollowing) {
		t.Errorf("a question for the leader: %v", err)
	}
	if err := i.Answer(t.Context(), failing{}, &visibility.Question{Resource: visibility.Snapshots, Name: visibility.CurrentSnapshot, Here: true}); err == nil {
		t.Error("a snapshot that cannot be written")
	}
	close(w.asks)
}

// failing is a client that went away.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestLeaseSaysWhereTheLeaderServes(t *testing.T) {
	s := standin.New(t)
	p := start(t, s, quickConfig())
	_, port, _ := strings.Cut(p.Address, ":")
	endpointstest.Eventually(t, "it leads", func() bool {
		lease := s.Lease("kube-system", "hilbert")
		return lease != nil && lease.Spec.HolderIdentity != nil && strings.Contains(*lease.Spec.HolderIdentity, ":"+port+"_")
	})
	p.Stop(t)
}

func TestCertificateFiles(t *testing.T) {
	dir := t.TempDir()
	f := endpoints.CertificateOf(spec.Server{BindAddress: "127.0.0.1:0", TLSCertFile: filepath.Join(dir, "cert.pem"), TLSPrivateKeyFile: filepath.Join(dir, "key.pem")})
	now := time.Now()
	f.Now = func() time.Time { return now }
	if _, err := f.Get(nil); err == nil {
		t.Error("files that are not there")
	}
	serial := func() string {
		pair, err := f.Get(nil)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := x509.ParseCertificate(pair.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return parsed.SerialNumber.String()
	}
	now = now.Add(endpoints.CertificateCheck)
	writeCertificate(t, dir, now)
	first := serial()
	now = now.Add(endpoints.CertificateCheck)
	writeCertificate(t, dir, now)
	second := serial()
	if first == second {
		t.Error("a new certificate is not read")
	}
	now = now.Add(endpoints.CertificateCheck)
	if err := os.WriteFile(filepath.Join(dir, "cert.pem"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if serial() != second {
		t.Error("half a file takes the old certificate away")
	}
}

// TestOneReaderOfTheCertificate: as soon as a new certificate is shown, who has it is known as a replica. With two readers of the files that would take some seconds, in
// which replicas refuse each other.
func TestOneReaderOfTheCertificate(t *testing.T) {
	dir := t.TempDir()
	f := endpoints.CertificateOf(spec.Server{BindAddress: "127.0.0.1:0", TLSCertFile: filepath.Join(dir, "cert.pem"), TLSPrivateKeyFile: filepath.Join(dir, "key.pem")})
	now := time.Now()
	f.Now = func() time.Time { return now }
	writeCertificate(t, dir, now)
	secure, err := endpoints.ServerTLS(f, "10.1.2.3:1")
	if err != nil {
		t.Fatal(err)
	}
	visible, err := newVisibility(t.Context(), standin.New(t).Connection(), f, func() string { return "" }, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		shown, err := secure.GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := x509.ParseCertificate(shown.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		if !visible.Peers.IsPeer(&http.Request{TLS: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{parsed}}}) {
			t.Error("who has the certificate that is shown is not known as a replica")
		}
		now = now.Add(endpoints.CertificateCheck)
		writeCertificate(t, dir, now)
	}
}

func writeCertificate(t *testing.T, dir string, at time.Time) {
	t.Helper()
	made, err := endpoints.ServerTLS(nil, "10.1.2.3:1")
	if err != nil {
		t.Fatal(err)
	}
	pair := made.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{
		filepath.Join(dir, "cert.pem"): {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, filepath.Join(dir, "key.pem"): {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
}

// The certificate that is made at the start is good for the address that is served on.
func TestSelfSigned(t *testing.T) {
	secure, err := endpoints.ServerTLS(nil, "10.1.2.3:10461")
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(secure.Certificates[0].Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"localhost", "127.0.0.1", "10.1.2.3"} {
		if err := certificate.VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
}
