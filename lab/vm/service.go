package vm

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"

	"hilbert.dev/hilbert/lab/vm/wire"
)

// Service is a process that the guest keeps running.
type Service struct {
	guest client
	Name  string
}

// Define adds a service or changes one, starts it unless it runs, and returns it. Its output goes to its log; it lives in the cgroup
// /system.slice/NAME.service.
func (c client) Define(ctx context.Context, spec wire.ServiceSpec) (Service, error) {
	if err := c.json(ctx, http.MethodPut, wire.PathServices, spec, nil); err != nil {
		return Service{}, fmt.Errorf("service %s of the guest: %w", spec.Name, err)
	}
	return c.Service(spec.Name), nil
}

// Service is the handle of a service that was defined.
func (c client) Service(name string) Service { return Service{c, name} }

// Start starts it, if it does not run, and wants it to run from now on.
func (s Service) Start(ctx context.Context) error { return s.order(ctx, "start") }

// Stop ends its process, but none that it started, and leaves it ended. It returns when the process has ended.
func (s Service) Stop(ctx context.Context) error { return s.order(ctx, "stop") }

// Restart is Stop and Start.
func (s Service) Restart(ctx context.Context) error { return s.order(ctx, "restart") }

// State says how it does.
func (s Service) State(ctx context.Context) (wire.ServiceState, error) {
	var all []wire.ServiceState
	if err := s.guest.json(ctx, http.MethodGet, wire.PathServices, nil, &all); err != nil {
		return wire.ServiceState{}, fmt.Errorf("services of the guest: %w", err)
	}
	for _, state := range all {
		if state.Name == s.Name {
			return state, nil
		}
	}
	return wire.ServiceState{}, fmt.Errorf("service %s of the guest: %w", s.Name, fs.ErrNotExist)
}

// Log is all that it has said since the boot.
func (s Service) Log(ctx context.Context) (string, error) {
	return s.guest.ReadFile(ctx, "/var/log/"+s.Name+".log")
}

func (s Service) order(ctx context.Context, do string) error {
	query := url.Values{"name": {s.Name}, "do": {do}}
	if err := s.guest.json(ctx, http.MethodPost, wire.PathService+"?"+query.Encode(), nil, nil); err != nil {
		return fmt.Errorf("%s service %s of the guest: %w", do, s.Name, err)
	}
	return nil
}
