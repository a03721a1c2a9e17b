package volumes_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/volumes"
)

// world is a Book beside what was said to it.
type world struct {
	book    *volumes.Book
	objects map[facts.StorageName]facts.StorageObject
	pods    map[facts.UID][]facts.ClaimUse
	nodes   []*facts.Node
	on      map[facts.UID]*facts.Node
}

type answer struct {
	needs *facts.VolumeNeeds
	waits string
}

// refuses reports whether the pod must not have the node while every other pod stays where it is: Conflict alone lets it go where those that use its claim
// could be evicted.
func (a answer) refuses(node *facts.Node) bool {
	return a.waits != "" || a.needs != nil && (a.needs.Conflict(node) != facts.NoVolumeConflict || len(a.needs.Users) > 0)
}

// answers is what the Book says of all pods.
func (w *world) answers() map[facts.UID]answer {
	out := make(map[facts.UID]answer)
	for uid := range w.pods {
		needs, waits := w.book.Needs(uid)
		out[uid] = answer{needs, waits}
	}
	return out
}

func name(t *rapid.T, prefix string, most int) string {
	return fmt.Sprintf("%s%d", prefix, rapid.IntRange(0, most-1).Draw(t, prefix))
}

func terms(t *rapid.T) []facts.Term {
	if rapid.Bool().Draw(t, "everywhere") {
		return nil
	}
	return []facts.Term{{Expressions: []facts.Requirement{{Key: "zone", Operator: facts.In, Values: []string{rapid.SampledFrom([]string{"a", "b"}).Draw(t, "zone")}}}}}
}

func (w *world) object(t *rapid.T) facts.StorageObject {
	modes := rapid.SampledFrom([]facts.AccessModes{facts.ReadWriteOnce, facts.ReadWriteOnce, facts.ReadWriteOncePod}).Draw(t, "modes")
	handle := facts.VolumeHandle{Driver: rapid.SampledFrom([]string{"csi", "csi", "other"}).Draw(t, "by"), Handle: name(t, "h", 3)}
	switch rapid.IntRange(0, 8).Draw(t, "kind") {
	case 0, 1:
		c := &facts.Claim{ClaimName: facts.ClaimName{Namespace: "d", Name: name(t, "c", 4)}, StorageClass: name(t, "s", 2), Modes: modes, Size: rapid.Int64Range(1, 3).Draw(t, "size"), Sized: true}
		c.UID = c.Name
		if rapid.IntRange(0, 3).Draw(t, "state") == 0 {
			c.Volume, c.Bound = name(t, "v", 4), true
		} else if rapid.IntRange(0, 4).Draw(t, "chosen") == 0 {
			c.SelectedNode = w.nodes[0].Name
		}
		return c
	case 2, 3:
		v := &facts.Volume{Name: name(t, "v", 4), StorageClass: name(t, "s", 2), Modes: facts.ReadWriteOnce | facts.ReadWriteOncePod, Size: rapid.Int64Range(1, 4).Draw(t, "size"), Nodes: terms(t), Available: true, Handle: handle}
		if rapid.IntRange(0, 3).Draw(t, "kept") == 0 {
			v.Claim, v.Available = facts.ClaimName{Namespace: "d", Name: name(t, "c", 4)}, false
			v.ClaimUID = v.Claim.Name
		}
		return v
	case 4:
		return &facts.StorageClass{Name: name(t, "s", 2), Driver: rapid.SampledFrom([]string{"", "csi"}).Draw(t, "driver"), Attaches: "csi", Waits: rapid.IntRange(0, 4).Draw(t, "waits") > 0, Nodes: terms(t)}
	case 5:
		return &facts.StorageDriver{Name: "csi", TellsCapacity: rapid.Bool().Draw(t, "tells"), Required: rapid.Bool().Draw(t, "required")}
	case 6:
		n := &facts.StorageNode{Node: rapid.SampledFrom([]string{"na", "nb"}).Draw(t, "node")}
		if rapid.Bool().Draw(t, "has") {
			n.Drivers = []facts.NodeDriver{{Name: "csi", Limit: 2, Limited: rapid.Bool().Draw(t, "limited")}}
		}
		return n
	case 7:
		return &facts.Attachment{Name: name(t, "a", 3), Node: "na", Driver: "csi", Volume: name(t, "v", 4)}
	default:
		return &facts.StorageCapacity{
			Namespace: "d", Name: name(t, "r", 2), StorageClass: name(t, "s", 2), Most: rapid.Int64Range(0, 3).Draw(t, "most"),
			Capacity: rapid.Int64Range(0, 9).Draw(t, "capacity"), Told: rapid.Bool().Draw(t, "told"),
		}
	}
}

