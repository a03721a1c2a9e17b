package queue

import (
	"fmt"
	"testing"
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/resource"
)

// TestIdleShapeQueuesAreBounded: shapes that come and go leave only so much behind, and one that comes back soon finds its shape queue.
func TestIdleShapeQueuesAreBounded(t *testing.T) {
	w := newWorld()
	for i := range 3 * maxIdleShapeQueues {
		w.see(facts.PodUpserted{Pod: podFacts("n", fmt.Sprint(i), int64(i+1))})
		w.q.Done(w.q.Pop())
	}
	if err := w.q.verify(); err != nil {
		t.Fatal(err)
	}
	if queues, shapes := w.q.queues.idle.len, len(w.q.queues.shapes.singles); queues != maxIdleShapeQueues || shapes != maxIdleShapeQueues {
		t.Errorf("%d shape queues and %d shapes are kept, want %d", queues, shapes, maxIdleShapeQueues)
	}
	pod := w.store.Pod("n/5")
	w.q.Add(pod)
	if err := w.q.verify(); err != nil {
		t.Fatal(err)
	}
	if u := w.q.Pop(); u == nil || u.Pod != "n/5" {
		t.Errorf("popped %+v", u)
	}
}

// TestIdleNamespacesArePruned: namespaces that come and go leave nothing behind in a queue that they share, once what they had is forgotten.
func TestIdleNamespacesArePruned(t *testing.T) {
	for _, sort := range []facts.SortPolicy{facts.Fair, facts.FairHistory} {
		w := newWorld()
		w.see(facts.QueueUpserted{Queue: &facts.Queue{Name: facts.DefaultQueue, Sort: sort, HalfLife: int64(time.Minute)}})
		for i := range 500 {
			pod := podFacts(fmt.Sprint("n", i), "p", 1)
			w.see(facts.PodUpserted{Pod: pod})
			u := w.q.Pop()
			w.place(u.Members())
			w.q.Done(u)
			w.now = w.now.Add(time.Minute)
			w.q.Expire(w.now)
			w.see(facts.PodRemoved{UID: pod.UID})
		}
		if err := w.q.verify(); err != nil {
			t.Fatal(err)
		}
		if kept := len(w.q.tree.leaves[w.store.Quota().Queue(facts.DefaultQueue)].tenants); kept > 100 {
			t.Errorf("%s: %d namespaces are kept", policies[sort].name, kept)
		}
	}
}

// TestChangesOfIdleQuotaAreSkipped: where no queue is configured, the ledger does not gather what namespaces that come and go have used.
func TestChangesOfIdleQuotaAreSkipped(t *testing.T) {
	w := newWorld()
	for i := range 3 * changes.Kept {
		pod := podFacts(fmt.Sprint("n", i), "p", 1)
		w.see(facts.PodUpserted{Pod: pod})
		u := w.q.Pop()
		w.place(u.Members())
		w.q.Done(u)
		w.see(facts.PodRemoved{UID: pod.UID})
	}
	var all quota.Cursor
	if _, tenants, _ := w.store.Quota().Changed(&all); len(tenants) > 2*changes.Kept {
		t.Errorf("the changes of %d tenants are kept, want %d at most", len(tenants), 2*changes.Kept)
	}
}

// TestAddDelayed: a pod that waits already is not counted twice.
func TestAddDelayed(t *testing.T) {
	w := newWorld()
	w.see(facts.PodUpserted{Pod: podFacts("n", "p", 1)})
	w.q.AddDelayed(w.store.Pod("n/p"), 0, w.now.Add(time.Second))
	if err := w.q.verify(); err != nil {
		t.Fatal(err)
	}
	if w.q.Counts().BackingOff != 1 || w.q.Counts().Ready != 0 {
		t.Errorf("%d back off, %d are active", w.q.Counts().BackingOff, w.q.Counts().Ready)
	}
	if at, ok := w.q.NextExpiry(); !ok || !at.Equal(w.now.Add(time.Second)) {
		t.Errorf("the backoff ends at %v, %v", at, ok)
	}
	w.q.Expire(w.now.Add(time.Second))
	if u := w.q.Pop(); u == nil || u.Pod != "n/p" {
		t.Errorf("popped %+v", u)
	}
}

