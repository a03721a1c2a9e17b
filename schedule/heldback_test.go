package schedule_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/schedule/bind"
	"hilbert.dev/hilbert/schedule/inspect"
)

// sized is a pod of a namespace that asks for some CPU.
func sized(namespace string, i int, milli int64) facts.Pod {
	uid := facts.UID(fmt.Sprint(namespace, i))
	return facts.Pod{UID: uid, Namespace: namespace, Name: string(uid), Created: int64(i), Ours: true, Requirements: &facts.Requirements{Requests: rq("cpu", int(milli))}}
}

// crowdedSched is a scheduler with one node of 4 CPUs, in which three classes of pods of a namespace may wait.
func crowdedSched(t *testing.T, now time.Time) *schedule.Scheduler {
	config := spec.Default().Scheduling
	config.MaxWaitingClasses = new(3)
	s, err := schedule.New(schedule.Options{Config: config})
	if err != nil {
		t.Fatal(err)
	}
	s.Apply(facts.NodeUpserted{Node: revNode("n1", 4000, 1<<30)}, now)
	return s
}

// conditions steps until nothing happens, and returns the conditions that are written; all writes succeed, and the watch says so.
func conditions(t *testing.T, s *schedule.Scheduler, now time.Time) map[facts.UID]facts.Condition {
	told := make(map[facts.UID]facts.Condition)
	for range 100 {
		done := s.Step(now, 1000)
		writes := s.Ready(now)
		for _, w := range writes {
			if w.Kind == bind.WriteCondition {
				told[w.Pod] = w.Condition
			}
		}
		list := make([]bind.Write, len(writes))
		copy(list, writes)
		for _, w := range list {
			s.Finish(bind.Result{ID: w.ID, Outcome: bind.Written, Node: w.Node}, now)
			if w.Kind == bind.WriteBinding {
				f := s.Store().Pod(w.Pod).Record().Facts
				f.Node = w.Node
				s.Apply(facts.PodUpserted{Pod: f}, now)
			}
		}
		if err := s.Verify(); err != nil {
			t.Fatal(err)
		}
		if done == 0 && len(list) == 0 {
			return told
		}
	}
	t.Fatal("it never ends")
	return nil
}

// TestTooManyDifferentPods: of a namespace with many different pods some are held back, and told why; other namespaces' pods and equal pods are not. As pods
// are deleted or bound the oldest are tried.
func TestTooManyDifferentPods(t *testing.T) {
	now := time.Unix(1000, 0)
	s := crowdedSched(t, now)
	for i := range 10 {
		s.Apply(facts.PodUpserted{Pod: sized("many", i, int64(5000+i))}, now) // too large for the node
	}
	for i := range 5 {
		s.Apply(facts.PodUpserted{Pod: sized("many", 20+i, 5000)}, now)
	}
	s.Apply(facts.PodUpserted{Pod: sized("one", 0, 100)}, now)
	told := conditions(t, s, now)
	if s.Store().Pod("one0").Node() != "n1" {
		t.Error("the other namespace's pod has no place")
	}
	if b := s.Bounds(); b.HeldBack != 7 || b.HeldBackIn != 1 {
		t.Errorf("%+v, want 7 pods of 1 namespace to be held back", b)
	}
	for i := range 10 {
		got, want := told[facts.UID(fmt.Sprint("many", i))], spec.ReasonUnschedulable
		if i >= 3 {
			want = spec.ReasonTooManyDifferentPods
		}
		if got.Reason != want {
			t.Errorf("pod %d is told %+v, want %s", i, got, want)
		}
	}
	if why := told["many9"].Message; !strings.HasPrefix(why, "3 different pods of namespace many wait, as many as may at once (scheduling.maxWaitingClasses).") {
		t.Error(why)
	}
	answer, err := inspect.Take(s, "hilbert", now).Explain("many", "many9")
	if err != nil || answer.Refusal != "" || answer.Waiting == nil || !strings.HasPrefix(answer.Waiting.Why, "3 different pods") ||
		answer.Explanation == nil || answer.Explanation.Nodes != 1 {
		t.Errorf("explained as %+v, %v", answer, err)
	}
	s.Apply(facts.PodRemoved{UID: "many1"}, now)
	if told = conditions(t, s, now); told["many3"].Reason != spec.ReasonUnschedulable || s.Bounds().HeldBack != 6 {
		t.Errorf("after a deletion pod 3 is told %+v, and %d are held back", told["many3"], s.Bounds().HeldBack)
	}
	s.Apply(facts.NodeUpserted{Node: revNode("n2", 1<<20, 1<<40)}, now)
	conditions(t, s, now)
	if b, p := s.Bounds(), s.Pending(); b.HeldBack != 0 || p != (schedule.Pending{}) {
		t.Errorf("with room for all %d are held back, and %+v wait", b.HeldBack, p)
	}
}

// TestNewLeaderTakesInTheOldest: a new leader, whose list comes by name, takes in the oldest pods, and keeps those that its predecessor has bound.
func TestNewLeaderTakesInTheOldest(t *testing.T) {
	now := time.Unix(1000, 0)
	s := crowdedSched(t, now)
	var list []facts.Pod
	for i := range 10 {
		list = append(list, sized("many", 9-i, int64(5000+i)))
	}
	running := sized("many", 99, 7000)
	running.Node = "n1"
	s.Apply(facts.PodsListed{Pods: append(list, running)}, now)
	told := conditions(t, s, now)
	for i := range 10 {
		if back := told[facts.UID(fmt.Sprint("many", i))].Reason == spec.ReasonTooManyDifferentPods; back != (i >= 3) {
			t.Errorf("pod %d is held back: %v", i, back)
		}
	}
}
