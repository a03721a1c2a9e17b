package endpoints

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/kube/visibility"
)

const (
	// LiveTimeout is how long /livez and /readyz wait for the loop. A loop that does not answer in that time is stuck.
	LiveTimeout = 5 * time.Second
	// headerTimeout bounds the time that a client may take to send a request's header.
	headerTimeout = 5 * time.Second
	// answerTimeout bounds the time that a client may take to read an answer, idleTimeout how long a connection stays open unused.
	answerTimeout = 5 * time.Minute
	idleTimeout   = time.Minute
	// maxHeader bounds a request's header, in bytes: users are in some hundred groups.
	maxHeader = 64 << 10
)

// ScrapeTimeout is how long a scrape waits for the loop.
const ScrapeTimeout = 2 * time.Second

// nowhere is the bindAddress that switches the endpoints off.
const nowhere = "-"

// Server serves health checks to every client, and metrics and answers about scheduling to authorized users. All of it is TLS.
type Server struct {
	http    *http.Server
	Address string
	done    chan struct{}
}

// Listen listens on server.bindAddress; nil for "-", which switches the endpoints off.
func Listen(config spec.Server) (net.Listener, error) {
	if config.BindAddress == nowhere {
		return nil, nil
	}
	listener, err := net.Listen("tcp", config.BindAddress)
	if err != nil {
		return nil, fmt.Errorf("server.bindAddress: %w; choose another address, port 0 for a free one, or \"-\" for none", err)
	}
	return listener, nil
}

// BasicPaths are what a role serves to every client that has no loop which could be stuck: /livez as long as it answers at all, /readyz, which is ok once ready is nil, and metrics.
func BasicPaths(ready func() error, registry *prometheus.Registry) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.Handle("GET /metrics", NewScrapes(registry))
	return mux
}

// Serve starts to serve a mux on a listener, and closes it in the end.
func Serve(listener net.Listener, files *Certificate, mux http.Handler, clients tls.ClientAuthType, log *slog.Logger) (*Server, error) {
	address := listener.Addr().String()
	secure, err := ServerTLS(files, address)
	if err != nil {
		_ = listener.Close() // nothing has come in
		return nil, err
	}
	secure.ClientAuth = clients
	s := &Server{
		http: &http.Server{
			Handler: mux, TLSConfig: secure, ReadHeaderTimeout: headerTimeout, WriteTimeout: answerTimeout, IdleTimeout: idleTimeout,
			MaxHeaderBytes: maxHeader,
			ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelDebug), // handshakes that were broken off, mostly
		},
		Address: address, done: make(chan struct{}),
	}
	go func() {
		defer close(s.done)
		if err := s.http.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the HTTPS server ended", "err", err)
		}
	}()
	return s, nil
}

// Close gives requests under way a moment to finish.
func (s *Server) Close() {
	if s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		_ = s.http.Close() // a client is slow; the process ends
	}
	<-s.done
}

// Tell tells where it serves, if it does and somebody wants to know.
func (s *Server) Tell(listens func(address string)) {
	if s != nil && listens != nil {
		listens(s.Address)
	}
}

// At is the address for the log.
func (s *Server) At() string {
	if s == nil {
		return "none"
	}
	return s.Address
}

// CloseUnused closes a listener that was never served; nil is allowed.
func CloseUnused(listener net.Listener) error {
	if listener == nil {
		return nil
	}
	return listener.Close()
}

// LocalOnly admits requests from this host and through kubectl port-forward, which authenticates them. Asking the API server here, as the scheduler does,
// would need one more permission on every node.
func LocalOnly(handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !visibility.FromHere(r) {
			http.Error(w, "only this host may ask; from elsewhere use kubectl port-forward", http.StatusForbidden)
			return
		}
		handle(w, r)
	}
}
