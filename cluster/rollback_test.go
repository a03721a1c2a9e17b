package cluster_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/census"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/topology"
)

// TestRollbackRestores lifts pods, opens reservations and assumes placements on a snapshot, in random order, and takes them back to random
// marks: rows, GPUs, ports in their order, tallies and censuses are then what they were at the mark, and at the end what a fresh snapshot has. A
// Placer that follows the snapshot's log decides as brute force does all the way.
func TestRollbackRestores(t *testing.T) {
	profile, err := rules.NewProfile(nil)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		w := newTown()
		for i := range 2 { // two that hold ports of one node
			uid := facts.UID(fmt.Sprint("p", i))
			w.store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: uid, Name: string(uid), Namespace: "x", Ours: true, Node: "n0", Requirements: townNeeds[1+i]}})
		}
		snapshot := cluster.NewSnapshot()
		optimistic := cluster.NewOptimisticSnapshot()
		placer := place.NewPlacer(snapshot, profile, 7, rapid.IntRange(1, 4).Draw(t, "indexes"))
		placer.SetMaxHolders(rapid.SampledFrom([]int{0, 64}).Draw(t, "shared"))
		for range rapid.IntRange(1, 4).Draw(t, "rounds") {
			for range rapid.IntRange(1, 25).Draw(t, "steps") {
				w.stepPods(t)
			}
			snapshot.Advance(w.store)
			suppose(t, w.store, snapshot, placer)
			fresh := cluster.NewSnapshot()
			fresh.Advance(w.store)
			if got, want := rowsOf(&snapshot.State, w.store, false), rowsOf(&fresh.State, w.store, false); got != want {
				t.Fatalf("rolled back:\n%s\nfresh:\n%s", got, want)
			}
			// What was assumed came true, or something else did.
			optimistic.Advance(w.store)
			if got, want := rowsOf(&optimistic.State, w.store, false), rowsOf(&fresh.State, w.store, false); got != want {
				t.Fatalf("optimistic:\n%s\nfresh:\n%s", got, want)
			}
			w.store.EachPod(func(pod *cluster.Pod) {
				if slot := cluster.Slot(len(pod.UID)); pod.Schedulable() && int(slot) < optimistic.Slots() && optimistic.Node(slot) != nil {
					optimistic.Assume(slot, pod, topology.Grant{})
				}
			})
		}
	})
}

// A snapshot that lags behind is asked about nodes that it has never seen.
func TestReservationOfUnseenNode(t *testing.T) {
	snapshot := cluster.NewSnapshot()
	w := newTown()
	w.store.Reserve([]cluster.Slot{1}, 7)
	if by := snapshot.Reservation(1); by != cluster.NoReservation {
		t.Errorf("reserved by %d, which the snapshot cannot know", by)
	}
	snapshot.Advance(w.store)
	if by := snapshot.Reservation(1); by != 7 {
		t.Errorf("reserved by %d, want 7", by)
	}
}

// suppose makes assumptions and takes all of them back.
func suppose(t *rapid.T, store *cluster.Store, snapshot *cluster.Snapshot, placer *place.Placer) {
	type mark struct {
		at   int
		rows string
	}
	marks := []mark{{snapshot.Mark(), rowsOf(&snapshot.State, store, true)}}
	back := func(to int) {
		snapshot.Rollback(marks[to].at)
		if got := rowsOf(&snapshot.State, store, true); got != marks[to].rows {
			t.Fatalf("rolled back:\n%s\nat the mark:\n%s", got, marks[to].rows)
		}
		marks = marks[:to+1]
	}
	away := map[*cluster.Pod]int{} // lifted, since the mark of that number
	for range rapid.IntRange(1, 15).Draw(t, "assumptions") {
		slot := cluster.Slot(rapid.IntRange(0, snapshot.Slots()-1).Draw(t, "slot"))
		pod := store.Pod(drawUID(t))
		switch op := rapid.IntRange(0, 6).Draw(t, "assumption"); {
		case op == 0:
			marks = append(marks, mark{snapshot.Mark(), rowsOf(&snapshot.State, store, true)})
		case op == 1:
			to := rapid.IntRange(0, len(marks)-1).Draw(t, "to")
			back(to)
			for lifted, since := range away {
				if since >= to {
					delete(away, lifted)
				}
			}
		case op == 2 && snapshot.Node(slot) != nil:
			snapshot.Open(slot)
		case pod == nil:
		case pod.Node() != "":
			if _, lifted := away[pod]; !lifted {
				snapshot.Lift(pod)
				away[pod] = len(marks) - 1
			}
		case snapshot.Node(slot) != nil:
			grant, _ := snapshot.Offer(slot, pod.Class)
			snapshot.Assume(slot, pod, grant)
		}
		if err := snapshot.Verify(); err != nil {
			t.Fatal(err)
		}
		decideAlike(t, store, placer)
	}
	back(0)
	decideAlike(t, store, placer)
}

