package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/kube/visibility"
)

const (
	// liveTimeout is how long /livez and /readyz wait for the loop. A loop that does not answer in that time is stuck.
	liveTimeout = 5 * time.Second
	// headerTimeout bounds the time that a client may take to send a request's header.
	headerTimeout = 5 * time.Second
	// answerTimeout bounds the time that a client may take to read an answer, idleTimeout how long a connection stays open unused.
	answerTimeout = 5 * time.Minute
	idleTimeout   = time.Minute
	// maxHeader bounds a request's header, in bytes: users are in some hundred groups.
	maxHeader = 64 << 10
)

// nowhere is the bindAddress that switches the endpoints off.
const nowhere = "-"

// server serves health checks to every client, and metrics and answers about scheduling to authorized users. All of it is TLS.
type server struct {
	http    *http.Server
	address string
	done    chan struct{}
}

// listen listens on server.bindAddress; nil for "-", which switches the endpoints off.
func listen(config spec.Server) (net.Listener, error) {
	if config.BindAddress == nowhere {
		return nil, nil
	}
	listener, err := net.Listen("tcp", config.BindAddress)
	if err != nil {
		return nil, fmt.Errorf("server.bindAddress: %w; choose another address, port 0 for a free one, or \"-\" for none", err)
	}
	return listener, nil
}

// serve starts to serve on a listener, and closes it in the end. With a nil listener it does nothing.
func serve(i *inspector, listener net.Listener, files *certificateFiles, visible *visibility.Server) (*server, error) {
	if listener == nil {
		return nil, nil
	}
	// kube-apiserver's proxy and other replicas have a certificate; whose it is, is looked at with each request.
	return serveOn(listener, files, paths(i, visible), tls.RequestClientCert, i.loop.log)
}

// paths are all that is served, each with who may have it.
func paths(i *inspector, visible *visibility.Server) *http.ServeMux {
	l := i.loop
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", l.livez)
	mux.HandleFunc("GET /readyz", l.readyz)
	mux.HandleFunc("GET /metrics", i.guardedElsewhere(newScrapes(l.meter.registry).ServeHTTP))
	mux.HandleFunc("GET /configz", i.guarded(i.configz))
	serveProfiles(mux, l.config.Server, i.guarded)
	visible.Register(mux)
	return mux
}

// basicPaths are what a role serves to every client that has no loop which could be stuck: /livez as long as it answers at all, /readyz, which is ok once ready is nil, and metrics.
func basicPaths(ready func() error, registry *prometheus.Registry) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.Handle("GET /metrics", newScrapes(registry))
	return mux
}

// serveOn starts to serve a mux on a listener, and closes it in the end.
func serveOn(listener net.Listener, files *certificateFiles, mux http.Handler, clients tls.ClientAuthType, log *slog.Logger) (*server, error) {
	address := listener.Addr().String()
	secure, err := serverTLS(files, address)
	if err != nil {
		_ = listener.Close() // nothing has come in
		return nil, err
	}
	secure.ClientAuth = clients
	s := &server{
		http: &http.Server{
			Handler: mux, TLSConfig: secure, ReadHeaderTimeout: headerTimeout, WriteTimeout: answerTimeout, IdleTimeout: idleTimeout,
			MaxHeaderBytes: maxHeader,
			ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelDebug), // handshakes that were broken off, mostly
		},
		address: address, done: make(chan struct{}),
	}
	go func() {
		defer close(s.done)
		if err := s.http.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the HTTPS server ended", "err", err)
		}
	}()
	return s, nil
}

// close gives requests under way a moment to finish.
func (s *server) close() {
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

func (l *loop) livez(w http.ResponseWriter, _ *http.Request) {
	if !l.ask(liveTimeout, func() {}) {
		http.Error(w, "the scheduling loop has not come round for "+liveTimeout.String(), http.StatusInternalServerError)
		return
	}
	fmt.Fprintln(w, "ok")
}

func (l *loop) readyz(w http.ResponseWriter, _ *http.Request) {
	var now struct {
		synced  bool
		phase   phase
		missing []string
	}
	if !l.ask(liveTimeout, func() { now.synced, now.phase, now.missing = l.synced, l.phase, l.lists.Missing() }) {
		http.Error(w, "the scheduling loop has not come round for "+liveTimeout.String(), http.StatusInternalServerError)
		return
	}
	if !now.synced {
		http.Error(w, "not listed yet: "+strings.Join(now.missing, ", "), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok:", now.phase)
}
