package cluster

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// crowd is a ledger of one node, in which a number of classes may wait, and what its effects have said of each pod.
type crowd struct {
	*Store
	t    interface{ Fatalf(string, ...any) }
	told map[facts.UID]EffectKind
}

func newCrowd(t interface{ Fatalf(string, ...any) }, most int) *crowd {
	c := &crowd{Store: NewStore(), t: t, told: make(map[facts.UID]EffectKind)}
	c.Waiting().SetMost(most)
	c.apply(facts.NodeUpserted{Node: &facts.Node{Name: "n", Labels: map[string]string{facts.HostnameKey: "n"}, Allocatable: []resource.Quantity{
		{Name: resource.NameCPU, Amount: 1 << 20}, {Name: resource.NamePods, Amount: 1 << 20},
	}}})
	return c
}

// apply takes in an event. After it the books are right, and what was told last of each pod is how it stands.
func (c *crowd) apply(event facts.Event) {
	for _, e := range c.Apply(event) {
		if c.told[e.Pod.UID] = e.Kind; e.Gone {
			delete(c.told, e.Pod.UID)
		}
	}
	if err := c.Verify(); err != nil {
		c.t.Fatalf("%v", err)
	}
	c.EachPod(func(pod *Pod) {
		if pod.Phase == Pending && pod.Ours && (c.told[pod.UID] == Waits) != pod.Schedulable() {
			c.t.Fatalf("told of pod %s is %d, and it may be placed: %v", pod.UID, c.told[pod.UID], pod.Schedulable())
		}
	})
}

// release takes a commitment back. No effect tells of it: who released the pod looks whether it may be placed again.
func (c *crowd) release(uid facts.UID) {
	if !c.Release(uid) {
		return
	}
	if c.told[uid] = Held; c.Pod(uid).Schedulable() {
		c.told[uid] = Waits
	}
}

// of is a pod of 1m CPU and as much more as its size, in namespace ns.
func of(uid facts.UID, created int64, size int) facts.Pod {
	return facts.Pod{
		UID: uid, Name: string(uid), Namespace: "ns", Created: created, Ours: true,
		Requirements: &facts.Requirements{Requests: []resource.Quantity{{Name: resource.NameCPU, Amount: int64(1 + size)}}},
	}
}

func member(gang string, p facts.Pod) facts.Pod {
	p.Unit = gang
	return p
}

func (c *crowd) come(pods ...facts.Pod) {
	for _, p := range pods {
		c.apply(facts.PodUpserted{Pod: p})
	}
}

// bind binds a pod, as the watch says it.
func (c *crowd) bind(uid facts.UID) {
	f := c.Pod(uid).Record().Facts
	f.Node = "n"
	c.come(f)
}

// back lists the pods that are held back.
func (c *crowd) back() string {
	var list []string
	c.EachPod(func(pod *Pod) {
		if pod.Class.HeldBack != "" {
			list = append(list, string(pod.UID))
		}
	})
	slices.Sort(list)
	return strings.Join(list, " ")
}

func (c *crowd) want(back string) {
	if got := c.back(); got != back {
		c.t.Fatalf("held back are %q, want %q", got, back)
	}
}

// TestRoomGoesToTheOldest: whatever ends a class makes room for the oldest pod that is held back, once.
func TestRoomGoesToTheOldest(t *testing.T) {
	for what, end := range map[string]func(*crowd){
		"bound":    func(c *crowd) { c.bind("b") },
		"deleted":  func(c *crowd) { c.apply(facts.PodRemoved{UID: "b"}) },
		"deleting": func(c *crowd) { p := of("b", 2, 2); p.Deleting = true; c.come(p) },
		"gated":    func(c *crowd) { p := of("b", 2, 2); p.Gated = true; c.come(p) },
		"resized":  func(c *crowd) { c.come(of("b", 2, 1)) }, // it is like a now
		"another's": func(c *crowd) {
			p := of("b", 2, 2)
			p.Ours = false
			c.come(p)
		},
		"listed no more": func(c *crowd) {
			c.apply(facts.PodsListed{Pods: []facts.Pod{of("e", 5, 5), of("d", 3, 4), of("c", 4, 3), of("a", 1, 1)}})
		},
	} {
		c := newCrowd(t, 2)
		c.come(of("a", 1, 1), of("b", 2, 2), of("c", 4, 3), of("d", 3, 4), of("e", 5, 5), of("f", 6, 1))
		c.want("c d e") // f is like a
		if end(c); c.back() != "c e" {
			t.Errorf("%s: held back are %q, want c and e", what, c.back())
		}
		if c.Waiting().Held() != 2 {
			t.Errorf("%s: %d are held back", what, c.Waiting().Held())
		}
	}
}

