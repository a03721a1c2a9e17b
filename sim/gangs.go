package sim

import (
	"fmt"
	"maps"
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/sim/judge"
)

// This file holds what the scheduler decides about gangs and queues against what it had been told by then.

// gang is what the mirror knows of a unit.
type gang struct {
	members map[facts.UID]*mirrored
	ended   map[facts.UID]bool // that are seen to have ended and are not removed
	done    int
	whole   bool // as many members as it needs were bound at once, and something of it is left
}

func (c *checker) gang(name facts.UnitName) *gang {
	g := c.gangs[name]
	if g == nil {
		g = &gang{members: make(map[facts.UID]*mirrored), ended: make(map[facts.UID]bool)}
		c.gangs[name] = g
	}
	return g
}

// placed counts the members that have places and are to keep them.
func (g *gang) placed() int {
	n := 0
	for _, m := range g.members {
		if m.node != "" && !m.deleting {
			n++
		}
	}
	return n
}

// bound counts those of them that are on their nodes.
func (g *gang) bound() int {
	n := 0
	for _, m := range g.members {
		if m.node != "" && !m.deleting && !m.assumed {
			n++
		}
	}
	return n
}

// stuck says whether a pod's unit has places, but fewer than it needs, and was never whole: then its members may be evicted for nobody. What
// has begun then goes on, even if the PodGroup goes meanwhile.
func (c *checker) stuck(uid facts.UID) bool {
	m := c.pods[uid]
	if m == nil || m.unit.IsZero() {
		return false
	}
	f := c.tenants.Units[m.unit]
	m.doomed = m.doomed || f != nil && !c.runs(m.unit) && (m.deleting || c.gang(m.unit).placed() < int(f.MinMember))
	return m.doomed
}

// runs says whether a unit was whole once and something of it is left, so that members join it one by one.
func (c *checker) runs(name facts.UnitName) bool {
	g, f := c.gang(name), c.tenants.Units[name]
	return (g.whole || f != nil && f.Scheduled) && g.placed()+g.done > 0
}

// recount takes note that a unit is whole, or that nothing is left of it.
func (c *checker) recount(name facts.UnitName) {
	if name.IsZero() {
		return
	}
	g := c.gang(name)
	if f := c.tenants.Units[name]; f != nil && g.bound() >= int(f.MinMember) {
		g.whole = true
	}
	if g.placed()+g.done == 0 {
		g.whole = false
	}
}

// leaveGang takes note that a pod has ended, or is gone.
func (c *checker) leaveGang(name facts.UnitName, uid facts.UID, ended bool) {
	if name.IsZero() {
		return
	}
	g := c.gang(name)
	if ended {
		g.done++
		g.ended[uid] = true
	} else {
		delete(g.ended, uid)
	}
	delete(g.members, uid)
	if len(g.members)+len(g.ended) == 0 {
		g.done = 0
	}
	c.recount(name)
}

// toldTenants mirrors an event about queues, namespaces or PodGroups.
func (c *checker) toldTenants(e facts.Event) {
	t := c.tenants
	switch e := e.(type) {
	case facts.QueueUpserted:
		t.Queues[e.Queue.Name] = e.Queue
	case facts.QueueRemoved:
		delete(t.Queues, e.Name)
	case facts.QueuesListed:
		clear(t.Queues)
		for _, q := range e.Queues {
			t.Queues[q.Name] = q
		}
	case facts.NamespaceUpserted:
		t.Namespaces[e.Namespace.Name] = e.Namespace.Labels
	case facts.NamespaceRemoved:
		delete(t.Namespaces, e.Name)
	case facts.NamespacesListed:
		clear(t.Namespaces)
		for _, n := range e.Namespaces {
			t.Namespaces[n.Name] = n.Labels
		}
	case facts.UnitUpserted:
		c.toldUnit(e.Unit.UnitName, e.Unit)
	case facts.UnitRemoved:
		c.toldUnit(e.Name, nil)
	case facts.UnitsListed:
		listed := make(map[facts.UnitName]*facts.Unit)
		for _, f := range e.Units {
			listed[f.UnitName] = f
		}
		for _, name := range t.UnitNames() {
			if listed[name] == nil {
				c.toldUnit(name, nil)
			}
		}
		for _, f := range e.Units {
			c.toldUnit(f.UnitName, f)
		}
	}
}

