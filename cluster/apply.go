package cluster

import (
	"cmp"
	"maps"
	"slices"

	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/quota"
	"hilbert.dev/hilbert/resource"
)

// Apply takes in what the API server said and returns what it did to pods. The slice is valid until the next call.
func (s *Store) Apply(event facts.Event) []Effect {
	s.effects.reset()
	switch e := event.(type) {
	case facts.NodeUpserted:
		s.upsertNode(e.Node)
	case facts.NodeRemoved:
		s.removeNode(e.Name)
	case facts.PodUpserted:
		s.upsertPod(&e.Pod)
	case facts.PodRemoved:
		s.removePod(e.UID)
	case facts.NodeReported:
		s.report(e.Node, e.Report)
	case facts.NodeReportRemoved:
		s.report(e.Node, nil)
	case facts.NamespaceUpserted:
		s.setNamespace(e.Namespace.Name, e.Namespace.Labels, true)
	case facts.NamespaceRemoved:
		s.setNamespace(e.Name, nil, false)
	case facts.WorkloadUpserted:
		s.selection.setWorkload(keyOfWorkload(e.Workload), e.Workload)
	case facts.WorkloadRemoved:
		s.selection.setWorkload(workloadKey{e.Kind, e.Namespace, e.Name}, nil)
	case facts.UnitUpserted:
		s.setUnit(e.Unit.UnitName, e.Unit)
	case facts.UnitRemoved:
		s.setUnit(e.Name, nil)
	case facts.QueueUpserted:
		s.tell(s.quota.Upsert(e.Queue)...)
	case facts.QueueRemoved:
		s.tell(s.quota.Remove(e.Name)...)
	case facts.ReservationUpserted:
		s.placeholders.upsert(e.Reservation)
	case facts.ReservationRemoved:
		s.placeholders.remove(e.UID)
	case facts.BudgetUpserted:
		s.setBudget(keyOfBudget(e.Budget), e.Budget)
	case facts.BudgetRemoved:
		s.setBudget(budgetKey{e.Namespace, e.Name}, nil)
	case facts.StorageUpserted:
		s.claims.note(s.volumes.Set(e.Object))
	case facts.StorageRemoved:
		s.claims.note(s.volumes.Remove(e.Name))
	case facts.DRAUpserted:
		s.claims.note(s.claims.dra.Set(e.Object))
	case facts.DRARemoved:
		s.claims.note(s.claims.dra.Remove(e.Name))
	default:
		s.applyList(event)
	}
	s.settleKinds()
	s.claims.attached.moved()
	s.claims.review()
	s.claims.settle()
	s.classifier.recheck()
	s.classifier.takeIn()
	return s.effects.list
}

// applyList takes in all objects of a kind at once.
func (s *Store) applyList(event facts.Event) {
	switch e := event.(type) {
	case facts.NodesListed:
		relist(slices.Sorted(maps.Keys(s.slots.byNode)), e.Nodes, func(n *facts.Node) string { return n.Name }, s.removeNode, s.upsertNode)
	case facts.PodsListed:
		relist(s.pods.known(false), inTurn(e.Pods, s.classifier.waiting.Most()), func(p *facts.Pod) facts.UID { return p.UID }, s.removePod, s.upsertPod)
	case facts.FinishedListed:
		relist(s.pods.known(true), pointers(e.Pods), func(p *facts.Pod) facts.UID { return p.UID }, s.removePod, s.upsertPod)
	case facts.ReportsListed:
		relist(slices.Sorted(maps.Keys(s.grants.reports)), e.Reports, func(r facts.NodeReported) string { return r.Node },
			func(node string) { s.report(node, nil) }, func(r facts.NodeReported) { s.report(r.Node, r.Report) })
	case facts.NamespacesListed:
		relist(slices.Sorted(maps.Keys(s.selection.namespaces)), e.Namespaces, func(n facts.Namespace) string { return n.Name },
			func(name string) { s.setNamespace(name, nil, false) }, func(n facts.Namespace) { s.setNamespace(n.Name, n.Labels, true) })
	case facts.WorkloadsListed:
		relist(s.selection.ofKind(e.Kind), e.Workloads, keyOfWorkload,
			func(key workloadKey) { s.selection.setWorkload(key, nil) },
			func(w *facts.Workload) { s.selection.setWorkload(keyOfWorkload(w), w) })
	case facts.UnitsListed:
		relist(s.units.configured(), e.Units, func(u *facts.Unit) facts.UnitName { return u.UnitName },
			func(name facts.UnitName) { s.setUnit(name, nil) }, func(u *facts.Unit) { s.setUnit(u.UnitName, u) })
	case facts.QueuesListed:
		s.tell(s.quota.Replace(e.Queues)...)
	case facts.StorageListed:
		relist(s.volumes.Names(e.Kind), e.Objects, facts.StorageObject.StorageName,
			func(name facts.StorageName) { s.claims.note(s.volumes.Remove(name)) }, func(o facts.StorageObject) { s.claims.note(s.volumes.Set(o)) })
	case facts.DRAListed:
		relist(s.claims.dra.Names(e.Kind), e.Objects, facts.DRAObject.DRAName,
			func(name facts.DRAName) { s.claims.note(s.claims.dra.Remove(name)) }, func(o facts.DRAObject) { s.claims.note(s.claims.dra.Set(o)) })
	case facts.ReservationsListed:
		relist(s.placeholders.known(), e.Reservations, func(r *facts.Reservation) facts.UID { return r.UID }, s.placeholders.remove, s.placeholders.upsert)
	case facts.BudgetsListed:
		relist(s.budgets.keys(), e.Budgets, keyOfBudget,
			func(key budgetKey) { s.setBudget(key, nil) }, func(b *facts.Budget) { s.setBudget(keyOfBudget(b), b) })
	}
}

