package schedule_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/schedule/bind"
)

// evictedWithout is the pods that are evicted now. The answer to the eviction of one of them is lost.
func evictedWithout(s *schedule.Scheduler, answer string, now time.Time) (names []string) {
	s.Step(now, 10)
	for writes := slices.Clone(s.Ready(now)); len(writes) > 0; writes = slices.Clone(s.Ready(now)) {
		for _, w := range writes {
			r := bind.Result{ID: w.ID, Outcome: bind.Written}
			if w.Kind == bind.EvictPod && w.Name == answer {
				r.Outcome = bind.Unknown
			}
			if w.Kind == bind.EvictPod {
				names = append(names, w.Name)
			}
			s.Finish(r, now)
		}
	}
	return names
}

// The answer to an eviction is lost, and the member left nevertheless. Its gang has too few then: the others are evicted too, after the time in which
// missing members could have come. Where one comes, they stay.
func TestGangFollowsAMemberWhoseEvictionWasNotAnswered(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		now := time.Unix(1000, 0)
		s, err := schedule.New(schedule.Options{Config: spec.Default().Scheduling})
		if err != nil {
			t.Fatal(err)
		}
		pod := func(name string) facts.PodUpserted {
			return facts.PodUpserted{Pod: facts.Pod{
				UID: facts.UID(name), Namespace: "default", Name: name, Ours: true, Node: "n1", Unit: "g", Requirements: &facts.Requirements{Reclaimed: true},
			}}
		}
		evicted := func() []string { return evictedWithout(s, "g-0", now) }
		s.Apply(facts.NodeUpserted{Node: &facts.Node{Name: "n1", Allocatable: []resource.Quantity{{Name: resource.NamePods, Amount: 100}}}}, now)
		s.Apply(facts.UnitUpserted{Unit: &facts.Unit{UnitName: facts.UnitName{Namespace: "default", Name: "g"}, UID: "g", MinMember: 3, Scheduled: true}}, now)
		for i := range 3 {
			s.Apply(pod(fmt.Sprint("g-", i)), now)
		}
		evicted()
		report := &facts.NodeReport{Evictions: []facts.EvictionRequest{{UID: "g-0", Namespace: "default", Name: "g-0", Reason: "Pressure", Urgent: true}}}
		s.Apply(facts.NodeReported{Node: "n1", Report: report}, now)
		now = now.Add(20 * time.Second)
		if got := evicted(); !slices.Equal(got, []string{"g-0"}) {
			t.Fatalf("evicted %v, want g-0", got)
		}
		s.Apply(facts.PodRemoved{UID: "g-0"}, now)
		s.Apply(facts.NodeReported{Node: "n1", Report: &facts.NodeReport{}}, now)
		if replaced {
			now = now.Add(time.Minute)
			s.Apply(pod("g-3"), now)
		}
		now = now.Add(spec.Default().Scheduling.Units.RepairTimeout.D())
		got := evicted()
		slices.Sort(got)
		if want := []string{"g-1", "g-2"}; replaced == slices.Equal(got, want) || replaced && len(got) > 0 {
			t.Errorf("replaced %v: evicted %v", replaced, got)
		}
	}
}
