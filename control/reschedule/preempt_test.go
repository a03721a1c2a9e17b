package reschedule

import (
	"testing"
	"time"

	"hilbert.dev/hilbert/topology"
)

// TestCostIsComparedFieldByField: no amount of what comes later outweighs what comes before.
func TestCostIsComparedFieldByField(t *testing.T) {
	t.Parallel()
	rising := []Cost{
		{}, {Pods: 1}, {Pods: 9}, {Lost: 1}, {Lost: 1, Pods: 1}, {Unplaced: 1}, {Unplaced: 1, Lost: 9, Pods: 9}, {Protected: 1}, {Protected: 1, Unplaced: 9, Lost: 9, Pods: 9}, {Protected: 2},
	}
	for i, a := range rising {
		for j, b := range rising {
			if got := a.Compare(b); got < 0 != (i < j) || got > 0 != (i > j) {
				t.Errorf("%+v and %+v: %d", a, b, got)
			}
		}
	}
}

// TestEvictingCost: who is protected, and whom nobody replaces, counts; a move has its target, so that only work counts.
func TestEvictingCost(t *testing.T) {
	t.Parallel()
	now := time.Unix(100_000, 0)
	train := Pod{Workload: "ns/train", Loses: true, Began: now.Add(-time.Hour), GPU: topology.Request{Whole: 1}}
	v := &View{Pods: []Pod{
		{Workload: "ns/web"}, {Workload: "ns/web", Protected: "its budget allows none"}, {}, {Workload: "ns/web", Unit: "gang"}, {Workload: "ns/big"}, train,
	}}
	p := Defaults()
	lost := p.lost(&train, now)
	if lost <= 0 {
		t.Fatalf("an hour of training costs %v", lost)
	}
	nowhere := func(i int) bool { return i == 4 }
	for i, want := range []Cost{{Pods: 1}, {Protected: 1, Pods: 1}, {Unplaced: 1, Pods: 1}, {Unplaced: 1, Pods: 1}, {Unplaced: 1, Pods: 1}, {Lost: lost, Pods: 1}} {
		if got := EvictingCost(v, []int{i}, nowhere, &p, now); got != want {
			t.Errorf("to evict pod %d costs %+v, want %+v", i, got, want)
		}
	}
	all := []int{0, 1, 2, 3, 4, 5}
	if got, want := EvictingCost(v, all, nowhere, &p, now), (Cost{Protected: 1, Unplaced: 3, Lost: lost, Pods: 6}); got != want {
		t.Errorf("to evict all costs %+v, want %+v", got, want)
	}
	if got, want := MovingCost(v, all, &p, now), (Cost{Lost: lost, Pods: 6}); got != want {
		t.Errorf("to move all costs %+v, want %+v", got, want)
	}
}
