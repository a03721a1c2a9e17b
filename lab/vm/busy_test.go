package vm

import (
	"context"
	"os/exec"
	"testing"
	"time"
)

// TestWhileBusy: a process that idles is told from one that has work to do.
func TestWhileBusy(t *testing.T) {
	const window = 2 * time.Second
	for name, c := range map[string]struct {
		script string
		hangs  bool
	}{
		"it idles": {"exec sleep 60", true},
		"it works": {"while :; do :; done", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			process := exec.CommandContext(t.Context(), "/bin/sh", "-c", c.script)
			if err := process.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _, _ = process.Process.Kill(), process.Wait() }()
			ctx, cancel := whileBusy(t.Context(), process.Process.Pid, window)
			defer cancel()
			patience := 3 * window
			if c.hangs {
				patience = time.Minute // on a busy machine it is noticed late
			}
			select {
			case <-ctx.Done():
				if !c.hangs {
					t.Error(context.Cause(ctx))
				}
			case <-time.After(patience):
				if c.hangs {
					t.Error("it is not noticed")
				}
			}
		})
	}
}
