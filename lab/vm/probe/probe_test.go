package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/lab/vm"
	"hilbert.dev/hilbert/lab/vm/parts"
)

const (
	// bootTimeout bounds the boot, runTimeout the tests of one package in the guest.
	bootTimeout, runTimeout = 5 * time.Minute, 8 * time.Minute
	// stackTime is how long before that a test that hangs has to say where.
	stackTime = 30 * time.Second
	// binary is where the guest has the tests.
	binary = "/root/probe.test"
)

// tests are those of a package of the product ("./node/egress") whose names match a pattern.
type tests struct{ dir, pattern string }

// runIn runs tests in a guest, those of each package as a test of its own. root is the product's directory.
func runIn(t *testing.T, root string, packages ...tests) {
	t.Helper()
	wanted := os.Getenv("HILBERT_VM")
	if wanted == "0" || wanted == "" && testing.Short() {
		t.Skip("no guest: HILBERT_VM=1 boots one")
	}
	dir := t.TempDir()
	for _, p := range packages {
		build := exec.CommandContext(t.Context(), "go", "-C", root, "test", "-vet=off", "-c", "-ldflags", "-s -w", "-o", p.in(dir), p.dir)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build the tests of %s: %v\n%s", p.dir, err, out)
		}
	}
	guest := boot(t, wanted != "")
	for _, p := range packages {
		t.Run(path.Base(p.dir), func(t *testing.T) {
			got, err := run(t.Context(), guest, p.in(dir), p.pattern)
			if err != nil {
				t.Fatalf("%v; the guest's console ends:\n%s", err, guest.ConsoleEnd())
			}
			t.Logf("in the guest:\n%s%s", got.Stdout, got.Stderr)
			switch {
			case got.Status != 0:
				t.Fatalf("the tests in the guest ended with status %d", got.Status)
			case !strings.Contains(got.Stdout, "--- PASS") || strings.Contains(got.Stdout, "--- SKIP"):
				t.Fatal("a test did not run in the guest")
			}
		})
	}
}

// in is where the tests are built.
func (p tests) in(dir string) string { return filepath.Join(dir, path.Base(p.dir)+".test") }

// run is an error where the guest does not say how the tests ended.
func run(ctx context.Context, guest *vm.Guest, program, pattern string) (vm.Result, error) {
	file, err := os.Open(program)
	if err != nil {
		return vm.Result{}, err
	}
	defer file.Close()
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	if err := guest.WriteFile(ctx, binary, file, 0o755); err != nil {
		return vm.Result{}, err
	}
	const script = "HILBERT_IN_GUEST=1 exec %s -test.v -test.timeout %s -test.run '%s'"
	return guest.Exec(ctx, "/bin/sh", "-c", fmt.Sprintf(script, binary, runTimeout-stackTime, pattern))
}

func boot(t *testing.T, build bool) *vm.Guest {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bootTimeout)
	defer cancel()
	made, err := parts.Open(ctx, parts.Options{Build: build, Progress: os.Stderr})
	if errors.Is(err, parts.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	guest, err := vm.Boot(ctx, vm.Options{Parts: made, CPUs: 1, Nodes: 1, Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := guest.Close(); err != nil {
			t.Error(err)
		}
	})
	return guest
}

// TestInGuest runs the tests that are skipped elsewhere; in the short form those of one uplink, and the programs.
func TestInGuest(t *testing.T) {
	uplinks := "TestGuest"
	if testing.Short() {
		uplinks = "TestGuest(Ceiling|Queues|Taken)"
	}
	runIn(t, "../../..", tests{"./node/blkio", "TestGuest"}, tests{"./node/egress", uplinks + "|TestPace|TestMark|TestPolice|TestSeats"},
		tests{"./node/runqueue", "TestGuest"})
}
