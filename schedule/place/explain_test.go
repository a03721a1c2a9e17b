package place

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/internal/script"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place/explain"
	"hilbert.dev/hilbert/schedule/place/rules"
	"hilbert.dev/hilbert/topology"
)

// TestExplain replays testdata/explain: nodes and pods as in every transcript; explain prints what a pod is told.
func TestExplain(t *testing.T) {
	datadriven.RunTest(t, "testdata/explain", func(t *testing.T, d *datadriven.TestData) string {
		return explainScript(t, d)
	})
}

func explainScript(t *testing.T, d *datadriven.TestData) string {
	store := cluster.NewStore()
	var ask facts.UID
	for line := range strings.Lines(d.Input) {
		command, args, err := datadriven.ParseLine(strings.TrimSpace(line))
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		said := &datadriven.TestData{Pos: d.Pos, Cmd: command, CmdArgs: args}
		switch command {
		case "node":
			store.Apply(facts.NodeUpserted{Node: script.Node(t, said)})
		case "report":
			store.Apply(script.Report(t, said))
		case "pod":
			pod := script.Pod(t, said)
			store.Apply(facts.PodUpserted{Pod: pod})
			ask = pod.UID
		default:
			d.Fatalf(t, "%q: want node, report or pod", command)
		}
	}
	snapshot := cluster.NewSnapshot()
	snapshot.Advance(store)
	profile, err := rules.NewProfile(nil)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	pod := store.Pod(ask)
	e := NewPlacer(snapshot, profile, 0, 1).ExplainFor(store, pod.Class, pod.Priority)
	var b strings.Builder
	fmt.Fprintln(&b, e)
	for i := range e.Nearest {
		fmt.Fprintln(&b, "near:", e.Nearest[i].String())
	}
	for _, c := range e.Changes {
		fmt.Fprintf(&b, "%s: %s\n", c.Kind, c)
	}
	return b.String()
}

// history is a ledger that can be made anew from what it was told.
type history []facts.Event

func (h history) replay() *cluster.Store {
	s := cluster.NewStore(facts.SpreadDefault{TopologyKey: "zone", MaxSkew: 2})
	for _, e := range h {
		s.Apply(e)
	}
	return s
}

// node is what was told of a node last. The ledger's own node has what plugins bring to it among the allocatable, as if the kubelet had said so.
func (h history) node(name string) (told *facts.Node) {
	for _, e := range h {
		if e, ok := e.(facts.NodeUpserted); ok && e.Node.Name == name {
			told = e.Node
		}
	}
	return told
}

func (h history) placer() (*cluster.Store, *Placer) {
	store, snapshot := h.replay(), cluster.NewSnapshot()
	snapshot.Advance(store)
	return store, NewPlacer(snapshot, &rules.Profile{}, 0, 1)
}

// TestChangesMakeItFit: whatever an explanation says would make a pod fit does so when it is done, and a little less of it does not.
func TestChangesMakeItFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, asked := drawHistory(t)
		store, placer := h.placer()
		e := placer.ExplainFor(store, store.Pod(asked.UID).Class, asked.Priority)
		checkExplanation(t, h, &e, asked)
		if e.Feasible > 0 {
			return
		}
		for _, c := range e.Changes {
			if !h.fitsAfter(t, asked, c) {
				t.Fatalf("it does not fit with %v", c)
			}
			switch c.Kind {
			case explain.Free, explain.Grow:
				c.Amount--
			case explain.Reduce:
				c.Amount++
			case explain.Loosen:
				c.Spread.Needed--
			case explain.Leave:
				c.Pods = c.Pods[1:]
			default:
				continue
			}
			if h.fitsAfter(t, asked, c) {
				t.Fatalf("it fits with less than it says: %v", c)
			}
		}
	})
}