// TestRoomIsKeptOnTheWay: a pod with a place that is not bound yet keeps its room, so that nothing is lost when its Binding fails.
func TestRoomIsKeptOnTheWay(t *testing.T) {
	c := newCrowd(t, 1)
	c.come(of("a", 1, 1), of("b", 2, 2))
	fits := func(*State, Slot, *Class, *topology.Grant) string { return "" }
	plan := &Plan{Placements: []Placement{{Pod: "a", Node: "n"}}, Revision: c.Revision()}
	if v := c.Commit(plan, fits); !v.Committed {
		t.Fatal(v)
	}
	c.come(of("c", 3, 3))
	c.want("b c")
	c.release("a")
	c.come(of("d", 4, 4))
	c.want("b c d")
	if !c.Pod("a").Schedulable() {
		t.Error("a has lost its room")
	}
	c.Commit(plan, fits)
	c.Confirm("a")
	if told := c.Consequences(); len(told) != 1 || told[0].Pod.UID != "b" || told[0].Kind != Waits {
		t.Errorf("the room that a leaves is told as %v", told)
	}
	c.told["b"] = Waits
	c.bind("a")
	c.want("c d")
}

// TestGangsAreTakenInWhole: two gangs that differ do not take the room from one another; the first is taken in whole, and one with more classes than may wait
// is in nobody's way.
func TestGangsAreTakenInWhole(t *testing.T) {
	c := newCrowd(t, 3)
	for _, name := range []string{"g", "h", "big"} {
		c.apply(facts.UnitUpserted{Unit: &facts.Unit{UnitName: facts.UnitName{Namespace: "ns", Name: name}, UID: facts.UID(name), MinMember: 2}})
	}
	c.come(member("g", of("g1", 1, 1)), member("h", of("h1", 2, 2)), member("g", of("g2", 3, 3)), member("h", of("h2", 4, 4)))
	c.want("h1 h2")
	for i := range 4 {
		c.come(member("big", of(facts.UID(fmt.Sprint("big", i)), int64(5+i), 10+i)))
	}
	c.come(of("young", 20, 20))
	c.want("big0 big1 big2 big3 h1 h2 young")
	if why := c.Pod("big3").Class.HeldBack; !strings.Contains(why, "more than 3 different pods of PodGroup ns/big") {
		t.Error(why)
	}
	c.bind("g1")
	c.want("big0 big1 big2 big3 young")
	c.bind("g2")
	c.want("big0 big1 big2 big3")
	c.bind("young")
	c.apply(facts.PodRemoved{UID: "big2"}) // three may wait, with h1 and h2 they are five
	c.want("big0 big1 big3")
	c.bind("h1")
	c.bind("h2")
	c.want("")
}

// TestTermsTellPodsApart: what a pod's terms say about others is known when it has a place. Pods that were alike until then take no more room than there is.
func TestTermsTellPodsApart(t *testing.T) {
	c := newCrowd(t, 1)
	apart := &facts.Requirements{AntiAffinity: []facts.AffinityTerm{{TopologyKey: facts.HostnameKey, Pods: facts.PodSelector{
		Namespaces: []string{"ns"}, Labels: facts.LabelSelector{Expressions: []facts.Requirement{{Key: "color", Operator: facts.In, Values: []string{"blue"}}}},
	}}}}
	blue, plain, other := of("blue", 2, 0), of("plain", 3, 0), of("other", 4, 0)
	blue.Labels = []facts.Label{{Key: "color", Value: "blue"}}
	other.Labels = blue.Labels
	blue.Requirements, plain.Requirements, other.Requirements = apart, apart, apart
	c.come(of("first", 1, 1), blue, plain, other)
	c.want("blue other plain")
	c.bind("first")
	c.want("")
	c.bind("blue")
	c.want("other")
	c.bind("plain")
	c.want("")
}

