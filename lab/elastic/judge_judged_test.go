package elastic

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// good is a run in which all went well: line 1 was evicted from the node whose load rose, and runs on the calm one.
func good() *Result {
	r := &Result{
		Options: Options{Nodes: 4, Tide: 1, Blind: 1, Kill: 1, Queue: 2, StaleAfter: time.Minute, Percent: 1, Low: 0.25, High: 0.75}, Began: -300, Filled: -60, Ended: 900,
		Nodes: []Node{{Name: "a", Role: roleTide, Short: 1.5}, {Name: "b", Role: roleBlind, Short: 40}, {Name: "c", Role: roleCalm}, {Name: "d", Role: roleKill}},
		Events: []Event{
			{At: -60, What: bound, Pod: "p1", Line: 1, Node: "a"},
			{At: -60, What: runs, Pod: "p1", Line: 1, Node: "a"},
			{At: 70, What: created, Pod: "x", Line: 9, Probe: true},
			{At: 71, What: bound, Pod: "x", Line: 9, Node: "c", Probe: true},
			{At: 200, What: leaves, Pod: "p1", Line: 1, Node: "a"},
			{At: 201, What: bound, Pod: "p1b", Line: 1, Node: "c"},
			{At: 202, What: runs, Pod: "p1b", Line: 1, Node: "c"},
		},
		Samples: []Sample{{At: 1, Role: roleTide, OnlineWants: 3, OnlineGets: 2}},
	}
	return r
}

var bounds = Bounds{Cores: 8, Elsewhere: 300, Evictions: 1}

// Each thing that a run must not do is found, and a good run is not blamed.
func TestJudge(t *testing.T) {
	later := func(e ...Event) func(*Result) { return func(r *Result) { r.Events = append(r.Events, e...) } }
	many := func(r *Result) {
		for i := range 5 {
			pod := fmt.Sprint("m", i)
			later(Event{At: 100, What: leaves, Pod: pod, Line: 20 + i, Node: "a"}, Event{At: 101, What: runs, Pod: pod, Line: 20 + i, Node: "c"})(r)
		}
	}
	for name, c := range map[string]struct {
		change func(*Result)
		want   string // part of the only complaint; empty: none
	}{
		"good":             {func(*Result) {}, ""},
		"too late":         {func(r *Result) { r.Nodes[0].Short = 9 }, "lacked CPUs until 9.0 s"},
		"never":            {func(r *Result) { r.Nodes[0].StillShort = true }, "lacked CPUs until"},
		"nothing lent":     {func(r *Result) { r.Nodes[0].Short = 0 }, "nothing was given back"},
		"blind gives back": {func(r *Result) { r.Nodes[1].Short = 2 }, "not the laws"},
		"calm is short":    {func(r *Result) { r.Nodes[2].Short = 1 }, "did not rise"},
		"online touched":   {later(Event{At: 5, What: leaves, Node: "a", Line: 40, Online: true}), "online pods were deleted"},
		"twice":            {later(Event{At: 250, What: leaves, Line: 1, Node: "c"}, Event{At: 260, What: runs, Line: 1, Node: "b"}), "twice in ten"},
		"onto stale":       {later(Event{At: 75, What: bound, Line: 5, Node: "d"}), "stale"},
		"not yet stale":    {later(Event{At: 67, What: bound, Line: 5, Node: "d"}), ""},
		"reported late": {func(r *Result) {
			r.Nodes[3].Reported = 5
			later(Event{At: 75, What: bound, Line: 5, Node: "d"})(r)
		}, ""},
		"from killed":        {later(Event{At: 70, What: leaves, Line: 5, Node: "d"}, Event{At: 71, What: runs, Line: 5, Node: "c"}), "agent was dead"},
		"onto closed":        {later(Event{At: 400, What: bound, Line: 5, Node: "a"}), "evicted one less than"},
		"opened again":       {later(Event{At: 501, What: bound, Line: 5, Node: "a"}), ""},
		"over budget":        {many, "evictions in a minute"},
		"none evicted":       {func(r *Result) { r.Events = r.Events[:4] }, "0 evictions"},
		"late elsewhere":     {func(r *Result) { r.Events[6].At = 400 }, "only after 400 s"},
		"never elsewhere":    {func(r *Result) { r.Events = r.Events[:6] }, "evicted while the load was high 0 ran"},
		"probe on tide":      {func(r *Result) { r.Events[3].Node = "a" }, "nothing is offered"},
		"probe waits":        {func(r *Result) { r.Events[3].What = "" }, "0 were bound"},
		"work does not come": {func(r *Result) { r.Fell = 850 }, "had what they want again"},
	} {
		r := good()
		c.change(r)
		r.Figures = r.figures()
		b := bounds
		b.Resumed = 100
		got := Judge(r, b)
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)) {
			t.Errorf("%s: %q", name, got)
		}
		if picture := r.Picture(); !strings.HasSuffix(picture, "</svg>\n") || strings.Contains(picture, "NaN") {
			t.Errorf("%s: the picture is none", name)
		}
	}
}
