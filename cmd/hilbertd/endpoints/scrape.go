package endpoints

import (
	"bytes"
	"maps"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// maxScrapes bounds the scrapes that are made at once: each asks the loop. Others wait for waitTimeout.
	maxScrapes  = 4
	waitTimeout = 5 * time.Second
	// maxSending bounds the scrapes that are being sent, of some hundred KiB each, and sendTimeout the time that a client may take to read one.
	maxSending  = 64
	sendTimeout = 5 * time.Second
)

// Scrapes serves metrics. A scrape is made in memory and then sent, so that a client that reads slowly keeps no other from having one made.
type Scrapes struct {
	metrics         http.Handler
	making, sending chan struct{}
}

func NewScrapes(registry *prometheus.Registry) *Scrapes {
	return &Scrapes{
		metrics: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
		making:  make(chan struct{}, maxScrapes), sending: make(chan struct{}, maxSending),
	}
}

// ServeHTTP implements http.Handler.
func (s *Scrapes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case s.sending <- struct{}{}:
		defer func() { <-s.sending }()
	default:
		http.Error(w, "too many scrapes are under way; try again", http.StatusServiceUnavailable)
		return
	}
	answer, ok := s.make(r)
	if !ok {
		http.Error(w, "others are scraping; try again", http.StatusServiceUnavailable)
		return
	}
	// Not every ResponseWriter has deadlines; the server's own bounds those.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(sendTimeout))
	maps.Copy(w.Header(), answer.header)
	w.WriteHeader(answer.status)
	_, _ = w.Write(answer.body.Bytes()) // the client went away
}

// make makes a scrape in memory; false where too many are being made.
func (s *Scrapes) make(r *http.Request) (*buffered, bool) {
	timer := time.NewTimer(waitTimeout)
	defer timer.Stop()
	select {
	case s.making <- struct{}{}:
		defer func() { <-s.making }()
	case <-timer.C:
		return nil, false
	case <-r.Context().Done():
		return nil, false
	}
	b := &buffered{header: http.Header{}, status: http.StatusOK}
	s.metrics.ServeHTTP(b, r)
	return b, true
}

// buffered is an answer in memory.
type buffered struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (b *buffered) Header() http.Header                { return b.header }
func (b *buffered) WriteHeader(status int)             { b.status = status }
func (b *buffered) Write(data []byte) (n int, _ error) { return b.body.Write(data) }