// decideAlike compares the Placer's decisions with brute force for every pod that waits.
func decideAlike(t *rapid.T, store *cluster.Store, placer *place.Placer) {
	for i := range 12 {
		pod := store.Pod(facts.UID(fmt.Sprint("p", i)))
		if pod == nil || pod.Phase != cluster.Pending || pod.Deleting || pod.Gated {
			continue
		}
		want := placer.Best(pod.Class)
		if got, ok := placer.Place(pod.Class); ok != (want != cluster.NoSlot) || ok && got.Slot != want {
			t.Fatalf("%s is placed on slot %d (%v), brute force says %d", pod.UID, got.Slot, ok, want)
		}
	}
}

// rowsOf renders all columns of a state, its tallies, and the censuses that the ledger's pods read. The ports stand in the state's own order
// only where that is asked for: a judgement of the ledger may change it, and tells nobody, because it means nothing.
func rowsOf(s *cluster.State, store *cluster.Store, ordered bool) string {
	var b strings.Builder
	for i := range s.Slots() {
		slot := cluster.Slot(i)
		cpu, memory := s.ScoreRequested(slot)
		ports := slices.Clone(s.Ports(slot))
		if !ordered {
			slices.SortFunc(ports, func(a, b facts.HostPort) int { return int(a.Port) - int(b.Port) })
		}
		shape, numaNodes := s.NUMANodes(slot)
		fmt.Fprintf(&b, "%d NUMA %v %v ", slot, *shape, *numaNodes)
		fmt.Fprintf(&b, "%d %p gpus %v %v ports %v reserved %d scores %d %d touched %d:", slot, s.Node(slot), s.HasGPUs(slot), *s.GPUs(slot),
			ports, s.Reservation(slot), cpu, memory, s.Touched(slot))
		for kind := range s.Kinds() {
			k := resource.Kind(kind)
			fmt.Fprintf(&b, " %s=%d/%d", s.KindName(k), s.Requested(slot, k), s.Allocatable(slot, k))
		}
		for id := range census.TallyID(64) {
			if n := s.Counts().Tally(slot, id); n != 0 {
				fmt.Fprintf(&b, " tally %d: %d", id, n)
			}
		}
		b.WriteString("\n")
	}
	seen := map[census.ID]bool{}
	for i := range 12 {
		pod := store.Pod(facts.UID(fmt.Sprint("p", i)))
		if pod == nil || pod.Class.Constraints == nil {
			continue
		}
		pod.Class.Constraints.Each(func(id census.ID) {
			if seen[id] {
				return
			}
			seen[id] = true
			c := s.Counts().Census(id)
			fmt.Fprintf(&b, "census %d: %d in %d domains, at least %d:", id, c.Sum(), c.Domains(), c.Least())
			for slot := range s.Slots() { // each state numbers domains by itself
				fmt.Fprintf(&b, " %d", c.Count(c.Domain(cluster.Slot(slot))))
			}
			b.WriteString("\n")
		})
	}
	return b.String()
}
