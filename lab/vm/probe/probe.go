// Package probe runs tests of the product's own packages in a guest: tests that need root and a kernel that they may change.
//
// Such a test lies beside the code that it tests, and is skipped unless HILBERT_IN_GUEST is set. Run builds the package's test binary from the
// product's module, boots a guest for it alone, runs the tests there, and prints their output. As in package vmtest, HILBERT_VM and -short decide
// whether a guest is booted at all.
//
// The guest has no Kubernetes, so it boots in a third of the time that a node needs.
package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/lab/vm"
	"hilbert.dev/hilbert/lab/vm/parts"
)

const (
	// bootTimeout bounds the boot, runTimeout the tests in the guest.
	bootTimeout, runTimeout = 5 * time.Minute, 4 * time.Minute
	// stackTime is how long before that a test that hangs has to say where.
	stackTime = 30 * time.Second
	// guests is how many are tried: emulation may lose the timer of a processor, and what waits for that waits for ever.
	guests = 2
	// binary is where the guest has the tests.
	binary = "/root/probe.test"
)

// Run runs the tests of a package of the product ("./node/egress") whose names match a pattern. root is the product's directory.
func Run(t *testing.T, root, packageDir, pattern string) {
	t.Helper()
	wanted := os.Getenv("HILBERT_VM")
	if wanted == "0" || wanted == "" && testing.Short() {
		t.Skip("no guest: HILBERT_VM=1 boots one")
	}
	tests := filepath.Join(t.TempDir(), "probe.test")
	build := exec.CommandContext(t.Context(), "go", "-C", root, "test", "-vet=off", "-c", "-ldflags", "-s -w", "-o", tests, packageDir)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the tests of %s: %v\n%s", packageDir, err, out)
	}
	for n := range guests {
		guest := boot(t, wanted != "")
		got, err := run(t.Context(), guest, tests, pattern)
		if err != nil {
			t.Logf("%v; the guest's console ends:\n%s", err, guest.ConsoleEnd())
			if n+1 < guests && guest.Close() == nil {
				continue
			}
			t.Fatal("no guest reported how the tests ended")
		}
		t.Logf("in the guest:\n%s%s", got.Stdout, got.Stderr)
		switch {
		case got.Status != 0:
			t.Fatalf("the tests in the guest ended with status %d", got.Status)
		case !strings.Contains(got.Stdout, "--- PASS") || strings.Contains(got.Stdout, "--- SKIP"):
			t.Fatal("a test did not run in the guest")
		}
		return
	}
}

// run runs the tests in a guest. An error says that the guest did not report how they ended.
func run(ctx context.Context, guest *vm.Guest, tests, pattern string) (vm.Result, error) {
	file, err := os.Open(tests)
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
	guest, err := vm.Boot(ctx, vm.Options{Parts: made, Log: t.Logf})
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
