package sim

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/sim/judge"
	"hilbert.dev/hilbert/sim/trace"
	"hilbert.dev/hilbert/topology"
)

// draws makes small random worlds in which everything can collide.
type draws struct{ *rapid.T }

func (d draws) num(low, high int, label string) int {
	return rapid.IntRange(low, high).Draw(d.T, label)
}

func (d draws) node(name string) *facts.Node {
	n := &facts.Node{Name: name, Unschedulable: d.num(0, 9, "cordon") == 0, Labels: map[string]string{}}
	n.Allocatable = []resource.Quantity{
		{Name: resource.NameCPU, Amount: int64(d.num(0, 8, "cpu")) * 500},
		{Name: resource.NamePods, Amount: int64(d.num(0, 5, "pods"))},
		{Name: "example.com/thing", Amount: int64(d.num(0, 2, "things"))},
	}
	for range d.num(0, 2, "labels") {
		n.Labels[fmt.Sprintf("k%d", d.num(0, 2, "key"))] = fmt.Sprint(d.num(0, 3, "value"))
	}
	if d.num(0, 2, "tainted") == 0 {
		n.Taints = []facts.Taint{{
			Key: fmt.Sprintf("t%d", d.num(0, 1, "taint")), Value: fmt.Sprint(d.num(0, 1, "taint value")), Effect: facts.TaintEffect(d.num(1, 3, "effect")),
		}}
	}
	if gpus := d.num(0, 3, "gpus"); gpus > 0 {
		n.GPU = topology.Shape{GPUs: gpus, Model: "m", Shareable: d.num(0, 3, "shared") > 0}
	}
	return n
}

func (d draws) requirement() facts.Requirement {
	e := facts.Requirement{Key: fmt.Sprintf("k%d", d.num(0, 2, "key")), Operator: facts.Operator(d.num(1, 6, "operator"))}
	values := d.num(0, 2, "values")
	if e.Operator == facts.Gt || e.Operator == facts.Lt {
		values = 1
	}
	for range values {
		e.Values = append(e.Values, fmt.Sprint(d.num(0, 3, "value")))
	}
	return e
}

func (d draws) requirements() *facts.Requirements {
	r := &facts.Requirements{Requests: requests(int64(d.num(0, 4, "cpu"))*500, int64(d.num(0, 1, "things")))}
	switch d.num(0, 3, "gpu") {
	case 0:
		r.GPU.Milli = int16(d.num(1, 9, "milli") * 100)
	case 1:
		r.GPU.Whole = int8(d.num(1, 3, "whole"))
	}
	if d.num(0, 2, "selects") == 0 {
		r.NodeSelector = []facts.Label{{Key: fmt.Sprintf("k%d", d.num(0, 2, "key")), Value: fmt.Sprint(d.num(0, 3, "value"))}}
	}
	if d.num(0, 1, "affine") == 0 {
		r.Required = []facts.Term{}
		for range d.num(0, 2, "terms") {
			term := facts.Term{}
			for range d.num(0, 2, "expressions") {
				term.Expressions = append(term.Expressions, d.requirement())
			}
			if d.num(0, 4, "by name") == 0 {
				term.Fields = []facts.Requirement{{Key: facts.FieldName, Operator: facts.In, Values: []string{fmt.Sprintf("n%d", d.num(0, 2, "name"))}}}
			}
			r.Required = append(r.Required, term)
		}
	}
	for range d.num(0, 1, "tolerations") {
		toleration := facts.Toleration{
			Exists: d.num(0, 1, "exists") == 0, Value: fmt.Sprint(d.num(0, 1, "tolerated")), Effect: facts.TaintEffect(d.num(0, 3, "effect")),
		}
		if key := d.num(0, 3, "tolerated key"); key < 2 {
			toleration.Key = fmt.Sprintf("t%d", key)
		} else if key == 2 {
			toleration.Key = rules.TaintUnschedulable
		} else {
			toleration.Exists = true
		}
		r.Tolerations = append(r.Tolerations, toleration)
	}
	if d.num(0, 3, "port") == 0 {
		r.Ports = []facts.HostPort{{
			Protocol: []string{"TCP", "UDP"}[d.num(0, 1, "protocol")], IP: []string{facts.AnyIP, "10.0.0.1", "10.0.0.2"}[d.num(0, 2, "ip")],
			Port: int32(80 + d.num(0, 1, "number")),
		}}
	}
	return r
}

