package whatif

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/control/reschedule"
	"hilbert.dev/hilbert/control/tide"
	"hilbert.dev/hilbert/internal/script"
	"hilbert.dev/hilbert/schedule/inspect"
	"hilbert.dev/hilbert/schedule/inspect/dumptest"
)

// Where each rehearsal bars another node, none goes to offline in the end, and none counts as one that has changed hands: else the bound of an hour would keep nodes from online.
// An empty node goes all the same.
func TestHandOversThatAllFail(t *testing.T) {
	for _, empty := range []bool{false, true} {
		s, now, belongs := newScheduler(t), time.Unix(1_000_000_000, 0), make(map[string]Belongs)
		line := func(text string) *datadriven.TestData {
			command, args, err := datadriven.ParseLine(text)
			if err != nil {
				t.Fatal(err)
			}
			return &datadriven.TestData{Cmd: command, CmdArgs: args}
		}
		for i := range 3 * maxHandOverRehearsals {
			name := fmt.Sprintf("n%02d", i)
			belongs[name] = Belongs{Side: tide.Online}
			s.Apply(facts.NodeUpserted{Node: script.Node(t, line("node "+name+" cpu=4 mem=16"))}, now)
			d := line("pod p" + name + " cpu=4 mem=1 node=" + name)
			s.Apply(facts.PodUpserted{Pod: movable(t, d, d.CmdArgs, now)}, now)
		}
		if empty { // too small for any of them
			belongs["z"] = Belongs{Side: tide.Online}
			s.Apply(facts.NodeUpserted{Node: script.Node(t, line("node z cpu=1 mem=16"))}, now)
		}
		dump := dumptest.RoundTrip(t, inspect.Take(s, "hilbert", now))
		restore(dump.Ledger)
		v := tide.View{Pool: tide.Pool{PerHour: 2}, Budget: 100}
		v.Nodes, _, _ = TideView(dump, belongs, 0)
		rehearsal := HandOvers{dump, belongs, reschedule.Defaults()}
		got, err := rehearsal.Decide(t.Context(), &v, now)
		want := 0
		if empty {
			want = 1
		}
		if err != nil || len(got.Hands) != want || len(got.HandOvers) != want || empty && got.Hands[0].Node != "z" {
			t.Errorf("empty %v: %+v, %v", empty, got, err)
		}
		if !strings.Contains(got.Message, "online has") && !empty {
			t.Errorf("it says %q", got.Message)
		}
	}
}

// How seldom a service's pods leave does not keep nodes from going to offline: the pods have a place, and those that may not leave yet stay beside offline work.
func TestNodesGoThoughPodsLeaveLater(t *testing.T) {
	const nodes, going = 20, 2
	s, now, belongs := newScheduler(t), time.Unix(1_000_000_000, 0), make(map[string]Belongs)
	line := func(text string) *datadriven.TestData {
		command, args, err := datadriven.ParseLine(text)
		if err != nil {
			t.Fatal(err)
		}
		return &datadriven.TestData{Cmd: command, CmdArgs: args}
	}
	for i := range nodes {
		name := fmt.Sprintf("n%02d", i)
		belongs[name] = Belongs{Side: tide.Online}
		s.Apply(facts.NodeUpserted{Node: script.Node(t, line("node "+name+" cpu=4 mem=16"))}, now)
		d := line("pod p" + name + " cpu=1 mem=1 set=web node=" + name)
		s.Apply(facts.PodUpserted{Pod: movable(t, d, d.CmdArgs, now)}, now)
	}
	dump := dumptest.RoundTrip(t, inspect.Take(s, "hilbert", now))
	restore(dump.Ledger)
	v := tide.View{Pool: tide.Pool{PerHour: going}, Budget: 100}
	v.Nodes, _, _ = TideView(dump, belongs, 0)
	v.Need = nodes - going
	rehearsal := HandOvers{dump, belongs, reschedule.Defaults()}
	if got, err := rehearsal.Decide(t.Context(), &v, now); err != nil || len(got.Hands) != going {
		t.Errorf("%+v, %v", got, err)
	}
}

// Pods of online leave nodes that went to offline as seldom as their service may lose them; those of offline leave nodes of online at once.
func TestServicesLeaveSeldom(t *testing.T) {
	s, now := newScheduler(t), time.Unix(1_000_000_000, 0)
	line := func(text string) *datadriven.TestData {
		command, args, err := datadriven.ParseLine(text)
		if err != nil {
			t.Fatal(err)
		}
		return &datadriven.TestData{Cmd: command, CmdArgs: args}
	}
	for _, name := range []string{"old", "new"} {
		s.Apply(facts.NodeUpserted{Node: script.Node(t, line("node "+name+" cpu=4 mem=16"))}, now)
	}
	d := line("pod web-1 cpu=1 mem=1 set=web node=old")
	pod := movable(t, d, d.CmdArgs, now)
	s.Apply(facts.PodUpserted{Pod: pod}, now)
	dump := dumptest.RoundTrip(t, inspect.Take(s, "hilbert", now))
	restore(dump.Ledger)
	leaving := LeavingPods(dump, map[string]Belongs{"old": {Side: tide.Offline}, "new": {Side: tide.Online}}, map[string]string{"old": "old belongs to offline"})
	if got := leaving[pod.UID]; len(leaving) != 1 || !got.Online || got.Why == "" {
		t.Fatalf("%+v", leaving)
	}
	params := reschedule.Defaults()
	params.Only = []string{reschedule.ReasonHands}
	for _, c := range []struct {
		moved  time.Time
		online bool
		want   int
	}{{time.Time{}, true, 1}, {now, true, 0}, {now.Add(-4 * 24 * time.Hour), true, 1}, {now, false, 1}} {
		o := MoveOptions{Params: params, Leaving: map[facts.UID]Leave{pod.UID: {leaving[pod.UID].Why, c.online}}}
		text := ""
		if !c.moved.IsZero() {
			text = fmt.Sprintf(`{"workloads":{"%s/web":[%d,0]}}`, pod.Namespace, c.moved.Unix())
		}
		history, err := reschedule.ReadHistory([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		o.History = history
		if found, err := NewMoves(t.Context(), dump, &o); err != nil || found.Count() != c.want {
			t.Errorf("%+v: %+v, %v", c, found, err)
		}
	}
}
