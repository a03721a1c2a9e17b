package place

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/topology"
)

// TestPricesReachWhatIsKept: between two price lists nothing else changes, and rankings and indexes that were made before the first, and used under one
// after the other, decide as one that is made anew.
func TestPricesReachWhatIsKept(t *testing.T) {
	moved := map[string]int{}
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 1))
		w := newKeptWorld(t, random)
		for list, arriving := range []topology.Request{{}, {Whole: 2}, {Milli: 750}, {Milli: 500}} {
			for range 20 << (3 * list) { // so many that those before hardly count
				w.profile.Market().Arrived(&facts.Requirements{GPU: arriving, Requests: quantities("cpu", 1000<<list)})
			}
			if list > 0 {
				w.profile.Market().Learn(w.store)
			}
			for kind, classes := range w.classes {
				if n := w.compare(t, classes); list > 0 {
					moved[fmt.Sprint(kind, " list ", min(list, 2))] += n
				}
			}
		}
	}
	for _, what := range []string{"ranking list 1", "ranking list 2", "index list 1", "index list 2"} {
		if moved[what] < 10 {
			t.Errorf("%s: a new list sent a pod elsewhere %d times only", what, moved[what])
		}
	}
}

// keptWorld is a ledger that stays as it is, and a placer that lives as long.
type keptWorld struct {
	profile  *rules.Profile
	store    *cluster.Store
	snapshot *cluster.Snapshot
	placer   *Placer
	classes  map[string][]*cluster.Class // by what the placer keeps for them
	before   map[*cluster.Class]cluster.Slot
}

func newKeptWorld(t *testing.T, random *rand.Rand) *keptWorld {
	profile, err := rules.NewProfile(nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &keptWorld{
		profile: profile, store: keptLedger(random), snapshot: cluster.NewSnapshot(), classes: map[string][]*cluster.Class{}, before: map[*cluster.Class]cluster.Slot{},
	}
	w.placer = NewPlacer(w.snapshot, profile, 3, 16)
	for _, asked := range []topology.Request{{}, {Milli: 250}, {Milli: 500}, {Whole: 1}} {
		r := facts.Requirements{GPU: asked, Requests: quantities("cpu", 2000)}
		spread := r
		spread.Spread = []facts.SpreadConstraint{{TopologyKey: "zone", MaxSkew: 9, Hard: true, MinDomains: 1}}
		w.classes["ranking"] = append(w.classes["ranking"], w.store.Class(&r))
		w.classes["index"] = append(w.classes["index"], w.store.Class(&spread))
	}
	w.snapshot.Advance(w.store)
	return w
}

// compare places pods of each class as the placer does and as a new one would, and returns how many go elsewhere than the last time.
func (w *keptWorld) compare(t *testing.T, classes []*cluster.Class) (moved int) {
	t.Helper()
	for i, c := range classes {
		got, ok := w.placer.Place(c)
		want, fits := NewPlacer(w.snapshot, w.profile, 3, 16).Place(c)
		if ok != fits || got.Slot != want.Slot {
			t.Fatalf("list %d: pod %d goes to %d, by a placer that is new to %d", w.profile.Market().Revision(), i, got.Slot, want.Slot)
		}
		if slot, known := w.before[c]; known && slot != got.Slot {
			moved++
		}
		w.before[c] = got.Slot
	}
	return moved
}

// keptLedger is nodes with and without GPUs, partly held.
func keptLedger(random *rand.Rand) *cluster.Store {
	store := cluster.NewStore()
	for i := range 12 {
		n := &facts.Node{
			Name: fmt.Sprint("n", i), Labels: map[string]string{"zone": "a"}, Allocatable: quantities("cpu", 16000, "pods", 100),
			GPU: topology.Shape{GPUs: 4, Model: "A", Shareable: true},
		}
		if i%4 == 0 {
			n.GPU = topology.Shape{}
		}
		store.Apply(facts.NodeUpserted{Node: n})
		for g := range n.GPU.GPUs + 1 {
			held := facts.Pod{UID: facts.UID(fmt.Sprint(i, ".", g)), Node: n.Name, Requirements: &facts.Requirements{Requests: quantities("cpu", 1000*random.IntN(4))}}
			if g < n.GPU.GPUs {
				milli := []int16{0, 250, 500, 750}[random.IntN(4)]
				held.Requirements.GPU.Milli, held.Grant = milli, topology.Grant{GPUs: 1 << g, Milli: milli}
			}
			store.Apply(facts.PodUpserted{Pod: held})
		}
	}
	return store
}
