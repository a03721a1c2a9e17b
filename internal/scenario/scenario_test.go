package scenario

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
)

const story = `# Text for people.
nodes n count=3 cpu=16 mem=64 gpus=8 rack=2 block=1 share
queue ml guaranteed=cpu:8,gpu:1.5 max=gpu:64 weight=2 borrowing=never sort=history halflife=10m
namespace train queue=ml   # and more text

reservation train/kept for=a count=2 ttl=5m gpu=8 priority=7
reservation train/one for=a
gang train/a min=2 size=3 gpu=8 required=rack subgroup-required=host subgroups=3 timeout=10m priority=7
edit ml max=gpu:8 reclaim=never
run 30s
----
gang train/a: 0/3 bound (WaitingForQuota)
queue ml: idle

delete podgroup train/a
delete reservation train/kept
kill-node of=train/a
kill-node n-1
show
`

func TestParse(t *testing.T) {
	f, err := Parse("story", story)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Blocks) != 3 || f.Blocks[1].Line != 6 || !f.Blocks[1].Checked || f.Blocks[2].Checked {
		t.Fatalf("%+v", f.Blocks)
	}
	nodes := f.Blocks[0].Steps[0].(AddNodes).Nodes
	if len(nodes) != 3 || nodes[2].Name != "n-2" || nodes[2].Labels[LabelRack] != "n-r1" || nodes[2].Labels[LabelBlock] != "n-b1" || nodes[2].GPU.GPUs != 8 {
		t.Errorf("nodes %+v", nodes[2])
	}
	q := f.Blocks[0].Steps[1].(SetQueue).Queue
	if q.Guaranteed[1].Amount != 1500 || q.Max[0].Name != spec.ResourceGPUMilli || !q.BorrowsNothing || q.Sort != facts.FairHistory || q.HalfLife != int64(10*time.Minute) {
		t.Errorf("queue %+v", q)
	}
	if r := f.Blocks[1].Steps[0].(AddReservation); r.Namespace != "train" || r.Name != "kept" || r.For != "a" || r.Count != 2 || r.TTL != 5*time.Minute || r.Pod.GPU.Whole != 8 || r.Pod.Priority != 7 {
		t.Errorf("reservation %+v", r)
	}
	if r := f.Blocks[1].Steps[1].(AddReservation); r.Count != 1 || r.TTL != 0 {
		t.Errorf("of a reservation that says no more: %+v", r)
	}
	g := f.Blocks[1].Steps[2].(AddGang)
	if g.Unit.MinMember != 2 || g.Size != 3 || g.Pod.GPU.Whole != 8 || g.Unit.Topology.Required != LabelRack || g.Subgroups != 3 || !g.Unit.Prioritized {
		t.Errorf("gang %+v", g)
	}
	edited := f.Blocks[1].Steps[3].(SetQueue).Queue
	if edited.Max[0].Amount != 8000 || !edited.KeepsBorrowed || edited.Weight != 2 || q.Max[0].Amount != 64_000 {
		t.Errorf("edited %+v, before %+v", edited, q)
	}
	if run := f.Blocks[1].Steps[4].(Run); run.For != 30*time.Second {
		t.Errorf("run %v", run.For)
	}
	printed := []string{"", f.Blocks[1].Want, ""}
	if text := f.Format(printed); text != story {
		t.Errorf("written again:\n%s", text)
	}
	if why := f.Differs(printed); why != "" {
		t.Errorf("differs: %s", why)
	}
	printed[1] = "something else\n"
	if why := f.Differs(printed); !strings.HasPrefix(why, "story:6: found\nsomething else\nwant\ngang train/a") {
		t.Errorf("differs: %s", why)
	}
}

func TestParseRefuses(t *testing.T) {
	for line, want := range map[string]string{
		"dance":                                "no such command",
		"run":                                  "a name is missing",
		"run fast":                             `found "fast"`,
		"run -3s":                              "want how long",
		"nodes n cpu=1":                        "count: want",
		"nodes n count=1 cpu=-1":               "cpu: want a number",
		"nodes n count=1 cpu=NaN":              "cpu: want a number",
		"nodes n count=99999 cpu=1":            "count: want",
		"nodes n count=1 gpus=99":              "gpus: want at most",
		"edit ml max=cpu:1":                    "write queue ml first",
		"queue ml max=moon:1":                  "want cpu:N",
		"queue ml sort=best":                   "want priority, fifo",
		"queue ml borrowing=some":              "want allowed or never",
		"queue ml weight=1 weight=2":           "weight stands twice",
		"gang train min=1":                     "want NAMESPACE/NAME",
		"gang train/a":                         "min: want",
		"gang train/a min=1 gpu=1.5":           "gpu: want",
		"gang train/a min=1 colour=red":        "colour= is not understood",
		"gang train/a min=1 quickly":           `"quickly" is not understood`,
		"pods a/b count=2 duration=long":       "want a duration",
		"pods a/b foreign":                     "say the node",
		"pods a/b on=n-0":                      "say the node",
		"pods a/b count=100001":                "more than 100000 pods",
		"reservation a/b cpu=1":                "want whose pods may have",
		"reservation a/b for=c count=none":     "count: want",
		"reservation a/b for=c count=0":        "count: want count=N from 1 to 256",
		"reservation a/b for=c count=257":      "count: want count=N from 1 to 256",
		"reservation a/b for=c ttl=-1s":        "ttl: want a duration",
		"reservation a/b for=c duration=1m":    "nothing runs in a place",
		"reservation a/b for=c deadline=1m":    "nothing runs in a place",
		"reservation a/b for=c never-preempts": "nobody is evicted for it",
		"delete everything now/please":         "want gang, podgroup",
		"kill-node":                            "a name is missing",
		"scale a/b":                            "size: want",
		"gang train/a min=1 duration=-1h":      "want a duration",
		"namespace":                            "a name is missing",
		"queue ml guaranteed=gpu:1e300":        "guaranteed: want a number",
		"delete queue":                         "a name is missing",
		"finish train/a count=some":            "count: want",
		"pods a/b count=1 priority=2999999999": "priority: want",
	} {
		_, err := Parse("f", "# one\n\n"+line)
		if err == nil || !strings.HasPrefix(err.Error(), "f:3: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", line, err, want)
		}
	}
}

