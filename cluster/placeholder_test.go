package cluster_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/internal/script"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// kept is a ledger with Reservations under whatever happens to it, and what must hold of them.
type kept struct {
	store *cluster.Store
	owner map[facts.UID]bool // of pods
	last  map[facts.UID]facts.PlaceState
	now   int64
}

// TestReservedRoomIsKept: whatever is committed, released, bound by others, shrunk and expired, in whatever order,
//   - Commit lets nobody but an owner have the room of a placeholder, and nobody at all beside it;
//   - once places that are crowded out have ended, pods and placeholders together hold no more than a node has, unless the pods alone do;
//   - a place goes forward only, and one that was taken is back when the Binding fails and nobody has come in between;
//   - a ledger that is made of a dump knows the same of all places, and who has taken them;
//   - the ledger's invariants hold, and a rejected Plan leaves nothing behind.
func TestReservedRoomIsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := &kept{store: cluster.NewStore(), owner: make(map[facts.UID]bool), last: make(map[facts.UID]facts.PlaceState)}
		for i := range 2 {
			k.node(i, 8)
		}
		for range rapid.IntRange(5, 60).Draw(t, "steps") {
			k.step(t)
			k.check(t)
			k.reload(t)
		}
	})
}

func (k *kept) node(i, cpus int) {
	name := fmt.Sprintf("n%d", i)
	k.store.Apply(facts.NodeUpserted{Node: &facts.Node{Name: name, Labels: map[string]string{}, Allocatable: rq(cpus)}})
}

func rq(cpus int) []resource.Quantity {
	return []resource.Quantity{{Name: resource.NameCPU, Amount: int64(cpus) * 1000}, {Name: resource.NamePods, Amount: 110}}
}

func (k *kept) pod(t *rapid.T) facts.Pod {
	uid := facts.UID(fmt.Sprintf("p%d", rapid.IntRange(0, 7).Draw(t, "pod")))
	f := facts.Pod{
		UID: uid, Name: string(uid), Namespace: "ns", Ours: true, Priority: int32(rapid.IntRange(0, 2).Draw(t, "priority")),
		Requirements: &facts.Requirements{Requests: []resource.Quantity{{Name: resource.NameCPU, Amount: int64(rapid.IntRange(1, 4).Draw(t, "cpus")) * 1000}}},
	}
	if uid < "p5" { // the others own nothing
		f.Labels = []facts.Label{{Key: "app", Value: "web"}}
		k.owner[uid] = true
	}
	return f
}

func (k *kept) step(t *rapid.T) {
	node := fmt.Sprintf("n%d", rapid.IntRange(0, 1).Draw(t, "node"))
	switch rapid.IntRange(0, 11).Draw(t, "op") {
	case 0, 1:
		f := k.pod(t)
		k.reservation(t, f)
	case 2, 3:
		if f := k.pod(t); k.store.Pod(f.UID) == nil {
			k.store.Apply(facts.PodUpserted{Pod: f})
		}
	case 4, 5, 6:
		k.commit(t, node)
	case 7:
		uid := k.pod(t).UID
		before := k.place(k.store.Pod(uid))
		k.store.Release(uid)
		if before != "" && k.store.Pod(before) == nil && !k.store.Placeholders().Set(before).View().Expired {
			t.Fatalf("%s has not got its room back", before)
		}
	case 8:
		k.store.Confirm(k.pod(t).UID)
	case 9: // a foreign binder, or the kubelet
		f := k.pod(t)
		f.Node = node
		if known := k.store.Pod(f.UID); known == nil || known.Node() == "" {
			k.store.Apply(facts.PodUpserted{Pod: f})
		}
	case 10:
		k.store.Apply(facts.PodRemoved{UID: k.pod(t).UID})
	case 11:
		if rapid.Bool().Draw(t, "expires") {
			k.now += 10
		} else {
			k.node(rapid.IntRange(0, 1).Draw(t, "shrinks"), rapid.IntRange(4, 8).Draw(t, "to"))
		}
	}
}

