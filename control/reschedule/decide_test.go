package reschedule

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/topology"
)

var start = time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)

// naive answers as a test wants: targets are the first node that has room; better is as given.
type naive struct {
	v     *View
	steps []Step
	gains []float64
	room  map[string][]Step
}

func (n *naive) Room(unit string, most int, may func(int) bool) ([]Step, bool) {
	steps := n.room[unit]
	return steps, len(steps) > 0 && len(steps) <= most && !slices.ContainsFunc(steps, func(s Step) bool { return !may(s.Pod) })
}

func (n *naive) Better(most int, may func(int) bool) (steps []Step, gains []float64) {
	for i, s := range n.steps {
		if may(s.Pod) && len(steps) < most {
			steps, gains = append(steps, s), append(gains, n.gains[i])
		}
	}
	return steps, gains
}

func (n *naive) Target(pod int, may func(int) bool) (int, int, bool) {
	for i := range n.v.Nodes {
		r := n.v.Nodes[i].Room
		r.Amounts = slices.Clone(r.Amounts)
		if may(i) && r.enter(&n.v.Pods[pod], 0) {
			return i, 0, true
		}
	}
	return 0, 0, false
}

// small is two full nodes and one that is free, with one pod on each of the first two.
func small() *View {
	v := &View{History: new(History)}
	for i, free := range []int64{0, 0, 10} {
		v.Nodes = append(v.Nodes, Node{Name: fmt.Sprintf("n%d", i), Room: Room{Amounts: []int64{free}}})
	}
	for i := range 2 {
		v.Pods = append(v.Pods, Pod{UID: fmt.Sprint(i), Name: fmt.Sprintf("p%d", i), Node: i, Workload: fmt.Sprintf("w%d", i), Requests: []int64{10}, Began: start.Add(-24 * time.Hour)})
	}
	return v
}

// Each rule by itself: without it the pod is moved.
func TestWhoMayBeMoved(t *testing.T) {
	p := Defaults()
	for _, c := range []struct {
		name   string
		change func(*View)
		moved  bool // to where it is better
		must   bool // off a node that is to be emptied
	}{
		{"it is", func(*View) {}, true, true},
		{"its owner refuses", func(v *View) { v.Pods[0].Consent = spec.ConsentRefused }, false, false},
		{"its owner is reluctant", func(v *View) { v.Pods[0].Consent = spec.ConsentReluctant }, false, true},
		{"nobody replaces it", func(v *View) { v.Pods[0].Consent = spec.ConsentUnreplaced }, false, false},
		{"it is not known who does", func(v *View) { v.Pods[0].Workload = "" }, false, false},
		{"it is a member of a gang", func(v *View) { v.Pods[0].Unit = "g" }, false, false},
		{"it belongs to its node", func(v *View) { v.Pods[0].Pinned = true }, false, false},
		{"its budget refuses", func(v *View) { v.Pods[0].Protected = "its disruption budget b allows none" }, false, false},
		{"it was moved", func(v *View) { v.History.setPod("/p0", start.Add(-23*time.Hour)) }, false, true},
		{"it was moved long ago", func(v *View) { v.History.setPod("/p0", start.Add(-25*time.Hour)) }, true, true},
		{"its workload was moved", func(v *View) { v.History.setWorkload("w0", movedWorkload{at: start.Add(-time.Minute)}) }, false, true},
		{"another of ten starts", func(v *View) { v.Replicas = map[string]Replicas{"w0": {All: 10, Starting: 1}} }, false, false},
		{"another of ten moves", func(v *View) { v.Replicas = map[string]Replicas{"w0": {All: 10, Moving: 1}} }, false, false},
		{"another of ten starts, as it does", func(v *View) {
			v.Replicas, v.Pods[0].Began = map[string]Replicas{"w0": {All: 10, Starting: 2}}, start.Add(-time.Minute)
		}, false, true},
		{"another of ten moves, and it starts", func(v *View) {
			v.Replicas, v.Pods[0].Began = map[string]Replicas{"w0": {All: 10, Starting: 2, Moving: 1}}, start.Add(-time.Minute)
		}, false, false},
		{"two of thirty start and move", func(v *View) { v.Replicas = map[string]Replicas{"w0": {All: 30, Starting: 1, Moving: 1}} }, true, true},
		{"it is the only one", func(v *View) { v.Replicas = map[string]Replicas{"w0": {All: 1}} }, true, true},
		{"it is young", func(v *View) { v.Pods[0].Began = start.Add(-time.Minute) }, false, true},
		{"its work would be lost", func(v *View) { v.Pods[0].Loses, v.Pods[0].Began = true, start.Add(-1000*time.Hour) }, false, true},
		{"it has worked little", func(v *View) { v.Pods[0].Loses, v.Pods[0].Began = true, start.Add(-3*time.Hour) }, true, true},
	} {
		v := small()
		c.change(v)
		plan := Decide(v, &naive{v: v, steps: []Step{{0, 2, 0}}, gains: []float64{100}}, &p, start)
		if got := plan.Moves() == 1; got != c.moved {
			t.Errorf("%s: it is moved to where it is better: %v, want %v (%v)", c.name, got, c.moved, plan.Declined)
		}
		v.Nodes[0].Leaving = "maintenance"
		plan = Decide(v, &naive{v: v}, &p, start)
		if got := plan.Moves() == 1; got != c.must {
			t.Errorf("%s: it is moved off a node that is to be emptied: %v, want %v (%v)", c.name, got, c.must, plan.Declined)
		}
	}
}

