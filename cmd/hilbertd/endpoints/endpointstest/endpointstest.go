// Package endpointstest asks a hilbertd that runs in the test's own process, and waits for what it must come to.
//
// A test starts a role in a goroutine, puts where it listens and how it ends into a Process, and then asks it as any client would, over TLS. For example,
// p.Get(t, "/readyz") asks as nobody. Eventually polls: nothing is asserted about how long something takes, so that a slow machine fails no test.
//
// It starts nothing itself, and it is for tests alone.
package endpointstest

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"testing"
	"time"
)

// Patience is how long a test waits for something that must happen; nothing is asserted about how long it takes.
const Patience = time.Minute

// Eventually waits until something holds.
func Eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(Patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("never: %s", what)
}

// Process is a hilbertd in this process.
type Process struct {
	Address string
	Cancel  context.CancelFunc
	Ended   chan error
}

// Stop ends it and waits; an error that it ends with fails the test.
func (p *Process) Stop(t *testing.T) {
	t.Helper()
	p.Cancel()
	select {
	case err := <-p.Ended:
		if err != nil {
			t.Errorf("stop: %v", err)
		}
	case <-time.After(Patience):
		t.Fatal("it does not stop")
	}
}

// Get asks as nobody, Fetch with a token.
func (p *Process) Get(t *testing.T, path string) (code int, body string) {
	t.Helper()
	return p.Fetch(t, path, "")
}

// Fetch asks with a token.
func (p *Process) Fetch(t *testing.T, path, token string) (code int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+p.Address+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(data)
}
