package check

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/sim/judge"
)

// planJudge checks one committed Plan against gangs and queues, by what the scheduler had been told by then:
//
//  1. each gang is whole with the Plan, or was whole before
//  2. its members are in the topology domains that it requires
//  3. no gang of victims keeps fewer members than it needs
//  4. no queue exceeds its limit
//  5. each victim may be evicted for the pod that takes its place
//  6. no pod is evicted for another queue before it has run for as long as its own queue protects it; of a gang that goes whole this holds for as many
//     members as it needs
//  7. no pod that took back what its queue is guaranteed is evicted for another of its queue that does not ask for that
//  8. no queue loses what it is guaranteed of something that the Plan does not ask for
type planJudge struct {
	plan   *cluster.Plan
	mirror *mirror
	run    Run
	// ran are units that ran before the Plan took places from them.
	ran map[facts.UnitName]bool
}

func (j *planJudge) judge() {
	places := make(map[facts.UnitName][]placement)
	for i := range j.plan.Placements {
		m := j.mirror.pods[j.plan.Placements[i].Pod]
		if m == nil {
			return // a violation that placed reports
		}
		places[m.unit] = append(places[m.unit], placement{m, j.mirror.nodes[j.plan.Placements[i].Node]})
	}
	for _, name := range slices.SortedFunc(maps.Keys(places), judge.CompareUnits) { // in order, so that the first violation is always the same
		if !name.IsZero() {
			j.whole(name, places[name])
			j.packing(name, places[name])
		}
	}
	j.victimsOfUnits()
	j.quota()
	j.victims()
	j.minRuntimes()
}

// placement is a pod of the Plan and its node; nil if the node is gone.
type placement struct {
	pod  *mirrored
	node *facts.Node
}

// whole: with the Plan a unit has as many members as it needs, or it had them before.
func (j *planJudge) whole(name facts.UnitName, list []placement) {
	f := j.mirror.tenants.Units[name]
	switch has := j.mirror.gang(name).placed() + len(list); {
	case f == nil:
		j.run.Violate("places for unit %s, whose PodGroup the scheduler does not know", name)
	case f.Invalid != "":
		j.run.Violate("places for unit %s, whose PodGroup cannot be honoured", name)
	case !j.mirror.runs(name) && !j.ran[name] && has < int(f.MinMember):
		j.run.Violate("unit %s is given places for %d of the %d that it needs", name, has, f.MinMember)
	}
}

// packing: all members are in one domain of the required label and have one value of the uniform label; so has each subgroup of its own labels.
// Members that run already count, unless they are in several domains themselves.
func (j *planJudge) packing(name facts.UnitName, list []placement) {
	f := j.mirror.tenants.Units[name]
	if f == nil {
		return
	}
	inPart := func(part string) (ours []placement) {
		for _, m := range list {
			if m.pod.subgroup == part {
				ours = append(ours, m)
			}
		}
		return ours
	}
	for _, label := range []string{f.Topology.Required, f.Topology.Uniform} {
		if why := j.scattered(name, list, label, func(*mirrored) bool { return true }); why != "" {
			j.run.Violate("unit %s: %s", name, why)
		}
	}
	for _, m := range list {
		part := m.pod.subgroup
		for _, label := range []string{f.SubgroupTopology.Required, f.SubgroupTopology.Uniform} {
			if part == "" {
				continue
			}
			if why := j.scattered(name, inPart(part), label, func(other *mirrored) bool { return other.subgroup == part }); why != "" {
				j.run.Violate("subgroup %s of unit %s: %s", part, name, why)
			}
		}
	}
}

