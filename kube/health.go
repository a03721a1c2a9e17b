package kube

import (
	"context"
	"errors"
	"log/slog"
	"sync"
)

// health logs when something that is tried again and again begins to fail and when it works again, and nothing in between.
type health struct {
	log  *slog.Logger
	what string

	mu      sync.Mutex
	failing bool
	tries   int
}

func (h *health) failed(err error) {
	if errors.Is(err, context.Canceled) {
		return // we stopped it ourselves
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tries++
	if h.failing {
		h.log.Debug("still cannot reach "+h.what, "err", err, "tries", h.tries)
		return
	}
	h.failing, h.tries = true, 1
	h.log.Warn("cannot reach "+h.what+"; trying again with a backoff", "err", err)
}

func (h *health) succeeded() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failing {
		h.log.Info("reached "+h.what+" again", "tries", h.tries)
	}
	h.failing, h.tries = false, 0
}
