package sim

import (
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule"
	"hilbert.dev/hilbert/sim/judge"
	"hilbert.dev/hilbert/sim/trace"
)

// restCheck looks for pods that wait at rest, when nothing is left to happen, though they need not: single pods that would fit or could preempt,
// gangs that would fit together, and pods whose guarantee another queue has borrowed. It looks at the API server's objects. What it finds is
// certain, because it has found a place; what it cannot decide it lets pass.
type restCheck struct {
	preempt    bool
	checked    bool // steps are checked, so that the run may take long
	w          *trace.Workload
	features   *features
	clock      *clock
	violations *violations
	api        *model
	scheduler  *schedule.Scheduler
	used       judge.Bill // of all pods on nodes
}

// tenants checks gangs and queues.
func (rc *restCheck) tenants() {
	if !rc.features.tenants {
		return
	}
	for _, f := range rc.api.tenants.ListUnits() {
		rc.wholeUnit(f)
		rc.strandedUnit(f)
	}
	if rc.preempt {
		rc.owedGuarantees()
	}
}

// wholeUnit: no gang holds places with fewer members than it needs, unless it had enough at once before. Gangs of which another scheduler bound a
// member are exempt, also if it was there only by what ours had been told when it placed the others.
func (rc *restCheck) wholeUnit(f *facts.Unit) {
	members := rc.api.members(f.UnitName)
	thought := func(foreign *pod) bool {
		return slices.ContainsFunc(members, func(i int32) bool { return rc.api.pods[i].node != nowhere && rc.api.pods[i].seenPods < foreign.left })
	}
	for _, i := range rc.api.joined[f.UnitName] {
		if p := &rc.api.pods[i]; p.foreign && (p.exists || thought(p)) {
			return
		}
	}
	bound, ended := rc.api.has(f.UnitName)
	if bound > 0 && bound+ended < int(f.MinMember) && !rc.api.units[rc.api.numberOf(f.UnitName)].whole {
		rc.violations.add("at rest, but unit %s has %d of the %d members that it needs, and was never whole", f.UnitName, bound, f.MinMember)
	}
}

// waiting are the members of a unit that wait for a place.
func (a *model) waiting(name facts.UnitName) []*pod {
	var list []*pod
	for _, i := range a.members(name) {
		if p := &a.pods[i]; p.waits() && !p.gated && !p.finished {
			list = append(list, p)
		}
	}
	return list
}

// strandedUnit looks for a gang that waits though enough of its members would fit: first fit, domain by domain, on nodes that are not reserved. It
// lets gangs pass whose subgroups are packed, or whose pods have constraints between them.
func (rc *restCheck) strandedUnit(f *facts.Unit) {
	list := rc.api.waiting(f.UnitName)
	need := 1
	rc.api.sawUnit(f.UnitName, rc.clock.now)
	switch bound, ended := rc.api.has(f.UnitName); {
	case rc.fell(f):
		need = max(int(f.MinMember)-bound-ended, 1)
	case bound+ended == 0 || !f.Scheduled && !rc.api.units[rc.api.numberOf(f.UnitName)].runs:
		need = max(int(f.MinMember)-bound, 1)
	}
	if f.Invalid != "" || slices.ContainsFunc(list, rc.heldBack) || len(list) < need || !f.SubgroupTopology.IsZero() || rc.features.constraints {
		return
	}
	for _, domain := range rc.domains(f) {
		if rc.packs(list, need, domain, false) {
			rc.violations.add("at rest, but unit %s waits though %d of its members would fit together, on nodes %s and after", f.UnitName, need, domain[0].object.Name)
			return
		}
	}
}

// fell says whether an eviction has taken a member without whom the others are too few. Then one more is no help: as many have to come together as are
// missing, although the PodGroup says for ever that it was scheduled once. Another scheduler may have bound one of those that were made anew, so that
// the unit was never without a member. Package check holds the scheduler to what follows from a fall.
func (rc *restCheck) fell(f *facts.Unit) bool {
	u := rc.scheduler.Store().Units().Get(f.UnitName)
	return u != nil && u.Fell()
}

