package place

import (
	"fmt"
	"testing"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/place/pack"
	"hilbert.dev/hilbert/schedule/place/rules"
)

// borrowers returns nodes that are each full with eight pods of queues that have borrowed all of it, some of them gangs of 16; and a unit of so
// many pods of a queue that is guaranteed as much, each of which asks for as much as that many of the borrowers hold.
func borrowers(tb testing.TB, nodes, members, each int, options ...func(*pack.Ask)) (*reclaimWorld, *pack.Ask) {
	tb.Helper()
	store := cluster.NewStore()
	seen := func(name string, cpu int) *facts.Queue {
		return &facts.Queue{Name: name, Weight: 1, Guaranteed: quantities(resource.NameCPU, cpu)}
	}
	store.Apply(facts.QueueUpserted{Queue: seen("owner", nodes*8000)})
	for i := range 4 {
		name := fmt.Sprint("b", i)
		store.Apply(facts.QueueUpserted{Queue: seen(name, 0)})
		store.Apply(facts.NamespaceUpserted{Namespace: facts.Namespace{Name: name, Labels: []facts.Label{{Key: "scheduling.hilbert.dev/queue", Value: name}}}})
	}
	store.Apply(facts.NamespaceUpserted{Namespace: facts.Namespace{Name: "owner", Labels: []facts.Label{{Key: "scheduling.hilbert.dev/queue", Value: "owner"}}}})
	one := &facts.Requirements{Requests: quantities(resource.NameCPU, 1000, resource.NameMemory, 1<<30)}
	for i := range nodes {
		store.Apply(facts.NodeUpserted{Node: &facts.Node{
			Name: fmt.Sprint("n", i), Labels: map[string]string{"rack": fmt.Sprint("r", i/20)},
			Allocatable: quantities(resource.NameCPU, 8000, resource.NameMemory, 64<<30, resource.NamePods, 110),
		}})
		for j := range 8 {
			f := facts.Pod{
				UID: facts.UID(fmt.Sprint(i, "-", j)), Name: fmt.Sprint(i, "-", j), Namespace: fmt.Sprint("b", (i+j)%4), Node: fmt.Sprint("n", i),
				Priority: int32(j % 3), Started: int64(1+(i*7919+j*104729)%100000) * 1e9, Requirements: one,
			}
			if j == 7 {
				f.Unit = fmt.Sprint("g", i/16)
				store.Apply(facts.UnitUpserted{Unit: &facts.Unit{UnitName: facts.UnitName{Namespace: f.Namespace, Name: f.Unit}, MinMember: 2}})
			}
			store.Apply(facts.PodUpserted{Pod: f})
		}
	}
	r := &facts.Requirements{Requests: quantities(resource.NameCPU, 1000*each, resource.NameMemory, each<<30)}
	ask := &pack.Ask{Need: members}
	unit := ""
	if members > 1 {
		unit = "u"
		store.Apply(facts.UnitUpserted{Unit: &facts.Unit{UnitName: facts.UnitName{Namespace: "owner", Name: unit}, MinMember: int32(members)}})
	}
	for i := range members {
		uid := facts.UID(fmt.Sprint("u", i))
		store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: uid, Name: string(uid), Namespace: "owner", Unit: unit, Ours: true, Requirements: r}})
		ask.Members = append(ask.Members, store.Pod(uid))
	}
	for _, option := range options {
		option(ask)
	}
	return newReclaimer(tb, store), ask
}

// BenchmarkReclaim measures the decision for a unit of an owner that returns to a cluster full of borrowers: on 1,000 nodes a gang of 512 whose
// members each take the place of one, of four or of all eight on a node; the same in one rack of 20 nodes; and a single pod among 5,000 nodes.
func BenchmarkReclaim(b *testing.B) {
	rack := func(ask *pack.Ask) { ask.Topology.Required = "rack" }
	for _, c := range []struct {
		name                 string
		nodes, members, each int
		options              []func(*pack.Ask)
	}{
		{"gang=512/each=1", 1000, 512, 1, nil},
		{"gang=512/each=4", 1000, 512, 4, nil},
		{"gang=512/each=8", 1000, 512, 8, nil},
		{"rack/gang=64/each=1", 1000, 64, 1, []func(*pack.Ask){rack}},
		{"single/each=1", 5000, 1, 1, nil},
		{"single/each=4", 5000, 1, 4, nil},
	} {
		b.Run(c.name, func(b *testing.B) {
			r, ask := borrowers(b, c.nodes, c.members, c.each, c.options...)
			b.ReportAllocs()
			victims := 0
			for b.Loop() {
				found, ok := r.Evict(ask, 200000e9)
				if !ok {
					b.Fatal("nobody")
				}
				victims = len(found.Victims)
			}
			b.ReportMetric(float64(victims), "victims")
		})
	}
}

// BenchmarkReclaimSingles measures one pod after the other of an owner that returns to 5,000 nodes full of borrowers: event, decision, commit,
// the victim's leaving, and the pod's, whereupon another borrower takes the room, so that the cluster stays as full as it was.
func BenchmarkReclaimSingles(b *testing.B) {
	r, ask := borrowers(b, 5000, 1, 1)
	store, pod := r.store, ask.Members[0]
	requirements := &facts.Requirements{Requests: quantities(resource.NameCPU, 1000, resource.NameMemory, 1<<30)}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		uid := facts.UID(fmt.Sprint("p", n))
		store.Apply(facts.PodUpserted{Pod: facts.Pod{UID: uid, Name: string(uid), Namespace: "owner", Ours: true, Requirements: pod.Class.Requirements}})
		found, ok := r.Evict(&pack.Ask{Members: []*cluster.Pod{store.Pod(uid)}, Need: 1}, int64(200000e9+n*1e6))
		if !ok || len(found.Victims) != 1 {
			b.Fatalf("%+v, %v", found, ok)
		}
		if verdict := store.Commit(planOf(store, &found), rules.Commits); !verdict.Committed {
			b.Fatal(verdict)
		}
		victim := found.Victims[0]
		seen := facts.Pod{
			UID: victim.UID, Name: victim.Name, Namespace: victim.Namespace, Node: victim.Node(), Priority: victim.Priority, Started: int64(200000e9 + n*1e6), Requirements: requirements,
		}
		store.Apply(facts.PodRemoved{UID: victim.UID})
		store.Apply(facts.PodRemoved{UID: uid})
		store.Apply(facts.PodUpserted{Pod: seen})
	}
}
