package reach

import (
	"context"
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"hilbert.dev/hilbert/kube/standin"
	"hilbert.dev/hilbert/kube/visibility"
)

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

// recorder is something that serves TLS and tells what it was asked, and with which token.
func recorder(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.URL.String()+" "+r.Header.Get("Authorization"))
	}))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func ask(ctx context.Context, target Target, q *visibility.Question) (string, error) {
	i, err := Reach(target)
	if err != nil {
		return "", err
	}
	body, err := i.Ask(ctx, q)
	if err != nil {
		return "", err
	}
	defer func() { _ = body.Close() }()
	text, err := io.ReadAll(body)
	return string(text), err
}

// tree asks for all queues, and treePath is its URL.
func tree() *visibility.Question {
	return &visibility.Question{Resource: visibility.QueueReports, Limit: 7}
}

const treePath = "/apis/visibility.hilbert.dev/v1alpha1/queuereports?limit=7"

func TestReachTheAPIServer(t *testing.T) {
	s, d := standin.New(t), recorder(t)
	target := Target{Kubeconfig: kubeconfigOf(t, s, "secret")}
	if _, err := ask(t.Context(), target, tree()); err == nil || !strings.Contains(err.Error(), "hilbert certificate") {
		t.Errorf("no APIService: %v", err)
	}
	s.Aggregate(strings.TrimPrefix(d.URL, "https://"))
	if got, err := ask(t.Context(), target, tree()); err != nil || got != treePath+" Bearer secret" {
		t.Errorf("%q, %v", got, err)
	}
	tries := 0
	for _, c := range []struct {
		code, works int // from which try on it works; 0: never
		after       string
		want        string
		tries       int
	}{
		{http.StatusForbidden, 0, "", "the API server answers 403: because", 1},
		{http.StatusNotFound, 0, "", "because", 1},
		{http.StatusServiceUnavailable, 0, "", "answers 503: because", 1},
		{http.StatusServiceUnavailable, 2, "1", "", 2},
		{http.StatusTooManyRequests, 2, "1", "", 2},
	} {
		tries = 0
		s.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
			if tries++; c.works > 0 && tries >= c.works {
				return false
			}
			if c.after != "" {
				w.Header().Set("Retry-After", c.after)
			}
			w.WriteHeader(c.code)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","message":"because"}`)
			return true
		})
		_, err := ask(t.Context(), target, tree())
		if tries != c.tries || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d, after %q: %v after %d tries", c.code, c.after, err, tries)
		}
	}
	s.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, d.URL, http.StatusFound)
		return true
	})
	if got, err := ask(t.Context(), target, tree()); err == nil {
		t.Errorf("a redirect is followed: %s", got)
	}
}

func TestReachDirectly(t *testing.T) {
	s, d := standin.New(t), recorder(t)
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
		"authority":  {Target{Kubeconfig: kubeconfig, Server: d.URL, CertificateAuthority: ca}, treePath + " Bearer secret"},
		"insecure":   {Target{Kubeconfig: kubeconfig, Server: d.URL, Insecure: true}, treePath + " Bearer secret"},
		"token file": {Target{Kubeconfig: kubeconfig, Server: d.URL, Insecure: true, TokenFile: token}, treePath + " Bearer other"},
	} {
		if got, err := ask(t.Context(), c.target, tree()); err != nil || got != c.want {
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
		if _, err := ask(t.Context(), c.target, tree()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTokensStayHere: --server takes addresses of this host only, however they are written.
func TestTokensStayHere(t *testing.T) {
	for server, here := range map[string]bool{
		"https://127.0.0.1:10461": true, "https://localhost": true, "https://[::1]:1": true, "https://127.9.9.9:1": true, "https://[::ffff:127.0.0.1]:1": true,
		"https://10.0.0.7:10461": false, "https://hilbertd:10461": false, "https://127.0.0.1.evil.example": false, "https://localhost.evil.example": false,
		"https://127.0.0.1@evil.example": false, "https://evil.example#127.0.0.1": false, "https://0.0.0.0:1": false, "https://[::]:1": false, "https://": false,
		"https://[fe80::1%25lo]:1": false,
	} {
		if err := (&Target{Server: server}).checkServer(); (err == nil) != here {
			t.Errorf("%s: %v", server, err)
		}
	}
}
