package place_test

import (
	"fmt"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/topology"
)

// own is the partition that the confined placer of TestPlaceIn knows.
const own = 0

// TestPlaceIn: the best node of a partition is the one that a pod gets which may use only nodes with a label that says the same, whatever changes and however
// often the nodes are divided anew; and Place goes on to look at all nodes.
func TestPlaceIn(t *testing.T) {
	const label = "part"
	rapid.Check(t, func(t *rapid.T) {
		store := cluster.NewStore()
		parts := rapid.IntRange(1, 4).Draw(t, "parts")
		var of []uint8
		zones := rapid.IntRange(1, 3).Draw(t, "zones")
		for i := range rapid.IntRange(1, 30).Draw(t, "nodes") {
			part := uint8(rapid.IntRange(0, parts-1).Draw(t, "part"))
			of = append(of, part)
			store.Apply(facts.NodeUpserted{Node: &facts.Node{
				Name:        fmt.Sprintf("n%d", i),
				Labels:      map[string]string{label: strconv.Itoa(int(part)), "zone": strconv.Itoa(i % zones)},
				Allocatable: []resource.Quantity{{Name: resource.NameCPU, Amount: rapid.Int64Range(1, 8).Draw(t, "cpus") * 1000}, {Name: resource.NamePods, Amount: 10}},
			}})
		}
		class := func(i int, part string) *cluster.Class {
			r := &facts.Requirements{Requests: []resource.Quantity{{Name: resource.NameCPU, Amount: int64(1+i%3) * 500}}, ScoreCPU: int64(1+i%3) * 500}
			if i%2 == 1 {
				r.NodeSelector = append(r.NodeSelector, facts.Label{Key: "zone", Value: "0"})
			}
			if part != "" {
				r.NodeSelector = append(r.NodeSelector, facts.Label{Key: label, Value: part})
			}
			uid := facts.UID(fmt.Sprintf("asks-%d-%s", i, part))
			store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: uid, Namespace: "default", Name: string(uid), Ours: true, Requirements: r}})
			return store.Pod(uid).Class
		}
		profile, err := rules.NewProfile(nil)
		if err != nil {
			t.Fatal(err)
		}
		newPlacer := func() (*cluster.Snapshot, *place.Placer) {
			snapshot := cluster.NewSnapshot()
			snapshot.Advance(store)
			return snapshot, place.NewPlacer(snapshot, profile, 7, 8)
		}
		snapshot, divided := newPlacer()
		plain, whole := newPlacer()
		// It knows the nodes of one partition alone, and assumes what the store will say.
		optimistic := cluster.NewOptimisticSnapshot()
		optimistic.Advance(store)
		confined := place.NewPlacer(optimistic, profile, 7, 8)
		isDivided := false
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			if rapid.IntRange(0, 9).Draw(t, "divide") == 0 {
				divided.Divide(of)
				confined.Confine(of, own)
				isDivided = true
			}
			i, part := rapid.IntRange(0, 5).Draw(t, "class"), uint8(rapid.IntRange(0, parts-1).Draw(t, "in"))
			want, fits := whole.Place(class(i, strconv.Itoa(int(part))))
			c := class(i, "")
			snapshot.Advance(store)
			plain.Advance(store)
			got, ok := divided.PlaceIn(part, c)
			all, fitsAnywhere := whole.Place(c)
			if of, ok := divided.Place(c); ok != fitsAnywhere || of.Slot != all.Slot {
				t.Fatalf("of all nodes: %d, %t, want %d, %t", of.Slot, ok, all.Slot, fitsAnywhere)
			}
			if ok != (fits && isDivided) || ok && got.Slot != want.Slot {
				t.Fatalf("class %d in part %d (divided: %t): node %d, %t, want %d, %t", i, part, isDivided, got.Slot, ok, want.Slot, fits)
			}
			optimistic.Advance(store)
			sameAlone(t, confined, part == own && isDivided, c, got.Slot)
			if !ok {
				continue
			}
			uid := facts.UID(fmt.Sprintf("pod-%d", store.Pods()))
			store.Apply(facts.PodUpserted{Pod: facts.Pod{
				UID: uid, Namespace: "default", Name: string(uid), Ours: true, Node: store.Node(got.Slot).Name, Requirements: store.Pod(facts.UID(fmt.Sprintf("asks-%d-", i))).Record().Facts.Requirements,
			}})
			mayAssume(t, optimistic, got.Slot, store.Pod(uid))
			snapshot.Advance(store)
			plain.Advance(store)
		}
	})
}

// mayAssume has a snapshot assume that a pod has gone where it went, or elsewhere, or nothing.
func mayAssume(t *rapid.T, s *cluster.Snapshot, slot cluster.Slot, pod *cluster.Pod) {
	if !rapid.Bool().Draw(t, "assumed") {
		return
	}
	if rapid.IntRange(0, 3).Draw(t, "overtaken") == 0 {
		slot = cluster.Slot(rapid.IntRange(0, s.Slots()-1).Draw(t, "node"))
	}
	s.Assume(slot, pod, topology.Grant{})
}

// sameAlone holds a placer that knows one partition alone against the choice of one that knows all, if that was about the same partition; NoSlot: there is no room.
func sameAlone(t *rapid.T, confined *place.Placer, same bool, c *cluster.Class, want cluster.Slot) {
	if alone, _ := confined.PlaceIn(own, c); same && alone.Slot != want {
		t.Fatalf("by a placer that knows part %d alone: node %d, want %d", own, alone.Slot, want)
	}
}
