package schedule

import (
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
)

// sayWhy says why a pod waits: in its condition, and in an Event.
func (s *Scheduler) sayWhy(pod *cluster.Pod, why facts.Condition, now time.Time) {
	if pod.Placeholder() { // the API server has no such pod
		s.store.Placeholders().Say(pod.UID, why)
		return
	}
	s.binder.Conditions().Set(pod, why, now)
	if !s.noPodEvents {
		s.podEvents.Failed(pod, why.Message)
	}
}

// ofPods is a gang's condition as its pods have it. Autoscalers add nodes for pods whose condition has the reason Unschedulable, and for no others; so all that more
// nodes could help have that reason, and the message begins with what is known beside it. What waits for quota, other members or a change of its own keeps its reason:
// a new node would stay empty.
func ofPods(why facts.Condition) facts.Condition {
	switch why.Reason {
	case spec.ReasonTopologyPlacementFailed, spec.ReasonReserved:
		return facts.Condition{Reason: spec.ReasonUnschedulable, Message: why.Reason + ": " + why.Message}
	}
	return why
}
