package whatif

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/internal/script"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/schedule/inspect"
	"hilbert.dev/hilbert/schedule/inspect/dumptest"
	"hilbert.dev/hilbert/topology"
)

// TestWhatIf replays testdata/whatif: node and pod lines make the cluster, add lines the pods to add.
func TestWhatIf(t *testing.T) {
	datadriven.RunTest(t, "testdata/whatif", func(t *testing.T, d *datadriven.TestData) string {
		s := newScheduler(t)
		now := time.Unix(1_000_000_000, 0)
		var q Change
		for line := range strings.Lines(d.Input) {
			command, args, err := datadriven.ParseLine(strings.TrimSpace(line))
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			said := &datadriven.TestData{Pos: d.Pos, Cmd: command, CmdArgs: args}
			switch command {
			case "node":
				s.Apply(facts.NodeUpserted{Node: script.Node(t, said)}, now)
			case "pod":
				s.Apply(facts.PodUpserted{Pod: script.Pod(t, said)}, now)
			case "reservation":
				s.Apply(facts.ReservationUpserted{Reservation: script.Reservation(t, said)}, now)
			case "report":
				s.Apply(script.Report(t, said), now)
			case "dra":
				s.Apply(script.DRA(t, said), now)
			case "daemon": // bound by name to the node that it is on
				pod := script.Pod(t, said)
				pod.Requirements.Required = []facts.Term{{Fields: []facts.Requirement{{Key: facts.FieldName, Operator: facts.In, Values: []string{pod.Node}}}}}
				s.Apply(facts.PodUpserted{Pod: pod}, now)
			case "add":
				q.Add = append(q.Add, script.Pod(t, said))
			case "drain":
				q.Drain = append(q.Drain, args[0].Key)
			default:
				d.Fatalf(t, "%q: want node, report, pod, dra, daemon, add or drain", command)
			}
		}
		dump := dumptest.RoundTrip(t, inspect.Take(s, "hilbert", now))
		restore(dump.Ledger)
		f, err := NewForecast(t.Context(), dump, q)
		if err != nil {
			return err.Error() + "\n"
		}
		var b strings.Builder
		if err := f.WriteText(&b); err != nil {
			d.Fatalf(t, "%v", err)
		}
		return b.String()
	})
}

func newScheduler(t interface{ Fatal(...any) }) *schedule.Scheduler {
	s, err := schedule.New(schedule.Options{Config: spec.Default().Scheduling, Devices: &script.Devices{}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// restore makes the devices of a file ones that can be chosen, as kube/devices does for the real ones.
func restore(l *cluster.Dump) {
	for _, object := range l.DRA {
		if c, ok := object.(*facts.ResourceClaim); ok {
			if text, raw := c.Requests.Spec.(json.RawMessage); raw {
				c.Requests.Spec = strings.Trim(string(text), `"`)
			}
		}
	}
	l.SetAllocator(&script.Devices{Binding: []string{"Attached"}})
}

// TestForecastIsWhatHappens: what is forecast for pods that are added is what the scheduler itself then does with them.
func TestForecastIsWhatHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, now := newScheduler(t), time.Unix(1_000_000_000, 0)
		for i := range rapid.IntRange(1, 5).Draw(t, "nodes") {
			s.Apply(facts.NodeUpserted{Node: &facts.Node{
				Name: fmt.Sprint("n", i), Allocatable: []resource.Quantity{{Name: "cpu", Amount: 1000 * rapid.Int64Range(1, 4).Draw(t, "cpu")}, {Name: "pods", Amount: 4}},
			}}, now)
			if rapid.Bool().Draw(t, "cards") {
				s.Apply(facts.NodeReported{Node: fmt.Sprint("n", i), Report: cards(rapid.Int64Range(0, 2).Draw(t, "of 0"), rapid.Int64Range(0, 2).Draw(t, "of 1"))}, now)
			}
		}
		draw := func(uid string) facts.Pod {
			pod := facts.Pod{
				UID: facts.UID(uid), Namespace: "default", Name: uid, Ours: true, Priority: rapid.Int32Range(0, 2).Draw(t, "priority"), Created: now.UnixNano(),
				Requirements: &facts.Requirements{Requests: []resource.Quantity{{Name: "cpu", Amount: 500 * rapid.Int64Range(1, 6).Draw(t, "ask")}}},
			}
			if n := rapid.Int64Range(-2, 2).Draw(t, "cards asked"); n > 0 {
				pod.Requirements.Requests = append(pod.Requirements.Requests, resource.Quantity{Name: card, Amount: n})
				pod.Requirements.GPU.Resources = topology.MakeResourceRequest(func(yield func(string, int64) bool) { yield(card, n) })
				if rapid.Bool().Draw(t, "one NUMA node") {
					pod.Requirements.GPU.Near = topology.Near{Level: topology.SameNUMA, Required: true}
				}
			}
			return pod
		}
		for i := range rapid.IntRange(0, 6).Draw(t, "bound") {
			pod := draw(fmt.Sprint("b", i))
			pod.Node = fmt.Sprint("n", rapid.IntRange(0, 5).Draw(t, "on"))
			s.Apply(facts.PodUpserted{Pod: pod}, now)
		}
		dump := inspect.Take(s, "hilbert", now)
		var q Change
		for i := range rapid.IntRange(1, 6).Draw(t, "added") {
			q.Add = append(q.Add, draw(fmt.Sprint("a", i)))
		}
		got, err := NewForecast(t.Context(), dump, q)
		if err != nil {
			t.Fatal(err)
		}
		f := &forecast{out: &Forecast{}, scheduler: s, facts: map[facts.UID]facts.Pod{}, was: map[facts.UID]string{}, now: now}
		for i := range dump.Ledger.Pods {
			f.facts[dump.Ledger.Pods[i].Facts.UID] = dump.Ledger.Pods[i].Facts
		}
		for _, pod := range q.Add {
			f.seek(pod, wasAdded)
		}
		if err := f.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.report()
		if want := f.out; fmt.Sprint(got.Placed, got.Unplaced) != fmt.Sprint(want.Placed, want.Unplaced) || len(got.Evicted) != len(want.Evicted) {
			t.Fatalf("forecast\n%+v\nhappened\n%+v", got, want)
		}
		if over := s.Store().Overcommitted(); len(dump.Ledger.Pods) == 0 && len(over) > 0 {
			t.Fatalf("over-committed: %v", over)
		}
	})
}

// card is what a plugin brings.
const card = "example.com/card"

// cards is a report of a machine of two NUMA nodes with so many cards each.
func cards(of0, of1 int64) *facts.NodeReport {
	r := &facts.NodeReport{Resources: []resource.Quantity{{Name: card, Amount: of0 + of1}}, NUMANodes: topology.NUMAShape{Ruler: topology.RulerAgent, Threads: 1, NUMANodes: 2, BindsShared: true}}
	r.NUMANodes.NUMANode[0].CPUs, r.NUMANodes.NUMANode[1].CPUs = 2, 2
	a := topology.Resource{Name: card}
	a.Amounts.NUMA[0], a.Amounts.NUMA[1] = of0, of1
	r.ByNUMANode = []topology.Resource{a}
	return r
}

func TestForecastEndsWithItsContext(t *testing.T) {
	s := newScheduler(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f, err := NewForecast(ctx, inspect.Take(s, "hilbert", time.Unix(0, 0)), Change{})
	if err != nil || !f.Interrupted {
		t.Errorf("%+v, %v", f, err)
	}
}
