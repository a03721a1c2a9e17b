package schedule_test

import (
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
