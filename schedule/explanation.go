package schedule

import (
	"fmt"
	"maps"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/schedule/place/explain"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/schedule/queue"
)

// explanation says why a shape fits nowhere. It is kept, so that it is worked out at most once per conditions.minInterval.
type explanation struct {
	at        time.Time
	condition facts.Condition
	counts    []FilterCount
	protected map[*quota.Queue]string // by queue: what its units may evict later
	newcomers []facts.UID             // pods that came while units of the shape were being tried: they have no message yet
	known     map[facts.UID]struct{}
}

// maxNewcomers bounds newcomers. The others have their message with the next explanation.
const maxNewcomers = 1024

// addNewcomer takes note of a pod that joins units which are being tried, once.
func (e *explanation) addNewcomer(uid facts.UID) {
	if _, known := e.known[uid]; known || len(e.newcomers) >= maxNewcomers {
		return
	}
	if e.known == nil {
		e.known = make(map[facts.UID]struct{})
	}
	e.known[uid] = struct{}{}
	e.newcomers = append(e.newcomers, uid)
}

// protectedFor is what is said of what units of a queue may evict later: as long as the explanation holds the same, so that it is not written anew each time
// that the protection of one more pod ends. Empty: there is nothing.
func (e *explanation) protectedFor(q *quota.Queue, now string) string {
	if now == "" {
		return ""
	}
	if e.protected == nil {
		e.protected = make(map[*quota.Queue]string)
	}
	if e.protected[q] == "" {
		e.protected[q] = now
	}
	return e.protected[q]
}

// takeNewcomers returns the newcomers, who are told now.
func (e *explanation) takeNewcomers() []facts.UID {
	list := e.newcomers
	e.newcomers, e.known = nil, nil
	return list
}

const (
	// maxExplanations is how many explanations are kept before the outdated ones are dropped.
	maxExplanations = 4096
	// maxExplained is how many shapes of one namespace are explained within conditions.minInterval. An explanation asks every node, so that without a
	// bound one namespace with thousands of different pods that fit nowhere would take the scheduler from all others.
	maxExplained = 64
)

// explanations are the latest explanation of each shape that fits nowhere.
//
// Example: a namespace creates 1,000 pods of 1,000 sizes, and none fits. 64 sizes are explained. The other pods are told that no node fits them,
// and that the details are worked out later. After conditions.minInterval the next 64 that are tried are explained.
type explanations struct {
	interval time.Duration // conditions.minInterval
	byShape  map[*queue.Shape]*explanation
	order    []explained // the oldest first; some have been replaced since
	spent    map[string]spending
	refused  int // by spend
}

type explained struct {
	shape *queue.Shape
	why   *explanation
}

// spending is how many shapes of a namespace were explained since a time.
type spending struct {
	since time.Time
	count int
}

func newExplanations(interval time.Duration) explanations {
	return explanations{interval: interval, byShape: make(map[*queue.Shape]*explanation), spent: make(map[string]spending)}
}

// set keeps the explanation of a shape, and drops outdated ones when there are too many.
func (e *explanations) set(shape *queue.Shape, why *explanation) {
	e.byShape[shape] = why
	e.order = append(e.order, explained{shape, why})
	for len(e.order) > maxExplanations {
		oldest := e.order[0]
		current := e.byShape[oldest.shape] == oldest.why
		if current && why.at.Before(oldest.why.at.Add(e.interval)) {
			return
		}
		if current {
			delete(e.byShape, oldest.shape)
		}
		e.order = e.order[1:]
	}
}

// of is the latest explanation of a shape, nil if there is none.
func (e *explanations) of(shape *queue.Shape) *explanation { return e.byShape[shape] }

// recent is the latest explanation of a shape if it is not due to be worked out again, else nil.
func (e *explanations) recent(shape *queue.Shape, now time.Time) *explanation {
	if why := e.byShape[shape]; why != nil && now.Before(why.at.Add(e.interval)) {
		return why
	}
	return nil
}

// spend reports whether one more shape of a namespace may be explained now, and counts it.
func (e *explanations) spend(namespace string, now time.Time) bool {
	s := e.spent[namespace]
	if !now.Before(s.since.Add(e.interval)) {
		s = spending{since: now}
	}
	s.count++
	e.spent[namespace] = s
	if len(e.spent) > maxExplanations {
		maps.DeleteFunc(e.spent, func(_ string, s spending) bool { return !now.Before(s.since.Add(e.interval)) })
	}
	if s.count > maxExplained {
		e.refused++
		return false
	}
	return true
}

// unexplained is what is said of a shape that fits nowhere when the namespace has had its share of explanations.
func unexplained(now time.Time) *explanation {
	return &explanation{at: now, condition: facts.Condition{
		Reason: spec.ReasonUnschedulable,
		Message: fmt.Sprintf("no node fits; more than %d different pods of the namespace fit nowhere, and the reason for this one is worked out later ('hilbert explain pod' works it out now)",
			maxExplained),
	}}
}

func newExplanation(e explain.Explanation, now time.Time) *explanation {
	v := &explanation{at: now, condition: facts.Condition{Reason: spec.ReasonUnschedulable, Message: e.String()}}
	byFilter := make(map[string]int)
	for _, r := range e.Reasons {
		byFilter[r.Filter] += r.Nodes
	}
	for i := range rules.Filters {
		if n := byFilter[rules.Filters[i].Name]; n > 0 {
			v.counts = append(v.counts, FilterCount{Filter: rules.Filters[i].Name, Nodes: n})
		}
	}
	return v
}

func newGangExplanation(e explain.UnitExplanation, now time.Time) *explanation {
	v := &explanation{at: now}
	if e.Short != nil {
		v = newExplanation(e.Short.Explanation, now)
	}
	v.condition = facts.Condition{Reason: spec.ReasonUnschedulable, Message: e.String()}
	if e.Unpacked() {
		v.condition.Reason = spec.ReasonTopologyPlacementFailed
	}
	return v
}
