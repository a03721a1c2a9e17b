package place

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place/rules"
)

const (
	loadNodes = 5
	loadCPU   = 16_000
	loadBytes = 64 << 30
)

// loadWorld is like nodes whose agents say from time to time what they use, and pods of one class that come, start and go. It knows the load of each
// node from the facts alone.
type loadWorld struct {
	store   *cluster.Store
	placer  *Placer
	reports [loadNodes]*facts.NodeReport
	pods    map[facts.UID]*facts.Pod
	node    map[facts.UID]int
	next    int
}

// TestLoadedNodesAreAvoided compares places with the load of every node, worked out from the facts: what the newest report says, and what the pods request
// that started after what it covers.
func TestLoadedNodesAreAvoided(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		profile, err := rules.NewProfile(map[string]int64{"LoadAware": 1, "LeastAllocated": 0, "BalancedAllocation": 0})
		if err != nil {
			t.Fatal(err)
		}
		snapshot := cluster.NewSnapshot()
		w := &loadWorld{store: cluster.NewStore(), placer: NewPlacer(snapshot, profile, 7, 2), pods: make(map[facts.UID]*facts.Pod), node: make(map[facts.UID]int)}
		w.placer.SetUsesBeforeIndex(rapid.SampledFrom([]int{0, 1000}).Draw(t, "uses before an index"))
		for i := range loadNodes {
			w.store.Apply(facts.NodeUpserted{Node: &facts.Node{Name: nodeName(i), Allocatable: []resource.Quantity{
				{Name: resource.NameCPU, Amount: loadCPU}, {Name: resource.NameMemory, Amount: loadBytes}, {Name: resource.NamePods, Amount: 8},
			}}})
		}
		for range rapid.IntRange(5, 60).Draw(t, "steps") {
			w.step(t)
			if err := w.store.Verify(); err != nil {
				t.Fatal(err)
			}
			w.check(t, snapshot)
		}
	})
}

func nodeName(i int) string { return fmt.Sprint("n", i) }

func (w *loadWorld) step(t *rapid.T) {
	uid := facts.UID(fmt.Sprint(rapid.IntRange(0, 12).Draw(t, "pod")))
	node := rapid.IntRange(0, loadNodes-1).Draw(t, "node")
	pod := w.pods[uid]
	switch op := rapid.IntRange(0, 5).Draw(t, "op"); {
	case op < 3:
		r := &facts.NodeReport{Usage: facts.Usage{
			MilliCPU: rapid.Int64Range(0, 4).Draw(t, "cpu") * 3000, Memory: rapid.Int64Range(0, 4).Draw(t, "memory") << 33, Since: rapid.Int64Range(0, 9).Draw(t, "since"),
		}}
		if last := w.reports[node]; last != nil && rapid.Bool().Draw(t, "as before") { // it covers other pods
			r.Usage.MilliCPU, r.Usage.Memory = last.Usage.MilliCPU, last.Usage.Memory
		}
		if rapid.IntRange(0, 9).Draw(t, "gone") == 0 {
			w.reports[node] = nil
			w.store.Apply(facts.NodeReportRemoved{Node: nodeName(node)})
			return
		}
		w.reports[node] = r
		w.store.Apply(facts.NodeReported{Node: nodeName(node), Report: r})
	case pod == nil:
		pod = &facts.Pod{UID: uid, Name: string(uid), Namespace: "x", Ours: true, Node: nodeName(node), Requirements: loadRequest()}
		w.pods[uid], w.node[uid] = pod, node
		w.store.Apply(facts.PodUpserted{Pod: *pod})
	case op == 3:
		pod.Started = rapid.Int64Range(0, 9).Draw(t, "started")
		w.store.Apply(facts.PodUpserted{Pod: *pod})
	case op == 4:
		delete(w.pods, uid)
		w.store.Apply(facts.PodRemoved{UID: uid})
	}
}

func loadRequest() *facts.Requirements {
	return &facts.Requirements{
		Requests: []resource.Quantity{{Name: resource.NameCPU, Amount: 1000}, {Name: resource.NameMemory, Amount: 4 << 30}}, ScoreCPU: 1000, ScoreMemory: 4 << 30,
	}
}

// load is what a node's pods will use, with one more pod.
func (w *loadWorld) load(node int) (cpu, memory int64) {
	r := w.reports[node]
	measured := r != nil && r.Usage.Since != 0
	pods := int64(1)
	for uid, pod := range w.pods {
		covered := measured && pod.Started != 0 && pod.Started <= r.Usage.Since
		if w.node[uid] == node && !covered {
			pods++
		}
	}
	if measured {
		cpu, memory = r.Usage.MilliCPU, r.Usage.Memory
	}
	return cpu + pods*1000, memory + pods*4<<30
}

func (w *loadWorld) check(t *rapid.T, snapshot *cluster.Snapshot) {
	w.next++
	uid := facts.UID(fmt.Sprint("asks-", w.next))
	w.store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: uid, Name: string(uid), Namespace: "x", Ours: true, Requirements: loadRequest()}})
	class := w.store.Pod(uid).Class
	snapshot.Advance(w.store)
	best := int64(-1)
	for i := range loadNodes {
		cpu, memory := w.load(i)
		score := (max(loadCPU-cpu, 0)*100/loadCPU + max(loadBytes-memory, 0)*100/loadBytes) / 2
		if rules.Fits(&snapshot.State, w.store.Slot(nodeName(i)), class) {
			best = max(best, score)
		}
	}
	choice, ok := w.placer.Place(class)
	if ok != (best >= 0) || choice.Slot != w.placer.Best(class) {
		t.Fatalf("placed on slot %d (%v), brute force says %d", choice.Slot, ok, w.placer.Best(class))
	}
	for _, j := range w.placer.Ranking(class) {
		for _, s := range j.Scores {
			if s.Name == "LoadAware" && j.Slot == choice.Slot && s.Score != best {
				t.Fatalf("the node that was chosen has %d, the best of them %d", s.Score, best)
			}
		}
	}
	w.store.Apply(facts.PodRemoved{UID: uid})
}