// TestHostileNamespaceCostsItsFacts: 20,000 pods of 20,000 classes with 4 terms each register what 100 of them do, and leave nothing.
func TestHostileNamespaceCostsItsFacts(t *testing.T) {
	const pods, most, classes = 20_000, 100 * (1 + 4*4), 100 // each counts as one, and as four for each term
	s := NewStore()
	s.Waiting().SetMost(most)
	for i := range 50 {
		s.Apply(facts.NodeUpserted{Node: &facts.Node{Name: fmt.Sprint("n", i), Labels: map[string]string{facts.HostnameKey: fmt.Sprint("n", i)}}})
	}
	memory := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	list := make([]facts.Pod, pods)
	for i := range list {
		list[i] = facts.Pod{
			UID: facts.UID(fmt.Sprint("u", i)), Namespace: "ns", Name: fmt.Sprint("p", i), Created: int64(i), Ours: true,
			Requirements: demanding(fmt.Sprint("w", i), 1, 4), Labels: []facts.Label{{Key: "pod", Value: fmt.Sprint(i)}},
		}
		for k := range list[i].Requirements.PreferredPods {
			list[i].Requirements.PreferredPods[k].Pods.Labels.Expressions = []facts.Requirement{{Key: "pod", Operator: facts.In, Values: []string{fmt.Sprint(i)}}}
		}
		for k := range list[i].Requirements.AntiAffinity {
			list[i].Requirements.AntiAffinity[k].Pods.Labels.Expressions = []facts.Requirement{{Key: "pod", Operator: facts.In, Values: []string{fmt.Sprint(i)}}}
		}
	}
	before := memory()
	for i := range list {
		s.Apply(facts.PodUpserted{Pod: list[i]})
	}
	if held := s.Waiting().Held(); held != pods-classes {
		t.Errorf("%d pods are held back, want %d", held, pods-classes)
	}
	if n := s.Counts().Registry().Size().TopologyKeys; n > 4*classes+10 {
		t.Errorf("%d topology keys are counted", n)
	}
	if n := (memory() - before) / pods; n > 1500 {
		t.Errorf("%d bytes a pod", n)
	} else {
		t.Logf("%d bytes a pod", n)
	}
	if err := s.Verify(); err != nil {
		t.Error(err)
	}
	for i := range list[:1000] { // each makes room for another, the others go without having been taken in
		s.Apply(facts.PodRemoved{UID: list[i].UID})
	}
	for i := range list {
		s.Apply(facts.PodRemoved{UID: list[len(list)-1-i].UID})
	}
	if held := s.Waiting().Held(); held != 0 || len(s.classes.requests) > MaxIdleClasses+1 {
		t.Errorf("%d pods are held back and %d requests are known of none", held, len(s.classes.requests))
	}
}

// TestNobodyIsLost plays random histories of few pods with few classes, and looks after each event whether what was told of each pod is how it stands
// (crowd.apply), which includes that nobody is held back while there is room.
func TestNobodyIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCrowd(t, rapid.IntRange(1, 3).Draw(t, "most"))
		for _, name := range []string{"g", "h"} {
			c.apply(facts.UnitUpserted{Unit: &facts.Unit{UnitName: facts.UnitName{Namespace: "ns", Name: name}, UID: facts.UID(name), MinMember: 2}})
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			i := rapid.IntRange(0, 11).Draw(t, "pod")
			p := of(facts.UID(fmt.Sprint("p", i)), int64(i*7%12), rapid.IntRange(0, 4).Draw(t, "size"))
			p.Unit = []string{"", "", "", "", "g", "h"}[i%6]
			known := c.Pod(p.UID)
			switch rapid.IntRange(0, 9).Draw(t, "op") {
			case 0, 1:
				c.apply(facts.PodRemoved{UID: p.UID})
			case 2:
				if known != nil {
					c.bind(p.UID)
				}
			case 3: // about pods with a label
				p.Requirements.AntiAffinity = []facts.AffinityTerm{{TopologyKey: facts.HostnameKey, Pods: facts.PodSelector{
					Namespaces: []string{"ns"}, Labels: facts.LabelSelector{Expressions: []facts.Requirement{{Key: "color", Operator: facts.In, Values: []string{"blue"}}}},
				}}}
				c.come(p)
			case 4:
				c.apply(facts.NamespaceUpserted{Namespace: facts.Namespace{Name: "ns", Labels: []facts.Label{{Key: "a", Value: fmt.Sprint(p.Created % 2)}}}})
			case 5:
				p.Gated = true
				c.come(p)
			default:
				if rapid.Bool().Draw(t, "blue") {
					p.Labels = []facts.Label{{Key: "color", Value: "blue"}}
				}
				c.come(p)
			}
		}
	})
}