// domains are the sets of nodes that can hold a unit: all nodes, or one set for each value of the labels that it requires.
func (rc *restCheck) domains(f *facts.Unit) [][]*node {
	var all []*node
	for i := range rc.api.nodes {
		if n := &rc.api.nodes[i]; n.present && !rc.reserved(n) {
			all = append(all, n)
		}
	}
	sets := [][]*node{all}
	for _, label := range []string{f.Topology.Required, f.Topology.Uniform} {
		if label != "" {
			sets = split(sets, label)
		}
	}
	anchors := rc.anchors(f)
	sets = slices.DeleteFunc(sets, func(set []*node) bool {
		return len(set) == 0 || slices.ContainsFunc(anchors, func(a *node) bool {
			return slices.ContainsFunc([]string{f.Topology.Required, f.Topology.Uniform}, func(label string) bool {
				return label != "" && a.object.Labels[label] != set[0].object.Labels[label]
			})
		})
	})
	return sets
}

// anchors are the nodes of the members that run.
func (rc *restCheck) anchors(f *facts.Unit) []*node {
	var list []*node
	for _, i := range rc.api.members(f.UnitName) {
		if p := &rc.api.pods[i]; p.node != nowhere && !p.finished {
			list = append(list, &rc.api.nodes[p.node])
		}
	}
	return list
}

// split parts sets of nodes by a label; nodes without it drop out.
func split(sets [][]*node, label string) [][]*node {
	var parts [][]*node
	for _, set := range sets {
		at := make(map[string]int)
		for _, n := range set {
			value, ok := n.object.Labels[label]
			if !ok {
				continue
			}
			if _, known := at[value]; !known {
				at[value] = len(parts)
				parts = append(parts, nil)
			}
			parts[at[value]] = append(parts[at[value]], n)
		}
	}
	return parts
}

// reserved says whether a node is reserved for a gang.
func (rc *restCheck) reserved(n *node) bool {
	if rc.scheduler == nil {
		return false
	}
	store := rc.scheduler.Store()
	slot := store.Slot(n.object.Name)
	return slot != cluster.NoSlot && store.Reservation(slot) != cluster.NoReservation
}

// packs says whether need of the pods fit on the nodes together, first fit, and into their queues. empty: as if no pod were there.
func (rc *restCheck) packs(list []*pod, need int, nodes []*node, empty bool) bool {
	on := make([][]judge.Occupant, len(nodes))
	if !empty {
		for i, n := range nodes {
			on[i] = rc.occupants(n)
		}
	}
	asks, taken := make(judge.Bill), make(map[string]bool)
	for _, p := range list {
		if need == 0 {
			break
		}
		r := rc.api.requirements(p)
		for i, n := range nodes {
			if !n.fitsOurs(on[i], r) || !rc.api.storage.place(p.task, n.object, taken) {
				continue
			}
			grant, _ := judge.SomeGrant(n.object, on[i], r.GPU)
			on[i] = append(on[i], judge.Occupant{Requirements: r, Grant: grant})
			asks.Add(rc.api.tenants, rc.api.identity(p).Namespace, judge.Charge(r))
			need--
			break
		}
	}
	return need == 0 && !rc.refuses(rc.api.unitOf(list[0]), asks) && !slices.ContainsFunc(list, rc.grantDecides)
}

// refuses says whether a limit leaves no room for what a unit asks, or has reserved what is left for another unit.
func (rc *restCheck) refuses(asking facts.UnitName, asks judge.Bill) bool {
	t := rc.api.tenants
	if t.Refusal(rc.used, asks) != "" {
		return true
	}
	for name := range asks {
		unit, kept := rc.scheduler.Gate().Claims.Of(rc.scheduler.Store().Quota().Queue(name))
		if unit == asking {
			continue
		}
		for _, q := range kept {
			if asked := asks[name][q.Name]; asked > 0 && rc.used[name][q.Name]+q.Amount+asked > t.Limit(name, q.Name) {
				return true
			}
		}
	}
	return false
}

// grantDecides says whether it depends on the node what a pod costs a queue that has a limit.
func (rc *restCheck) grantDecides(p *pod) bool {
	r := rc.api.requirements(p)
	if r.NUMANodes.CPUs == 0 && r.GPU.Milli == 0 {
		return false
	}
	return rc.api.tenants.Limited(rc.api.identity(p).Namespace)
}

