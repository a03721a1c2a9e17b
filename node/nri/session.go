package nri

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"

	"hilbert.dev/hilbert/node/runtime"
)

const (
	// pluginName and pluginIndex are what the runtime calls us, "10-hilbert"; required-plugins.noderesource.dev names the first.
	pluginName  = "hilbert"
	pluginIndex = "10"
	// firstBackoff doubles up to maxBackoff while the runtime cannot be reached.
	firstBackoff = 500 * time.Millisecond
	maxBackoff   = 10 * time.Second
	// startTimeout bounds dialling, registration and the runtime's answer to it.
	startTimeout = 15 * time.Second
	// settled is how long a connection must have lasted for the next one to be tried at once.
	settled = 30 * time.Second
)

// Run keeps a connection to the runtime at a socket until ctx ends. It returns nothing: what is wrong is told to the agent.
func Run(ctx context.Context, socket string, agent Agent, log *slog.Logger) {
	backoff := firstBackoff
	for {
		began := time.Now()
		err := connect(ctx, socket, agent, log)
		if ctx.Err() != nil {
			return
		}
		agent.Disconnected(err)
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

// connect runs one session to its end, and returns why it ended.
func connect(ctx context.Context, socket string, agent Agent, log *slog.Logger) error {
	conn, err := (&net.Dialer{Timeout: startTimeout}).DialContext(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("no NRI at %s: %w; is the runtime running, and NRI enabled in its configuration?", socket, err)
	}
	defer func() { _ = conn.Close() }() // the stub may have closed it
	over, lost := make(chan struct{}), make(chan struct{})
	updater := &updater{}
	p := &plugin{agent: agent, update: updater, over: over}
	s, err := stub.New(p, stub.WithPluginName(pluginName), stub.WithPluginIdx(pluginIndex), stub.WithConnection(conn),
		stub.WithLogger(logger{log}), stub.WithOnClose(sync.OnceFunc(func() { close(lost) })),
		// A request that we do not answer fails, where the runtime knows of that: what a container would miss is never put right. Others go on without us, so
		// that there is always an answer in time, see plugin.bounded. Being thrown out would be worse.
		stub.WithFailurePolicy(&api.FailurePolicy{FailRequest: true, KeepConnected: true}))
	if err != nil {
		return err
	}
	updater.stub, p.timeout = s, s.RequestTimeout
	if err := start(ctx, s, over); err != nil {
		return fmt.Errorf("register with the runtime at %s: %w", socket, err)
	}
	select {
	case <-lost:
		return fmt.Errorf("the runtime at %s has closed the connection", socket)
	case <-ctx.Done():
		s.Stop()
		return ctx.Err()
	}
}

// start registers, within bounds: the stub by itself would wait for ever for a runtime that dies between our registration and its
// configuration. It is then given the answer that it waits for, an error.
func start(ctx context.Context, s stub.Stub, over chan struct{}) error {
	started := make(chan error, 1)
	go func() { started <- s.Start(ctx) }()
	timer := time.NewTimer(startTimeout)
	defer timer.Stop()
	var err error
	select {
	case err := <-started:
		return err
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = fmt.Errorf("no answer in %v", startTimeout)
	}
	close(over)
	if configurable, ok := s.(interface {
		Configure(context.Context, *api.ConfigureRequest) (*api.ConfigureResponse, error)
	}); ok {
		go func() { _, _ = configurable.Configure(context.WithoutCancel(ctx), &api.ConfigureRequest{}) }() // errOver, by construction
	}
	return err
}

// updater asks the runtime to change running containers.
type updater struct{ stub stub.Stub }

// Update implements node.Updater.
func (u *updater) Update(updates []runtime.Update) ([]string, error) {
	failed, err := u.stub.UpdateContainers(updatesOf(updates))
	if errors.Is(err, stub.ErrNoService) {
		err = errOver
	}
	return idsOf(failed), err
}

// logger makes the stub's many words debug messages: what matters is told to the agent.
type logger struct{ log *slog.Logger }

// Debugf implements the stub's Logger.
func (l logger) Debugf(ctx context.Context, format string, args ...any) { l.say(ctx, format, args) }

// Infof implements the stub's Logger.
func (l logger) Infof(ctx context.Context, format string, args ...any) { l.say(ctx, format, args) }

// Warnf implements the stub's Logger.
func (l logger) Warnf(ctx context.Context, format string, args ...any) { l.say(ctx, format, args) }

// Errorf implements the stub's Logger.
func (l logger) Errorf(ctx context.Context, format string, args ...any) { l.say(ctx, format, args) }

func (l logger) say(ctx context.Context, format string, args []any) {
	if l.log.Enabled(ctx, slog.LevelDebug) {
		l.log.DebugContext(ctx, "nri", "said", fmt.Sprintf(format, args...))
	}
}
