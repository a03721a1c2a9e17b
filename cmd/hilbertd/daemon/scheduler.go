package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cmd/hilbertd/endpoints"
	"hilbert.dev/hilbert/cmd/hilbertd/peers"
	"hilbert.dev/hilbert/internal/version"
	"hilbert.dev/hilbert/schedule/outside"
)

// schedulerState is what a scheduler's endpoints show: how many nodes it knows; −1: it has no leader, −2: it does not know all nodes yet.
type schedulerState struct {
	nodes    atomic.Int64
	onSynced func() // nil: nobody waits for the nodes
}

const noLeader, copying = -1, -2

// knows takes note of what is known.
func (s *schedulerState) knows(nodes int, complete bool) {
	switch {
	case nodes < 0:
		s.nodes.Store(noLeader)
	case !complete:
		s.nodes.Store(copying)
	default:
		s.nodes.Store(int64(nodes))
		if s.onSynced != nil {
			s.onSynced()
			s.onSynced = nil
		}
	}
}

// runScheduler decides for leaders in other processes until ctx ends. It has no connection to the API server.
func runScheduler(ctx context.Context, config *spec.Configuration, o Options, log *slog.Logger) error {
	name, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("name this process: %w", err)
	}
	state := &schedulerState{onSynced: o.OnSynced}
	state.nodes.Store(noLeader)
	listener, err := endpoints.Listen(config.Server)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(endpoints.ProcessCollectors()...)
	if o.OnMetrics != nil {
		o.OnMetrics(registry)
	}
	var served *endpoints.Server
	if listener != nil {
		mux := http.NewServeMux()
		mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
		mux.HandleFunc("GET /readyz", state.readyz)
		mux.Handle("GET /metrics", endpoints.NewScrapes(registry))
		if served, err = endpoints.Serve(listener, endpoints.CertificateOf(config.Server), mux, tls.NoClientCert, log); err != nil {
			return errors.Join(err, endpoints.CloseUnused(listener))
		}
	}
	served.Tell(o.OnListen)
	defer served.Close()
	p := &config.Peers
	files := &peers.Files{Certificate: p.TLSCertFile, Key: p.TLSPrivateKeyFile, Authorities: p.CAFile}
	if p.ServerName != "" {
		files.Names = []string{p.ServerName}
	}
	log.Info("hilbertd started", "version", version.Get().Version, "role", spec.RoleScheduler, "addresses", p.Addresses, "address", served.At())
	defer log.Info("hilbertd stopped")
	client := &peers.Client{
		Addresses: p.Addresses, Files: files, TokenFile: p.TokenFile, Log: log, Knows: state.knows,
		Hello: outside.Hello{Protocol: outside.Protocol, Schema: outside.Schema(), Version: version.Get().Version, Name: name},
	}
	client.Run(ctx)
	return nil
}

// readyz reports whether the scheduler knows all nodes of a leader.
func (s *schedulerState) readyz(w http.ResponseWriter, _ *http.Request) {
	switch n := s.nodes.Load(); n {
	case noLeader:
		http.Error(w, "no leader gives work", http.StatusServiceUnavailable)
	case copying:
		http.Error(w, "not all nodes are known yet", http.StatusServiceUnavailable)
	default:
		fmt.Fprintln(w, "ok:", n, "nodes")
	}
}
