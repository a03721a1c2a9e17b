// Package vmtest gives the tests of a package one guest, or one node, that all of them share.
//
// Call Run from TestMain, and Node in each test that needs one: the first boots it. Where the guest's parts were never made and HILBERT_VM
// is not set, the test is skipped and says so; HILBERT_VM=1 makes them (minutes, once), HILBERT_VM=0 skips all such tests. With -short and
// without HILBERT_VM they are skipped too, so that the quick suites stay quick.
//
// A test cleans up what it left in the shared node: pods, files, services. It need not when it fails.
package vmtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"hilbert.dev/hilbert/lab/vm/join"
	"hilbert.dev/hilbert/lab/vm/parts"
)

// startTimeout bounds the boot and the join.
const startTimeout = 12 * time.Minute

// shared is the node of this process.
var shared struct { //nolint:gochecknoglobals // one per test process is what this package is for
	once    sync.Once
	options join.Options
	node    *join.Node
	skip    string
	err     error
}

// Runner is *testing.M, or what ends something of the tests' own before the node ends.
type Runner interface{ Run() int }

// Run runs the tests, with o for the node that they share, ends the node, and returns the status for os.Exit.
func Run(m Runner, o join.Options) int {
	shared.options = o
	status := m.Run()
	if shared.node != nil {
		if err := shared.node.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "vmtest:", err)
			return max(status, 1)
		}
	}
	return status
}

// Node is the shared node, booted and joined by the first call. It skips the test where there can be none.
func Node(t testing.TB) *join.Node {
	t.Helper()
	shared.once.Do(start)
	switch {
	case shared.skip != "":
		t.Skip(shared.skip)
	case shared.err != nil:
		t.Fatal(shared.err)
	}
	select {
	case <-shared.node.Guest.Ended():
		t.Fatal("the guest has ended; a test before this one killed it")
	default:
	}
	return shared.node
}

func start() {
	wanted := os.Getenv("HILBERT_VM")
	switch {
	case wanted == "0":
		shared.skip = "HILBERT_VM=0: no test boots a guest"
		return
	case wanted == "" && testing.Short():
		shared.skip = "a guest takes a minute to boot: not with -short, unless HILBERT_VM=1"
		return
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), startTimeout, fmt.Errorf("no node after %s", startTimeout))
	defer cancel()
	o := shared.options
	if o.Guest.Log == nil {
		o.Guest.Log = func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
	}
	if o.Guest.Parts == nil {
		got, err := parts.Open(context.Background(), parts.Options{Systemd: o.Guest.Systemd, Build: wanted != "", Progress: os.Stderr})
		if errors.Is(err, parts.ErrMissing) {
			shared.skip = err.Error()
			return
		}
		if err != nil {
			shared.err = err
			return
		}
		o.Guest.Parts = got
	}
	shared.node, shared.err = join.Up(ctx, o)
}