// A spread constraint that one node breaks: how far it would have to be loosened.
func TestLoosen(t *testing.T) {
	r := &facts.Requirements{Spread: []facts.SpreadConstraint{
		{TopologyKey: "rack", MaxSkew: 1, MinDomains: 1, Pods: facts.PodSelector{Namespaces: []string{"x"}}},
		{TopologyKey: "zone", MaxSkew: 1, MinDomains: 1, Hard: true, Pods: facts.PodSelector{
			Namespaces: []string{"x"}, Labels: facts.LabelSelector{Expressions: []facts.Requirement{{Key: "app", Operator: facts.Exists}}},
		}},
	}}
	h := history{
		facts.NodeUpserted{Node: &facts.Node{Name: "n1", Labels: map[string]string{"zone": "a"}, Allocatable: quantities("pods", 9)}},
		facts.NodeUpserted{Node: &facts.Node{Name: "n2", Labels: map[string]string{"zone": "b"}, Allocatable: quantities("pods", 0)}},
	}
	for _, uid := range []facts.UID{"a", "b"} {
		h = append(h, facts.PodUpserted{Pod: facts.Pod{
			UID: uid, Namespace: "x", Name: string(uid), Node: "n1", Labels: []facts.Label{{Key: "app", Value: "w"}}, Requirements: &facts.Requirements{},
		}})
	}
	h = append(h, facts.PodUpserted{Pod: facts.Pod{
		UID: "p", Namespace: "x", Name: "p", Ours: true, Labels: []facts.Label{{Key: "app", Value: "w"}}, Requirements: r,
	}})
	store, placer := h.placer()
	got := placer.ExplainFor(store, store.Pod("p").Class, 0).String()
	want := "0/2 nodes are available: 1 Insufficient pods, 1 node(s) didn't match pod topology spread constraints. " +
		"It would fit with maxSkew 3 instead of 1 over zone, on n1. " +
		"Nearest: n1 would have a skew of 3 over zone (at most 1); n2 has room for 0 pods and 0 are there."
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// drawHistory draws a ledger and a pod that waits in it.
func drawHistory(t *rapid.T) (history, facts.Pod) {
	var h history
	names := map[string]bool{}
	for range rapid.IntRange(1, 6).Draw(t, "nodes") {
		n := drawNode(t)
		if n.Unschedulable && rapid.Bool().Draw(t, "cordon taint") {
			n.Taints = append(n.Taints, facts.Taint{Key: rules.TaintUnschedulable, Effect: facts.NoSchedule})
		}
		names[n.Name] = true
		h = append(h, facts.NodeUpserted{Node: n})
		if report := drawReport(t); report != nil {
			h = append(h, facts.NodeReported{Node: n.Name, Report: report})
		}
	}
	draw := func(uid string) facts.Pod {
		r := drawRequirements(t)
		if rapid.IntRange(0, 2).Draw(t, "constrained") == 0 {
			drawConstraints(t, r)
		}
		drawRequired(t, r)
		return facts.Pod{
			UID: facts.UID(uid), Namespace: rapid.SampledFrom(spaces).Draw(t, "namespace"), Name: uid, Labels: drawLabels(t),
			Priority: rapid.Int32Range(0, 2).Draw(t, "priority"), Started: rapid.Int64Range(0, 3).Draw(t, "started"), Requirements: r,
		}
	}
	on := slices.Sorted(maps.Keys(names))
	for i := range rapid.IntRange(0, 12).Draw(t, "pods") {
		if len(on) == 0 {
			break
		}
		pod := draw(fmt.Sprint(i))
		pod.Node = rapid.SampledFrom(on).Draw(t, "on")
		h = append(h, facts.PodUpserted{Pod: pod})
	}
	asked := draw("asked")
	asked.Ours, asked.Started = true, 0
	return append(h, facts.PodUpserted{Pod: asked}), asked
}

// drawRequired adds required node affinity now and then.
func drawRequired(t *rapid.T, r *facts.Requirements) {
	if rapid.IntRange(0, 5).Draw(t, "required") > 0 {
		return
	}
	r.Required = []facts.Term{}
	for range rapid.IntRange(0, 2).Draw(t, "terms") {
		var term facts.Term
		for range rapid.IntRange(0, 2).Draw(t, "expressions") {
			term.Expressions = append(term.Expressions, facts.Requirement{
				Key:      rapid.SampledFrom([]string{"zone", "rack", "new"}).Draw(t, "key"),
				Operator: facts.Operator(rapid.IntRange(1, 6).Draw(t, "operator")),
				Values:   []string{rapid.SampledFrom([]string{"a", "b", "3", "true"}).Draw(t, "value")},
			})
		}
		r.Required = append(r.Required, term)
	}
}

// checkExplanation holds an explanation against the filters.
func checkExplanation(t *rapid.T, h history, e *explain.Explanation, asked facts.Pod) {
	store := h.replay()
	class := store.Pod(asked.UID).Class
	nodes, fit := 0, 0
	for i := range store.Slots() {
		slot := cluster.Slot(i)
		if store.Node(slot) == nil {
			continue
		}
		nodes++
		if rules.Fits(&store.State, slot, class) {
			fit++
		} else if len(explain.Obstacles(&store.State, slot, class)) == 0 {
			t.Fatalf("node %s refuses without an obstacle", store.Node(slot).Name)
		}
	}
	if e.Nodes != nodes || e.Feasible != fit || len(e.Nearest) != min(nodes-fit, explain.MaxNearest) {
		t.Fatalf("%d nodes, %d fit; the explanation says %+v", nodes, fit, e)
	}
	if text := e.String(); len(text) > explain.MaxMessage || !utf8.ValidString(text) {
		t.Fatalf("the message has %d bytes: %q", len(text), text)
	}
}

// fitsAfter makes the change and asks again.
func (h history) fitsAfter(t *rapid.T, asked facts.Pod, c explain.Change) bool {
	s := h.replay()
	slot := s.Slot(c.Node)
	node := *h.node(c.Node)
	node.Labels, node.Allocatable = maps.Clone(node.Labels), slices.Clone(node.Allocatable)
	r := *asked.Requirements
	switch c.Kind {
	case explain.Free, explain.Grow:
		switch c.Resource {
		case "exclusive CPUs", "CPUs":
			return fitsInLargerNUMANode(s, slot, asked, uint16(c.Amount))
		case spec.ResourceNvidiaGPU, spec.ResourceGPUMilli, spec.ResourceGPUMemory:
			return fitsWithMoreGPU(s, slot, asked, c)
		}
		if more := withMoreBrought(s.Report(slot), c); more != nil {
			s.Apply(facts.NodeReported{Node: c.Node, Report: more})
			break
		}
		at := slices.IndexFunc(node.Allocatable, func(q resource.Quantity) bool { return q.Name == c.Resource })
		if at < 0 {
			node.Allocatable = append(node.Allocatable, resource.Quantity{Name: c.Resource, Amount: c.Amount})
		} else {
			node.Allocatable[at].Amount += c.Amount
		}
	case explain.Tolerate:
		effects := map[string]facts.TaintEffect{"NoSchedule": facts.NoSchedule, "NoExecute": facts.NoExecute}
		r.Tolerations = append(slices.Clone(r.Tolerations), facts.Toleration{Key: c.Taint.Key, Value: c.Taint.Value, Effect: effects[c.Taint.Effect]})
	case explain.Loosen:
		r.Spread = slices.Clone(r.Spread)
		hard := -1
		for i := range r.Spread {
			if r.Spread[i].Hard {
				if hard++; hard == c.Spread.Constraint {
					r.Spread[i].MaxSkew = c.Spread.Needed
				}
			}
		}
	case explain.Widen:
		level, _ := topology.ParseLevel(c.Near)
		r.GPU.Near = topology.Near{Level: level, Required: level != topology.Anywhere}
	case explain.Reduce:
		switch c.Resource {
		case spec.ResourceNvidiaGPU:
			r.GPU.Whole = int8(c.Amount)
		case spec.ResourceGPUMilli:
			r.GPU.Milli = int16(c.Amount)
		case spec.ResourceGPUMemory:
			r.GPU.Memory = uint32(c.Amount)
		}
	case explain.Uncordon:
		node.Unschedulable = false
		node.Taints = slices.DeleteFunc(slices.Clone(node.Taints), func(t facts.Taint) bool { return t.Key == rules.TaintUnschedulable })
	case explain.Relabel:
		if delete(node.Labels, c.Label.Key); !c.Label.Absent {
			if node.Labels == nil {
				node.Labels = make(map[string]string)
			}
			node.Labels[c.Label.Key] = c.Label.Value
		}
	case explain.Leave:
		for _, pod := range c.Pods {
			if s.Pod(pod.UID).Priority > asked.Priority || s.Pod(pod.UID).Node() != c.Node {
				t.Fatalf("pod %s of priority %d on %s should leave", pod.UID, pod.Priority, s.Pod(pod.UID).Node())
			}
			s.Apply(facts.PodRemoved{UID: pod.UID})
		}
	}
	asked.Requirements = &r
	s.Apply(facts.NodeUpserted{Node: &node})
	s.Apply(facts.PodRemoved{UID: asked.UID})
	s.Apply(facts.PodUpserted{Pod: asked})
	return rules.Fits(&s.State, slot, s.Pod(asked.UID).Class)
}

// withMoreBrought is a report whose plugins bring so much more of the resource, far from all NUMA nodes. nil: they bring none of it.
func withMoreBrought(before *facts.NodeReport, c explain.Change) *facts.NodeReport {
	if before == nil {
		return nil
	}
	at := slices.IndexFunc(before.Resources, func(q resource.Quantity) bool { return q.Name == c.Resource })
	if at < 0 {
		return nil
	}
	more := *before
	more.Resources, more.ByNUMANode = slices.Clone(before.Resources), slices.Clone(before.ByNUMANode)
	more.Resources[at].Amount += c.Amount
	for i := range more.ByNUMANode {
		if more.ByNUMANode[i].Name == c.Resource {
			more.ByNUMANode[i].Amounts.Far += c.Amount
		}
	}
	return &more
}

// fitsWithMoreGPU reports whether the pod fits if so much more of the node's GPUs is free. The ledger is spoilt then.
func fitsWithMoreGPU(s *cluster.Store, slot cluster.Slot, asked facts.Pod, c explain.Change) bool {
	var lack topology.Lack
	switch c.Resource {
	case spec.ResourceGPUMilli:
		lack.Milli = int32(c.Amount)
	case spec.ResourceGPUMemory:
		lack.Memory = int32(c.Amount)
	default:
		if len(c.GPUs) == 0 { // the kubelet's: any that is held
			free := s.GPUs(slot)
			for i := range s.Shape(slot).GPUs {
				if free[i] < topology.FullGPU {
					c.GPUs = append(c.GPUs, i)
				}
			}
		}
		c.GPUs = c.GPUs[:c.Amount]
	}
	for _, i := range c.GPUs {
		lack.GPUs |= 1 << i
	}
	v := s.View(slot)
	if lack.GPUs != 0 && c.Amount > 0 { // of nothing more, Apply would empty the GPU
		lack.Apply(&v)
	}
	return rules.Fits(&s.State, slot, s.Pod(asked.UID).Class)
}

// fitsInLargerNUMANode reports whether the pod fits if so many CPUs more are free in some NUMA node of the node that has as many in use.
func fitsInLargerNUMANode(s *cluster.Store, slot cluster.Slot, asked facts.Pod, more uint16) bool {
	for z := range s.Report(slot).NUMANodes.NUMANodes {
		before := s.Report(slot)
		if _, free := s.NUMANodes(slot); free[z].CPUs+int32(more) > int32(before.NUMANodes.NUMANode[z].CPUs) {
			continue
		}
		larger := *before
		larger.NUMANodes.NUMANode[z].CPUs += more
		s.Apply(facts.NodeReported{Node: s.Node(slot).Name, Report: &larger})
		if rules.Fits(&s.State, slot, s.Pod(asked.UID).Class) {
			return true
		}
		s.Apply(facts.NodeReported{Node: s.Node(slot).Name, Report: before})
	}
	return false
}
