package intake

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster/facts"
)

// event makes one of a word: "a1" is a pod of namespace a that waits, "a1@n" one that has a place, "a1-" one that is gone, "a1!" one that has finished, "node" a node, and
// "list" a list of pods. serial tells the events of a pod apart.
func event(word string, serial int) facts.Event {
	pod := func(name string) facts.Pod {
		return facts.Pod{UID: facts.UID(name), Namespace: name[:1], Name: name, Created: int64(serial), Ours: true}
	}
	name, node, bound := strings.Cut(word, "@")
	switch {
	case word == "node":
		return facts.NodeUpserted{Node: &facts.Node{Name: fmt.Sprint(serial)}}
	case word == "list":
		return facts.PodsListed{}
	case bound:
		p := pod(name)
		p.Node = node
		return facts.PodUpserted{Pod: p}
	case strings.HasSuffix(word, "-"):
		return facts.PodRemoved{UID: facts.UID(strings.TrimSuffix(word, "-"))}
	case strings.HasSuffix(word, "!"):
		p := pod(strings.TrimSuffix(word, "!"))
		p.Finished = true
		return facts.PodUpserted{Pod: p}
	}
	return facts.PodUpserted{Pod: pod(word)}
}

func word(e facts.Event) string {
	switch e := e.(type) {
	case facts.NodeUpserted:
		return "node"
	case facts.PodsListed:
		return "list"
	case facts.PodRemoved:
		return string(e.UID) + "-"
	case facts.PodUpserted:
		switch {
		case e.Pod.Node != "":
			return e.Pod.Name + "@" + e.Pod.Node
		case e.Pod.Finished:
			return e.Pod.Name + "!"
		}
		return e.Pod.Name
	}
	return "?"
}

func TestOrder(t *testing.T) {
	for _, c := range []struct{ added, want string }{
		{"a1 a2 a3 node b1 a4 c1@n", "node c1@n a1 b1 a2 a3 a4"},
		{"a1 a2 a3 a4 b1 b2 c1", "a1 b1 c1 a2 b2 a3 a4"},
		{"a1 node node node node node", "node node node a1 node node"},
		{"a1 a2 a1", "a1 a2"},
		{"a1 a2 a1@n", "a1@n a2"},
		{"a1 a2 a1-", "a1- a2"},
		{"a1 a1@n a1- b1", "a1@n a1- b1"},
		{"a1! a1 b1", "a1! a1 b1"},
		{"a1 list", "a1 list"},
		{"a1 a2 b1 a2- list", "a2- a1 b1 list"},
	} {
		var e Events
		for i, w := range strings.Fields(c.added) {
			e.Add(event(w, i))
		}
		var got []string
		for taken := e.Take(); taken != nil; taken = e.Take() {
			got = append(got, word(taken))
		}
		if strings.Join(got, " ") != c.want || e.Len() != 0 {
			t.Errorf("%s: %s, want %s; %d left", c.added, strings.Join(got, " "), c.want, e.Len())
		}
	}
}

func TestFull(t *testing.T) {
	var e Events
	for i := range MaxWaiting {
		if e.Full() {
			t.Fatalf("full of %d", i)
		}
		e.Add(event(fmt.Sprint("a", i), i))
	}
	if !e.Full() || e.Longest() != MaxWaiting {
		t.Errorf("%d wait, and it is not full", e.Len())
	}
	e.Take()
	if e.Full() {
		t.Error("there is room, and it is full")
	}
	e.Add(event("list", 0))
	if !e.Full() {
		t.Error("something could come before a list is taken")
	}
}

// naive is what is known of pods once all events that were taken are applied: which serial each has last, and none that is gone.
type naive map[string]string

func (n naive) apply(e facts.Event) {
	switch e := e.(type) {
	case facts.PodRemoved:
		delete(n, string(e.UID))
	case facts.PodUpserted:
		n[e.Pod.Name] = fmt.Sprint(word(e), e.Pod.Created)
	case facts.PodsListed:
		clear(n)
	}
}

