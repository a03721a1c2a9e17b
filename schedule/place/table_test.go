package place

import (
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/topology"
)

// TestEveryFilterHasItsCommitCheck enumerates the table: a filter without a commit check, a name or a reason cannot exist.
func TestEveryFilterHasItsCommitCheck(t *testing.T) {
	names := map[string]bool{}
	scope := rules.Static
	for _, f := range rules.Filters {
		if f.Name == "" || names[f.Name] {
			t.Errorf("filter name %q is empty or stands twice", f.Name)
		}
		names[f.Name] = true
		if f.Fits == nil || f.Commits == nil || f.Why == nil {
			t.Errorf("%s: Fits, Commits and Why must all be there", f.Name)
		}
		if f.Scope < scope {
			t.Errorf("%s: static filters come first, then local ones, so that explanations count them in that order", f.Name)
		}
		scope = f.Scope
	}
}

// TestCommitIsNeverWeakerThanForecast: on random nodes and classes, what a filter's commit check lets through with some grant, its
// forecast lets through too, and what every forecast lets through commits with the grant that is offered.
func TestCommitIsNeverWeakerThanForecast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		store := cluster.NewStore()
		node := drawNode(t)
		store.Apply(facts.NodeUpserted{Node: node})
		if report := drawReport(t); report != nil {
			store.Apply(facts.NodeReported{Node: node.Name, Report: report})
		}
		store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: "other", Node: node.Name, Requirements: drawRequirements(t)}})
		class := store.Class(drawRequirements(t))
		slot := store.Slot(node.Name)
		grant, offered := store.Offer(slot, class)
		for _, f := range rules.Filters {
			forecast, commit := f.Fits(&store.State, slot, class), f.Commits(&store.State, slot, class, &grant)
			if commit && !forecast || forecast && offered && !commit {
				t.Fatalf("%s: forecast says %v, commit says %v", f.Name, forecast, commit)
			}
			if forecast {
				continue
			}
			phrases := 0
			f.Why(&store.State, slot, class, func(string) { phrases++ })
			if phrases == 0 {
				t.Fatalf("%s refuses without a reason", f.Name)
			}
		}
	})
}

func TestCommitRefusesAWrongGrant(t *testing.T) {
	store := cluster.NewStore()
	store.Apply(facts.NodeUpserted{Node: &facts.Node{Name: "n", GPU: topology.Shape{GPUs: 2, Shareable: true}}})
	slot := store.Slot("n")
	for _, c := range []struct {
		request topology.Request
		grant   topology.Grant
		want    bool
	}{
		{topology.Request{}, topology.Grant{}, true},
		{topology.Request{}, topology.Grant{GPUs: 1, Milli: 1000}, false},
		{topology.Request{Whole: 1}, topology.Grant{}, false},
		{topology.Request{Whole: 1}, topology.Grant{GPUs: 2, Milli: 1000}, true},
		{topology.Request{Whole: 1}, topology.Grant{GPUs: 3, Milli: 1000}, false},
		{topology.Request{Whole: 1}, topology.Grant{GPUs: 1, Milli: 500}, false},
		{topology.Request{Milli: 300}, topology.Grant{GPUs: 1, Milli: 300, Isolation: topology.Accounting}, true},
		{topology.Request{Milli: 300}, topology.Grant{GPUs: 4, Milli: 300, Isolation: topology.Accounting}, false},
	} {
		class := store.Class(&facts.Requirements{GPU: c.request})
		if got := filterNamed("GPUFit").Commits(&store.State, slot, class, &c.grant); got != c.want {
			t.Errorf("%+v with %+v: %v, want %v", c.request, c.grant, got, c.want)
		}
	}
}

// TestScoresByHand pins the formulas on one node: 4 cores, 8 GiB, one pod of 1 core and 4 GiB on it, and the same pod to come.
func TestScoresByHand(t *testing.T) {
	store := cluster.NewStore()
	r := &facts.Requirements{
		Requests: quantities("cpu", 1000, "memory", 4<<30), ScoreCPU: 1000, ScoreMemory: 4 << 30,
	}
	store.Apply(facts.NodeUpserted{Node: &facts.Node{Name: "n", Allocatable: quantities("cpu", 4000, "memory", 8<<30, "pods", 9)}})
	store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: "a", Node: "n", Requirements: r}})
	class, slot := store.Class(r), store.Slot("n")
	for _, c := range []struct {
		name string
		got  int64
		want int64
	}{
		{"LeastAllocated", scoreNamed("LeastAllocated")(nil, &store.State, slot, class), (50 + 0) / 2},
		{"MostAllocated", scoreNamed("MostAllocated")(nil, &store.State, slot, class), (50 + 100) / 2},
		// shares 0.25/0.5 → 0.5/1: deviation 0.125 → 0.25, scores 87 → 75
		{"BalancedAllocation", scoreNamed("BalancedAllocation")(nil, &store.State, slot, class), 50 + (50+75-87)/2},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", c.name, c.got, c.want)
		}
	}
}

func filterNamed(name string) *rules.Filter {
	for i := range rules.Filters {
		if rules.Filters[i].Name == name {
			return &rules.Filters[i]
		}
	}
	return nil
}

func scoreNamed(name string) func(*rules.Profile, *cluster.State, cluster.Slot, *cluster.Class) int64 {
	for i := range rules.LocalScores {
		if rules.LocalScores[i].Name == name {
			return rules.LocalScores[i].Score
		}
	}
	return nil
}
