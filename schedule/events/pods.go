package events

import (
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/bind"
)

const (
	// MaxPodsInFlight bounds the writes of events about pods under way.
	MaxPodsInFlight = 8
	// failuresPerSecond and failuresBurst bound the events of pods that wait.
	failuresPerSecond = 20
	failuresBurst     = 100
	// failureInterval is the least time between two events of one pod that waits.
	failureInterval = 5 * time.Minute
	// maxPlaced bounds the events of placed pods that wait to be written.
	maxPlaced = 4096
)

// Pods writes what happens to pods: FailedScheduling where one waits, with what its condition says, the first time at once and then at most each failureInterval
// if that has changed; and, if asked for, Scheduled for each that is placed, which is one more write for each pod. Its methods must not be called concurrently.
//
// Example: p waits, "2 nodes: cpu"; an Event says so. Its condition changes each minute; after five minutes another Event has the newest message.
type Pods struct {
	store     *cluster.Store
	scheduled bool
	waiting   map[facts.UID]*failure
	due       []facts.UID // failures to be told, the oldest first
	told      []toldAt    // failures that may be told again, by when they were told
	changed   int         // of told, those whose message is another by now
	placed    []bind.Write
	dropped   uint64 // placements that were not told
	tokens    bucket
	flights   map[uint64]struct{}
	next      uint64
	ready     []bind.Write
}

// failure is what there is to tell of a pod that waits.
type failure struct {
	want, said string
	due        bool
	at         time.Time // of the last event; zero: none
}

type toldAt struct {
	pod facts.UID
	at  time.Time
}

// NewPods returns a Pods over the ledger. With scheduled it tells of each pod that is placed.
func NewPods(store *cluster.Store, scheduled bool) *Pods {
	return &Pods{store: store, scheduled: scheduled, waiting: make(map[facts.UID]*failure), flights: make(map[uint64]struct{})}
}

// Backlog is what is to be written, and what was left out because too much was.
type Backlog struct {
	Failures, Placements int
	Dropped              uint64 // placements
}

// Backlog says how much there is to tell.
func (p *Pods) Backlog() Backlog { return Backlog{len(p.due), len(p.placed), p.dropped} }

// Failed takes note of why a pod waits.
func (p *Pods) Failed(pod *cluster.Pod, message string) {
	f := p.waiting[pod.UID]
	if f == nil {
		f = &failure{}
		p.waiting[pod.UID] = f
	}
	p.count(f, -1)
	f.want = message
	p.count(f, 1)
	if f.at.IsZero() && !f.due && f.want != f.said {
		f.due = true
		p.due = append(p.due, pod.UID)
	}
}

// count counts a failure that was told, if its message is another by now.
func (p *Pods) count(f *failure, sign int) {
	if !f.at.IsZero() && f.want != f.said {
		p.changed += sign
	}
}

// Placed takes note that a pod was bound.
func (p *Pods) Placed(pod *cluster.Pod) {
	if !p.scheduled {
		return
	}
	if len(p.placed) >= maxPlaced {
		p.dropped++
		return
	}
	p.placed = append(p.placed, event(pod, spec.ReasonEventScheduled, "Successfully assigned "+pod.Namespace+"/"+pod.Name+" to "+pod.Node()))
}

// Forget drops what is known of a pod that does not wait any more.
func (p *Pods) Forget(pod facts.UID) {
	if f := p.waiting[pod]; f != nil {
		p.count(f, -1)
		delete(p.waiting, pod)
	}
}

func event(pod *cluster.Pod, reason, message string) bind.Write {
	return bind.Write{Kind: bind.WriteEvent, Pod: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Condition: facts.Condition{Reason: reason, Message: message}}
}

// Ready returns the writes to start now. The slice is valid until the next call.
func (p *Pods) Ready(now time.Time) []bind.Write {
	p.ready = p.ready[:0]
	for len(p.placed) > 0 && len(p.flights) < MaxPodsInFlight {
		p.start(p.placed[0])
		p.placed = p.placed[1:]
	}
	for len(p.told) > 0 && now.Sub(p.told[0].at) >= failureInterval {
		if f := p.waiting[p.told[0].pod]; f != nil && f.at.Equal(p.told[0].at) {
			p.count(f, -1)
			f.at = time.Time{}
			if f.want != f.said {
				f.due = true
				p.due = append(p.due, p.told[0].pod)
			}
		}
		p.told = p.told[1:]
	}
	for len(p.due) > 0 && len(p.flights) < MaxPodsInFlight && p.tokens.fill(now, failuresPerSecond, failuresBurst) {
		uid := p.due[0]
		p.due = p.due[1:]
		f, pod := p.waiting[uid], p.store.Pod(uid)
		if f == nil || !f.due {
			continue
		}
		if f.due = false; pod == nil || pod.Phase != cluster.Pending {
			delete(p.waiting, uid)
			continue
		}
		if f.want == f.said { // it is as it was, meanwhile
			continue
		}
		f.said, f.at = f.want, now
		p.told = append(p.told, toldAt{uid, now})
		p.tokens.tokens--
		p.start(event(pod, spec.ReasonEventFailedScheduling, f.want))
	}
	return p.ready
}

func (p *Pods) start(w bind.Write) {
	p.next++
	w.ID = bind.WriteID{Owner: bind.OwnerPodEvents, Number: p.next}
	p.flights[p.next] = struct{}{}
	p.ready = append(p.ready, w)
}

// Finish takes the answer to a write whose owner is OwnerPodEvents. An event that could not be written is lost: events are for people.
func (p *Pods) Finish(result bind.Result) { delete(p.flights, result.ID.Number) }

// NextWake is when Ready may have more writes even if nothing changes until then.
func (p *Pods) NextWake(now time.Time) (time.Time, bool) {
	full := len(p.flights) >= MaxPodsInFlight
	switch {
	case len(p.placed) > 0 && !full:
		return now, true
	case len(p.due) > 0 && !full:
		return now.Add(time.Second / failuresPerSecond), true
	case p.changed > 0:
		return p.told[0].at.Add(failureInterval), true
	}
	return time.Time{}, false
}
