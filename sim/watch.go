package sim

import (
	"hilbert.dev/hilbert/cluster/facts"
)

// The watches of the process. The three before the last are there where the workload has units or queues.
const (
	watchNodes = iota
	watchPods
	watchUnits
	watchQueues
	watchNamespaces
	watchReports // there where the workload has reports
	watchKinds
)

// watching is how many of the watches there are.
func (s *simulation) watching() int {
	count := watchPods + 1
	if s.tenanted {
		count = watchReports
	}
	if s.reportsNUMA() {
		count++
	}
	return count
}

// zoned says whether there are agents.
func (s *simulation) reportsNUMA() bool { return len(s.w.Reports) > 0 }

// watch delivers one kind of object in order, each event after some lag.
type watch struct {
	queue     []delivery
	head      int
	last      int64  // when the newest event on its way arrives
	epoch     uint32 // counts closings
	delivered uint64 // the history's revision of the newest event that arrived
}

type delivery struct {
	event    facts.Event
	revision uint64
}

// close drops what is on its way.
func (w *watch) close() {
	w.queue, w.head, w.last = w.queue[:0], 0, 0
	w.epoch++
}

// tell lets a watch say what has just happened.
func (s *simulation) tell(which int, e facts.Event) {
	if s.scheduler == nil {
		return // the next process lists
	}
	w := &s.watches[which]
	if s.o.Faults == nil {
		w.delivered = s.api.revision
		s.inbox = append(s.inbox, e)
		return
	}
	w.last = max(w.last, s.now+int64(s.drawRange(s.o.Faults.WatchLag)))
	w.queue = append(w.queue, delivery{e, s.api.revision})
	s.agenda.add(event{at: w.last, kind: evDeliver, arg: int32(which), epoch: w.epoch})
}

// deliverDue hands over the first event of a watch.
func (s *simulation) deliverDue(which int, epoch uint32) {
	w := &s.watches[which]
	if epoch != w.epoch {
		return
	}
	d := w.queue[w.head]
	w.queue[w.head] = delivery{}
	w.head++
	if w.head == len(w.queue) {
		w.queue, w.head = w.queue[:0], 0
	}
	w.delivered = d.revision
	s.give(d.event)
}

// list starts a watch over: the scheduler gets everything as it is now.
func (s *simulation) list(which int) {
	w := &s.watches[which]
	w.close()
	w.delivered = s.api.revision
	switch which {
	case watchNodes:
		s.give(facts.NodesListed{Nodes: s.api.listNodes()})
	case watchPods:
		s.give(facts.PodsListed{Pods: s.api.listPods()})
	case watchUnits:
		s.give(facts.UnitsListed{Units: s.api.tenants.ListUnits()})
	case watchReports:
		s.give(facts.ReportsListed{Reports: s.api.listReports()})
	case watchQueues:
		s.give(facts.QueuesListed{Queues: s.api.tenants.ListQueues()})
	default:
		s.give(facts.NamespacesListed{Namespaces: s.api.tenants.ListNamespaces()})
	}
}

func (a *model) listNodes() []*facts.Node {
	var nodes []*facts.Node
	for i := range a.nodes {
		if n := &a.nodes[i]; n.present {
			nodes = append(nodes, n.object)
		}
	}
	return nodes
}

func (a *model) listPods() []facts.Pod {
	var pods []facts.Pod
	for i := range a.pods {
		if a.pods[i].exists {
			pods = append(pods, a.facts(int32(i)))
		}
	}
	return pods
}
