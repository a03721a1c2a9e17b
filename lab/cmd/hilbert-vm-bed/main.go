// Command hilbert-vm-bed gets the parts of the VM test bed and boots a guest by hand, to look around in.
//
// Tests do not need it: they boot a guest through package vm. It says what it does on standard error, with the seconds that each step
// took, and ends with status 1 where a step failed.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"hilbert.dev/hilbert/lab/vm"
	"hilbert.dev/hilbert/lab/vm/parts"
)

const usage = `hilbert-vm-bed COMMAND
  parts           get or build whatever a guest needs that is not in the cache yet
  run [ARG...]    boot a guest, run a command in it ("sh -c ..."), print what it says, and end the guest
  systemd ARG...  the same in a guest whose first process is systemd
  sysfs FILE      boot a guest and write a tar of what its /sys says of the machine`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "hilbert-vm-bed:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	switch command := args[0]; {
	case command == "parts":
		for _, systemd := range []bool{false, true} {
			if _, err := open(ctx, systemd); err != nil {
				return err
			}
		}
		return nil
	case (command == "run" || command == "systemd") && len(args) > 1:
		return withGuest(ctx, command == "systemd", func(g *vm.Guest) error { return runIn(ctx, g, args[1:]) })
	case command == "sysfs" && len(args) == 2:
		return withGuest(ctx, false, func(g *vm.Guest) error { return saveSysfs(ctx, g, args[1]) })
	default:
		return fmt.Errorf("do not know how to %q\n%s", args, usage)
	}
}

func open(ctx context.Context, systemd bool) (*parts.Parts, error) {
	return parts.Open(ctx, parts.Options{Systemd: systemd, Build: true, Progress: os.Stderr})
}

func withGuest(ctx context.Context, systemd bool, do func(*vm.Guest) error) (err error) {
	got, err := open(ctx, systemd)
	if err != nil {
		return err
	}
	guest, err := vm.Boot(ctx, vm.Options{Parts: got, Systemd: systemd, Log: func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, format+"\n", args...)
	}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, guest.Close()) }()
	return do(guest)
}

func runIn(ctx context.Context, g *vm.Guest, argv []string) error {
	got, err := g.Exec(ctx, argv...)
	if err != nil {
		return err
	}
	fmt.Fprint(os.Stdout, got.Stdout)
	fmt.Fprint(os.Stderr, got.Stderr)
	if got.Status != 0 {
		return fmt.Errorf("%s: status %d", strings.Join(argv, " "), got.Status)
	}
	return nil
}

func saveSysfs(ctx context.Context, g *vm.Guest, path string) (err error) {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	return g.Tar(ctx, out, vm.MachineDirs()...)
}
