package inspect_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cmd/hilbert/render"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/schedule/bind"
	"hilbert.dev/hilbert/schedule/inspect"
	"hilbert.dev/hilbert/schedule/inspect/dumptest"
	"hilbert.dev/hilbert/schedule/profiles"
	"hilbert.dev/hilbert/topology"
)

// text renders an answer, or the error instead of one.
func text(a *inspect.Answer, err error) string {
	if err != nil {
		return err.Error() + "\n"
	}
	var b strings.Builder
	if err := render.Pod(&b, a); err != nil {
		return err.Error()
	}
	return b.String()
}

// TestFileExplainsAsTheScheduler drives a scheduler through random events and asks about every pod: what a file says must be byte for byte
// what the scheduler's dump says, and both what its placers say on the ledger itself.
func TestFileExplainsAsTheScheduler(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config := spec.Default().Scheduling
		config.Seed = rapid.Uint64Range(0, 3).Draw(t, "seed")
		config.Scores = map[string]int64{"MostAllocated": rapid.Int64Range(0, 2).Draw(t, "weight")}
		config.Profiles = []spec.SchedulingProfile{{Name: "batch", SchedulerNames: []string{"b"}, Scores: map[string]int64{"MostAllocated": 5, "LeastAllocated": 0}}}
		config.Binding.MaxInFlight = 2
		s, err := schedule.New(schedule.Options{Config: config})
		if err != nil {
			t.Fatal(err)
		}
		now := time.Unix(100, 0)
		for i := range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(time.Second)
			stir(t, s, i, now)
		}
		dump := inspect.Take(s, "hilbert", now)
		if n := rapid.IntRange(0, 2).Draw(t, "relieved"); n > 0 {
			dump.Relieved = inspect.Relieved{Evicted: n, Since: now.UTC()}
		}
		again := dumptest.RoundTrip(t, dump)
		if again.Relieved != dump.Relieved {
			t.Fatalf("relief has evicted %+v, and the file says %+v", dump.Relieved, again.Relieved)
		}
		for i := range again.Ledger.Pods {
			f := &again.Ledger.Pods[i].Facts
			if live, from := text(dump.Explain(f.Namespace, f.Name)), text(again.Explain(f.Namespace, f.Name)); live != from {
				t.Fatalf("live:\n%s\nfrom a file:\n%s", live, from)
			}
		}
		compareLedgers(t, s.Store(), again, config)
	})
}

