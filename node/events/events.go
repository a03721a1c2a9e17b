package events

import (
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/allocate"
)

// Problems are what keeps the node from being seen or ruled whole: a message for each reason.
type Problems map[string]string

// Set says that there is a problem, in place of what was said of it before.
func (t Problems) Set(reason, message string) { t[reason] = message }

// Resolve says that there is none any more.
func (t Problems) Resolve(reason string) { delete(t, reason) }

// severity orders the reasons: the condition's own reason is the first that holds.
var severity = []string{
	spec.ReasonRuntimeLost, spec.ReasonKnobRefused, spec.ReasonCheckpointLost, spec.ReasonBestEffortWeight, spec.ReasonKubeletUnknown, spec.ReasonKubeletEvictsFirst,
	spec.ReasonTooManyNUMANodes, spec.ReasonNoNUMAInformation, spec.ReasonPressureMissing, spec.ReasonCountersReversed, spec.ReasonClockJumped,
}

// Condition is AgentReady.
func (t Problems) Condition(mode, why string) spec.NodeCondition {
	c := spec.NodeCondition{Type: spec.ConditionAgentReady, Reason: spec.ReasonAgentRunning, True: true}
	if mode == spec.ModeKubelet {
		c.Reason, c.Message = spec.ReasonKubeletRules, why
	}
	if len(t) == 0 {
		return c
	}
	order := slices.Sorted(maps.Keys(t))
	slices.SortStableFunc(order, func(x, y string) int { return rank(x) - rank(y) })
	var words []string
	for _, reason := range order {
		words = append(words, reason+": "+t[reason])
	}
	c.True, c.Reason, c.Message = false, order[0], strings.Join(words, "; ")
	return c
}

func rank(reason string) int {
	if i := slices.Index(severity, reason); i >= 0 {
		return i
	}
	return len(severity)
}

// transientFor is how long something that happened once stays in the condition.
const transientFor = time.Minute

// Recorder tells people what happens: the report lists each note, for hilbertd to write it as an Event, a count by reason, and the condition AgentReady for as long
// as there is a problem.
//
// A problem stands until it is resolved, for example that the runtime is lost. Something that happened and is over, such as a jump of the clock, is
// transient: it stays in the condition for a minute.
type Recorder struct {
	Problems  Problems
	transient map[string]time.Time // until when, by reason
	counts    map[string]uint64    // notes, by reason
	book      eventBook
	log       *slog.Logger
	now       func() time.Time
}

// NewRecorder returns a recorder that has nothing to tell yet. It counts notes in counts, by reason.
func NewRecorder(log *slog.Logger, now func() time.Time, counts map[string]uint64) *Recorder {
	return &Recorder{Problems: make(Problems), transient: make(map[string]time.Time), counts: counts, log: log, now: now}
}

// Status is what the report says of what happened.
func (e *Recorder) Status() []spec.NodeEvent { return e.book.status() }

// Dropped is how many events the report had no room for.
func (e *Recorder) Dropped() uint64 { return e.book.dropped }

// Notes tells of a pod, or of the node where the name is empty.
func (e *Recorder) Notes(p spec.PodRef, notes []allocate.Note) {
	for _, n := range notes {
		e.Note(p, n)
	}
}

// Note tells of a pod, or of the node where the name is empty.
func (e *Recorder) Note(p spec.PodRef, n allocate.Note) {
	e.counts[n.Reason]++
	e.log.Debug("noted", "pod", p.Namespace+"/"+p.Name, "reason", n.Reason, "message", n.Message)
	if p == (spec.PodRef{}) {
		e.log.Warn("about the node", "reason", n.Reason, "message", n.Message)
	}
	e.book.record(p, n.Reason, n.Message, e.now())
}

// NoteTransient tells of something about the node that is over already. While it is in the condition, more of the same is only counted.
func (e *Recorder) NoteTransient(reason, message string) {
	if _, known := e.transient[reason]; known {
		e.counts[reason]++
	} else {
		e.Note(spec.PodRef{}, allocate.Note{Reason: reason, Message: message})
		e.Problems.Set(reason, message)
	}
	e.transient[reason] = e.now().Add(transientFor)
}

// Tick implements ticker: it takes what is over out of the condition.
func (e *Recorder) Tick(now time.Time) (changed bool) {
	for reason, until := range e.transient {
		if now.After(until) {
			delete(e.transient, reason)
			e.Problems.Resolve(reason)
		}
	}
	e.book.expire(now)
	return false
}
