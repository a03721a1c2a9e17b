package cluster_test

import (
	"fmt"
	"testing"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/topology"
)

func amounts(cpu int64) []resource.Quantity {
	return []resource.Quantity{{Name: resource.NameCPU, Amount: cpu}, {Name: resource.NameMemory, Amount: 32 << 30}, {Name: resource.NamePods, Amount: 20}}
}

// numaNode tells a ledger of a node of two NUMA nodes of 8 CPUs and 16 GiB, two threads a core.
func numaNode(s *cluster.Store, name string) {
	s.Apply(facts.NodeUpserted{Node: &facts.Node{Name: name, Allocatable: amounts(16000)}})
	report := &facts.NodeReport{NUMANodes: topology.NUMAShape{Ruler: topology.RulerAgent, NUMANodes: 2, Threads: 2}}
	for z := range 2 {
		report.NUMANodes.NUMANode[z] = topology.NUMACapacity{CPUs: 8, Memory: 16 << 10}
	}
	s.Apply(facts.NodeReported{Node: name, Report: report})
}

func exclusive(cpus uint16) *facts.Requirements {
	return &facts.Requirements{
		Requests:  []resource.Quantity{{Name: resource.NameCPU, Amount: 1000 * int64(cpus)}, {Name: resource.NameMemory, Amount: 1 << 30}},
		NUMANodes: topology.NUMARequest{CPUs: cpus, Memory: 1 << 10, Binding: topology.Exclusive},
	}
}

// commit places a pod on node n.
func commit(s *cluster.Store, uid facts.UID) cluster.Verdict {
	slot := s.Slot("n")
	grant, _ := s.Offer(slot, s.Pod(uid).Class)
	return s.Commit(&cluster.Plan{Placements: []cluster.Placement{{Pod: uid, Node: "n", Grant: grant}}}, rules.Commits)
}

func used(s *cluster.Store, name string) string {
	q, root := s.Quota().Queue(name), s.Quota().Root()
	if q == nil {
		return "no queue"
	}
	gpus := s.Quota().GPUKind()
	return fmt.Sprintf("%dm %dGi %d GPU milli, root %dm", q.Used(resource.CPU), q.Used(resource.Memory)>>30, q.Used(gpus), root.Used(resource.CPU))
}

func wantUsed(t *testing.T, s *cluster.Store, when, want string) {
	t.Helper()
	if got := used(s, "q"); got != want {
		t.Errorf("%s: queue q uses %s, want %s", when, got, want)
	}
	if err := s.Verify(); err != nil {
		t.Errorf("%s: %v", when, err)
	}
}

func queuedStore(limit int64) *cluster.Store {
	s := cluster.NewStore()
	s.Apply(facts.QueueUpserted{Queue: &facts.Queue{Name: "q", Max: []resource.Quantity{{Name: resource.NameCPU, Amount: limit}}}})
	s.Apply(facts.NamespaceUpserted{Namespace: facts.Namespace{Name: "x", Labels: []facts.Label{{Key: spec.LabelQueue, Value: "q"}}}})
	return s
}

// A pod that asks for one CPU and NUMA nodes of its own takes 8 CPUs and 16 GiB from everybody. Its queue is charged that, and its limit counts it.
func TestQueuesAreChargedTheGrant(t *testing.T) {
	s := queuedStore(12000)
	numaNode(s, "n")
	for _, uid := range []facts.UID{"a", "b"} {
		s.Apply(facts.PodUpserted{Pod: facts.Pod{UID: uid, Namespace: "x", Name: string(uid), Ours: true, Requirements: exclusive(1)}})
	}
	if v := commit(s, "a"); !v.Committed {
		t.Fatalf("%+v", v)
	}
	wantUsed(t, s, "one is placed", "8000m 16Gi 0 GPU milli, root 8000m")
	if v := commit(s, "b"); v.Reason != cluster.RejectQuota || v.Short.Asked != 8000 || v.Short.Used != 8000 || v.Short.Limit != 12000 {
		t.Errorf("beyond the limit: %+v", v)
	}
	s.Apply(facts.PodUpserted{Pod: facts.Pod{UID: "c", Namespace: "x", Name: "c", Ours: true, Priority: 1, Requirements: exclusive(1)}})
	instead := &cluster.Plan{Placements: []cluster.Placement{{Pod: "c", Node: "n", Grant: s.Pod("a").Grant()}}, Victims: []facts.UID{"a"}}
	if v := s.Commit(instead, rules.Commits); !v.Committed {
		t.Errorf("in place of a victim that holds as much: %+v", v)
	}
	wantUsed(t, s, "until the victim has left", "16000m 32Gi 0 GPU milli, root 16000m")
	s.Apply(facts.PodRemoved{UID: "c"})
	dump := s.Dump()
	dump.Sort()
	loaded, err := cluster.Load(dump)
	if err != nil {
		t.Fatal(err)
	}
	wantUsed(t, loaded, "loaded", "8000m 16Gi 0 GPU milli, root 8000m")
	s.Apply(facts.NodeRemoved{Name: "n"})
	wantUsed(t, s, "the node is gone", "0m 0Gi 0 GPU milli, root 0m")
	numaNode(s, "n")
	wantUsed(t, s, "the node is back", "8000m 16Gi 0 GPU milli, root 8000m")
	s.Apply(facts.PodRemoved{UID: "a"})
	wantUsed(t, s, "it has left", "0m 0Gi 0 GPU milli, root 0m")
}

