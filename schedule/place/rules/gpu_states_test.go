package rules

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// gpuHistory is nodes with GPUs whose free amounts change while price lists come.
type gpuHistory struct {
	profile *Profile
	store   *cluster.Store
	states  *GPUStates
	pods    int
}

// TestGPUStatesKnowTheScores runs random histories. Whatever a DenseScorer says that it knows is what the tables say, under the newest price list, and no
// box has a bound that one of its nodes exceeds.
func TestGPUStatesKnowTheScores(t *testing.T) {
	known, several, newLists := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		profile, err := NewProfile(map[string]int64{"GPUWorth": rapid.Int64Range(1, 3).Draw(t, "weight")})
		if err != nil {
			t.Fatal(err)
		}
		h := &gpuHistory{profile: profile, store: cluster.NewStore(), states: NewGPUStates(profile)}
		h.states.SetMost(rapid.SampledFrom([]int{2, 6, 1000}).Draw(t, "states"))
		for i := range rapid.IntRange(1, 12).Draw(t, "nodes") {
			h.store.Apply(facts.NodeUpserted{Node: gpuNodeOf(t, i)})
		}
		var pod *facts.Requirements
		for range rapid.IntRange(10, 40).Draw(t, "steps") {
			if pod == nil || rapid.Bool().Draw(t, "another pod") {
				pod = gpuPodOf(t)
			}
			if h.step(t, pod) {
				newLists++
			}
			k, b := h.check(t, h.store.Class(pod))
			known, several = known+k, several+b
		}
	})
	if testing.Short() {
		return // a few histories need not see everything
	}
	if known < 100 || several < 10 || newLists < 2 {
		t.Errorf("%d scores were known, %d boxes were of several nodes in one state, %d times a list replaced another", known, several, newLists)
	}
}

func gpuNodeOf(t *rapid.T, i int) *facts.Node {
	return &facts.Node{
		Name: fmt.Sprint("n", i), GPU: topology.Shape{GPUs: rapid.IntRange(0, 3).Draw(t, "GPUs"), Model: rapid.SampledFrom([]string{"A", "B"}).Draw(t, "model"), Shareable: rapid.IntRange(0, 4).Draw(t, "shareable") > 0},
		Allocatable: []resource.Quantity{
			{Name: "cpu", Amount: rapid.Int64Range(8, 32).Draw(t, "cores") * 1000}, {Name: "memory", Amount: 64 << 30}, {Name: "pods", Amount: 8},
		},
	}
}

func gpuPodOf(t *rapid.T) *facts.Requirements {
	cpu := rapid.Int64Range(0, 12_000).Draw(t, "cpu")
	r := &facts.Requirements{Requests: []resource.Quantity{{Name: "cpu", Amount: cpu}, {Name: "memory", Amount: 1 << 30}}, ScoreCPU: max(cpu, 100), ScoreMemory: 1 << 30}
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		r.GPU.Whole = rapid.Int8Range(1, 3).Draw(t, "whole")
	case 1, 2:
		r.GPU.Milli = rapid.SampledFrom([]int16{200, 250, 500, 810}).Draw(t, "milli")
	}
	if rapid.IntRange(0, 9).Draw(t, "isolated") == 0 {
		r.GPU.Isolation = topology.Accounting
	}
	return r
}

// step places a pod somewhere, ends one, replaces a node, or finds prices. It reports whether a list replaced another.
func (h *gpuHistory) step(t *rapid.T, pod *facts.Requirements) bool {
	h.profile.Market().Arrived(pod)
	switch rapid.IntRange(0, 9).Draw(t, "step") {
	case 5: // its agent tells of devices, or of none any more
		report := &facts.NodeReport{}
		if rapid.Bool().Draw(t, "devices") {
			report.Devices = &topology.Devices{Owner: topology.OwnerHilbert, ClosedGPUs: 1, GPU: []topology.GPU{{Model: "A", Memory: 1 << 14}, {Model: "A", Memory: 1 << 14}}}
		}
		h.store.Apply(facts.NodeReported{Node: fmt.Sprint("n", rapid.IntRange(0, 11).Draw(t, "node")), Report: report})
	case 0:
		h.store.Apply(facts.PodRemoved{UID: facts.UID(fmt.Sprint(rapid.IntRange(0, h.pods).Draw(t, "pod")))})
	case 1:
		h.store.Apply(facts.NodeUpserted{Node: gpuNodeOf(t, rapid.IntRange(0, 11).Draw(t, "node"))})
	case 2, 3:
		before := h.profile.PriceList()
		h.profile.Market().Learn(h.store)
		return before != 0 && h.profile.PriceList() != before
	default:
		h.pods++
		uid := facts.UID(fmt.Sprint(h.pods))
		h.store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: uid, Ours: true, Requirements: pod}})
		slot := cluster.Slot(rapid.IntRange(0, h.store.Slots()-1).Draw(t, "slot"))
		if c := h.store.Pod(uid).Class; Fits(&h.store.State, slot, c) {
			p := cluster.Placement{Pod: uid, Node: h.store.Node(slot).Name}
			if c.AsksGrant() {
				p.Grant, _ = h.store.Offer(slot, c)
			}
			h.store.Commit(&cluster.Plan{Placements: []cluster.Placement{p}}, Commits)
		}
	}
	return false
}

