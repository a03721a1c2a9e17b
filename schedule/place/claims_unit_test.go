package place

import (
	"fmt"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/internal/script"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place/pack"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// claimWorld is a small cluster with volumes, storage that can be made, and devices, and a gang whose members want some of that, of their own or in common.
type claimWorld struct {
	store    *cluster.Store
	snapshot *cluster.Snapshot
	placer   *Placer
	ask      pack.Ask
	rooms    map[string]int64 // by zone
	sizes    map[facts.UID]int64
	alike    bool // what members ask for is equal
	cpu      int64
	which    int
	class    string
}

const claimZones = 2

func drawClaimWorld(t *rapid.T) *claimWorld {
	profile, err := rules.NewProfile(map[string]int64{"MostAllocated": rapid.Int64Range(0, 2).Draw(t, "weight")})
	if err != nil {
		t.Fatal(err)
	}
	w := &claimWorld{store: cluster.NewStore(), snapshot: cluster.NewSnapshot(), rooms: make(map[string]int64), sizes: make(map[facts.UID]int64)}
	w.store.ResourceClaims().SetAllocator(&script.Devices{})
	w.placer = NewPlacer(w.snapshot, profile, 7, rapid.IntRange(1, 5).Draw(t, "indexes"))
	w.placer.SetUsesBeforeIndex(rapid.IntRange(0, 2).Draw(t, "uses"))
	w.placer.SetMaxNodeClasses(rapid.IntRange(1, 9).Draw(t, "node classes"))
	w.placer.SetLevels([]string{facts.LabelZone, facts.HostnameKey})
	w.alike, w.cpu, w.which = rapid.Bool().Draw(t, "alike"), rapid.Int64Range(1, 2).Draw(t, "each"), rapid.IntRange(0, 7).Draw(t, "volume of each")
	w.class = rapid.SampledFrom([]string{"local", "local", "tracked"}).Draw(t, "class of each")
	w.drawNodes(t)
	w.drawStorage(t)
	w.drawMembers(t)
	w.snapshot.Advance(w.store)
	return w
}

func (w *claimWorld) drawNodes(t *rapid.T) {
	w.store.Apply(facts.DRAUpserted{Object: &facts.DeviceClass{Name: "gpu"}})
	for i := range rapid.IntRange(1, 6).Draw(t, "nodes") {
		name := fmt.Sprint("n", i)
		w.store.Apply(facts.NodeUpserted{Node: &facts.Node{
			Name: name, Labels: map[string]string{facts.HostnameKey: name, facts.LabelZone: zoneOf(i)},
			Allocatable: quantities("cpu", 1000*rapid.IntRange(1, 6).Draw(t, "cpu"), "pods", 9),
		}})
		if devices := rapid.IntRange(0, 3).Draw(t, "devices"); devices > 0 {
			w.slice("s-"+name, name, devices)
		}
		if rapid.Bool().Draw(t, "limited") {
			w.store.Apply(facts.StorageUpserted{Object: &facts.StorageNode{Node: name, Drivers: []facts.NodeDriver{
				{Name: "csi", Limited: true, Limit: int64(rapid.IntRange(1, 3).Draw(t, "limit"))},
			}}})
		}
	}
	if devices := rapid.IntRange(0, 4).Draw(t, "devices for all"); devices > 0 {
		w.slice("fabric", "", devices)
	}
}

func zoneOf(i int) string { return strconv.Itoa(i % claimZones) }

func (w *claimWorld) slice(name, node string, devices int) {
	w.store.Apply(facts.DRAUpserted{Object: &facts.ResourceSlice{Name: name, PoolID: facts.PoolID{Driver: "gpu", Pool: name}, Node: node, Devices: devices}})
}

func label(key, value string) []facts.Requirement {
	return []facts.Requirement{{Key: key, Operator: facts.In, Values: []string{value}}}
}

func (w *claimWorld) drawStorage(t *rapid.T) {
	for _, c := range []facts.StorageClass{
		{Name: "local", Waits: true}, {Name: "made", Driver: "csi", Attaches: "csi", Waits: true}, {Name: "tracked", Driver: "told", Waits: true},
	} {
		w.store.Apply(facts.StorageUpserted{Object: &c})
	}
	w.store.Apply(facts.StorageUpserted{Object: &facts.StorageDriver{Name: "told", TellsCapacity: true}})
	for i := range rapid.IntRange(0, 6).Draw(t, "volumes") {
		v := &facts.Volume{
			Name: fmt.Sprint("v", i), StorageClass: "local", Size: rapid.Int64Range(1, 4).Draw(t, "size"), Modes: facts.ReadWriteOnce | facts.ReadWriteMany, Available: true, Version: "1",
		}
		switch node := rapid.IntRange(0, 5).Draw(t, "at"); rapid.IntRange(0, 2).Draw(t, "where") {
		case 0:
			v.Nodes = []facts.Term{{Expressions: label(facts.HostnameKey, fmt.Sprint("n", node))}}
		case 1:
			v.Nodes = []facts.Term{{Expressions: label(facts.LabelZone, zoneOf(node))}}
		}
		w.store.Apply(facts.StorageUpserted{Object: v})
	}
	for zone := range claimZones {
		most := rapid.Int64Range(1, 9).Draw(t, "room")
		w.rooms[zoneOf(zone)] = most
		w.store.Apply(facts.StorageUpserted{Object: &facts.StorageCapacity{
			Namespace: "x", Name: zoneOf(zone), StorageClass: "tracked", Most: most, Capacity: most, Told: true, Nodes: facts.LabelSelector{Expressions: label(facts.LabelZone, zoneOf(zone))},
		}})
	}
}

// drawMembers draws a gang. Claims 0 and 1 are common ones.
func (w *claimWorld) drawMembers(t *rapid.T) {
	members := rapid.IntRange(2, 5).Draw(t, "members")
	w.store.Apply(facts.UnitUpserted{Unit: &facts.Unit{UnitName: facts.UnitName{Namespace: "x", Name: "g"}, UID: "g", MinMember: int32(members)}})
	for i := range members {
		p := facts.Pod{
			UID: facts.UID(fmt.Sprint("m", i)), Namespace: "x", Name: fmt.Sprint("m", i), Ours: true, Unit: "g", Created: int64(i),
			Requirements: &facts.Requirements{Requests: []resource.Quantity{{Name: resource.NameCPU, Amount: 500 * rapid.Int64Range(1, 3).Draw(t, "asks")}}},
		}
		if w.alike {
			p.Requirements.Requests[0].Amount = 500 * w.cpu
		}
		if which := w.either(t, "volume", 7, w.which); which < 6 {
			p.Claims = []facts.ClaimUse{{Claim: w.volumeClaim(t, which, i)}}
		}
		if which := w.either(t, "device", 5, 5-w.which%3); which < 4 {
			p.ResourceClaims = []facts.ResourceClaimUse{{Claim: w.deviceClaim(t, which, i)}}
		}
		w.store.Apply(facts.PodUpserted{Pod: p})
	}
	for i := range members {
		w.ask.Members = append(w.ask.Members, w.store.Pod(facts.UID(fmt.Sprint("m", i))))
	}
	w.ask.Need = members
	if rapid.IntRange(0, 3).Draw(t, "in a zone") == 0 {
		w.ask.Topology.Required = facts.LabelZone
	}
	if rapid.IntRange(0, 3).Draw(t, "spread") == 0 {
		w.ask.Topology.Spread = facts.HostnameKey
	}
}

// either draws for each member, or is the same for all.
func (w *claimWorld) either(t *rapid.T, label string, most, all int) int {
	if w.alike {
		return all
	}
	return rapid.IntRange(0, most).Draw(t, label)
}

func (w *claimWorld) volumeClaim(t *rapid.T, which, member int) string {
	name := fmt.Sprint("c", member)
	c := &facts.Claim{StorageClass: rapid.SampledFrom([]string{"local", "made", "tracked"}).Draw(t, "class"), Size: rapid.Int64Range(1, 4).Draw(t, "claims"), Sized: true, Modes: facts.ReadWriteOnce}
	if w.alike {
		c.StorageClass, c.Size = w.class, 1
	}
	switch which {
	case 0:
		name, c.StorageClass, c.Size, c.Modes = "common", "local", 1, facts.ReadWriteMany
	case 1:
		name, c.StorageClass = "common-made", "made"
	case 2:
		name, c.StorageClass, c.Modes = "alone", "made", facts.ReadWriteOncePod
	}
	c.ClaimName = facts.ClaimName{Namespace: "x", Name: name}
	c.UID = name
	if c.StorageClass == "tracked" {
		w.sizes[facts.UID(fmt.Sprint("m", member))] = c.Size
	}
	w.store.Apply(facts.StorageUpserted{Object: c})
	return name
}

func (w *claimWorld) deviceClaim(t *rapid.T, which, member int) string {
	name, count := fmt.Sprint("d", member), strconv.Itoa(rapid.IntRange(1, 2).Draw(t, "count"))
	if which < 2 {
		name, count = fmt.Sprint("common", which), "1"
	}
	w.store.Apply(facts.DRAUpserted{Object: &facts.ResourceClaim{
		ClaimName: facts.ClaimName{Namespace: "x", Name: name}, UID: name, Requests: facts.ClaimRequests{Key: count, Classes: []facts.ClassUse{{Request: "r", Class: "gpu"}}, Spec: count},
	}})
	return name
}

// TestPlansWithClaimsCommit: what is chosen for the claims of some members of a gang is not chosen for others, so that a Plan that was decided on the newest state is
// never rejected; and what is made in a segment of the storage's topology fits there. Were it not so, the gang would be tried again for ever. A gang that found no
// places leaves nothing behind.
func TestPlansWithClaimsCommit(t *testing.T) {
	placed, shared := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := drawClaimWorld(t)
		choices, ok := w.placer.PlaceUnit(&w.ask)
		if !ok {
			if !w.snapshot.ChosenVolumes().Nothing() || !w.snapshot.ChosenDevices().Nothing() {
				t.Fatal("something stays chosen though nothing was placed")
			}
			return
		}
		placed++
		plan := &cluster.Plan{Revision: w.snapshot.Revision()}
		asked := make(map[string]int64)
		for i := range choices {
			node := w.snapshot.Node(choices[i].Slot)
			asked[node.Labels[facts.LabelZone]] += w.sizes[choices[i].Pod.UID]
			plan.Placements = append(plan.Placements, cluster.Placement{Pod: choices[i].Pod.UID, Node: node.Name, Grant: choices[i].Grant})
			if len(choices[i].Pod.Class.Claims.Shares()) > 0 {
				shared++
			}
		}
		for zone, sum := range asked {
			if sum > w.rooms[zone] {
				t.Fatalf("zone %s has %d, and %d are to be made", zone, w.rooms[zone], sum)
			}
		}
		if verdict := w.store.Commit(plan, rules.Commits); !verdict.Committed {
			t.Fatalf("the plan %+v was rejected: %s", plan.Placements, verdict.Reason)
		}
		if err := w.store.ResourceClaims().Verify(); err != nil {
			t.Fatal(err)
		}
		if err := w.store.Volumes().Verify(); err != nil {
			t.Fatal(err)
		}
		if w.snapshot.Advance(w.store); !w.snapshot.ChosenVolumes().Nothing() || !w.snapshot.ChosenDevices().Nothing() {
			t.Fatal("something stays chosen though the ledger knows of it")
		}
	})
	t.Logf("%d gangs placed, %d members with a claim in common", placed, shared)
}

