package request

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Whatever is lost, late or replaced: no pod is made that is not asked for, none is left over, no failure counts twice, and in the end all have what they asked for.
func TestEveryoneIsServed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Defaults()
		p.MaxWaiting, p.RetryMost = 12, 8*time.Second
		w := newWorld(rapid.Uint64().Draw(t, "seed"), p)
		w.answers = w.random.IntN(3) == 0
		w.full[Nodes] = w.random.IntN(2) == 0
		w.full[Racks] = w.random.IntN(2) == 0
		for round := range 120 {
			w.masters(round)
			w.step()
			if w.random.IntN(25) == 0 {
				w.elect()
			}
			if len(w.wrong) > 0 {
				t.Fatal(strings.Join(w.wrong, "\n"))
			}
		}
		w.faults, w.full = false, map[Level]bool{}
		for range 90 {
			w.step()
		}
		if len(w.wrong) > 0 {
			t.Fatal(strings.Join(w.wrong, "\n"))
		}
		w.settled(t)
	})
}

// masters ask, release and ask again.
func (w *world) masters(round int) {
	r := w.random
	if len(w.requests) < 5 && r.IntN(4) == 0 {
		a := Ask{Name: "map", Count: 1 + r.IntN(6), Retries: 3}
		for l := range a.Relax {
			a.Relax[l] = Relax{Named: r.IntN(2) == 0, Relaxes: r.IntN(4) > 0, After: time.Duration(r.IntN(9)) * time.Second}
		}
		q := Request{Key: Key{fmt.Sprintf("ns%d", r.IntN(2)), fmt.Sprintf("job%d", round)}, Gang: !w.answers && r.IntN(3) == 0, Asks: []Ask{a}}
		if !q.Gang && r.IntN(2) == 0 {
			q.Asks = append(q.Asks, Ask{Name: "reduce", Count: r.IntN(4), Retries: 1})
		}
		w.ask(q)
	}
	if len(w.requests) == 0 {
		return
	}
	at := r.IntN(len(w.requests))
	q := w.requests[at]
	q.Asks = slices.Clone(q.Asks)
	k := r.IntN(len(q.Asks))
	a := &q.Asks[k]
	switch r.IntN(60) {
	case 0:
		w.requests = slices.Delete(w.requests, at, at+1)
		w.state.Forget(q.UID)
	case 1, 2, 3:
		if a.Count > 0 {
			a.Release = append(slices.Clone(a.Release), r.IntN(a.Count))
		}
	case 4, 5, 6:
		if !q.Gang {
			for range 1 + r.IntN(3) {
				id := slotID{a.Name, a.Count} // it may have been there before
				delete(q.done, id)
				delete(q.final, id)
				a.Count++
			}
		}
	case 7:
		if !q.Gang && a.Count > 0 {
			a.Count--
			a.Release = slices.DeleteFunc(slices.Clone(a.Release), func(i int) bool { return i >= a.Count })
		}
	case 8:
		if len(q.Asks) > 1 {
			q.Asks = slices.Delete(q.Asks, k, k+1)
		}
	}
	q.Generation++
}

// settled checks that all have what they asked for, that the statuses say so, and that nothing is left over.
func (w *world) settled(t *rapid.T) {
	wanted := make(map[string]bool)
	for _, q := range w.requests {
		has := make(map[slotID]Slot)
		for _, s := range q.Status {
			has[slotID{s.Ask, s.Index}] = s
		}
		for i := range q.Asks {
			a := &q.Asks[i]
			for index := range a.Count {
				name, s := NameOf(&q.Request, a.Name, index), has[slotID{a.Name, index}]
				wanted[name] = true
				p := w.pods[name]
				want := SlotRunning
				switch {
				case slices.Contains(a.Release, index):
					if want = SlotReleased; p != nil {
						t.Fatalf("%s %s/%d was released, and there is a pod", q, a.Name, index)
					}
				case s.State == SlotSucceeded && q.ever[slotID{a.Name, index}]:
					want = SlotSucceeded
				case s.State == SlotFailed && s.Failures == a.Retries+1:
					want = SlotFailed
				case p == nil || p.Phase != Running:
					t.Fatalf("%s %s/%d has no pod that runs: %+v; the status says %+v", q, a.Name, index, p, s)
				}
				if s.State != want {
					t.Fatalf("%s %s/%d is %q, want %s", q, a.Name, index, s.State, want)
				}
			}
		}
	}
	for name, p := range w.pods {
		if !wanted[name] {
			t.Fatalf("pod %+v is left over", p)
		}
	}
}

// inDNS is what the API server takes as the name of a pod.
var inDNS = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// Names of pods and PodGroups are names in DNS, whatever the request is called.
func TestNames(t *testing.T) {
	for _, name := range []string{"words", "a.b", strings.Repeat("a", 63), strings.Repeat("a", 35) + ".b", strings.Repeat("a", 35) + "-b"} {
		r := &Request{Key: Key{Name: name}, UID: "u"}
		for _, made := range []string{NameOf(r, "map", 999), GroupOf(name, "u")} {
			if !inDNS.MatchString(made) || len(made) > 63 {
				t.Errorf("%s has %s", name, made)
			}
		}
	}
}

// The first status of a State may say what is there already; each later one is to be written, though its first write was lost.
func TestFirstStatus(t *testing.T) {
	for _, result := range []Result{Done, Unknown} {
		s, now := NewState(Defaults()), time.Unix(1000, 0)
		v := View{Requests: []Request{{Key: Key{"ns", "words"}, UID: "u", Generation: 1, Asks: []Ask{{Name: "map", Count: 1}}}}}
		for i, want := range []bool{true, false, false} {
			v.Requests[0].Generation++
			var first []bool
			actions, _ := s.Decide(&v, now)
			for k := range actions {
				if a := &actions[k]; a.Status != nil {
					first = append(first, a.Status.First)
					s.Done(a, result, "", now)
				}
			}
			if !slices.Equal(first, []bool{want}) {
				t.Errorf("statuses of decision %d are the first: %v", i, first)
			}
			now = now.Add(time.Minute)
		}
	}
}