func (c *checker) toldUnit(name facts.UnitName, f *facts.Unit) {
	old := c.tenants.Units[name]
	if g := c.gang(name); f == nil || old != nil && old.UID != f.UID {
		g.whole, g.done = false, 0
	}
	if f == nil {
		delete(c.tenants.Units, name)
		return
	}
	c.tenants.Units[name] = f
	c.recount(name)
}

// rank is the priority of a pod: its unit's, if that has one.
func (c *checker) rank(m *mirrored) int32 {
	if f := c.tenants.Units[m.unit]; f != nil && f.Prioritized {
		return f.Priority
	}
	return m.priority
}

// judgeTenants holds a Plan that was committed against gangs and queues.
func (c *checker) judgeTenants(plan *cluster.Plan) {
	if !c.s.tenanted {
		return
	}
	comers := make(map[facts.UnitName][]comer)
	for i := range plan.Placements {
		m := c.pods[plan.Placements[i].Pod]
		if m == nil {
			return // told elsewhere
		}
		comers[m.unit] = append(comers[m.unit], comer{m, c.nodes[plan.Placements[i].Node]})
	}
	for _, name := range slices.SortedFunc(maps.Keys(comers), judge.CompareUnits) { // in order, for what is said of the first that is wrong
		if !name.IsZero() {
			c.judgeWhole(name, comers[name])
			c.judgePacking(name, comers[name])
		}
	}
	c.judgeTorn(plan)
	c.judgeQuota(plan)
	c.judgeVictims(plan)
}

// comer is a pod of a Plan, and the node that it is to have; nil if that is gone.
type comer struct {
	pod  *mirrored
	node *facts.Node
}

// judgeWhole: with the Plan a unit is whole, or it runs already.
func (c *checker) judgeWhole(name facts.UnitName, list []comer) {
	f := c.tenants.Units[name]
	switch has := c.gang(name).placed() + len(list); {
	case f == nil:
		c.s.violate("places for unit %s, whose PodGroup the scheduler does not know", name)
	case f.Invalid != "":
		c.s.violate("places for unit %s, whose PodGroup cannot be honoured", name)
	case !c.runs(name) && has < int(f.MinMember):
		c.s.violate("unit %s is given places for %d of the %d that it needs", name, has, f.MinMember)
	}
}

// judgePacking: members are in one domain of what is required and have one value of what must be uniform, those that run already included
// as far as they agree with one another; subgroups each for themselves.
func (c *checker) judgePacking(name facts.UnitName, list []comer) {
	f := c.tenants.Units[name]
	if f == nil {
		return
	}
	inPart := func(part string) (ours []comer) {
		for _, m := range list {
			if m.pod.subgroup == part {
				ours = append(ours, m)
			}
		}
		return ours
	}
	for _, label := range []string{f.Topology.Required, f.Topology.Uniform} {
		if why := c.scattered(name, list, label, func(*mirrored) bool { return true }); why != "" {
			c.s.violate("unit %s: %s", name, why)
		}
	}
	for _, m := range list {
		part := m.pod.subgroup
		for _, label := range []string{f.SubgroupTopology.Required, f.SubgroupTopology.Uniform} {
			if part == "" {
				continue
			}
			if why := c.scattered(name, inPart(part), label, func(other *mirrored) bool { return other.subgroup == part }); why != "" {
				c.s.violate("subgroup %s of unit %s: %s", part, name, why)
			}
		}
	}
}

