package agent

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/kube/apiserver"
)

// The budget of a node's events. 20,000 nodes that are all in trouble write 333 a second, a quarter of what an API server takes.
const (
	eventBurst  = 10
	eventRefill = time.Minute // for one more
	// maxSeries bounds the series that are remembered, and so what can wait.
	maxSeries = 256
	// seriesInterval is the least time between two writes of one series.
	seriesInterval = 5 * time.Minute
	// seriesEnds after so long without a repetition: then it begins anew. The API server keeps an event for an hour.
	seriesEnds = 30 * time.Minute
)

// normalEvents are the reasons of events of type Normal; all others are Warnings.
var normalEvents = map[string]bool{spec.ReasonPromiseMoved: true}

// eventBook counts what repeats, about the same object and with the same reason, and says what is to be written when. The note of a series
// is its first one's: the API server lets nobody change it.
type eventBook struct {
	series  map[seriesKey]*eventSeries
	order   []seriesKey // by when they began
	budget  float64
	filled  time.Time
	dropped uint64
	named   int64 // the number in the last name
}

type seriesKey struct {
	uid    types.UID
	reason string
}

type eventSeries struct {
	about       corev1.ObjectReference
	name        string
	note        string
	first, last time.Time
	count       int32     // how often it was
	told        int32     // how often the last write said it was
	written     time.Time // the last write
	created     bool
	failures    int // of this write, so far
}

// eventOutcome is what became of a write.
type eventOutcome uint8

const (
	eventTold  eventOutcome = iota // or refused for good
	eventAgain                     // not taken up
	eventGone                      // the event that should count on has been forgotten
)

// maxEventFailures is how often a write is tried.
const maxEventFailures = 5

// eventWrite is one write: with a count of 1 the event is created.
type eventWrite struct {
	key         seriesKey
	about       corev1.ObjectReference
	name        string
	reason      string
	note        string
	first, last time.Time
	count       int32
}

func newEventBook(now time.Time) *eventBook {
	return &eventBook{series: make(map[seriesKey]*eventSeries), budget: eventBurst, filled: now}
}

// record counts one event. One that would be the first of too many series is dropped.
func (b *eventBook) record(now time.Time, about corev1.ObjectReference, reason, note string) {
	key := seriesKey{about.UID, reason}
	s := b.series[key]
	if s != nil && now.Sub(s.last) < seriesEnds {
		s.count, s.last = s.count+1, now
		return
	}
	if s != nil {
		b.forget(key)
	}
	b.expire(now)
	if len(b.series) >= maxSeries {
		b.dropped++
		return
	}
	note = strings.ToValidUTF8(note, "?")
	for len(note) > apiserver.MaxEventNote {
		_, size := utf8.DecodeLastRuneInString(note)
		note = note[:len(note)-size]
	}
	b.series[key] = &eventSeries{about: about, name: b.name(about.Name, now), note: note, first: now, last: now, count: 1}
	b.order = append(b.order, key)
}

// expire forgets series that have ended and have nothing left to tell.
func (b *eventBook) expire(now time.Time) {
	kept := b.order[:0]
	for _, key := range b.order {
		if s := b.series[key]; s.told == s.count && now.Sub(s.last) >= seriesEnds {
			delete(b.series, key)
			continue
		}
		kept = append(kept, key)
	}
	b.order = kept
}

func (b *eventBook) forget(key seriesKey) {
	delete(b.series, key)
	for i := range b.order {
		if b.order[i] == key {
			b.order = append(b.order[:i], b.order[i+1:]...)
			return
		}
	}
}

// next is what to write now, nil for nothing, and how long until there may be something. What begins comes before what repeats.
func (b *eventBook) next(now time.Time) (*eventWrite, time.Duration) {
	if passed := now.Sub(b.filled); passed > 0 {
		b.budget = min(b.budget+passed.Seconds()/eventRefill.Seconds(), eventBurst)
	}
	b.filled = now
	wait := seriesEnds
	var best *eventSeries
	var at seriesKey
	for _, key := range b.order {
		s := b.series[key]
		if s.told == s.count {
			continue
		}
		if due := seriesInterval - now.Sub(s.written); s.created && due > 0 {
			wait = min(wait, due)
			continue
		}
		if best == nil || best.created && !s.created {
			best, at = s, key
		}
	}
	if best == nil {
		return nil, wait
	}
	if b.budget < 1 {
		return nil, time.Duration(math.Ceil((1 - b.budget) * float64(eventRefill))) // a part of a nanosecond would be no time at all
	}
	b.budget--
	w := &eventWrite{
		key: at, about: best.about, name: best.name, reason: at.reason, note: best.note, first: best.first, last: best.last, count: best.count,
	}
	if !best.created {
		w.count = 1 // what came after is told as a repetition
	}
	best.written = now
	return w, 0
}

// ended says what became of a write. What was not taken up is told again when the budget allows, a few times.
func (b *eventBook) ended(now time.Time, w *eventWrite, outcome eventOutcome) {
	s := b.series[w.key]
	switch {
	case s == nil || s.name != w.name: // it has begun anew meanwhile
	case outcome == eventGone:
		s.name, s.created, s.told = b.name(s.about.Name, now), false, 0
	case outcome == eventAgain && s.failures < maxEventFailures:
		s.failures++
		s.written = time.Time{}
	default:
		s.created, s.told, s.failures = true, w.count, 0
	}
}

// name is a new name, by the time, and another each time.
func (b *eventBook) name(object string, at time.Time) string {
	const most = 253 - 17 // the longest name, without the dot and the number
	b.named = max(at.UnixNano(), b.named+1)
	return fmt.Sprintf("%s.%016x", object[:min(len(object), most)], b.named)
}
