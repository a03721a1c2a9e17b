// Command hilbert is Hilbert for people: it answers questions about scheduling, from a running hilbertd, from a file, or by simulation.
// Everything it does is package command's; this file only starts it and ends with its exit code. It holds no logic of its own.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"hilbert.dev/hilbert/cmd/hilbert/command"
	"hilbert.dev/hilbert/cmd/hilbert/output"
	"hilbert.dev/hilbert/cmd/program"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)                                         // a second Ctrl-C ends it at once
	code := program.Run(ctx, command.New(), output.Printable(os.Stderr)) // an error may quote what a cluster said
	stop()
	os.Exit(int(code))
}
