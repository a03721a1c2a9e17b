package place

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/place/explain"
	"hilbert.dev/hilbert/schedule/place/index"
	"hilbert.dev/hilbert/schedule/place/pack"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// TestRoomsFollow drives a ledger through random changes of nodes, pods and reservations, with units placed in between, and compares the
// partitions and rooms with a recount after each.
func TestRoomsFollow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawUnitWorld(t)
		var running []facts.UID
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			name := fmt.Sprint("n", rapid.IntRange(0, 14).Draw(t, "node"))
			switch rapid.IntRange(0, 5).Draw(t, "op") {
			case 0:
				w.drawUnitNodes(t)
			case 1:
				w.store.Apply(facts.NodeRemoved{Name: name})
			case 2:
				if slot := w.store.Slot(name); slot != cluster.NoSlot {
					w.store.Reserve([]cluster.Slot{slot}, cluster.ReservationID(rapid.IntRange(0, 1).Draw(t, "by")))
				}
			case 3:
				for _, uid := range running {
					w.store.Release(uid)
				}
				running = running[:0]
			default:
				w.ask.Topology.Required = rapid.SampledFrom([]string{"", block, rack, host}).Draw(t, "required")
				running = append(running, w.commit(t)...)
			}
			w.snapshot.Advance(w.store)
			checkIndex(t, w.placer)
		}
	})
}

// commit places the unit and commits it.
func (w *unitWorld) commit(t *rapid.T) (placed []facts.UID) {
	ask := w.ask
	ask.Within = nil
	ask.Members = slices.DeleteFunc(slices.Clone(ask.Members), func(p *cluster.Pod) bool { return p.Phase != cluster.Pending || p.Class.Absent != "" })
	ask.Need = 1
	choices, ok := w.placer.PlaceUnit(&ask)
	if !ok {
		return nil
	}
	plan := cluster.Plan{}
	for _, m := range choices {
		plan.Placements = append(plan.Placements, cluster.Placement{Pod: m.Pod.UID, Node: w.snapshot.Node(m.Slot).Name, Grant: m.Grant})
		placed = append(placed, m.Pod.UID)
	}
	if verdict := w.store.Commit(&plan, rules.Commits); !verdict.Committed {
		t.Fatal(verdict)
	}
	return placed
}

// TestManyPartitions: more combinations of labels than are kept, asked for in turn, with the log overflowing in between, give what a
// placer gives that is asked for one.
func TestManyPartitions(t *testing.T) {
	store := cluster.NewStore()
	for i := range 2 * index.MaxPartitions {
		labels := map[string]string{}
		for key := range 2 * index.MaxPartitions {
			labels[fmt.Sprint("key", key)] = fmt.Sprint(i % (key + 1))
		}
		store.Apply(facts.NodeUpserted{Node: &facts.Node{Name: fmt.Sprint(i), Labels: labels, Allocatable: quantities("cpu", 1000, "pods", 9)}})
	}
	ask := pack.Ask{Need: 2}
	for i := range 2 {
		uid := facts.UID(fmt.Sprint(i))
		store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: uid, Ours: true, Requirements: &facts.Requirements{Requests: quantities("cpu", 1000)}}})
		ask.Members = append(ask.Members, store.Pod(uid))
	}
	fresh := func() *Placer {
		s := cluster.NewSnapshot()
		s.Advance(store)
		return NewPlacer(s, &rules.Profile{}, 0, 1)
	}
	old := fresh()
	for round := range 3 {
		for key := range 2 * index.MaxPartitions {
			ask.Topology.Required = fmt.Sprint("key", key)
			got, ok := old.PlaceUnit(&ask)
			got = slices.Clone(got)
			want, wanted := fresh().PlaceUnit(&ask)
			if ok != wanted || !slices.Equal(got, want) {
				t.Fatalf("round %d, key %d: %v (%v), a fresh placer says %v (%v)", round, key, got, ok, want, wanted)
			}
			old.snapshot.Rollback(0)
		}
		if err := old.index.Verify(); err != nil {
			t.Fatal(err)
		}
		for range changes.Capacity {
			old.snapshot.Assume(0, ask.Members[0], index.Choice{}.Grant)
			old.snapshot.Rollback(0)
		}
	}
}