// expect checks that only pods that the Book named have another answer.
func expect(t *rapid.T, what string, before, after map[facts.UID]answer, affected []facts.UID) {
	for uid, a := range after {
		if b, known := before[uid]; known && !reflect.DeepEqual(a, b) && !slices.Contains(affected, uid) {
			t.Fatalf("%s: the needs of %s changed from %+v to %+v, and nobody was told", what, uid, b, a)
		}
	}
}

// TestBook says random things of storage, and takes and releases pods. After each step a Book that is told everything anew gives the same answers, as far as
// nothing is promised; whoever's answer changed was named; what a pod took and gives back leaves no trace; no volume is promised twice, and none is
// taken from who has it.
func TestBook(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{book: volumes.New(), objects: make(map[facts.StorageName]facts.StorageObject), pods: make(map[facts.UID][]facts.ClaimUse), on: make(map[facts.UID]*facts.Node)}
		for _, zone := range []string{"a", "b"} {
			w.nodes = append(w.nodes, &facts.Node{Name: "n" + zone, Labels: map[string]string{"zone": zone}})
		}
		for i := range 4 {
			uid := facts.UID(fmt.Sprintf("p%d", i))
			w.pods[uid] = []facts.ClaimUse{{Claim: name(t, "c", 4)}}
			if other := name(t, "c", 4); other != w.pods[uid][0].Claim {
				w.pods[uid] = append(w.pods[uid], facts.ClaimUse{Claim: other})
			}
			w.book.Use(uid, "d", w.pods[uid], uid[len(uid)-1]%2 == 0)
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			w.step(t)
			if err := w.book.Verify(); err != nil {
				t.Fatal(err)
			}
			w.takesFromNobody(t)
			if len(w.on) == 0 {
				w.sameAnew(t)
			}
		}
	})
}

func (w *world) step(t *rapid.T) {
	before := w.answers()
	uid := facts.UID(name(t, "p", 4))
	switch rapid.IntRange(0, 4).Draw(t, "what") {
	case 0, 1:
		o := w.object(t)
		w.objects[o.StorageName()] = o
		affected := w.book.Set(o)
		expect(t, fmt.Sprintf("set %+v", o), before, w.answers(), affected)
	case 2:
		if len(w.objects) == 0 {
			return
		}
		gone := rapid.SampledFrom(slices.SortedFunc(maps.Keys(w.objects), facts.CompareStorageNames)).Draw(t, "gone")
		affected := w.book.Remove(gone)
		delete(w.objects, gone)
		expect(t, fmt.Sprintf("remove %+v", gone), before, w.answers(), affected)
	case 3:
		if w.on[uid] == nil {
			w.take(t, uid, before)
		}
	case 4:
		affected := w.book.Release(uid)
		delete(w.on, uid)
		delete(before, uid)
		expect(t, "release "+string(uid), before, w.answers(), affected)
	}
}

// TestTakeFromWhoLeaves: a claim that one pod at a time may use is taken on the node of its user exactly if that user leaves.
func TestTakeFromWhoLeaves(t *testing.T) {
	t.Parallel()
	book, node := volumes.New(), &facts.Node{Name: "n"}
	claim := &facts.Claim{ClaimName: facts.ClaimName{Namespace: "d", Name: "c"}, UID: "c", Modes: facts.ReadWriteOncePod, Volume: "v", Bound: true}
	book.Set(&facts.Volume{Name: "v", Modes: facts.ReadWriteOncePod, Claim: claim.ClaimName, ClaimUID: "c"})
	book.Set(claim)
	for _, uid := range []facts.UID{"first", "second"} {
		book.Use(uid, "d", []facts.ClaimUse{{Claim: "c"}}, false)
	}
	stays, leaves := func(facts.UID) bool { return false }, func(facts.UID) bool { return true }
	if conflict, _ := book.Take("first", node, stays); conflict != "" {
		t.Fatalf("nobody uses the claim: %s", conflict)
	}
	if needs, waits := book.Needs("second"); waits != "" || needs.Conflict(node) != facts.NoVolumeConflict {
		t.Fatalf("its user could be evicted: %+v %q", needs, waits)
	}
	if conflict, _ := book.Take("second", node, stays); conflict != facts.VolumeInUse.String() {
		t.Fatalf("its user stays: %q", conflict)
	}
	if conflict, _ := book.Take("second", node, leaves); conflict != "" {
		t.Fatalf("its user leaves: %s", conflict)
	}
}

