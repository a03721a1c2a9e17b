package sim

import (
	"fmt"
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/sim/trace"
)

// admin changes everything but pods: nodes, queues, namespaces and PodGroups. Each change is entered in the model's history and told to the
// watches.
type admin struct {
	clock   *clock
	w       *trace.Workload
	api     *model
	watches *watches
}

// changed enters a change in the history, and tells the watches of it.
func (a *admin) changed(which int, event facts.Event) {
	a.api.revision++
	a.watches.tell(which, event)
}

// addNode adds a node, with nothing on it.
func (a *admin) addNode(n *facts.Node) {
	a.api.addNode(n)
	a.w.Nodes = append(a.w.Nodes, n)
	a.changed(watchNodes, facts.NodeUpserted{Node: n})
}

// updateNode replaces the Node object of a node that is present.
func (a *admin) updateNode(n *node, object *facts.Node) {
	n.object = object
	a.changed(watchNodes, facts.NodeUpserted{Node: object})
}

// removeNode deletes the Node object. What is bound to it stays bound.
func (a *admin) removeNode(n *node) {
	n.present = false
	a.changed(watchNodes, facts.NodeRemoved{Name: n.object.Name})
}

// returnNode brings a node back.
func (a *admin) returnNode(i int32) {
	n := &a.api.nodes[i]
	n.present = true
	a.changed(watchNodes, facts.NodeUpserted{Node: n.object})
}

// unreachable is the taint of a node that nobody can reach.
var unreachable = facts.Taint{Key: "node.kubernetes.io/unreachable", Effect: facts.NoSchedule}

// loseNode makes a node unreachable: no pod on it ends before it is reached again.
func (a *admin) loseNode(n *node, until int64) {
	n.lost = until
	edited := *n.object
	edited.Taints = append(slices.Clone(edited.Taints), unreachable)
	a.updateNode(n, &edited)
}

// reachNode ends that.
func (a *admin) reachNode(i int32) {
	n := &a.api.nodes[i]
	n.lost = 0
	edited := *n.object
	edited.Taints = slices.DeleteFunc(slices.Clone(edited.Taints), func(t facts.Taint) bool { return t == unreachable })
	n.object = &edited
	if n.present {
		a.changed(watchNodes, facts.NodeUpserted{Node: &edited})
	}
}

// createUnit creates a PodGroup of the workload, anew if there was one of its name.
func (a *admin) createUnit(i int32) {
	u := &a.api.units[i]
	w := &a.w.Units[i]
	if u.exists || w.Deleted != trace.Never && w.Deleted <= a.clock.now && u.age > 0 {
		return
	}
	f := *w.Facts
	f.Created = a.clock.now
	if u.age > 0 {
		f.UID = facts.UID(fmt.Sprintf("%s#%d", f.UID, u.age))
	}
	if bound, _ := a.api.has(f.UnitName); bound == 0 {
		u.whole = false
	}
	u.exists, u.runs = true, false
	a.api.tenants.Units[f.UnitName] = &f
	a.api.sawUnit(f.UnitName, a.clock.now)
	a.changed(watchUnits, facts.UnitUpserted{Unit: &f})
	if w.Deleted != trace.Never && u.age == 0 {
		a.clock.add(event{at: max(w.Deleted, a.clock.now), kind: evUnitGone, arg: i})
	}
}

// deleteUnit deletes a PodGroup. Its pods stay.
func (a *admin) deleteUnit(i int32) {
	u := &a.api.units[i]
	if !u.exists {
		return
	}
	name := a.w.Units[i].Facts.UnitName
	u.exists = false
	u.age++
	delete(a.api.tenants.Units, name)
	a.changed(watchUnits, facts.UnitRemoved{Name: name})
}

// setQueue configures a queue.
func (a *admin) setQueue(f *facts.Queue) {
	edited := *f
	if old := a.api.tenants.Queues[f.Name]; old != nil {
		edited.Generation = old.Generation + 1
	}
	a.api.tenants.Queues[f.Name] = &edited
	a.changed(watchQueues, facts.QueueUpserted{Queue: &edited})
}

func (a *admin) removeQueue(name string) {
	if a.api.tenants.Queues[name] == nil {
		return
	}
	delete(a.api.tenants.Queues, name)
	a.changed(watchQueues, facts.QueueRemoved{Name: name})
}

// setNamespace gives a namespace labels, sorted by key.
func (a *admin) setNamespace(n facts.Namespace) {
	a.api.tenants.Namespaces[n.Name] = n.Labels
	a.changed(watchNamespaces, facts.NamespaceUpserted{Namespace: n})
}
