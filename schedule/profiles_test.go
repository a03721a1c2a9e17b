package schedule_test

import (
	"fmt"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule"
)

const gib = 1 << 30

// asks is the requirements of a pod that asks for thousandths of a CPU, and bytes.
func asks(cpu, memory int) *facts.Requirements {
	return &facts.Requirements{Requests: rq("cpu", cpu, "memory", memory), ScoreCPU: int64(cpu), ScoreMemory: int64(memory)}
}

// profileWorld is two nodes of 16 CPUs, of which one is half used. The default profile spreads, the profile batch packs.
func profileWorld(t *testing.T, batch spec.SchedulingProfile) (*schedule.Scheduler, time.Time) {
	cfg := spec.Default().Scheduling
	batch.Name, batch.Scores = "batch", map[string]int64{"LeastAllocated": 0, "BalancedAllocation": 0, "MostAllocated": 10}
	cfg.Profiles = []spec.SchedulingProfile{{Name: "unused", Queues: []string{"nobody"}}, batch}
	s, err := schedule.New(schedule.Options{Config: cfg, Instances: 2})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1000, 0)
	for _, name := range []string{"half", "idle"} {
		s.Apply(facts.NodeUpserted{Node: revNode(name, 16000, 64*gib)}, now)
	}
	s.Apply(facts.PodUpserted{Pod: facts.Pod{
		UID: "runs", Namespace: "kube-system", Name: "runs", Node: "half", Requirements: asks(8000, 32*gib),
	}}, now)
	for _, q := range []facts.Queue{{Name: "research"}, {Name: "vision", Parent: "research"}, {Name: "shop"}} {
		q.Weight = 1
		s.Apply(facts.QueueUpserted{Queue: &q}, now)
		s.Apply(facts.NamespaceUpserted{Namespace: facts.Namespace{Name: q.Name, Labels: []facts.Label{{Key: spec.LabelQueue, Value: q.Name}}}}, now)
	}
	return s, now
}

// TestProfilesChooseNodes has pods and gangs packed or spread by the profile that their scheduler name or queue chooses.
func TestProfilesChooseNodes(t *testing.T) {
	for name, x := range map[string]struct {
		batch     spec.SchedulingProfile
		profile   uint8 // of the pods
		namespace string
		want      string
	}{
		"no profile":                         {spec.SchedulingProfile{Queues: []string{"research"}}, 0, "shop", "idle"},
		"its scheduler name":                 {spec.SchedulingProfile{SchedulerNames: []string{"hilbert-batch"}}, 2, "shop", "half"},
		"its queue":                          {spec.SchedulingProfile{Queues: []string{"shop"}}, 0, "shop", "half"},
		"a queue above it":                   {spec.SchedulingProfile{Queues: []string{"research"}}, 0, "vision", "half"},
		"a queue below it is not its own":    {spec.SchedulingProfile{Queues: []string{"vision"}}, 0, "research", "idle"},
		"the scheduler name goes before":     {spec.SchedulingProfile{Queues: []string{"research"}, SchedulerNames: []string{"b"}}, 1, "vision", "idle"},
		"a number of another configuration":  {spec.SchedulingProfile{Queues: []string{"shop"}}, 9, "shop", "half"},
		"the default queue's namespaces too": {spec.SchedulingProfile{SchedulerNames: []string{"b"}}, 2, "anything", "half"},
	} {
		for _, gang := range []int{0, 3} {
			t.Run(fmt.Sprintf("%s, gang of %d", name, gang), func(t *testing.T) {
				s, now := profileWorld(t, x.batch)
				members := max(gang, 1)
				pod := facts.Pod{
					Namespace: x.namespace, Ours: true, Created: 1, Profile: x.profile, Requirements: asks(500, 2*gib),
				}
				if gang > 0 {
					pod.Unit = "gang"
					s.Apply(facts.UnitUpserted{Unit: &facts.Unit{UnitName: facts.UnitName{Namespace: x.namespace, Name: "gang"}, MinMember: int32(gang)}}, now)
				}
				for i := range members {
					pod.Name = fmt.Sprint("p", i)
					pod.UID = facts.UID(pod.Name)
					s.Apply(facts.PodUpserted{Pod: pod}, now)
				}
				pump(s, now)
				for i := range members {
					if got := s.Store().Pod(facts.UID(fmt.Sprint("p", i))).Node(); got != x.want {
						t.Errorf("p%d is on %q, want %q", i, got, x.want)
					}
				}
				if err := s.Verify(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// A queue that moves below another takes its profile with the next pod.
func TestProfileFollowsQueues(t *testing.T) {
	s, now := profileWorld(t, spec.SchedulingProfile{Queues: []string{"research"}})
	place := func(name, want string) {
		t.Helper()
		s.Apply(facts.PodUpserted{Pod: facts.Pod{
			UID: facts.UID(name), Namespace: "shop", Name: name, Ours: true, Created: 1, Requirements: asks(100, gib),
		}}, now)
		pump(s, now)
		if got := s.Store().Pod(facts.UID(name)).Node(); got != want {
			t.Errorf("%s is on %q, want %q", name, got, want)
		}
	}
	place("before", "idle")
	s.Apply(facts.QueueUpserted{Queue: &facts.Queue{Name: "shop", Parent: "research", Weight: 1, Generation: 2}}, now)
	place("below", "half")
	s.Apply(facts.QueueUpserted{Queue: &facts.Queue{Name: "shop", Weight: 1, Generation: 3}}, now)
	place("after", "idle")
}

// An obliged pod that is decided anew is scored by its own profile.
func TestObligedPodsKeepTheirProfile(t *testing.T) {
	for profile, want := range []string{"idle", "idle", "half"} {
		s, now := profileWorld(t, spec.SchedulingProfile{SchedulerNames: []string{"b"}})
		s.Apply(facts.NodeUpserted{Node: revNode("third", 16000, 64*gib)}, now)
		for node, x := range map[string]struct {
			cpu      int
			priority int32
		}{"half": {8000, 100}, "idle": {16000, 100}, "third": {16000, 0}} {
			s.Apply(facts.PodUpserted{Pod: facts.Pod{
				UID: facts.UID("fills-" + node), Namespace: "shop", Name: "fills-" + node, Node: node, Ours: true, Created: 1, Started: 1, Priority: x.priority,
				Requirements: asks(x.cpu, gib),
			}}, now)
		}
		s.Apply(facts.PodUpserted{Pod: facts.Pod{
			UID: "high", Namespace: "shop", Name: "high", Ours: true, Created: 2, Priority: 10, Profile: uint8(profile), Requirements: asks(1000, gib),
		}}, now)
		s.Step(now, 1000)
		high := s.Store().Pod("high")
		if !high.Obliged() || high.Node() != "third" {
			t.Fatalf("the pod is on %q, and no victim has to leave there", high.Node())
		}
		s.Apply(facts.PodRemoved{UID: "fills-half"}, now)
		s.Apply(facts.PodRemoved{UID: "fills-idle"}, now)
		s.Step(now, 1000)
		if got := high.Node(); got != want {
			t.Errorf("profile %d: the pod is on %q, want %q", profile, got, want)
		}
	}
}
