package sim

import (
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/cluster/finished"
)

// The kinds of watch. Those of units, queues and namespaces are open only where the workload has some.
const (
	watchNodes = iota
	watchPods
	watchUnits
	watchQueues
	watchNamespaces
	watchReports  // only where nodes have agents
	watchFinished // of the pods that have: PodRemoved and FinishedMember, as the real door's second watch of pods
	watchClaims   // only where the workload has storage
	watchVolumes
	watchReservations // only where the workload has some
	watchKinds
)

// features are what a run has to reckon with.
type features struct {
	constraints bool // between pods: required affinity, anti-affinity or hard spread
	tenants     bool // queues or units
	reports     bool // nodes have agents
	storage     bool // pods have claims
	kept        bool // there are Reservations
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

	running  map[facts.UID]bool // the pods that the first watch of pods has told of
	finished *finished.Members

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

// kinds lists those of the watches that are open.
func (ws *watches) kinds() []int {
	kinds := []int{watchNodes, watchPods}
	if ws.features.tenants {
		kinds = append(kinds, watchUnits, watchQueues, watchNamespaces, watchFinished)
	}
	if ws.features.reports {
		kinds = append(kinds, watchReports)
	}
	if ws.features.storage {
		kinds = append(kinds, watchClaims, watchVolumes)
	}
	if ws.features.kept {
		kinds = append(kinds, watchReservations)
	}
	return kinds
}

// close ends all watches, with the process.
func (ws *watches) close() {
	ws.open = false
	ws.forgetPods()
	ws.inbox = ws.inbox[:0]
	for i := range ws.streams {
		ws.streams[i].close()
	}
}

// forgetPods begins with no pods told of.
func (ws *watches) forgetPods() {
	ws.running = make(map[facts.UID]bool)
	ws.finished = finished.New(func(uid facts.UID) bool { return ws.running[uid] })
}

// tell lets a watch say what has just happened.
func (ws *watches) tell(which int, e facts.Event) {
	if !ws.open {
		return
	}
	w := &ws.streams[which]
	if ws.faults == nil {
		w.delivered = ws.api.revision
		if ws.passes(which, e) {
			ws.inbox = append(ws.inbox, e)
		}
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
	return d.event, ws.passes(which, d.event)
}

// passes reports whether an event is told, rather than dropped because the other watch of pods has said something newer.
func (ws *watches) passes(which int, e facts.Event) bool {
	switch e := e.(type) {
	case facts.PodUpserted:
		if which == watchFinished {
			return ws.finished.Add(e.Pod.UID)
		}
		ws.running[e.Pod.UID] = true
		return !ws.finished.Overtaken(e.Pod.UID)
	case facts.PodRemoved:
		if which == watchFinished {
			return ws.finished.Remove(e.UID)
		}
		delete(ws.running, e.UID)
		return !ws.finished.Gone(e.UID)
	}
	return true
}

// tellFinished lets the two watches of pods say that a pod has finished. Without faults too, either may be the first.
func (ws *watches) tellFinished(i int32) {
	p := &ws.api.pods[i]
	ws.tell(watchPods, facts.PodRemoved{UID: p.uid})
	if name := ws.api.unitOf(p); p.ours && !name.IsZero() {
		ws.tell(watchFinished, facts.PodUpserted{Pod: facts.FinishedMember(p.uid, name, p.name)})
	}
}

// tellRemoved lets the watch that has the pod say that it is gone.
func (ws *watches) tellRemoved(p *pod) {
	switch {
	case !p.finished:
		ws.tell(watchPods, facts.PodRemoved{UID: p.uid})
	case p.ours && !ws.api.unitOf(p).IsZero():
		ws.tell(watchFinished, facts.PodRemoved{UID: p.uid})
	}
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
		return ws.listPods()
	case watchUnits:
		return facts.UnitsListed{Units: ws.api.tenants.ListUnits()}
	case watchFinished:
		list := ws.api.listFinished()
		ws.finished.Replace(list)
		return facts.FinishedListed{Pods: list}
	case watchReports:
		return facts.ReportsListed{Reports: ws.api.listReports()}
	case watchClaims:
		return ws.api.storage.list(facts.PersistentVolumeClaim)
	case watchVolumes:
		return ws.api.storage.list(facts.PersistentVolume)
	case watchReservations:
		return facts.ReservationsListed{Reservations: ws.api.kept.List()}
	case watchQueues:
		return facts.QueuesListed{Queues: ws.api.tenants.ListQueues()}
	default:
		return facts.NamespacesListed{Namespaces: ws.api.tenants.ListNamespaces()}
	}
}

// listPods lists the pods that have not finished.
func (ws *watches) listPods() facts.Event {
	var list []facts.Pod
	clear(ws.running)
	for _, f := range ws.api.listPods() {
		ws.running[f.UID] = true
		if !ws.finished.Overtaken(f.UID) {
			list = append(list, f)
		}
	}
	ws.finished.Listed()
	return facts.PodsListed{Pods: list}
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
		if p := &a.pods[i]; p.exists && !p.finished {
			pods = append(pods, a.facts(int32(i)))
		}
	}
	return pods
}

// listFinished lists the members of units that have finished.
func (a *model) listFinished() []facts.Pod {
	var pods []facts.Pod
	for i := range a.pods {
		if p := &a.pods[i]; p.exists && p.finished && p.ours && !a.unitOf(p).IsZero() {
			pods = append(pods, facts.FinishedMember(p.uid, a.unitOf(p), p.name))
		}
	}
	return pods
}