func requests(cpu, things int64) []resource.Quantity {
	var list []resource.Quantity
	if cpu > 0 {
		list = append(list, resource.Quantity{Name: resource.NameCPU, Amount: cpu})
	}
	if things > 0 {
		list = append(list, resource.Quantity{Name: "example.com/thing", Amount: things})
	}
	return list
}

// TestJudgeAgreesWithFilters: the naive judge and the core's filters share no code, and agree on random nodes, pods and grants.
func TestJudgeAgreesWithFilters(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		d := draws{rt}
		n := d.node("n0")
		store := cluster.NewStore()
		store.Apply(facts.NodeUpserted{Node: n})
		var on []judge.Occupant
		for i := range d.num(0, 4, "occupants") {
			r := d.requirements()
			grant, ok := judge.SomeGrant(n, on, r.GPU)
			if !ok {
				continue
			}
			on = append(on, judge.Occupant{Requirements: r, Grant: grant})
			store.Apply(facts.PodUpserted{Pod: facts.Pod{
				UID: facts.UID(fmt.Sprint(i)), Name: fmt.Sprint(i), Node: n.Name, Requirements: r, Grant: grant,
			}})
		}
		r := d.requirements()
		class, slot := store.Class(r), store.Slot(n.Name)
		if class.Absent != "" { // of which the filters know nothing: the pod is refused before
			if judge.Fits(n, on, r) {
				rt.Fatalf("a pod fits that is refused: %s", class.Absent)
			}
			return
		}
		if ours, core := judge.Fits(n, on, r), rules.Fits(&store.State, slot, class); ours != core {
			rt.Fatalf("a pod fits: the judge says %v, the core %v", ours, core)
		}
		grant := topology.Grant{GPUs: uint16(d.num(0, 7, "granted")), Milli: int16(d.num(0, 10, "granted milli") * 100)}
		switch {
		case grant.GPUs == 0:
			grant.Milli = 0
		case d.num(0, 3, "isolation") == 0:
			grant.Isolation = topology.Isolation(d.num(0, 2, "given isolation"))
		case grant.Milli < topology.FullGPU:
			grant.Isolation = topology.Accounting
		}
		if ours, core := judge.Refusal(n, on, r, grant), rules.Commits(&store.State, slot, class, &grant); (ours == "") != (core == "") {
			rt.Fatalf("a pod with GPUs %v at %d milli may join: the judge says %q, the core %q", grant, grant.Milli, ours, core)
		}
	})
}

// TestIsolationOfGrants: where there are only counters, a part of a GPU is given with isolation accounting, and whole GPUs are given without any.
func TestIsolationOfGrants(t *testing.T) {
	t.Parallel()
	n := &facts.Node{Name: "n0", GPU: topology.Shape{GPUs: 1, Model: "m", Shareable: true}, Allocatable: []resource.Quantity{{Name: resource.NamePods, Amount: 1}}}
	store := cluster.NewStore()
	store.Apply(facts.NodeUpserted{Node: n})
	for _, c := range []struct {
		asks topology.Request
		want topology.Isolation
	}{
		{topology.Request{Milli: 500}, topology.Accounting},
		{topology.Request{Whole: 1}, topology.IsolationAny},
	} {
		r := &facts.Requirements{GPU: c.asks}
		class, slot := store.Class(r), store.Slot(n.Name)
		for isolation := topology.IsolationAny; isolation <= topology.Hard; isolation++ {
			grant := topology.Grant{GPUs: 1, Milli: int16(c.asks.Total()), Isolation: isolation}
			ours, core := judge.Refusal(n, nil, r, grant), rules.Commits(&store.State, slot, class, &grant)
			if fits := isolation == c.want; fits != (ours == "") || fits != (core == "") {
				t.Errorf("%+v with isolation %v: the judge says %q, the core %q", c.asks, isolation, ours, core)
			}
		}
		if grant, _ := judge.SomeGrant(n, nil, c.asks); grant.Isolation != c.want {
			t.Errorf("%+v: the judge gives isolation %v", c.asks, grant.Isolation)
		}
	}
}

