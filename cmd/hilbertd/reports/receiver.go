package reports

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"hilbert.dev/hilbert/cmd/hilbertd/tokenfile"
	"hilbert.dev/hilbert/control/metrics"
	kubemetrics "hilbert.dev/hilbert/kube/metrics"
	"hilbert.dev/hilbert/kube/visibility"
)

const (
	// maxReport bounds a report, in bytes, and maxReading how many are read at once; readTimeout bounds the reading of one.
	maxReport   = 2 << 20
	maxReading  = 32
	readTimeout = 5 * time.Second
	// between is the least time between two reports of a node.
	between = time.Second
	// maxNodes is how many nodes' last times are kept before old ones are forgotten.
	maxNodes = 1 << 16
)

// Receiver takes reports. It is an http.Handler.
type Receiver struct {
	// Identify is the node of a token; kube/metrics.NewNodes makes who knows it.
	Identify func(ctx context.Context, token string) (node string, err error)
	// Take takes a report in.
	Take func(node string, r *metrics.Report, now time.Time) metrics.Taken
	Log  *slog.Logger

	reading atomic.Int64
	mu      sync.Mutex
	last    map[string]time.Time // by node

	results [results]atomic.Int64
	pods    [3]atomic.Int64 // taken, unknown, foreign
}

// result is what became of a report.
type result int

const (
	taken result = iota
	refused
	bad
	limited
	results
)

// Results are how many reports were taken, refused because of who sent them, could not be read, or came too soon or too many at once.
func (r *Receiver) Results() map[string]int64 {
	return map[string]int64{
		"taken": r.results[taken].Load(), "refused": r.results[refused].Load(), "bad": r.results[bad].Load(), "limited": r.results[limited].Load(),
	}
}

// Pods are how many pods of reports were taken in, did not exist, or were not of the node that told of them.
func (r *Receiver) Pods() map[string]int64 {
	return map[string]int64{"taken": r.pods[0].Load(), "unknown": r.pods[1].Load(), "foreign": r.pods[2].Load()}
}

// ServeHTTP implements http.Handler.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	token, ok := strings.CutPrefix(request.Header.Get("Authorization"), "Bearer ")
	if !ok || token == "" || len(token) > tokenfile.Max {
		r.answer(w, refused, http.StatusUnauthorized, "send a bearer token")
		return
	}
	node, err := r.Identify(request.Context(), token)
	switch {
	case errors.Is(err, visibility.ErrTooMany):
		r.answer(w, limited, http.StatusTooManyRequests, err.Error())
		return
	case errors.Is(err, kubemetrics.ErrStranger), errors.Is(err, visibility.ErrUnauthenticated):
		r.answer(w, refused, http.StatusForbidden, err.Error())
		return
	case err != nil:
		r.Log.Debug("cannot say whose token it is", "err", err)
		r.answer(w, limited, http.StatusServiceUnavailable, "the API server could not say whose token it is")
		return
	}
	now := time.Now()
	if !r.turn(node, now) {
		r.answer(w, limited, http.StatusTooManyRequests, "one report a second is taken of a node")
		return
	}
	defer r.reading.Add(-1)
	if r.reading.Add(1) > maxReading { // agents alone come this far: whoever else asks takes no agent's place
		r.answer(w, limited, http.StatusTooManyRequests, "too many reports are being read; send the next one")
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(now.Add(readTimeout)) // not every ResponseWriter has deadlines
	text, err := io.ReadAll(http.MaxBytesReader(w, request.Body, maxReport))
	if err != nil {
		r.answer(w, bad, http.StatusRequestEntityTooLarge, fmt.Sprintf("the report is longer than %d bytes, or was not sent in %s", maxReport, readTimeout))
		return
	}
	report, err := metrics.ReadReport(text)
	if err != nil {
		r.answer(w, bad, http.StatusBadRequest, err.Error())
		return
	}
	t := r.Take(node, report, time.Now())
	for i, n := range []int{t.Taken, t.Unknown, t.Foreign} {
		r.pods[i].Add(int64(n))
	}
	if t.Foreign > 0 {
		r.Log.Warn("a node's agent tells of pods that are not its own; they are left out", "node", node, "pods", t.Foreign)
	}
	r.results[taken].Add(1)
	w.WriteHeader(http.StatusNoContent)
}

func (r *Receiver) answer(w http.ResponseWriter, what result, code int, text string) {
	r.results[what].Add(1)
	http.Error(w, text, code)
}

// turn reports whether a report of the node may be taken now.
func (r *Receiver) turn(node string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, known := r.last[node]; known && now.Sub(last) < between {
		return false
	}
	if r.last == nil {
		r.last = make(map[string]time.Time)
	}
	if len(r.last) >= maxNodes {
		maps.DeleteFunc(r.last, func(_ string, last time.Time) bool { return now.Sub(last) >= between })
	}
	r.last[node] = now
	return true
}
