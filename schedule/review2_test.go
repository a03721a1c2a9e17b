package schedule_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
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