// TestOneUserOfAClaimInAPlan: a ReadWriteOncePod claim has one user, though the Plan puts both on one node, where the class of neither knows of the other.
func TestOneUserOfAClaimInAPlan(t *testing.T) {
	store := cluster.NewStore()
	store.Apply(facts.NodeUpserted{Node: &facts.Node{Name: "n", Allocatable: quantities("cpu", 4000, "pods", 9)}})
	store.Apply(facts.StorageUpserted{Object: &facts.StorageClass{Name: "made", Driver: "csi", Waits: true}})
	store.Apply(facts.StorageUpserted{Object: &facts.Claim{ClaimName: facts.ClaimName{Namespace: "x", Name: "c"}, UID: "c", StorageClass: "made", Modes: facts.ReadWriteOncePod}})
	plan := &cluster.Plan{}
	for _, name := range []string{"a", "b"} {
		store.Apply(facts.PodUpserted{Pod: facts.Pod{
			UID: facts.UID(name), Namespace: "x", Name: name, Ours: true, Claims: []facts.ClaimUse{{Claim: "c"}}, Requirements: &facts.Requirements{Requests: quantities("cpu", 100)},
		}})
		plan.Placements = append(plan.Placements, cluster.Placement{Pod: facts.UID(name), Node: "n"})
	}
	if verdict := store.Commit(plan, rules.Commits); verdict.Committed || verdict.Placement != 1 || verdict.Reason != cluster.RejectVolumes {
		t.Errorf("verdict %+v", verdict)
	}
	plan.Placements = plan.Placements[:1]
	if verdict := store.Commit(plan, rules.Commits); !verdict.Committed {
		t.Errorf("one user: %+v", verdict)
	}
}
