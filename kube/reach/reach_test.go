package reach

import (
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
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"hilbert.dev/hilbert/kube/standin"
)

func TestReviewer(t *testing.T) {
	s := standin.New(t)
	s.User("t1", "ada", "/v1/explain")
	asked := 0
	s.Intercept(func(http.ResponseWriter, *http.Request) bool { asked++; return false })
	r, err := NewReviewer(s.Connection())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	r.now = func() time.Time { return now }
	may := func(token, path string) error { return r.MayGet(t.Context(), token, path) }
	if err := may("t1", "/v1/explain"); err != nil {
		t.Error(err)
	}
	if err := may("t1", "/v1/snapshot"); !errors.Is(err, ErrForbidden) || !strings.Contains(err.Error(), "ada") {
		t.Errorf("another path: %v", err)
	}
	for _, token := range []string{"", "t2", strings.Repeat("x", maxToken+1)} {
		if err := may(token, "/v1/explain"); !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("token %.10q: %v", token, err)
		}
	}
	before := asked
	for range 3 {
		_ = may("t1", "/v1/explain")
		_ = may("t2", "/v1/explain")
	}
	if asked != before {
		t.Error("an answer was not remembered")
	}
	s.User("t1", "ada")
	now = now.Add(reviewFor)
	if err := may("t1", "/v1/explain"); !errors.Is(err, ErrForbidden) {
		t.Errorf("a right that was taken away: %v", err)
	}
	for i := range 3 * maxReviews {
		r.remember(reviewed{token: token{byte(i), byte(i >> 8)}, path: strings.Repeat("x", i)}, nil)
	}
	if len(r.known) > maxReviews || len(r.accepted) > maxReviews {
		t.Errorf("%d answers and %d tokens are remembered", len(r.known), len(r.accepted))
	}
	s.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "down", http.StatusForbidden)
		return true
	})
	if err := may("t3", "/v1/explain"); err == nil || errors.Is(err, ErrForbidden) || errors.Is(err, ErrUnauthenticated) {
		t.Errorf("an API server that does not answer: %v", err)
	}
}

// kubeconfigOf writes a kubeconfig for the stand-in.
func kubeconfigOf(t *testing.T, s *standin.Server, token string) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: s.Connection().Host, InsecureSkipTLSVerify: true}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func hold(s *standin.Server, namespace, identity string) {
	s.SetLease(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "hilbert"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &identity}})
}

// daemonStandin is something that serves TLS and tells what it was asked, and with which token.
func daemonStandin(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/missing" {
			http.Error(w, "no such pod", http.StatusNotFound)
			return
		}
		_, _ = io.WriteString(w, r.URL.String()+" "+r.Header.Get("Authorization")+"/"+r.Header.Get(HeaderAuthorization))
	}))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func ask(ctx context.Context, target Target, path string) (string, error) {
	i, err := Reach(ctx, target)
	if err != nil {
		return "", err
	}
	body, err := i.Get(ctx, path, map[string][]string{"a": {"b"}})
	if err != nil {
		return "", err
	}
	defer func() { _ = body.Close() }()
	text, err := io.ReadAll(body)
	return string(text), err
}

