package relief

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/bind"
)

// refusalWorld plays the API server to the writes about refusals: what is written shows in the node's next report.
type refusalWorld struct {
	*world
	told    map[string][]facts.UID
	asked   map[string][]facts.EvictionRequest
	refused map[requestKey]bool // what the last certain answer to a request was, while it stands
}

func (w *refusalWorld) apply(node string) {
	w.store.Apply(facts.NodeReported{Node: node, Report: &facts.NodeReport{Evictions: w.asked[node], Refused: w.told[node]}})
}

// request draws what a node requests of its own reclaimed pods.
func (w *refusalWorld) request(t *rapid.T) {
	n := rapid.IntRange(0, worldNodes-1).Draw(t, "node")
	node := fmt.Sprint("n", n)
	var asked []facts.EvictionRequest
	for p := online; p < worldPods; p++ {
		uid := facts.UID(fmt.Sprint("p", p))
		if p%worldNodes == n && rapid.Bool().Draw(t, "requested") {
			asked = append(asked, facts.EvictionRequest{UID: uid, Namespace: "default", Name: string(uid), Urgent: true})
			continue
		}
		delete(w.refused, requestKey{node, uid})
	}
	w.asked[node] = asked
	w.apply(node)
}

// answer answers every write under way; evictions as drawn.
func (w *refusalWorld) answer(outcome func(bind.WriteKind) bind.Outcome) {
	for _, id := range slices.Sorted(maps.Keys(w.open)) {
		write, answer := w.open[id], bind.Written
		delete(w.open, id)
		key := requestKey{write.Node, write.Pod}
		stands := slices.ContainsFunc(w.asked[write.Node], func(e facts.EvictionRequest) bool { return e.UID == write.Pod })
		switch write.Kind {
		case bind.EvictPod:
			if answer = outcome(write.Kind); answer == bind.Withheld && stands {
				w.refused[key] = true
			} else if certain(answer) {
				delete(w.refused, key)
			}
		case bind.WriteRefusals:
			if answer = outcome(write.Kind); answer == bind.Written {
				w.told[write.Node] = nil
				for _, p := range write.Refused {
					w.told[write.Node] = append(w.told[write.Node], p.UID)
				}
				w.apply(write.Node)
			}
		default:
		}
		w.relief.Finish(bind.Result{ID: write.ID, Outcome: answer}, w.now)
	}
	w.take()
}

// A request that is withdrawn while its eviction is under way, and made again, was not refused by a budget.
func TestRefusalEndsWithItsRequest(t *testing.T) {
	t.Parallel()
	store, now := cluster.NewStore(), began
	relief := New(store, spec.Evictions{Burst: 1})
	store.Apply(facts.NodeUpserted{Node: &facts.Node{Name: "n", Allocatable: []resource.Quantity{{Name: resource.NamePods, Amount: 1}}}})
	store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: "p", Namespace: "default", Name: "p", Node: "n", Requirements: &facts.Requirements{Reclaimed: true}}})
	request := func(requests ...facts.EvictionRequest) {
		store.Apply(facts.NodeReported{Node: "n", Report: &facts.NodeReport{Evictions: requests, Refused: store.EvictionRequests().Told("n")}})
	}
	asked := facts.EvictionRequest{UID: "p", Namespace: "default", Name: "p", Urgent: true}
	// eviction is the next eviction; what is told of refusals before it shows in the node's report.
	eviction := func() (id bind.WriteID) {
		for range 100 {
			for _, write := range slices.Clone(relief.Ready(now)) {
				switch write.Kind {
				case bind.EvictPod:
					return write.ID
				case bind.WriteRefusals:
					store.Apply(facts.NodeReported{Node: "n", Report: &facts.NodeReport{Evictions: []facts.EvictionRequest{asked}, Refused: []facts.UID{"p"}}})
				default:
				}
				relief.Finish(bind.Result{ID: write.ID, Outcome: bind.Written}, now)
			}
			now = now.Add(time.Second)
		}
		t.Fatal("nobody is evicted")
		return id
	}
	request(asked)
	relief.Finish(bind.Result{ID: eviction(), Outcome: bind.Withheld}, now)
	id := eviction()
	if got := store.EvictionRequests().Told("n"); !slices.Equal(got, []facts.UID{"p"}) {
		t.Fatalf("told %v, want p", got)
	}
	request()
	relief.Ready(now)
	request(asked)
	relief.Ready(now)
	relief.Finish(bind.Result{ID: id, Outcome: bind.Refused}, now)
	if got := relief.refusedOn("n"); len(got) > 0 {
		t.Errorf("%v are refused, and were only requested again", got)
	}
}

// At rest each node has been told of exactly those of its requests that a budget refused the last time, whatever was requested, withdrawn and answered, and
// however often the leader changed.
func TestRefusalsAreTold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &refusalWorld{world: newWorld(t), told: make(map[string][]facts.UID), asked: make(map[string][]facts.EvictionRequest), refused: make(map[requestKey]bool)}
		outcomes := []bind.Outcome{bind.Withheld, bind.Withheld, bind.Written, bind.Gone, bind.Refused, bind.NotSent, bind.Unknown}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "op") {
			case 0, 1, 2:
				w.request(t)
			case 3:
				w.restart()
				clear(w.refused) // the next leader asks anew
			case 4, 5, 6:
				w.answer(func(bind.WriteKind) bind.Outcome { return rapid.SampledFrom(outcomes).Draw(t, "outcome") })
			default:
				w.now = w.now.Add(time.Duration(rapid.IntRange(0, 20_000).Draw(t, "ms")) * time.Millisecond)
			}
			w.take()
		}
		for range 10 { // no eviction is certain any more, and everything is told
			w.answer(func(kind bind.WriteKind) bind.Outcome {
				if kind == bind.EvictPod {
					return bind.Refused
				}
				return bind.Written
			})
			w.now = w.now.Add(recheckEvery)
			w.take()
		}
		for n := range worldNodes {
			node := fmt.Sprint("n", n)
			var want []facts.UID
			for _, e := range w.asked[node] {
				if w.refused[requestKey{node, e.UID}] {
					want = append(want, e.UID)
				}
			}
			if got := w.store.EvictionRequests().Told(node); !slices.Equal(got, want) {
				t.Fatalf("%s was told that %v are refused, and %v are", node, got, want)
			}
		}
	})
}
