// Command hilbertd is the scheduler's daemon: it watches a cluster, places its pods and binds them. Everything it does is package
// daemon's; this file only starts it and turns an error into an exit code. It holds no logic of its own.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"hilbert.dev/hilbert/cmd/hilbertd/daemon"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := daemon.NewCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "hilbertd:", err)
		os.Exit(1)
	}
}