// scattered says what is wrong with where members are to go, if they all need one value of a label.
func (j *planJudge) scattered(name facts.UnitName, list []placement, label string, with func(*mirrored) bool) string {
	if label == "" {
		return ""
	}
	anchors := make(map[string]bool)
	for _, m := range j.mirror.gang(name).members {
		if n := j.mirror.nodes[m.node]; n != nil && !m.deleting && with(m) {
			if value, ok := n.Labels[label]; ok {
				anchors[value] = true
			}
		}
	}
	if len(anchors) > 1 { // other schedulers put them there, or nodes came back with other labels
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

// victimsOfUnits: a unit loses all of its members, or keeps as many as it needs, unless its PodGroup says that they go one by one.
func (j *planJudge) victimsOfUnits() {
	taken := make(map[facts.UnitName]int)
	for _, uid := range j.plan.Victims {
		if m := j.mirror.pods[uid]; m != nil && !m.unit.IsZero() && m.node != "" && !m.deleting {
			taken[m.unit]++
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(taken), judge.CompareUnits) {
		n, f := taken[name], j.mirror.tenants.Units[name]
		left := j.mirror.gang(name).placed() - n
		if f != nil && !f.Divisible && left > 0 && (left < int(f.MinMember) || f.Indivisible) {
			j.run.Violate("unit %s is left below its minimum: %d of its members go, %d stay, it needs %d", name, n, left, f.MinMember)
		}
	}
}

// quota: with the Plan no queue exceeds its limit. Victims count as gone.
func (j *planJudge) quota() {
	used := j.mirror.usage(j.plan.Victims)
	asks := make(judge.Bill)
	for i := range j.plan.Placements {
		m := j.mirror.pods[j.plan.Placements[i].Pod]
		p := &j.plan.Placements[i]
		var said *facts.NodeReport
		if told := j.mirror.reports[p.Node]; told != nil {
			said = told.report
		}
		asks.Add(j.mirror.tenants, m.namespace, judge.ChargeOn(j.mirror.nodes[p.Node], said, judge.Occupant{Requirements: m.requirements, Grant: p.Grant}, true))
	}
	if len(j.plan.Takes) > 0 { // what is taken was charged before, be that beyond a limit
		return
	}
	if why := j.mirror.tenants.Refusal(used, asks); why != "" {
		j.run.Violate("places for pod %s and %d others: queue %s", j.plan.Placements[0].Pod, len(j.plan.Placements)-1, why)
	}
}

// victims: within a queue, pods of lower priority may be evicted, unless the queue allows no preemption. In other queues, pods that are borrowed,
// unless their queue keeps what it has borrowed.
func (j *planJudge) victims() {
	if len(j.plan.Victims) == 0 {
		return
	}
	used := j.mirror.usage(nil)
	j.otherGuarantees(used)
	j.ownGuarantee()
	for _, uid := range j.plan.Victims {
		victim := j.mirror.pods[uid]
		if victim == nil || victim.deleting { // one that leaves anyway loses nothing
			continue
		}
		for i := range j.plan.Placements {
			if m := j.mirror.pods[j.plan.Placements[i].Pod]; j.plan.Placements[i].Node == victim.node {
				if why := j.spared(m, victim, used); why != "" {
					j.run.Violate("pod %s preempts %s, %s", m.uid, uid, why)
				}
			}
		}
	}
}

// minRuntimes: each victim of another queue has run for long enough, or its gang goes whole and as many of its members have as it needs.
func (j *planJudge) minRuntimes() {
	t, ran, young := j.mirror.tenants, make(map[facts.UnitName]int), make(map[facts.UnitName]int)
	for _, uid := range j.plan.Victims {
		victim := j.mirror.pods[uid]
		if victim == nil || victim.deleting || t.QueueOf(victim.namespace) == t.QueueOf(j.mirror.pods[j.plan.Placements[0].Pod].namespace) {
			continue
		}
		f := t.Units[victim.unit]
		gang := goesWhole(f)
		since := victim.started
		if since == 0 || since > j.run.Now() {
			since = victim.scheduled
		} else if victim.scheduled != 0 && j.run.Skewed() {
			since = min(since, victim.scheduled) // a clock that was behind when it was looked at counts from there
		}
		protected := t.MinRuntime(victim.namespace)
		switch enough := since == 0 || protected == 0 || j.run.Now()-since >= protected; {
		case enough && gang:
			ran[victim.unit]++
		case !enough && gang:
			young[victim.unit]++
		case !enough:
			j.run.Violate("pod %s is evicted for %s after %v, and its queue protects it for %v", uid, j.plan.Placements[0].Pod,
				time.Duration(j.run.Now()-since), time.Duration(protected))
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(young), judge.CompareUnits) {
		placed, need := j.mirror.gang(name).placed(), int(t.Units[name].MinMember)
		if t.Units[name].Indivisible {
			need = placed
		}
		if ran[name]+young[name] < placed || ran[name] < min(need, placed) {
			j.run.Violate("unit %s loses %d members that its queue protects still, beside %d others of %d", name, young[name], ran[name], placed)
		}
	}
}

// otherGuarantees: no queue is left with less than it is guaranteed of what its victims hold and the Plan has no claim to.
func (j *planJudge) otherGuarantees(used judge.Bill) {
	t, left, asked := j.mirror.tenants, j.mirror.usage(j.plan.Victims), j.asked()
	taker := j.mirror.pods[j.plan.Placements[0].Pod].namespace
	for _, uid := range j.plan.Victims {
		victim := j.mirror.pods[uid]
		if victim == nil || victim.deleting {
			continue
		}
		if t.QueueOf(victim.namespace) == t.QueueOf(taker) {
			continue // ownGuarantee judges
		}
		side := t.Side(victim.namespace, taker)
		if side == "" {
			continue // of an inner queue whose own pods are guaranteed nothing
		}
		claims := t.Claims(t.QueueOf(taker), t.Side(taker, victim.namespace), used, asked)
		if queue := t.CutsGuarantee(victim.namespace, side, left, j.mirror.costs(victim), claims); queue != "" {
			j.run.Violate("pod %s is evicted for %s, which leaves queue %s with less than it is guaranteed of what is not claimed",
				uid, j.plan.Placements[0].Pod, queue)
		}
	}
}

// ownGuarantee: pods that took back what their queue is guaranteed are not evicted for another of their queue, if together they leave the queue, or one
// above it, with less than that of something which the other does not ask for.
func (j *planJudge) ownGuarantee() {
	t, taker := j.mirror.tenants, j.mirror.pods[j.plan.Placements[0].Pod].namespace
	var took []facts.UID
	for _, uid := range j.plan.Victims {
		if victim := j.mirror.pods[uid]; victim != nil && victim.tookBack && !victim.deleting && t.QueueOf(victim.namespace) == t.QueueOf(taker) {
			took = append(took, uid)
		}
	}
	left := j.mirror.usage(took)
	for _, uid := range took {
		if queue := t.CutsGuarantee(taker, "", left, j.mirror.costs(j.mirror.pods[uid]), named(j.asked())); queue != "" {
			j.run.Violate("pod %s is evicted for %s of its own queue, and queue %s uses less than it is guaranteed of what it had taken back",
				uid, j.plan.Placements[0].Pod, queue)
		}
	}
}

// asked is what all pods of the Plan ask for.
func (j *planJudge) asked() map[string]int64 {
	asked := make(map[string]int64)
	for i := range j.plan.Placements {
		for r, amount := range judge.Charge(j.mirror.pods[j.plan.Placements[i].Pod].requirements) {
			asked[r] += amount
		}
	}
	return asked
}

// named are the resources of which some is asked for.
func named(asked map[string]int64) map[string]bool {
	set := make(map[string]bool)
	for r, amount := range asked {
		set[r] = amount > 0
	}
	return set
}

// costs is what a victim costs its queue. The members of a gang go together, so that it is what all those cost that go.
func (j *planJudge) costs(victim *mirrored) map[string]int64 {
	if !goesWhole(j.mirror.tenants.Units[victim.unit]) {
		return j.mirror.costs(victim)
	}
	sum := make(map[string]int64)
	for _, uid := range j.plan.Victims {
		if m := j.mirror.pods[uid]; m != nil && m.unit == victim.unit && !m.deleting {
			for r, amount := range j.mirror.costs(m) {
				sum[r] += amount
			}
		}
	}
	return sum
}

// spared says why a pod must not be evicted for another; empty if it may.
func (j *planJudge) spared(m, victim *mirrored, used judge.Bill) string {
	t := j.mirror.tenants
	lower, queue := j.mirror.rank(victim) < j.mirror.rank(m), t.QueueOf(victim.namespace)
	if queue == t.QueueOf(m.namespace) {
		if f := t.Queues[queue]; f != nil && f.NeverPreempts {
			return "whose queue allows no preemption"
		}
		if !lower {
			return "which is of no lower priority"
		}
		return ""
	}
	switch {
	case !lower && !j.plan.Reclaims:
		return "which is of no lower priority"
	case !t.Borrows(used, m.namespace, victim.namespace, j.costs(victim)):
		return "whose queue has borrowed nothing"
	case t.KeepsBorrowed(victim.namespace, t.Side(victim.namespace, m.namespace)):
		return "whose queue keeps what it has borrowed"
	}
	return ""
}
