package schedule_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/schedule/bind"
)

// BenchmarkHostileNamespace has 20,000 pods wait in one namespace that fit on none of 1,000 nodes, each unlike the others: by requests, a selector, an image and
// a term about pods of its own label. Then pods of another namespace come and go, one at a time. ns/op is what the scheduler takes for one of those
// from its arrival to the Binding, and for its end.
func BenchmarkHostileNamespace(b *testing.B) {
	for _, most := range []int{0, 2000} {
		b.Run(fmt.Sprint("most=", most), func(b *testing.B) { benchmarkHostile(b, most) })
	}
}

func benchmarkHostile(b *testing.B, most int) {
	config := spec.Default().Scheduling
	config.MaxWaitingClasses = &most
	s, err := schedule.New(schedule.Options{Config: config})
	if err != nil {
		b.Fatal(err)
	}
	now := time.Unix(1000, 0)
	for i := range 1000 {
		n := revNode(fmt.Sprint("n", i), 16000, 64<<30)
		n.Labels = map[string]string{facts.HostnameKey: n.Name}
		s.Apply(facts.NodeUpserted{Node: n}, now)
	}
	before := heap()
	began := time.Now()
	for i := range 20_000 {
		p := sized("hostile", i, 20_000)
		p.Labels = []facts.Label{{Key: "pod", Value: fmt.Sprint(i)}}
		r := p.Requirements
		r.Requests = append(r.Requests, resource.Quantity{Name: resource.NameMemory, Amount: int64(1 + i)})
		r.NodeSelector = []facts.Label{{Key: fmt.Sprint("odd.example/", i), Value: "x"}}
		r.Images = []string{fmt.Sprintf("odd.example/image-%d:v1", i)}
		r.AntiAffinity = []facts.AffinityTerm{{TopologyKey: facts.HostnameKey, Pods: facts.PodSelector{Namespaces: []string{"hostile"}, Labels: facts.LabelSelector{
			Expressions: []facts.Requirement{{Key: "pod", Operator: facts.In, Values: []string{fmt.Sprint(i)}}},
		}}}}
		s.Apply(facts.PodUpserted{Pod: p}, now)
	}
	arrived := time.Since(began)
	answer(s, now)
	tried := time.Since(began) - arrived
	bytes := heap() - before
	i := 0
	for b.Loop() {
		i++
		p := sized("one", i, 100)
		s.Apply(facts.PodUpserted{Pod: p}, now)
		for s.Store().Pod(p.UID).Node() == "" {
			if s.Step(now, 1000) == 0 {
				b.Fatal("it is not placed")
			}
		}
		answer(s, now)
		s.Apply(facts.PodRemoved{UID: p.UID}, now)
	}
	b.ReportMetric(float64(bytes)/20_000, "bytes/hostilepod")
	b.ReportMetric(float64(arrived.Microseconds())/20_000, "µs/arrival")
	b.ReportMetric(float64(tried.Microseconds())/20_000, "µs/hostilepod-tried")
	b.ReportMetric(float64(s.Bounds().HeldBack), "heldback")
}

// answer steps until there is nothing to decide, and answers what is written.
func answer(s *schedule.Scheduler, now time.Time) {
	for {
		done := s.Step(now, 1000)
		writes := slices.Clone(s.Ready(now))
		for _, w := range writes {
			s.Finish(bind.Result{ID: w.ID, Outcome: bind.Written, Node: w.Node}, now)
		}
		if done == 0 && len(writes) == 0 {
			return
		}
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
