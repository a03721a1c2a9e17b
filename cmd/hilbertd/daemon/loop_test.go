package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube/lease"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/bind"
)

// world is a model of everything around the loop, with a clock that only the test moves. The loop's steps are called one by one.
type world struct {
	*loop
	t     *testing.T
	clock time.Time
	open  bool // the fence

	watches []*modelWatch
	writers []*modelWriter
	told    []*modelQueues
	terms   chan *modelTerm
}

type modelWatch struct {
	events   chan facts.Event
	stopped  bool
	catchUps int // asked for
}

func (w *modelWatch) Events() <-chan facts.Event { return w.events }
func (w *modelWatch) Stop()                      { w.stopped = true }
func (w *modelWatch) CatchUp()                   { w.catchUps++ }

type modelWriter struct {
	started []bind.Write
	results chan bind.Result
	full    bool
	closed  bool
}

func (w *modelWriter) Start(write bind.Write) bool {
	if !w.full {
		w.started = append(w.started, write)
	}
	return !w.full
}
func (w *modelWriter) Results() <-chan bind.Result { return w.results }
func (w *modelWriter) Close()                      { w.closed = true }

type modelTerm struct {
	takeover lease.Takeover
	lost     chan struct{}
	end      string
}

func (t *modelTerm) Takeover() lease.Takeover { return t.takeover }
func (t *modelTerm) Epoch() string            { return "model/1" }
func (t *modelTerm) Lost() <-chan struct{}    { return t.lost }
func (t *modelTerm) Release()                 { t.end = "released" }
func (t *modelTerm) Abandon()                 { t.end = "abandoned" }

func (w *world) Open(time.Time, time.Duration) bool { return w.open }

