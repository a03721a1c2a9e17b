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
	// maxDone bounds the events of placements and preemptions that wait to be written.
	maxDone = 4096
)

// Pods writes what happens to pods and gangs: FailedScheduling where one waits, with what its condition says, the first time at once and then at most each
// failureInterval if that has changed; Preempted about a pod that was deleted to make room; Scheduled about a gang that is whole and, if asked for, about each pod
// that is placed, which is one more write for each pod. Its methods must not be called concurrently.
//
// Example: p waits, "2 nodes: cpu"; an Event says so. Its condition changes each minute; after five minutes another Event has the newest message.
type Pods struct {
	store     *cluster.Store
	scheduled bool
	waiting   map[subject]*failure
	due       []subject    // failures to be told, the oldest first
	told      []toldAt     // failures that may be told again, by when they were told
	changed   int          // of told, those whose message is another by now
	done      []bind.Write // placements and preemptions to be told
	dropped   uint64       // of those, not told
	tokens    bucket
	flights   map[uint64]struct{}
	next      uint64
	ready     []bind.Write
}

// subject is a pod, or a gang.
type subject struct {
	pod  facts.UID
	unit facts.UnitName
}

// failure is what there is to tell of a pod or gang that waits.
type failure struct {
	want, said string
	due        bool
	at         time.Time // of the last event; zero: none
}

type toldAt struct {
	subject
	at time.Time
}

// NewPods returns a Pods over the ledger. With scheduled it tells of each pod that is placed.
func NewPods(store *cluster.Store, scheduled bool) *Pods {
	return &Pods{store: store, scheduled: scheduled, waiting: make(map[subject]*failure), flights: make(map[uint64]struct{})}
}

// TellPlacements says whether it tells of each pod that is placed from now on.
func (p *Pods) TellPlacements(yes bool) { p.scheduled = yes }

// Backlog is what is to be written, and what was left out because too much was.
type Backlog struct {
	Failures, Placements int    // a preemption counts as a placement
	Dropped              uint64 // placements
}

// Backlog says how much there is to tell.
func (p *Pods) Backlog() Backlog { return Backlog{len(p.due), len(p.done), p.dropped} }

// Failed takes note of why a pod waits.
func (p *Pods) Failed(pod *cluster.Pod, message string) { p.failed(subject{pod: pod.UID}, message) }

// UnitFailed takes note of why a gang waits.
func (p *Pods) UnitFailed(u *cluster.Unit, message string) {
	p.failed(subject{unit: u.UnitName}, message)
}

func (p *Pods) failed(of subject, message string) {
	f := p.waiting[of]
	if f == nil {
		f = &failure{}
		p.waiting[of] = f
	}
	p.count(f, -1)
	f.want = message
	p.count(f, 1)
	if f.at.IsZero() && !f.due && f.want != f.said {
		f.due = true
		p.due = append(p.due, of)
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
	if p.scheduled {
		p.tell(event(pod, spec.ReasonEventScheduled, "Successfully assigned "+pod.Namespace+"/"+pod.Name+" to "+pod.Node()))
	}
}

// UnitPlaced takes note that a gang is whole.
func (p *Pods) UnitPlaced(u *cluster.Unit, message string) {
	p.ForgetUnit(u.UnitName)
	p.tell(unitEvent(u, spec.ReasonEventScheduled, message))
}

// Preempted takes note that a pod on a node was deleted, for another to take its place. Who may read the events of a namespace learns of another namespace's pod no
// more than its UID.
func (p *Pods) Preempted(victim bind.PodName, node string, by *cluster.Pod) {
	w := bind.Write{
		Kind: bind.WriteEvent, Pod: victim.UID, Namespace: victim.Namespace, Name: victim.Name,
		Condition: facts.Condition{Reason: spec.ReasonEventPreempted, Message: "Preempted by pod " + string(by.UID) + " on node " + node},
	}
	if by.Namespace == victim.Namespace {
		w.Related = bind.PodName{Namespace: by.Namespace, Name: by.Name, UID: by.UID}
		w.Condition.Message = "Preempted by pod " + string(by.UID) + " (" + by.Name + ") on node " + node
	}
	p.tell(w)
}

// tell queues an event of what has happened.
func (p *Pods) tell(w bind.Write) {
	if len(p.done) >= maxDone {
		p.dropped++
		return
	}
	p.done = append(p.done, w)
}

// Forget drops what is known of a pod that does not wait any more.
func (p *Pods) Forget(pod facts.UID) { p.forget(subject{pod: pod}) }

// ForgetUnit drops what is known of a gang that does not wait any more.
func (p *Pods) ForgetUnit(name facts.UnitName) { p.forget(subject{unit: name}) }

func (p *Pods) forget(of subject) {
	if f := p.waiting[of]; f != nil {
		p.count(f, -1)
		delete(p.waiting, of)
	}
}

func event(pod *cluster.Pod, reason, message string) bind.Write {
	return bind.Write{Kind: bind.WriteEvent, Pod: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Condition: facts.Condition{Reason: reason, Message: message}}
}

func unitEvent(u *cluster.Unit, reason, message string) bind.Write {
	return bind.Write{
		Kind: bind.WriteEvent, Unit: u.UnitName, UnitUID: u.Facts.UID, Namespace: u.Namespace, Name: u.Name,
		Condition: facts.Condition{Reason: reason, Message: message},
	}
}

// failureOf is the event of a pod or gang that waits; false if it does not any more.
func (p *Pods) failureOf(of subject, message string) (bind.Write, bool) {
	if of.pod != "" {
		pod := p.store.Pod(of.pod)
		if pod == nil || pod.Phase != cluster.Pending {
			return bind.Write{}, false
		}
		return event(pod, spec.ReasonEventFailedScheduling, message), true
	}
	u := p.store.Units().Get(of.unit)
	if u == nil || u.Facts == nil {
		return bind.Write{}, false
	}
	return unitEvent(u, spec.ReasonEventFailedScheduling, message), true
}

// Ready returns the writes to start now. The slice is valid until the next call.
func (p *Pods) Ready(now time.Time) []bind.Write {
	p.ready = p.ready[:0]
	for len(p.done) > 0 && len(p.flights) < MaxPodsInFlight {
		p.start(p.done[0])
		p.done = p.done[1:]
	}
	for len(p.told) > 0 && now.Sub(p.told[0].at) >= failureInterval {
		if f := p.waiting[p.told[0].subject]; f != nil && f.at.Equal(p.told[0].at) {
			p.count(f, -1)
			f.at = time.Time{}
			if f.want != f.said {
				f.due = true
				p.due = append(p.due, p.told[0].subject)
			}
		}
		p.told = p.told[1:]
	}
	for len(p.due) > 0 && len(p.flights) < MaxPodsInFlight && p.tokens.fill(now, failuresPerSecond, failuresBurst) {
		of := p.due[0]
		p.due = p.due[1:]
		f := p.waiting[of]
		if f == nil || !f.due {
			continue
		}
		f.due = false
		w, waits := p.failureOf(of, f.want)
		if !waits {
			delete(p.waiting, of)
			continue
		}
		if f.want == f.said { // it is as it was, meanwhile
			continue
		}
		f.said, f.at = f.want, now
		p.told = append(p.told, toldAt{of, now})
		p.tokens.tokens--
		p.start(w)
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
	case len(p.done) > 0 && !full:
		return now, true
	case len(p.due) > 0 && !full:
		return now.Add(time.Second / failuresPerSecond), true
	case p.changed > 0:
		return p.told[0].at.Add(failureInterval), true
	}
	return time.Time{}, false
}