// TestModelNoticesOvercommit: the model's books say that a node is over-committed exactly if counting anew says so.
func TestModelNoticesOvercommit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		d := draws{rt}
		w := &trace.Workload{Nodes: []*facts.Node{d.node("n0")}}
		for i := range d.num(1, 6, "pods") {
			w.Tasks = append(w.Tasks, trace.Task{Name: fmt.Sprint(i), Requirements: d.requirements(), Deleted: trace.Never})
		}
		api := newModel(w, newMeter(w))
		n := &api.nodes[0]
		var bound []int32
		for i := range w.Tasks {
			p := api.create(int32(i), 0, true, 0)
			grant, ok := judge.SomeGrant(n.object, nil, w.Tasks[i].Requirements.GPU)
			if !ok {
				continue
			}
			before := judge.Overcommitted(n.object, api.occupants(n))
			over := api.bind(p, 0, grant, 0)
			after := judge.Overcommitted(n.object, api.occupants(n))
			if before == "" && (over == "") != (after == "") {
				rt.Fatalf("the books say %q, counting says %q", over, after)
			}
			bound = append(bound, p)
			if d.num(0, 2, "leaves") == 0 {
				api.remove(bound[0], 0)
				bound = bound[1:]
			}
		}
		for _, p := range bound {
			api.remove(p, 0)
		}
		fresh := newModel(w, newMeter(w)).nodes[0]
		if fmt.Sprint(n.free, n.gpus, len(n.ports), len(n.pods)) != fmt.Sprint(fresh.free, fresh.gpus, 0, 0) {
			rt.Fatalf("an empty node keeps %v, %v, %v, %v", n.free, n.gpus, n.ports, n.pods)
		}
		if api.meter.allocated != (trace.Capacity{}) {
			rt.Fatalf("an empty cluster has %+v allocated", api.meter.allocated)
		}
	})
}

// TestAgenda: events come by time, and within one instant in the order in which they were added.
func TestAgenda(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		a := newAgenda()
		times := rapid.SliceOf(rapid.Int64Range(0, 5)).Draw(rt, "times")
		for i, at := range times {
			a.add(event{at: at, arg: int32(i)})
		}
		var last event
		for i := range times {
			e, ok := a.next(5)
			if !ok {
				rt.Fatalf("%d events of %d", i, len(times))
			}
			if i > 0 && (e.at < last.at || e.at == last.at && e.arg < last.arg) {
				rt.Fatalf("%+v comes after %+v", e, last)
			}
			last = e
		}
		if _, ok := a.next(5); ok {
			rt.Fatal("there is an event too many")
		}
	})
}

// TestHistogram: a quantile is at most a sixteenth above the exact one, and never below.
func TestHistogram(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		list := rapid.SliceOfN(rapid.Int64Range(0, int64(time.Hour)), 1, 50).Draw(rt, "durations")
		var h histogram
		for _, d := range list {
			h.add(time.Duration(d))
		}
		for _, q := range []int{1, 500, 990, 1000} {
			need := (len(list)*q + 999) / 1000
			got, below := h.quantile(q), 0
			exact := time.Duration(1<<63 - 1)
			for _, d := range list {
				if count := rank(list, d); count >= need {
					exact = min(exact, time.Duration(d))
				}
				if time.Duration(d) <= got {
					below++
				}
			}
			if below < need || got > exact+exact/16 {
				rt.Fatalf("quantile %d of %v is %v, exactly %v", q, list, got, exact)
			}
		}
	})
	if got := (&histogram{}).quantile(990); got != 0 {
		t.Errorf("a quantile of nothing is %v", got)
	}
}

// rank is how many of the list are at most d.
func rank(list []int64, d int64) int {
	n := 0
	for _, other := range list {
		if other <= d {
			n++
		}
	}
	return n
}

// TestWatchOrder: each watch keeps its order, and events of two watches do overtake one another.
func TestWatchOrder(t *testing.T) {
	t.Parallel()
	crossed := false
	for seed := range uint64(10) {
		w := invent(t, faultyWorkload, seed)
		o := Options{Seed: seed, Config: spec.Default().Scheduling, Faults: DefaultFaults(w)}
		s, err := newSimulation(w, o)
		if err != nil {
			t.Fatal(err)
		}
		var last [2]uint64
		s.process.seams.told = func(e facts.Event) facts.Event {
			which := watchPods
			switch e.(type) {
			case facts.NodeUpserted, facts.NodeRemoved, facts.NodesListed:
				which = watchNodes
			}
			now := s.watches.streams[which].delivered
			if now < last[which] {
				t.Fatalf("watch %d delivers revision %d after %d", which, now, last[which])
			}
			crossed = crossed || now < last[1-which]
			last[which] = now
			return e
		}
		if _, err := s.run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if !crossed {
		t.Error("the two watches never overtook one another")
	}
}
