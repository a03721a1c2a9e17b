package schedule_test

import (
	"fmt"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule"
)

// harmed is two nodes of 16 CPUs: on n1 runs a victim, and the hog that harms it has been named. n1 is the better one for further pods, for there is more free.
type harmed struct {
	*testing.T
	s   *schedule.Scheduler
	now time.Time
}

func newHarmed(t *testing.T) *harmed { return newHarmedBy(t, 1) }

// newHarmedBy has so many schedulers, each with a part of the nodes.
func newHarmedBy(t *testing.T, schedulers int) *harmed {
	config := spec.Default().Scheduling
	config.Schedulers = schedulers
	s, err := schedule.New(schedule.Options{Config: config})
	if err != nil {
		t.Fatal(err)
	}
	h := &harmed{t, s, time.Unix(1_000_000, 0)}
	for _, n := range []string{"n1", "n2"} {
		h.s.Apply(facts.NodeUpserted{Node: revNode(n, 16_000, 1<<30)}, h.now)
	}
	victim, hog, filler := sized("shop", 1, 500), sized("batch", 1, 1000), sized("other", 1, 6000)
	victim.Node, hog.Node, filler.Node = "n1", "n1", "n2"
	for _, p := range []facts.Pod{victim, hog, filler} {
		h.s.Apply(facts.PodUpserted{Pod: p}, h.now)
	}
	return h
}

func (h *harmed) report(node string, list ...facts.Apart) {
	h.s.Apply(facts.NodeReported{Node: node, Report: &facts.NodeReport{Apart: list}}, h.now)
}

// goes places a pod, takes it away again, and returns its node.
func (h *harmed) goes(p facts.Pod) string {
	h.Helper()
	h.s.Apply(facts.PodUpserted{Pod: p}, h.now)
	conditions(h.T, h.s, h.now)
	node := h.s.Store().Pod(p.UID).Node()
	h.s.Apply(facts.PodRemoved{UID: p.UID}, h.now)
	return node
}

// Pods like the culprit go elsewhere while the victim is there and the pair has not expired; others do not, and those that fit nowhere else do not either.
func TestPodsAreKeptApart(t *testing.T) {
	h := newHarmed(t)
	pair := facts.Apart{Victim: "shop1", Culprit: "batch1", Until: h.now.Add(time.Hour).UnixNano()}
	like, small, foreign := sized("batch", 2, 1000), sized("batch", 3, 900), sized("rival", 4, 1000)
	for i, step := range []struct {
		what string
		do   func()
		pod  facts.Pod
		want string
	}{
		{"nothing is reported", func() {}, like, "n1"},
		{"the pair is reported", func() { h.report("n1", pair) }, like, "n2"},
		{"another class", func() {}, small, "n1"},
		{"another tenant", func() {}, foreign, "n1"},
		{"the culprit is evicted", func() {
			h.s.Apply(facts.PodRemoved{UID: "batch1"}, h.now)
			h.report("n1", pair)
		}, like, "n2"},
		{"another node says so of its own", func() { h.report("n2", pair) }, like, "n2"},
		{"there is no room elsewhere", func() {
			full := sized("other", 5, 10_000)
			full.Node = "n2"
			h.s.Apply(facts.PodUpserted{Pod: full}, h.now)
		}, like, "n1"},
		{"there is again", func() { h.s.Apply(facts.PodRemoved{UID: "other5"}, h.now) }, like, "n2"},
		{"the pair expires", func() { h.now = h.now.Add(time.Hour) }, like, "n1"},
		{"it is reported anew, for ever", func() {
			h.report("n1", facts.Apart{Victim: "shop1", Culprit: "batch1", Until: 1 << 62})
		}, like, "n2"},
		{"for no longer than a day", func() { h.now = h.now.Add(24 * time.Hour) }, like, "n1"},
		{"again", func() {
			h.report("n1", facts.Apart{Victim: "shop1", Culprit: "batch1", Until: 1 << 62})
		}, like, "n2"},
		{"the victim leaves", func() { h.s.Apply(facts.PodRemoved{UID: "shop1"}, h.now) }, like, "n1"},
	} {
		step.do()
		if got := h.goes(step.pod); got != step.want {
			t.Errorf("step %d, %s: %s goes to %q, want %q", i, step.what, step.pod.UID, got, step.want)
		}
	}
	if c := h.s.Bounds().Apart; c.Kept != 6 || c.Pairs != 1 {
		t.Errorf("%+v", c)
	}
	h.s.Apply(facts.ReportsListed{}, h.now)
	if c := h.s.Bounds().Apart; c.Pairs != 0 {
		t.Errorf("no report is left: %+v", c)
	}
}

