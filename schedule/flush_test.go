package schedule

import (
	"fmt"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/queue"
)

// finds records the wake-ups that were missed.
type finds struct {
	silent
	pods []facts.UID
}

func (f *finds) MissedWakeup(pod *cluster.Pod, _ time.Time) { f.pods = append(f.pods, pod.UID) }

// TestFlush lets a node come while the scheduler looks away, as a wake-up that is missed would: only a flush finds the pods that fit there, and says
// so. A node that comes properly, and pods that still fit nowhere, are no finds.
func TestFlush(t *testing.T) {
	var found finds
	s, err := New(Options{Config: spec.Default().Scheduling, Observer: &found})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(0, 0)
	cpus := func(n int64) []resource.Quantity {
		return []resource.Quantity{{Name: resource.NameCPU, Amount: n * 1000}}
	}
	node := func(name string, n int64) facts.Event {
		return facts.NodeUpserted{Node: &facts.Node{Name: name, Allocatable: append(cpus(n), resource.Quantity{Name: resource.NamePods, Amount: 100})}}
	}
	for n := range int64(40) { // more shapes than one flush tries
		uid := fmt.Sprintf("asks-%02d", n+1)
		s.Apply(facts.PodUpserted{Pod: facts.Pod{
			UID: facts.UID(uid), Name: uid, Namespace: "x", Ours: true, NeverPreempts: true, Requirements: &facts.Requirements{Requests: cpus(n + 1)},
		}}, now)
	}
	s.Apply(node("full", 0), now)
	s.Step(now, 1000)
	flushAll := func() {
		for range 40/flushMost + 1 {
			s.Flush()
			s.Step(now, 1000)
		}
	}
	if flushAll(); len(found.pods) > 0 {
		t.Fatalf("%v found places in a full cluster", found.pods)
	}
	s.Apply(node("proper", 1), now)
	if flushAll(); len(found.pods) > 0 || s.Store().Pod("asks-01").Node() != "proper" {
		t.Fatalf("%v are finds, though their wake-up was not missed; the first is on %q", found.pods, s.Store().Pod("asks-01").Node())
	}
	s.store.Apply(node("unseen", 2))
	s.blocked.checked = s.store.Revision()
	s.queue.Parked(func(*queue.ShapeQueue, queue.Version) (queue.Version, bool) {
		return queue.Version{Revision: s.store.Revision()}, false
	})
	if decisions := s.Step(now, 1000); decisions > 0 {
		t.Fatalf("%d decisions, though the wake-up was missed", decisions)
	}
	if flushAll(); len(found.pods) != 1 || found.pods[0] != "asks-02" {
		t.Errorf("finds are %v, want asks-02", found.pods)
	}
}
