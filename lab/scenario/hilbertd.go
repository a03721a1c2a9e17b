package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/daemon"
)

const (
	// renewDeadline less writeTimeout is for how long hilbertd acts after a renewal of its Lease; the Lease itself lasts.
	leaseDuration, renewDeadline, writeTimeout = 90 * time.Second, 60 * time.Second, 60*time.Second - actsFor
	actsFor, retryPeriod                       = 600 * time.Millisecond, 50 * time.Millisecond
	// leadTimeout bounds the wait until hilbertd leads.
	leadTimeout = 60 * time.Second
)

// gate keeps renewals of the Lease from reaching the API server while it is shut.
type gate struct {
	mu     sync.Mutex
	opened chan struct{} // nil while it is open
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened == nil {
		g.opened = make(chan struct{})
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened != nil {
		close(g.opened)
		g.opened = nil
	}
}

// wrap makes requests about Leases wait until the gate is open.
func (g *gate) wrap(inner http.RoundTripper) http.RoundTripper { return gated{g, inner} }

type gated struct {
	gate  *gate
	inner http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t gated) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.Contains(r.URL.Path, "/leases") {
		t.gate.mu.Lock()
		opened := t.gate.opened
		t.gate.mu.Unlock()
		if opened != nil {
			select {
			case <-opened:
			case <-r.Context().Done():
				return nil, context.Cause(r.Context())
			}
		}
	}
	return t.inner.RoundTrip(r)
}

// hilbertd is one in this process.
type hilbertd struct {
	gate   gate
	cancel context.CancelFunc
	ended  chan struct{}
	err    error // valid once ended is closed
}

// startHilbertd returns one that leads.
func startHilbertd(ctx context.Context, connection *rest.Config, h Header, log io.Writer) (*hilbertd, error) {
	d := &hilbertd{ended: make(chan struct{})}
	own := rest.CopyConfig(connection)
	own.Wrap(d.gate.wrap)
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	d.cancel = cancel
	leads := &leadership{Handler: slog.NewTextHandler(log, nil), leads: make(chan struct{})}
	go func() {
		defer close(d.ended)
		d.err = daemon.Run(running, configuration(h), daemon.Options{Connection: own, Log: slog.New(leads)})
	}()
	timeout := time.NewTimer(leadTimeout)
	defer timeout.Stop()
	select {
	case <-leads.leads:
		return d, nil
	case <-d.ended:
		return nil, fmt.Errorf("start hilbertd: %w", errors.Join(d.err, errors.New("it has ended")))
	case <-ctx.Done():
		d.stop()
		return nil, context.Cause(ctx)
	case <-timeout.C:
		d.stop()
		return nil, fmt.Errorf("hilbertd does not lead after %s", leadTimeout)
	}
}

// configuration is the default one, with everything that takes time taking as much less as virtual time is faster.
func configuration(h Header) *spec.Configuration {
	c := spec.Default()
	c.Server.BindAddress = "-"
	c.LeaderElection.LeaseDuration, c.LeaderElection.RenewDeadline = spec.Duration(leaseDuration), spec.Duration(renewDeadline)
	c.LeaderElection.RetryPeriod = spec.Duration(retryPeriod)
	s := &c.Scheduling
	s.Binding.WriteTimeout = spec.Duration(writeTimeout)
	for _, d := range []*spec.Duration{
		&s.Backoff.Initial, &s.Backoff.Max, &s.Conditions.MinInterval, &s.Units.Timeout, &s.Units.ReserveAfter, &s.Units.RepairTimeout,
	} {
		*d = spec.Duration(max(h.real(d.D()), time.Millisecond))
	}
	s.Conditions.PerSecond *= h.Pace
	return c
}

// pause returns when hilbertd does nothing but listen.
func (d *hilbertd) pause() {
	d.gate.shut()
	time.Sleep(actsFor + 2*retryPeriod) // the last renewal may have been just before
}

func (d *hilbertd) resume() { d.gate.open() }

// stop ends it in good order; it decides nothing from then on.
func (d *hilbertd) stop() {
	d.cancel()
	d.gate.open() // it gives its Lease back
	<-d.ended
}

// leadership is a log that says when hilbertd leads.
type leadership struct {
	slog.Handler

	once  sync.Once
	leads chan struct{}
}

// Handle implements slog.Handler.
func (l *leadership) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "leading" {
		l.once.Do(func() { close(l.leads) })
	}
	return l.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler: all loggers made of this one are this one.
func (l *leadership) WithAttrs([]slog.Attr) slog.Handler { return l }
