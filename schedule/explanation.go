package schedule

import (
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/place/explain"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// explanation says why a shape fits nowhere. It is kept, so that it is worked out at most once per conditions.minInterval.
type explanation struct {
	at        time.Time
	condition facts.Condition
	counts    []FilterCount
	newcomers []facts.UID // pods that came while units of the shape were being tried: they have no message yet
}

// maxNewcomers bounds newcomers. The others have their message with the next explanation.
const maxNewcomers = 1024

// addNewcomer takes note of a pod that joins units which are being tried, once.
func (e *explanation) addNewcomer(uid facts.UID) {
	if len(e.newcomers) < maxNewcomers && !slices.Contains(e.newcomers, uid) {
		e.newcomers = append(e.newcomers, uid)
	}
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
