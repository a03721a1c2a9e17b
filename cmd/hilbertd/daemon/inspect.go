package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/kube/devices"
	"hilbert.dev/hilbert/kube/visibility"
	"hilbert.dev/hilbert/schedule/inspect"
)

const (
	// inspectTimeout is how long an answer waits for the loop's copy of its state.
	inspectTimeout = 10 * time.Second
	// maxInspections bounds the answers that are made at once: each holds a copy of the ledger.
	maxInspections = 2
)

// reviewer tells whether a token's user may get a path; kube.Reviewer implements it.
type reviewer interface {
	MayGet(ctx context.Context, token, path string) error
}

// inspector answers questions about scheduling. The loop only makes a copy of its state, which takes about 0.1 s at 200,000 pods. The answer is computed from the
// copy, beside the loop, and changes nothing.
type inspector struct {
	loop     *loop
	reviewer reviewer
	slots    chan struct{}
	refused  atomic.Int64 // answers, because others were being made
}

func newInspector(l *loop, r reviewer) *inspector {
	return &inspector{loop: l, reviewer: r, slots: make(chan struct{}, maxInspections)}
}

// guarded admits requests whose user may get the path.
func (i *inspector) guarded(handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := i.reviewer.MayGet(r.Context(), bearer(r), r.URL.Path)
		switch {
		case err == nil:
			handle(w, r)
		case errors.Is(err, visibility.ErrUnauthenticated):
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, err.Error(), http.StatusUnauthorized)
		case errors.Is(err, visibility.ErrForbidden):
			http.Error(w, err.Error(), http.StatusForbidden)
		case errors.Is(err, visibility.ErrTooMany):
			w.Header().Set("Retry-After", "1")
			http.Error(w, err.Error(), http.StatusTooManyRequests)
		default:
			i.loop.log.Debug("cannot review a request", "path", r.URL.Path, "err", err)
			http.Error(w, "the API server could not authenticate you; try again", http.StatusServiceUnavailable)
		}
	}
}

// guardedElsewhere is guarded for requests that do not come from this host.
func (i *inspector) guardedElsewhere(handle http.HandlerFunc) http.HandlerFunc {
	guarded := i.guarded(handle)
	return func(w http.ResponseWriter, r *http.Request) {
		if visibility.FromHere(r) {
			handle(w, r)
			return
		}
		guarded(w, r)
	}
}

// bearer returns the request's token.
func bearer(r *http.Request) string {
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	return ""
}

// Why there is no dump.
var (
	errBusy      = errors.New("others are asking already; try again")
	errStuck     = errors.New("the scheduling loop has not come round for " + inspectTimeout.String())
	errNotListed = errors.New("the cluster is not listed yet; try again")
)

// enter takes one of the slots.
func (i *inspector) enter() (leave func(), err error) {
	select {
	case i.slots <- struct{}{}:
		return func() { <-i.slots }, nil
	default:
		i.refused.Add(1)
		return nil, errBusy
	}
}

// dump takes a dump of the scheduler; with leads, only of one that leads.
func (i *inspector) dump(ctx context.Context, leads bool) (dump *inspect.Dump, err error) {
	l := i.loop
	if !l.ask(inspectTimeout, func() {
		switch {
		case leads && l.phase != leading:
			err = visibility.ErrFollowing
		case !l.synced:
			err = errNotListed
		default:
			if err = ctx.Err(); err == nil {
				dump = inspect.Take(l.scheduler, l.config.SchedulerName, l.ports.now())
			}
		}
	}) {
		return nil, errStuck
	}
	if err != nil {
		return nil, err
	}
	return dump, devices.Restore(ctx, dump.Ledger) // an allocator is for one goroutine, and the scheduler's own is its own
}

// configz answers with what is in force.
func (i *inspector) configz(w http.ResponseWriter, _ *http.Request) {
	var config *spec.Configuration
	if !i.loop.ask(inspectTimeout, func() { config = i.loop.config }) {
		http.Error(w, errStuck.Error(), http.StatusServiceUnavailable)
		return
	}
	i.answer(w, config)
}

func (i *inspector) answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil { // the client went away
		i.loop.log.Debug("cannot answer", "err", err)
	}
}