// TestWidestIsTried: where room is an upper bound and the tight domains turn out too tight, the widest is tried before the search gives up.
func TestWidestIsTried(t *testing.T) {
	store := cluster.NewStore()
	for i := range 2 * pack.MaxDomainTries { // one large node in each, but members must be apart
		store.Apply(facts.NodeUpserted{Node: &facts.Node{
			Name: fmt.Sprint("large", i), Labels: map[string]string{rack: fmt.Sprintf("%03d", i), host: fmt.Sprint("large", i)}, Allocatable: quantities("cpu", 3000+10*i, "pods", 99),
		}})
	}
	for i := range 20 {
		name := fmt.Sprint("small", i)
		store.Apply(facts.NodeUpserted{Node: &facts.Node{
			Name: name, Labels: map[string]string{rack: "wide", host: name}, Allocatable: quantities("cpu", 900, "pods", 99),
		}})
	}
	apart := facts.PodSelector{Namespaces: []string{"x"}, Labels: facts.LabelSelector{
		Expressions: []facts.Requirement{{Key: "app", Operator: facts.Exists}},
	}}
	ask := pack.Ask{Need: 3, Topology: facts.Packing{Required: rack}}
	for i := range 3 {
		uid := facts.UID(fmt.Sprint(i))
		store.Apply(facts.PodUpserted{Pod: facts.Pod{
			UID: uid, Namespace: "x", Ours: true, Labels: []facts.Label{{Key: "app", Value: "m"}}, Requirements: &facts.Requirements{
				Requests: quantities("cpu", 100), AntiAffinity: []facts.AffinityTerm{{TopologyKey: host, Pods: apart}},
			},
		}})
		ask.Members = append(ask.Members, store.Pod(uid))
	}
	snapshot := cluster.NewSnapshot()
	snapshot.Advance(store)
	placed, ok := NewPlacer(snapshot, &rules.Profile{}, 0, 1).PlaceUnit(&ask)
	if !ok || snapshot.Node(placed[0].Slot).Labels[rack] != "wide" {
		t.Errorf("%v, %v: want the wide rack", placed, ok)
	}
}

// TestSubgroupsOfOneSize: subgroups that are alike, each in one rack of one block, are placed whenever any block has racks for all.
func TestSubgroupsOfOneSize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawUnitWorld(t)
		size, groups := rapid.IntRange(1, 4).Draw(t, "size"), rapid.IntRange(1, 3).Draw(t, "groups")
		r := drawMember(t, false)
		w.ask = pack.Ask{Need: size * groups, Topology: facts.Packing{Required: block}, Subgroups: facts.Packing{Required: rack}}
		for g := range groups {
			for range size {
				w.ask.Members = append(w.ask.Members, w.member(fmt.Sprint("g", g), r, ""))
			}
		}
		w.snapshot.Advance(w.store)
		all := func(cluster.Slot) bool { return true }
		want, most := false, 0
		for b := range 2 {
			sum := 0
			in := func(slot cluster.Slot) bool { value, ok := w.value(slot, block); return ok && value == fmt.Sprint(b) }
			for _, room := range w.capacities(w.ask.Members[0], in, rack) {
				sum += room / size
			}
			most = max(most, sum)
			want = want || sum >= groups
		}
		placed, ok := w.placer.PlaceUnit(&w.ask)
		if ok != want {
			t.Fatalf("placed: %v; %d groups of %d, the best block takes %d; %v", ok, groups, size, most, w.capacities(w.ask.Members[0], all, block, rack))
		}
		if ok {
			w.checkPlaced(t, placed)
		}
	})
}

// subgroupWorld is one block of racks with room for so many members, and a unit of subgroups of so many members, each in one rack. Some run in part, in one of some racks.
type subgroupWorld struct {
	room, sizes []int
	runs        [][]int // by subgroup: the racks
	need        int
}

