package apiserver

import (
	"context"
	"errors"
	"log/slog"
	"sync"
)

// Health logs when something that is tried again and again begins to fail and when it works again, and nothing in between.
type Health struct {
	Log  *slog.Logger
	What string

	mu      sync.Mutex
	failing bool
	tries   int
}

func (h *Health) Failed(err error) {
	if errors.Is(err, context.Canceled) {
		return // we stopped it ourselves
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tries++
	if h.failing {
		h.Log.Debug("still cannot reach "+h.What, "err", err, "tries", h.tries)
		return
	}
	h.failing, h.tries = true, 1
	h.Log.Warn("cannot reach "+h.What+"; retrying with backoff", "err", err)
}

func (h *Health) Succeeded() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failing {
		h.Log.Info("reached "+h.What+" again", "tries", h.tries)
	}
	h.failing, h.tries = false, 0
}

func (h *Health) Note(err error) {
	if err != nil {
		h.Failed(err)
		return
	}
	h.Succeeded()
}
