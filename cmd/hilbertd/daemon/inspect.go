package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"hilbert.dev/hilbert/kube/reach"
	"hilbert.dev/hilbert/schedule/inspect"
)

const (
	// inspectTimeout is how long an answer waits for the loop's copy of its state.
	inspectTimeout = 10 * time.Second
	// maxInspections bounds the answers that are made at once: each holds a copy of the ledger.
	maxInspections = 2
	// defaultQueueLimit and maxQueueLimit bound the pods that /v1/queue names.
	defaultQueueLimit = 500
	maxQueueLimit     = 100_000
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
		case errors.Is(err, reach.ErrUnauthenticated):
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, err.Error(), http.StatusUnauthorized)
		case errors.Is(err, reach.ErrForbidden):
			http.Error(w, err.Error(), http.StatusForbidden)
		case errors.Is(err, reach.ErrTooMany):
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
		if fromHere(r) {
			handle(w, r)
			return
		}
		guarded(w, r)
	}
}

// bearer returns the request's token. Through the API server's proxy it comes in a header of its own.
func bearer(r *http.Request) string {
	for _, header := range []string{"Authorization", reach.HeaderAuthorization} {
		if scheme, token, ok := strings.Cut(r.Header.Get(header), " "); ok && strings.EqualFold(scheme, "Bearer") {
			return strings.TrimSpace(token)
		}
	}
	return ""
}

// dumped calls a handler with a dump of the scheduler.
func (i *inspector) dumped(handle func(http.ResponseWriter, *http.Request, *inspect.Dump)) http.HandlerFunc {
	return i.guarded(func(w http.ResponseWriter, r *http.Request) {
		select {
		case i.slots <- struct{}{}:
			defer func() { <-i.slots }()
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, "others are asking already; try again", http.StatusTooManyRequests)
			return
		}
		l := i.loop
		var dump *inspect.Dump
		synced := false
		answered := l.ask(inspectTimeout, func() {
			if synced = l.synced; synced && r.Context().Err() == nil {
				dump = inspect.Take(l.scheduler, l.config.SchedulerName, l.ports.now())
			}
		})
		switch {
		case !answered:
			http.Error(w, "the scheduling loop has not come round for "+inspectTimeout.String(), http.StatusServiceUnavailable)
		case !synced:
			http.Error(w, "the cluster is not listed yet; try again", http.StatusServiceUnavailable)
		case dump != nil:
			handle(w, r, dump)
		}
	})
}

func (i *inspector) explain(w http.ResponseWriter, r *http.Request, d *inspect.Dump) {
	query := r.URL.Query()
	answer, err := d.Explain(query.Get("namespace"), query.Get("name"))
	if i.failed(w, r, err) {
		return
	}
	i.answer(w, answer)
}

func (i *inspector) node(w http.ResponseWriter, r *http.Request, d *inspect.Dump) {
	answer, err := d.ExplainNode(r.URL.Query().Get("name"))
	if i.failed(w, r, err) {
		return
	}
	i.answer(w, answer)
}

func (i *inspector) unit(w http.ResponseWriter, r *http.Request, d *inspect.Dump) {
	query := r.URL.Query()
	answer, err := d.ExplainUnit(query.Get("namespace"), query.Get("name"))
	if i.failed(w, r, err) {
		return
	}
	i.answer(w, answer)
}

// failed answers with an error, if there is one: 404 if the scheduler does not know the object.
func (i *inspector) failed(w http.ResponseWriter, r *http.Request, err error) bool {
	_, noPod := errors.AsType[*inspect.NoPod](err)
	_, noUnit := errors.AsType[*inspect.NoUnit](err)
	_, noNode := errors.AsType[*inspect.NoNode](err)
	_, noQueue := errors.AsType[*inspect.NoQueue](err)
	switch {
	case err == nil:
		return false
	case noPod || noUnit || noQueue || noNode:
		http.Error(w, err.Error(), http.StatusNotFound)
	default:
		i.loop.log.Error("cannot answer", "question", r.URL.RequestURI(), "err", err)
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
	return true
}

func (i *inspector) queue(w http.ResponseWriter, r *http.Request, d *inspect.Dump) {
	limit := defaultQueueLimit
	if text := r.URL.Query().Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > maxQueueLimit {
			http.Error(w, "limit: want a number from 0 to "+strconv.Itoa(maxQueueLimit), http.StatusBadRequest)
			return
		}
		limit = n
	}
	view, err := d.View(inspect.ViewOptions{Limit: limit, Queue: r.URL.Query().Get("queue")})
	if i.failed(w, r, err) {
		return
	}
	i.answer(w, view)
}

func (i *inspector) snapshot(w http.ResponseWriter, _ *http.Request, d *inspect.Dump) {
	w.Header().Set("Content-Type", "application/json")
	if err := d.Write(w); err != nil { // the client went away
		i.loop.log.Debug("cannot write a snapshot", "err", err)
	}
}

func (i *inspector) configz(w http.ResponseWriter, _ *http.Request) { i.answer(w, i.loop.config) }

func (i *inspector) answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil { // the client went away
		i.loop.log.Debug("cannot answer", "err", err)
	}
}