func TestPrinter(t *testing.T) {
	s := &State{
		Sets: []Set{
			{Kind: "pods", Name: "web/x", Size: 2, Bound: 2},
			{Kind: "gang", Name: "t/a", Size: 4, Bound: 4, Ended: 1, Domains: []Domains{{LabelRack, []int{1, 3}}}},
			{Kind: "gang", Name: "t/b", Size: 4, Reasons: []string{"B", "A", "B"}},
		},
		Queues: []Queue{{Name: "q", Used: map[string]int64{"cpu": 1500, spec.ResourceGPUMilli: 8000, "pods": 3}, Borrowed: map[string]int64{"cpu": 500}, Problem: "P"}, {Name: "i"}},
		Reservations: []Reservation{
			{Name: "t/r", Places: 6, Reserved: 2, Consumed: 1, Lost: 3, Reasons: []string{"RoomTaken", "NodeGone", "RoomTaken"}}, {Name: "t/k", Places: 2, Reserved: 2},
		},
	}
	var p Printer
	want := "gang t/a: 4/4 bound, 1 ended, rack 3+1\ngang t/b: 0/4 bound (A, B)\npods web/x: 2/2 bound\nqueue i: idle\nqueue q: cpu 1.5 gpu 8, borrowed cpu 0.5 (P)\n" +
		"reservation t/k: 2/2 reserved\nreservation t/r: 2/6 reserved, 1 consumed, 3 lost (NodeGone, RoomTaken)\n"
	if got := p.All(s); got != want {
		t.Errorf("all:\n%s", got)
	}
	if got := p.Changes(s); got != "nothing new\n" {
		t.Errorf("unchanged:\n%s", got)
	}
	s.Sets[0].Bound = 1
	s.Sets, s.Reservations = s.Sets[:2], s.Reservations[:1]
	s.Reservations[0].Reserved = 1
	if got := p.Changes(s); got != "pods web/x: 1/2 bound\nreservation t/r: 1/6 reserved, 1 consumed, 3 lost (NodeGone, RoomTaken)\ngang t/b: gone\nreservation t/k: gone\n" {
		t.Errorf("changes:\n%s", got)
	}
	if got := new(Printer).All(&State{}); got != "nothing\n" {
		t.Errorf("nothing: %s", got)
	}
}

// FuzzParse: no text makes it panic, and what it reads it reads again from what it writes.
func FuzzParse(f *testing.F) {
	f.Add(story)
	f.Add("delete pod a/b-1\n----\nx\n----\n")
	f.Add("pods a/b foreign on=n-0 gpu=0.5\nscale a/b size=0\nfinish a/b\ncordon n-1\nrestart\n")
	f.Add("reservation a/b for=c count=3 ttl=1m cpu=2\ndelete reservation a/b\n")
	f.Fuzz(func(t *testing.T, text string) {
		first, err := Parse("f", text)
		if err != nil {
			return
		}
		printed := make([]string, len(first.Blocks))
		for i := range first.Blocks {
			printed[i] = first.Blocks[i].Want
		}
		second, err := Parse("f", first.Format(printed))
		if err != nil {
			t.Fatalf("written again it is refused: %v", err)
		}
		if len(first.Blocks) != len(second.Blocks) {
			t.Fatalf("%d blocks, then %d", len(first.Blocks), len(second.Blocks))
		}
		for i := range first.Blocks {
			a, b := first.Blocks[i], second.Blocks[i]
			if !reflect.DeepEqual(a.Steps, b.Steps) || a.Want != b.Want || a.Checked != b.Checked {
				t.Fatalf("block %d: %s, then %s", i, fmt.Sprint(a), fmt.Sprint(b))
			}
		}
	})
}