// TestParkedVisitsEachShapeQueueOnce: what a shape queue has looked at is kept until it wakes.
func TestParkedVisitsEachShapeQueueOnce(t *testing.T) {
	w := newWorld()
	for _, name := range []string{"a", "b"} {
		w.see(facts.PodUpserted{Pod: podFacts("n", name, 1)})
	}
	w.q.Park(w.q.Pop(), Version{Revision: 5})
	var visited []changes.Revision
	for range 3 {
		w.q.Parked(func(sq *ShapeQueue, seen Version) (Version, bool) {
			if sq.Queue().Name != facts.DefaultQueue || sq.Len() != 2 {
				t.Errorf("a shape queue of %d in %s", sq.Len(), sq.Queue().Name)
			}
			visited = append(visited, seen.Revision)
			return Version{Revision: seen.Revision + 10}, len(visited) == 2
		})
	}
	if fmt.Sprint(visited) != "[5 15]" {
		t.Errorf("visited at %v, want once at 5, once at 15, and no more after waking", visited)
	}
	if u := w.q.Pop(); u == nil || u.Pod != "n/a" {
		t.Errorf("after waking, popped %+v", u)
	}
}

// TestRefusalOfOneGangDoesNotSpeakForAll: what is left of a limit may be kept for one of several gangs that are alike, and that need not be the
// first of them.
func TestRefusalOfOneGangDoesNotSpeakForAll(t *testing.T) {
	seen := leafFacts("q", "", 1, 0)
	seen.Max = []resource.Quantity{{Name: resource.NameCPU, Amount: 1}}
	w := newTenancy(100, 4, seen)
	var blocker []*cluster.Pod
	w.want("q", 1)
	blocker = append(blocker, w.q.Pop().Members()[0])
	w.place(blocker)
	w.q.Done(w.q.Unit(blocker[0].UID))
	for i := range 3 {
		gang := fmt.Sprint("g", i)
		w.see(facts.UnitUpserted{Unit: &facts.Unit{UnitName: facts.UnitName{Namespace: "q", Name: gang}, MinMember: 1}})
		seen := podFacts("q", gang, 1)
		seen.Unit, seen.Created = gang, int64(i)
		w.see(facts.PodUpserted{Pod: seen})
	}
	at := w.store.Quota().Queue("q")
	for range 3 {
		w.q.BlockByQuota(w.q.Pop(), at)
	}
	if u := w.q.Pop(); u != nil {
		t.Fatalf("%s was tried again though nothing has changed", u.Key())
	}
	w.see(facts.PodRemoved{UID: blocker[0].UID})
	tried := make(map[string]int)
	for u := w.q.Pop(); u != nil; u = w.q.Pop() {
		tried[u.Key()]++
		w.q.BlockByQuota(u, at)
	}
	if len(tried) != 3 || tried["q/g0"] != 1 || tried["q/g1"] != 1 || tried["q/g2"] != 1 {
		t.Errorf("tried %v, want each once", tried)
	}
}

// TestUnitOutlivesItsMembers: who has popped a gang may ask it for its names and its queue after all members have got places.
func TestUnitOutlivesItsMembers(t *testing.T) {
	w := newWorld()
	w.see(facts.UnitUpserted{Unit: &facts.Unit{UnitName: facts.UnitName{Namespace: "n", Name: "g"}, MinMember: 1}})
	seen := podFacts("n", "p", 1)
	seen.Unit = "g"
	w.see(facts.PodUpserted{Pod: seen})
	u := w.q.Pop()
	w.place(u.Members())
	w.q.Done(u)
	if u.Queue().Name != facts.DefaultQueue || u.Key() != "n/g" || len(u.Members()) != 0 {
		t.Errorf("%s of %s has %v", u.Key(), u.Queue().Name, u.Members())
	}
	w.q.Return(u) // it is known no more
	if w.q.Counts().Ready != 0 || w.q.Pop() != nil {
		t.Error("a unit that is done waits again")
	}
}
