package inspect_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cmd/hilbert/render"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/schedule/bind"
	"hilbert.dev/hilbert/schedule/inspect"
	"hilbert.dev/hilbert/schedule/inspect/dumptest"
	"hilbert.dev/hilbert/topology"
)

// TestChangesHelp asks about every gang that waits what would help, makes it so in a pipeline of its own, in which nobody else waits, and
// looks: the gang gets its places, and nobody has to leave for it. A gang that is said to fit now does so without a change, and one that is
// said not to does not.
func TestChangesHelp(t *testing.T) {
	kinds := make(map[string]int)
	rapid.Check(t, func(t *rapid.T) {
		p := newPipeline(t, spec.Duration(rapid.SampledFrom([]time.Duration{time.Second, time.Hour}).Draw(t, "reserve after")))
		drawTenants(t, p)
		for i := range rapid.IntRange(1, 10).Draw(t, "gangs") {
			drawGang(t, p, i)
			p.run()
		}
		p.now = p.now.Add(2 * time.Second)
		p.run()
		for i := range rapid.IntRange(0, 3).Draw(t, "late gangs") { // which may meet nodes that are kept for others
			drawGang(t, p, 100+i)
			p.run()
		}
		if i := rapid.IntRange(0, 20).Draw(t, "lost"); i > 0 {
			p.s.Apply(facts.PodRemoved{UID: facts.UID(fmt.Sprintf("g%d-0", i))}, p.now)
		}
		dump := inspect.Take(p.s, "hilbert", p.now)
		dump.Sort()
		for i := range dump.Ledger.Units {
			name := dump.Ledger.Units[i].Facts.UnitName
			a, err := dumptest.RoundTrip(t, dump).ExplainUnit(name.Namespace, name.Name)
			if err != nil {
				t.Fatal(err)
			}
			compareToPipeline(t, dump, a)
			for i := range a.Changes {
				kinds[kindOf(&a.Changes[i])]++
			}
		}
	})
	tried := 0
	for _, n := range kinds {
		tried += n
	}
	for _, kind := range []string{"limits", "gone", "members", "nodes", "limits+nodes"} { // the transcripts have the rarer ones
		if kinds[kind] == 0 && tried > 200 {
			t.Errorf("no change of kind %s was tried; there were %v", kind, kinds)
		}
	}
	t.Logf("tried %v", kinds)
}

// kindOf tells changes apart.
func kindOf(c *inspect.UnitChange) string {
	var parts []string
	for _, k := range []struct {
		name string
		has  bool
	}{
		{"limits", len(c.Limits) > 0},
		{"packing", c.Packing != nil},
		{"gone", c.Gone != ""},
		{"members", c.Members > 0},
		{"nodes", c.Nodes > 0},
		{"opened", c.Opened},
	} {
		if k.has {
			parts = append(parts, k.name)
		}
	}
	return strings.Join(parts, "+")
}

// pipeline is a scheduler to whose writes the API server always says yes.
type pipeline struct {
	t      *rapid.T
	s      *schedule.Scheduler
	now    time.Time
	config spec.Scheduling
}

func newPipeline(t *rapid.T, reserveAfter spec.Duration) *pipeline {
	p := &pipeline{t: t, now: time.Unix(1000, 0), config: spec.Default().Scheduling}
	p.config.Units.ReserveAfter = reserveAfter
	p.config.Topology.Levels = []string{"block", "rack"}
	s, err := schedule.New(schedule.Options{Config: p.config})
	if err != nil {
		t.Fatal(err)
	}
	p.s = s
	return p
}

// run goes on until nothing happens any more.
func (p *pipeline) run() {
	for range 100 {
		decisions := p.s.Step(p.now, 100)
		writes := slices.Clone(p.s.Ready(p.now))
		for _, w := range writes {
			if w.Kind == bind.DeletePod {
				p.s.Apply(facts.PodRemoved{UID: w.Pod}, p.now)
			}
			p.s.Finish(bind.Result{ID: w.ID, Outcome: bind.Written}, p.now)
		}
		if decisions == 0 && len(writes) == 0 {
			break
		}
	}
	if err := p.s.Verify(); err != nil {
		p.t.Fatal(err)
	}
}

