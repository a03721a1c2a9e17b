package schedule

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/waiting"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/bind"
	"hilbert.dev/hilbert/schedule/intake"
)

// What the pods of the hostile tenant name between them, each pod being unlike all others.
const (
	hostilePods      = 10_000
	hostileTerms     = 6000
	hostileResources = 600
	hostileIndexed   = hostilePods / 4 // pods that fit, and whose class needs an index of its own
)

// hostilePod is one of them. Of four, one names a resource that no node has, one fits nowhere, and two fit: the first of these wants to be apart from others, the
// second has preferences, which no index serves that classes share.
func hostilePod(i int) facts.Pod {
	uid := facts.UID(fmt.Sprint("hostile-", i))
	r := &facts.Requirements{Requests: []resource.Quantity{{Name: resource.NameCPU, Amount: int64(10 + i%97)}, {Name: resource.NameMemory, Amount: int64(1<<20 + i)}}}
	p := facts.Pod{
		UID: uid, Namespace: "hostile", Name: string(uid), Created: int64(i), Ours: true, Labels: []facts.Label{{Key: "pod", Value: fmt.Sprint(i)}}, Requirements: r,
	}
	number := (i/4*3 + i%4 - 1) % hostileTerms
	term := facts.AffinityTerm{
		TopologyKey: []string{facts.HostnameKey, "zone", "rack", fmt.Sprint("odd.example/", number)}[number&3],
		Pods: facts.PodSelector{Namespaces: []string{"hostile"}, Labels: facts.LabelSelector{
			Expressions: []facts.Requirement{{Key: "pod", Operator: facts.In, Values: []string{fmt.Sprint(number)}}},
		}},
	}
	switch i % 4 {
	case 0:
		r.Requests = append(r.Requests, resource.Quantity{Name: fmt.Sprintf("odd.example/r%d", i/4%hostileResources), Amount: 1})
	case 1:
		r.NodeSelector = []facts.Label{{Key: fmt.Sprint("odd.example/", i), Value: "x"}}
		r.Spread = []facts.SpreadConstraint{{TopologyKey: term.TopologyKey, MaxSkew: 1, MinDomains: 1, Hard: true, Pods: term.Pods}}
	case 2:
		r.AntiAffinity = []facts.AffinityTerm{term}
		r.Images = []string{fmt.Sprintf("odd.example/image-%d:v1", i)}
	default:
		r.PreferredPods = []facts.WeightedAffinityTerm{{Weight: -1, AffinityTerm: term}}
		r.Spread = []facts.SpreadConstraint{{TopologyKey: "zone", MaxSkew: 1, MinDomains: 1, Pods: term.Pods}}
	}
	return p
}

// broadPod is the same with terms each of which is about all pods of the namespace but one, so that each that acts is another term for each pod that waits.
func broadPod(i int) facts.Pod {
	p := hostilePod(i)
	r := p.Requirements
	broaden := func(s *facts.PodSelector) { s.Labels.Expressions[0].Operator = facts.NotIn }
	r.AntiAffinity = nil // it would be repelled by all others: those fit that prefer
	for i := range r.Spread {
		broaden(&r.Spread[i].Pods)
	}
	number := i % hostileTerms
	if i%4 >= 2 {
		r.PreferredPods = []facts.WeightedAffinityTerm{{Weight: int32(1 + i%100), AffinityTerm: facts.AffinityTerm{
			TopologyKey: []string{facts.HostnameKey, "zone", "rack"}[number%3],
			Pods: facts.PodSelector{Namespaces: []string{"hostile"}, Labels: facts.LabelSelector{
				Expressions: []facts.Requirement{{Key: "pod", Operator: facts.NotIn, Values: []string{fmt.Sprint(number)}}},
			}},
		}}}
	}
	return p
}

// tenants is a cluster that a hostile tenant shares with an ordinary one, each with a queue of its own. All writes succeed, and the watch says so. events wait
// for the loop, which takes so many of them in a turn as hilbertd does.
type tenants struct {
	t      testing.TB
	s      *Scheduler
	now    time.Time
	events intake.Events
	// slice bounds the time in which a turn takes events, as hilbertd's does; 0: 512 of them whatever they take, so that a test does not depend on the machine.
	slice time.Duration
	// deleted are pods whose end is among the events, so that the watch says no more of them.
	deleted map[facts.UID]bool

	mostLooked, allLooked int
	longest               time.Duration // turn
	longestStep           time.Duration
}

