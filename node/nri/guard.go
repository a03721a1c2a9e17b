package nri

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"

	"hilbert.dev/hilbert/node/runtime"
)

// guardName and guardIndex are what the runtime calls the watchdog's plugin, "90-hilbert-watchdog": it comes after the agent's, and sees what that did.
const guardName, guardIndex = "hilbert-watchdog", "90"

// guard is the second plugin. It adjusts nothing, and refuses containers that need the agent and that the agent has not adjusted. A runtime without failure
// policies drops a plugin that does not answer, and goes on to the next: to this one.
type guard struct {
	ours   func() bool // the node's GPUs are Hilbert's to give
	log    *slog.Logger
	status *GuardStatus
	// silent: the runtime does not tell at the start of a container who has adjusted it.
	silent atomic.Bool
}

// Configure is the runtime's answer to our registration.
func (g *guard) Configure(_ context.Context, _, name, _ string) (api.EventMask, error) {
	g.silent.Store(!runtime.TellsMarks(name))
	return 0, nil // everything that the plugin has a method for
}

// CreateContainer comes after the agent's plugin has adjusted the container, whose mark is in it by then.
func (g *guard) CreateContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	return nil, nil, g.check(ctx, pod, c)
}

// StartContainer comes before the first instruction.
func (g *guard) StartContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container) error {
	if g.silent.Load() {
		return nil // it was checked when it was made
	}
	return g.check(ctx, pod, c)
}

func (g *guard) check(ctx context.Context, pod *api.PodSandbox, c *api.Container) error {
	s, box := sandboxOf(pod), containerOf(c)
	if _, marked := runtime.ParseMark(box.Mark, box.ID); marked || !runtime.NeedsAgent(&s, &box, g.ours()) {
		return nil
	}
	g.status.refused.Add(1)
	g.log.WarnContext(ctx, "a container that needs the agent is refused", "pod", s.Namespace+"/"+s.Name, "container", box.Name)
	return fmt.Errorf("hilbert: container %s needs Hilbert's agent, which has not adjusted it; is the agent running? the kubelet tries again", box.Name)
}

// GuardStatus is what the watchdog's plugin has done. Several goroutines may use it.
type GuardStatus struct {
	refused   atomic.Uint64
	connected atomic.Bool
}

// Refused is how many times a container was refused.
func (s *GuardStatus) Refused() uint64 { return s.refused.Load() }

// Connected reports whether the plugin is connected to the runtime.
func (s *GuardStatus) Connected() bool { return s.connected.Load() }

// Guard keeps the watchdog's plugin connected to the runtime at a socket until ctx ends.
func Guard(ctx context.Context, socket string, ours func() bool, status *GuardStatus, log *slog.Logger) {
	backoff := firstBackoff
	for {
		began := time.Now()
		err := connectGuard(ctx, socket, &guard{ours: ours, log: log, status: status}, log)
		if ctx.Err() != nil {
			return
		}
		log.Warn("not connected to the container runtime", "err", err)
		if time.Since(began) > settled {
			backoff = firstBackoff
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

func connectGuard(ctx context.Context, socket string, g *guard, log *slog.Logger) error {
	conn, err := (&net.Dialer{Timeout: startTimeout}).DialContext(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("no NRI at %s: %w; is the runtime running, and NRI enabled in its configuration?", socket, err)
	}
	defer func() { _ = conn.Close() }() // the stub may have closed it
	lost := make(chan struct{})
	s, err := stub.New(g, stub.WithPluginName(guardName), stub.WithPluginIdx(guardIndex), stub.WithConnection(conn),
		stub.WithLogger(logger{log}), stub.WithOnClose(sync.OnceFunc(func() { close(lost) })),
		stub.WithFailurePolicy(&api.FailurePolicy{FailRequest: true, KeepConnected: true}))
	if err != nil {
		return err
	}
	if err := start(ctx, s, make(chan struct{})); err != nil {
		return fmt.Errorf("register with the runtime at %s: %w", socket, err)
	}
	g.status.connected.Store(true)
	defer g.status.connected.Store(false)
	select {
	case <-lost:
		return fmt.Errorf("the runtime at %s has closed the connection", socket)
	case <-ctx.Done():
		s.Stop()
		return ctx.Err()
	}
}
