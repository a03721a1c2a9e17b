package events

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/bind"
)

var began = time.Unix(1_800_000_000, 0).UTC()

// server plays the agents, the API server that keeps Events, and the leader.
type server struct {
	store    *cluster.Store
	recorder *Recorder
	now      time.Time
	said     map[string][]facts.NodeEvent // by node
	open     map[uint64]bind.Write
	kept     map[string]int32 // how often each Event says that it was, by what the name follows from
	writes   []time.Time
	byNode   map[string][]time.Time
	counted  map[string][]time.Time // of one Event
}

const nodes, pods = 3, 6

func newServer() *server {
	s := &server{
		store: cluster.NewStore(), now: began, said: make(map[string][]facts.NodeEvent), open: make(map[uint64]bind.Write), kept: make(map[string]int32),
		byNode: make(map[string][]time.Time), counted: make(map[string][]time.Time),
	}
	for n := range nodes {
		s.store.Apply(facts.NodeUpserted{Node: &facts.Node{Name: fmt.Sprint("n", n), Allocatable: []resource.Quantity{{Name: resource.NamePods, Amount: 100}}}})
	}
	for p := range pods {
		s.store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: uid(p), Namespace: "default", Name: string(uid(p)), Node: fmt.Sprint("n", p%nodes), Requirements: &facts.Requirements{}}})
	}
	s.lead()
	return s
}

func uid(p int) facts.UID { return facts.UID(fmt.Sprint("p", p)) }

// lead begins with a leader that remembers nothing.
func (s *server) lead() {
	s.recorder = New(s.store)
	clear(s.open)
	s.writes, s.byNode, s.counted = nil, make(map[string][]time.Time), make(map[string][]time.Time)
}

// say has a node report that something was once more; p is the pod, or beyond all pods for the node itself.
func (s *server) say(node string, p int, reason string) {
	e := facts.NodeEvent{Reason: reason, Message: "m", Count: 1, First: s.now.UnixNano(), Last: s.now.UnixNano()}
	if p < pods {
		e.UID, e.Namespace, e.Name = uid(p), "default", string(uid(p))
	}
	list := slices.Clone(s.said[node])
	if at := slices.IndexFunc(list, func(o facts.NodeEvent) bool { return o.UID == e.UID && o.Reason == reason }); at >= 0 {
		list[at].Count++
		list[at].Last = e.Last
	} else {
		list = append(list, e)
	}
	s.said[node] = list
	s.report(node)
}

func (s *server) report(node string) {
	s.store.Apply(facts.NodeReported{Node: node, Report: &facts.NodeReport{Events: s.said[node]}})
}

func nameOf(w *bind.Write) string {
	return fmt.Sprint(w.Node, " ", w.Pod, " ", w.Condition.Reason, " ", w.Series.First)
}

// take takes what is ready.
func (s *server) take() {
	for _, w := range s.recorder.Ready(s.now) {
		s.open[w.ID.Number] = w
		s.writes, s.byNode[w.Node] = append(s.writes, s.now), append(s.byNode[w.Node], s.now)
		s.counted[nameOf(&w)] = append(s.counted[nameOf(&w)], s.now)
	}
}

// answer does a write as the API server does; lost: it does it, and the answer is lost.
func (s *server) answer(id uint64, lost bool) {
	w := s.open[id]
	delete(s.open, id)
	name, outcome := nameOf(&w), bind.Written
	_, there := s.kept[name]
	if there == w.Known {
		s.kept[name] = w.Series.Count
	} else {
		outcome = bind.Refused
	}
	if lost {
		outcome = bind.Unknown
	}
	s.recorder.Finish(bind.Result{ID: w.ID, Outcome: outcome})
}

// wants are the Events that there must be at rest.
func (s *server) wants() map[string]int32 {
	out := make(map[string]int32)
	for node, list := range s.said {
		for i := range list {
			e := &list[i]
			pod := s.store.Pod(e.UID)
			if e.UID == "" || pod != nil && pod.Node() == node {
				out[nameOf(&bind.Write{Node: node, Pod: e.UID, Condition: facts.Condition{Reason: e.Reason}, Series: bind.Series{First: e.First}})] = e.Count
			}
		}
	}
	return out
}