// TestPromisedVolumeGoesToAnother: a volume that came to another claim before it was told its own one is not taken from there.
func TestPromisedVolumeGoesToAnother(t *testing.T) {
	t.Parallel()
	book, node := volumes.New(), &facts.Node{Name: "n"}
	claim, other := facts.ClaimName{Namespace: "d", Name: "c"}, facts.ClaimName{Namespace: "e", Name: "c"}
	free := facts.Volume{Name: "v", StorageClass: "s", Modes: facts.ReadWriteOnce, Size: 1, Available: true, Version: "1"}
	book.Set(&facts.StorageClass{Name: "s", Waits: true})
	book.Set(&free)
	book.Set(&facts.Claim{ClaimName: claim, UID: "u", StorageClass: "s", Modes: facts.ReadWriteOnce, Size: 1, Sized: true})
	book.Use("p", "d", []facts.ClaimUse{{Claim: "c"}}, false)
	if conflict, _ := book.Take("p", node, func(facts.UID) bool { return false }); conflict != "" || len(book.Obligations("p")) != 1 {
		t.Fatalf("%q, it is to be written %+v", conflict, book.Obligations("p"))
	}
	for _, c := range []struct {
		what   string
		change func(*facts.Volume)
		fails  bool
	}{
		{"it is as it was", func(v *facts.Volume) { v.Version = "2" }, false},
		{"it is kept for this claim", func(v *facts.Volume) { v.Claim = claim }, false},
		{"it is kept for another claim", func(v *facts.Volume) { v.Claim = other }, true},
		{"it is kept for an older claim of this name", func(v *facts.Volume) { v.Claim, v.ClaimUID = claim, "old" }, true},
		{"it is not available", func(v *facts.Volume) { v.Available, v.Version = false, "" }, true},
	} {
		v := free
		c.change(&v)
		book.Set(&v)
		if _, failed := book.Progress("p", node); (failed != "") != c.fails {
			t.Errorf("%s: %q", c.what, failed)
		}
	}
}

// take takes a pod, and again after it was released: that leaves no trace.
func (w *world) take(t *rapid.T, uid facts.UID, before map[facts.UID]answer) {
	node := rapid.SampledFrom(w.nodes).Draw(t, "node")
	for again := range 2 {
		conflict, affected := w.book.Take(uid, node, func(facts.UID) bool { return false })
		if said := before[uid]; (conflict != "") != said.refuses(node) {
			t.Fatalf("take %s on %s: %q, though it was said that %+v", uid, node.Name, conflict, said)
		}
		if conflict != "" {
			if after := w.answers(); !reflect.DeepEqual(before, after) {
				t.Fatalf("what could not be taken left %+v of %+v", after, before)
			}
			return
		}
		others := w.answers()
		delete(others, uid)
		expect(t, "take "+string(uid), before, others, affected)
		if again == 0 {
			w.book.Release(uid)
			if after := w.answers(); !reflect.DeepEqual(before, after) {
				t.Fatalf("what was given back left %+v of %+v", after, before)
			}
		}
	}
	w.on[uid] = node
}

// takesFromNobody: while the claims of a pod progress, no volume that another claim has, or that is not available, is to be told its claim.
func (w *world) takesFromNobody(t *rapid.T) {
	for uid, node := range w.on {
		if _, failed := w.book.Progress(uid, node); failed != "" {
			continue
		}
		for _, o := range w.book.Obligations(uid) {
			if o.Volume == "" {
				continue
			}
			v, known := w.objects[facts.StorageName{Kind: facts.PersistentVolume, Name: o.Volume}].(*facts.Volume)
			free := known && v.Available && v.Claim == (facts.ClaimName{})
			if !free && (!known || !v.KeptFor(&facts.Claim{ClaimName: o.Claim, UID: o.ClaimUID})) {
				t.Fatalf("pod %s: %+v would be written to %+v", uid, o, v)
			}
		}
	}
}

// sameAnew tells another Book everything that is known.
func (w *world) sameAnew(t *rapid.T) {
	anew := volumes.New()
	for uid, uses := range w.pods {
		anew.Use(uid, "d", uses, uid[len(uid)-1]%2 == 0)
	}
	for _, o := range w.objects {
		anew.Set(o)
	}
	for uid, a := range w.answers() {
		if needs, waits := anew.Needs(uid); waits != a.waits || !reflect.DeepEqual(needs, a.needs) {
			t.Fatalf("pod %s: %+v, told anew %+v %q", uid, a, needs, waits)
		}
	}
}
