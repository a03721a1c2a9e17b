package relief

import (
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/bind"
)

// The outcome of a request becomes an Event of the pod, once per reason while the node reports the request. Events are for people: the agent sees
// from the pod itself whether it is gone.

const (
	// delayedAfter is how long a request waits for the budget before an event says so.
	delayedAfter = 30 * time.Second
	// eventsPerSecond and eventsBurst bound the events; further ones are dropped.
	eventsPerSecond = 5
	eventsBurst     = 20
)

// eventBudget is a token bucket for events.
type eventBudget struct {
	tokens float64
	filled time.Time
}

func (n *eventBudget) take(now time.Time) bool {
	switch passed := now.Sub(n.filled); {
	case n.filled.IsZero():
		n.tokens, n.filled = eventsBurst, now
	case passed > 0:
		n.tokens, n.filled = min(n.tokens+passed.Seconds()*eventsPerSecond, eventsBurst), now
	}
	if n.tokens < 1 {
		return false
	}
	n.tokens--
	return true
}

// writeEvent queues an event, unless the request has one with this reason or the budget is spent.
func (r *Relief) writeEvent(req *request, reason, message string, now time.Time) {
	if req.events[reason] || len(r.flights)+len(r.pendingEvents) >= MaxInFlight || !r.eventBudget.take(now) {
		return
	}
	if req.events == nil {
		req.events = make(map[string]bool)
	}
	req.events[reason] = true
	r.pendingEvents = append(r.pendingEvents, bind.Write{
		Kind: bind.WriteEvent, Pod: req.UID, Namespace: req.Namespace, Name: req.Name, Condition: facts.Condition{Reason: reason, Message: message},
	})
}

// writeDelayedEvents queues events for requests that have waited long for the budget, and hands out the queued events.
func (r *Relief) writeDelayedEvents(now time.Time) {
	var late []*request
	for _, req := range r.requests {
		if !req.Urgent && req.ready(now) && now.Sub(req.since) >= delayedAfter && !req.events[spec.ReasonEvictionDelayed] {
			late = append(late, req)
		}
	}
	slices.SortFunc(late, r.byTurn)
	for _, req := range late {
		r.writeEvent(req, spec.ReasonEvictionDelayed, "node "+req.node+" wants the pod evicted ("+req.Reason+"); the cluster's eviction budget holds it back", now)
	}
	for len(r.pendingEvents) > 0 && len(r.flights) < MaxInFlight {
		r.send(r.pendingEvents[0], flight{})
		r.pendingEvents = r.pendingEvents[1:]
	}
}

func evictedReason(req *request) string {
	if req.Broken {
		return spec.ReasonEvictedForBrokenPromise
	}
	return spec.ReasonEvictedForPressure
}

func evictedMessage(req *request) string {
	text := "evicted from node " + req.node + ": " + req.Reason
	if req.Message != "" {
		text += ": " + req.Message
	}
	if req.Urgent {
		text += " (urgent)"
	}
	return text
}
