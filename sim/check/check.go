package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/bind"
	"hilbert.dev/hilbert/sim/judge"
	"hilbert.dev/hilbert/topology"
)

// Checker follows what the scheduler is told and what it says, and judges each decision when it is committed, with package judge and on what
// the scheduler had been told by then.
type Checker struct {
	run    Run
	mirror *mirror
	writes map[bind.WriteID]bind.Write // under way
	budget evictionBudget
	// victims are those of the Plan that was committed last. Some may have had only a promised place, and have lost it before the placements of
	// the Plan are reported.
	victims []facts.UID
	plan    *cluster.Plan // that was committed last
	// tookBack: it took places back for a guarantee, or such that had been.
	tookBack bool
	// RefusedThoughFit counts decisions that nothing fits though something does.
	RefusedThoughFit int
	// OwnersJudged counts the pods that were looked at because room is kept for them.
	OwnersJudged int
}

// Run is what the checker asks of the run that it checks.
type Run interface {
	// Now is the virtual time in nanoseconds, by the clock of who schedules. Skewed says whether that may be another than nodes have.
	Now() int64
	Skewed() bool
	// Constrained says whether pods of the workload have constraints between them, Tenanted whether there are queues or PodGroups.
	Constrained() bool
	Tenanted() bool
	// Priority is that of a pod, as the API server has it.
	Priority(pod facts.UID) int32
	// Unbound names a PersistentVolumeClaim of a pod that is not bound; empty: all are.
	Unbound(pod facts.UID) string
	// Kept are the places that the ledger keeps, by UID.
	Kept() []Kept
	// Violate records that an invariant is broken.
	Violate(format string, args ...any)
}

// New returns a Checker that mirrors an empty cluster.
func New(run Run, evictions *spec.Evictions) *Checker {
	c := &Checker{run: run, budget: evictionBudget{evictions: evictions, run: run, gangs: newFallingGangs()}}
	c.Forget()
	return c
}

// Evictions are those that the scheduler has begun at the request of nodes.
func (c *Checker) Evictions() []RequestedEviction { return c.budget.begun }

// Fallen counts the gangs of which others had to follow a member that was evicted.
func (c *Checker) Fallen() int { return c.budget.gangs.fell }

// Forget starts over, with a new process. The budget of evictions goes on. The new process does not know of gangs that were about to go whole.
func (c *Checker) Forget() {
	clear(c.budget.gangs.falls)
	c.mirror, c.writes = newMirror(c.run.Kept), make(map[bind.WriteID]bind.Write)
}

// Told mirrors an event that the scheduler is given.
func (c *Checker) Told(e facts.Event) { c.mirror.told(e) }

// candidate is a pod on a node, to be judged.
func (c *Checker) candidate(m *mirrored, n *facts.Node, grant topology.Grant, without ...facts.UID) *candidate {
	return &candidate{mirror: c.mirror, pod: m, node: n, grant: grant, without: without, constraints: c.run.Constrained()}
}

// Committed judges a placement that the scheduler has just committed to.
func (c *Checker) Committed(pod *cluster.Pod) { c.placed(pod, nil) }

// placed judges a placement that takes effect when the victims have left.
func (c *Checker) placed(pod *cluster.Pod, victims []facts.UID) {
	m := c.mirror.pods[pod.UID]
	switch {
	case m == nil:
		c.run.Violate("a place for pod %s, which the scheduler has not been told of", pod.UID)
		return
	case m.node != "":
		c.run.Violate("a second place for pod %s: %s, after %s", pod.UID, pod.Node(), m.node)
		return
	case !m.ours || m.leaving:
		c.run.Violate("a place for pod %s, which is not to be placed", pod.UID)
		return
	}
	n := c.mirror.nodes[pod.Node()]
	if n == nil {
		c.run.Violate("pod %s is put on node %s, which the scheduler knows to be gone", pod.UID, pod.Node())
		return
	}
	if why := c.candidate(m, n, pod.Grant(), slices.Concat(victims, c.victims)...).refusal(); why != "" {
		c.run.Violate("pod %s must not go to node %s: %s", pod.UID, n.Name, why)
		return
	}
	m.assumed, m.victims, m.plan = true, victims, c.plan
	m.scheduled, m.tookBack = c.run.Now(), c.tookBack
	c.mirror.move(m, n.Name, pod.Grant())
}