// TestSubgroupsOfAnySize: subgroups of different sizes get as many places as are needed whenever there is a way to choose racks for them.
func TestSubgroupsOfAnySize(t *testing.T) {
	for _, w := range []subgroupWorld{
		{room: []int{6, 7}, sizes: []int{4, 3, 3, 3}, need: 13}, // in the smallest rack, the first leaves room that nobody can use
		{room: []int{8, 6, 2}, sizes: []int{1, 3, 3, 5, 3}, need: 15},
		{room: []int{3, 4}, sizes: []int{3, 3}, runs: [][]int{{}, {0}}, need: 6},                  // the second has one rack only
		{room: []int{8, 6}, sizes: []int{1, 3, 3, 5, 3}, runs: [][]int{{0}}, need: 14},            // there is no room for all
		{room: []int{2, 2}, sizes: []int{2, 2}, runs: [][]int{{0, 1}, {0}}, need: 4},              // the first runs in several racks
		{room: []int{8, 6, 0}, sizes: []int{1, 1, 3, 3, 5, 3}, runs: [][]int{{0}, {2}}, need: 14}, // the second has no room
	} {
		w.check(t)
	}
	rapid.Check(t, func(t *rapid.T) { // racks with hardly more room than one way needs
		w := subgroupWorld{room: make([]int, rapid.IntRange(1, 4).Draw(t, "racks"))}
		all := 0
		for range rapid.IntRange(1, 5).Draw(t, "subgroups") {
			size, runs := rapid.IntRange(1, 5).Draw(t, "size"), []int{}
			in := rapid.IntRange(0, len(w.room)-1).Draw(t, "in")
			if rapid.IntRange(0, 3).Draw(t, "runs") == 0 {
				runs = append(runs, in, rapid.IntRange(0, len(w.room)-1).Draw(t, "runs in"))
			}
			w.sizes, w.runs, all = append(w.sizes, size), append(w.runs, runs), all+size
			w.room[in] += size
		}
		for i := range w.room {
			w.room[i] = max(w.room[i]+rapid.SampledFrom([]int{0, 0, 0, 1, -1}).Draw(t, "more"), 0)
		}
		w.need = max(all-rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "spare"), 1)
		w.check(t)
	})
}

func (w *subgroupWorld) check(t interface{ Fatalf(string, ...any) }) {
	store, snapshot := cluster.NewStore(), cluster.NewSnapshot()
	for i, room := range w.room {
		store.Apply(facts.NodeUpserted{Node: &facts.Node{
			Name: fmt.Sprint("n", i), Labels: map[string]string{block: "b", rack: fmt.Sprint(i)}, Allocatable: quantities("cpu", 100*room, "pods", 99),
		}})
	}
	ask := pack.Ask{Need: w.need, Topology: facts.Packing{Required: block}, Subgroups: facts.Packing{Required: rack}}
	for g, size := range w.sizes {
		name := fmt.Sprint("g", g)
		for i := range size {
			uid := facts.UID(fmt.Sprint(name, "-", i))
			store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: uid, Namespace: "x", Ours: true, Subgroup: name, Requirements: &facts.Requirements{Requests: quantities("cpu", 100)}}})
			ask.Members = append(ask.Members, store.Pod(uid))
		}
		for _, in := range w.runsIn(g) {
			ask.Anchors = append(ask.Anchors, pack.Anchor{Slot: store.Slot(fmt.Sprint("n", in)), Subgroup: name})
		}
	}
	snapshot.Advance(store)
	placed, ok := NewPlacer(snapshot, &rules.Profile{}, 0, 1).PlaceUnit(&ask)
	most := w.most(slices.Clone(w.room), 0)
	if ok != (most >= w.need) || most == len(ask.Members) && len(placed) < most {
		t.Fatalf("%+v: %d placed, and there is a way for %d of %d", w, len(placed), most, len(ask.Members))
	}
	in := make(map[string]cluster.Slot)
	for _, m := range placed {
		if slot, known := in[m.Pod.Subgroup]; known && slot != m.Slot {
			t.Fatalf("%+v: %s is on %d, another of its subgroup on %d", w, m.Pod.UID, m.Slot, slot)
		}
		in[m.Pod.Subgroup] = m.Slot
	}
	for g := range w.sizes {
		slot, some := in[fmt.Sprint("g", g)]
		if runs := w.runsIn(g); some && len(runs) > 0 && !slices.ContainsFunc(runs, func(i int) bool { return store.Slot(fmt.Sprint("n", i)) == slot }) {
			t.Fatalf("%+v: members of %d are in rack %d", w, g, slot)
		}
	}
}

func (w *subgroupWorld) runsIn(g int) []int {
	if g < len(w.runs) {
		return w.runs[g]
	}
	return nil
}

