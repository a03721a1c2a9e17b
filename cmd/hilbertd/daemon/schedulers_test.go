package daemon

import (
	"context"
	"fmt"
	"testing"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/kube/lease"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/bind"
)

// TestLeaseIsLostWhileSchedulersDecide: what schedulers decide when the Lease goes is never written. The next term, which begins while they may still run, binds each
// pod once, and puts on no node more than it has.
func TestLeaseIsLostWhileSchedulersDecide(t *testing.T) {
	const pods, nodes = 40, 12
	w := newWorld(t)
	w.config.Scheduling.Schedulers = 3
	list := func(known ...facts.Pod) {
		w.listOthers()
		var all []*facts.Node
		for i := range nodes {
			all = append(all, &facts.Node{Name: fmt.Sprint("n", i), Allocatable: []resource.Quantity{{Name: "cpu", Amount: 4000}, {Name: "pods", Amount: 10}}})
		}
		w.apply(facts.NodesListed{Nodes: all})
		w.apply(facts.PodsListed{Pods: known})
	}
	if err := w.start(); err != nil {
		t.Fatal(err)
	}
	var waiting []facts.Pod
	for i := range pods {
		waiting = append(waiting, pod(fmt.Sprint("p", i), ""))
	}
	list(waiting...)
	w.took(&modelTerm{takeover: lease.Released, lost: make(chan struct{})})
	for w.phase != leading {
		w.round()
		if w.phase == listing {
			list(waiting...)
		}
	}
	for range 20 {
		if w.scheduler.Workers().Pending > 0 {
			break
		}
		w.round()
	}
	if w.scheduler.Workers().Pending == 0 {
		t.Fatal("nothing was handed out")
	}
	before, old := w.bindings(), w.writer()
	for i := range old.started {
		old.results <- bind.Result{ID: old.started[i].ID, Outcome: bind.NotSent}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := w.lost(ctx); err != nil {
		t.Fatal(err)
	}
	w.rounds()
	if w.bindings() != before {
		t.Errorf("%d bindings were begun without the Lease", w.bindings()-before)
	}
	list(waiting...)
	w.took(&modelTerm{takeover: lease.Released, lost: make(chan struct{})})
	for w.phase != leading {
		w.round()
		if w.phase == listing {
			list(waiting...)
		}
	}
	began := len(old.started)
	w.rounds()
	on, bound := make(map[string]int), make(map[facts.UID]bool)
	for _, write := range old.started[began:] {
		if write.Kind != bind.WriteBinding {
			continue
		}
		if bound[write.Pod] {
			t.Errorf("%s is bound twice", write.Pod)
		}
		bound[write.Pod] = true
		if on[write.Node]++; on[write.Node] > 4 {
			t.Errorf("%s has %d pods of 1 CPU, and 4 CPUs", write.Node, on[write.Node])
		}
	}
	if len(bound) != pods {
		t.Errorf("%d of %d pods were bound", len(bound), pods)
	}
}