// Preempting judges a placement with victims.
func (c *Checker) Preempting(pod *cluster.Pod, victims []*cluster.Pod) {
	uids := make([]facts.UID, 0, len(victims))
	for _, victim := range victims {
		if victim.Placeholder() { // it is gone with the Plan
			if !c.run.Tenanted() && victim.Priority >= c.run.Priority(pod.UID) {
				c.run.Violate("pod %s takes the room of %s, which is of no lower priority", pod.UID, victim.UID)
			}
			continue
		}
		uids = append(uids, victim.UID)
		switch m := c.mirror.pods[victim.UID]; {
		case m == nil || m.node != pod.Node() && m.unit.IsZero(): // other members of a unit that is evicted whole may be anywhere
			c.run.Violate("pod %s preempts %s, which is not on node %s", pod.UID, victim.UID, pod.Node())
		case !c.run.Tenanted() && m.priority >= c.run.Priority(pod.UID):
			c.run.Violate("pod %s preempts %s, which is of no lower priority", pod.UID, victim.UID)
		}
	}
	if len(victims) == 0 {
		c.run.Violate("pod %s preempts no pod", pod.UID)
	}
	c.placed(pod, uids)
}

// Cleared judges a placement again when its victims are said to have left.
func (c *Checker) Cleared(pod *cluster.Pod) {
	m := c.mirror.pods[pod.UID]
	if m == nil || !m.assumed {
		c.run.Violate("the way is cleared for pod %s, which has no place", pod.UID)
		return
	}
	if n := c.mirror.nodes[m.node]; n == nil {
		c.run.Violate("the way is cleared for pod %s on node %s, which is gone", pod.UID, m.node)
	} else if why := c.candidate(m, n, m.grant, c.mirror.waiting(m)...).refusal(); why != "" {
		c.run.Violate("the way is cleared for pod %s on node %s: %s", pod.UID, n.Name, why)
	}
}

// justified says whether a victim may be written to: a placement names it, and the nomination of that pod is written.
func (c *Checker) justified(victim facts.UID) bool {
	for _, m := range c.mirror.pods {
		if m.assumed && m.nominated == m.node && slices.Contains(m.victims, victim) {
			return true
		}
	}
	return false
}

// Released mirrors that the scheduler gave a place up.
func (c *Checker) Released(uid facts.UID) {
	if m := c.mirror.pods[uid]; m != nil && m.assumed {
		c.mirror.move(m, "", topology.Grant{})
		m.assumed, m.victims = false, nil
		for _, other := range c.mirror.pods { // pods that waited for it to leave need not wait, wherever it goes now
			other.victims = slices.DeleteFunc(other.victims, func(victim facts.UID) bool { return victim == uid })
		}
	}
}

// Judged checks a Plan and its Verdict: a Plan that was rejected may be proposed again only at the demanded revision or later.
func (c *Checker) Judged(plan *cluster.Plan, v cluster.Verdict) {
	if v.Committed {
		ran := make(map[facts.UnitName]bool)
		for _, uid := range plan.Replaces {
			if m := c.mirror.pods[uid]; m != nil && !m.unit.IsZero() && c.mirror.runs(m.unit) {
				ran[m.unit] = true
			}
			c.Released(uid)
		}
		if !c.places(plan) && c.run.Tenanted() {
			(&planJudge{plan, c.mirror, c.run, ran}).judge()
		}
		c.tookBack = plan.Reclaims || slices.ContainsFunc(plan.Victims, func(uid facts.UID) bool { m := c.mirror.pods[uid]; return m != nil && m.tookBack })
		c.victims, c.plan = plan.Victims, plan
	}
	for i := range plan.Placements {
		uid := plan.Placements[i].Pod
		if need, ok := c.mirror.demanded[uid]; ok && plan.Revision < need {
			c.run.Violate("pod %s is tried again at revision %d; its rejection demanded %d", uid, plan.Revision, need)
		}
		delete(c.mirror.demanded, uid)
		// What comes before the placement for which a queue has no room was found right: the scheduler proposes that part again as it is.
		if !v.Committed && (v.Reason != cluster.RejectQuota || i >= v.Placement) {
			c.mirror.demanded[uid] = v.Revision
		}
	}
}

