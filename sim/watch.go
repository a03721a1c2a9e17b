package sim

import (
	"hilbert.dev/hilbert/cluster/facts"
)

// The kinds of watch. Those of units, queues and namespaces are open only where the workload has some.
const (
	watchNodes = iota
	watchPods
	watchUnits
	watchQueues
	watchNamespaces
	watchReports // only where nodes have agents
	watchKinds
)

// features are what a run has to reckon with.
type features struct {
	constraints bool // between pods: required affinity, anti-affinity or hard spread
	tenants     bool // queues or units
	reports     bool // nodes have agents
}

// watches carry changes of the model to the scheduler, as the API server's watches do. Each kind of object has its own watch. Within a watch
// events keep their order; events of different watches can overtake one another.
//
// Without faults an event is in the inbox at once, and the process takes it within the same instant. With faults it arrives after a lag:
//
//	time 0: pod a is bound      pods:  a, arrives at 5 s
//	time 1: node n is removed   nodes: n, arrives at 2 s    the scheduler learns of n first
//	time 2: pod b is deleted    pods:  b, arrives at 5 s    not before a, whatever lag was drawn
type watches struct {
	faults   *Faults // nil: none
	draws    *stream
	clock    *clock
	api      *model
	features *features

	open    bool // a process runs; the next one lists
	streams [watchKinds]watch
	inbox   []facts.Event // that arrived within this instant, without faults
}

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

// count is how many of the watches there are.
func (ws *watches) count() int {
	count := watchPods + 1
	if ws.features.tenants {
		count = watchReports
	}
	if ws.features.reports {
		count++
	}
	return count
}

// close ends all watches, with the process.
func (ws *watches) close() {
	ws.open = false
	ws.inbox = ws.inbox[:0]
	for i := range ws.streams {
		ws.streams[i].close()
	}
}

// tell lets a watch say what has just happened.
func (ws *watches) tell(which int, e facts.Event) {
	if !ws.open {
		return
	}
	w := &ws.streams[which]
	if ws.faults == nil {
		w.delivered = ws.api.revision
		ws.inbox = append(ws.inbox, e)
		return
	}
	w.last = max(w.last, ws.clock.now+int64(ws.draws.within(ws.faults.WatchLag)))
	w.queue = append(w.queue, delivery{e, ws.api.revision})
	ws.clock.add(event{at: w.last, kind: evDeliver, arg: int32(which), epoch: w.epoch})
}

// tellPod lets the watch say how a pod is now.
func (ws *watches) tellPod(i int32) {
	ws.tell(watchPods, facts.PodUpserted{Pod: ws.api.facts(i)})
}

// deliver takes the first event of a watch. There is none if the watch was closed after the delivery was planned.
func (ws *watches) deliver(which int, epoch uint32) (facts.Event, bool) {
	w := &ws.streams[which]
	if epoch != w.epoch {
		return nil, false
	}
	d := w.queue[w.head]
	w.queue[w.head] = delivery{}
	w.head++
	if w.head == len(w.queue) {
		w.queue, w.head = w.queue[:0], 0
	}
	w.delivered = d.revision
	return d.event, true
}

// list starts a watch over, with everything as it is now.
func (ws *watches) list(which int) facts.Event {
	w := &ws.streams[which]
	w.close()
	w.delivered = ws.api.revision
	switch which {
	case watchNodes:
		return facts.NodesListed{Nodes: ws.api.listNodes()}
	case watchPods:
		return facts.PodsListed{Pods: ws.api.listPods()}
	case watchUnits:
		return facts.UnitsListed{Units: ws.api.tenants.ListUnits()}
	case watchReports:
		return facts.ReportsListed{Reports: ws.api.listReports()}
	case watchQueues:
		return facts.QueuesListed{Queues: ws.api.tenants.ListQueues()}
	default:
		return facts.NamespacesListed{Namespaces: ws.api.tenants.ListNamespaces()}
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
