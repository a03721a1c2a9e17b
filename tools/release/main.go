// Command hilbert-release makes a release of Hilbert from a commit: programs, image, charts, bills of materials, checksums.
//
// Data flow: `make release VERSION=v0.1.0` calls it with the version, the commit and its time; package artifacts does the work and writes dist/. `key` makes
// the pair of keys that checksums are signed with, and `push` sends the image and the charts of dist/ to a registry.
//
// Invariants: the same arguments write the same bytes, but for the signature; it refuses to write into a folder that has files. It is a tool of the
// maintainers and is part of no release.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"hilbert.dev/hilbert/tools/release/artifacts"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "hilbert-release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("want a command: make, push or key")
	}
	switch args[0] {
	case "make":
		return makeRelease(ctx, args[1:])
	case "push":
		if len(args) != 3 {
			return errors.New("want: hilbert-release push FOLDER REGISTRY")
		}
		return artifacts.Push(ctx, args[1], args[2], log)
	case "key":
		if len(args) != 3 {
			return errors.New("want: hilbert-release key SECRET-FILE PUBLIC-FILE")
		}
		return artifacts.MakeKey(args[1], args[2])
	}
	return fmt.Errorf("no command %q: make, push or key", args[0])
}

func makeRelease(ctx context.Context, args []string) error {
	var r artifacts.Release
	var seconds int64
	var platforms string
	flags := flag.NewFlagSet("make", flag.ContinueOnError)
	flags.StringVar(&r.Root, "root", ".", "folder of the product's go.mod")
	flags.StringVar(&r.Out, "out", "dist", "folder to write")
	flags.StringVar(&r.Version, "version", "", "semantic version with a leading v")
	flags.StringVar(&r.Commit, "commit", "", "full hash of the commit")
	flags.Int64Var(&seconds, "time", 0, "when the commit was made, in seconds since 1970")
	flags.StringVar(&platforms, "platforms", "", "such as linux/amd64,linux/arm64; empty: all")
	flags.StringVar(&r.Registry, "registry", artifacts.DefaultRegistry, "registry that the image and the charts will be pushed to")
	flags.StringVar(&r.Downloads, "downloads", "", "URL below which the files will be found")
	flags.StringVar(&r.Key, "key", "", "minisign key to sign with; empty: unsigned")
	flags.StringVar(&r.Cache, "cache", "", "the go command's build cache; empty: its own")
	if err := flags.Parse(args); err != nil {
		return err
	}
	r.Time, r.Platforms = time.Unix(seconds, 0), artifacts.Platforms
	if platforms != "" {
		r.Platforms = nil
		for name := range strings.SplitSeq(platforms, ",") {
			system, arch, _ := strings.Cut(name, "/")
			r.Platforms = append(r.Platforms, artifacts.Platform{OS: system, Arch: arch})
		}
	}
	if r.Downloads == "" {
		r.Downloads = "https://hilbert.dev/releases/" + r.Version
	}
	return r.Make(ctx, log)
}

func log(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
