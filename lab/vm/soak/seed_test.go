package soak

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The same seed gives the same sequence, another one another.
func TestSeed(t *testing.T) {
	a, b, c := NewSequence(7), NewSequence(7), NewSequence(8)
	differ := false
	for range 200 {
		next := a.Next()
		if again := b.Next(); again != next {
			t.Fatalf("%v, and then %v", next, again)
		}
		differ = differ || c.Next() != next
	}
	if !differ {
		t.Error("two seeds give the same sequence")
	}
}

// node is what a sequence makes of a node that does what it is told.
type node struct {
	*rapid.T
	pods  map[string]Action
	names map[string]bool
	held  map[Kind]int // steps since it began, by what ends it
	clock time.Duration
	kinds map[Kind]int
	kills map[string]int
}

func (n *node) does(a Action) {
	n.kinds[a.Kind]++
	switch a.Kind {
	case Create:
		if n.names[a.Pod] {
			n.Fatalf("%v: there was one of that name", a)
		}
		n.names[a.Pod], n.pods[a.Pod] = true, a
	case Resize, Delete:
		p, ok := n.pods[a.Pod]
		if !ok || a.Kind == Resize && (p.MilliCPU == 0 || p.MilliCPU == a.MilliCPU) {
			n.Fatalf("%v: the pod is %+v, %v", a, p, ok)
		}
		if p.MilliCPU = a.MilliCPU; a.Kind == Resize {
			n.pods[a.Pod] = p
		} else {
			delete(n.pods, a.Pod)
		}
	case Kill:
		n.kills[a.Service]++
	case Stop, Fill, Freeze, Rise:
		end := map[Kind]Kind{Stop: Continue, Fill: Free, Freeze: Thaw, Rise: Fall}[a.Kind]
		if _, ok := n.held[end]; ok {
			n.Fatalf("%v twice", a)
		}
		n.held[end] = 0
	case Continue, Free, Thaw, Fall:
		if _, ok := n.held[a.Kind]; !ok {
			n.Fatalf("%v ends nothing", a)
		}
		delete(n.held, a.Kind)
	case MoveClock:
		n.clock += a.By
	case Wait:
		if a.By <= 0 || a.By > time.Minute {
			n.Fatal(a)
		}
	case Lend:
		n.couldLend(a)
	}
}

// couldLend: a loan is waited for only where there can be one.
func (n *node) couldLend(a Action) {
	for _, end := range []Kind{Continue, Thaw, Fall} {
		if _, ok := n.held[end]; ok {
			n.Fatalf("%v, before %v", a, end)
		}
	}
	for _, p := range n.pods {
		if asksFor(p.Level, p.Pod) {
			return
		}
	}
	n.Fatalf("%v, and no pod asks for one", a)
}

// fits: what pods request is there, and nothing is held for long.
func (n *node) fits() {
	sums, count := make(map[Level]int64), make(map[Level]int)
	for _, p := range n.pods {
		sums[p.Level] += p.MilliCPU
		if count[p.Level]++; count[p.Level] > maxPods {
			n.Fatalf("%d pods of level %s", count[p.Level], p.Level)
		}
		if (p.Level == Dedicated || p.Level == Shared) != (p.MilliCPU > 0) || p.Level == Dedicated && p.MilliCPU%1000 != 0 {
			n.Fatal(p)
		}
	}
	if sums[Dedicated] > maxDedicated || sums[Shared] > maxShared || n.clock.Abs() > maxClock {
		n.Fatalf("%v are requested, and the clock is %v off", sums, n.clock)
	}
	for end, steps := range n.held {
		if n.held[end]++; steps > 2*maxHeld+len(draws) {
			n.Fatalf("%v does not come", end)
		}
	}
}

// Whatever the seed: pods fit, names are new, what is held ends, the clock is off by less than its bound; at the end nothing is held.
func TestSequence(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n := &node{
			T: r, pods: make(map[string]Action), names: make(map[string]bool), held: make(map[Kind]int), kinds: make(map[Kind]int), kills: make(map[string]int),
		}
		s := NewSequence(rapid.Uint64().Draw(r, "seed"))
		const steps = 600
		for range steps {
			n.does(s.Next())
			n.fits()
		}
		for _, kind := range []Kind{Create, Resize, Delete, Kill, Stop, Continue, Fill, Free, Freeze, Thaw, MoveClock, Wait, Lend, Rise, Fall} {
			if n.kinds[kind] == 0 {
				r.Errorf("no %v in %d steps", kind, steps)
			}
		}
		for _, service := range []string{Agent, Watchdog, Containerd, Kubelet} {
			if n.kills[service] == 0 {
				r.Errorf("%s is never killed", service)
			}
		}
		for _, a := range s.End() {
			n.does(a)
		}
		if len(n.held) > 0 || n.clock != 0 {
			r.Errorf("at the end %v are held, and the clock is %v off", n.held, n.clock)
		}
	})
}