// relist removes what is known and not in the list, in the order of known, and takes in the list.
func relist[K comparable, T any](known []K, list []T, key func(T) K, remove func(K), upsert func(T)) {
	listed := make(map[K]bool, len(list))
	for i := range list {
		listed[key(list[i])] = true
	}
	for _, k := range known {
		if !listed[k] {
			remove(k)
		}
	}
	for i := range list {
		upsert(list[i])
	}
}

func pointers[T any](list []T) []*T {
	all := make([]*T, len(list))
	for i := range list {
		all[i] = &list[i]
	}
	return all
}

// EndPlaces ends the places of Reservations whose TTL is over, and those whose room or node is gone, lets others look for victims again (EndPermission), and returns what that did to
// placeholders which waited. A place
// whose room a pod has waits for what becomes of the pod. Only who has seen all there is may call it: what is missing in a list that has not come yet is not gone.
func (s *Store) EndPlaces(now int64) []Effect {
	s.effects.reset()
	if len(s.placeholders.byUID) == 0 {
		return nil
	}
	s.placeholders.loseCrowdedOut()
	s.placeholders.renewPermissions()
	s.placeholders.end(now)
	return s.effects.list
}

// Consequences applies what the placements that were committed or taken back since the last event mean for other pods, by their volumes, by terms about them,
// and by the room that is free for pods that are held back. It returns what that did to them. The slice is valid until the next call, or the next event.
func (s *Store) Consequences() []Effect {
	if len(s.claims.changed) == 0 && len(s.selection.recheck) == 0 && !s.classifier.waiting.Due() {
		return nil
	}
	s.effects.reset()
	s.claims.settle()
	s.classifier.recheck()
	s.classifier.takeIn()
	return s.effects.list
}

// setBudget takes in a disruption budget; nil: it is not there.
func (s *Store) setBudget(key budgetKey, b *facts.Budget) {
	s.budgets.set(key, b, s.selection.inNamespace[key.namespace], &s.victims)
}

// setUnit takes in what is known of a unit's PodGroup; nil: there is none.
func (s *Store) setUnit(name facts.UnitName, seen *facts.Unit) {
	u := s.units.set(name, seen, &s.victims)
	if u == nil {
		return
	}
	for _, pod := range u.pods {
		if pod.wants() {
			s.effects.emit(pod)
		}
	}
}

// setNamespace takes in the labels of a namespace, or that it is not there: other selectors and other queues may be about its pods.
func (s *Store) setNamespace(name string, labels []facts.Label, known bool) {
	if !s.selection.setNamespace(name, labels, known) {
		return
	}
	if t := s.quota.Relabel(name); t != nil {
		s.tell(t)
	}
}

// EachWaiting visits the pods of a namespace that wait, in no particular order.
func (s *Store) EachWaiting(namespace string, visit func(*Pod)) {
	s.selection.eachIn(namespace, func(pod *Pod) {
		if pod.wants() {
			visit(pod)
		}
	})
}

// tell says of the pods of some namespaces which wait that they wait for something else now.
func (s *Store) tell(tenants ...*quota.Tenant) {
	s.fitKinds() // a queue may have named a resource first
	for _, t := range tenants {
		s.EachWaiting(t.Namespace, s.effects.emit)
	}
}

// inTurn are the pods of a list in the order in which they are taken in: where more wait than may differ, which is most, the oldest come first.
func inTurn(pods []facts.Pod, most int) []*facts.Pod {
	list := pointers(pods)
	if most == 0 || len(list) <= most {
		return list
	}
	waits := func(p *facts.Pod) bool { return p.Ours && p.Node == "" && !p.Finished }
	var byAge []*facts.Pod
	for _, p := range list {
		if waits(p) {
			byAge = append(byAge, p)
		}
	}
	if len(byAge) <= most {
		return list
	}
	slices.SortStableFunc(byAge, func(a, b *facts.Pod) int { return cmp.Compare(a.Created, b.Created) })
	for i, next := 0, 0; i < len(list); i++ {
		if waits(list[i]) {
			list[i] = byAge[next]
			next++
		}
	}
	return list
}

// Resources have kinds, and columns, as long as a node or a queue names them. When a name gets a kind, or loses it, the pods that ask for it get
// classes that count it, or do not; those that are on nodes are charged accordingly, whoever came first, the pod or the node.

// settleKinds brings the classes in line with the kinds that there are after an event.
func (s *Store) settleKinds() {
	names, waited := s.kinds.Settle()
	if len(names) == 0 {
		return
	}
	s.classifier.recount(names)
	s.fitKinds()
	s.quota.Narrow()
	if len(waited) == 0 {
		return
	}
	for i, node := range s.nodes {
		if slot := Slot(i); node != nil && slices.ContainsFunc(node.Allocatable, func(q resource.Quantity) bool { return slices.Contains(waited, q.Name) }) {
			s.charges.provide(slot, -1)
			s.nodeBook.fillAllocatable(slot, node)
			s.charges.provide(slot, 1)
			if r := s.grants.reports[node.Name]; r != nil {
				s.nodeBook.lend(slot, &r.Headroom)
			}
			s.charges.recharge(slot)
			s.note(slot, changes.Redefined|changes.Freed|changes.Charged)
		}
	}
	s.tell(s.quota.Recount()...)
}
