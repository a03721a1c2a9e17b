package vm

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/lab/vm/parts"
)

// TestNoAnswer: a guest that never answers is killed and booted again, and given up at last with nothing left of it; one whose QEMU ends
// says why.
func TestNoAnswer(t *testing.T) {
	for name, test := range map[string]struct{ script, want string }{
		"hangs": {`echo $$ >>"$PIDS"; exec sleep 600`, "no answer after 300ms"},
		"ends":  {`echo $$ >>"$PIDS"; echo no such machine >&2; exit 1`, "QEMU ended: no such machine"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("TMPDIR", dir)
			pids := filepath.Join(t.TempDir(), "pids")
			t.Setenv("PIDS", pids)
			_, err := Boot(t.Context(), Options{
				Parts:       &parts.Parts{QEMU: []string{"/bin/sh", "-c", test.script}},
				BootTimeout: 300 * time.Millisecond,
			})
			if err == nil || !strings.Contains(err.Error(), "no guest after 3 boots") || strings.Count(err.Error(), test.want) != boots {
				t.Errorf("got %v\nwant %d times %q", err, boots, test.want)
			}
			started, err := os.ReadFile(pids)
			if err != nil || len(strings.Fields(string(started))) != boots {
				t.Errorf("started %q, %v, want %d processes", started, err, boots)
			}
			for _, pid := range strings.Fields(string(started)) {
				if _, err := os.Stat("/proc/" + pid); err == nil {
					t.Errorf("process %s is left", pid)
				}
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

// TestGivenUp: a caller who gives up is not made to wait for further boots.
func TestGivenUp(t *testing.T) {
	enough := errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, enough)
	defer cancel()
	_, err := Boot(ctx, Options{Parts: &parts.Parts{QEMU: []string{"/bin/sh", "-c", "exec sleep 600"}}})
	if !errors.Is(err, enough) || !strings.Contains(err.Error(), "after 1 boots") {
		t.Errorf("got %v, want the caller's cause after one boot", err)
	}
}
