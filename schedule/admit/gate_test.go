package admit_test

import (
	"fmt"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/admit"
	"hilbert.dev/hilbert/schedule/queue"
)

// TestClaim plays the example of Claims: a queue with a limit of 8 CPUs uses 6, and a gang that waits for 4 claims the rest. A pod that asks
// for one is not admitted until the claim is released.
func TestClaim(t *testing.T) {
	store := cluster.NewStore()
	cpus := func(n int64) []resource.Quantity {
		return []resource.Quantity{{Name: resource.NameCPU, Amount: n * 1000}}
	}
	pod := func(name, unit, node string, n int64) *cluster.Pod {
		store.Apply(facts.PodUpserted{Pod: facts.Pod{
			UID: facts.UID(name), Namespace: "ml", Name: name, Unit: unit, Node: node, Ours: node == "", Requirements: &facts.Requirements{Requests: cpus(n)},
		}})
		return store.Pod(facts.UID(name))
	}
	store.Apply(facts.NodeUpserted{Node: &facts.Node{Name: "n", Allocatable: append(cpus(64), resource.Quantity{Name: resource.NamePods, Amount: 110})}})
	store.Apply(facts.QueueUpserted{Queue: &facts.Queue{Name: "ml", Weight: 1, Max: cpus(8)}})
	store.Apply(facts.NamespaceUpserted{Namespace: facts.Namespace{Name: "ml", Labels: []facts.Label{{Key: spec.LabelQueue, Value: "ml"}}}})
	train := facts.UnitName{Namespace: "ml", Name: "train"}
	store.Apply(facts.UnitUpserted{Unit: &facts.Unit{UnitName: train, UID: "train", MinMember: 4}})
	pod("runs", "", "n", 6)

	q := queue.New(store)
	gate := admit.NewGate(store, 4)
	single, _ := q.Add(pod("single", "", "", 1))
	for i := range 4 {
		q.Add(pod(fmt.Sprint("train-", i), train.Name, "", 1))
	}
	gang := q.Gang(store.Units().Get(train))

	if _, short, admitted := gate.Ask(gang); admitted || short.NeverFits() || short.Queue.Name != "ml" {
		t.Fatalf("a gang that asks for 4 of 8 CPUs, of which 6 are in use: admitted %v, %+v", admitted, short)
	}
	if _, _, admitted := gate.Ask(single); !admitted {
		t.Fatal("nothing is claimed yet")
	}
	now := time.Unix(100, 0)
	gate.Reservations.Want(gang, now)
	if !gate.Reservations.Due(now, time.Minute) {
		t.Fatal("a gang was added: nodes are to be chosen")
	}
	if fresh := gate.Reservations.Choose(now); len(fresh) != 0 {
		t.Fatalf("nodes are of no use before the limit leaves room, %d gangs got some", len(fresh))
	}
	_, short, admitted := gate.Ask(single)
	if admitted || short.ReservedFor != train || short.Reserved != 4000 || gate.Condition(&short).Reason != spec.ReasonWaitingForQuota {
		t.Fatalf("the rest of the limit is claimed: admitted %v, %+v", admitted, short)
	}
	resume := gate.Claims.Suspend()
	if _, _, admitted := gate.Ask(single); !admitted {
		t.Error("claims are suspended")
	}
	resume()
	store.Apply(facts.PodRemoved{UID: "runs"})
	if _, _, admitted := gate.Ask(gang); !admitted {
		t.Error("the limit leaves room for the gang")
	}
	gate.Release(train)
	if _, _, admitted := gate.Ask(single); !admitted || gate.Claims.Len() != 0 {
		t.Error("the claim is released")
	}
}

// TestReservationsInVain lets gangs wait long that no node can hold, all of one namespace and of the highest priority. Choose does not look at all nodes for
// each of them each time, and reserves a node for the gang of another namespace at once.
func TestReservationsInVain(t *testing.T) {
	store := cluster.NewStore()
	for i := range 4 {
		store.Apply(facts.NodeUpserted{Node: &facts.Node{Name: fmt.Sprint("n", i), Allocatable: []resource.Quantity{
			{Name: resource.NameCPU, Amount: 4000}, {Name: resource.NamePods, Amount: 110},
		}}})
		store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: facts.UID(fmt.Sprint("f", i)), Namespace: "x", Node: fmt.Sprint("n", i), Requirements: &facts.Requirements{
			Requests: []resource.Quantity{{Name: resource.NameCPU, Amount: 3000}},
		}}})
	}
	q := queue.New(store)
	gate := admit.NewGate(store, 2)
	now := time.Unix(100, 0)
	wait := func(namespace, name string, cpu int64, priority int32) {
		unit := facts.UnitName{Namespace: namespace, Name: name}
		store.Apply(facts.UnitUpserted{Unit: &facts.Unit{UnitName: unit, UID: facts.UID(name), MinMember: 2}})
		for m := range 2 {
			uid := facts.UID(fmt.Sprint(name, "-", m))
			store.Apply(facts.PodUpserted{Pod: facts.Pod{
				UID: uid, Namespace: namespace, Name: string(uid), Unit: name, Ours: true, Priority: priority,
				Requirements: &facts.Requirements{Requests: []resource.Quantity{{Name: resource.NameCPU, Amount: cpu}}},
			}})
			q.Add(store.Pod(uid))
		}
		gate.Reservations.Want(q.Gang(store.Units().Get(unit)), now)
	}
	for g := range int64(100) {
		wait("many", fmt.Sprint("g", g), 5000+g, 10)
	}
	wait("one", "train", 4000, 0)
	wait("many", "last", 4000, 0)
	for range 3 {
		gate.Reservations.Due(now, time.Second)
		gate.Reservations.Choose(now)
		if list := gate.Reservations.List(); len(list) != 1 || list[0].Unit.Name != "train" {
			t.Fatalf("reserved is %+v", list)
		}
	}
	for range 150 {
		now = now.Add(time.Second)
		gate.Reservations.Due(now, time.Second)
		before := gate.Reservations.Tried()
		gate.Reservations.Choose(now)
		if tried := gate.Reservations.Tried() - before; tried > 8+2 {
			t.Fatalf("%d gangs were tried at once", tried)
		}
	}
	if list := gate.Reservations.List(); len(list) != 2 {
		t.Errorf("in 150 seconds all gangs have had their turn, reserved is %+v", list)
	}
}