// TestWorkloadsKeepServing draws workloads on nodes that are to be emptied: of none more than its percent start and move at once, or one; and whoever may be moved by that rule is.
func TestWorkloadsKeepServing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Defaults()
		p.Most, p.WorkloadPercent = 1000, rapid.IntRange(1, 100).Draw(t, "percent")
		v := &View{Nodes: []Node{{Name: "old", Leaving: "scale-down", Room: Room{Amounts: []int64{0}}}, {Name: "new", Room: Room{Amounts: []int64{1 << 20}}}}, Replicas: make(map[string]Replicas)}
		for i := range rapid.IntRange(1, 4).Draw(t, "workloads") {
			name := fmt.Sprint("w", i)
			here := rapid.IntRange(0, 40).Draw(t, "here")
			r := Replicas{All: here + rapid.IntRange(0, 40).Draw(t, "elsewhere"), Moving: rapid.IntRange(0, 3).Draw(t, "moving")}
			r.Starting = rapid.IntRange(0, r.All).Draw(t, "starting")
			if !rapid.Bool().Draw(t, "serves") {
				r = Replicas{}
			}
			v.Replicas[name] = r
			for k := range here {
				v.Pods = append(v.Pods, Pod{UID: fmt.Sprint(name, k), Name: fmt.Sprint(name, k), Workload: name, Requests: []int64{1}, Began: start.Add(-time.Hour)})
			}
		}
		plan := Decide(v, &naive{v: v}, &p, start)
		moved, here := make(map[string]int), make(map[string]int)
		for _, b := range plan.Batches {
			for _, m := range b {
				moved[v.Pods[m.Pod].Workload]++
			}
		}
		for i := range v.Pods {
			here[v.Pods[i].Workload]++
		}
		for name, n := range here {
			want, r := n, v.Replicas[name]
			if r.All > 0 {
				want = min(n, max(max(r.All*p.WorkloadPercent/100, 1)-r.Starting-r.Moving, 0))
			}
			if moved[name] != want {
				t.Fatalf("of %d pods of %s, %+v, %d are moved, want %d of %d %%", n, name, r, moved[name], want, p.WorkloadPercent)
			}
		}
	})
}

