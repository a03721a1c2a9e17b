package endpoints

import (
	"net/http"
	"net/http/pprof" //nolint:gosec // G108: it registers with http.DefaultServeMux, which nothing serves

	"hilbert.dev/hilbert/api/spec"
)

// ProfilesPath is where Go's profiles are served.
const ProfilesPath = "/debug/pprof/"

// ServeProfiles serves Go's profiles of this process to those whom guard admits, if the configuration wants it. A profile costs CPU time and names what is in memory,
// so that it is off by default. Go makes one CPU profile at a time, and none that outlasts answerTimeout.
func ServeProfiles(mux *http.ServeMux, config spec.Server, guard func(http.HandlerFunc) http.HandlerFunc) {
	if !config.Profiling {
		return
	}
	for _, p := range []struct {
		name   string
		handle http.HandlerFunc
	}{
		{"", pprof.Index}, // and heap, goroutine, allocs, mutex, block by name
		{"cmdline", pprof.Cmdline}, {"profile", pprof.Profile}, {"symbol", pprof.Symbol}, {"trace", pprof.Trace},
	} {
		mux.HandleFunc("GET "+ProfilesPath+p.name, guard(p.handle))
	}
}
