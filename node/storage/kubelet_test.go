package storage

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// kubelet serves answers behind a certificate of its own, as kubelets do that are given none: it says the node's name, and no address. What is
// returned asks it.
func kubelet(t *testing.T, answer http.HandlerFunc) *Kubelet {
	t.Helper()
	server := httptest.NewUnstartedServer(answer)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	certificate, text := selfSigned(t)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	host, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	k := &Kubelet{Address: host, Token: filepath.Join(dir, "token"), Certificates: []string{filepath.Join(dir, "absent"), filepath.Join(dir, "kubelet.crt")}}
	if k.Port, err = strconv.Atoi(port); err != nil {
		t.Fatal(err)
	}
	write(t, k.Token, "secret\n")
	write(t, k.Certificates[1], text)
	return k
}

// selfSigned makes a certificate for node n1, and says it as a file does.
func selfSigned(t *testing.T) (c tls.Certificate, text string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "n1"}, DNSNames: []string{"n1"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	raw, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestRead(t *testing.T) {
	text, err := os.ReadFile("testdata/one-disk.json")
	if err != nil {
		t.Fatal(err)
	}
	k := kubelet(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/stats/summary" || r.Header.Get("Authorization") != "Bearer secret" {
			http.Error(w, r.URL.Path, http.StatusForbidden)
			return
		}
		_, _ = w.Write(text)
	})
	r, outcome, err := k.Read(t.Context())
	if err != nil || outcome != Read || len(r.pods) == 0 {
		t.Errorf("got %+v, %s, %v", r, outcome, err)
	}
}

func TestReadOutcomes(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   Outcome
	}{
		"forbidden":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, Refused},
		"sent on":     {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }, Refused},
		"no summary":  {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }, Malformed},
		"without end": {func(w http.ResponseWriter, _ *http.Request) { endless(w) }, Malformed},
		"hangs up":    {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, NoAnswer},
		"never comes": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, NoAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			k, ctx := kubelet(t, c.answer), t.Context()
			if name == "never comes" {
				short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
				defer cancel()
				ctx = short
			}
			r, outcome, err := k.Read(ctx)
			for c.want == Malformed && errors.Is(err, context.DeadlineExceeded) { // a busy machine has not sent enough in the time of a question
				r, outcome, err = k.Read(ctx)
			}
			if outcome != c.want || err == nil || r != nil {
				t.Errorf("got %+v, %s, %v; want %s", r, outcome, err, c.want)
			}
		})
	}
}

func endless(w io.Writer) {
	if _, err := io.WriteString(w, `{"pods":[`); err != nil {
		return
	}
	for line := strings.Repeat("{},", 1<<16); ; {
		if _, err := io.WriteString(w, line); err != nil {
			return
		}
	}
}

// The token goes to nobody but the kubelet whose certificate is known, whatever name another shows.
func TestReadTellsStrangersNothing(t *testing.T) {
	asked := false
	k := kubelet(t, func(http.ResponseWriter, *http.Request) { asked = true })
	_, another := selfSigned(t)
	for _, text := range []string{another, "no certificate"} {
		write(t, k.Certificates[1], text)
		if _, outcome, err := k.Read(t.Context()); outcome != NoAnswer || err == nil || asked {
			t.Errorf("got %s, %v; it was asked: %v", outcome, err, asked)
		}
	}
}

// The kubelet's certificate is renewed while the agent runs, and a file of an older one may lie beside it.
func TestReadTriesEachCertificate(t *testing.T) {
	k := kubelet(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	_, old := selfSigned(t)
	write(t, k.Certificates[0], old)
	if _, outcome, err := k.Read(t.Context()); outcome != Refused {
		t.Errorf("got %s, %v", outcome, err)
	}
}

// The kubelet says what it runs with: flags and drop-ins count beside its file.
func TestConfiguration(t *testing.T) {
	for body, want := range map[string]string{
		`{"kubeletconfig":{"evictionHard":{"memory.available":"1Gi"},"evictionSoft":null,"maxPods":110}}`: "1Gi",
		`{}`: "no kubeletconfig", `{"kubeletconfig":[]}`: "cannot unmarshal",
	} {
		k := kubelet(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/configz" {
				http.NotFound(w, r)
				return
			}
			_, _ = io.WriteString(w, body)
		})
		c, err := k.Configuration(t.Context())
		if err != nil && !strings.Contains(err.Error(), want) || err == nil && c.Hard["memory.available"] != want {
			t.Errorf("%s: %+v, %v", body, c, err)
		}
	}
	k := kubelet(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	if c, err := k.Configuration(t.Context()); err == nil || c != nil {
		t.Errorf("a kubelet that refuses says %+v", c)
	}
}