// Each rule by itself: of a service that serves, on nodes that have changed hands, how many pods leave.
func TestServicesLoseLittleToHandOvers(t *testing.T) {
	const n = 20 // pods, all of them on such nodes: one of them may be moved in 250 minutes
	each := 250 * time.Minute
	for name, c := range map[string]struct {
		change func(*View, *Params)
		want   int
	}{
		"no move is known":       {func(*View, *Params) {}, 1},
		"one was moved just now": {func(v *View, _ *Params) { v.History.setWorkload("web", movedWorkload{at: start}) }, 0},
		"one was moved a second too late": {func(v *View, _ *Params) {
			v.History.setWorkload("web", movedWorkload{at: start.Add(time.Second - each)})
		}, 0},
		"one was moved long enough ago": {func(v *View, _ *Params) { v.History.setWorkload("web", movedWorkload{at: start.Add(-each)}) }, 1},
		"two have been saved up":        {func(v *View, _ *Params) { v.History.setWorkload("web", movedWorkload{at: start.Add(-2 * each)}) }, 2},
		"no more than a tenth at once":  {func(v *View, _ *Params) { v.History.setWorkload("web", movedWorkload{at: start.Add(-9 * each)}) }, 2},
		"one of two is on its way": {func(v *View, _ *Params) {
			v.History.setWorkload("web", movedWorkload{at: start.Add(-2 * each)})
			v.Replicas["web"] = Replicas{All: n, Moving: 1}
		}, 1},
		"the only one is on its way": {func(v *View, _ *Params) { v.Replicas["web"] = Replicas{All: n, Moving: 1} }, 0},
		"two thousandths": {func(v *View, p *Params) {
			v.History.setWorkload("web", movedWorkload{at: start.Add(-each / 2)})
			p.WorkloadTimeLossPermille = 2
		}, 1},
		"there is no bound": {func(v *View, p *Params) {
			v.History.setWorkload("web", movedWorkload{at: start})
			p.WorkloadTimeLossPermille = WholeWorkload
		}, 2},
		"another service was moved": {func(v *View, _ *Params) { v.History.setWorkload("api", movedWorkload{at: start}) }, 1},
		"they are of offline, and leave for online": {func(v *View, _ *Params) {
			v.History.setWorkload("web", movedWorkload{at: start})
			for i := range v.Pods {
				v.Pods[i].Online = false
			}
		}, 2},
		"it serves nobody": {func(v *View, _ *Params) {
			v.History.setWorkload("web", movedWorkload{at: start})
			delete(v.Replicas, "web")
		}, n},
		"one of them starts, and serves nobody yet": {func(v *View, _ *Params) {
			v.History.setWorkload("web", movedWorkload{at: start})
			v.Pods[3].Began = start.Add(-time.Minute)
			v.Replicas["web"] = Replicas{All: n, Starting: 1}
		}, 1},
		"their node is emptied for another reason": {func(v *View, _ *Params) {
			v.History.setWorkload("web", movedWorkload{at: start})
			v.Nodes[0].Leaving = "maintenance"
			for i := range v.Pods {
				v.Pods[i].Leaves, v.Pods[i].Online = "", false
			}
		}, 2},
	} {
		p := Defaults()
		p.Most = n
		v := &View{
			Nodes:    []Node{{Name: "old", Room: Room{Amounts: []int64{0}}}, {Name: "new", Room: Room{Amounts: []int64{n}}}},
			Replicas: map[string]Replicas{"web": {All: n}}, History: new(History),
		}
		for i := range n {
			v.Pods = append(v.Pods, Pod{UID: fmt.Sprint(i), Name: fmt.Sprint("web-", i), Workload: "web", Leaves: "old belongs to offline", Online: true, Requests: []int64{1}, Began: start.Add(-time.Hour)})
		}
		c.change(v, &p)
		if plan := Decide(v, &naive{v: v}, &p, start); plan.Moves() != c.want {
			t.Errorf("%s: %d are moved, want %d (%v)", name, plan.Moves(), c.want, plan.Declined)
		}
	}
}

