// Command hilbertd is the scheduler's daemon: it watches a cluster, places its pods and binds them. Everything it does is package
// daemon's; this file only starts it and ends with its exit code. It holds no logic of its own.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"hilbert.dev/hilbert/cmd/hilbertd/daemon"
	"hilbert.dev/hilbert/cmd/program"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := program.Run(ctx, daemon.NewCommand(), os.Stderr)
	stop()
	os.Exit(int(code))
}