// on places pods at once, takes them away again, and returns how many of them went to each node.
func (h *harmed) on(list ...facts.Pod) map[string]int {
	h.Helper()
	for _, p := range list {
		h.s.Apply(facts.PodUpserted{Pod: p}, h.now)
	}
	conditions(h.T, h.s, h.now)
	out := make(map[string]int)
	for _, p := range list {
		out[h.s.Store().Pod(p.UID).Node()]++
		h.s.Apply(facts.PodRemoved{UID: p.UID}, h.now)
	}
	return out
}

// gang is a PodGroup of n pods like the culprit, of which it needs some.
func (h *harmed) gang(n, need int) (list []facts.Pod) {
	h.s.Apply(facts.UnitUpserted{Unit: &facts.Unit{UnitName: facts.UnitName{Namespace: "batch", Name: "g"}, UID: "g", MinMember: int32(need)}}, h.now)
	for i := range n {
		p := sized("batch", 10+i, 1000)
		p.Unit = "g"
		list = append(list, p)
	}
	return list
}

// A gang like the culprit goes elsewhere whole, if it finds room there whole; else where it does, as before.
func TestGangsAreKeptApart(t *testing.T) {
	h := newHarmed(t)
	if got := h.on(h.gang(4, 4)...); got["n1"] == 0 {
		t.Fatalf("nothing is reported: %v", got)
	}
	h.report("n1", facts.Apart{Victim: "shop1", Culprit: "batch1", Until: h.now.Add(time.Hour).UnixNano()})
	if got := h.on(h.gang(4, 4)...); got["n2"] != 4 {
		t.Errorf("the pair is reported: %v", got)
	}
	if c := h.s.Bounds().Apart; c.Kept == 0 {
		t.Errorf("%+v", c)
	}
	if got := h.on(h.gang(12, 12)...); got["n1"] < 2 || got["n1"]+got["n2"] != 12 {
		t.Errorf("there is no room for all elsewhere: %v", got)
	}
	if got := h.on(h.gang(12, 2)...); got["n2"] != 10 || got["n1"] != 2 {
		t.Errorf("those that it does not need come where there is room: %v", got)
	}
	if got := h.on(h.gang(40, 40)...); got[""] != 40 {
		t.Errorf("there is no room at all: %v", got)
	}
}

// Pods like the culprit go elsewhere also where a scheduler that has only a part of the nodes chose the victim's.
func TestPartsAreKeptApart(t *testing.T) {
	h := newHarmedBy(t, 2)
	var list []facts.Pod
	for i := range 8 {
		list = append(list, sized("batch", 10+i, 1000))
	}
	if got := h.on(list...); got["n1"] == 0 || h.s.Workers().Committed == 0 {
		t.Fatalf("nothing is reported: %v, %+v", got, h.s.Workers())
	}
	h.report("n1", facts.Apart{Victim: "shop1", Culprit: "batch1", Until: h.now.Add(time.Hour).UnixNano()})
	if got := h.on(list...); got["n2"] != 8 {
		t.Errorf("the pair is reported: %v", got)
	}
}

// A pod that fits nowhere waits as ever while pods are kept apart.
func TestNothingFitsWhileApart(t *testing.T) {
	h := newHarmed(t)
	h.report("n1", facts.Apart{Victim: "shop1", Culprit: "batch1", Until: h.now.Add(time.Hour).UnixNano()})
	if got := h.goes(sized("batch", 2, 64_000)); got != "" {
		t.Errorf("it goes to %q", got)
	}
	if c := h.s.Bounds().Apart; c.Kept != 0 || c.Pairs != 1 {
		t.Errorf("%+v", c)
	}
}

// However many pairs agents report, a bounded number is kept, and memory comes back.
func TestApartIsBounded(t *testing.T) {
	h := newHarmed(t)
	list := make([]facts.Apart, 16)
	for i := range list {
		list[i] = facts.Apart{Victim: "shop1", Culprit: "batch1", Until: h.now.Add(time.Hour).UnixNano()}
	}
	for i := range 100 {
		h.report(fmt.Sprint("m", i), list...)
	}
	if c := h.s.Bounds().Apart; c.Pairs != 1024 {
		t.Errorf("%+v", c)
	}
	for i := range 100 {
		h.report(fmt.Sprint("m", i))
	}
	if c := h.s.Bounds().Apart; c.Pairs != 0 {
		t.Errorf("%+v", c)
	}
}