func TestReasons(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*View, *naive, *Params)
		want   string
	}{
		{"nothing", func(*View, *naive, *Params) {}, ""},
		{"empty", func(v *View, _ *naive, _ *Params) { v.Nodes[1].Leaving = "scale-down" }, "p1 n1>n2 empty a node: scale-down"},
		{"a node that takes nobody", func(v *View, _ *naive, _ *Params) { v.Nodes[1].Leaving, v.Nodes[2].Closed = "scale-down", true }, ""},
		{"broken", func(v *View, _ *naive, _ *Params) { v.Pods[0].Broken = "NUMA node 1 is gone" }, "p0 n0>n2 a promise is broken: NUMA node 1 is gone"},
		{"violated", func(v *View, _ *naive, _ *Params) { v.Pods[0].Violated = "spread" }, "p0 n0>n2 a rule is violated: spread"},
		{"the most pressing first", func(v *View, _ *naive, _ *Params) { v.Pods[0].Violated, v.Nodes[0].Leaving = "spread", "off" }, "p0 n0>n2 empty a node: off"},
		{"room", func(v *View, n *naive, _ *Params) {
			v.Waiting = []Waiting{{Name: "big", Needs: 8000}}
			n.room = map[string][]Step{"big": {{1, 2, 0}}}
		}, "p1 n1>n2 make room: big waits"},
		{"load", func(v *View, _ *naive, p *Params) {
			loads(v, p, 9000, 0, 0)
			v.Pods[0].Use = 3000
		}, "p0 n0>n2 a node is loaded: n0 uses 90 % of its CPUs"},
		{"load that is not known", func(v *View, _ *naive, p *Params) {
			loads(v, p, 9000, -1, -1)
			v.Pods[0].Use = 3000
		}, ""},
		{"use that is not known", func(v *View, _ *naive, p *Params) { loads(v, p, 9000, 0, 0) }, ""},
		{"load that would go along", func(v *View, _ *naive, p *Params) {
			loads(v, p, 9000, -1, 5000)
			v.Pods[0].Use = 3000
		}, ""},
		{"load on a smaller node", func(v *View, _ *naive, p *Params) {
			loads(v, p, 9000, -1, 0)
			v.Pods[0].Use, v.Nodes[2].CPUs = 3000, 4000
		}, ""},
		{"no more than the target takes", func(v *View, _ *naive, p *Params) {
			loads(v, p, 9000, 9000, 3000)
			v.Pods[0].Use, v.Pods[1].Use = 3000, 3000
		}, "p0 n0>n2 a node is loaded: n0 uses 90 % of its CPUs"},
		{"better", func(_ *View, n *naive, _ *Params) { n.steps, n.gains = []Step{{0, 2, 0}}, []float64{70} }, "p0 n0>n2 fragmentation: 70 thousandths of a GPU are won"},
		{"better, but somebody waits for GPUs", func(v *View, n *naive, _ *Params) {
			n.steps, n.gains = []Step{{0, 2, 0}}, []float64{70}
			v.Waiting = []Waiting{{Name: "queued", Needs: 1000}, {Name: "big", Needs: 8000, Tried: true}}
		}, ""},
		{"better, and somebody waits for a queue's limit, or other things", func(v *View, n *naive, _ *Params) {
			n.steps, n.gains = []Step{{0, 2, 0}}, []float64{70}
			v.Waiting = []Waiting{{Name: "cpu", Tried: true}, {Name: "queued", Needs: 1000}}
		}, "p0 n0>n2 fragmentation: 70 thousandths of a GPU are won"},
		{"no room for two", func(_ *View, n *naive, _ *Params) { n.steps, n.gains = []Step{{1, 2, 0}, {0, 2, 0}}, []float64{90, 70} }, "p1 n1>n2 fragmentation: 90 thousandths of a GPU are won"},
		{"the budget", func(v *View, _ *naive, p *Params) { p.Most, v.Nodes[1].Leaving = 0, "scale-down" }, ""},
	} {
		v, p := small(), Defaults()
		n := &naive{v: v}
		c.change(v, n, &p)
		plan := Decide(v, n, &p, start)
		var got []string
		for _, b := range plan.Batches {
			for _, m := range b {
				got = append(got, fmt.Sprintf("%s %s>%s %s: %s", v.Pods[m.Pod].Name, v.Nodes[m.From].Name, v.Nodes[m.To].Name, m.Reason, m.Why))
			}
		}
		if text := strings.Join(got, "; "); text != c.want {
			t.Errorf("%s: %q, want %q (%v)", c.name, text, c.want, plan.Declined)
		}
	}
}

