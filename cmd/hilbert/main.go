// Command hilbert is Hilbert for people: it answers questions about scheduling, from a running hilbertd, from a file, or by simulation.
// Everything it does is package command's; this file only starts it and turns an error into an exit code. It holds no logic of its own,
// and changes nothing in a cluster.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"hilbert.dev/hilbert/cmd/hilbert/command"
	"hilbert.dev/hilbert/cmd/hilbert/output"
)

// exitInterrupted is what shells expect of a process that ended because of Ctrl-C.
const exitInterrupted = 130

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends it at once
	err := command.New().ExecuteContext(ctx)
	stop()
	if err == nil {
		return
	}
	fmt.Fprintln(output.Printable(os.Stderr), "hilbert:", err) // it may quote what a cluster said
	if errors.Is(err, output.ErrInterrupted) {
		os.Exit(exitInterrupted)
	}
	os.Exit(1)
}
