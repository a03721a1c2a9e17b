package schedule_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/internal/script"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/schedule/bind"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// TestNoOwnerWaitsForItsOwnRoom: whatever pods, reservations, queues' limits and foreign binders come and go, when the scheduler has nothing to do any more, no pod
// waits that would fit in the place of a placeholder which is kept for it; and no pod but an owner was bound in the place of one.
func TestNoOwnerWaitsForItsOwnRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, now := newSched(&testing.T{}), time.Unix(1, 0)
		if rapid.Bool().Draw(t, "limited") {
			s.Apply(facts.QueueUpserted{Queue: &facts.Queue{Name: "q", Max: rq("cpu", 6000)}}, now)
			s.Apply(facts.NamespaceUpserted{Namespace: facts.Namespace{Name: "ns", Labels: []facts.Label{{Key: "scheduling.hilbert.dev/queue", Value: "q"}}}}, now)
		}
		for i := range 2 {
			s.Apply(facts.NodeUpserted{Node: revNode(fmt.Sprintf("n%d", i), 6000, 64)}, now)
		}
		for range rapid.IntRange(5, 50).Draw(t, "steps") {
			change(t, s, now)
			now = now.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "seconds")) * time.Second)
			settle(t, s, now)
		}
		for range 8 { // backoffs end
			now = now.Add(time.Minute)
			settle(t, s, now)
		}
		noOwnerWaits(t, s)
	})
}

func change(t *rapid.T, s *schedule.Scheduler, now time.Time) {
	pod := facts.Pod{
		UID: facts.UID(fmt.Sprintf("p%d", rapid.IntRange(0, 9).Draw(t, "pod"))), Namespace: "ns", Ours: true, Created: now.UnixNano(),
		Priority: int32(rapid.IntRange(0, 2).Draw(t, "priority")), Requirements: &facts.Requirements{Requests: rq("cpu", 1000*rapid.IntRange(1, 3).Draw(t, "cpus"))},
	}
	pod.Name = string(pod.UID)
	if pod.UID < "p6" {
		pod.Labels = []facts.Label{{Key: "app", Value: "web"}}
	}
	uid := facts.UID(fmt.Sprintf("r%d", rapid.IntRange(0, 2).Draw(t, "reservation")))
	switch rapid.IntRange(0, 8).Draw(t, "op") {
	case 0, 1:
		r := &facts.Reservation{UID: uid, Name: string(uid), Namespace: "ns", Count: 2, Template: pod}
		if rapid.IntRange(0, 3).Draw(t, "ends") == 0 {
			r.Expires = now.Add(20 * time.Second).UnixNano()
		}
		r.Owners = []facts.ReservationOwner{{Pods: &facts.LabelSelector{Expressions: []facts.Requirement{{Key: "app", Operator: facts.In, Values: []string{"web"}}}}}}
		s.Apply(facts.ReservationUpserted{Reservation: r}, now)
	case 2:
		s.Apply(facts.ReservationRemoved{UID: uid}, now)
	case 3, 4, 5:
		if s.Store().Pod(pod.UID) == nil {
			s.Apply(facts.PodUpserted{Pod: pod}, now)
		}
	case 6:
		s.Apply(facts.PodRemoved{UID: pod.UID}, now)
	case 7: // a foreign binder
		if s.Store().Pod(pod.UID) == nil {
			pod.Node, pod.Ours = "n0", false
			s.Apply(facts.PodUpserted{Pod: pod}, now)
		}
	case 8: // n1 is cordoned, or not
		n := revNode("n1", 6000, 64)
		n.Unschedulable = rapid.Bool().Draw(t, "cordoned")
		s.Apply(facts.NodeUpserted{Node: n}, now)
	}
}

// settle lets the scheduler run until it has nothing to do. Some Bindings are refused; victims leave at once.
func settle(t *rapid.T, s *schedule.Scheduler, now time.Time) {
	for range 200 {
		n := s.Step(now, 100)
		writes := append([]bind.Write(nil), s.Ready(now)...)
		for _, w := range writes {
			outcome := bind.Written
			if w.Kind == bind.WriteBinding && rapid.IntRange(0, 4).Draw(t, "outcome") == 0 {
				outcome = bind.Refused
			}
			if w.Kind == bind.WriteBinding && w.Placeholder != "" && w.Pod >= "p6" {
				t.Fatalf("%s has the place of %s", w.Pod, w.Placeholder)
			}
			s.Finish(bind.Result{ID: w.ID, Outcome: outcome}, now)
			if w.Kind == bind.DeletePod {
				s.Apply(facts.PodRemoved{UID: w.Pod}, now)
			}
		}
		if err := s.Verify(); err != nil {
			t.Fatal(err)
		}
		if n == 0 && len(writes) == 0 {
			return
		}
	}
	t.Fatalf("the scheduler does not come to rest; it waits for %+v with:\n%s%s", s.Pending(), script.Dump(s.Store()), script.Reservations(s.Store()))
}

func noOwnerWaits(t *rapid.T, s *schedule.Scheduler) {
	store := s.Store()
	snapshot := cluster.NewSnapshot()
	snapshot.Advance(store)
	store.Placeholders().Each(func(set *cluster.PlaceholderSet) {
		for _, placeholder := range store.Placeholders().Reserved(set, nil) {
			store.EachWaiting("ns", func(pod *cluster.Pod) {
				cpus := func(p *cluster.Pod) int64 { return p.Class.Charge.Get(resource.CPU) }
				if !store.Placeholders().Owns(set, pod) || cpus(pod) > cpus(placeholder) { // a larger one may lack quota
					return
				}
				mark := snapshot.Mark()
				snapshot.Lift(placeholder)
				if rules.FitsThrough(&snapshot.State, store.Slot(placeholder.Node()), pod.Class) {
					t.Fatalf("%s waits (%s), and would fit on %s in the place of %s:\n%s%s%s", pod.UID, pod.Reported.Reason, placeholder.Node(), placeholder.UID, script.Dump(store), script.Reservations(store), script.Queues(store))
				}
				snapshot.Rollback(mark)
			})
		}
	})
}
