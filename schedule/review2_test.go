package schedule_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/schedule/bind"
)

func rq(kv ...any) []resource.Quantity {
	var out []resource.Quantity
	for i := 0; i < len(kv); i += 2 {
		out = append(out, resource.Quantity{Name: kv[i].(string), Amount: int64(kv[i+1].(int))})
	}
	return out
}

func revNode(name string, cpu, mem int) *facts.Node {
	return &facts.Node{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}, Allocatable: rq("cpu", cpu, "memory", mem, "pods", 110)}
}

func newSched(t testing.TB) *schedule.Scheduler {
	s, err := schedule.New(schedule.Options{Config: spec.Default().Scheduling})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func pump(s *schedule.Scheduler, now time.Time) {
	for range 20 {
		s.Step(now, 1000)
		w := append([]bind.Write(nil), s.Ready(now)...)
		if len(w) == 0 {
			return
		}
		for _, x := range w {
			s.Finish(bind.Result{ID: x.ID, Outcome: bind.Written}, now)
		}
	}
}

func TestRevOverflow(t *testing.T) {
	t.Skip("issue 15: A scheduler that no cluster can surprise")
	s := newSched(t)
	now := time.Unix(1000, 0)
	const gi = 1 << 30
	s.Apply(facts.NodeUpserted{Node: revNode("n1", 4000, 8*gi)}, now)
	s.Apply(facts.QueueUpserted{Queue: &facts.Queue{Name: "q", Weight: 1, Max: rq("memory", 8*gi)}}, now)
	s.Apply(facts.NamespaceUpserted{Namespace: facts.Namespace{Name: "ns", Labels: []facts.Label{{Key: spec.LabelQueue, Value: "q"}}}}, now)
	for i := range 2 {
		s.Apply(facts.PodUpserted{Pod: facts.Pod{
			UID: facts.UID(fmt.Sprint("evil", i)), Namespace: "ns", Name: fmt.Sprint("evil", i), Node: "n1",
			Requirements: &facts.Requirements{Requests: rq("memory", 5<<60)},
		}}, now)
	}
	st := s.Store()
	slot := st.Slot("n1")
	t.Logf("after two 5Ei foreign pods: requested=%d free=%d, queue used=%d limit=%d", st.Requested(slot, resource.Memory), st.Free(slot, resource.Memory), st.Quota().Queue("q").Used(resource.Memory), st.Quota().Queue("q").Limit(resource.Memory))
	for i := range 50 {
		s.Apply(facts.PodUpserted{Pod: facts.Pod{
			UID: facts.UID(fmt.Sprint("p", i)), Namespace: "ns", Name: fmt.Sprint("p", i), Ours: true, Created: 1,
			Requirements: &facts.Requirements{Requests: rq("memory", 4*gi)},
		}}, now)
	}
	pump(s, now)
	n := 0
	st.EachPod(func(p *cluster.Pod) {
		if p.Ours && p.Node() != "" {
			n++
		}
	})
	t.Logf("placed %d pods of 4Gi on an 8Gi node through a queue with max 8Gi; verify: %v", n, s.Verify())
}

func TestRevKinds(t *testing.T) {
	t.Skip("issue 15: A scheduler that no cluster can surprise")
	s := newSched(t)
	now := time.Unix(1000, 0)
	const gi = 1 << 30
	var many []resource.Quantity
	for i := range 520 {
		many = append(many, resource.Quantity{Name: fmt.Sprintf("evil.example/r%d", i), Amount: 1})
	}
	// one pending, gated, unprivileged pod
	s.Apply(facts.PodUpserted{Pod: facts.Pod{
		UID: "evil", Namespace: "ns", Name: "evil", Ours: true, Gated: true,
		Requirements: &facts.Requirements{Requests: many},
	}}, now)
	n := revNode("n1", 4000, 8*gi)
	n.Allocatable = append(n.Allocatable, resource.Quantity{Name: "hugepages-2Mi", Amount: gi})
	s.Apply(facts.NodeUpserted{Node: n}, now)
	st := s.Store()
	slot := st.Slot("n1")
	t.Logf("kinds known: %d", st.Kinds())
	// a foreign DaemonSet pod with hugepages on the node
	s.Apply(facts.PodUpserted{Pod: facts.Pod{
		UID: "ds", Namespace: "kube-system", Name: "ds", Node: "n1",
		Requirements: &facts.Requirements{Requests: rq("cpu", 3900, "memory", 7*gi, "hugepages-2Mi", gi)},
	}}, now)
	t.Logf("foreign pod of 3.9 cpu on n1: requested cpu=%d memory=%d pods=%d", st.Requested(slot, resource.CPU), st.Requested(slot, resource.Memory), st.Requested(slot, resource.Pods))
	s.Apply(facts.PodUpserted{Pod: facts.Pod{
		UID: "hp", Namespace: "x", Name: "hp", Ours: true, Created: 1,
		Requirements: &facts.Requirements{Requests: rq("cpu", 100, "hugepages-2Mi", 2<<20)},
	}}, now)
	s.Apply(facts.PodUpserted{Pod: facts.Pod{
		UID: "big", Namespace: "x", Name: "big", Ours: true, Created: 1,
		Requirements: &facts.Requirements{Requests: rq("cpu", 4000)},
	}}, now)
	pump(s, now)
	t.Logf("hugepages pod: refusal=%q node=%q; 4-cpu pod placed on %q beside the 3.9-cpu daemon", st.Pod("hp").Refusal(), st.Pod("hp").Node(), st.Pod("big").Node())
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