// reload goes on, now and then, with what a dump has.
func (k *kept) reload(t *rapid.T) {
	loaded, err := cluster.Load(k.store.Dump())
	if err != nil {
		t.Fatal(err)
	}
	if err := loaded.Verify(); err != nil {
		t.Fatalf("loaded: %v", err)
	}
	if got, want := script.Reservations(loaded), script.Reservations(k.store); got != want {
		t.Fatalf("loaded:\n%s\nwant:\n%s", got, want)
	}
	for i := range 8 {
		uid := facts.UID(fmt.Sprintf("p%d", i))
		if got, want := k.placeIn(loaded, loaded.Pod(uid)), k.place(k.store.Pod(uid)); got != want {
			t.Fatalf("loaded: %s has the room of %q, want %q", uid, got, want)
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "goes on with what was loaded") == 0 {
		k.store = loaded
	}
}

func (k *kept) place(pod *cluster.Pod) facts.UID { return k.placeIn(k.store, pod) }

func (k *kept) placeIn(store *cluster.Store, pod *cluster.Pod) facts.UID {
	if pod == nil {
		return ""
	}
	return store.Placeholders().TakenBy(pod)
}

func (k *kept) reservation(t *rapid.T, f facts.Pod) {
	uid := facts.UID(fmt.Sprintf("r%d", rapid.IntRange(0, 2).Draw(t, "reservation")))
	if sets := k.store.Placeholders().In("ns"); len(sets) > 0 && rapid.Bool().Draw(t, "removed") {
		k.store.Apply(facts.ReservationRemoved{UID: uid})
		for i := range 2 {
			delete(k.last, facts.PlaceholderUID(uid, i))
		}
		return
	}
	if k.has(uid) {
		return
	}
	web := facts.ReservationOwner{Pods: &facts.LabelSelector{Expressions: []facts.Requirement{{Key: "app", Operator: facts.In, Values: []string{"web"}}}}}
	r := &facts.Reservation{UID: uid, Name: string(uid), Namespace: "ns", Count: 2, Template: f, Owners: []facts.ReservationOwner{web}, Expires: k.now + 15}
	if rapid.Bool().Draw(t, "restored") {
		r.Places = []facts.Place{{Index: 0, State: facts.PlaceReserved, Node: "n0"}}
	}
	k.store.Apply(facts.ReservationUpserted{Reservation: r})
}

// world is all that a rejected Plan must leave as it was. In which order a node lists its pods is nothing.
func (k *kept) world() string {
	lines := strings.Split(world(k.store), "\n")
	for i := range lines {
		words := strings.Fields(lines[i])
		slices.Sort(words)
		lines[i] = strings.Join(words, " ")
	}
	return strings.Join(lines, "\n")
}

func (k *kept) has(uid facts.UID) bool {
	return k.store.Placeholders().Set(facts.PlaceholderUID(uid, 0)) != nil
}

func (k *kept) commit(t *rapid.T, node string) {
	plan := &cluster.Plan{Placements: []cluster.Placement{{Pod: k.pod(t).UID, Node: node}}}
	placeholder := facts.PlaceholderUID(facts.UID(fmt.Sprintf("r%d", rapid.IntRange(0, 2).Draw(t, "whose"))), rapid.IntRange(0, 1).Draw(t, "index"))
	what := rapid.IntRange(0, 3).Draw(t, "what")
	switch what {
	case 0:
		plan.Takes = []facts.UID{placeholder}
	case 1:
		plan.Victims = []facts.UID{placeholder}
	case 2:
		plan.Placements[0].Pod = placeholder
	}
	before, overcommitted := k.world(), k.store.Overcommitted()
	verdict := k.store.Commit(plan, rules.Commits)
	if !verdict.Committed {
		if after := k.world(); after != before {
			t.Fatalf("a rejected Plan left something behind; before:\n%s\nafter:\n%s", before, after)
		}
		return
	}
	uid := plan.Placements[0].Pod
	if what == 0 && (!k.owner[uid] || k.place(k.store.Pod(uid)) != placeholder) {
		t.Fatalf("%s has the room of %s", uid, placeholder)
	}
	if after := k.store.Overcommitted(); len(after) > len(overcommitted) {
		t.Fatalf("the Plan of %s overcommits %v:\n%s", uid, after, world(k.store))
	}
}

func (k *kept) check(t *rapid.T) {
	k.store.EndPlaces(k.now)
	if err := k.store.Verify(); err != nil {
		t.Fatal(err)
	}
	for i := range k.store.Slots() {
		var pods, all int64
		for _, pod := range k.store.PodsOn(cluster.Slot(i)) {
			asks := pod.Class.Amounts.Get(resource.CPU)
			all += asks
			if !pod.Placeholder() {
				pods += asks
			}
		}
		if has := k.store.Allocatable(cluster.Slot(i), resource.CPU); all > has && all > pods {
			t.Fatalf("pods hold %d of %d, with placeholders %d:\n%s", pods, has, all, world(k.store))
		}
	}
	k.store.Placeholders().Each(func(set *cluster.PlaceholderSet) {
		view := set.View()
		for i := range view.Places {
			uid := facts.PlaceholderUID(view.UID, i)
			if view.Places[i].State < k.last[uid] {
				t.Fatalf("%s was %s, and is %s", uid, k.last[uid], view.Places[i].State)
			}
			k.last[uid] = view.Places[i].State
		}
	})
}

// A file whose Reservations contradict themselves is refused.
func TestLoadRefusesReservations(t *testing.T) {
	reservation := func(uid facts.UID, count, places int, taken facts.UID) cluster.PlaceholdersRecord {
		r := cluster.PlaceholdersRecord{Facts: &facts.Reservation{UID: uid, Namespace: "a", Name: string(uid), Count: count}, Expired: true, Places: make([]cluster.PlaceRecord, places)}
		for i := range r.Places {
			r.Places[i].State, r.Places[i].Taken = facts.PlaceLost, taken
		}
		return r
	}
	for what, c := range map[string]struct {
		list []cluster.PlaceholdersRecord
		ok   bool
	}{
		"nothing wrong":           {[]cluster.PlaceholdersRecord{reservation("r", 2, 2, ""), reservation("s", 1, 1, "")}, true},
		"no facts":                {[]cluster.PlaceholdersRecord{{}}, false},
		"no UID":                  {[]cluster.PlaceholdersRecord{reservation("", 1, 1, "")}, false},
		"a UID that stands twice": {[]cluster.PlaceholdersRecord{reservation("r", 1, 1, ""), reservation("r", 1, 1, "")}, false},
		"no places":               {[]cluster.PlaceholdersRecord{reservation("r", 0, 0, "")}, false},
		"too few places":          {[]cluster.PlaceholdersRecord{reservation("r", 2, 1, "")}, false},
		"taken by nobody there":   {[]cluster.PlaceholdersRecord{reservation("r", 1, 1, "gone")}, false},
	} {
		dump := cluster.NewStore().Dump()
		dump.Placeholders = c.list
		if _, err := cluster.Load(dump); (err == nil) != c.ok {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Who has another place than one that was lost is learnt from the status by a process that stands by: when it leads, it gives nobody the turn again. A file says whether the
// status says so yet.
func TestServedElsewhereIsLearnt(t *testing.T) {
	lost := func(by string) facts.Event {
		return facts.ReservationUpserted{Reservation: &facts.Reservation{
			UID: "r", Name: "target", Namespace: "ns", Moves: "p", Count: 1, Expires: 100, Template: facts.Pod{Requirements: &facts.Requirements{}},
			Places: []facts.Place{{State: facts.PlaceLost, Node: "n", Pod: by, Reason: "NodeGone"}},
		}}
	}
	standby := cluster.NewStore()
	for _, c := range []struct {
		by   string
		turn bool
	}{{"", true}, {"web-1", false}} {
		standby.Apply(lost(c.by))
		set := standby.Placeholders().In("ns")[0]
		if v := set.View(); set.LostTarget() != c.turn || !v.Settled || v.Places[0].Pod != c.by {
			t.Errorf("the status says %q: it is lost and nobody is served: %v, and the ledger has %+v", c.by, set.LostTarget(), v.Places[0])
		}
	}
	leader := cluster.NewStore()
	leader.Apply(lost(""))
	leader.Placeholders().ServedElsewhere(leader.Placeholders().In("ns")[0], &cluster.Pod{Name: "web-1"})
	loaded, err := cluster.Load(leader.Dump())
	if err != nil {
		t.Fatal(err)
	}
	if v := loaded.Placeholders().In("ns")[0].View(); v.Settled || v.Places[0].Pod != "web-1" {
		t.Errorf("the status does not say it yet, and the file has %+v", v.Places[0])
	}
}

// TestWhoMayEvict: a pod that waits may have any victims; the place of a growth only those that were named, and for a pod that could preempt them itself.
func TestWhoMayEvict(t *testing.T) {
	t.Parallel()
	grows := func() facts.Pod {
		return facts.Pod{UID: "g", Name: "g", Namespace: "ns", Ours: true, Node: "n0", Priority: 5, Requirements: &facts.Requirements{Requests: rq(1)}}
	}
	for name, c := range map[string]struct {
		changes func(grows, victim *facts.Pod, r *facts.Reservation)
		want    bool
	}{
		"a named pod":            {func(*facts.Pod, *facts.Pod, *facts.Reservation) {}, true},
		"nobody was named":       {func(_, _ *facts.Pod, r *facts.Reservation) { r.MayEvict = nil }, false},
		"another was named":      {func(_, _ *facts.Pod, r *facts.Reservation) { r.MayEvict = []facts.UID{"w"} }, false},
		"it leaves anyway":       {func(_, v *facts.Pod, r *facts.Reservation) { v.Deleting, r.MayEvict = true, []facts.UID{"w"} }, true},
		"the policy is Never":    {func(g, _ *facts.Pod, _ *facts.Reservation) { g.NeverPreempts = true }, false},
		"it exceeds who grows":   {func(g, _ *facts.Pod, _ *facts.Reservation) { g.Priority = 3 }, false},
		"it equals who grows":    {func(g, _ *facts.Pod, _ *facts.Reservation) { g.Priority = 4 }, true},
		"another namespace":      {func(g, _ *facts.Pod, _ *facts.Reservation) { g.Namespace = "other" }, false},
		"another node":           {func(g, _ *facts.Pod, _ *facts.Reservation) { g.Node = "n1" }, false},
		"it does not run":        {func(g, _ *facts.Pod, _ *facts.Reservation) { g.Node = "" }, false},
		"it leaves":              {func(g, _ *facts.Pod, _ *facts.Reservation) { g.Deleting = true }, false},
		"it is gone":             {func(g, _ *facts.Pod, _ *facts.Reservation) { g.UID = "h" }, false},
		"it is not for a growth": {func(_, _ *facts.Pod, r *facts.Reservation) { r.Owners = nil }, false},
		"it would evict itself":  {func(_, v *facts.Pod, r *facts.Reservation) { v.UID, r.MayEvict = "g", []facts.UID{"g"} }, false},
	} {
		g, victim := grows(), facts.Pod{UID: "v", Name: "v", Namespace: "ns", Ours: true, Node: "n0", Requirements: &facts.Requirements{Requests: rq(1)}}
		r := facts.Reservation{
			UID: "r", Name: "r", Namespace: "ns", Count: 1, MayEvict: []facts.UID{"v"}, Template: facts.Pod{Priority: 4, Requirements: &facts.Requirements{Requests: rq(1)}},
			Owners: []facts.ReservationOwner{{Pods: &facts.LabelSelector{Expressions: []facts.Requirement{{Key: spec.LabelGrowth, Operator: facts.In, Values: []string{"g"}}}}}},
		}
		c.changes(&g, &victim, &r)
		k := &kept{store: cluster.NewStore()}
		k.node(0, 8)
		k.node(1, 8)
		for _, p := range []facts.Pod{victim, g, {UID: "w", Name: "w", Namespace: "ns", Ours: true, Requirements: &facts.Requirements{Requests: rq(1)}}} {
			k.store.Apply(facts.PodUpserted{Pod: p})
		}
		k.store.Apply(facts.ReservationUpserted{Reservation: &r})
		victims := []*cluster.Pod{k.store.Pod(victim.UID)}
		if got := k.store.Placeholders().MayEvict(k.store.Pod("r/0"), "n0", victims); got != c.want {
			t.Errorf("%s: may evict: %v, want %v", name, got, c.want)
		}
		if !k.store.Placeholders().MayEvict(k.store.Pod("w"), "n0", victims) {
			t.Errorf("%s: a pod that waits may not have its victims", name)
		}
	}
}

// TestPermissionEndsWithItsVersion: a place that may evict nobody any more may again when its Reservation says so anew, and not before.
func TestPermissionEndsWithItsVersion(t *testing.T) {
	t.Parallel()
	store := cluster.NewStore()
	tell := func(named ...facts.UID) {
		store.Apply(facts.ReservationUpserted{Reservation: &facts.Reservation{
			UID: "r", Name: "r", Namespace: "ns", Count: 1, MayEvict: named, Template: facts.Pod{Requirements: &facts.Requirements{Requests: rq(1)}},
		}})
	}
	look := func(what string, want bool) {
		t.Helper()
		if got := !store.Pod("r/0").NeverPreempts; got != want {
			t.Errorf("%s: it looks for victims: %v, want %v", what, got, want)
		}
	}
	tell()
	look("nobody is named", false)
	tell("v")
	look("v is named", true)
	store.Placeholders().EndPermission("r/0")
	look("others would have to go", false)
	tell("v", "w")
	look("w is named, too", true)
	tell()
	look("the names are taken back", false)
	store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: "p", Name: "p", Namespace: "ns", Ours: true, Requirements: &facts.Requirements{Requests: rq(1)}}})
	store.Placeholders().EndPermission("p")
	if store.Pod("p").NeverPreempts {
		t.Error("a pod lost its permission by a word about places")
	}
}
