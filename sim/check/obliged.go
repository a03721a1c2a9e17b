package check

import (
	"maps"
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/sim/judge"
)

// Obliged looks for pods and gangs that wait for their victims in vain, when the scheduler has nothing more to decide: while a node has room for them
// as they are, or on a node that they must not go to. It asks every node. While a write about a pod is under way, the pod has to wait; so it has
// while a queue has room only when the victims have left. What is reserved for a gang is open to nobody else. Pods with claims are not looked at: where their
// volumes are, only the storage knows.
func (c *Checker) Obliged(store *cluster.Store) {
	plans := make(map[*cluster.Plan][]*mirrored)
	var order []*cluster.Plan
	var assumed []facts.UID
	for uid, m := range c.mirror.pods {
		if m.assumed {
			assumed = append(assumed, uid)
		}
	}
	slices.Sort(assumed)
	for _, uid := range assumed {
		m := c.mirror.pods[uid]
		switch {
		case refused(store, uid):
		case m.claims && m.unit.IsZero():
		case !m.unit.IsZero():
			if plans[m.plan] = append(plans[m.plan], m); len(plans[m.plan]) == 1 {
				order = append(order, m.plan)
			}
		case c.mirror.obliged(m) && !c.written(m):
			c.obligedPod(store, m)
		}
	}
	if c.run.Constrained() {
		return
	}
	for _, plan := range order {
		c.obligedPlan(store, plans[plan])
	}
}

// obligedPod looks at all nodes for a single pod. Where agents report, what is left of a node's GPUs depends on who gives them out, so that a pod which asks
// for some is not looked at.
func (c *Checker) obligedPod(store *cluster.Store, m *mirrored) {
	if len(c.mirror.reports) > 0 && !m.requirements.GPU.IsZero() {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(c.mirror.nodes)) {
		n := c.mirror.nodes[name]
		if c.open(store, n, m) && judge.Fits(c.mirror.offered(n), c.mirror.occupants(name, m), m.requirements) && c.candidate(m, n, m.grant).neighbours() == "" {
			c.run.Violate("pod %s waits on node %s for its victims, though node %s has room for it", m.uid, m.node, name)
			return
		}
	}
	n := c.mirror.nodes[m.node]
	if n == nil {
		c.run.Violate("pod %s waits for its victims on node %s, which is gone", m.uid, m.node)
	} else if why := judge.Refusal(c.mirror.offered(n), nil, m.requirements, m.grant); why != "" && c.mirror.reports[m.node] == nil {
		c.run.Violate("pod %s waits for its victims on node %s, where it cannot go: %s", m.uid, m.node, why)
	}
}

// obligedPlan looks for room for the members of a gang that one Plan has placed, if they are equal and go anywhere.
func (c *Checker) obligedPlan(store *cluster.Store, members []*mirrored) {
	name := members[0].unit
	f, r := c.mirror.tenants.Units[name], members[0].requirements
	if f == nil || f.Invalid != "" || !f.Topology.IsZero() || !f.SubgroupTopology.IsZero() || !slices.ContainsFunc(members, c.mirror.obliged) {
		return
	}
	var away []facts.UID
	for _, m := range members {
		if m.requirements != r || m.claims || c.written(m) {
			return
		}
		away = append(away, m.uid)
	}
	need := len(members)
	if rest := c.mirror.gang(name).placed() - len(members); !c.mirror.runs(name) && rest < int(f.MinMember) {
		need = int(f.MinMember) - rest
	}
	if need > len(members) {
		return // others have lost their places: these would not be whole
	}
	for _, at := range slices.Sorted(maps.Keys(c.mirror.nodes)) {
		n := c.mirror.nodes[at]
		on := c.mirror.occupants(at, nil, away...)
		for ; need > 0 && c.open(store, n, nil) && judge.Fits(c.mirror.offered(n), on, r); need-- {
			grant, _ := judge.SomeGrant(n, on, r.GPU)
			on = append(on, judge.Occupant{Requirements: r, Grant: grant})
		}
	}
	if need <= 0 {
		c.run.Violate("unit %s waits for its victims, though there is room for as many members as it needs", name)
	}
}

// open says whether a pod may go to a node as far as reservations and devices that only an agent knows are concerned.
func (c *Checker) open(store *cluster.Store, n *facts.Node, m *mirrored) bool {
	told := c.mirror.reports[n.Name]
	slot := store.Slot(n.Name)
	return slot != cluster.NoSlot && (store.Reservation(slot) == cluster.NoReservation || m != nil && m.node == n.Name) &&
		(told == nil || told.report.Devices == nil)
}

// written says whether a write about a pod is under way that is not apart from others.
func (c *Checker) written(m *mirrored) bool {
	for _, w := range c.writes {
		if w.Pod == m.uid && !apart(w.Kind) {
			return true
		}
	}
	return false
}

// refused says whether a pod would get no place now, whatever is free: its PodGroup or queue is unknown, or a queue holds more than it may, until
// victims have left; or its gang has fallen, and what is left of it has to follow, or to become whole again together.
func refused(store *cluster.Store, uid facts.UID) bool {
	pod := store.Pod(uid)
	if pod == nil || pod.Queue().Refuses || pod.Unit != nil && (!pod.Unit.Ready() || pod.Unit.Fell()) {
		return true
	}
	for q := pod.Queue(); q != nil; q = q.Parent() {
		for kind := range store.Kinds() {
			if q.Used(resource.Kind(kind)) > q.Limit(resource.Kind(kind)) {
				return true
			}
		}
	}
	return false
}
