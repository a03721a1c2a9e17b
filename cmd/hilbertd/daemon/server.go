package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// liveTimeout is how long /livez and /readyz wait for the loop: a loop that does not come round in that time is stuck.
	liveTimeout = 5 * time.Second
	// headerTimeout bounds the time that a client may take to say what it wants.
	headerTimeout = 5 * time.Second
	// maxScrapes bounds the scrapes at once: each asks the loop.
	maxScrapes = 4
)

// server answers health checks and scrapes. It speaks plain HTTP and tells whoever asks, so it listens on loopback by default.
type server struct {
	http    *http.Server
	address string
	done    chan struct{}
}

// serve listens on server.bindAddress; "-" is nowhere.
func serve(l *loop) (*server, error) {
	address := l.config.Server.BindAddress
	if address == "-" {
		return nil, nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("server.bindAddress: %w; choose another address, port 0 for a free one, or \"-\" for none", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", l.livez)
	mux.HandleFunc("GET /readyz", l.readyz)
	mux.HandleFunc("GET /configz", l.configz)
	mux.Handle("GET /metrics", promhttp.HandlerFor(l.meter.registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes}))
	s := &server{http: &http.Server{Handler: mux, ReadHeaderTimeout: headerTimeout}, address: listener.Addr().String(), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			l.log.Error("the HTTP server ended", "err", err)
		}
	}()
	return s, nil
}

// close lets requests under way finish for a moment.
func (s *server) close() {
	if s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		_ = s.http.Close() // somebody is slow; the process ends
	}
	<-s.done
}

func (l *loop) livez(w http.ResponseWriter, _ *http.Request) {
	if !l.ask(liveTimeout, func() {}) {
		http.Error(w, "the scheduling loop has not come round for "+liveTimeout.String(), http.StatusInternalServerError)
		return
	}
	fmt.Fprintln(w, "ok")
}

func (l *loop) readyz(w http.ResponseWriter, _ *http.Request) {
	var now struct {
		synced bool
		phase  phase
	}
	if !l.ask(liveTimeout, func() { now.synced, now.phase = l.synced, l.phase }) {
		http.Error(w, "the scheduling loop has not come round for "+liveTimeout.String(), http.StatusInternalServerError)
		return
	}
	if !now.synced {
		http.Error(w, "nodes and pods are not listed yet", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok:", now.phase)
}

func (l *loop) configz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(l.config); err != nil { // the client went away
		l.log.Debug("cannot answer /configz", "err", err)
	}
}
