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