// billOf is the bill of one pod.
func (rc *restCheck) billOf(p *pod) judge.Bill {
	b := make(judge.Bill)
	b.Add(rc.api.tenants, rc.api.identity(p).Namespace, judge.Charge(rc.api.requirements(p)))
	return b
}

// owedGuarantees looks for single pods that wait within their guarantee while a pod that another queue has wholly borrowed is in the way. Within their
// guarantee means that their queue and its ancestors, up to the common ancestor of both queues, would stay within their guarantees. A queue
// beyond its own guarantee takes nothing back, even if its parent is within its.
func (rc *restCheck) owedGuarantees() {
	type kind struct{ group, what string }
	checked := make(map[kind]bool)
	for i := range rc.api.pods {
		p := &rc.api.pods[i]
		k := kind{rc.w.Tasks[p.task].Group, string(p.uid)}
		if !p.waits() || rc.heldBack(p) || p.gated || rc.w.Tasks[p.task].Unit != "" || checked[k] {
			continue
		}
		checked[k] = true
		if rc.features.constraints || rc.grantDecides(p) || rc.refuses(facts.UnitName{}, rc.billOf(p)) {
			continue
		}
		for j := range rc.api.nodes {
			if n := &rc.api.nodes[j]; n.present && !rc.reserved(n) && rc.api.storage.place(p.task, n.object, make(map[string]bool)) {
				rc.owed(p, n)
			}
		}
	}
}

// owed: no pod on the node is wholly borrowed from the guarantee of a pod that waits and would fit without it.
func (rc *restCheck) owed(p *pod, n *node) {
	t, asks := rc.api.tenants, rc.billOf(p)
	for _, at := range n.pods {
		v := &rc.api.pods[at]
		if !v.ours || v.deleting || rc.w.Tasks[v.task].Unit != "" {
			continue
		}
		from, to := rc.api.identity(v).Namespace, rc.api.identity(p).Namespace
		side, mine := t.Side(from, to), t.Side(to, from)
		if side == "" || mine == "" || t.KeepsBorrowed(from, side) || v.started+t.MinRuntime(from) > rc.clock.now {
			continue
		}
		within, borrowed := t.WithinGuarantee(t.QueueOf(to), mine, rc.used, asks), true
		for r, amount := range rc.api.costs(n, v) {
			borrowed = borrowed && (r == resource.NamePods || amount == 0 || t.Spares(from, side, rc.used, r, amount))
		}
		stay := rc.api.keptOn(n)
		for _, other := range n.pods {
			if other != at {
				stay = append(stay, judge.Occupant{Requirements: rc.api.requirements(&rc.api.pods[other]), Grant: rc.api.pods[other].grant})
			}
		}
		if within && borrowed && n.fitsOurs(stay, rc.api.requirements(p)) {
			rc.violations.add("at rest, but pod %s waits within the guarantee of queue %s, while %s on node %s is borrowed by queue %s", p.uid, mine, v.uid, n.object.Name, side)
		}
	}
}

// population is what the API server has, and what is kept, without some pods. It is empty where no pod has constraints.
func (rc *restCheck) population(off func(*pod) bool) *judge.Population {
	var all judge.Population
	if !rc.features.constraints {
		return &all
	}
	a := rc.api
	for i := range a.nodes {
		n := &a.nodes[i]
		if !n.present {
			continue
		}
		all.Nodes = append(all.Nodes, n.object)
		for _, at := range n.pods {
			if p := &a.pods[at]; off == nil || !off(p) {
				all.Pods = append(all.Pods, a.resident(p))
			}
		}
	}
	for _, k := range a.kept.Kept() {
		if i, ok := a.byName[k.Place.Node]; ok && a.nodes[i].present {
			template := &k.Reservation.Template
			all.Pods = append(all.Pods, &judge.Resident{Namespace: k.Reservation.Namespace, Labels: template.Labels, Requirements: template.Requirements, Node: a.nodes[i].object})
		}
	}
	return &all
}