// TestSameEnd: whatever is added and taken in whatever rhythm, the end is the same as if all had been applied in the order in which it was added; of one pod nothing
// older comes after something newer; what comes of a list is never before it; and a waiting pod is taken within as many steps as there are namespaces and ordered events
// beside it.
func TestSameEnd(t *testing.T) { //nolint:gocognit // one history, in the order in which it is played
	rapid.Check(t, func(t *rapid.T) {
		var e Events
		want, got := naive{}, naive{}
		newest := make(map[string]int64)
		lists := 0
		added := 0
		take := func() bool {
			taken := e.Take()
			if taken == nil {
				return false
			}
			if p, ok := taken.(facts.PodUpserted); ok {
				if p.Pod.Created < newest[p.Pod.Name] {
					t.Fatalf("of pod %s %d comes after %d", p.Pod.Name, p.Pod.Created, newest[p.Pod.Name])
				}
				newest[p.Pod.Name] = p.Pod.Created
			}
			if _, ok := taken.(facts.PodsListed); ok {
				lists++
			}
			got.apply(taken)
			return true
		}
		steps := rapid.SliceOfN(rapid.SampledFrom([]string{
			"a1", "a2", "a3", "b1", "b2", "c1", "a1@n", "b1@n", "a1-", "b2-", "c1!", "node", "list", "take", "take", "take",
		}), 0, 80).Draw(t, "steps")
		for i, step := range steps {
			if step == "take" || e.Full() {
				take()
			}
			if step == "take" || e.Full() {
				continue
			}
			x := event(step, i+1)
			e.Add(x)
			want.apply(x)
			added++
		}
		for take() {
			if added--; added < -100 {
				t.Fatal("it never ends")
			}
		}
		if fmt.Sprint(want) != fmt.Sprint(got) {
			t.Fatalf("%v, want %v", got, want)
		}
		if e.Len() != 0 || len(e.waiting)+len(e.settled)+len(e.spaces)+len(e.turns) != 0 {
			t.Fatalf("something is left: %+v", e)
		}
	})
}

// TestNobodyWaitsForOthers: behind ten thousand waiting pods of one namespace, a pod of another is taken with the second step, and behind as many changes of pods that run
// with the fourth.
func TestNobodyWaitsForOthers(t *testing.T) {
	for what, want := range map[string]int{"a%d": 2, "a%d@n": 4, "a%d-": 4} {
		var e Events
		for i := range 10_000 {
			e.Add(event(fmt.Sprintf(what, i), i))
		}
		e.Add(event("b1", 1))
		for step := 1; ; step++ {
			if word(e.Take()) == "b1" {
				if step > want {
					t.Errorf("behind 10,000 like "+what+" it is taken with step %d", 1, step)
				}
				break
			}
		}
	}
}

// TestTurnsCostTheSame: however dear the events of each namespace are, while several have pods waiting none of them has cost more than another by more than its
// dearest event and a turn.
func TestTurnsCostTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var e Events
		const each = 200
		names := []string{"a", "b", "c"}[:rapid.IntRange(2, 3).Draw(t, "namespaces")]
		judged, left, dearest := make(map[string]int), make(map[string]int), 0
		for _, name := range names {
			judged[name] = rapid.SampledFrom([]int{0, 1, 7, 8, 100, 20_000}).Draw(t, "judged")
			left[name] = each
			dearest = max(dearest, 1+judged[name]/judgedPerEvent)
		}
		for i := range each {
			for _, name := range names {
				e.Add(event(fmt.Sprint(name, i), i))
			}
		}
		cost := make(map[string]int)
		for {
			name := word(e.Take())[:1]
			e.Judged(judged[name])
			cost[name] += 1 + judged[name]/judgedPerEvent
			if left[name]--; left[name] == 0 {
				return
			}
			for _, x := range names {
				for _, y := range names {
					if cost[x] > cost[y]+dearest+1 {
						t.Fatalf("%s has cost %d and %s %d, where the dearest event costs %d", x, cost[x], y, cost[y], dearest)
					}
				}
			}
		}
	})
}

// TestDebtsEnd: who is alone waits for nobody, and a namespace that has nothing here any more is not remembered for ever.
func TestDebtsEnd(t *testing.T) {
	var e Events
	take := func(want string, judged int) {
		t.Helper()
		if got := word(e.Take()); got != want {
			t.Fatalf("%s is taken, want %s", got, want)
		}
		e.Judged(judged)
	}
	e.Add(event("a1", 1))
	take("a1", 1000)
	e.Add(event("a2", 2))
	e.Add(event("b1", 3))
	take("a2", 1000) // nobody waited when it came
	e.Add(event("a3", 4))
	for i := range 3 {
		e.Add(event(fmt.Sprint("b", i+2), i))
	}
	for _, want := range []string{"b1", "b2", "b3", "b4", "a3"} {
		take(want, 0)
	}
	for i := range 1000 {
		e.Add(facts.PodUpserted{Pod: facts.Pod{UID: facts.UID(fmt.Sprint("c", i)), Name: "c1", Namespace: fmt.Sprint("c", i), Ours: true}})
	}
	for i := range 3000 {
		e.Add(event(fmt.Sprint("d", i), i))
	}
	for e.Take() != nil {
		e.Judged(0)
		if n := len(e.fair.until); n > 2*len(e.turns)+maxOthers+1000 || len(e.turns) == 1 && e.Len() < 100 && n > maxOthers+3 {
			t.Fatalf("%d namespaces are remembered, and %d have something here", n, len(e.turns))
		}
	}
}