// most is for how many members there is room from a subgroup on. It tries all ways.
func (w *subgroupWorld) most(room []int, from int) (most int) {
	if from == len(w.sizes) {
		return 0
	}
	for i := range room {
		if runs := w.runsIn(from); len(runs) == 0 || slices.Contains(runs, i) {
			takes := min(w.sizes[from], room[i])
			room[i] -= takes
			most = max(most, takes+w.most(room, from+1))
			room[i] += takes
		}
	}
	return most
}

// TestExplainUnit: whatever a unit is said to do without lets it fit, its best domain takes as many as is said, and nothing stays assumed.
func TestExplainUnit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawUnitWorld(t)
		before := rows(w.snapshot)
		e := w.placer.ExplainUnit(&w.ask)
		fits := w.placer.WouldFit(&w.ask)
		if after := rows(w.snapshot); after != before {
			t.Fatalf("the snapshot was\n%s and is\n%s", before, after)
		}
		if text := e.String(); text == "" || len(text) > explain.MaxMessage {
			t.Fatalf("it says %q", text)
		}
		if len(w.ask.Members) == 0 {
			return
		}
		if fits > 0 && len(e.Without) > 0 {
			t.Fatalf("it fits, yet should do without %v", e.Without)
		}
		if e.Fit > 0 != (e.Domain != "") || fits > 0 && e.Key != "" && e.Fit < e.Need {
			t.Fatalf("%d fit, %+v", fits, e)
		}
		for _, less := range e.Without {
			relaxed := w.ask
			for _, key := range []*string{&relaxed.Topology.Required, &relaxed.Topology.Uniform, &relaxed.Subgroups.Required, &relaxed.Subgroups.Uniform} {
				if *key == less.Key {
					*key = ""
				}
			}
			if w.plain && w.ask.Subgroups.IsZero() && w.placer.WouldFit(&relaxed) < e.Need {
				t.Fatalf("without %v it would not fit", less)
			}
		}
		if w.plain && fits == 0 && e.Unpacked() && w.ask.Subgroups.IsZero() && w.placer.WouldFit(&pack.Ask{Members: w.ask.Members, Need: w.ask.Need, Within: w.ask.Within}) == 0 {
			t.Fatalf("it would not fit without packing: %+v", e)
		}
	})
}

// TestFailureIsRemembered: a large unit that did not fit is not tried member by member again until there is room for enough of them.
func TestFailureIsRemembered(t *testing.T) {
	store := cluster.NewStore()
	store.Apply(facts.NodeUpserted{Node: &facts.Node{Name: "n", Allocatable: quantities("pods", pack.CapacityCheckFrom-1)}})
	ask := pack.Ask{Need: pack.CapacityCheckFrom}
	for i := range pack.CapacityCheckFrom {
		uid := facts.UID(fmt.Sprint(i))
		store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: uid, Ours: true, Requirements: &facts.Requirements{}}})
		ask.Members = append(ask.Members, store.Pod(uid))
	}
	snapshot := cluster.NewSnapshot()
	p := NewPlacer(snapshot, &rules.Profile{}, 0, 1)
	for try, want := range []bool{true, false, false} { // whether members are assumed on the way
		snapshot.Advance(store)
		before := snapshot.Log().Len()
		if _, ok := p.PlaceUnit(&ask); ok {
			t.Fatal("it fits")
		}
		if tried := snapshot.Log().Len() > before; tried != want {
			t.Errorf("try %d: members were tried: %v", try, tried)
		}
	}
	store.Apply(facts.NodeUpserted{Node: &facts.Node{Name: "n", Allocatable: quantities("pods", pack.CapacityCheckFrom)}})
	snapshot.Advance(store)
	if _, ok := p.PlaceUnit(&ask); !ok {
		t.Error("it does not fit though there is room")
	}
}

