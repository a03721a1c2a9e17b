package reach

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"hilbert.dev/hilbert/api/node/v1alpha1"
)

// gate is an API server that only knows who asks.
type gate struct {
	*httptest.Server
	asked []string // by certificate, token and impersonation
}

func newGate(t *testing.T) *gate {
	t.Helper()
	g := &gate{}
	g.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var who []string
		for _, c := range r.TLS.PeerCertificates {
			who = append(who, "certificate of "+c.Subject.CommonName)
		}
		for _, name := range []string{"Authorization", "Impersonate-User", "Impersonate-Group"} {
			who = append(who, r.Header.Values(name)...)
		}
		g.asked = append(g.asked, strings.Join(who, ", "))
		_, _ = io.WriteString(w, `{"items":[]}`)
	}))
	g.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	g.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	g.StartTLS()
	t.Cleanup(g.Close)
	return g
}

// identity makes a client certificate and its key, as PEM.
func identity(t *testing.T, name string) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}

// plugin is a program that prints a credential.
func plugin(t *testing.T, dir, name string, status map[string]string) *clientcmdapi.ExecConfig {
	t.Helper()
	credential, err := json.Marshal(map[string]any{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\ncat <<'END'\n"+string(credential)+"\nEND\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return &clientcmdapi.ExecConfig{APIVersion: "client.authentication.k8s.io/v1", Command: path, InteractiveMode: clientcmdapi.NeverExecInteractiveMode}
}

// Every kind of kubeconfig reaches the API server as whom it says, for questions and for objects alike.
func TestKindsOfKubeconfig(t *testing.T) {
	g, dir := newGate(t), t.TempDir()
	ada, adaKey := identity(t, "ada")
	bob, bobKey := identity(t, "bob")
	write := func(name string, text []byte) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("ada.pem", ada)
	write("ada.key", adaKey)
	other := write("token", []byte("from-a-file\n"))
	config := clientcmdapi.NewConfig()
	config.Clusters["here"] = &clientcmdapi.Cluster{Server: g.URL, CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: g.Certificate().Raw})}
	config.Clusters["nowhere"] = &clientcmdapi.Cluster{Server: "https://127.0.0.1:1"}
	config.AuthInfos = map[string]*clientcmdapi.AuthInfo{
		"token":       {Token: "secret"},
		"files":       {ClientCertificate: "ada.pem", ClientKey: "ada.key"}, // beside the kubeconfig
		"data":        {ClientCertificateData: bob, ClientKeyData: bobKey},
		"plugin":      {Exec: plugin(t, dir, "token-plugin", map[string]string{"token": "by-plugin"})},
		"certificate": {Exec: plugin(t, dir, "certificate-plugin", map[string]string{"clientCertificateData": string(bob), "clientKeyData": string(bobKey)})},
		"deputy":      {Token: "secret", Impersonate: "eve"},
	}
	for name := range config.AuthInfos {
		config.Contexts[name] = &clientcmdapi.Context{Cluster: "here", AuthInfo: name, Namespace: "of-" + name}
	}
	config.Contexts["away"] = &clientcmdapi.Context{Cluster: "nowhere", AuthInfo: "token"}
	config.CurrentContext = "token"
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		target          Target
		want, namespace string
	}{
		{Target{}, "Bearer secret", "of-token"},
		{Target{Context: "files"}, "certificate of ada", "of-files"},
		{Target{Context: "data"}, "certificate of bob", "of-data"},
		{Target{Context: "plugin"}, "Bearer by-plugin", "of-plugin"},
		{Target{Context: "certificate"}, "certificate of bob", "of-certificate"},
		{Target{Context: "deputy"}, "Bearer secret, eve", "of-deputy"},
		{Target{Context: "files", As: "eve", AsGroups: []string{"a", "b"}}, "certificate of ada, eve, a, b", "of-files"},
		{Target{Context: "away", Cluster: "here", User: "data"}, "certificate of bob", "default"},
		{Target{Context: "data", TokenFile: other}, "Bearer from-a-file", "of-data"},
		{Target{TokenFile: other, As: "eve"}, "Bearer from-a-file, eve", "of-token"},
		{Target{Namespace: "mine"}, "Bearer secret", "mine"},
	} {
		g.asked = nil
		c.target.Kubeconfig = kubeconfig
		if _, err := ask(t.Context(), c.target, tree()); err != nil {
			t.Errorf("%+v: %v", c.target, err)
		}
		if err := EachNodeReport(t.Context(), c.target, nil, func(*v1alpha1.CustomNodeResource) error { return nil }); err != nil {
			t.Errorf("%+v: %v", c.target, err)
		}
		if want := []string{c.want, c.want}; !slices.Equal(g.asked, want) {
			t.Errorf("%+v: asked by %q, want %q", c.target, g.asked, want)
		}
		if namespace, err := c.target.DefaultNamespace(); err != nil || namespace != c.namespace {
			t.Errorf("%+v: namespace %q, %v, want %s", c.target, namespace, err, c.namespace)
		}
	}
	entries, err := (&Target{Kubeconfig: kubeconfig}).Entries()
	if err != nil || len(entries.Contexts) != 7 || !slices.Equal(entries.Clusters, []string{"here", "nowhere"}) || len(entries.Users) != 6 {
		t.Errorf("%+v, %v", entries, err)
	}
	if _, err := (&Target{Kubeconfig: kubeconfig, Context: "none"}).DefaultNamespace(); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("a context that is not there: %v", err)
	}
}
