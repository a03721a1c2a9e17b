package sim

import (
	"testing"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/internal/conformance"
	"hilbert.dev/hilbert/sim/trace"
)

// lagging is the simulated API server behind its door, with watches that lag.
type lagging struct {
	s     *simulation
	tasks map[string]int32
	pods  map[string]int32
}

func newLagging() *lagging {
	w := &trace.Workload{
		Nodes:      []*facts.Node{{Name: conformance.Node}},
		Units:      []trace.Unit{{Facts: &facts.Unit{UnitName: facts.UnitName{Namespace: "ns", Name: conformance.Unit}}}},
		Identities: map[string]trace.Identity{"": {Namespace: "ns"}},
	}
	l := &lagging{tasks: map[string]int32{}, pods: map[string]int32{}}
	for _, kind := range []string{"m", "s"} {
		for i := range conformance.Pods {
			task := trace.Task{Name: kind + string(rune('0'+i)), Requirements: &facts.Requirements{}, Deleted: trace.Never}
			if kind == "m" {
				task.Unit = conformance.Unit
			}
			l.tasks[task.Name] = int32(len(w.Tasks))
			w.Tasks = append(w.Tasks, task)
		}
	}
	l.s = assemble(w, &Options{Faults: &Faults{}})
	l.s.watches.open = true
	return l
}

func (l *lagging) Create(pod string) {
	l.pods[pod] = l.s.api.create(l.tasks[pod], 0, true, 0)
	l.s.watches.tellPod(l.pods[pod])
}

func (l *lagging) Bind(pod string) {
	l.s.api.bind(l.pods[pod], 0, l.s.api.pods[l.pods[pod]].grant, 0)
	l.s.watches.tellPod(l.pods[pod])
}

func (l *lagging) Finish(pod string) {
	l.s.api.finish(l.pods[pod], 0)
	l.s.watches.tellFinished(l.pods[pod])
}

func (l *lagging) Remove(pod string) {
	l.s.api.remove(l.pods[pod], 0)
	l.s.watches.tellRemoved(&l.s.api.pods[l.pods[pod]])
}

func (l *lagging) Deliver(finished bool) facts.Event {
	which := watchOf(finished)
	if e, ok := l.s.watches.deliver(which, l.s.watches.streams[which].epoch); ok {
		return e
	}
	return nil
}

func (l *lagging) List(finished bool) facts.Event { return l.s.watches.list(watchOf(finished)) }

func watchOf(finished bool) int {
	if finished {
		return watchFinished
	}
	return watchPods
}

// TestDoorsAgree: the door to a real API server is held to the same file.
func TestDoorsAgree(t *testing.T) {
	t.Parallel()
	got := conformance.Transcript(t, func() conformance.Door { return newLagging() })
	if got != conformance.Want() {
		t.Error("the simulator's door tells something else than recorded")
	}
}