func TestReachThroughTheAPIServer(t *testing.T) {
	s, d := standin.New(t), daemonStandin(t)
	s.User("secret", "ada")
	s.Serve("kube-system/hilbertd-1:10461", strings.TrimPrefix(d.URL, "https://"))
	hold(s, "kube-system", "kube-system/hilbertd-1:10461_id")
	target := Target{Kubeconfig: kubeconfigOf(t, s, "secret")}
	got, err := ask(t.Context(), target, "/v1/queue")
	if err != nil || got != "/v1/queue?a=b /Bearer secret" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := ask(t.Context(), target, "/missing"); err == nil || err.Error() != "no such pod" {
		t.Errorf("what is missing: %v", err)
	}
	hold(s, "hilbert-system", "hilbert-system/hilbertd-9:10461_id")
	if _, err := ask(t.Context(), target, "/v1/queue"); err == nil || !strings.Contains(err.Error(), "hilbertd-9") {
		t.Errorf("the other Lease comes first: %v", err)
	}
	for identity, want := range map[string]string{
		"":                      "no process holds",
		"machine:7_id":          "--server https://machine:7",
		"kube-system/quiet_id":  "serves nothing",
		"some-other-controller": "not one of hilbertd's",
		"victim/evil:10461_id":  "another namespace, victim/evil",
		"kube-system/..:1_id":   "neither a pod nor a machine",
	} {
		hold(s, "kube-system", identity)
		target.Lease = "kube-system/hilbert"
		if _, err := ask(t.Context(), target, "/"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("holder %q: %v", identity, err)
		}
	}
	target.Lease = "x/y"
	if _, err := ask(t.Context(), target, "/"); err == nil || !strings.Contains(err.Error(), "there is no Lease x/y") {
		t.Errorf("no Lease: %v", err)
	}
}

func TestReachDirectly(t *testing.T) {
	s, d := standin.New(t), daemonStandin(t)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: d.Certificate().Raw})
	if err := os.WriteFile(ca, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("other\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	kubeconfig := kubeconfigOf(t, s, "secret")
	for name, c := range map[string]struct {
		target Target
		want   string
	}{
		"authority":  {Target{Kubeconfig: kubeconfig, Server: d.URL, CertificateAuthority: ca}, "/p?a=b Bearer secret/"},
		"insecure":   {Target{Kubeconfig: kubeconfig, Server: d.URL, Insecure: true}, "/p?a=b Bearer secret/"},
		"token file": {Target{Kubeconfig: kubeconfig, Server: d.URL, Insecure: true, TokenFile: token}, "/p?a=b Bearer other/"},
	} {
		if got, err := ask(t.Context(), c.target, "/p"); err != nil || got != c.want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for name, c := range map[string]struct {
		target Target
		want   string
	}{
		"unknown authority": {Target{Kubeconfig: kubeconfig, Server: d.URL}, "--certificate-authority"},
		"plain":             {Target{Kubeconfig: kubeconfig, Server: "http://127.0.0.1:1"}, "want an https URL"},
		"no authority":      {Target{Kubeconfig: kubeconfig, Server: d.URL, CertificateAuthority: token}, "has no certificate"},
		"no kubeconfig":     {Target{Kubeconfig: "/no/such/file", Server: d.URL}, "/no/such/file"},
	} {
		if _, err := ask(t.Context(), c.target, "/p"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTriedTokens: who tries tokens out costs the API server a few questions a second, and keeps nobody out whose token was accepted before.
func TestTriedTokens(t *testing.T) {
	s := standin.New(t)
	s.User("t1", "ada", "/v1/explain")
	asked := 0
	s.Intercept(func(http.ResponseWriter, *http.Request) bool { asked++; return false })
	r, err := NewReviewer(s.Connection())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	r.now = func() time.Time { return now }
	if err := r.MayGet(t.Context(), "t1", "/v1/explain"); err != nil {
		t.Fatal(err)
	}
	asked = 0
	const seconds, each = 60, 50
	tooMany := 0
	for range seconds {
		now = now.Add(time.Second)
		for i := range each {
			err := r.MayGet(t.Context(), fmt.Sprintf("false-%d-%d", now.Unix(), i), "/v1/explain")
			switch {
			case errors.Is(err, ErrTooMany):
				tooMany++
			case !errors.Is(err, ErrUnauthenticated):
				t.Fatal(err)
			}
		}
		if err := r.MayGet(t.Context(), "t1", "/v1/explain"); err != nil {
			t.Fatalf("who was known is kept out: %v", err)
		}
	}
	const known = 2 * (seconds/int(reviewFor/time.Second) + 1) // two questions for each review
	if most := strangersBurst + seconds*strangersPerSecond + known; asked > most || tooMany == 0 {
		t.Errorf("%d false tokens made %d questions, want at most %d; %d were told to come back", seconds*each, asked, most, tooMany)
	}
}