func newWorld(t *testing.T) *world {
	t.Helper()
	config := spec.Default()
	config.Scheduling.Binding.WriteTimeout = spec.Duration(20 * time.Millisecond) // drains wait that long for real
	w := &world{t: t, clock: time.Unix(1_000_000, 0), open: true, terms: make(chan *modelTerm, 1)}
	now := func() time.Time { return w.clock }
	p := ports{
		watch: func() (watch, error) {
			m := &modelWatch{events: make(chan facts.Event, 16)}
			w.watches = append(w.watches, m)
			return m, nil
		},
		writer: func() (writer, error) {
			m := &modelWriter{results: make(chan bind.Result, 16)}
			w.writers = append(w.writers, m)
			return m, nil
		},
		queues: func() (queueWriter, error) {
			m := &modelQueues{}
			w.told = append(w.told, m)
			return m, nil
		},
		campaign: func(ctx context.Context) (term, error) {
			select {
			case m := <-w.terms:
				return m, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
		fence: w, now: now,
	}
	w.loop = newLoop(config, p, newMeter(now, slog.New(slog.DiscardHandler)), slog.New(slog.DiscardHandler))
	if err := w.start(); err != nil {
		t.Fatal(err)
	}
	return w
}

// list feeds the lists that begin a watch: one node, and the given pods.
func (w *world) list(pods ...facts.Pod) {
	w.listOthers()
	w.apply(facts.NodesListed{Nodes: []*facts.Node{{
		Name: "n1", Allocatable: []resource.Quantity{{Name: "cpu", Amount: 4000}, {Name: "pods", Amount: 10}},
	}}})
	w.apply(facts.PodsListed{Pods: pods})
}

// listOthers feeds the lists of all that is neither a node nor a pod.
func (w *world) listOthers() {
	w.apply(facts.NamespacesListed{})
	w.apply(facts.BudgetsListed{})
	for kind := facts.Service; kind <= facts.StatefulSet; kind++ {
		w.apply(facts.WorkloadsListed{Kind: kind})
	}
	w.apply(facts.UnitsListed{})
	w.apply(facts.QueuesListed{})
	w.apply(facts.ReservationsListed{})
	w.apply(facts.ReportsListed{})
	w.apply(facts.FinishedListed{})
	for kind := range facts.StorageKinds {
		w.apply(facts.StorageListed{Kind: facts.StorageKind(kind + 1)})
	}
	for kind := range facts.DRAKinds {
		w.apply(facts.DRAListed{Kind: facts.DRAKind(kind + 1)})
	}
}

// many is as many pods as are not listed again, all on a node that is not known.
func many() (pods []facts.Pod) {
	for i := range listAtMost + 1 {
		pods = append(pods, pod(fmt.Sprintf("other-%d", i), "elsewhere"))
	}
	return pods
}

// sized is a pod that asks for so much CPU.
func sized(p facts.Pod, milli int64) facts.Pod {
	p.Requirements = &facts.Requirements{Requests: []resource.Quantity{{Name: "cpu", Amount: milli}}}
	return p
}

func pod(uid, node string) facts.Pod {
	return facts.Pod{
		UID: facts.UID(uid), Namespace: "default", Name: uid, Ours: true, Node: node,
		Requirements: &facts.Requirements{Requests: []resource.Quantity{{Name: "cpu", Amount: 1000}}},
	}
}

// rounds runs the loop until it would sleep.
func (w *world) rounds() time.Duration {
	for range 100 {
		if wake, busy := w.round(); !busy {
			return wake
		}
	}
	w.t.Fatal("the loop never sleeps")
	return 0
}

func (w *world) writer() *modelWriter { return w.writers[len(w.writers)-1] }

func (w *world) bindings() int {
	n := 0
	for _, m := range w.writers {
		for i := range m.started {
			if m.started[i].Kind == bind.WriteBinding {
				n++
			}
		}
	}
	return n
}

func (w *world) expectBindings(want int, when string) {
	w.t.Helper()
	w.rounds()
	if got := w.bindings(); got != want {
		w.t.Fatalf("%s: %d bindings, want %d", when, got, want)
	}
}

func TestStandbyDecidesNothing(t *testing.T) {
	w := newWorld(t)
	w.list(pod("a", ""))
	w.expectBindings(0, "following")
	if !w.synced || w.scheduler.Store().Pods() != 1 {
		t.Error("a standby must follow what happens")
	}
}

func TestReleasedLeaseLeadsAfterAFreshList(t *testing.T) {
	w := newWorld(t)
	w.list(pod("a", ""))
	w.took(&modelTerm{takeover: lease.Released})
	w.expectBindings(0, "before the new list")
	if len(w.watches) != 2 || !w.watches[0].stopped {
		t.Fatal("the watch was not begun anew")
	}
	w.apply(facts.NodesListed{})
	w.apply(facts.PodsListed{})
	w.expectBindings(0, "with nodes and pods only")
	w.list(pod("a", ""), pod("b", "n1"))
	w.expectBindings(1, "with the new list")
}

// TestSleepersAreTriedAgain: though nothing happens, the loop wakes each minute and has what sleeps decided again.
func TestSleepersAreTriedAgain(t *testing.T) {
	w := newWorld(t)
	big := pod("big", "")
	big.Requirements = &facts.Requirements{Requests: []resource.Quantity{{Name: "cpu", Amount: 5000}}}
	w.list(big)
	w.took(&modelTerm{takeover: lease.Released})
	w.rounds()
	w.list(big)
	wake := w.rounds()
	decided := func() float64 {
		var metric dto.Metric
		if err := w.meter.unplaced.count.Write(&metric); err != nil {
			t.Fatal(err)
		}
		return metric.GetCounter().GetValue()
	}
	first := decided()
	for range 3 {
		if wake > flushEvery {
			t.Fatalf("the loop sleeps for %v, longer than %v", wake, flushEvery)
		}
		w.clock = w.clock.Add(flushEvery)
		wake = w.rounds()
	}
	if again := decided() - first; first != 1 || again != 3 {
		t.Errorf("it was decided %v times, and in three minutes %v times more", first, again)
	}
}

func TestExpiredLeaseIsWaitedOut(t *testing.T) {
	w := newWorld(t)
	w.list(append(many(), pod("a", ""))...)
	w.took(&modelTerm{takeover: lease.Expired})
	timeout := w.config.Scheduling.Binding.WriteTimeout.D()
	if wake := w.rounds(); wake != timeout || w.watches[0].catchUps != 0 {
		t.Fatalf("wakes in %v; %d times asked to catch up: that misses what the last leader still writes", wake, w.watches[0].catchUps)
	}
	w.clock = w.clock.Add(timeout)
	w.rounds()
	if w.watches[0].catchUps != 1 || w.bindings() != 0 {
		t.Fatalf("asked %d times to catch up, %d bindings before the answer", w.watches[0].catchUps, w.bindings())
	}
	// What the last leader wrote late is told before the mark: pod a has the room that b wants.
	w.apply(facts.PodUpserted{Pod: pod("b", "")})
	w.apply(facts.PodUpserted{Pod: sized(pod("a", "n1"), 4000)})
	w.rounds()
	w.apply(facts.CaughtUp{})
	w.expectBindings(0, "the node is full")
	w.apply(facts.PodRemoved{UID: "a"})
	w.expectBindings(1, "after the wait and the mark")
	if len(w.watches) != 1 {
		t.Error("everything was listed again")
	}
}

// TestListsWhereItCannotCatchUp: where nobody can tell whether the watch has told everything, a list does.
func TestListsWhereItCannotCatchUp(t *testing.T) {
	w := newWorld(t)
	w.list(append(many(), pod("a", ""))...)
	w.took(&modelTerm{takeover: lease.Released})
	w.rounds()
	w.apply(facts.CaughtUp{Failure: "no bookmark"})
	w.rounds()
	if len(w.watches) != 2 || w.bindings() != 0 {
		t.Fatalf("%d watches, %d bindings", len(w.watches), w.bindings())
	}
	w.list(pod("a", ""))
	w.expectBindings(1, "after the list")
	w.apply(facts.CaughtUp{Failure: "late"})
	if w.rounds(); w.phase != leading {
		t.Errorf("phase %v after an answer that nobody waits for", w.phase)
	}
}

func TestAbsentLease(t *testing.T) {
	w := newWorld(t)
	w.took(&modelTerm{takeover: lease.Absent})
	w.rounds()
	if w.phase != waiting {
		t.Fatal("nobody knows yet whether somebody led here")
	}
	w.list(pod("a", ""), pod("b", "n1")) // somebody did
	if wake := w.rounds(); wake != w.config.LeaderElection.RenewDeadline.D() {
		t.Errorf("waits %v for a leader whose Lease was deleted", wake)
	}
	w.clock = w.clock.Add(w.config.LeaderElection.RenewDeadline.D())
	w.rounds()
	w.list(pod("a", ""), pod("b", "n1"))
	w.expectBindings(1, "after the wait")

	fresh := newWorld(t)
	fresh.list(pod("a", ""))
	fresh.took(&modelTerm{takeover: lease.Absent})
	fresh.rounds()
	fresh.list(pod("a", ""))
	fresh.expectBindings(1, "in a new cluster, at once")
}

func TestShutFenceStopsDecisions(t *testing.T) {
	w := leader(t)
	w.open = false
	w.apply(facts.PodUpserted{Pod: pod("a", "")})
	if wake := w.rounds(); wake != fencePoll || w.bindings() != 0 {
		t.Errorf("wakes in %v, %d bindings", wake, w.bindings())
	}
	w.open = true
	w.expectBindings(1, "open again")
}

// leader returns a world in which the loop leads an empty cluster of one node.
func leader(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.took(&modelTerm{takeover: lease.Released, lost: make(chan struct{})})
	w.rounds()
	w.list()
	w.rounds()
	if w.phase != leading {
		t.Fatalf("phase %v", w.phase)
	}
	return w
}

func TestLostLeaseDropsEverything(t *testing.T) {
	w := leader(t)
	w.apply(facts.PodUpserted{Pod: pod("a", "")})
	w.expectBindings(1, "leading")
	old := w.writer()
	old.results <- bind.Result{ID: old.started[0].ID, Outcome: bind.Unknown}
	term := w.term.(*modelTerm)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := w.lost(ctx); err != nil {
		t.Fatal(err)
	}
	if term.end != "abandoned" || w.phase != following || w.outstanding != 0 || w.scheduler.Store().Pods() != 0 || len(w.meter.waiting) != 0 {
		t.Errorf("term %s, phase %v, %d outstanding, %d pods", term.end, w.phase, w.outstanding, w.scheduler.Store().Pods())
	}
	if old.closed {
		t.Error("the writer was closed though every write was answered")
	}
	w.list(pod("a", ""))
	w.expectBindings(1, "following again: no new ones")
	w.terms <- &modelTerm{takeover: lease.Expired} // it campaigns again
	select {
	case <-w.won:
	case <-time.After(time.Minute):
		t.Error("it does not campaign any more")
	}
}

func TestLostLeaseWithAStuckWriteReplacesTheWriter(t *testing.T) {
	w := leader(t)
	w.apply(facts.PodUpserted{Pod: pod("a", "")})
	w.expectBindings(1, "leading")
	old := w.writer()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := w.lost(ctx); err != nil {
		t.Fatal(err)
	}
	if !old.closed || w.writer() == old || w.outstanding != 0 {
		t.Errorf("old writer closed: %v, replaced: %v, %d outstanding", old.closed, w.writer() != old, w.outstanding)
	}
}

func TestShutdownGivesTheLeaseBackOnlyWhenDrained(t *testing.T) {
	for _, answered := range []bool{true, false} {
		w := leader(t)
		w.apply(facts.PodUpserted{Pod: pod("a", "")})
		w.expectBindings(1, "leading")
		want := "abandoned"
		if answered {
			want = "released"
			w.writer().results <- bind.Result{ID: w.writer().started[0].ID, Outcome: bind.Written}
		}
		term := w.term.(*modelTerm)
		if err := w.shutdown(); err != nil {
			t.Fatal(err)
		}
		if term.end != want {
			t.Errorf("answered: %v; the Lease was %s", answered, term.end)
		}
	}
}

func TestWriterThatIsFullIsNotSent(t *testing.T) {
	w := leader(t)
	w.writer().full = true
	w.apply(facts.PodUpserted{Pod: pod("a", "")})
	w.rounds()
	if w.outstanding != 0 || w.scheduler.Pending().InFlight != 0 || w.scheduler.Pending().Backoff != 1 {
		t.Errorf("outstanding %d, pending %+v", w.outstanding, w.scheduler.Pending())
	}
	if err := w.scheduler.Verify(); err != nil {
		t.Error(err)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- w.run(ctx) }()
	term := &modelTerm{takeover: lease.Released, lost: make(chan struct{})}
	w.terms <- term
	for answered := false; !answered; {
		var phase phase
		if !w.ask(time.Minute, func() { phase = w.phase }) {
			t.Fatal("the loop does not answer")
		}
		answered = phase == listing
	}
	cancel()
	if err := <-ended; err != nil || term.end != "released" {
		t.Errorf("err %v, the Lease was %s", err, term.end)
	}
	if w.ask(time.Millisecond, func() {}) {
		t.Error("a loop that ended answers")
	}
}

func TestRunFailsWhereItCannotBegin(t *testing.T) {
	w := newWorld(t)
	w.ports.watch = func() (watch, error) { return nil, errors.New("no such host") }
	if err := w.run(t.Context()); err == nil {
		t.Error("no error")
	}
}

// TestEventsAreTakenByTime: a round takes events for no longer than eventTime by the clock, and one at least; the next takes the others.
func TestEventsAreTakenByTime(t *testing.T) {
	for _, c := range []struct {
		reading time.Duration // how much later each reading of the clock is
		want    int
	}{{0, 10}, {time.Millisecond, 10}, {4 * time.Millisecond, 3}, {time.Second, 1}} {
		w := newWorld(t)
		w.list()
		w.ports.now = func() time.Time {
			w.clock = w.clock.Add(c.reading)
			return w.clock
		}
		events := w.watches[0].events
		for i := range 10 {
			events <- facts.PodUpserted{Pod: pod(fmt.Sprint("p", i), "")}
		}
		w.takeEvents()
		if taken := 10 - w.intake.Len(); taken != c.want {
			t.Errorf("each reading %v later: a round takes %d events, want %d", c.reading, taken, c.want)
		}
		for range 10 {
			w.takeEvents()
		}
		if len(events)+w.intake.Len() > 0 {
			t.Errorf("each reading %v later: %d events are never taken", c.reading, len(events))
		}
	}
}

// TestNobodyWaitsForOthersEvents: ten thousand pods of one namespace have arrived before a pod of another, and a node; where a round has time for four events, both are
// known after it.
func TestNobodyWaitsForOthersEvents(t *testing.T) {
	w := newWorld(t)
	w.list()
	w.ports.now = func() time.Time {
		w.clock = w.clock.Add(eventTime / 8)
		return w.clock
	}
	w.watches[0].events = make(chan facts.Event, 10_002)
	for i := range 10_000 {
		p := pod(fmt.Sprint("p", i), "")
		p.Namespace = "hostile"
		w.watches[0].events <- facts.PodUpserted{Pod: p}
	}
	w.watches[0].events <- facts.PodUpserted{Pod: pod("other", "")}
	w.watches[0].events <- facts.NodeUpserted{Node: &facts.Node{Name: "new"}}
	w.takeEvents()
	if w.scheduler.Store().Pod("other") == nil || w.scheduler.Store().Nodes() < 1 {
		t.Errorf("the other tenant's pod is not known, or the node; %d events wait", w.intake.Len())
	}
	if depth := w.intake.Len(); depth < 9_990 {
		t.Errorf("%d events wait", depth)
	}
}

// TestDearEventsComeSeldom: each gang of one namespace has a hundred pods of another judged anew, which are in its terms. A pod that comes behind two gangs is taken in after one.
func TestDearEventsComeSeldom(t *testing.T) {
	w := newWorld(t)
	w.list()
	waiting := func(uid string, i int) facts.Event {
		p := pod(fmt.Sprint(uid, i), "")
		p.Requirements = &facts.Requirements{Requests: []resource.Quantity{{Name: resource.NameCPU, Amount: 1 << 40}}}
		return facts.PodUpserted{Pod: p}
	}
	for i := range 100 {
		w.intake.Add(waiting("waits-", i))
	}
	w.takeEvents()
	for i := range 2 {
		p := pod(fmt.Sprint("gang-", i), "")
		p.Namespace, p.Unit = "hostile", p.Name
		p.Requirements = &facts.Requirements{PreferredPods: []facts.WeightedAffinityTerm{{Weight: int32(i + 1), AffinityTerm: facts.AffinityTerm{
			TopologyKey: facts.HostnameKey, Pods: facts.PodSelector{Namespaces: []string{pod("x", "").Namespace}},
		}}}}
		w.intake.Add(facts.PodUpserted{Pod: p})
	}
	for i := range 10 {
		w.intake.Add(waiting("comes-", i))
	}
	for w.scheduler.Store().Pod("comes-9") == nil {
		w.apply(w.intake.Take())
	}
	if w.scheduler.Store().Pod("gang-0") == nil || w.scheduler.Store().Pod("gang-1") != nil {
		t.Error("the second gang is taken in before the pods of who was judged anew")
	}
}
