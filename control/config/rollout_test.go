package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
)

const nobody = 0

// A change that harms nobody reaches 5 %, 25 %, then all nodes, and each node is told once.
func TestRollout(t *testing.T) {
	c := newCluster(1, 400)
	c.apply("all", spec.NodeConfiguration{Parameters: []byte(good)})
	reached := []int{nobody}
	c.run(60, func() {
		if n := c.having(good); n != reached[len(reached)-1] {
			reached = append(reached, n)
		}
	})
	if want := []int{0, 20, 100, 400}; !slices.Equal(reached, want) {
		t.Errorf("reached %v nodes in turn, want %v", reached, want)
	}
	for name, n := range c.told {
		if n != 1 {
			t.Errorf("%s was told %d times", name, n)
		}
	}
	if got := c.condition(); !got.True || c.objects["all"].Status.Rollout != nil || c.objects["all"].Status.Stable == nil {
		t.Errorf("%+v", got)
	}
}

// What harms, is refused, or kills agents is taken back by itself from all nodes, has reached no more than the first step, is not tried again, and the condition has the
// figures. The nodes get back what they had.
func TestRollback(t *testing.T) {
	for parameters, figures := range map[string]string{
		poison: "run delay 0.4", refused: "nodes refuse it (node-", deadly: "of 20 agents with the change are not ready, 0 of 380 others",
	} {
		for seed := range uint64(2) {
			c := newCluster(seed, 400)
			c.apply("all", spec.NodeConfiguration{Parameters: []byte(good)})
			c.run(60, func() {})
			c.lag, c.lost = 0.3, 0.2
			c.apply("all", spec.NodeConfiguration{Parameters: []byte(parameters)})
			most := 0
			c.run(120, func() { most = max(most, c.having(parameters)) })
			c.lag, c.lost = 0, 0
			c.run(2, func() {})
			got := c.condition()
			if got.Reason != ReasonRolledBack || !strings.Contains(got.Message, figures) {
				t.Errorf("%s: %+v", parameters, got)
			}
			if most > 20 || parameters != refused && most != 20 || c.having(parameters) != nobody || c.having(good) != 400 {
				t.Errorf("%s: %d nodes had it, %d still have, and %d have what was good", parameters, most, c.having(parameters), c.having(good))
			}
		}
	}
}

// A rollout that was taken back is tried again when the object changes, and the next good value reaches all.
func TestAfterRollback(t *testing.T) {
	c := newCluster(3, 40)
	c.apply("all", spec.NodeConfiguration{Parameters: []byte(poison)})
	c.run(80, func() {})
	if c.having(poison) != nobody || c.condition().Reason != ReasonRolledBack {
		t.Fatalf("%d nodes have it: %+v", c.having(poison), c.condition())
	}
	c.apply("all", spec.NodeConfiguration{Parameters: []byte(better)})
	c.run(80, func() {})
	if c.having(better) != 40 {
		t.Errorf("%d of 40 nodes have what is good: %+v", c.having(better), c.condition())
	}
}

// What is not known is no good news: while the changed nodes, or the others, say nothing of how they fare, no further node gets the change.
func TestMissingIsNotGood(t *testing.T) {
	quiet := func(c *cluster, changed bool) {
		for _, m := range c.nodes {
			if (m.Wanted != nil) == changed {
				m.Report.Health = nil
			}
		}
	}
	for name, c := range map[string]struct {
		spoil func(*cluster)
		waits string
	}{
		"of the changed nodes nothing is known": {func(c *cluster) { quiet(c, true) }, "of which it is not known how they fare"},
		"agents that do not answer": {func(c *cluster) {
			for _, m := range c.nodes {
				m.reading = nil
			}
		}, "nodes that have not answered"},
		"nothing is known at all": {func(c *cluster) { quiet(c, true); quiet(c, false) }, "of which it is not known how they fare"},
		"paused":                  {func(c *cluster) { c.objects["all"].Spec.Paused = true }, "spec.paused"},
	} {
		k := newCluster(7, 100)
		k.apply("all", spec.NodeConfiguration{Parameters: []byte(good)})
		k.tick()
		for range 200 {
			k.now = k.now.Add(30 * time.Second)
			for _, m := range k.nodes {
				m.tick(k)
			}
			c.spoil(k)
			k.seen = k.view()
			actions, _ := Decide(&k.seen, k.now, Defaults())
			for _, a := range actions {
				if a.Status != nil {
					k.writeStatus(a.Status)
				} else {
					k.nodes[a.Tell.Node].Wanted = a.Tell.Wanted
				}
			}
		}
		if got := k.condition(); k.having(good) > 5 || !strings.Contains(got.Message, c.waits) {
			t.Errorf("%s: %d nodes have it: %+v", name, k.having(good), got)
		}
	}
}

