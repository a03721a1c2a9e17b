package cluster

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster/facts"
)

// evictedWorld is one gang, of which members are evicted, end by themselves, and are replaced.
type evictedWorld struct {
	store       *Store
	name        facts.UnitName
	need        int
	indivisible bool
	divisible   bool
	running     map[facts.UID]bool
	asked       map[facts.UID][]string // to be evicted, and not refused: each time "asked", or "lost"
	next        int
	fell        bool // by the rule
}

func (w *evictedWorld) pod(uid facts.UID) facts.Pod {
	return facts.Pod{UID: uid, Namespace: "ns", Name: string(uid), Ours: true, Node: "n1", Unit: "g", Requirements: &facts.Requirements{}}
}

func (w *evictedWorld) join() {
	uid := facts.UID(fmt.Sprint("p", w.next))
	w.next++
	w.running[uid] = true
	w.store.Apply(facts.PodUpserted{Pod: w.pod(uid)})
	if len(w.running) >= w.need && !w.indivisible {
		w.fell = false
	}
}

// leave lets a member go, as the watch tells it.
func (w *evictedWorld) leave(t *rapid.T, uid facts.UID) {
	delete(w.running, uid)
	if len(w.asked[uid]) > 0 && !w.divisible && (w.indivisible || len(w.running) < w.need) {
		w.fell = true
	}
	if len(w.running) == 0 {
		w.fell = false
	}
	if rapid.Bool().Draw(t, "terminates") {
		going := w.pod(uid)
		going.Deleting = true
		w.store.Apply(facts.PodUpserted{Pod: going})
	}
	w.store.Apply(facts.PodRemoved{UID: uid})
}

// refused lets the API server refuse one of the evictions that wait for an answer, or its answer be lost.
func (w *evictedWorld) refused(uid facts.UID, lost bool) {
	list := w.asked[uid]
	i := slices.Index(list, "asked")
	switch {
	case i < 0:
	case lost:
		list[i] = "lost"
	default:
		w.asked[uid] = slices.Delete(list, i, i+1)
	}
}

// check compares what the ledger says of the gang with the rule.
func (w *evictedWorld) check(t *rapid.T, u *Unit) {
	if u.Fell() != w.fell || u.Running() != (len(w.running) > 0 && !w.fell) {
		t.Fatalf("%d run of %d: fell %v, running %v; by the rule it fell: %v", len(w.running), w.need, u.Fell(), u.Running(), w.fell)
	}
	if tooFew := w.indivisible || len(w.running) < w.need; u.Partial() != (w.fell && tooFew && len(w.running) > 0) {
		t.Fatalf("%d run of %d, fell %v: partial %v", len(w.running), w.need, w.fell, u.Partial())
	}
}

// A gang that ran and has lost a member to an eviction, so that the others are too few, is partial, until others have come or none is left, whether
// the answer was lost or not. One whose members leave by themselves, or after an eviction that was refused, runs on; and one whose PodGroup says that they
// leave one by one.
func TestEvictedGangsFall(t *testing.T) {
	fell, ranOn, apart := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := &evictedWorld{
			store: NewStore(), name: facts.UnitName{Namespace: "ns", Name: "g"}, need: rapid.IntRange(2, 4).Draw(t, "need"),
			running: map[facts.UID]bool{}, asked: map[facts.UID][]string{},
		}
		switch rapid.IntRange(0, 2).Draw(t, "mode") {
		case 1:
			w.indivisible = true
		case 2:
			w.divisible = true
		}
		w.store.Apply(facts.NodeUpserted{Node: &facts.Node{Name: "n1", Labels: map[string]string{}}})
		w.store.Apply(facts.UnitUpserted{Unit: &facts.Unit{UnitName: w.name, UID: "g", MinMember: int32(w.need), Indivisible: w.indivisible, Divisible: w.divisible, Scheduled: true}})
		for range w.need + rapid.IntRange(0, 2).Draw(t, "more") {
			w.join()
		}
		units := w.store.Units()
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			members := units.Get(w.name).Pods()
			if len(members) == 0 {
				break
			}
			pod := rapid.SampledFrom(members).Draw(t, "member")
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				units.Evicting(pod)
				w.asked[pod.UID] = append(w.asked[pod.UID], "asked")
			case 1: // an answer that was lost proves nothing, then or later
				units.NotEvicted(pod, true)
				w.refused(pod.UID, true)
			case 2:
				units.NotEvicted(pod, false)
				w.refused(pod.UID, false)
			case 3:
				w.leave(t, pod.UID)
			case 4:
				w.join()
			}
			w.check(t, units.Get(w.name))
			if w.fell {
				fell++
			} else if len(w.running) > 0 && len(w.running) < w.need {
				ranOn++
				if w.divisible && len(w.asked) > 0 {
					apart++
				}
			}
		}
	})
	if !testing.Short() && (fell == 0 || ranOn == 0 || apart == 0) { // few histories need not have all of it
		t.Errorf("%d gangs fell, %d ran on, %d of them because their members leave one by one", fell, ranOn, apart)
	}
}

// An answer that was lost is not made good by a later refusal: the member may leave yet.
func TestLostAnswerOfEviction(t *testing.T) {
	for _, lost := range []bool{false, true} {
		w := &evictedWorld{store: NewStore(), name: facts.UnitName{Namespace: "ns", Name: "g"}, need: 2, running: map[facts.UID]bool{}, asked: map[facts.UID][]string{}}
		w.store.Apply(facts.UnitUpserted{Unit: &facts.Unit{UnitName: w.name, UID: "g", MinMember: 2}})
		w.join()
		w.join()
		units, pod := w.store.Units(), w.store.Pod("p0")
		units.Evicting(pod)
		units.NotEvicted(pod, lost)
		units.Evicting(pod)
		units.NotEvicted(pod, false)
		w.store.Apply(facts.PodRemoved{UID: "p0"})
		if u := units.Get(w.name); u.Fell() != lost {
			t.Errorf("lost %v: fell %v", lost, u.Fell())
		}
	}
}
