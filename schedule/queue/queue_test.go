package queue

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hilbert.dev/hilbert/cluster"
)

// model is the queue as one would write it without caring for speed: a list of units, and for each class whether it sleeps.
type model struct {
	units  []*modelUnit
	parked map[*cluster.Class]bool
}

type modelUnit struct {
	pod   *cluster.Pod
	order int
	until time.Time
}

func (m *model) next() *modelUnit {
	var best *modelUnit
	for _, u := range m.units {
		if !u.until.IsZero() || m.parked[u.pod.Class] {
			continue
		}
		if best == nil || u.pod.Priority > best.pod.Priority ||
			u.pod.Priority == best.pod.Priority && (u.pod.Created < best.pod.Created || u.pod.Created == best.pod.Created && u.order < best.order) {
			best = u
		}
	}
	return best
}

func (m *model) remove(uid cluster.UID) {
	for i, u := range m.units {
		if u.pod.UID == uid {
			m.units = append(m.units[:i], m.units[i+1:]...)
			break
		}
	}
	for class := range m.parked { // a class without units is forgotten, and with it that it slept
		if !m.inClass(class) {
			delete(m.parked, class)
		}
	}
}

func (m *model) inClass(class *cluster.Class) bool {
	for _, u := range m.units {
		if u.pod.Class == class && u.until.IsZero() {
			return true
		}
	}
	return false
}

// TestAgainstModel drives the two-level queue and the model through the same random operations: every Pop must give the same pod, and
// the counts must agree.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q, m := New(), &model{parked: make(map[*cluster.Class]bool)}
		classes := []*cluster.Class{{ID: 1}, {ID: 2}, {ID: 3}}
		now := time.Unix(0, 0)
		for step := range rapid.IntRange(1, 120).Draw(t, "steps") {
			switch rapid.IntRange(0, 6).Draw(t, "op") {
			case 0, 1, 2:
				pod := &cluster.Pod{
					UID: cluster.UID(fmt.Sprint(step)), Class: rapid.SampledFrom(classes).Draw(t, "class"),
					Priority: rapid.Int32Range(0, 2).Draw(t, "priority"), Created: rapid.Int64Range(0, 3).Draw(t, "created"),
				}
				if _, parked := q.Add(pod); parked != m.parked[pod.Class] {
					t.Fatalf("added to a class that is parked: %v, want %v", parked, m.parked[pod.Class])
				}
				m.units = append(m.units, &modelUnit{pod: pod, order: step})
			case 3:
				uid := cluster.UID(fmt.Sprint(rapid.IntRange(0, step).Draw(t, "uid")))
				q.Remove(uid)
				m.remove(uid)
			case 4:
				class := rapid.SampledFrom(classes).Draw(t, "class")
				q.Wake(class)
				delete(m.parked, class)
			case 5:
				now = now.Add(time.Second)
				q.Expire(now)
				for _, u := range m.units {
					if !u.until.IsZero() && !u.until.After(now) {
						u.until = time.Time{}
					}
				}
			default:
				popBoth(t, q, m, now)
			}
			compareCounts(t, q, m)
		}
	})
}

func popBoth(t *rapid.T, q *Queue, m *model, now time.Time) {
	u, want := q.Pop(), m.next()
	if (u == nil) != (want == nil) || u != nil && u.Pod != want.pod.UID {
		t.Fatalf("popped %+v, want %+v", u, want)
	}
	if u == nil {
		return
	}
	switch rapid.IntRange(0, 3).Draw(t, "then") {
	case 0:
		q.Done(u)
		m.remove(u.Pod)
	case 1:
		q.Return(u)
	case 2:
		q.Park(u, Seen{Revision: 1})
		m.parked[u.Class] = true
	default:
		until := now.Add(time.Duration(rapid.IntRange(1, 3).Draw(t, "backoff")) * time.Second)
		q.Delay(u, until)
		want.until = until
		if !m.inClass(u.Class) {
			delete(m.parked, u.Class)
		}
	}
}

func compareCounts(t *rapid.T, q *Queue, m *model) {
	var active, sleeping, backing int
	for _, u := range m.units {
		switch {
		case !u.until.IsZero():
			backing++
		case m.parked[u.pod.Class]:
			sleeping++
		default:
			active++
		}
		if !q.Waits(u.pod.UID) {
			t.Fatalf("pod %s was lost", u.pod.UID)
		}
	}
	if q.Active() != active || q.Sleeping() != sleeping || q.BackingOff() != backing {
		t.Fatalf("active %d, sleeping %d, backing off %d; want %d, %d, %d", q.Active(), q.Sleeping(), q.BackingOff(), active, sleeping, backing)
	}
}

func TestParkedVisitsEachClassOnceAndRemembers(t *testing.T) {
	q := New()
	class := &cluster.Class{ID: 1}
	for _, uid := range []cluster.UID{"a", "b"} {
		q.Add(&cluster.Pod{UID: uid, Class: class})
	}
	q.Park(q.Pop(), Seen{Revision: 5})
	var visited []cluster.Revision
	visit := func(_ *cluster.Class, seen Seen) (Seen, bool) {
		visited = append(visited, seen.Revision)
		return Seen{Revision: seen.Revision + 10}, len(visited) == 2
	}
	for range 3 {
		q.Parked(visit)
	}
	if fmt.Sprint(visited) != "[5 15]" {
		t.Errorf("visited at %v, want once at 5, once at 15, and no more after waking", visited)
	}
	if u := q.Pop(); u == nil || u.Pod != "a" {
		t.Errorf("after waking, popped %+v", u)
	}
}
