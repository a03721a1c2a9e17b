package cluster_test

import (
	"fmt"
	"math/big"
	"testing"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// nearLimits are amounts that sums of int64 break at.
var nearLimits = []int64{
	0, 1, 1000, 8 << 30, resource.MaxAmount - 1, resource.MaxAmount, resource.MaxAmount + 1, resource.MaxSum - 1, resource.MaxSum, 5 << 60, 1<<63 - 1, -1 << 63, -5,
}

func (b *bytesOf) nearLimit() int64 { return nearLimits[int(b.byte())%len(nearLimits)] }

func (b *bytesOf) requests() []resource.Quantity {
	return []resource.Quantity{{Name: resource.NameCPU, Amount: b.nearLimit()}, {Name: resource.NameMemory, Amount: b.nearLimit()}, {Name: "x/y", Amount: b.nearLimit()}}
}

// FuzzAmounts has pods, nodes and queues of absurd amounts come and go, some placed by Commit, some by others. After each event the ledger is what
// Verify sums up in an arithmetic without limits; a node and a queue whose exact sum is too much have no room; and when all have left, nothing is
// used.
func FuzzAmounts(f *testing.F) {
	f.Add([]byte{0, 3, 3, 3, 1, 0, 0, 9, 9, 9, 1, 1, 0, 9, 9, 9, 2, 2, 0, 2, 2, 2, 3, 2})
	f.Add([]byte{4, 3, 3, 3, 0, 10, 10, 10, 1, 0, 0, 10, 10, 10, 1, 1, 1, 10, 10, 10, 1, 2, 1, 10, 10, 10, 5, 0, 5, 1})
	var crowd []byte // so many that their sum does not fit an int64, whatever bounds one of them
	for i := range byte(200) {
		crowd = append(crowd, 1, i, 0, 9, 9, 9)
	}
	f.Add(append(crowd, 5, 0, 0, 1, 4, 3, 3, 3, 10, 10, 10, 3, 3, 3, 3, 199, 0, 0, 0, 1, 9, 11, 12))
	f.Fuzz(func(t *testing.T, data []byte) {
		read := bytesOf(data)
		store := cluster.NewStore()
		store.Apply(facts.NodeUpserted{Node: &facts.Node{Name: "n0", Allocatable: []resource.Quantity{
			{Name: resource.NameMemory, Amount: 8 << 30}, {Name: resource.NamePods, Amount: 500},
		}}})
		for range 256 {
			if len(read) == 0 {
				break
			}
			fuzzAmountsEvent(store, &read)
			if err := store.Verify(); err != nil {
				t.Fatal(err)
			}
			checkRoom(t, store)
		}
		store.Apply(facts.PodsListed{})
		if err := store.Verify(); err != nil {
			t.Fatal(err)
		}
		for kind := range resource.Kind(store.Kinds()) {
			if used := store.Quota().Root().Used(kind); used != 0 {
				t.Fatalf("no pod is left, and %d %s are used", used, store.KindName(kind))
			}
		}
	})
}

func fuzzAmountsEvent(store *cluster.Store, read *bytesOf) {
	op, uid := read.byte()%6, facts.UID(fmt.Sprint("p", read.byte()))
	node := fmt.Sprint("n", read.byte()%2)
	switch op {
	case 0:
		list := append(read.requests(), resource.Quantity{Name: resource.NamePods, Amount: 500})
		store.Apply(facts.NodeUpserted{Node: &facts.Node{Name: node, Allocatable: list}})
	case 1:
		r := read.requests()
		store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: uid, Namespace: "x", Name: "p", Node: node, Requirements: &facts.Requirements{
			Requests: r, ScoreCPU: r[0].Amount, ScoreMemory: r[1].Amount, PodLevelCPU: r[2].Amount,
		}}})
	case 2:
		store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: uid, Namespace: "x", Name: "p", Ours: true, Requirements: &facts.Requirements{Requests: read.requests()}}})
		store.Commit(&cluster.Plan{Placements: []cluster.Placement{{Pod: uid, Node: node}}}, rules.Commits)
	case 3:
		store.Apply(facts.PodRemoved{UID: uid})
	case 4:
		store.Apply(facts.QueueUpserted{Queue: &facts.Queue{Name: "default", Guaranteed: read.requests(), Max: read.requests()}})
		store.Apply(facts.QueueUpserted{Queue: &facts.Queue{Name: "b", Parent: "default", Guaranteed: read.requests()}})
	case 5:
		labels := []facts.Label{{Key: spec.LabelQueue, Value: []string{"default", "b"}[read.byte()%2]}}
		store.Apply(facts.NamespaceUpserted{Namespace: facts.Namespace{Name: "x", Labels: labels}})
	}
}

// checkRoom sums what pods hold, and asks nodes and queues that have too much of it whether they have room.
func checkRoom(t *testing.T, store *cluster.Store) {
	for slot := range cluster.Slot(store.Slots()) {
		for kind := range resource.Kind(store.Kinds()) {
			var sum big.Int
			for _, pod := range store.PodsOn(slot) {
				sum.Add(&sum, big.NewInt(pod.Class.Amounts.Get(kind)))
			}
			if has := store.Allocatable(slot, kind); has < 0 || has > resource.MaxAmount {
				t.Fatalf("a node has %d %s", has, store.KindName(kind))
			}
			free := new(big.Int).Sub(big.NewInt(store.Allocatable(slot, kind)), &sum)
			if is := store.Free(slot, kind); big.NewInt(is).Cmp(free) < 0 && free.Sign() < 0 && is >= 0 || is > 0 && free.Sign() <= 0 || is != free.Int64() && free.CmpAbs(big.NewInt(resource.MaxAmount)) < 0 {
				t.Fatalf("%d of %s are free, exactly %s", is, store.KindName(kind), free)
			}
		}
	}
	for kind := range resource.Kind(store.Kinds()) {
		q := store.Quota().Queue("default")
		if _, ok := q.Admits(resource.List{{Kind: kind, Value: 1}}); ok && q.Used(kind) >= q.Limit(kind) {
			t.Fatalf("a queue with %d of %d %s has room", q.Used(kind), q.Limit(kind), store.KindName(kind))
		}
	}
}
