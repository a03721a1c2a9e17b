package schedule

import (
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
)

// sayWhy says why a pod waits: in its condition, and in an Event.
func (s *Scheduler) sayWhy(pod *cluster.Pod, why facts.Condition, now time.Time) {
	s.binder.SetCondition(pod, why, now)
	if !s.noPodEvents {
		s.podEvents.Failed(pod, why.Message)
	}
}