// A soft slice takes whole steps of a GPU, and a MIG instance is as large as it is.
func TestQueuesAreChargedWholeStepsOfGPUs(t *testing.T) {
	s := queuedStore(1 << 20)
	s.Apply(facts.NodeUpserted{Node: &facts.Node{Name: "n", Allocatable: amounts(16000)}})
	devices := &topology.Devices{Owner: topology.OwnerHilbert, GPU: []topology.GPU{
		{Model: "a", Memory: 80 << 10, Switch: topology.NoPlace, NUMANode: topology.NoPlace, Socket: topology.NoPlace, Grain: 100, Clients: 8, Strengths: topology.StrengthsOf(topology.Soft)},
		{Model: "a", Memory: 80 << 10, Switch: topology.NoPlace, NUMANode: topology.NoPlace, Socket: topology.NoPlace, Strengths: topology.StrengthsOf(topology.Hard), Instances: []topology.Instance{{Name: "3g", Milli: 430, Memory: 40 << 10}}},
	}}
	s.Apply(facts.NodeReported{Node: "n", Report: &facts.NodeReport{Devices: devices}})
	for uid, isolation := range map[facts.UID]topology.Isolation{"mps": topology.Soft, "mig": topology.Hard} {
		s.Apply(facts.PodUpserted{Pod: facts.Pod{UID: uid, Namespace: "x", Name: string(uid), Ours: true, Requirements: &facts.Requirements{
			GPU: topology.Request{Milli: 250, Isolation: isolation},
		}}})
	}
	if v := commit(s, "mps"); !v.Committed {
		t.Fatalf("%+v", v)
	}
	wantUsed(t, s, "a slice of 250", "0m 0Gi 300 GPU milli, root 0m")
	if v := commit(s, "mig"); !v.Committed {
		t.Fatalf("%+v", v)
	}
	wantUsed(t, s, "and an instance for 250", "0m 0Gi 730 GPU milli, root 0m")
	s.Apply(facts.PodRemoved{UID: "mps"})
	wantUsed(t, s, "the slice has left", "0m 0Gi 430 GPU milli, root 0m")
}

// What others have bound is charged to the queue of its namespace, up to what the node has; a mirror pod to its node alone.
func TestQueuesAreChargedWhatOthersBind(t *testing.T) {
	s := queuedStore(12000)
	s.Apply(facts.NodeUpserted{Node: &facts.Node{Name: "n", Allocatable: amounts(4000)}})
	bound := func(uid facts.UID, cpu int64, mirror bool) {
		s.Apply(facts.PodUpserted{Pod: facts.Pod{
			UID: uid, Namespace: "x", Name: string(uid), Node: "n", Mirror: mirror, Requirements: &facts.Requirements{Requests: []resource.Quantity{{Name: resource.NameCPU, Amount: cpu}}},
		}})
	}
	bound("static", 1000, true)
	wantUsed(t, s, "a mirror pod", "0m 0Gi 0 GPU milli, root 0m")
	if q := s.Quota().Queue("q"); q.Used(resource.Pods) != 0 || s.Requested(s.Slot("n"), resource.CPU) != 1000 {
		t.Errorf("a mirror pod counts as %d pods of its queue, and as %d of its node", q.Used(resource.Pods), s.Requested(s.Slot("n"), resource.CPU))
	}
	bound("foreign", 3000, false)
	wantUsed(t, s, "another scheduler's", "3000m 0Gi 0 GPU milli, root 3000m")
	bound("absurd", 1<<50, false)
	wantUsed(t, s, "one that asks for more than its node has", "7000m 0Gi 0 GPU milli, root 7000m")
	s.Apply(facts.NodeUpserted{Node: &facts.Node{Name: "n", Allocatable: amounts(5000)}})
	wantUsed(t, s, "the node has more", "8000m 0Gi 0 GPU milli, root 8000m")
	bound("static", 1000, false)
	wantUsed(t, s, "it mirrors nothing any more", "9000m 0Gi 0 GPU milli, root 9000m")
	bound("static", 1000, true)
	for _, uid := range []facts.UID{"foreign", "absurd"} {
		s.Apply(facts.PodRemoved{UID: uid})
	}
	wantUsed(t, s, "they have left", "0m 0Gi 0 GPU milli, root 0m")
}
