package schedule_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/schedule/bind"
)

// settings are a configuration of all that a running scheduler can change.
func settings(t *rapid.T) spec.Scheduling {
	seconds := func(name string, least, most int) spec.Duration {
		return spec.Duration(time.Duration(rapid.IntRange(least, most).Draw(t, name)) * time.Second)
	}
	c := spec.Default().Scheduling
	weight := rapid.Int64Range(0, 3)
	c.Scores = map[string]int64{"LeastAllocated": weight.Draw(t, "least"), "MostAllocated": weight.Draw(t, "most"), "BalancedAllocation": 0}
	c.Profiles = []spec.SchedulingProfile{{Name: "batch", SchedulerNames: []string{"batch"}, Scores: map[string]int64{"MostAllocated": weight.Draw(t, "batch"), "LeastAllocated": weight.Draw(t, "batch least")}}}
	c.Backoff.Initial, c.Backoff.Max = seconds("initial", 1, 3), seconds("max", 3, 9)
	c.Binding.MaxAhead, c.Binding.MaxAttempts = rapid.IntRange(1, 4).Draw(t, "ahead"), rapid.IntRange(1, 3).Draw(t, "attempts")
	c.Conditions.Burst, c.Conditions.PerSecond, c.Conditions.MinInterval = rapid.IntRange(1, 3).Draw(t, "burst"), rapid.Float64Range(0.5, 2).Draw(t, "perSecond"), seconds("interval", 1, 9)
	c.Units.Timeout, c.Units.ReserveAfter, c.Units.MaxReservations = seconds("timeout", 5, 60), seconds("reserveAfter", 5, 60), rapid.IntRange(0, 2).Draw(t, "reservations")
	c.Events.Scheduled = rapid.Bool().Draw(t, "events")
	c.Schedulers = rapid.IntRange(1, 2).Draw(t, "schedulers")
	return c
}

// A scheduler that is given other settings does from then on what one does that had them all along.
func TestReconfiguredAsIfStartedSo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		other, wanted := settings(t), settings(t)
		other.Schedulers = wanted.Schedulers // that needs a restart
		now := time.Unix(10_000, 0)
		start := func(c spec.Scheduling) *schedule.Scheduler {
			s, err := schedule.New(schedule.Options{Config: c})
			if err != nil {
				t.Fatal(err)
			}
			for i, cpu := range []int{2000, 4000, 8000} {
				s.Apply(facts.NodeUpserted{Node: revNode(fmt.Sprint("n", i), cpu, 64*gib)}, now)
			}
			s.Apply(facts.PodUpserted{Pod: facts.Pod{UID: "runs", Namespace: "other", Name: "runs", Node: "n1", Requirements: asks(1500, gib)}}, now)
			return s
		}
		changed, fresh := start(other), start(wanted)
		if rapid.Bool().Draw(t, "used before") { // so that one has rankings by the old settings
			for _, s := range []*schedule.Scheduler{changed, fresh} {
				s.Apply(facts.PodUpserted{Pod: facts.Pod{UID: "probe", Namespace: "default", Name: "probe", Ours: true, Created: 1, Requirements: asks(100, gib)}}, now)
				pump(s, now)
				s.Apply(facts.PodRemoved{UID: "probe"}, now)
			}
			now = now.Add(time.Minute)
		}
		if err := changed.Reconfigure(wanted, now); err != nil {
			t.Fatal(err)
		}
		if got := changed.Config(); !reflect.DeepEqual(got, wanted) {
			t.Fatalf("runs with %+v", got)
		}
		for step := range rapid.IntRange(1, 30).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "passes")) * time.Second)
			pod := facts.Pod{
				UID: facts.UID(fmt.Sprint("p", step)), Namespace: "default", Name: fmt.Sprint("p", step), Ours: true, Created: now.UnixNano(),
				Profile: uint8(rapid.IntRange(0, 1).Draw(t, "profile")), Requirements: asks(rapid.IntRange(1, 30).Draw(t, "cpu")*100, gib),
			}
			outcome := rapid.SampledFrom([]bind.Outcome{bind.Written, bind.Written, bind.Unknown, bind.Refused}).Draw(t, "outcome")
			said := make([]string, 2)
			for i, s := range []*schedule.Scheduler{changed, fresh} {
				s.Apply(facts.PodUpserted{Pod: pod}, now)
				s.Step(now, 1000)
				writes := append([]bind.Write(nil), s.Ready(now)...)
				for j := range writes {
					w := &writes[j]
					said[i] += fmt.Sprintf("%v %v %v %v; ", w.Kind, w.Pod, w.Node, w.ID.Owner)
					s.Finish(bind.Result{ID: w.ID, Outcome: outcome, Message: "so it is"}, now)
				}
				wake, ok := s.NextWake(now)
				said[i] += fmt.Sprint(wake, ok, s.Pending())
			}
			if said[0] != said[1] {
				t.Fatalf("step %d: was changed: %s\nhad it all along: %s", step, said[0], said[1])
			}
		}
		if err := changed.Verify(); err != nil {
			t.Fatal(err)
		}
	})
}

