package gpu_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"hilbert.dev/hilbert/node/gpu"
)

// TestKernelLog reads a pipe that stays open, as the log does, and must not wait for more.
func TestKernelLog(t *testing.T) {
	name := filepath.Join(t.TempDir(), "kmsg")
	if err := unix.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	if _, err := log.WriteString("4,101,2500000,-;NVRM: Xid (PCI:0000:3B:00): 79, pid=1\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := gpu.KernelLog(name); err != nil || len(got) != 1 || got[0].Code != 79 || got[0].Address != "0000:3b:00.0" {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := gpu.KernelLog(name); err != nil || len(got) != 0 {
		t.Errorf("nothing more: %v, %v", got, err)
	}
	if _, err := gpu.KernelLog(name + "x"); err == nil {
		t.Error("no log is no fault")
	}
}
