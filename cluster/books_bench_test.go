package cluster_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// BenchmarkCommit is what the ledger itself costs of a placement: giving it up and taking it again, without a filter. The last rows are where agents
// report; where they lend too, of an online pod; and there of a reclaimed one.
func BenchmarkCommit(b *testing.B) {
	online := []resource.Quantity{{Name: "cpu", Amount: 1000}, {Name: "memory", Amount: 1 << 30}}
	reclaimed := []resource.Quantity{{Name: spec.ResourceReclaimedCPU, Amount: 1000}, {Name: spec.ResourceReclaimedMemory, Amount: 1 << 30}}
	for _, levels := range []int{0, 3} {
		b.Run(fmt.Sprint("levels=", levels), func(b *testing.B) { benchmarkCommit(b, levels, nil, &facts.Requirements{Requests: online}) })
	}
	said := &facts.NodeReport{}
	b.Run("reported", func(b *testing.B) { benchmarkCommit(b, 0, said, &facts.Requirements{Requests: online}) })
	lent := &facts.NodeReport{Headroom: facts.Headroom{State: facts.HeadroomOpen, MilliCPU: 32000, Memory: 1 << 37}}
	b.Run("lent", func(b *testing.B) { benchmarkCommit(b, 0, lent, &facts.Requirements{Requests: online}) })
	b.Run("reclaimed", func(b *testing.B) {
		benchmarkCommit(b, 0, lent, &facts.Requirements{Requests: reclaimed, Reclaimed: true})
	})
}

func benchmarkCommit(b *testing.B, levels int, report *facts.NodeReport, need *facts.Requirements) {
	store := cluster.NewStore()
	nest(store, levels)
	const pods = 4096
	for i := range pods {
		store.Apply(facts.NodeUpserted{Node: &facts.Node{Name: fmt.Sprint("n", i), Allocatable: []resource.Quantity{
			{Name: "cpu", Amount: 64000}, {Name: "memory", Amount: 1 << 38}, {Name: "pods", Amount: 110},
		}}})
		if report != nil {
			store.Apply(facts.NodeReported{Node: fmt.Sprint("n", i), Report: report})
		}
	}
	free := func(*cluster.State, cluster.Slot, *cluster.Class, *topology.Grant) string { return "" }
	plan := &cluster.Plan{Placements: make([]cluster.Placement, 1)}
	uids := make([]facts.UID, pods)
	for i := range uids {
		uids[i] = facts.UID(fmt.Sprint("p", i))
		store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: uids[i], Namespace: "x", Name: string(uids[i]), Ours: true, Requirements: need}})
		plan.Placements[0] = cluster.Placement{Pod: uids[i], Node: fmt.Sprint("n", i)}
		if v := store.Commit(plan, free); !v.Committed {
			b.Fatal(v)
		}
	}
	b.ReportAllocs()
	began := processTime()
	for i := 0; b.Loop(); i++ {
		pod := store.Pod(uids[i%pods])
		plan.Placements[0] = cluster.Placement{Pod: pod.UID, Node: pod.Node()}
		store.Release(pod.UID)
		if !store.Commit(plan, free).Committed {
			b.Fatal("rejected")
		}
	}
	b.ReportMetric(float64((processTime()-began).Nanoseconds())/float64(b.N), "cpu-ns/op")
}

// processTime is the CPU time that the process has used: what is left of a busy machine does not change it much.
func processTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// nest puts namespace x into a queue so many levels below the root, each with a limit.
func nest(store *cluster.Store, levels int) {
	parent := facts.RootQueue
	for i := range levels {
		name := fmt.Sprint("q", i)
		store.Apply(facts.QueueUpserted{Queue: &facts.Queue{Name: name, Parent: parent, Max: []resource.Quantity{{Name: "cpu", Amount: 1 << 40}}}})
		parent = name
	}
	store.Apply(facts.NamespaceUpserted{Namespace: facts.Namespace{Name: "x", Labels: []facts.Label{{Key: spec.LabelQueue, Value: parent}}}})
}

// BenchmarkNamespace is what a namespace costs that comes with a label for another queue, and BenchmarkQueue what a queue costs that is
// configured anew, where there are 1,000 queues in three levels.
func BenchmarkNamespace(b *testing.B) {
	for _, namespaces := range []int{500, 5000} {
		b.Run(fmt.Sprint("namespaces=", namespaces), func(b *testing.B) {
			store, seen := forest(namespaces), quota.Cursor{}
			for i := 0; b.Loop(); i++ {
				store.Apply(facts.NamespaceUpserted{Namespace: forestNamespace(i%namespaces, i+i/namespaces)})
				store.Quota().Changed(&seen)
			}
		})
	}
}

func BenchmarkQueue(b *testing.B) {
	store, seen := forest(5000), quota.Cursor{}
	for i := 0; b.Loop(); i++ {
		store.Apply(facts.QueueUpserted{Queue: forestQueue(i%1000, int64(i))})
		store.Quota().Changed(&seen)
	}
}

func forest(namespaces int) *cluster.Store {
	store := cluster.NewStore()
	var queues []*facts.Queue
	for i := range 1000 {
		queues = append(queues, forestQueue(i, 1))
	}
	store.Apply(facts.QueuesListed{Queues: queues})
	for i := range namespaces {
		uid := facts.UID(fmt.Sprint("p", i))
		store.Apply(facts.NamespaceUpserted{Namespace: forestNamespace(i, i)})
		store.Apply(facts.PodUpserted{Pod: facts.Pod{
			UID: uid, Namespace: fmt.Sprint("ns", i), Name: string(uid), Ours: true, Requirements: townNeeds[0],
		}})
	}
	return store
}

func forestQueue(i int, cpu int64) *facts.Queue {
	q := &facts.Queue{Name: fmt.Sprint("q", i), Guaranteed: []resource.Quantity{{Name: "cpu", Amount: cpu}}}
	if i >= 10 {
		q.Parent = fmt.Sprint("q", i/10)
	}
	return q
}

func forestNamespace(i, queue int) facts.Namespace {
	return facts.Namespace{Name: fmt.Sprint("ns", i), Labels: []facts.Label{{Key: spec.LabelQueue, Value: fmt.Sprint("q", queue%1000)}}}
}