func newTenants(t testing.TB, nodes int) *tenants {
	s, err := New(Options{Config: spec.Default().Scheduling})
	if err != nil {
		t.Fatal(err)
	}
	w := &tenants{t: t, s: s, now: time.Unix(1000, 0), deleted: make(map[facts.UID]bool)}
	for i := range nodes {
		n := benchNode(i)
		n.Labels["rack"] = fmt.Sprint(i / 40)
		s.Apply(facts.NodeUpserted{Node: n}, w.now)
	}
	for _, name := range []string{"hostile", "other"} {
		s.Apply(facts.QueueUpserted{Queue: &facts.Queue{Name: name, Weight: 1}}, w.now)
		s.Apply(facts.NamespaceUpserted{Namespace: facts.Namespace{Name: name, Labels: []facts.Label{{Key: spec.LabelQueue, Value: name}}}}, w.now)
	}
	return w
}

// turn is one turn of the loop. It answers false when there was nothing to do.
func (w *tenants) turn() bool {
	w.now = w.now.Add(10 * time.Millisecond)
	began := time.Now()
	taken := 0
	for e := w.events.Take(); e != nil; e = w.events.Take() {
		w.events.Judged(w.s.Apply(e, w.now))
		if taken++; taken == 512 || w.slice > 0 && time.Since(began) >= w.slice {
			break
		}
	}
	stepBegan := time.Now()
	done := w.s.Step(w.now, 128)
	w.longestStep = max(w.longestStep, time.Since(stepBegan))
	w.mostLooked, w.allLooked = max(w.mostLooked, w.s.decisions.looked), w.allLooked+w.s.decisions.looked
	writes := slices.Clone(w.s.Ready(w.now))
	w.longest = max(w.longest, time.Since(began))
	for _, x := range writes {
		w.s.Finish(bind.Result{ID: x.ID, Outcome: bind.Written, Node: x.Node}, w.now)
		if x.Kind == bind.WriteBinding && !w.deleted[x.Pod] {
			seen := w.s.Store().Pod(x.Pod).Record().Facts
			seen.Node = x.Node
			w.events.Add(facts.PodUpserted{Pod: seen})
		}
	}
	return taken > 0 || done > 0 || len(writes) > 0
}

func (w *tenants) settle() {
	for range 10_000 {
		if !w.turn() {
			return
		}
	}
	w.t.Fatal("it never ends")
}

// other has a pod of the other tenant come, and returns after how many turns it is bound.
func (w *tenants) other(number int) (turns int) {
	uid := facts.UID(fmt.Sprint("other-", number))
	w.events.Add(facts.PodUpserted{Pod: facts.Pod{
		UID: uid, Namespace: "other", Name: string(uid), Created: int64(hostilePods + number), Ours: true, Requirements: benchRequirements(0),
	}})
	for pod := w.s.Store().Pod(uid); pod == nil || pod.Phase != cluster.Bound; pod = w.s.Store().Pod(uid) {
		if turns++; turns > 1000 {
			w.t.Fatalf("pod %s of the other tenant is not bound", uid)
		}
		w.turn()
	}
	return turns
}

func (w *tenants) end(uid facts.UID) {
	w.deleted[uid] = true
	w.events.Add(facts.PodRemoved{UID: uid})
}

func (w *tenants) attack(pods int, pod func(int) facts.Pod) {
	for i := range pods {
		w.events.Add(facts.PodUpserted{Pod: pod(i)})
	}
}

// attackEnds deletes all pods of the hostile tenant. The other one works on: its pods come and go, until each node has changed.
func (w *tenants) attackEnds(pods, nodes int) {
	for i := range pods {
		w.end(facts.UID(fmt.Sprint("hostile-", i)))
	}
	w.settle()
	for i := range nodes {
		w.other(1000 + i)
		w.end(facts.UID(fmt.Sprint("other-", 1000+i)))
	}
	w.settle()
}

func liveHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestHostileTenantCannotExhaust: one tenant creates 10,000 pods of as many classes, which name 600 resources and 6,000 terms about pods. Each Step of the
// scheduler looks at a bounded number of nodes, the heap stays below a bound, the other tenant's pods are bound within a few turns, and after the deletion all is given back.
func TestHostileTenantCannotExhaust(t *testing.T) {
	const nodes = 4000
	const mostHeap, mostKept = 100 << 20, 20 << 20
	w := newTenants(t, nodes)
	w.other(0)
	w.settle()
	before, kinds := liveHeap(), w.s.Store().Kinds()
	w.attack(hostilePods, hostilePod)
	for range 5 {
		w.turn()
	}
	if turns := w.other(1); turns > 4 {
		t.Errorf("amid the attack the other tenant's pod is bound after %d turns", turns)
	}
	w.settle()
	during := liveHeap() - before
	b, size := w.s.Bounds(), w.s.Store().Counts().Registry().Size()
	t.Logf("heap +%d kB, %+v, %+v, at most %d of %d looks in a Step", during>>10, b, size, w.mostLooked, w.allLooked)
	if during > mostHeap {
		t.Errorf("the attack takes %d bytes", during)
	}
	if turns := w.other(2); turns > 2 {
		t.Errorf("after the attack the other tenant's pod is bound after %d turns", turns)
	}
	if w.mostLooked > maxLooks+8*nodes || w.allLooked < hostileIndexed*nodes/4 || b.EndedSteps == 0 {
		t.Errorf("a Step has looked at %d nodes, all at %d, and %d were ended early", w.mostLooked, w.allLooked, b.EndedSteps)
	}
	if most := *w.s.cfg.MaxWaitingClasses; b.HeldBack == 0 || w.s.Store().Kinds() != kinds || size.TopologyKeys > most+hostileTerms {
		t.Errorf("%d pods are held back, there are %d kinds (%d before), and %+v", b.HeldBack, w.s.Store().Kinds(), kinds, size)
	}
	if err := w.s.Verify(); err != nil {
		t.Error(err)
	}
	w.attackEnds(hostilePods, nodes)
	w.checkReturned(before, mostKept)
}

// TestHostileTermsCannotExhaust: of a tenant's pods, each has a term that is about all pods of its namespace. No event, and no Step, has more pods judged anew than a
// bound; the other tenant's pods are bound within a few turns; and after the deletion all is given back.
func TestHostileTermsCannotExhaust(t *testing.T) {
	const nodes, pods = 300, 800
	const mostKept = 60 << 20 // the indexes of 300 nodes go with the thousandth decision
	w := newTenants(t, nodes)
	w.other(0)
	w.settle()
	before := liveHeap()
	w.attack(pods, broadPod)
	for range 5 {
		w.turn()
	}
	if turns := w.other(1); turns > 12 {
		t.Errorf("amid the attack the other tenant's pod is bound after %d turns", turns)
	}
	w.settle()
	b, size := w.s.Bounds(), w.s.Store().Counts().Registry().Size()
	t.Logf("heap +%d kB, %+v, %+v, at most %d of %d looks in a Step", (liveHeap()-before)>>10, b, size, w.mostLooked, w.allLooked)
	most := *w.s.cfg.MaxWaitingClasses
	if atOnce := most * (looksPerEffect + waiting.TermsPerClass); w.mostLooked > maxLooks+atOnce+8*nodes {
		t.Errorf("a Step has looked at %d nodes: more pods were judged anew at once than may wait", w.mostLooked)
	}
	if b.HeldBack == 0 || size.Tallies > pods+cluster.MaxIdleTerms {
		t.Errorf("%d pods are held back, and there are %+v", b.HeldBack, size)
	}
	if turns := w.other(2); turns > 2 {
		t.Errorf("after the attack the other tenant's pod is bound after %d turns", turns)
	}
	if err := w.s.Verify(); err != nil {
		t.Error(err)
	}
	w.attackEnds(pods, nodes)
	w.checkReturned(before, mostKept)
}