func drawTenants(t *rapid.T, p *pipeline) {
	for i := range rapid.IntRange(1, 6).Draw(t, "nodes") {
		name := fmt.Sprint("n", i)
		p.s.Apply(facts.NodeUpserted{Node: &facts.Node{
			Name: name, Labels: map[string]string{
				facts.HostnameKey: name, "block": fmt.Sprint("b", i/4), "rack": fmt.Sprint("r", i/2),
				"model": rapid.SampledFrom([]string{"old", "new"}).Draw(t, "model"),
			},
			Allocatable: []resource.Quantity{{Name: "cpu", Amount: 1000 * rapid.Int64Range(2, 6).Draw(t, "cpu")}, {Name: "pods", Amount: 10}},
			GPU:         topology.Shape{GPUs: rapid.IntRange(0, 4).Draw(t, "gpus")},
		}}, p.now)
	}
	for i, name := range []string{"top", "left", "right"}[:rapid.IntRange(0, 3).Draw(t, "queues")] {
		q := &facts.Queue{Name: name, Weight: 1, BorrowsNothing: rapid.IntRange(0, 3).Draw(t, "borrows nothing") == 0}
		if i > 0 {
			q.Parent = "top"
		}
		for _, r := range []string{"cpu", spec.ResourceGPUMilli} {
			if guaranteed := rapid.Int64Range(0, 6).Draw(t, "guaranteed"); guaranteed > 2 {
				q.Guaranteed = append(q.Guaranteed, resource.Quantity{Name: r, Amount: 1000 * guaranteed})
			}
			if limit := rapid.Int64Range(0, 9).Draw(t, "max"); limit > 3 {
				q.Max = append(q.Max, resource.Quantity{Name: r, Amount: 1000 * limit})
			}
		}
		p.s.Apply(facts.QueueUpserted{Queue: q}, p.now)
		p.s.Apply(facts.NamespaceUpserted{Namespace: facts.Namespace{
			Name: fmt.Sprint("ns", i), Labels: []facts.Label{{Key: spec.LabelQueue, Value: name}},
		}}, p.now)
	}
}

func drawGang(t *rapid.T, p *pipeline, i int) {
	name, namespace := fmt.Sprint("g", i), fmt.Sprint("ns", rapid.IntRange(0, 3).Draw(t, "namespace"))
	f := &facts.Unit{
		UnitName: facts.UnitName{Namespace: namespace, Name: name}, UID: facts.UID(name), Created: int64(i),
		MinMember: rapid.Int32Range(1, 5).Draw(t, "min"),
		Topology: facts.Packing{
			Required:  rapid.SampledFrom([]string{"", "", "rack", "block"}).Draw(t, "required"),
			Uniform:   rapid.SampledFrom([]string{"", "", "", "model"}).Draw(t, "uniform"),
			Preferred: rapid.SampledFrom([]string{"", "", facts.HostnameKey}).Draw(t, "preferred"),
		},
	}
	p.s.Apply(facts.UnitUpserted{Unit: f}, p.now)
	r := &facts.Requirements{Requests: []resource.Quantity{{Name: "cpu", Amount: 500 * rapid.Int64Range(1, 5).Draw(t, "cpu")}}}
	if gpus := rapid.Int8Range(0, 2).Draw(t, "gpus"); gpus > 0 {
		r.GPU = topology.Request{Whole: gpus}
	}
	for k := range rapid.Int32Range(max(f.MinMember-1, 1), f.MinMember+1).Draw(t, "members") {
		pod := fmt.Sprintf("%s-%d", name, k)
		p.s.Apply(facts.PodUpserted{Pod: facts.Pod{
			UID: facts.UID(pod), Namespace: namespace, Name: pod, Unit: name, Ours: true, Created: int64(i), Requirements: r,
		}}, p.now)
	}
}