// strandedPods looks for pods that wait though they would fit. Of pods with equal requirements and labels it looks at one.
//
// With constraints between pods it would have to count all pods for every node, which takes too long in large clusters: then it looks only if steps
// are checked.
func (rc *restCheck) strandedPods() {
	if rc.features.constraints && !rc.checked {
		return
	}
	type kind struct {
		r     *facts.Requirements
		group string
	}
	hopeless := make(map[kind]bool)
	all := rc.population(nil)
	for i := range rc.api.pods {
		p := &rc.api.pods[i]
		r := rc.api.requirements(p)
		k := kind{r, rc.w.Tasks[p.task].Group}
		if !p.waits() || rc.heldBack(p) || hopeless[k] && len(rc.w.Tasks[p.task].Claims) == 0 || rc.waitsForMore(p) {
			continue
		}
		for j := range rc.api.nodes {
			n := &rc.api.nodes[j]
			if n.present && !rc.reserved(n) && n.fitsOurs(rc.occupants(n), r) && rc.api.storage.place(p.task, n.object, make(map[string]bool)) && all.Refusal(rc.api.resident(p), n.object) == "" {
				rc.violations.add("pod %s waits though node %s has room for it", p.uid, n.object.Name)
				return
			}
		}
		hopeless[k] = true
	}
	if rc.preempt {
		rc.strandedPreemptors()
	}
}

// heldBack says whether too many pods wait that are unlike a pod. Checker.HeldBack judges whether they do.
func (rc *restCheck) heldBack(p *pod) bool {
	known := rc.scheduler.Store().Pod(p.uid)
	return known != nil && known.Class.HeldBack != ""
}

// waitsForMore says whether a pod has to wait for more than a node: for its unit, which is looked at as a whole, or for its queue.
func (rc *restCheck) waitsForMore(p *pod) bool {
	return rc.features.tenants && (rc.w.Tasks[p.task].Unit != "" || rc.grantDecides(p) || rc.refuses(facts.UnitName{}, rc.billOf(p)))
}

// preemptors looks for pods that wait though they could have preempted.
func (rc *restCheck) strandedPreemptors() {
	type kind struct {
		r        *facts.Requirements
		group    string
		priority int32
	}
	checked := make(map[kind]bool)
	for i := range rc.api.pods {
		p := &rc.api.pods[i]
		k := kind{rc.api.requirements(p), rc.w.Tasks[p.task].Group, rc.w.Tasks[p.task].Priority}
		if !p.waits() || rc.heldBack(p) || checked[k] || rc.waitsForMore(p) {
			continue
		}
		checked[k] = true
		for j := range rc.api.nodes {
			n := &rc.api.nodes[j]
			meek := func(other *pod) bool {
				return other.node == int32(j) && rc.w.Tasks[other.task].Priority < k.priority && rc.yields(other, p)
			}
			stay := rc.api.keptOn(n)
			kept := len(stay)
			for _, at := range n.pods {
				if other := &rc.api.pods[at]; !meek(other) {
					stay = append(stay, judge.Occupant{Requirements: rc.api.requirements(other), Grant: other.grant})
				}
			}
			if n.present && !rc.reserved(n) && len(stay)-kept < len(n.pods) && n.fitsOurs(stay, k.r) && rc.population(meek).Refusal(rc.api.resident(p), n.object) == "" {
				rc.violations.add("pod %s waits though it could preempt on node %s", p.uid, n.object.Name)
				return
			}
		}
	}
}

// yields says whether a pod of lower priority has to make room for another: in one queue it has, if it is no part of a gang, and has not taken back
// something that the other does not ask for and some queue of theirs is guaranteed.
func (rc *restCheck) yields(other, p *pod) bool {
	if !rc.features.tenants {
		return true
	}
	t := rc.api.tenants
	queue := t.QueueOf(rc.api.identity(p).Namespace)
	f := t.Queues[queue]
	asks, known := judge.Charge(rc.api.requirements(p)), rc.scheduler.Store().Pod(other.uid)
	for r := range judge.Charge(rc.api.requirements(other)) {
		if known != nil && known.TookBack() && asks[r] == 0 && r != resource.NamePods && t.GuaranteedUpTo(queue, r) {
			return false
		}
	}
	return rc.w.Tasks[other.task].Unit == "" && t.QueueOf(rc.api.identity(other).Namespace) == queue && (f == nil || !f.NeverPreempts)
}
