package daemon

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"

	"hilbert.dev/hilbert/cmd/hilbertd/endpoints"
	"hilbert.dev/hilbert/kube/visibility"
)

// serve starts to serve on a listener, and closes it in the end. With a nil listener it does nothing.
func serve(i *inspector, listener net.Listener, files *endpoints.Certificate, visible *visibility.Server) (*endpoints.Server, error) {
	if listener == nil {
		return nil, nil
	}
	// kube-apiserver's proxy and other replicas have a certificate; whose it is, is looked at with each request.
	return endpoints.Serve(listener, files, paths(i, visible), tls.RequestClientCert, i.loop.log)
}

// paths are all that is served, each with who may have it.
func paths(i *inspector, visible *visibility.Server) *http.ServeMux {
	l := i.loop
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", l.livez)
	mux.HandleFunc("GET /readyz", l.readyz)
	mux.HandleFunc("GET /metrics", i.guardedElsewhere(endpoints.NewScrapes(l.meter.registry).ServeHTTP))
	mux.HandleFunc("GET /configz", i.guarded(i.configz))
	endpoints.ServeProfiles(mux, l.config.Server, i.guarded)
	visible.Register(mux)
	return mux
}

func (l *loop) livez(w http.ResponseWriter, _ *http.Request) {
	if !l.ask(endpoints.LiveTimeout, func() {}) {
		http.Error(w, "the scheduling loop has not come round for "+endpoints.LiveTimeout.String(), http.StatusInternalServerError)
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
	if !l.ask(endpoints.LiveTimeout, func() { now.synced, now.phase, now.missing = l.synced, l.phase, l.lists.Missing() }) {
		http.Error(w, "the scheduling loop has not come round for "+endpoints.LiveTimeout.String(), http.StatusInternalServerError)
		return
	}
	if !now.synced {
		http.Error(w, "not listed yet: "+strings.Join(now.missing, ", "), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok:", now.phase)
}