func (s *server) checkBudgets(t *rapid.T) {
	within := func(what string, times []time.Time, most int, window time.Duration) {
		for i := range times {
			if i+most < len(times) && times[i+most].Sub(times[i]) < window {
				t.Fatalf("%s: more than %d writes within %v: %v", what, most, window, times[i:i+most+1])
			}
		}
	}
	within("all", s.writes, eventsBurst+eventsPerSecond, time.Second)
	for node, times := range s.byNode {
		within(node, times, nodeBurst+1, nodeRefill)
	}
	if len(s.open) > MaxInFlight {
		t.Fatalf("%d writes under way", len(s.open))
	}
	for _, w := range s.open {
		if pod := s.store.Pod(w.Pod); w.Pod != "" && pod != nil && pod.Node() != w.Node {
			t.Fatalf("%s speaks of %s, which is on %s", w.Node, w.Pod, pod.Node())
		}
	}
}

// Whatever nodes report, of whichever pods, however often the leader changes, answers are lost and Events forgotten: the budgets hold, nobody speaks of pods of
// others, and at rest there is an Event of each report, with its count.
func TestRecorder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, forgotten := newServer(), make(map[string]int32)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "op") {
			case 0, 1, 2, 3:
				s.say(fmt.Sprint("n", rapid.IntRange(0, nodes-1).Draw(t, "node")), rapid.IntRange(0, pods).Draw(t, "pod"), rapid.SampledFrom([]string{"PromiseBroken", "KnobRefused"}).Draw(t, "reason"))
			case 4, 5:
				for _, id := range slices.Sorted(maps.Keys(s.open)) {
					s.answer(id, rapid.IntRange(0, 3).Draw(t, "lost") == 0)
				}
			case 6:
				if rapid.IntRange(0, 3).Draw(t, "end") == 0 {
					s.lead()
				} else {
					s.store.Apply(facts.PodRemoved{UID: uid(rapid.IntRange(0, pods-1).Draw(t, "pod"))})
				}
			case 7:
				maps.Copy(forgotten, s.kept) // they are an hour old
				clear(s.kept)
			default:
				s.now = s.now.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "s")) * time.Second)
			}
			s.take()
			s.checkBudgets(t)
		}
		for range 60 {
			for _, id := range slices.Sorted(maps.Keys(s.open)) {
				s.answer(id, false)
			}
			s.now = s.now.Add(time.Minute)
			s.take()
			s.checkBudgets(t)
		}
		for name, count := range s.wants() {
			// An Event that was forgotten is written again when there is more to count.
			if kept, there := s.kept[name]; there && kept != count || !there && forgotten[name] != count {
				t.Fatalf("%s: the Event says %d (there: %v), the report %d; kept %v", name, kept, there, count, s.kept)
			}
		}
	})
}

// One node writes ten events at once and then one a minute; all together twenty a second. What is lost is written again at once.
func TestRates(t *testing.T) {
	s := newServer()
	const many = 40
	for n := range many {
		name := fmt.Sprint("m", n)
		s.store.Apply(facts.NodeUpserted{Node: &facts.Node{Name: name}})
		for e := range int64(16) {
			s.said[name] = append(s.said[name], facts.NodeEvent{Reason: "KnobRefused", Count: 1, First: began.UnixNano() + e, Last: began.UnixNano() + e})
		}
		s.report(name)
	}
	drain := func(lost bool) (n int) {
		for s.take(); len(s.open) > 0; s.take() {
			for id := range s.open {
				s.answer(id, lost)
				n++
			}
		}
		return n
	}
	if got := drain(true); got != eventsBurst {
		t.Errorf("%d writes at once, want %d", got, eventsBurst)
	}
	s.now = s.now.Add(time.Second)
	if got := drain(false); got != eventsPerSecond {
		t.Errorf("%d writes in a second, want %d", got, eventsPerSecond)
	}
	for range 60 {
		s.now = s.now.Add(time.Second)
		drain(false)
	}
	for name, times := range s.byNode {
		if n := len(times); n > nodeBurst+1 || n < nodeBurst {
			t.Errorf("%s: %d writes in a minute", name, n)
		}
	}
	if len(s.byNode) != many {
		t.Errorf("%d nodes had a turn, want %d", len(s.byNode), many)
	}
}

// Another leader's Event is counted on at once.
func TestNextLeader(t *testing.T) {
	s := newServer()
	s.say("n0", 0, "KnobRefused")
	for range 2 {
		s.take()
		for id := range s.open {
			s.answer(id, false)
		}
		s.lead()
		s.say("n0", 0, "KnobRefused")
	}
	for range 3 {
		s.take()
		for id := range s.open {
			s.answer(id, false)
		}
	}
	if want := s.wants(); !maps.Equal(s.kept, want) {
		t.Errorf("kept %v, want %v", s.kept, want)
	}
}
