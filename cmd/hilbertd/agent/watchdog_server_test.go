package agent

import (
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/enforce"
	"hilbert.dev/hilbert/node/nri"
	"hilbert.dev/hilbert/node/watchdog"
)

// cgroup is a kernel of one file.
type cgroup struct{ value string }

func (c *cgroup) Read(string) (string, error) { return c.value, nil }
func (c *cgroup) Write(_, value string) error {
	c.value = value
	return nil
}

var _ enforce.Kernel = (*cgroup)(nil)

// A watchdog serves what it sees and does: how long the agent has been silent, that it took over, and what it gave back.
func TestWatchdogServes(t *testing.T) {
	dir := watchdog.Directory(t.TempDir())
	log := slog.New(slog.DiscardHandler)
	dog := watchdog.New(dir, &cgroup{"0"}, log)
	state := &watchdogState{dog: dog, guard: &nri.GuardStatus{}, began: time.Now()}
	config := spec.Default()
	config.Server.BindAddress = "127.0.0.1:0"
	served := serveWatchdog(state, config, log)
	if served == nil {
		t.Fatal("nothing is served")
	}
	defer served.Close()
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // its own
	get := func(path string) (int, string) {
		t.Helper()
		response, err := client.Get("https://" + served.Address + path) //nolint:noctx // a test
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(body)
	}
	has := func(when string, want ...string) {
		t.Helper()
		_, body := get("/metrics")
		for _, line := range want {
			if !strings.Contains(body, "\n"+line+"\n") {
				t.Errorf("%s: %q is not in the metrics", when, line)
			}
		}
	}
	dog.Look(0)
	if _, body := get("/metrics"); strings.Contains(body, "agent_silent_seconds") {
		t.Error("no agent has run, and its silence is measured")
	}
	has("before an agent", "hilbert_watchdog_in_charge 0", "hilbert_watchdog_plans_total 0", "hilbert_watchdog_looks_total 1", "hilbert_watchdog_runtime_connected 0")
	if code, body := get("/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "runtime") {
		t.Errorf("without a runtime: %d, %s", code, body)
	}

	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := dir.Take(watchdog.Turn{}, watchdog.Agent)
	must(err)
	must(dir.Beat(7))
	plan := watchdog.Plan{CPUs: []watchdog.CgroupCPUs{{Cgroup: "kubepods/burstable/pod1", CPUs: "0-7"}}}
	must(os.WriteFile(dir.PlanPath(), plan.Encode(), 0o600))
	dog.Look(time.Second)
	dog.Look(12 * time.Second)
	state.began = time.Now().Add(-12 * time.Second)
	_, body := get("/metrics")
	_, text, _ := strings.Cut(body, "\nhilbert_watchdog_agent_silent_seconds ")
	var silent float64
	if _, err := fmt.Sscan(text, &silent); err != nil || silent < 11 || silent > 71 { // it goes on while the metrics are asked for
		t.Errorf("after 11 s of silence: %g, %v\n%s", silent, err, body)
	}
	has("while the agent may come back", "hilbert_watchdog_in_charge 0", "hilbert_watchdog_loans_given_back_total 0")
	dog.Look(22 * time.Second)
	has("after 21 s of silence", "hilbert_watchdog_in_charge 1", "hilbert_watchdog_plans_total 1", "hilbert_watchdog_loans_given_back_total 1", "hilbert_watchdog_containers_refused_total 0")
	dog.Look(23 * time.Second)
	has("when all is given back", "hilbert_watchdog_plans_total 1", "hilbert_watchdog_loans_given_back_total 1")

	state.began = time.Now().Add(-30 * time.Second)
	if code, body := get("/livez"); code != http.StatusOK {
		t.Errorf("a watchdog that looked lately: %d, %s", code, body)
	}
	state.began = time.Now().Add(-60 * time.Second)
	if code, body := get("/livez"); code != http.StatusInternalServerError || !strings.Contains(body, "has not looked") {
		t.Errorf("a watchdog that hangs: %d, %s", code, body)
	}
}

// An address that is taken keeps a watchdog from nothing but being seen.
func TestWatchdogWorksUnseen(t *testing.T) {
	state := &watchdogState{dog: watchdog.New(watchdog.Directory(t.TempDir()), &cgroup{}, slog.New(slog.DiscardHandler)), guard: &nri.GuardStatus{}, began: time.Now()}
	config := spec.Default()
	config.Server.BindAddress = "127.0.0.1:0"
	first := serveWatchdog(state, config, slog.New(slog.DiscardHandler))
	if first == nil {
		t.Fatal("nothing is served")
	}
	defer first.Close()
	config.Server.BindAddress = first.Address
	if second := serveWatchdog(state, config, slog.New(slog.DiscardHandler)); second != nil {
		second.Close()
		t.Error("two serve at one address")
	}
	config.Server.BindAddress, config.Server.TLSCertFile = "127.0.0.1:0", filepath.Join(t.TempDir(), "none")
	if third := serveWatchdog(state, config, slog.New(slog.DiscardHandler)); third != nil {
		third.Close()
		t.Error("it serves without a certificate")
	}
}
