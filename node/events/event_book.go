package events

import (
	"cmp"
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/report"
)

// eventEnds is how long an event stays in the report after its last repetition: then it begins anew. The API server keeps an Event for an hour.
const eventEnds = 30 * time.Minute

// eventBook is what the report tells people. What repeats, about the same pod and with the same reason, is one event with a count; its message is the first one's.
// Beyond spec.MaxNodeEvents the one that has been silent longest is left out.
type eventBook struct {
	events  []spec.NodeEvent // the oldest first
	dropped uint64           // events that were left out
}

// record counts an event about a pod, or with an empty name about the node.
func (b *eventBook) record(p spec.PodRef, reason, message string, now time.Time) {
	now = now.UTC().Truncate(time.Microsecond)
	for i := range b.events {
		if e := &b.events[i]; e.Reason == reason && podOfEvent(e) == p {
			e.Count, e.Last = e.Count+1, now
			return
		}
	}
	if len(b.events) >= spec.MaxNodeEvents {
		silent := slices.MinFunc(b.events, func(a, b spec.NodeEvent) int { return cmp.Or(a.Last.Compare(b.Last), a.First.Compare(b.First)) })
		b.events = slices.DeleteFunc(b.events, func(e spec.NodeEvent) bool { return e == silent })
		b.dropped++
	}
	e := spec.NodeEvent{Reason: reason, Message: report.Message(message), Count: 1, First: now, Last: now}
	if p != (spec.PodRef{}) {
		e.Pod = &p
	}
	b.events = append(b.events, e)
}

func podOfEvent(e *spec.NodeEvent) spec.PodRef {
	if e.Pod == nil {
		return spec.PodRef{}
	}
	return *e.Pod
}

// expire leaves out what has not been repeated for long.
func (b *eventBook) expire(now time.Time) {
	b.events = slices.DeleteFunc(b.events, func(e spec.NodeEvent) bool { return now.Sub(e.Last) >= eventEnds })
}

// status is what the report says.
func (b *eventBook) status() []spec.NodeEvent { return slices.Clone(b.events) }