// What cannot be is refused, and nothing is changed.
func TestReconfigureRefuses(t *testing.T) {
	s := newSched(t)
	before := s.Config()
	c := s.Config()
	c.Scores = map[string]int64{"Beauty": 1}
	c.Units.MaxReservations = 99
	if err := s.Reconfigure(c, time.Unix(1, 0)); err == nil || !strings.Contains(err.Error(), "Beauty") || !reflect.DeepEqual(s.Config(), before) {
		t.Errorf("%v, and %+v", err, s.Config())
	}
}

// Gangs that wait already are held to the new times, though by them they are overdue.
func TestReconfigureReachesGangsThatWait(t *testing.T) {
	s, now := newSched(t), time.Unix(10_000, 0)
	s.Apply(facts.NodeUpserted{Node: revNode("n", 1000, 64*gib)}, now)
	s.Apply(facts.UnitUpserted{Unit: &facts.Unit{UnitName: facts.UnitName{Namespace: "default", Name: "gang"}, MinMember: 2, Created: now.UnixNano()}}, now)
	for i := range 2 {
		name := fmt.Sprint("m", i)
		s.Apply(facts.PodUpserted{Pod: facts.Pod{UID: facts.UID(name), Namespace: "default", Name: name, Ours: true, Created: 1, Unit: "gang", Requirements: asks(900, gib)}}, now)
	}
	reserved := func(at time.Time) int {
		pump(s, at)
		return s.Gate().Reservations.Tried()
	}
	pump(s, now)
	if now = now.Add(20 * time.Second); reserved(now) != 0 {
		t.Fatal("nodes are reserved before it is time")
	}
	c := s.Config()
	c.Units.ReserveAfter, c.Units.MaxReservations = spec.Duration(10*time.Second), 0
	if err := s.Reconfigure(c, now); err != nil {
		t.Fatal(err)
	}
	if now = now.Add(5 * time.Second); reserved(now) != 0 {
		t.Error("nodes are reserved though units.maxReservations is 0 by now")
	}
	c.Units.MaxReservations = 1
	if err := s.Reconfigure(c, now); err != nil {
		t.Fatal(err)
	}
	if at, ok := s.NextWake(now); !ok || at.After(now) {
		t.Errorf("it is woken at %v, want at once", at)
	}
	if reserved(now) == 0 && reserved(now.Add(5*time.Second)) == 0 {
		t.Error("a gang that waits for longer than the new units.reserveAfter is not looked at")
	}
}

// The budget of evictions is another one from then on: none, then all that nodes ask for, then none again, whatever was left of the budget before.
func TestReconfigureReachesEvictions(t *testing.T) {
	c := spec.Default().Scheduling
	c.Evictions = spec.Evictions{}
	s, err := schedule.New(schedule.Options{Config: c})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(10_000, 0)
	var asked []facts.EvictionRequest
	s.Apply(facts.NodeUpserted{Node: revNode("n1", 4000, 64*gib)}, now)
	for i := range 4 {
		name := fmt.Sprint("p", i)
		s.Apply(facts.PodUpserted{Pod: facts.Pod{UID: facts.UID(name), Namespace: "default", Name: name, Ours: true, Node: "n1", Requirements: &facts.Requirements{Reclaimed: true}}}, now)
		asked = append(asked, facts.EvictionRequest{UID: facts.UID(name), Namespace: "default", Name: name, Reason: "Pressure"})
	}
	evicted := func() int {
		pods := make(map[string]bool) // they do not leave, and are asked for again
		for range 10 {
			now = now.Add(time.Minute)
			for _, name := range evictedWithout(s, "", now) {
				pods[name] = true
			}
		}
		return len(pods)
	}
	for _, step := range []struct {
		budget      spec.Evictions
		asked, want int
	}{{spec.Evictions{}, 4, 0}, {spec.Evictions{PercentPerMinute: 100, Burst: 4}, 4, 4}, {spec.Evictions{PercentPerMinute: 100, Burst: 4}, 1, 1}, {spec.Evictions{Burst: 4}, 4, 0}} {
		c.Evictions = step.budget
		if err := s.Reconfigure(c, now); err != nil {
			t.Fatal(err)
		}
		s.Apply(facts.NodeReported{Node: "n1", Report: &facts.NodeReport{Evictions: asked[:step.asked]}}, now)
		if n := evicted(); n != step.want {
			t.Errorf("with %+v %d pods are evicted, want %d", step.budget, n, step.want)
		}
	}
}
