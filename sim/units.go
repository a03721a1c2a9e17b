package sim

import (
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/sim/judge"
)

// unit is a PodGroup of the workload, and what the model knows of its members.
type unit struct {
	age    int32 // how many of its name existed before
	exists bool
	whole  bool  // it once had as many members bound as it needs; some may have been deleted before the last was bound
	bound  int   // members bound since the last time that none was on a node
	began  int64 // when it became whole first
	runs   bool  // it was whole under its present UID, and some members are left
}

// unitOf is the PodGroup that a pod names; the zero name for none.
func (a *model) unitOf(p *pod) facts.UnitName {
	name := a.w.Tasks[p.task].Unit
	if name == "" {
		return facts.UnitName{}
	}
	return facts.UnitName{Namespace: a.identity(p).Namespace, Name: name}
}

// members are the pods that name a PodGroup, ended ones included.
func (a *model) members(name facts.UnitName) []int32 {
	var list []int32
	for _, i := range a.joined[name] {
		if a.pods[i].exists {
			list = append(list, i)
		}
	}
	return list
}

// has counts the members that are on nodes, and those that have ended.
func (a *model) has(name facts.UnitName) (bound, ended int) {
	for _, i := range a.members(name) {
		switch p := &a.pods[i]; {
		case p.finished:
			ended++
		case p.node != nowhere && !p.deleting:
			bound++
		}
	}
	return bound, ended
}

// sawUnit takes note if a unit has as many members as it needs, or none.
func (a *model) sawUnit(name facts.UnitName, now int64) {
	f := a.tenants.Units[name]
	if f == nil {
		return
	}
	u := &a.units[a.numberOf(name)]
	bound, ended := a.has(name)
	if bound >= int(f.MinMember) {
		u.runs = true
	}
	if bound+ended == 0 {
		u.runs = false
	}
	if !slices.ContainsFunc(a.members(name), func(i int32) bool { return a.pods[i].node != nowhere }) {
		u.bound = 0
	}
	if !u.whole && max(bound, u.bound) >= int(f.MinMember) {
		u.whole, u.began = true, now
	}
}

// numberOf is the number of a PodGroup in the workload, or nowhere.
func (a *model) numberOf(name facts.UnitName) int {
	if len(a.numbers) != len(a.w.Units) {
		a.numbers = make(map[facts.UnitName]int, len(a.w.Units))
		for i := range a.w.Units {
			a.numbers[a.w.Units[i].Facts.UnitName] = i
		}
	}
	i, ok := a.numbers[name]
	if !ok {
		return nowhere
	}
	return i
}

// reportUnit sets the condition of a PodGroup; false if there is none. A PodGroup that was scheduled once stays so.
func (a *model) reportUnit(name facts.UnitName, c facts.UnitCondition) bool {
	old := a.tenants.Units[name]
	if old == nil {
		return false
	}
	if old.Scheduled && !c.Met {
		return true
	}
	f := *old
	f.Reported, f.Scheduled = c, f.Scheduled || c.Met
	a.tenants.Units[name] = &f
	a.revision++
	return true
}

// costs is what a pod on a node costs its queues.
func (a *model) costs(n *node, p *pod) map[string]int64 {
	o := judge.Occupant{Requirements: a.requirements(p), Grant: p.grant}
	if n.agent == nil {
		return judge.ChargeOn(n.object, nil, o, p.ours)
	}
	if held, gave := n.agent.held[p.uid]; gave {
		o.Grant = held
	}
	return judge.ChargeOn(n.object, n.agent.said, o, p.ours)
}

// usage is the bill of all pods on nodes that are present.
func (a *model) usage() judge.Bill {
	b := make(judge.Bill)
	for i := range a.nodes {
		if n := &a.nodes[i]; n.present {
			for _, at := range n.pods {
				p := &a.pods[at]
				b.Add(a.tenants, a.identity(p).Namespace, a.costs(n, p))
			}
		}
	}
	return b
}
