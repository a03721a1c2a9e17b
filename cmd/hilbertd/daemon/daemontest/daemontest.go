// Package daemontest starts a hilbertd in the test's own process, on a stand-in API server, and says how people reach it. It gives the tests of commands
// and of the documentation one and the same cluster:
//
//	api := standin.New(t)
//	api.SetNode(node)
//	p := daemontest.Start(t, api)
//	run("queue", p.Flags()...)
//
// hilbertd ends with the test, and an error that it ends with fails the test. The package is not for tests of hilbertd itself: these also stop and restart it.
package daemontest

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/daemon"
	"hilbert.dev/hilbert/kube/standin"
)

// Process is a hilbertd that runs.
type Process struct {
	Address    string // where it serves: host:port
	Kubeconfig string // the file with the credentials of a user who may get all that it serves
}

// Token is what the kubeconfig holds: the credential of the user ada.
const Token = "secret"

// Everything is what the user may: read all answers about scheduling.
var Everything = []string{
	"get podexplanations.visibility.hilbert.dev", "get podgroupexplanations.visibility.hilbert.dev", "get reservationexplanations.visibility.hilbert.dev", "get nodeexplanations.visibility.hilbert.dev",
	"get queuereports.visibility.hilbert.dev", "list queuereports.visibility.hilbert.dev", "get snapshots.visibility.hilbert.dev",
}

// Start starts a hilbertd for the API server, and ends it with the test.
func Start(t testing.TB, api *standin.Server) *Process {
	t.Helper()
	api.User(Token, "ada", Everything...)
	config := spec.Default()
	config.Server.BindAddress = "127.0.0.1:0"
	config.Scheduling.NodeReports.Policies = spec.PoliciesIgnore // the stand-in admits everything
	listening, ended := make(chan string, 1), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		ended <- daemon.Run(ctx, config, daemon.Options{
			Connection: api.Connection(), Log: slog.New(slog.DiscardHandler), OnListen: func(address string) { listening <- address },
		})
	}()
	p := &Process{Kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	select {
	case p.Address = <-listening:
	case err := <-ended:
		cancel()
		t.Fatalf("hilbertd did not start: %v", err)
	}
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("hilbertd: %v", err)
		}
	})
	text := `{"apiVersion":"v1","kind":"Config","current-context":"x","clusters":[{"name":"c","cluster":{"server":"` + api.Connection().Host +
		`","insecure-skip-tls-verify":true}}],"users":[{"name":"u","user":{"token":"` + Token + `"}}],"contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}]}`
	if err := os.WriteFile(p.Kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

// Flags are those of commands that ask hilbertd itself.
func (p *Process) Flags() []string {
	return []string{"--server", "https://" + p.Address, "--insecure-skip-tls-verify", "--kubeconfig", p.Kubeconfig}
}