// Sent checks a write that the scheduler starts, and remembers it until its answer.
func (c *Checker) Sent(w *bind.Write) {
	switch m := c.mirror.pods[w.Pod]; {
	case w.Kind == bind.EvictPod && w.ID.Owner == bind.OwnerRelief:
		c.budget.begin(w, c.mirror)
	case m != nil && !m.deleting && (w.Kind == bind.EvictPod || w.Kind == bind.DeletePod):
		c.budget.gangs.begin(m, c.mirror, true, c.run.Now())
	}
	for _, name := range c.budget.gangs.late(c.mirror, c.run.Now()) {
		c.run.Violate("gang %s has fewer members than it needs, and its others were not evicted", name)
	}
	for _, other := range c.writes {
		if !apart(w.Kind) && !apart(other.Kind) && w.Pod != "" && other.Pod == w.Pod {
			c.run.Violate("two writes about pod %s under way at once: kinds %d and %d", w.Pod, other.Kind, w.Kind)
		}
	}
	if m := c.mirror.pods[w.Pod]; w.Kind == bind.WriteBinding && (m == nil || m.node != w.Node || !judge.SameDevices(m.grant, w.Grant) || m.grant.NUMANodes != w.Grant.NUMANodes) {
		c.run.Violate("a Binding of pod %s to node %s, which was not decided", w.Pod, w.Node)
	} else if w.Kind == bind.WriteBinding {
		c.claimsBound(m)
		for _, victim := range m.victims {
			if v := c.mirror.pods[victim]; v != nil && v.node == m.node {
				c.run.Violate("a Binding of pod %s to node %s, while its victim %s is there", w.Pod, w.Node, victim)
			}
		}
	}
	ofPlacement := w.Kind == bind.WriteDisruption || w.Kind == bind.DeletePod || w.Kind == bind.EvictPod && w.ID.Owner == bind.OwnerEviction
	if ofPlacement && !c.justified(w.Pod) && !c.stuck(w.Pod) {
		c.run.Violate("pod %s is evicted for no pod", w.Pod)
	}
	c.writes[w.ID] = *w
}

// claimsBound: no pod of a Plan is bound before the claims of all are.
func (c *Checker) claimsBound(m *mirrored) {
	members := []*mirrored{m}
	if m.plan != nil {
		for i := range m.plan.Placements {
			if other := c.mirror.pods[m.plan.Placements[i].Pod]; other != nil && other != m && other.assumed && other.plan == m.plan {
				members = append(members, other)
			}
		}
	}
	for _, other := range members {
		if claim := c.run.Unbound(other.uid); claim != "" {
			c.run.Violate("a Binding of pod %s, before claim %s of %s is bound", m.uid, claim, other.uid)
			return
		}
	}
}

// apart says whether a write may be under way together with others about its pod.
func apart(kind bind.WriteKind) bool {
	return kind == bind.WriteCondition || kind == bind.WriteEvent || kind == bind.WriteNodeEvent || kind == bind.EvictPod
}

// Answered mirrors what the answer to a write makes the scheduler keep or give up.
func (c *Checker) Answered(r bind.Result) {
	w, ok := c.writes[r.ID]
	if !ok {
		c.run.Violate("write %d is answered twice", r.ID.Number)
		return
	}
	delete(c.writes, r.ID)
	if w.Kind == bind.EvictPod && w.ID.Owner == bind.OwnerRelief {
		c.budget.answered(r.Outcome)
	}
	if w.Kind == bind.EvictPod || w.Kind == bind.DeletePod {
		c.budget.gangs.answered(w.Pod, r.Outcome)
	}
	m := c.mirror.pods[w.Pod]
	if m == nil || !m.assumed || w.Kind == bind.WriteCondition || w.Kind == bind.WriteDisruption || w.Kind == bind.DeletePod || apart(w.Kind) {
		return
	}
	if w.Kind == bind.WriteNomination && r.Outcome == bind.Written {
		m.nominated = w.Node
		return
	}
	elsewhere := w.Kind == bind.ReadPod && r.Outcome == bind.Written && r.Node != "" && r.Node != w.Node
	switch {
	case r.Outcome == bind.Gone || elsewhere:
		m.settled = true
		c.Released(w.Pod)
	case r.Outcome == bind.Written && (w.Kind == bind.WriteBinding || r.Node == w.Node):
		m.assumed = false
		c.mirror.recount(m.unit)
	}
}

