package relief

import (
	"fmt"
	"maps"
	"math"
	"slices"
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
	"hilbert.dev/hilbert/schedule/bind"
	"hilbert.dev/hilbert/topology"
)

var began = time.Unix(1_800_000_000, 0).UTC()

type harness struct {
	store  *cluster.Store
	relief *Relief
	now    time.Time
}

func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		h := &harness{store: cluster.NewStore(), now: began}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return h.run(t, d) })
	})
}

var outcomes = map[string]bind.Outcome{
	"written": bind.Written, "gone": bind.Gone, "refused": bind.Refused, "unknown": bind.Unknown, "notsent": bind.NotSent, "withheld": bind.Withheld,
}

func (h *harness) run(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "start": // a new process: start percent=50 burst=2
		cfg := spec.Evictions{PercentPerMinute: 1, Burst: 1}
		for _, arg := range d.CmdArgs {
			if arg.Key == "percent" {
				arg.Scan(t, 0, &cfg.PercentPerMinute)
			} else {
				arg.Scan(t, 0, &cfg.Burst)
			}
		}
		h.relief = New(h.store, cfg)
	case "node":
		h.store.Apply(facts.NodeUpserted{Node: script.Node(t, d)})
	case "report":
		h.store.Apply(script.Report(t, d))
	case "pod":
		h.store.Apply(facts.PodUpserted{Pod: script.Pod(t, d)})
	case "rmpod":
		h.store.Apply(facts.PodRemoved{UID: facts.UID(d.CmdArgs[0].Key)})
	case "wait":
		pause, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err != nil {
			t.Fatal(err)
		}
		h.now = h.now.Add(pause)
	case "finish":
		for _, arg := range d.CmdArgs {
			var number uint64
			if _, err := fmt.Sscan(arg.Key, &number); err != nil || outcomes[arg.Vals[0]] == 0 {
				d.Fatalf(t, "finish %v", arg)
			}
			if _, known := h.relief.flights[number]; !known {
				d.Fatalf(t, "%d is not known", number)
			}
			id := bind.WriteID{Owner: bind.OwnerRelief, Number: number}
			h.relief.Finish(bind.Result{ID: id, Outcome: outcomes[arg.Vals[0]], Message: "because"}, h.now)
		}
	default:
		d.Fatalf(t, "unknown command %q", d.Cmd)
	}
	return h.report()
}

// report tells what is to be written now, how things stand, and when to look again.
func (h *harness) report() string {
	if h.relief == nil {
		return ""
	}
	var b strings.Builder
	for _, w := range h.relief.Ready(h.now) {
		switch w.Kind {
		case bind.EvictPod:
			fmt.Fprintf(&b, "%d: evict %s from %s\n", w.ID.Number, w.Name, w.Node)
		case bind.WriteRefusals:
			fmt.Fprintf(&b, "%d: tell %s what is refused: %v\n", w.ID.Number, w.Node, w.Refused)
		default:
			fmt.Fprintf(&b, "%d: event of %s: %s: %s\n", w.ID.Number, w.Name, w.Condition.Reason, w.Condition.Message)
		}
	}
	if at, ok := h.relief.NextWake(h.now); ok {
		fmt.Fprintf(&b, "%+v %+v, again in %v\n", h.relief.Status(), h.relief.Counts(), at.Sub(h.now))
	}
	return b.String()
}

// The budget holds in every minute, urgent evictions keep their distance on each node, and no pod is evicted that must stay, whatever is requested, answered
// and withdrawn, and however often the leader changes.
func TestBudgetHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			w.step(t)
			w.check(t)
		}
	})
}

const (
	worldNodes = 4
	worldPods  = 40
	online     = 8 // of the pods are not reclaimed; every other one of them was promised CPUs of its node
)

// wasPromised reports whether a pod that is not reclaimed has a promise.
func wasPromised(p int) bool { return p < online && p%2 == 0 }

type world struct {
	harness
	cfg       spec.Evictions
	open      map[uint64]bind.Write  // by number
	fair      []time.Time            // evictions that the budget allowed
	urgent    map[string][]time.Time // by node
	requested map[facts.UID]bool     // urgently
	started   time.Time
}

func newWorld(t *rapid.T) *world {
	w := &world{urgent: make(map[string][]time.Time), open: make(map[uint64]bind.Write), requested: make(map[facts.UID]bool)}
	w.store, w.now = cluster.NewStore(), began
	w.cfg = spec.Evictions{PercentPerMinute: rapid.SampledFrom([]float64{1, 10, 50}).Draw(t, "percent"), Burst: rapid.IntRange(1, 3).Draw(t, "burst")}
	for n := range worldNodes {
		w.store.Apply(facts.NodeUpserted{Node: &facts.Node{Name: fmt.Sprint("n", n), Allocatable: []resource.Quantity{{Name: resource.NamePods, Amount: 100}}}})
	}
	for p := range worldPods {
		w.store.Apply(facts.PodUpserted{Pod: w.pod(p)})
	}
	w.restart()
	return w
}

