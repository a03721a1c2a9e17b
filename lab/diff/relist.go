package diff

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"hilbert.dev/hilbert/cluster/facts"
)

// relist gives the ledger everything anew, as upstream's side has it.
func (o *ours) relist(u *upstream, l *life) {
	o.lagging = false
	var nodes []*facts.Node
	for _, name := range slices.Sorted(maps.Keys(u.nodes)) {
		nodes = append(nodes, o.parser.Node(u.nodes[name]))
	}
	o.store.Apply(facts.NodesListed{Nodes: nodes})

	var pods []facts.Pod
	for _, uid := range slices.Sorted(maps.Keys(u.pods)) {
		pod := u.pods[uid]
		if waits := l.committed[uid]; waits != nil {
			pod = waits // its Binding has not been seen
		}
		pods = append(pods, o.parser.Pod(pod))
	}
	for _, uid := range slices.Sorted(maps.Keys(l.waiting)) {
		pods = append(pods, o.parser.Pod(l.waiting[uid]))
	}
	o.store.Apply(facts.PodsListed{Pods: pods})

	var namespaces []facts.Namespace
	for _, n := range listed[corev1.Namespace](u.stores.namespaces) {
		namespaces = append(namespaces, o.parser.Namespace(n))
	}
	var budgets []*facts.Budget
	for _, b := range u.budgets() {
		if parsed := o.parser.Budget(b); parsed != nil {
			budgets = append(budgets, parsed)
		}
	}
	o.store.Apply(facts.BudgetsListed{Budgets: budgets})
	o.store.Apply(facts.NamespacesListed{Namespaces: namespaces})
	o.store.Apply(workloads(facts.Service, u.stores.services, o.parser.Service))
	o.store.Apply(workloads(facts.ReplicationController, u.stores.controllers, o.parser.ReplicationController))
	o.store.Apply(workloads(facts.ReplicaSet, u.stores.replicaSets, o.parser.ReplicaSet))
	o.store.Apply(workloads(facts.StatefulSet, u.stores.statefulSets, o.parser.StatefulSet))
}

// workloads lists those of one kind that select anything.
func workloads[T any](kind facts.WorkloadKind, from cache.Indexer, parse func(*T) *facts.Workload) facts.Event {
	event := facts.WorkloadsListed{Kind: kind}
	for _, object := range listed[T](from) {
		if w := parse(object); w != nil {
			event.Workloads = append(event.Workloads, w)
		}
	}
	return event
}

// listed returns the objects of an indexer by their keys, sorted.
func listed[T any](from cache.Indexer) []*T {
	var out []*T
	for _, key := range slices.Sorted(slices.Values(from.ListKeys())) {
		if object, ok, err := from.GetByKey(key); ok && err == nil {
			out = append(out, object.(*T))
		}
	}
	return out
}