// compareLedgers asks the placer about every pod that waits, on the ledger itself and on the one that was loaded.
func compareLedgers(t *rapid.T, store *cluster.Store, dump *inspect.Dump, config spec.Scheduling) {
	loaded, err := cluster.Load(dump.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	if err := loaded.Verify(); err != nil {
		t.Fatalf("loaded: %v", err)
	}
	set, err := profiles.New(&config)
	if err != nil {
		t.Fatal(err)
	}
	say := func(s *cluster.Store, uid facts.UID) string {
		snapshot := cluster.NewSnapshot()
		snapshot.Advance(s)
		pod := s.Pod(uid)
		placer := profiles.NewPlacers(set, s, snapshot, profiles.Options{Seed: config.Seed, MaxIndexes: 1}).For(pod)
		out := fmt.Sprintf("%+v\n", placer.ExplainFor(s, pod.Class, pod.Priority))
		for _, j := range placer.Ranking(pod.Class) {
			out += fmt.Sprintln(snapshot.Node(j.Slot).Name, j.Total, j.Scores)
		}
		if choice, ok := placer.Place(pod.Class); ok {
			out += fmt.Sprintln("placed on", snapshot.Node(choice.Slot).Name, choice.Grant)
		}
		return out
	}
	store.EachPod(func(pod *cluster.Pod) {
		if !pod.Schedulable() {
			return
		}
		if want, got := say(store, pod.UID), say(loaded, pod.UID); want != got {
			t.Fatalf("pod %s: the ledger says\n%s\nthe one from the file\n%s", pod.UID, want, got)
		}
	})
}

var (
	numaNodes = []string{"a", "b"}
	apps      = []string{"web", "db"}
)

// stir lets something happen.
func stir(t *rapid.T, s *schedule.Scheduler, i int, now time.Time) {
	name := func(kind string) string { return fmt.Sprint(kind, rapid.IntRange(0, 5).Draw(t, kind)) }
	switch rapid.IntRange(0, 9).Draw(t, "op") {
	case 0, 1:
		s.Apply(facts.NodeUpserted{Node: drawNode(t, name("n"))}, now)
	case 2:
		s.Apply(facts.NodeRemoved{Name: name("n")}, now)
	case 3:
		s.Apply(facts.PodRemoved{UID: facts.UID(name("p"))}, now)
	case 4:
		s.Apply(facts.NamespaceUpserted{Namespace: facts.Namespace{Name: "default", Labels: []facts.Label{{Key: "team", Value: rapid.SampledFrom(numaNodes).Draw(t, "team")}}}}, now)
		s.Apply(facts.WorkloadUpserted{Workload: &facts.Workload{Kind: facts.Service, Namespace: "default", Name: "w", Pods: drawSelector(t)}}, now)
		s.Apply(facts.BudgetUpserted{Budget: &facts.Budget{Namespace: "default", Name: "b", Pods: drawSelector(t), Allowed: int32(i)}}, now)
	case 5:
		s.Step(now, 4)
		for _, w := range s.Ready(now) {
			if outcome := rapid.IntRange(0, int(bind.NotSent)).Draw(t, "outcome"); outcome > 0 {
				s.Finish(bind.Result{ID: w.ID, Outcome: bind.Outcome(outcome)}, now)
			}
		}
	default:
		s.Apply(facts.PodUpserted{Pod: drawPod(t, s, name("p"))}, now)
	}
}

func drawNode(t *rapid.T, name string) *facts.Node {
	n := &facts.Node{
		Name: name, Labels: map[string]string{"zone": rapid.SampledFrom(numaNodes).Draw(t, "zone"), facts.HostnameKey: name},
		Unschedulable: rapid.IntRange(0, 9).Draw(t, "cordon") == 0,
		Allocatable: []resource.Quantity{
			{Name: "cpu", Amount: 1000 * rapid.Int64Range(0, 4).Draw(t, "cpu")},
			{Name: "pods", Amount: rapid.Int64Range(0, 4).Draw(t, "pods")},
			{Name: rapid.SampledFrom([]string{"x/a", "x/b", "x/c"}).Draw(t, "extended"), Amount: 2},
		},
		Images: []facts.Image{{Name: "i", Size: rapid.Int64Range(0, 3).Draw(t, "size") << 29}},
	}
	if gpus := rapid.IntRange(0, 2).Draw(t, "gpus"); gpus > 0 {
		n.GPU = topology.Shape{GPUs: gpus, Shareable: rapid.Bool().Draw(t, "share")}
	}
	if rapid.IntRange(0, 3).Draw(t, "taint") == 0 {
		n.Taints = []facts.Taint{{Key: "t", Effect: facts.TaintEffect(rapid.IntRange(1, 3).Draw(t, "effect"))}}
	}
	return n
}

func drawSelector(t *rapid.T) facts.LabelSelector {
	return facts.LabelSelector{Expressions: []facts.Requirement{{Key: "app", Operator: facts.In, Values: []string{rapid.SampledFrom(apps).Draw(t, "app")}}}}
}

func drawPod(t *rapid.T, s *schedule.Scheduler, name string) facts.Pod {
	r := &facts.Requirements{
		Requests: []resource.Quantity{{Name: "cpu", Amount: 500 * rapid.Int64Range(0, 5).Draw(t, "cpu")}}, ScoreCPU: 100, ScoreMemory: 200 << 20,
		Images: []string{"i"},
	}
	if rapid.IntRange(0, 2).Draw(t, "extended") == 0 {
		r.Requests = append(r.Requests, resource.Quantity{Name: rapid.SampledFrom([]string{"x/a", "x/b", "x/c"}).Draw(t, "which"), Amount: 1})
	}
	if rapid.IntRange(0, 2).Draw(t, "gpu") == 0 {
		r.GPU = topology.Request{Milli: 600}
	}
	pods := facts.PodSelector{Namespaces: []string{"default"}, Labels: drawSelector(t)}
	if rapid.Bool().Draw(t, "by label") {
		pods = facts.PodSelector{NamespaceSelector: &facts.LabelSelector{Expressions: []facts.Requirement{
			{Key: "team", Operator: facts.In, Values: []string{"a"}},
		}}, Labels: drawSelector(t)}
	}
	key := rapid.SampledFrom([]string{"numaNode", facts.HostnameKey}).Draw(t, "key")
	switch rapid.IntRange(0, 5).Draw(t, "constraint") {
	case 0:
		r.AntiAffinity = []facts.AffinityTerm{{TopologyKey: key, Pods: pods}}
	case 1:
		r.Affinity = []facts.AffinityTerm{{TopologyKey: key, Pods: pods}}
	case 2:
		r.PreferredPods = []facts.WeightedAffinityTerm{{Weight: 7, AffinityTerm: facts.AffinityTerm{TopologyKey: key, Pods: pods}}}
	case 3:
		r.Spread = []facts.SpreadConstraint{{TopologyKey: key, MaxSkew: 1, MinDomains: 1, Hard: rapid.Bool().Draw(t, "hard"), Pods: pods, HonorTaints: true}}
	}
	f := facts.Pod{
		UID: facts.UID(name), Namespace: "default", Name: name, Ours: rapid.IntRange(0, 4).Draw(t, "ours") > 0, Priority: rapid.Int32Range(0, 2).Draw(t, "priority"),
		Labels: []facts.Label{{Key: "app", Value: rapid.SampledFrom(apps).Draw(t, "label")}}, Requirements: r,
		Profile: rapid.Uint8Range(0, 1).Draw(t, "profile"), Gated: rapid.IntRange(0, 9).Draw(t, "gated") == 0, Deleting: rapid.IntRange(0, 9).Draw(t, "deleting") == 0,
		Finished: rapid.IntRange(0, 9).Draw(t, "finished") == 0,
	}
	if known := s.Store().Pod(f.UID); known != nil { // what a pod asks for and whose it is stays
		f.Requirements, f.Node, f.Ours = known.Record().Facts.Requirements, known.Node(), known.Ours
	} else if rapid.IntRange(0, 3).Draw(t, "bound") == 0 {
		f.Node = fmt.Sprint("n", rapid.IntRange(0, 5).Draw(t, "on"))
	}
	return f
}

// emptyDump is the text of a dump of a scheduler that knows nothing.
func emptyDump(t *testing.T) string {
	t.Helper()
	s, err := schedule.New(schedule.Options{Config: spec.Default().Scheduling})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := inspect.Take(s, "hilbert", time.Unix(0, 0)).Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A file of before there were gangs is read as one without any.
func TestReadDumpReadsOlderFiles(t *testing.T) {
	older := emptyDump(t)
	for _, field := range []string{`"kept": [],`, `"queues": [],`, `"units": [],`, `"reservations": [],`, `"placeholders": [],`} {
		if !strings.Contains(older, field) {
			t.Fatalf("no %s in\n%s", field, older)
		}
		older = strings.Replace(older, field, "", 1)
	}
	d, err := inspect.ReadDump(strings.NewReader(older))
	if err != nil {
		t.Fatal(err)
	}
	if v, err := d.View(inspect.ViewOptions{}); err != nil || v.Queues != nil {
		t.Errorf("%v, %+v", err, v)
	}
}

func TestReadDumpRefusesOtherFiles(t *testing.T) {
	whole := emptyDump(t)
	for name, c := range map[string]struct{ text, want string }{
		"empty":                 {"", "ends too early"},
		"other version":         {strings.Replace(whole, "v1alpha1", "v9", 1), "this version reads snapshot.hilbert.dev/v1alpha1"},
		"other kind":            {strings.Replace(whole, "HilbertSnapshot", "Pod", 1), `"Pod" is not known`},
		"cut short":             {whole[:len(whole)/2], "ends too early"},
		"more":                  {whole + "{}", "something follows"},
		"who is kept for twice": {strings.Replace(whole, `"kept": [],`, `"kept": [], "kept": [],`, 1), "stands twice"},
		"bad setting":           {strings.Replace(whole, `"maxInFlight"`, `"maxInFligt"`, 1), "maxInFligt"},
	} {
		if _, err := inspect.ReadDump(strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}