func (w *world) restart() {
	w.relief, w.started = New(w.store, w.cfg), w.now
	clear(w.open)
	w.take()
}

func (w *world) pod(p int) facts.Pod {
	var grant topology.Grant
	if wasPromised(p) {
		grant.NUMANodes.CPUs[0] = 1
	}
	return facts.Pod{
		Grant: grant, UID: facts.UID(fmt.Sprint("p", p)), Namespace: "default", Name: fmt.Sprint("p", p), Node: fmt.Sprint("n", p%worldNodes),
		Requirements: &facts.Requirements{Reclaimed: p >= online},
	}
}

func (w *world) step(t *rapid.T) {
	switch rapid.IntRange(0, 9).Draw(t, "op") {
	case 0, 1, 2:
		w.request(t)
	case 3:
		uid := facts.UID(fmt.Sprint("p", rapid.IntRange(0, worldPods-1).Draw(t, "pod")))
		w.store.Apply(facts.PodRemoved{UID: uid})
	case 4:
		if rapid.IntRange(0, 4).Draw(t, "restart") == 0 {
			w.now = w.now.Add(15 * time.Second) // a Lease has to expire
			w.restart()
		}
	case 5, 6:
		for _, id := range slices.Sorted(maps.Keys(w.open)) {
			outcome := rapid.SampledFrom([]bind.Outcome{bind.Written, bind.Written, bind.Gone, bind.Withheld, bind.Refused, bind.NotSent, bind.Unknown}).Draw(t, "outcome")
			if write := w.open[id]; write.Kind == bind.EvictPod && outcome != bind.Written && outcome != bind.Unknown && !w.requested[write.Pod] {
				w.fair = w.fair[:len(w.fair)-1] // nobody went: it does not count
			}
			delete(w.open, id)
			w.relief.Finish(bind.Result{ID: bind.WriteID{Owner: bind.OwnerRelief, Number: id}, Outcome: outcome}, w.now)
			break //nolint:staticcheck // one at a time
		}
	default:
		w.now = w.now.Add(time.Duration(rapid.IntRange(0, 20_000).Draw(t, "ms")) * time.Millisecond)
	}
	w.take()
}

func (w *world) request(t *rapid.T) {
	n := rapid.IntRange(0, worldNodes-1).Draw(t, "node")
	r := &facts.NodeReport{}
	for p := range worldPods {
		if rapid.IntRange(0, 3).Draw(t, "requested") == 0 {
			r.Evictions = append(r.Evictions, facts.EvictionRequest{
				UID: facts.UID(fmt.Sprint("p", p)), Namespace: "default", Name: fmt.Sprint("p", p), Urgent: p%5 == 0 || p < 5, Broken: p < 5,
			})
		}
	}
	for p := range worldPods {
		w.requested[facts.UID(fmt.Sprint("p", p))] = p%5 == 0 || p < 5
	}
	w.store.Apply(facts.NodeReported{Node: fmt.Sprint("n", n), Report: r})
}

// take takes what is ready, as often as there is something.
func (w *world) take() {
	for range 3 {
		for _, write := range w.relief.Ready(w.now) {
			w.open[write.ID.Number] = write
			switch {
			case write.Kind != bind.EvictPod:
			case w.requested[write.Pod]:
				w.urgent[write.Node] = append(w.urgent[write.Node], w.now)
			default:
				w.fair = append(w.fair, w.now)
			}
		}
	}
}

func (w *world) check(t *rapid.T) {
	most := int(math.Ceil(max(w.cfg.PercentPerMinute/100*worldPods, 1))) + w.cfg.Burst
	for i, at := range w.fair {
		if i+most < len(w.fair) && w.fair[i+most].Sub(at) < time.Minute {
			t.Fatalf("more than %d evictions within a minute: %v", most, w.fair[i:i+most+1])
		}
	}
	for node, times := range w.urgent {
		for i := range times[1:] {
			if times[i+1].Sub(times[i]) < UrgentInterval {
				t.Fatalf("urgent evictions from %s at %v", node, times)
			}
		}
	}
	busy := make(map[facts.UID]bool)
	for _, write := range w.open {
		pod := w.store.Pod(write.Pod)
		switch {
		case write.Kind != bind.EvictPod:
		case busy[write.Pod]:
			t.Fatalf("two evictions of %s are under way", write.Pod)
		case pod != nil && (!pod.Class.Reclaimed && !mayLeave(write.Name) || pod.Node() != write.Node):
			t.Fatalf("pod %s (reclaimed %v on %s) is evicted on the request of %s", write.Pod, pod.Class.Reclaimed, pod.Node(), write.Node)
		default:
			busy[write.Pod] = true
		}
	}
	if len(w.open) > MaxInFlight {
		t.Fatalf("%d writes are under way", len(w.open))
	}
}

// mayLeave reports whether a pod that is not reclaimed may be evicted: it was promised something, and its node says that the promise is broken.
func mayLeave(name string) bool {
	var p int
	_, err := fmt.Sscanf(name, "p%d", &p)
	return err == nil && wasPromised(p) && p < 5
}
