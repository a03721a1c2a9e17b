package census_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster/census"
	"hilbert.dev/hilbert/cluster/facts"
)

const (
	zone = "zone"
	rack = "rack"
)

// pod is a pod that is on a slot.
type pod struct {
	slot     census.Slot
	app      string
	deleting bool
}

// field is counts beside a naive model of them: the nodes and the pods.
type field struct {
	registry *census.Registry
	counts   census.Counts
	nodes    []*facts.Node
	pods     []pod
}

func subject(app string) *census.Subject {
	return &census.Subject{Namespace: "x", Labels: []facts.Label{{Key: "app", Value: app}}}
}

func (f *field) bump(p pod, sign int32) {
	m := f.registry.Match(subject(p.app), nil)
	for _, id := range m.Counted {
		f.counts.Bump(p.slot, id, sign)
	}
	if !p.deleting {
		for _, id := range m.CountedLive {
			f.counts.Bump(p.slot, id, sign)
		}
	}
}

func selects(app string) facts.PodSelector {
	return facts.PodSelector{
		Namespaces: []string{"x"},
		Labels:     facts.LabelSelector{Expressions: []facts.Requirement{{Key: "app", Operator: facts.In, Values: []string{app}}}},
	}
}

// require registers a class of pods: a hard spread of app "a" by zone, and anti-affinity to app "b" in the rack. Pods that are there already are
// counted in.
func (f *field) require() *census.Constraints {
	r := &facts.Requirements{
		Spread:       []facts.SpreadConstraint{{TopologyKey: zone, MaxSkew: 1, Hard: true, MinDomains: 1, Pods: selects("a")}},
		AntiAffinity: []facts.AffinityTerm{{TopologyKey: rack, Pods: selects("b")}},
	}
	c, fresh := f.registry.Constrain(r, census.SelfMatches(r, subject("c"), nil), nil)
	for _, id := range fresh {
		for _, p := range f.pods {
			m := f.registry.Match(subject(p.app), nil)
			for _, counted := range m.Counted {
				if counted == id {
					f.counts.Bump(p.slot, id, 1)
				}
			}
			for _, counted := range m.CountedLive {
				if counted == id && !p.deleting {
					f.counts.Bump(p.slot, id, 1)
				}
			}
		}
	}
	f.counts.Learn()
	return c
}

func drawNode(t *rapid.T) *facts.Node {
	n := &facts.Node{Labels: map[string]string{}}
	for _, key := range []string{zone, rack} {
		if v := rapid.IntRange(0, 3).Draw(t, key); v > 0 {
			n.Labels[key] = fmt.Sprint(v)
		}
	}
	return n
}

func (f *field) addSlot() {
	f.counts.AddSlot()
	f.nodes = append(f.nodes, nil)
}

func (f *field) setNode(slot census.Slot, n *facts.Node) {
	f.nodes[slot] = n
	f.counts.SetNode(slot, n)
}

// release gives a class up, and purges the tallies that only it read.
func (f *field) release(c *census.Constraints) {
	f.registry.Release(c)
	f.registry.Purge(func(unused func(census.TallyID) bool) {
		for slot := range f.nodes {
			f.counts.Purge(census.Slot(slot), unused)
		}
	})
	f.counts.Learn()
}

// check holds a census against the pods: how many of an app are in each domain, and the least of all domains that have a node.
func (f *field) check(t *rapid.T, id census.ID, key, app string, live bool) {
	want := map[string]int32{}
	for _, n := range f.nodes {
		if n != nil {
			if value, ok := n.Labels[key]; ok {
				want[value] += 0
			}
		}
	}
	var sum int64
	for _, p := range f.pods {
		n := f.nodes[p.slot]
		if n == nil || p.app != app || live && p.deleting {
			continue
		}
		if value, ok := n.Labels[key]; ok {
			want[value]++
			sum++
		}
	}
	got := f.counts.Census(id)
	if got.Sum() != sum || int(got.Domains()) != len(want) {
		t.Fatalf("%s by %s: %d pods in %d domains, want %d in %d", app, key, got.Sum(), got.Domains(), sum, len(want))
	}
	least := int32(-1)
	for slot, n := range f.nodes {
		if n == nil {
			continue
		}
		value, ok := n.Labels[key]
		d := got.Domain(census.Slot(slot))
		if ok != (d != census.NoDomain) {
			t.Fatalf("slot %d has %s: %v, its domain is %d", slot, key, ok, d)
		}
		if !ok {
			continue
		}
		if f.counts.DomainName(got.Key(), d) != value || got.Count(d) != int64(want[value]) {
			t.Fatalf("slot %d: %d pods in %q, want %d in %q", slot, got.Count(d), f.counts.DomainName(got.Key(), d), want[value], value)
		}
		if least < 0 || want[value] < least {
			least = want[value]
		}
	}
	if got.Least() != max(least, 0) {
		t.Fatalf("%s by %s: the least count is %d, want %d", app, key, got.Least(), max(least, 0))
	}
}

// TestCounts lets nodes and pods come, change and go, and holds every census against the pods counted one by one; so too in a state that copies
// another, or follows it slot by slot.
func TestCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		registry := census.NewRegistry()
		f := &field{registry: registry, counts: census.NewCounts(registry)}
		var c *census.Constraints
		for i := range rapid.SampledFrom([]int{0, 0, 300}).Draw(t, "racks") { // so many domains that counts are sparse
			f.addSlot()
			f.setNode(census.Slot(i), &facts.Node{Labels: map[string]string{rack: fmt.Sprint("r", i), zone: "1"}})
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch what := rapid.IntRange(0, 7).Draw(t, "what"); {
			case what == 0 || len(f.nodes) == 0:
				f.addSlot()
			case what == 6 && c != nil && rapid.IntRange(0, 3).Draw(t, "release") == 0:
				f.release(c)
				c = nil
				if size := registry.Size(); size != (census.Size{}) {
					t.Fatalf("nothing is asked for, %+v is defined", size)
				}
			case what == 1:
				f.setNode(census.Slot(rapid.IntRange(0, len(f.nodes)-1).Draw(t, "slot")), drawNode(t))
			case what == 2 && len(f.pods) > 0:
				at := rapid.IntRange(0, len(f.pods)-1).Draw(t, "gone")
				f.bump(f.pods[at], -1)
				f.pods = append(f.pods[:at], f.pods[at+1:]...)
			case what == 3 && c == nil:
				c = f.require()
			default:
				p := pod{
					slot: census.Slot(rapid.IntRange(0, len(f.nodes)-1).Draw(t, "on")), app: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "app"),
					deleting: rapid.Bool().Draw(t, "deleting"),
				}
				f.pods = append(f.pods, p)
				f.bump(p, 1)
			}
			if err := f.counts.Verify(); err != nil {
				t.Fatal(err)
			}
			if c != nil && rapid.Bool().Draw(t, "read") { // what is not read is not built
				f.check(t, c.Hard[0].Census, zone, "a", true)
				f.check(t, c.AntiAffinity[0], rack, "b", false)
			}
		}
		if c == nil {
			return
		}
		f.follow(t)
		f.check(t, c.AntiAffinity[0], rack, "b", false)
	})
}

// follow goes on with counts that have copied the others, and one slot after a change.
func (f *field) follow(t *rapid.T) {
	follower := census.NewCounts(f.registry)
	follower.Copy(&f.counts)
	p := pod{slot: 0, app: "b"}
	f.pods = append(f.pods, p)
	f.bump(p, 1)
	follower.CopyTallies(0, f.counts.Tallies(0))
	if err := follower.Verify(); err != nil {
		t.Fatal(err)
	}
	f.counts = follower
}