// Two pods that want each other's places need room elsewhere; without it the one that wins less stays, and then nobody can move.
func TestCircles(t *testing.T) {
	v := small()
	swap := [][]Planned{{{Step: Step{0, 1, 0}, From: 0, Net: 5}}, {{Step: Step{1, 0, 0}, From: 1, Net: 9}}}
	batches, dropped := Batches(v, swap)
	if len(batches) != 0 || len(dropped) != 2 || dropped[0].Pod != 0 {
		t.Errorf("%+v, dropped %+v", batches, dropped)
	}
	// A chain is done from its end.
	chain := [][]Planned{{{Step: Step{0, 1, 0}, From: 0, Net: 5}}, {{Step: Step{1, 2, 0}, From: 1, Net: 9}}}
	batches, dropped = Batches(v, chain)
	if len(batches) != 2 || batches[0][0].Pod != 1 || batches[1][0].Pod != 0 || len(dropped) != 0 {
		t.Errorf("%+v, dropped %+v", batches, dropped)
	}
}

// drawMoves draws a cluster that holds its pods, and moves of some of them.
func drawMoves(t *rapid.T) (*View, [][]Planned) {
	v := &View{}
	nodes := rapid.IntRange(2, 5).Draw(t, "nodes")
	shape := topology.Shape{GPUs: 2, Model: "A", Shareable: true}
	for range nodes {
		v.Nodes = append(v.Nodes, Node{Room: Room{Amounts: []int64{rapid.Int64Range(4, 10).Draw(t, "cpu")}, Shape: shape, Free: topology.NewFree(shape)}})
	}
	for i := range rapid.IntRange(1, 10).Draw(t, "pods") {
		p := Pod{UID: fmt.Sprint(i), Node: rapid.IntRange(0, nodes-1).Draw(t, "node"), Requests: []int64{rapid.Int64Range(0, 4).Draw(t, "asks")}}
		p.GPU = rapid.SampledFrom([]topology.Request{{}, {Milli: 300}, {Milli: 700}, {Whole: 1}}).Draw(t, "gpu")
		room := &v.Nodes[p.Node].Room
		before := room.Free
		if !room.enter(&p, 0) {
			continue
		}
		for g := range shape.GPUs {
			if taken := before[g] - room.Free[g]; taken > 0 {
				p.Grant = topology.Grant{GPUs: 1 << g, Milli: int16(taken)}
			}
		}
		v.Pods = append(v.Pods, p)
	}
	var groups [][]Planned
	for i := range v.Pods {
		m := Planned{Step: Step{i, rapid.IntRange(0, nodes-1).Draw(t, "to"), 0}, From: v.Pods[i].Node, Net: float64(i)}
		switch {
		case m.To == m.From || rapid.Bool().Draw(t, "stays"):
		case len(groups) > 0 && rapid.Bool().Draw(t, "grouped"):
			groups[len(groups)-1] = append(groups[len(groups)-1], m)
		default:
			groups = append(groups, []Planned{m})
		}
	}
	return v, groups
}

// At any moment of any order of the moves of a batch nodes hold what they have: those who come fit beside all who have not left. Groups stay whole.
func TestBatchesFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v, groups := drawMoves(t)
		batches, dropped := Batches(v, groups)
		free := make([]Room, len(v.Nodes))
		for i := range free {
			free[i] = v.Nodes[i].Room
			free[i].Amounts = slices.Clone(free[i].Amounts)
		}
		moved := make(map[int]bool)
		for _, b := range batches {
			for _, m := range b { // all come before anybody leaves
				if !free[m.To].enter(&v.Pods[m.Pod], m.GPU) {
					t.Fatalf("pod %d does not fit node %d", m.Pod, m.To)
				}
				moved[m.Pod] = true
			}
			for _, m := range b {
				free[m.From].leave(&v.Pods[m.Pod])
			}
		}
		left := make(map[int]bool)
		for _, m := range dropped {
			left[m.Pod] = true
		}
		for _, g := range groups {
			for _, m := range g {
				if moved[m.Pod] == left[m.Pod] || moved[m.Pod] != moved[g[0].Pod] {
					t.Fatalf("group %+v: moved %v, dropped %v", g, moved, left)
				}
			}
		}
	})
}

// loads has nodes of ten CPUs use some of them; less than nothing: it is not known. Above 70 % they are loaded.
func loads(v *View, p *Params, used ...float64) {
	p.LoadMark = 0.7
	for i, load := range used {
		n := &v.Nodes[i]
		n.CPUs, n.Load, n.Known = 10_000, max(load, 0), load >= 0
	}
}