// TestMembersWaitForOthers: a member that must be near others of its unit is placed though it stands before them.
func TestMembersWaitForOthers(t *testing.T) {
	for _, required := range []string{"", rack} {
		store := cluster.NewStore()
		for i := range 4 {
			name := fmt.Sprint("n", i)
			store.Apply(facts.NodeUpserted{Node: &facts.Node{
				Name: name, Labels: map[string]string{rack: "r", host: name}, Allocatable: quantities("cpu", 1000, "pods", 9),
			}})
		}
		leaders := facts.PodSelector{Namespaces: []string{"x"}, Labels: facts.LabelSelector{
			Expressions: []facts.Requirement{{Key: "app", Operator: facts.In, Values: []string{"leader"}}},
		}}
		ask := pack.Ask{Need: 3, Topology: facts.Packing{Required: required}}
		for i, app := range []string{"follower", "follower", "leader"} {
			r := &facts.Requirements{Requests: quantities("cpu", 300)}
			if app == "follower" {
				r.Affinity = []facts.AffinityTerm{{TopologyKey: host, Pods: leaders}}
			}
			uid := facts.UID(fmt.Sprint(i))
			store.Apply(facts.PodUpserted{Pod: facts.Pod{
				UID: uid, Namespace: "x", Ours: true, Labels: []facts.Label{{Key: "app", Value: app}}, Requirements: r,
			}})
			ask.Members = append(ask.Members, store.Pod(uid))
		}
		snapshot := cluster.NewSnapshot()
		snapshot.Advance(store)
		placed, ok := NewPlacer(snapshot, &rules.Profile{}, 0, 1).PlaceUnit(&ask)
		if !ok || placed[0].Slot != placed[1].Slot || placed[1].Slot != placed[2].Slot {
			t.Errorf("required %q: %v, %v: want all on one node", required, placed, ok)
		}
	}
}

// TestPenIsExact fills some nodes of a cluster, pod by pod, and compares each choice with brute force over them: which scores the others
// have, and which nodes are full by now, changes what is best.
func TestPenIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		profile, err := rules.NewProfile(map[string]int64{"MostAllocated": rapid.Int64Range(0, 3).Draw(t, "weight")})
		if err != nil {
			t.Fatal(err)
		}
		store := cluster.NewStore()
		ask := pack.Ask{Within: []cluster.Slot{}}
		for i := range rapid.IntRange(1, 8).Draw(t, "nodes") {
			n := &facts.Node{
				Name: fmt.Sprint(i), Labels: map[string]string{rack: fmt.Sprint(rapid.IntRange(0, 4).Draw(t, "rack"))},
				Allocatable: quantities("cpu", 1000*rapid.IntRange(1, 4).Draw(t, "cpu"), "memory", 1<<30*rapid.IntRange(1, 4).Draw(t, "memory"), "pods", 9),
			}
			for taint := range rapid.IntRange(0, 4).Draw(t, "taints") {
				n.Taints = append(n.Taints, facts.Taint{Key: fmt.Sprint(taint), Effect: facts.PreferNoSchedule})
			}
			store.Apply(facts.NodeUpserted{Node: n})
			if rapid.IntRange(0, 3).Draw(t, "within") > 0 {
				ask.Within = append(ask.Within, store.Slot(n.Name))
			}
		}
		var preferred []facts.WeightedTerm
		for i := range rapid.IntRange(0, 4).Draw(t, "preferred") {
			preferred = append(preferred, facts.WeightedTerm{Weight: rapid.Int32Range(1, 20).Draw(t, "weight"), Term: facts.Term{
				Expressions: []facts.Requirement{{Key: rack, Operator: facts.In, Values: []string{fmt.Sprint(i)}}},
			}})
		}
		for i := range 12 {
			uid := facts.UID(fmt.Sprint(i))
			store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: uid, Ours: true, Requirements: &facts.Requirements{
				Requests: quantities("cpu", 700, "memory", 300<<20), ScoreCPU: 700, ScoreMemory: 300 << 20, Preferred: preferred,
			}}})
			ask.Members = append(ask.Members, store.Pod(uid))
		}
		snapshot, replayed := cluster.NewSnapshot(), cluster.NewSnapshot()
		snapshot.Advance(store)
		replayed.Advance(store)
		placed, _ := NewPlacer(snapshot, profile, 7, 1).PlaceUnit(&ask)
		judge := NewPlacer(replayed, profile, 7, 1)
		in := func(slot cluster.Slot) bool { return slices.Contains(ask.Within, slot) }
		for i, m := range placed {
			if want := bestAmong(judge, m.Pod.Class, in); m.Slot != want {
				t.Fatalf("member %d went to %d, brute force says %d", i, m.Slot, want)
			}
			replayed.Assume(m.Slot, m.Pod, m.Grant)
		}
		if next := bestAmong(judge, ask.Members[0].Class, in); len(placed) < len(ask.Members) && next != cluster.NoSlot {
			t.Fatalf("%d of %d members placed, but %d has room", len(placed), len(ask.Members), next)
		}
	})
}
