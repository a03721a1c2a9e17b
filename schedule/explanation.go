package schedule

import (
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
	missing   int // of a gang: members that found no place
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
	v.missing = max(e.Need-e.Anywhere, 1)
	if e.Unpacked() {
		v.condition.Reason = spec.ReasonTopologyPlacementFailed
	}
	return v
}
