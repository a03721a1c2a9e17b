package dashboard

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// Options say how a Server works.
type Options struct {
	// Every is how often the source is asked. It is asked less often when its answers take long.
	Every time.Duration
	// Now is the clock, time.Now if nil.
	Now func() time.Time
}

// The bounds of a Server.
const (
	// maxStreams is how many browsers may wait for news at once; maxStream is how long one may wait before it asks again.
	maxStreams = 64
	maxStream  = 10 * time.Minute
	// shareOfTime is which part of the time a source may spend answering.
	shareOfTime = 5
	// maxAnswer is how long a source may take to answer. Then the pages say that it did not.
	maxAnswer = 5 * time.Minute
)

// Server serves the pages.
type Server struct {
	source  Source
	options Options
	token   string
	mux     *http.ServeMux

	mu      sync.Mutex
	cluster *Cluster
	failed  error // of the last question
	history history
	news    chan struct{} // is closed when there is something new
	streams int
}

// New returns a Server with a token of its own.
func New(source Source, o Options) *Server {
	if o.Now == nil {
		o.Now = time.Now
	}
	secret := make([]byte, 16)
	_, _ = rand.Read(secret) // never fails
	s := &Server{source: source, options: o, token: hex.EncodeToString(secret), news: make(chan struct{}), mux: http.NewServeMux()}
	s.routes()
	return s
}

// Address is what people open to see the pages that are served at a host and port.
func (s *Server) Address(at string) string {
	return (&url.URL{Scheme: "http", Host: at, Path: "/", RawQuery: url.Values{"token": {s.token}}.Encode()}).String()
}

// Follow asks the source until the context ends.
func (s *Server) Follow(ctx context.Context) {
	for {
		begin := s.options.Now()
		s.Ask(ctx)
		wait := max(s.options.Every, shareOfTime*s.options.Now().Sub(begin))
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// Ask asks the source once.
func (s *Server) Ask(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, maxAnswer)
	defer cancel()
	d, err := s.source.State(ctx)
	var c *Cluster
	if err == nil {
		c, err = Read(d)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed = err; err == nil {
		s.cluster, s.history = c, s.history.add(c)
	}
	close(s.news)
	s.news = make(chan struct{})
}

//go:embed static
var static embed.FS

func (s *Server) routes() {
	for _, p := range pages {
		s.mux.HandleFunc("GET "+p.path, s.page(p))
	}
	s.mux.HandleFunc("GET /events", s.stream)
	s.mux.Handle("GET /static/", http.FileServerFS(static))
}

// cookie is the name of the cookie that has the token after the first page. Browsers do not tell ports of one host apart, so that each server has a name of its own.
func (s *Server) cookie() string { return "hilbert-dashboard-" + s.token[:8] }

// ServeHTTP serves browsers that have the token.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	if !isLoopback(r.Host) {
		http.Error(w, "this server answers to 127.0.0.1, ::1 and localhost only", http.StatusForbidden)
		return
	}
	if given := r.URL.Query().Get("token"); given != "" && s.isToken(given) {
		http.SetCookie(w, &http.Cookie{Name: s.cookie(), Value: given, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
		http.Redirect(w, r, r.URL.Path, http.StatusSeeOther)
		return
	}
	if c, err := r.Cookie(s.cookie()); err != nil || !s.isToken(c.Value) {
		http.Error(w, "open the address that hilbert dashboard has printed: it has the token", http.StatusForbidden)
		return
	}
	s.mux.ServeHTTP(w, r)
}

func (s *Server) isToken(given string) bool {
	return subtle.ConstantTimeCompare([]byte(given), []byte(s.token)) == 1
}

// isLoopback reports whether a request's Host names this machine. A page elsewhere could have its own name point here.
func isLoopback(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	ip := net.ParseIP(name)
	return name == "localhost" || ip != nil && ip.IsLoopback()
}

// page serves a page: the whole of it, or what is in its frame.
func (s *Server) page(p page) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		v := &view{Page: p, Cluster: s.cluster, Failed: s.failed, History: s.history, Source: s.source.Name(), Now: s.options.Now(), Path: r.URL.Path}
		s.mu.Unlock()
		var err error
		if v.Ready() {
			v.Shown, err = p.show(r, s.source, v.Cluster)
		}
		code := http.StatusOK
		var missing *missingError
		switch {
		case errors.As(err, &missing):
			v.Problem, code = err.Error(), http.StatusNotFound
		case err != nil:
			v.Problem, code = err.Error(), http.StatusBadGateway
		}
		var body bytes.Buffer
		if err := v.write(&body); err != nil {
			http.Error(w, fmt.Sprintf("render the page: %v", err), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(code)
		_, _ = w.Write(body.Bytes()) // the browser has gone
	}
}

// stream tells a browser when there is something new.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	if s.streams >= maxStreams {
		s.mu.Unlock()
		w.Header().Set("Retry-After", "60")
		http.Error(w, fmt.Sprintf("%d pages are open already", maxStreams), http.StatusServiceUnavailable)
		return
	}
	s.streams++
	news := s.news
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.streams--
		s.mu.Unlock()
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	send := func(text string) bool {
		_, err := fmt.Fprint(w, text)
		return err == nil && out.Flush() == nil
	}
	if !send("retry: 2000\n\n") {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), maxStream)
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			return
		case <-news:
			s.mu.Lock()
			news = s.news
			s.mu.Unlock()
			if !send("event: news\ndata: \n\n") {
				return
			}
		}
	}
}
