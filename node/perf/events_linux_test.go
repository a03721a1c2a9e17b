package perf

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// testCgroup is a cgroup that is there for a test.
func testCgroup(t *testing.T) (root, name string) {
	t.Helper()
	root, name = "/sys/fs/cgroup", "hilbert-perf-test"
	if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil {
		t.Skipf("no cgroup can be made here: %v", err)
	}
	t.Cleanup(func() {
		_ = os.WriteFile(filepath.Join(root, "cgroup.procs"), []byte("0"), 0o600)
		_ = os.Remove(filepath.Join(root, name))
	})
	return root, name
}

// The kernel counts a cgroup, with all that is below it, by groups of events on every CPU. Its clocks stand in for the processor's events, for they are everywhere.
func TestEvents(t *testing.T) {
	root, name := testCgroup(t)
	p := NewEvents(root, "/sys/devices/system/cpu/online")
	p.events = [2]event{{unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_TASK_CLOCK}, {unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_CPU_CLOCK}}
	r := NewReader(p, Params{MaxFiles: 4096, Turn: time.Minute, Retry: time.Minute})
	defer r.Close()
	r.Read(0, []string{name})
	if why := r.Status().Why; errors.Is(why, ErrRefused) || errors.Is(why, ErrAbsent) {
		t.Skip(why)
	}
	r.Read(time.Second, []string{name})
	if got, ok := r.CyclesPerInstruction(name); ok {
		t.Errorf("a cgroup in which nothing runs: %v", got)
	}
	below := filepath.Join(root, name, "below")
	if err := os.Mkdir(below, 0o755); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Remove(below) }()
	if err := os.WriteFile(filepath.Join(below, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		t.Skip(err)
	}
	defer func() {
		_ = os.WriteFile(filepath.Join(root, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0o600)
	}()
	for end := time.Now().Add(50 * time.Millisecond); time.Now().Before(end); {
		continue
	}
	r.Read(2*time.Second, []string{name})
	if got, ok := r.CyclesPerInstruction(name); !ok || got < 0.5 || got > 2 {
		t.Errorf("two clocks of the same time: %v, %v; %+v", got, ok, r.Status())
	}
}

// Without counters of the processor, or the right to use them, the kernel's refusal becomes a reason, and no value.
func TestEventsHere(t *testing.T) {
	root, name := testCgroup(t)
	r := NewReader(NewEvents(root, "/sys/devices/system/cpu/online"), DefaultParams())
	defer r.Close()
	for i := range 3 {
		r.Read(time.Duration(i)*time.Second, []string{name})
	}
	if got, ok := r.CyclesPerInstruction(name); ok {
		t.Errorf("a cgroup in which nothing runs: %v", got)
	}
	t.Logf("%+v", r.Status())
}

// A cgroup that goes while its counters are opened is gone, and another one of its name is not it. It is not taken for a machine without counters, which would end counting for all.
func TestEventsGone(t *testing.T) {
	t.Parallel()
	p := NewEvents(t.TempDir(), "/sys/devices/system/cpu/online")
	path := filepath.Join(p.root, "pod")
	step := func(f func(string, os.FileMode) error, want bool, dir int) {
		t.Helper()
		if err := f(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if got := p.gone(dir, "pod"); dir >= 0 && got != want {
			t.Errorf("gone: %t", got)
		}
	}
	step(os.Mkdir, false, -1)
	dir, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(dir) }()
	step(os.Chmod, false, dir)
	step(func(path string, _ os.FileMode) error { return os.Remove(path) }, true, dir)
	step(os.Mkdir, true, dir)
}
