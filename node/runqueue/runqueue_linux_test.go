package runqueue

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWhyNot: what is missing is said, and no field is looked for in a file that could not be read.
func TestWhyNot(t *testing.T) {
	unmounted, changed, broken := t.TempDir(), t.TempDir(), t.TempDir()
	for _, event := range []string{"sched_switch", "sched_wakeup"} {
		dir := filepath.Join(changed, "events/sched", event)
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "format"), []byte("name: "+event+"\n"), 0o600), //nolint:gosec // as the kernel has it
			os.MkdirAll(filepath.Join(broken, "events/sched", event, "format"), 0o755)); err != nil { //nolint:gosec // a directory in the place of a file
			t.Fatal(err)
		}
	}
	for dir, want := range map[string]string{
		unmounted: "tracefs is not mounted at " + unmounted, changed: "prev_pid, 4 bytes: the event has no such field", broken: "is a directory",
	} {
		err := New(Options{Tracing: dir}).Check()
		if _, ok := errors.AsType[*Unsupported](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}
