package whatif

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/control/reschedule"
	"hilbert.dev/hilbert/internal/script"
	"hilbert.dev/hilbert/schedule/inspect"
	"hilbert.dev/hilbert/schedule/inspect/dumptest"
)

// TestMoves replays testdata/moves. Pods are replicas of a set of their own and have run for a day; job, age=2h, consent=refused and unit=g say otherwise; set=NAME has them in one set. spread=KEY and apart=KEY are about the pods of their app. A budget allows
// no eviction of pods with its label. empty names a node that is to be emptied, most how many moves there may be, preempt that others may be evicted for growth, together how many members a gang has at the most that leaves whole.
func TestMoves(t *testing.T) {
	datadriven.RunTest(t, "testdata/moves", func(t *testing.T, d *datadriven.TestData) string {
		s := newScheduler(t)
		now := time.Unix(1_000_000_000, 0)
		o := MoveOptions{Params: reschedule.Defaults(), History: new(reschedule.History)}
		for line := range strings.Lines(d.Input) {
			command, args, err := datadriven.ParseLine(strings.TrimSpace(line))
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			switch command {
			case "node":
				s.Apply(facts.NodeUpserted{Node: script.Node(t, &datadriven.TestData{Pos: d.Pos, Cmd: command, CmdArgs: args})}, now)
			case "report":
				s.Apply(script.Report(t, &datadriven.TestData{Pos: d.Pos, Cmd: command, CmdArgs: args}), now)
			case "pod":
				s.Apply(facts.PodUpserted{Pod: movable(t, d, args, now)}, now)
			case "budget":
				s.Apply(facts.BudgetsListed{Budgets: []*facts.Budget{{Namespace: "default", Name: "b", Pods: facts.LabelSelector{
					Expressions: []facts.Requirement{{Key: "app", Operator: facts.In, Values: []string{args[0].Key}}},
				}}}}, now)
			case "unit":
				s.Apply(facts.UnitUpserted{Unit: script.Unit(t, &datadriven.TestData{Pos: d.Pos, Cmd: command, CmdArgs: args})}, now)
			case "growth": // for=UID on=NODE cpu= mem=: room that a pod waits for on its node
				s.Apply(facts.ReservationUpserted{Reservation: growth(t, d, args)}, now)
			case "leave": // pods, whose nodes have changed hands
				o.Leaving = make(map[facts.UID]Leave)
				for _, a := range args {
					o.Leaving[facts.UID(a.Key)] = Leave{Why: "its node belongs to online"}
				}
				o.Params.Only = []string{reschedule.ReasonHands}
			case "load": // NODE THOUSANDTHS: what its agent says that it uses of CPUs, on average over an hour
				used, err := strconv.ParseInt(args[1].Key, 10, 64)
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				s.Apply(facts.NodeReported{Node: args[0].Key, Report: &facts.NodeReport{Usage: facts.Usage{MilliCPU: used, Since: now.Add(-time.Hour).UnixNano()}}}, now)
			case "empty":
				o.Empty = append(o.Empty, args[0].Key)
			default:
				d.Fatalf(t, "%q: want node, report, pod, unit, growth, budget, load, leave or empty", command)
			}
		}
		d.MaybeScanArgs(t, "most", &o.Params.Most)
		o.Preempt, o.MostOfGang = d.HasArg("preempt"), 4
		d.MaybeScanArgs(t, "together", &o.MostOfGang)
		percent := 0
		d.MaybeScanArgs(t, "max-load", &percent)
		o.Params.LoadMark = float64(percent) / 100
		dump := dumptest.RoundTrip(t, inspect.Take(s, "hilbert", now))
		restore(dump.Ledger)
		m, err := NewMoves(t.Context(), dump, &o)
		if err != nil {
			return err.Error() + "\n"
		}
		var b strings.Builder
		if err := m.WriteText(&b); err != nil {
			d.Fatalf(t, "%v", err)
		}
		return b.String()
	})
}

// growth is a Reservation as package vpa asks for it.
func growth(t *testing.T, d *datadriven.TestData, args []datadriven.CmdArg) *facts.Reservation {
	pod, node := "", ""
	args = slices.DeleteFunc(args, func(a datadriven.CmdArg) bool {
		switch a.Key {
		case "for":
			pod = a.Vals[0]
		case "on":
			node = a.Vals[0]
		default:
			return false
		}
		return true
	})
	r := script.Reservation(t, &datadriven.TestData{Pos: d.Pos, Cmd: "reservation", CmdArgs: args})
	one := func(key, value string) []facts.Requirement {
		return []facts.Requirement{{Key: key, Operator: facts.In, Values: []string{value}}}
	}
	r.Owners = []facts.ReservationOwner{{Pods: &facts.LabelSelector{Expressions: one(spec.LabelGrowth, pod)}}}
	required := *r.Template.Requirements
	required.Required = []facts.Term{{Fields: one(facts.FieldName, node)}}
	r.Template.Requirements = &required
	return r
}

// movable is a pod of a transcript.
func movable(t *testing.T, d *datadriven.TestData, args []datadriven.CmdArg, now time.Time) facts.Pod {
	age, consent, job, app, unit := 24*time.Hour, spec.ConsentUnsaid, false, "", ""
	set, spread, apart := "", "", ""
	args = slices.DeleteFunc(args, func(a datadriven.CmdArg) bool {
		switch a.Key {
		case "age":
			var err error
			if age, err = time.ParseDuration(a.Vals[0]); err != nil {
				d.Fatalf(t, "%v", err)
			}
		case "consent":
			for consent.String() != a.Vals[0] {
				consent++
			}
		case "job":
			job = true
		case "app":
			app = a.Vals[0]
		case "set":
			set = a.Vals[0]
		case "spread":
			spread = a.Vals[0]
		case "apart":
			apart = a.Vals[0]
		case "gang":
			unit = a.Vals[0]
		default:
			return false
		}
		return true
	})
	pod := script.Pod(t, &datadriven.TestData{Pos: d.Pos, Cmd: "pod", CmdArgs: args})
	pod.Started, pod.Consent, pod.Unit = now.Add(-age).UnixNano(), consent, unit
	if !job {
		pod.Owner = facts.Owner{Kind: facts.ReplicaSet, Name: cmp.Or(set, "set-"+pod.Name)}
	}
	if app != "" {
		pod.Labels = []facts.Label{{Key: "app", Value: app}}
	}
	alike := facts.PodSelector{Namespaces: []string{pod.Namespace}, Labels: facts.LabelSelector{Expressions: []facts.Requirement{{Key: "app", Operator: facts.In, Values: []string{app}}}}}
	if spread != "" {
		pod.Requirements.Spread = []facts.SpreadConstraint{{TopologyKey: spread, MaxSkew: 1, Hard: true, MinDomains: 1, Pods: alike}}
	}
	if apart != "" {
		pod.Requirements.AntiAffinity = []facts.AffinityTerm{{TopologyKey: apart, Pods: alike}}
	}
	return pod
}