// compareToPipeline holds what is said of a unit against what a pipeline does.
func compareToPipeline(t *rapid.T, dump *inspect.Dump, a *inspect.UnitAnswer) {
	reserved := len(dump.Kept) > 0
	if a.Waiting > 0 && !reserved {
		if placed := try(t, dump, a, &inspect.UnitChange{}); placed != a.FitsNow {
			t.Fatalf("%s/%s fits now: %v; the pipeline places it: %v\n%s", a.Namespace, a.Name, a.FitsNow, placed, unitText(a))
		}
	}
	for i := range a.Changes {
		if !try(t, dump, a, &a.Changes[i]) {
			t.Fatalf("%s/%s is not placed, though %s\n%s", a.Namespace, a.Name, a.Changes[i].String(), unitText(a))
		}
	}
}

func unitText(a *inspect.UnitAnswer) string {
	var b strings.Builder
	_ = render.Unit(&b, a)
	return b.String()
}

// try makes a change in a pipeline of its own, in which nobody else waits, and reports whether the unit gets what it needs.
func try(t *rapid.T, dump *inspect.Dump, a *inspect.UnitAnswer, c *inspect.UnitChange) bool {
	fresh := newPipeline(t, spec.Duration(time.Hour))
	for _, n := range dump.Ledger.Namespaces {
		fresh.s.Apply(facts.NamespaceUpserted{Namespace: n}, fresh.now)
	}
	for _, q := range dump.Ledger.Queues {
		fresh.s.Apply(facts.QueueUpserted{Queue: higher(q, c)}, fresh.now)
	}
	for _, n := range dump.Ledger.Nodes {
		fresh.s.Apply(facts.NodeUpserted{Node: n}, fresh.now)
		for i := range c.Nodes {
			if n.Name == c.Like {
				another := *n
				another.Name = fmt.Sprintf("%s-%d", n.Name, i)
				another.Labels = maps.Clone(n.Labels)
				another.Labels[facts.HostnameKey] = another.Name
				fresh.s.Apply(facts.NodeUpserted{Node: &another}, fresh.now)
			}
		}
	}
	for i := range dump.Ledger.Units {
		f := dump.Ledger.Units[i].Facts
		f.Scheduled = f.Scheduled || dump.Ledger.Units[i].Reached
		if f.Namespace == a.Namespace && f.Name == a.Name && c.Packing != nil {
			packing := map[string]*string{"the required topology": &f.Topology.Required, "the uniform label": &f.Topology.Uniform}
			*packing[c.Packing.Of] = c.Packing.Instead
		}
		fresh.s.Apply(facts.UnitUpserted{Unit: &f}, fresh.now)
	}
	for i := range dump.Ledger.Pods {
		f := dump.Ledger.Pods[i].Facts
		own := f.Namespace == a.Namespace && f.Unit == a.Name
		if own || f.Node != "" && c.Gone != f.Namespace+"/"+f.Unit {
			fresh.s.Apply(facts.PodUpserted{Pod: f}, fresh.now)
			for k := range c.Members {
				if own {
					f.UID, f.Name, f.Node = facts.UID(fmt.Sprintf("more-%d", k)), fmt.Sprintf("more-%d", k), ""
					fresh.s.Apply(facts.PodUpserted{Pod: f}, fresh.now)
				}
			}
		}
	}
	fresh.s.Step(fresh.now, 1) // the members that are left over may evict others in their turn
	unit := fresh.s.Store().Units().Get(facts.UnitName{Namespace: a.Namespace, Name: a.Name})
	placed := 0
	for _, pod := range unit.Pods() {
		if pod.Placed() && !pod.Obliged() {
			placed++
		}
	}
	return placed >= a.Placed+a.Need
}

// higher raises the limits of a queue that the change names.
func higher(q *facts.Queue, c *inspect.UnitChange) *facts.Queue {
	changed := *q
	changed.Max = slices.Clone(q.Max)
	for _, l := range c.Limits {
		if l.Queue != q.Name {
			continue
		}
		for i := range changed.Max {
			if changed.Max[i].Name == l.Resource {
				changed.Max[i].Amount = max(changed.Max[i].Amount, l.Limit+l.More)
			}
		}
		changed.BorrowsNothing = changed.BorrowsNothing && !l.Borrows
	}
	return &changed
}
