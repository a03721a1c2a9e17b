package queue

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/internal/script"
)

// TestScripts replays testdata/*: who is next, and how everybody waits. The node n is the one that units are placed on.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, w string) {
		s := &scripted{world: newWorld()}
		datadriven.RunTest(t, w, func(t *testing.T, d *datadriven.TestData) string {
			out := s.run(t, d)
			if err := s.q.verify(); err != nil {
				d.Fatalf(t, "invariant: %v", err)
			}
			return out
		})
	})
}

// scripted is a world with at most one unit popped.
type scripted struct {
	*world
	popped *Unit
}

func (s *scripted) run(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "node":
		s.see(facts.NodeUpserted{Node: script.Node(t, d)})
	case "pod":
		s.see(facts.PodUpserted{Pod: script.Pod(t, d)})
	case "rmpod":
		s.see(facts.PodRemoved{UID: facts.UID(d.CmdArgs[0].Key)})
	case "unit":
		s.see(facts.UnitUpserted{Unit: script.Unit(t, d)})
	case "queue":
		s.see(facts.QueueUpserted{Queue: script.Queue(t, d)})
	case "namespace":
		s.see(facts.NamespaceUpserted{Namespace: script.Namespace(t, d)})
	case "expire":
		s.now = time.Unix(0, 0).Add(duration(t, d))
		s.q.Expire(s.now)
	case "state":
		return s.state()
	case "order":
		return s.order()
	case "serve": // place all that are ready, one after another
		var names []string
		for u := s.q.Pop(); u != nil; u = s.q.Pop() {
			names = append(names, u.Key())
			if v := s.place(u.Members()); !v.Committed {
				d.Fatalf(t, "%v", v)
			}
			s.q.Done(u)
		}
		return strings.Join(names, " ") + "\n"
	case "pending":
		var b strings.Builder
		s.store.Quota().Root().Each(func(q *quota.Queue) {
			units, pods := s.q.View().Pending(q)
			fmt.Fprintf(&b, "%s: %d units, %d pods, first %s\n", cmp.Or(q.Path(), "root"), units, pods, name(s.q.View().First(q)))
		})
		return b.String()
	case "position":
		return fmt.Sprintln(s.q.View().Position(s.q.Unit(facts.UID(d.CmdArgs[0].Key))), "ahead")
	case "alike":
		var names []string
		s.q.EachAlike(s.q.Unit(facts.UID(d.CmdArgs[0].Key)), func(u *Unit) { names = append(names, u.Key()) })
		slices.Sort(names)
		return strings.Join(names, " ") + "\n"
	case "shape":
		return s.shape(s.q.Unit(facts.UID(d.CmdArgs[0].Key)))
	case "wake":
		s.q.Wake(s.q.Unit(facts.UID(d.CmdArgs[0].Key)).ShapeQueue())
	default:
		return s.decide(t, d)
	}
	return ""
}

// decide runs the commands that pop a unit, and those that answer for it.
func (s *scripted) decide(t *testing.T, d *datadriven.TestData) string {
	u := s.popped
	switch d.Cmd {
	case "pop":
		s.popped = s.q.Pop()
		if s.popped == nil {
			return "nothing\n"
		}
		return describe(s.popped)
	case "take":
		s.popped = s.q.Unit(facts.UID(d.CmdArgs[0].Key))
		s.q.Take(s.popped)
		return describe(s.popped)
	case "place": // the members named, or all
		var members []*cluster.Pod
		var uids []facts.UID
		for _, pod := range u.Members() {
			if len(d.CmdArgs) == 0 || slices.ContainsFunc(d.CmdArgs, func(a datadriven.CmdArg) bool { return a.Key == string(pod.UID) }) {
				members, uids = append(members, pod), append(uids, pod.UID)
			}
		}
		if v := s.place(members); !v.Committed {
			return v.Reason + "\n"
		}
		if len(d.CmdArgs) == 0 {
			uids = nil
		}
		s.q.Done(u, uids...)
	case "return":
		s.q.Return(u)
	case "delay":
		s.q.Delay(u, time.Unix(0, 0).Add(duration(t, d)))
	case "park":
		s.q.Park(u, Version{})
	case "quota":
		s.q.BlockByQuota(u, s.store.Quota().Queue(d.CmdArgs[0].Key))
	case "add-delayed": // a pod whose Binding failed comes back
		pod := facts.UID(d.CmdArgs[1].Key)
		s.store.Release(pod)
		s.q.AddDelayed(s.store.Pod(pod), 0, time.Unix(0, 0).Add(duration(t, d)))
	default:
		d.Fatalf(t, "unknown command %q", d.Cmd)
	}
	return ""
}

func duration(t *testing.T, d *datadriven.TestData) time.Duration {
	length, err := time.ParseDuration(d.CmdArgs[0].Key)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	return length
}

func describe(u *Unit) string {
	var members []string
	for _, pod := range u.Members() {
		members = append(members, pod.Name)
	}
	return fmt.Sprintf("%s of %s: needs %d of %s; first tried at %s\n", u.Key(), u.Queue().Name, u.Need(), strings.Join(members, " "), u.Since.UTC().Format("15:04:05"))
}

// order pops until nothing is ready, and puts everything back.
func (s *scripted) order() string {
	var popped []*Unit
	var names []string
	for u := s.q.Pop(); u != nil; u = s.q.Pop() {
		popped, names = append(popped, u), append(names, u.Key())
	}
	for _, u := range popped {
		s.q.Return(u)
	}
	return strings.Join(names, "\n") + "\n"
}

func (s *scripted) state() string {
	var b strings.Builder
	c := s.q.Counts()
	fmt.Fprintf(&b, "%d ready, %d parked, %d blocked by quota, %d backing off, %d gathering\n", c.Ready, c.Parked, c.QuotaBlocked, c.BackingOff, c.Gathering)
	list := s.q.View().Pods()
	Sort(list)
	for _, p := range list {
		state := [...]string{Ready: "ready", BackingOff: "backing off", Parked: "parked", QuotaBlocked: "blocked by quota", Gathering: "gathering"}[p.State]
		fmt.Fprintf(&b, "%s %s", p.Pod, state)
		if p.Unit != "" {
			fmt.Fprintf(&b, " with %s", p.Unit)
		}
		if p.Limit != "" {
			fmt.Fprintf(&b, " of %s", p.Limit)
		}
		if !p.Until.IsZero() {
			fmt.Fprintf(&b, " until %s", p.Until.UTC().Format("15:04:05"))
		}
		b.WriteString("\n")
	}
	if at, ok := s.q.NextExpiry(); ok {
		fmt.Fprintf(&b, "next at %s\n", at.UTC().Format("15:04:05"))
	}
	return b.String()
}

// shape tells what a unit's placement depends on.
func (s *scripted) shape(u *Unit) string {
	var b strings.Builder
	fmt.Fprintf(&b, "needs %d", u.Shape.Need)
	for _, p := range u.Shape.Parts {
		fmt.Fprintf(&b, ", %d of class %d in subgroup %d", p.Count, p.Class.ID, p.Subgroup)
	}
	fmt.Fprintf(&b, "; packed %v/%v; anchored %v; asks", u.Shape.Topology, u.Shape.SubgroupTopology, u.Shape.Anchored)
	for _, a := range u.Shape.Ask {
		fmt.Fprintf(&b, " %s=%d", s.store.KindName(a.Kind), a.Value)
	}
	fmt.Fprintf(&b, "; %d in its shape queue, parked %v\n", u.ShapeQueue().Len(), u.ShapeQueue().Parked())
	return b.String()
}
