package cluster_test

import (
	"fmt"
	"testing"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// BenchmarkCommit is what the ledger itself costs of a placement: giving it up and taking it again, without a filter.
func BenchmarkCommit(b *testing.B) {
	for _, levels := range []int{0, 3} {
		b.Run(fmt.Sprint("levels=", levels), func(b *testing.B) { benchmarkCommit(b, levels) })
	}
}

func benchmarkCommit(b *testing.B, levels int) {
	store := cluster.NewStore()
	nest(store, levels)
	const pods = 4096
	for i := range pods {
		store.Apply(cluster.NodeUpserted{Node: &cluster.Node{Name: fmt.Sprint("n", i), Allocatable: []resource.Quantity{
			{Name: "cpu", Amount: 64000}, {Name: "memory", Amount: 1 << 38}, {Name: "pods", Amount: 110},
		}}})
	}
	need := &cluster.Requirements{Requests: []resource.Quantity{{Name: "cpu", Amount: 1000}, {Name: "memory", Amount: 1 << 30}}}
	free := func(*cluster.State, cluster.Slot, *cluster.Class, *topology.Grant) string { return "" }
	plan := &cluster.Plan{Placements: make([]cluster.Placement, 1)}
	uids := make([]cluster.UID, pods)
	for i := range uids {
		uids[i] = cluster.UID(fmt.Sprint("p", i))
		store.Apply(cluster.PodUpserted{Pod: cluster.PodFacts{UID: uids[i], Namespace: "x", Name: string(uids[i]), Ours: true, Requirements: need}})
		plan.Placements[0] = cluster.Placement{Pod: uids[i], Node: fmt.Sprint("n", i)}
		if v := store.Commit(plan, free); !v.Committed {
			b.Fatal(v)
		}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		pod := store.Pod(uids[i%pods])
		plan.Placements[0] = cluster.Placement{Pod: pod.UID, Node: pod.Node()}
		store.Release(pod.UID)
		if !store.Commit(plan, free).Committed {
			b.Fatal("rejected")
		}
	}
}

// nest puts namespace x into a queue so many levels below the root, each with a limit.
func nest(store *cluster.Store, levels int) {
	parent := cluster.RootQueue
	for i := range levels {
		name := fmt.Sprint("q", i)
		store.Apply(cluster.QueueUpserted{Queue: &cluster.QueueFacts{Name: name, Parent: parent, Max: []resource.Quantity{{Name: "cpu", Amount: 1 << 40}}}})
		parent = name
	}
	store.Apply(cluster.NamespaceUpserted{Namespace: cluster.Namespace{Name: "x", Labels: []cluster.Label{{Key: spec.LabelQueue, Value: parent}}}})
}

// BenchmarkNamespace is what a namespace costs that comes with a label for another queue, and BenchmarkQueue what a queue costs that is
// configured anew, where there are 1,000 queues in three levels.
func BenchmarkNamespace(b *testing.B) {
	for _, namespaces := range []int{500, 5000} {
		b.Run(fmt.Sprint("namespaces=", namespaces), func(b *testing.B) {
			store := forest(namespaces)
			for i := 0; b.Loop(); i++ {
				store.Apply(cluster.NamespaceUpserted{Namespace: forestNamespace(i%namespaces, i+i/namespaces)})
				store.ChangedQueues()
			}
		})
	}
}

func BenchmarkQueue(b *testing.B) {
	store := forest(5000)
	for i := 0; b.Loop(); i++ {
		store.Apply(cluster.QueueUpserted{Queue: forestQueue(i%1000, int64(i))})
		store.ChangedQueues()
	}
}

func forest(namespaces int) *cluster.Store {
	store := cluster.NewStore()
	var queues []*cluster.QueueFacts
	for i := range 1000 {
		queues = append(queues, forestQueue(i, 1))
	}
	store.Apply(cluster.QueuesListed{Queues: queues})
	for i := range namespaces {
		uid := cluster.UID(fmt.Sprint("p", i))
		store.Apply(cluster.NamespaceUpserted{Namespace: forestNamespace(i, i)})
		store.Apply(cluster.PodUpserted{Pod: cluster.PodFacts{
			UID: uid, Namespace: fmt.Sprint("ns", i), Name: string(uid), Ours: true, Requirements: townNeeds[0],
		}})
	}
	return store
}

func forestQueue(i int, cpu int64) *cluster.QueueFacts {
	q := &cluster.QueueFacts{Name: fmt.Sprint("q", i), Guaranteed: []resource.Quantity{{Name: "cpu", Amount: cpu}}}
	if i >= 10 {
		q.Parent = fmt.Sprint("q", i/10)
	}
	return q
}

func forestNamespace(i, queue int) cluster.Namespace {
	return cluster.Namespace{Name: fmt.Sprint("ns", i), Labels: []cluster.Label{{Key: spec.LabelQueue, Value: fmt.Sprint("q", queue%1000)}}}
}