// TestHostileGangsCannotExhaust: a tenant's gangs come, each of whose members has a term about all of the other tenant's pods, which are judged anew. The other tenant's pods come
// behind the gangs, and wait for no more of them than cost as much as they do: their number does not matter.
func TestHostileGangsCannotExhaust(t *testing.T) {
	const nodes, waiting, gangs, coming = 50, 3000, 400, 100
	w := newTenants(t, nodes)
	for i := range waiting {
		uid := facts.UID(fmt.Sprint("waits-", i))
		w.events.Add(facts.PodUpserted{Pod: facts.Pod{
			UID: uid, Namespace: "other", Name: string(uid), Created: int64(i), Ours: true, Labels: []facts.Label{{Key: "app", Value: fmt.Sprint(i % 7)}},
			Requirements: &facts.Requirements{Requests: []resource.Quantity{{Name: resource.NameCPU, Amount: 1 << 40}}}, // it fits nowhere
		}})
	}
	w.settle()
	for i := range gangs {
		p := hostilePod(4*i + 3)
		p.Unit = fmt.Sprint("gang-", i)
		p.Requirements.PreferredPods[0].Pods = facts.PodSelector{Namespaces: []string{"other"}, Labels: facts.LabelSelector{
			Expressions: []facts.Requirement{{Key: "app", Operator: facts.NotIn, Values: []string{fmt.Sprint("x", i)}}},
		}}
		w.events.Add(facts.PodUpserted{Pod: p})
	}
	for i := range coming {
		uid := facts.UID(fmt.Sprint("comes-", i))
		w.events.Add(facts.PodUpserted{Pod: facts.Pod{UID: uid, Namespace: "other", Name: string(uid), Created: int64(waiting + i), Ours: true, Requirements: benchRequirements(0)}})
	}
	came, judged := 0, 0
	for came < coming {
		p, ok := w.events.Take().(facts.PodUpserted)
		if !ok {
			t.Fatal("the other tenant's pods do not come")
		}
		n := w.s.Apply(p, w.now)
		w.events.Judged(n)
		if p.Pod.Namespace == "hostile" {
			judged += n
		} else {
			came++
		}
	}
	if judged < waiting || judged > 2*waiting+8*coming {
		t.Errorf("before the other tenant's %d pods are taken in, %d are judged anew", coming, judged)
	}
	w.settle()
	if err := w.s.Verify(); err != nil {
		t.Error(err)
	}
}

// checkReturned looks whether all that the attack took is free again.
func (w *tenants) checkReturned(before, mostKept int64) {
	t, store := w.t, w.s.Store()
	size, p := store.Counts().Registry().Size(), w.s.Pending()
	kept := liveHeap() - before
	t.Logf("after the deletion heap +%d kB, %+v, %+v", kept>>10, size, p)
	if kept > mostKept {
		t.Errorf("after the deletion %d bytes are kept", kept)
	}
	if size.TopologyKeys > cluster.MaxIdleTerms || size.Tallies > 2*cluster.MaxIdleTerms || size.Censuses > 2*cluster.MaxIdleTerms {
		t.Errorf("after the deletion there are %+v", size)
	}
	if n := len(w.s.waiting.held) + len(w.s.waiting.retries.failed) + len(w.s.waiting.vanished) + w.s.Bounds().HeldBack; n > 0 || p != (Pending{}) || store.Pods() != 3 {
		t.Errorf("after the deletion %d records are left, %d pods, and %+v wait", n, store.Pods(), p)
	}
	if err := w.s.Verify(); err != nil {
		t.Error(err)
	}
}

// BenchmarkHostileTerms measures the same for pods with terms that are each about all of the namespace.
func BenchmarkHostileTerms(b *testing.B) { benchmarkHostileTenant(b, broadPod) }

// BenchmarkHostileTenant measures the same at 20,000 nodes: the longest turn of the loop and the longest Step in it, what the attack takes of the heap, how much of it
// is kept after the deletion, and for how long the other tenant's pod, which comes behind all of it, waits amid the attack.
func BenchmarkHostileTenant(b *testing.B) { benchmarkHostileTenant(b, hostilePod) }

func benchmarkHostileTenant(b *testing.B, pod func(int) facts.Pod) {
	const nodes = 20_000
	for b.Loop() {
		w := newTenants(b, nodes)
		w.slice = 20 * time.Millisecond // as in hilbertd
		w.other(0)
		w.settle()
		before := liveHeap()
		w.longest, w.longestStep = 0, 0
		w.attack(hostilePods, pod)
		for range 5 {
			w.turn()
		}
		began := time.Now()
		w.other(1)
		b.ReportMetric(float64(time.Since(began).Microseconds())/1000, "ms/other")
		w.settle()
		b.ReportMetric(float64(w.longest.Microseconds())/1000, "ms/turn-max")
		b.ReportMetric(float64(w.longestStep.Microseconds())/1000, "ms/step-max")
		b.ReportMetric(float64((liveHeap()-before)>>20), "MiB/attack")
		w.longest, w.longestStep = 0, 0
		w.attackEnds(hostilePods, nodes)
		b.ReportMetric(float64(w.longest.Microseconds())/1000, "ms/turn-max-deletion")
		b.ReportMetric(float64((liveHeap()-before)>>20), "MiB/kept")
		runtime.KeepAlive(w)
	}
}
