package realnode

import (
	"context"
	"log/slog"
	"os"
	"time"

	"hilbert.dev/hilbert/node/machine"
	"hilbert.dev/hilbert/topology"
)

const (
	// machinePoll is how often the hardware is read whatever the kernel tells: a uevent may be lost where many come at once.
	machinePoll = 30 * time.Second
	// machineSettle is how long nothing may happen before the hardware is read: a core, or the SMT switch, takes its CPUs off one by one.
	machineSettle = time.Second
)

// WatchMachine calls changed when CPUs or memory are not as they were at the start, with what differs. It reads the hardware a second after the kernel has told of
// a change, and at intervals.
func WatchMachine(ctx context.Context, roots Roots, was *topology.Machine, log *slog.Logger, changed func(what string)) {
	happened := make(chan struct{}, 1)
	told := make(chan struct{})
	go func() {
		defer close(told)
		if roots.Uevents == nil {
			return
		}
		roots.Uevents(ctx, log, func() {
			select {
			case happened <- struct{}{}:
			default:
			}
		})
	}()
	defer func() { <-told }()
	timer := time.NewTimer(machinePoll)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-happened:
			timer.Reset(machineSettle)
			continue
		case <-timer.C:
			timer.Reset(machinePoll)
		}
		is, _, err := machine.Read(os.DirFS(roots.Sys))
		if err != nil { // it is changing just now
			log.Warn("the hardware cannot be read; it counts as unchanged", "err", err)
			timer.Reset(machineSettle)
			continue
		}
		if what := machine.Difference(was, is); what != "" {
			changed(what)
			<-ctx.Done()
			return
		}
	}
}
