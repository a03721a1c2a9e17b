package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/realnode"
	"hilbert.dev/hilbert/internal/version"
	"hilbert.dev/hilbert/node"
	"hilbert.dev/hilbert/node/enforce"
	"hilbert.dev/hilbert/node/nri"
	"hilbert.dev/hilbert/node/store"
	"hilbert.dev/hilbert/node/watchdog"
)

// watchdogDirectory is what the agent and its watchdog share, in /run: it has to be in memory.
func watchdogDirectory(roots realnode.Roots) (watchdog.Directory, error) {
	path := watchdogPath(roots)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return "", fmt.Errorf("what agent and watchdog share: %w", err)
	}
	return watchdog.Directory(path), nil
}

func watchdogPath(roots realnode.Roots) string { return filepath.Join(roots.Run, "hilbert-watchdog") }

// absence is the agent's side of it, and the kernel in which the agent writes only in its turn.
func absence(roots realnode.Roots, kernel enforce.Kernel, log *slog.Logger) (*node.Absence, enforce.Kernel) {
	directory, err := watchdogDirectory(roots)
	if err != nil {
		log.Warn("nobody can stand in for this agent", "err", err)
		return nil, kernel
	}
	fenced := &watchdog.Fenced{Kernel: kernel, Directory: directory}
	return &node.Absence{Directory: directory, Kernel: fenced, Plan: store.File(directory.PlanPath())}, fenced
}

// RunWatchdog runs a node's watchdog until ctx ends.
func RunWatchdog(ctx context.Context, config *spec.Configuration, o Options) (err error) {
	roots, log := o.Roots, o.Log
	kernel, err := realnode.OpenKernel(roots)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kernel.Close()) }()
	directory, err := watchdogDirectory(roots)
	if err != nil {
		return err
	}
	unlock, err := lock(ctx, filepath.Join(string(directory), "lock"), log)
	if err != nil {
		return err
	}
	defer unlock()
	dog := watchdog.New(directory, kernel, log)
	status := &nri.GuardStatus{}
	served := serveWatchdog(&watchdogState{dog: dog, guard: status, began: time.Now()}, config, log)
	defer served.Close()
	served.Tell(o.OnListen)
	log.Info("hilbertd started", "version", version.Get().Version, "role", spec.RoleWatchdog, "address", served.At())
	defer log.Info("hilbertd stopped")
	guarded := make(chan struct{})
	go func() {
		defer close(guarded)
		nri.Guard(ctx, config.Node.NRISocket, dog.GPUs, status, log)
	}()
	dog.Run(ctx)
	<-guarded
	return nil
}
