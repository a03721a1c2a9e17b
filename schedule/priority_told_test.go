package schedule_test

import (
	"testing"
	"time"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/bind"
)

// The Binding tells a pod's priority to a node's agent, and to nobody where there is none.
func TestAgentsAreToldPriorities(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	for _, agent := range []bool{false, true} {
		s := newSched(t)
		s.Apply(facts.NodeUpserted{Node: revNode("n1", 4000, 1<<30)}, now)
		if agent {
			s.Apply(facts.NodeReported{Node: "n1", Report: &facts.NodeReport{}}, now)
		}
		pod := sized("team", 1, 100)
		pod.Priority = -7
		s.Apply(facts.PodUpserted{Pod: pod}, now)
		s.Step(now, 1000)
		told := 0
		for _, w := range s.Ready(now) {
			if w.Kind == bind.WriteBinding {
				told++
				if w.TellsPriority != agent || w.Priority != -7 {
					t.Errorf("an agent: %v; it tells: %v, priority %d", agent, w.TellsPriority, w.Priority)
				}
			}
		}
		if told != 1 {
			t.Fatalf("%d Bindings", told)
		}
	}
}