// Unschedulable counts decisions that nothing fits though something does.
func (c *Checker) Unschedulable(pod *cluster.Pod) {
	m := c.mirror.pods[pod.UID]
	if m == nil || c.run.Tenanted() { // its gang or its queue may be the reason
		return
	}
	for name, n := range c.mirror.nodes {
		if judge.Fits(c.mirror.offered(n), c.mirror.occupants(name, nil), m.requirements) && c.candidate(m, n, topology.Grant{}).neighbours() == "" {
			c.RefusedThoughFit++
			return
		}
	}
}

// Compare compares the core's ledger with the mirror.
func (c *Checker) Compare(store *cluster.Store) {
	if store.Nodes() != len(c.mirror.nodes) {
		c.run.Violate("the ledger has %d nodes; the scheduler was told of %d", store.Nodes(), len(c.mirror.nodes))
	}
	wrong := make(map[facts.UID]string)
	for uid, m := range c.mirror.pods {
		if difference := c.difference(store.Pod(uid), m); difference != "" {
			wrong[uid] = difference
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(wrong)) {
		c.run.Violate("%s", wrong[uid])
	}
}

// difference says how the ledger's pod differs from the mirror's; empty if it does not. It runs for every pod after every step.
func (c *Checker) difference(p *cluster.Pod, m *mirrored) string {
	switch {
	case p == nil && (m.ours || m.node != ""):
		return fmt.Sprintf("the ledger has lost pod %s", m.uid)
	case p == nil:
		return ""
	case p.Node() != m.node:
		return fmt.Sprintf("the ledger has pod %s on %q, it is on %q", m.uid, p.Node(), m.node)
	case m.node == "" || c.mirror.nodes[m.node] == nil:
		return ""
	}
	if !p.Guessed() {
		if want := c.mirror.holds(m); !judge.SameDevices(p.Grant(), want) {
			return fmt.Sprintf("the ledger has pod %s on devices %+v, it is on %+v", m.uid, p.Grant(), want)
		}
	}
	return c.differentNUMANodes(p, m)
}

// stuck says whether a pod's unit has places, but fewer than it needs, and never had enough, or has lost some by evictions. Its members may then be
// evicted without a pod that takes their place. An eviction that has begun goes on, even if the PodGroup is deleted meanwhile.
func (c *Checker) stuck(uid facts.UID) bool {
	m := c.mirror.pods[uid]
	if m == nil || m.unit.IsZero() {
		return false
	}
	f := c.mirror.tenants.Units[m.unit]
	m.evicting = m.evicting || f != nil && (!c.mirror.runs(m.unit) || c.budget.gangs.took(m.unit)) &&
		(m.deleting || f.Indivisible || c.mirror.gang(m.unit).placed() < int(f.MinMember))
	return m.evicting
}

// differentNUMANodes says how the NUMA nodes of a pod in the ledger differ from those in the mirror; empty if they do not.
func (c *Checker) differentNUMANodes(p *cluster.Pod, m *mirrored) string {
	if want := c.mirror.holdsNUMANodes(m); p.Grant().NUMANodes != want {
		return fmt.Sprintf("the ledger has pod %s in NUMA nodes %q, it is in %q", m.uid, p.Grant().NUMANodes, want)
	}
	told := c.mirror.reports[m.node]
	if told != nil && told.report.NUMANodes.Ruler == topology.RulerAgent && m.requirements.NUMANodes.CPUs > 0 && p.Grant().NUMANodes.IsZero() {
		return fmt.Sprintf("pod %s is on node %s without NUMA nodes", m.uid, cmp.Or(m.node, "?"))
	}
	return ""
}
