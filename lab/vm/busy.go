package vm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const (
	// A guest that boots keeps more than a CPU of the host busy; one that hangs keeps no more than idleCPUs busy with its other processors' clocks.
	// What is below that for bootIdle while it boots, or for timersIdle while its timers are looked at, hangs. Some guests stall for up to six seconds and go on.
	idleCPUs             = 0.6
	bootIdle, timersIdle = 16 * time.Second, 12 * time.Second
	// demandPoll is how often that is read.
	demandPoll = time.Second
)

// whileBusy returns a context that is cancelled when QEMU has asked the host for less than idleCPUs for some time.
//
// Emulation may lose an interrupt of a processor's timer: the processor's local APIC says that it is being served, and no handler runs. The processor
// then gets no timer again, who sleeps there sleeps for ever, and the guest idles. It is told from one that waits for the host by the time
// that its threads run or wait to run.
func (g *Guest) whileBusy(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	if g.qemu == nil {
		return context.WithCancel(ctx)
	}
	return whileBusy(ctx, g.qemu.Process.Pid, most)
}

func whileBusy(ctx context.Context, pid int, most time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		poll := time.NewTicker(demandPoll)
		defer poll.Stop()
		since, before := time.Now(), demand(pid)
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-poll.C:
				asked := demand(pid)
				switch passed := now.Sub(since); {
				case asked-before > time.Duration(idleCPUs*float64(most)):
					since, before = now, asked
				case passed > most:
					cancel(fmt.Errorf("the guest hangs: it asked for %s of CPU in %s", (asked - before).Round(time.Millisecond), passed.Round(time.Second)))
					return
				}
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// demand is how long a process's threads have run, and have waited to run. What cannot be read counts as nothing.
func demand(pid int) (sum time.Duration) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		return 0
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		var ran, waited time.Duration
		if _, err := fmt.Sscan(string(text), &ran, &waited); err == nil {
			sum += ran + waited
		}
	}
	return sum
}