// An object with a mistake concerns no other one, and what it said before stays in force.
func TestMistakeHarmsItselfAlone(t *testing.T) {
	c := newCluster(5, 100)
	c.apply("web", spec.NodeConfiguration{NodeSelector: &spec.PodSelector{MatchLabels: map[string]string{"pool": "web"}}, Parameters: []byte(good)})
	c.run(60, func() {})
	c.apply("web", spec.NodeConfiguration{NodeSelector: &spec.PodSelector{MatchLabels: map[string]string{"pool": "web"}}, Parameters: []byte(`{"lending":{"step":99}}`)})
	c.apply("all", spec.NodeConfiguration{Parameters: []byte(better)})
	c.run(60, func() {})
	if c.having(good) != 50 || c.having(better) != 50 {
		t.Errorf("%d nodes have the object's last good value, %d the other object's", c.having(good), c.having(better))
	}
	for _, x := range c.conditions["web"] {
		if x.Type == ConditionValid && (x.True || !strings.Contains(x.Message, "parameters.lending.step: 99: want 1 to 25")) {
			t.Errorf("%+v", x)
		}
	}
}

// A name goes before a selector, that before a default; then priority, then age. What expires gives way to the next.
func TestPrecedence(t *testing.T) {
	c := newCluster(9, 10)
	web := &spec.PodSelector{MatchLabels: map[string]string{"pool": "web"}}
	at := func(target int) spec.WrittenParameters {
		return []byte(fmt.Sprintf(`{"lending":{"targetUtilization":%d}}`, target))
	}
	expires := c.now.Add(24 * time.Hour)
	c.apply("default", spec.NodeConfiguration{Parameters: at(51), Priority: 100})
	c.apply("low", spec.NodeConfiguration{NodeSelector: web, Parameters: at(52)})
	c.apply("high", spec.NodeConfiguration{NodeSelector: web, Parameters: at(53), Priority: 1, Expires: &expires})
	c.apply("one", spec.NodeConfiguration{NodeNames: []string{"node-4", "node-0"}, Parameters: at(54)})
	c.run(200, func() {})
	for node, object := range map[string]string{"node-0": "one", "node-2": "high", "node-1": "default", "node-4": "one"} {
		if w := c.nodes[node].Wanted; w == nil || w.Name != object {
			t.Errorf("%s has %v, want that of %s", node, w, object)
		}
	}
	c.now = expires
	c.tick()
	c.tick()
	if w := c.nodes["node-2"].Wanted; w == nil || w.Name != "low" {
		t.Errorf("after it expired node-2 has %v", w)
	}
	delete(c.objects, "one")
	delete(c.objects, "low")
	delete(c.objects, "default")
	c.tick()
	if w := c.nodes["node-0"].Wanted; w != nil {
		t.Errorf("no object is left, and node-0 has %v", w)
	}
}

// Whatever objects there are, whatever is lost, and however old the controller's view is: a decision depends on the view alone, and no more nodes than a step's share have
// a change that has not passed the gate.
func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(1, 60).Draw(t, "nodes")
		c := newCluster(rapid.Uint64().Draw(t, "seed"), nodes)
		c.lost, c.lag = rapid.Float64Range(0, 0.5).Draw(t, "lost"), rapid.Float64Range(0, 0.5).Draw(t, "lag")
		c.perTick = rapid.IntRange(1, nodes).Draw(t, "rate")
		first := rapid.IntRange(1, 50).Draw(t, "first step")
		targets := []*spec.PodSelector{nil, {MatchLabels: map[string]string{"pool": "web"}}, {MatchLabels: map[string]string{"pool": "batch"}}}
		change := func() {
			c.apply(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "object"), spec.NodeConfiguration{
				NodeSelector: rapid.SampledFrom(targets).Draw(t, "selector"),
				Parameters:   []byte(rapid.SampledFrom([]string{good, better, poison, refused, deadly, `{"x":1}`}).Draw(t, "parameters")),
				Rollout:      &spec.ConfigurationRollout{Steps: []int{first, 100}, Pause: new(spec.Duration(time.Minute))},
			})
		}
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			change()
			c.run(rapid.IntRange(1, 30).Draw(t, "ticks"), func() {
				most := allowed(first, nodes)
				for _, parameters := range []string{poison, refused} {
					// Two objects may try the same value, each on its own share.
					if n := c.having(parameters); n > 3*most {
						t.Fatalf("%d of %d nodes have %s; a step is %d %%", n, nodes, parameters, first)
					}
				}
				again := View{slices.Clone(c.seen.Objects), slices.Clone(c.seen.Nodes)}
				slices.Reverse(again.Objects)
				slices.Reverse(again.Nodes)
				x, wakeX := Decide(&c.seen, c.now, Defaults())
				y, wakeY := Decide(&again, c.now, Defaults())
				if !reflect.DeepEqual(x, y) || !wakeX.Equal(wakeY) {
					t.Fatal("the order of the view changes the decision")
				}
			})
		}
	})
}

// A change that no node has tried is not known to be good: while others are in force on all nodes that it targets it waits, and when they go it begins with its first step.
func TestUntriedIsNotGood(t *testing.T) {
	c := newCluster(11, 100)
	c.apply("a", spec.NodeConfiguration{Parameters: []byte(good)})
	c.run(60, func() {})
	c.apply("all", spec.NodeConfiguration{Parameters: []byte(poison)})
	c.run(100, func() {})
	if s := c.objects["all"].Status; s.Stable != nil || c.having(poison) != nobody {
		t.Fatalf("nobody has tried it, and it counts as good: %+v", s)
	}
	delete(c.objects, "a")
	most := 0
	c.run(60, func() { most = max(most, c.having(poison)) })
	if most > 5 || c.condition().Reason != ReasonRolledBack {
		t.Errorf("%d of 100 nodes had it: %+v", most, c.condition())
	}
}