// check compares what is known of a class's score on each node.
func (h *gpuHistory) check(t *rapid.T, c *cluster.Class) (known, several int) {
	s := &h.store.State
	h.states.Follow()
	x := h.profile.DenseScorer(c, h.states)
	boxes := make(map[GPUStateID]*Box)
	var all Box
	scores := make(map[cluster.Slot]int64)
	rows := make([]Dense, s.Slots())
	for i := range rows {
		slot, d := cluster.Slot(i), &rows[i]
		if d.Fill(s, slot, h.states); !d.IsOpen() {
			continue
		}
		fits := FitsIn(Local, s, slot, c)
		if got := x.Fits(d); fits && !got || !fits && got && x.CanFilter(d) {
			t.Fatalf("the tables say of %+v that a pod of %+v fits: %v; the state says %v", d, c.GPU, fits, got)
		}
		if !fits {
			continue
		}
		scores[slot] = h.profile.LocalScore(s, slot, c)
		if x.CanScore(d) {
			known++
			if got := x.Score(d); got != scores[slot] {
				t.Fatalf("list %d: a pod of %+v scores %d on %+v, its state says %d", h.profile.PriceList(), c.GPU, scores[slot], d, got)
			}
		}
		o := d.Outline()
		if boxes[d.state] == nil {
			boxes[d.state] = &Box{}
		}
		boxes[d.state].Add(&o, d, 1)
		all.Add(&o, d, 1)
	}
	if !x.Bounded {
		return known, 0
	}
	for slot, score := range scores {
		for _, b := range []*Box{boxes[rows[slot].state], &all} {
			if x.BoxBound(b) < score || !x.FitSome(b) {
				t.Fatalf("a pod of %+v scores %d on %+v; its box %+v has the bound %d and fits some: %v", c.GPU, score, rows[slot], b, x.BoxBound(b), x.FitSome(b))
			}
		}
		if b := boxes[rows[slot].state]; b.Nodes() > 1 && rows[slot].state >= firstGPUState {
			several++
		}
	}
	return known, several
}

// TestGPUStatesAreBounded: whatever is asked for and free, so many worths are kept, and all states get new numbers once they are too many.
func TestGPUStatesAreBounded(t *testing.T) {
	profile, err := NewProfile(nil)
	if err != nil {
		t.Fatal(err)
	}
	store := cluster.NewStore()
	for i := range 100 {
		store.Apply(facts.NodeUpserted{Node: &facts.Node{
			Name: fmt.Sprint(i), GPU: topology.Shape{GPUs: 1 + i%16, Model: fmt.Sprint("model", i), Shareable: true}, Allocatable: []resource.Quantity{{Name: "cpu", Amount: 64000}, {Name: "pods", Amount: 100}},
		}})
	}
	states := NewGPUStates(profile)
	learn := func() bool {
		profile.Market().Arrived(&facts.Requirements{GPU: topology.Request{Milli: 500}})
		profile.Market().Learn(store)
		return states.Follow()
	}
	if !learn() {
		t.Error("with the first list states get numbers; that was not said")
	}
	for i := range 100 {
		states.Of(&store.State, cluster.Slot(i))
	}
	if learn() || states.Len() != 100 {
		t.Errorf("%d states, want 100, which keep their numbers under the next list", states.Len())
	}
	for milli := range 999 {
		for id := range states.Len() {
			states.table(&topology.Request{Milli: int16(milli + 1)}).at(firstGPUState + GPUStateID(id))
		}
		kept := 0
		for _, table := range states.tables {
			kept += 1 + len(table.worths)
		}
		if kept > maxGPUWorths || kept != states.known {
			t.Fatalf("%d worths and tables are kept, %d are counted, at most %d may be", kept, states.known, maxGPUWorths)
		}
	}
	for i := range 2 * maxGPUWorths { // requests about which nothing is ever asked
		if states.table(&topology.Request{Milli: int16(i%1000 + 1), Whole: int8(i / 1000)}); len(states.tables) > maxGPUWorths {
			t.Fatalf("%d tables are kept, at most %d may be", len(states.tables), maxGPUWorths)
		}
	}
	if c := states.Counts(); c.Forgotten == 0 || c.Unnumbered != 0 || c.States != 100 || c.Worths != states.known {
		t.Errorf("%+v, with %d worths and tables", c, states.known)
	}
	if states.SetMost(150); !learn() || states.Len() != 0 || len(states.tables) != 0 {
		t.Errorf("under a new list %d states and %d tables are left of too many", states.Len(), len(states.tables))
	}
	states.SetMost(60)
	for i := range 100 {
		states.Of(&store.State, cluster.Slot(i))
	}
	if c := states.Counts(); c.States != 60 || c.Unnumbered != 40 {
		t.Errorf("%+v, want 60 states, and 40 without a number", c)
	}
}