// scattered says what is wrong with where members are to go, if they all need one value of a label.
func (c *checker) scattered(name facts.UnitName, list []comer, label string, with func(*mirrored) bool) string {
	if label == "" {
		return ""
	}
	anchors := make(map[string]bool)
	for _, m := range c.gang(name).members {
		if n := c.nodes[m.node]; n != nil && !m.deleting && with(m) {
			if value, ok := n.Labels[label]; ok {
				anchors[value] = true
			}
		}
	}
	if len(anchors) > 1 { // others put them there, or nodes went and came
		return ""
	}
	for _, m := range list {
		if m.node == nil {
			continue
		}
		value, ok := m.node.Labels[label]
		if !ok {
			return fmt.Sprintf("node %s has no %s", m.node.Name, label)
		}
		anchors[value] = true
	}
	if len(anchors) > 1 {
		return fmt.Sprintf("%d values of %s where one is required", len(anchors), label)
	}
	return ""
}

// judgeTorn: a unit of victims goes whole, or keeps what it needs.
func (c *checker) judgeTorn(plan *cluster.Plan) {
	taken := make(map[facts.UnitName]int)
	for _, uid := range plan.Victims {
		if m := c.pods[uid]; m != nil && !m.unit.IsZero() && m.node != "" && !m.deleting {
			taken[m.unit]++
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(taken), judge.CompareUnits) {
		n, f := taken[name], c.tenants.Units[name]
		left := c.gang(name).placed() - n
		if f != nil && left > 0 && (left < int(f.MinMember) || f.Indivisible) {
			c.s.violate("unit %s is torn: %d of its members go, %d stay, it needs %d", name, n, left, f.MinMember)
		}
	}
}

// judgeQuota: with the Plan no queue above its pods holds more than its limit. The victims are counted as gone.
func (c *checker) judgeQuota(plan *cluster.Plan) {
	used := c.usage(plan.Victims)
	asks := make(judge.Bill)
	for i := range plan.Placements {
		m := c.pods[plan.Placements[i].Pod]
		asks.Add(c.tenants, m.namespace, m.requirements)
	}
	if why := c.tenants.Refusal(used, asks); why != "" {
		c.s.violate("places for pod %s and %d others: queue %s", plan.Placements[0].Pod, len(plan.Placements)-1, why)
	}
}

// usage is the bill of what the scheduler ought to know on nodes that it knows, without some.
func (c *checker) usage(off []facts.UID) judge.Bill {
	used := make(judge.Bill)
	for node, list := range c.on {
		if c.nodes[node] == nil {
			continue
		}
		for _, m := range list {
			if !slices.Contains(off, m.uid) {
				used.Add(c.tenants, m.namespace, m.requirements)
			}
		}
	}
	return used
}

// judgeVictims holds who is evicted: within a queue those of lower priority, unless it lets nobody preempt; else those whose queue has borrowed
// and does not keep it.
func (c *checker) judgeVictims(plan *cluster.Plan) {
	if len(plan.Victims) == 0 {
		return
	}
	used := c.usage(nil)
	for _, uid := range plan.Victims {
		victim := c.pods[uid]
		if victim == nil || victim.deleting { // one that leaves anyway loses nothing
			continue
		}
		for i := range plan.Placements {
			if m := c.pods[plan.Placements[i].Pod]; plan.Placements[i].Node == victim.node {
				if why := c.spared(plan, m, victim, used); why != "" {
					c.s.violate("pod %s preempts %s, %s", m.uid, uid, why)
				}
			}
		}
	}
}

// spared says why a pod must not be evicted for another; empty when it may.
func (c *checker) spared(plan *cluster.Plan, m, victim *mirrored, used judge.Bill) string {
	t := c.tenants
	lower, queue := c.rank(victim) < c.rank(m), t.QueueOf(victim.namespace)
	if queue == t.QueueOf(m.namespace) {
		if f := t.Queues[queue]; f != nil && f.NeverPreempts {
			return "whose queue lets nobody preempt"
		}
		if !lower {
			return "which is of no lower priority"
		}
		return ""
	}
	switch {
	case !lower && !plan.Reclaims:
		return "which is of no lower priority"
	case !t.Borrows(used, m.namespace, victim.namespace, victim.requirements):
		return "whose queue has borrowed nothing"
	case t.KeepsBorrowed(victim.namespace, t.Side(victim.namespace, m.namespace)):
		return "whose queue keeps what it has borrowed"
	}
	return ""
}
