package sim

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/changes"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/bind"
	"hilbert.dev/hilbert/sim/judge"
	"hilbert.dev/hilbert/topology"
)

// checker follows what the scheduler has been told and what it has said, and judges it with the naive judge. It shares no state with the
// core: its mirror is what the core's ledger has to be.
type checker struct {
	s     *simulation
	nodes map[string]*facts.Node
	pods  map[facts.UID]*mirrored
	// on holds the pods of pods that have a node, by its name.
	on       map[string][]*mirrored
	writes   map[bind.WriteID]bind.Write
	demanded map[facts.UID]changes.Revision // by a rejection: what must have been seen before the next try
	reports  map[string]*reported           // by node
	tenants  *judge.Tenants
	gangs    map[facts.UnitName]*gang
	evicted  []wished // at nodes' wish, by all processes
	inVain   []int64  // when the answers came of those that came to nothing
	// victims are those of the Plan that was committed last: some had no place for certain, and have lost it before the Plan's pods are told.
	victims []facts.UID
}

// mirrored is a pod as the scheduler ought to know it.
type mirrored struct {
	uid          facts.UID
	namespace    string
	labels       []facts.Label
	requirements *facts.Requirements
	node         string // empty: waits
	grant        topology.Grant
	assumed      bool // the scheduler's own decision, not seen bound yet
	ours         bool
	leaving      bool // it needs no place: being deleted, or gated
	deleting     bool
	priority     int32
	victims      []facts.UID // who have to leave before it may be bound
	promised     string      // the node that its status names
	unit         facts.UnitName
	subgroup     string
	doomed       bool // its eviction has begun, because its unit was stuck
}

func newChecker(s *simulation) *checker {
	c := &checker{s: s}
	c.forget()
	return c
}

// forget starts over, with a new process.
func (c *checker) forget() {
	c.nodes = make(map[string]*facts.Node)
	c.pods = make(map[facts.UID]*mirrored)
	c.on = make(map[string][]*mirrored)
	c.writes = make(map[bind.WriteID]bind.Write)
	c.demanded = make(map[facts.UID]changes.Revision)
	c.reports = make(map[string]*reported)
	c.tenants, c.gangs = judge.NewTenants(), make(map[facts.UnitName]*gang)
}

func (c *checker) move(m *mirrored, node string, grant topology.Grant) {
	if m.node != "" {
		list := c.on[m.node]
		at := slices.Index(list, m)
		c.on[m.node] = slices.Delete(list, at, at+1)
	}
	c.moved(m.uid, m.node, node)
	m.node, m.grant = node, grant
	if node != "" {
		c.on[node] = append(c.on[node], m)
	}
	c.recount(m.unit)
}

// drop forgets a pod that has ended, or is gone.
func (c *checker) drop(uid facts.UID, ended bool) {
	if m := c.pods[uid]; m != nil {
		c.move(m, "", topology.Grant{})
		c.leaveGang(m.unit, uid, ended)
		delete(c.pods, uid)
		delete(c.demanded, uid)
	} else if !ended {
		for name, g := range c.gangs {
			if g.ended[uid] {
				c.leaveGang(name, uid, false)
			}
		}
	}
}

// occupants lists whom the scheduler ought to know on a node, except one, and those who leave.
func (c *checker) occupants(node string, except *mirrored, off ...facts.UID) []judge.Occupant {
	var list []judge.Occupant
	for _, m := range c.on[node] {
		if m != except && !slices.Contains(off, m.uid) {
			list = append(list, judge.Occupant{Requirements: m.requirements, Grant: c.holds(m)})
		}
	}
	return list
}

// told mirrors an event that the scheduler is given.
func (c *checker) told(e facts.Event) {
	switch e := e.(type) {
	case facts.NodeUpserted:
		c.nodes[e.Node.Name] = e.Node
	case facts.NodeRemoved:
		delete(c.nodes, e.Name)
	case facts.NodesListed:
		clear(c.nodes)
		for _, n := range e.Nodes {
			c.nodes[n.Name] = n
		}
	case facts.PodUpserted:
		c.toldPod(&e.Pod)
	case facts.PodRemoved:
		c.drop(e.UID, false)
	case facts.PodsListed:
		listed := make(map[facts.UID]bool, len(e.Pods))
		for i := range e.Pods {
			listed[e.Pods[i].UID] = true
			c.toldPod(&e.Pods[i])
		}
		for uid := range c.pods {
			if !listed[uid] {
				c.drop(uid, false)
			}
		}
		for _, g := range c.gangs {
			for uid := range g.ended {
				if !listed[uid] {
					c.drop(uid, false)
				}
			}
		}
	default:
		if !c.toldReport(e) {
			c.toldTenants(e)
		}
	}
}

func (c *checker) toldPod(f *facts.Pod) {
	m := c.pods[f.UID]
	switch {
	case f.Finished && m == nil:
		if name := unitNamed(f); f.Ours && !name.IsZero() && !c.gang(name).ended[f.UID] {
			c.leaveGang(name, f.UID, true)
		}
		return
	case f.Finished:
		c.drop(f.UID, true)
		return
	case m == nil:
		m = &mirrored{
			uid: f.UID, namespace: f.Namespace, labels: f.Labels, requirements: f.Requirements, ours: f.Ours, priority: f.Priority, subgroup: f.Subgroup,
		}
		m.unit = unitNamed(f)
		c.pods[f.UID] = m
	}
	if !m.unit.IsZero() && (m.ours || f.Node != "") {
		c.gang(m.unit).members[f.UID] = m
	}
	if !m.assumed || f.Nominated == m.node { // an older state can be told after the answer to our own write
		m.promised = f.Nominated
	}
	m.leaving, m.deleting = f.Deleting || f.Gated, f.Deleting
	if f.Node != "" {
		grant := f.Grant
		if f.Node == m.node && grant.GPUs == 0 && !m.requirements.GPU.IsZero() {
			grant = m.grant // another scheduler had the same place in mind, and recorded nothing: what was committed stays
			grant.NICs, grant.NIC, grant.NUMANodes = f.Grant.NICs, f.Grant.NIC, f.Grant.NUMANodes
		}
		c.move(m, f.Node, grant)
		m.assumed, m.victims = false, nil
		delete(c.demanded, f.UID)
	}
	c.recount(m.unit)
}

// unitNamed is the PodGroup that a pod names; the zero name for none.
func unitNamed(f *facts.Pod) facts.UnitName {
	if f.Unit == "" {
		return facts.UnitName{}
	}
	return facts.UnitName{Namespace: f.Namespace, Name: f.Unit}
}

// committed judges a placement that the scheduler has just committed to.
func (c *checker) committed(pod *cluster.Pod) { c.placed(pod, nil) }

// placed judges a placement that is made once some others have left its node.
func (c *checker) placed(pod *cluster.Pod, victims []facts.UID) {
	m := c.pods[pod.UID]
	switch {
	case m == nil:
		c.s.violate("a place for pod %s, which the scheduler has not been told of", pod.UID)
		return
	case m.node != "":
		c.s.violate("a second place for pod %s: %s, after %s", pod.UID, pod.Node(), m.node)
		return
	case !m.ours || m.leaving:
		c.s.violate("a place for pod %s, which is not to be placed", pod.UID)
		return
	}
	n := c.nodes[pod.Node()]
	if n == nil {
		c.s.violate("pod %s is put on node %s, which the scheduler knows to be gone", pod.UID, pod.Node())
		return
	}
	off := slices.Concat(victims, c.victims)
	if why := cmp.Or(c.judge(n, m, pod.Grant(), off...), c.badNUMANodes(m, n.Name, pod.Grant().NUMANodes, off...), c.bars(m, n, off...)); why != "" {
		c.s.violate("pod %s must not go to node %s: %s", pod.UID, n.Name, why)
		return
	}
	m.assumed, m.victims = true, victims
	c.move(m, n.Name, pod.Grant())
}

// preempting judges a placement with victims.
func (c *checker) preempting(pod *cluster.Pod, victims []*cluster.Pod) {
	uids := make([]facts.UID, len(victims))
	for i, victim := range victims {
		uids[i] = victim.UID
		switch m := c.pods[victim.UID]; {
		case m == nil || m.node != pod.Node() && m.unit.IsZero(): // the rest of a unit that goes whole may be anywhere
			c.s.violate("pod %s preempts %s, which is not on node %s", pod.UID, victim.UID, pod.Node())
		case !c.s.tenanted && m.priority >= c.s.priority(pod.UID):
			c.s.violate("pod %s preempts %s, which is of no lower priority", pod.UID, victim.UID)
		}
	}
	if len(victims) == 0 {
		c.s.violate("pod %s preempts nobody", pod.UID)
	}
	c.placed(pod, uids)
}

// cleared judges a placement again whose victims are said to have left.
func (c *checker) cleared(pod *cluster.Pod) {
	m := c.pods[pod.UID]
	if m == nil || !m.assumed {
		c.s.violate("the way is cleared for pod %s, which has no place", pod.UID)
		return
	}
	if n := c.nodes[m.node]; n == nil {
		c.s.violate("the way is cleared for pod %s on node %s, which is gone", pod.UID, m.node)
	} else if why := cmp.Or(c.judge(n, m, m.grant), c.badNUMANodes(m, n.Name, m.grant.NUMANodes), c.bars(m, n)); why != "" {
		c.s.violate("the way is cleared for pod %s on node %s: %s", pod.UID, n.Name, why)
	}
}

// justified holds a write about a victim against the plans: one of them must name it, and its pod's nomination must be written.
func (c *checker) justified(victim facts.UID) bool {
	for _, m := range c.pods {
		if m.assumed && m.promised == m.node && slices.Contains(m.victims, victim) {
			return true
		}
	}
	return false
}

// released mirrors that the scheduler gave a place up.
func (c *checker) released(uid facts.UID) {
	if m := c.pods[uid]; m != nil && m.assumed {
		c.move(m, "", topology.Grant{})
		m.assumed, m.victims = false, nil
		for _, other := range c.pods { // who waited for it to leave need not any more, wherever it goes now
			other.victims = slices.DeleteFunc(other.victims, func(victim facts.UID) bool { return victim == uid })
		}
	}
}

// judged holds a Plan against what an earlier rejection demanded.
func (c *checker) judged(plan *cluster.Plan, v cluster.Verdict) {
	if v.Committed {
		c.judgeTenants(plan)
		c.victims = plan.Victims
	}
	for i := range plan.Placements {
		uid := plan.Placements[i].Pod
		if need, ok := c.demanded[uid]; ok && plan.Revision < need {
			c.s.violate("pod %s is tried again at revision %d; its rejection demanded %d", uid, plan.Revision, need)
		}
		delete(c.demanded, uid)
		if !v.Committed {
			c.demanded[uid] = v.Revision
		}
	}
}

// sent remembers a write, so that its answer can be read.
func (c *checker) sent(w *bind.Write) {
	if w.Kind == bind.EvictPod {
		c.relieved(w)
	}
	for _, other := range c.writes {
		if !apart(w.Kind) && !apart(other.Kind) && w.Pod != "" && other.Pod == w.Pod {
			c.s.violate("two writes about pod %s under way at once: kinds %d and %d", w.Pod, other.Kind, w.Kind)
		}
	}
	if m := c.pods[w.Pod]; w.Kind == bind.WriteBinding && (m == nil || m.node != w.Node || !judge.SameDevices(m.grant, w.Grant) || m.grant.NUMANodes != w.Grant.NUMANodes) {
		c.s.violate("a Binding of pod %s to node %s, which was not decided", w.Pod, w.Node)
	} else if w.Kind == bind.WriteBinding {
		for _, victim := range m.victims {
			if v := c.pods[victim]; v != nil && v.node == m.node {
				c.s.violate("a Binding of pod %s to node %s, while its victim %s is there", w.Pod, w.Node, victim)
			}
		}
	}
	if (w.Kind == bind.WriteDisruption || w.Kind == bind.DeletePod) && !c.justified(w.Pod) && !c.stuck(w.Pod) {
		c.s.violate("pod %s is evicted for nobody", w.Pod)
	}
	c.writes[w.ID] = *w
}

// apart says whether a write may be under way beside others about its pod.
func apart(kind bind.WriteKind) bool {
	return kind == bind.WriteCondition || kind == bind.WriteEvent || kind == bind.EvictPod
}

// answered mirrors what a definite answer makes the scheduler give up.
func (c *checker) answered(r bind.Result) {
	w, ok := c.writes[r.ID]
	if !ok {
		c.s.violate("write %d is answered twice", r.ID.Number)
		return
	}
	delete(c.writes, r.ID)
	if w.Kind == bind.EvictPod && r.Outcome != bind.Written && r.Outcome != bind.Unknown {
		c.inVain = append(c.inVain, c.s.now)
	}
	m := c.pods[w.Pod]
	if m == nil || !m.assumed || w.Kind == bind.WriteCondition || w.Kind == bind.WriteDisruption || w.Kind == bind.DeletePod || apart(w.Kind) {
		return
	}
	if w.Kind == bind.WriteNomination && r.Outcome == bind.Written {
		m.promised = w.Node
		return
	}
	elsewhere := w.Kind == bind.ReadPod && r.Outcome == bind.Written && r.Node != "" && r.Node != w.Node
	switch {
	case r.Outcome == bind.Gone || elsewhere:
		c.released(w.Pod)
	case r.Outcome == bind.Written && (w.Kind == bind.WriteBinding || r.Node == w.Node):
		m.assumed = false
		c.recount(m.unit)
	}
}

// unschedulable counts decisions that nothing fits though something does.
func (c *checker) unschedulable(pod *cluster.Pod) {
	m := c.pods[pod.UID]
	if m == nil || c.s.tenanted { // a gang and a queue are reasons enough
		return
	}
	for name, n := range c.nodes {
		if judge.Fits(c.offered(n), c.occupants(name, nil), m.requirements) && c.bars(m, n) == "" {
			c.s.meter.refusedThoughFit++
			return
		}
	}
}

// inspect checks everything after a step.
func (s *simulation) inspect() {
	if s.check == nil || s.err != nil || s.step%s.o.CheckEvery != 0 {
		return
	}
	s.checkModel()
	if s.scheduler == nil {
		return
	}
	if err := s.scheduler.Verify(); err != nil {
		s.violate("the scheduler's own check: %v", err)
	}
	s.check.compare()
}

// checkModel counts every node anew.
func (s *simulation) checkModel() {
	for name := range s.api.tenants.Units {
		s.api.sawUnit(name, s.now)
	}
	for i := range s.api.nodes {
		n := &s.api.nodes[i]
		if !n.present || n.raced {
			continue
		}
		if over := judge.Overcommitted(n.object, s.api.occupants(n)); over != "" {
			s.violate("node %s is over-committed: %s", n.object.Name, over)
		}
	}
	s.checkApart()
	s.checkAgents(false)
}

// compare holds the core's ledger against the mirror.
func (c *checker) compare() {
	store := c.s.scheduler.Store()
	if store.Nodes() != len(c.nodes) {
		c.s.violate("the ledger has %d nodes; the scheduler was told of %d", store.Nodes(), len(c.nodes))
	}
	for _, uid := range slices.Sorted(maps.Keys(c.pods)) {
		p, m := store.Pod(uid), c.pods[uid]
		switch {
		case p == nil && (m.ours || m.node != ""):
			c.s.violate("the ledger has lost pod %s", uid)
		case p == nil:
		case p.Node() != m.node:
			c.s.violate("the ledger has pod %s on %q, it is on %q", uid, p.Node(), m.node)
		case m.node != "" && c.nodes[m.node] != nil && !p.Guessed() && !judge.SameDevices(p.Grant(), c.holds(m)):
			c.s.violate("the ledger has pod %s on devices %+v, it is on %+v", uid, p.Grant(), c.holds(m))
		case m.node != "" && c.nodes[m.node] != nil:
			c.compareNUMANodes(p, m)
		}
	}
}

// atRest checks what must hold when nothing is left to happen.
func (s *simulation) atRest() {
	s.checkModel()
	if s.scheduler == nil {
		s.violate("no process runs at the end")
		return
	}
	if err := s.scheduler.Verify(); err != nil {
		s.violate("the scheduler's own check, at rest: %v", err)
	}
	if p := s.scheduler.Pending(); p.Active+p.Backoff+p.InFlight > 0 {
		s.violate("at rest, but %d pods are ready, %d back off and %d are in flight", p.Active, p.Backoff, p.InFlight)
	}
	s.checkLedger()
	s.checkAgents(true)
	s.checkStranded()
	s.restTenants()
}

// checkLedger holds the ledger against the API server: at rest they have to agree.
func (s *simulation) checkLedger() {
	store := s.scheduler.Store()
	for i := range s.api.pods {
		p := &s.api.pods[i]
		if !p.exists || p.finished || !p.ours {
			continue
		}
		at, known := "", store.Pod(p.uid)
		if p.node != nowhere {
			at = s.api.nodes[p.node].object.Name
		}
		if known == nil {
			s.violate("at rest, but the ledger has lost pod %s", p.uid)
		} else if known.Node() != at {
			s.violate("at rest, but the ledger has pod %s on %q; the API server has it on %q", p.uid, known.Node(), at)
		}
	}
}

// priority is what the API server has.
func (s *simulation) priority(uid facts.UID) int32 {
	if i, ok := s.api.byUID[uid]; ok {
		if f := s.api.tenants.Units[s.api.unitOf(&s.api.pods[i])]; f != nil && f.Prioritized {
			return f.Priority
		}
		return s.w.Tasks[s.api.pods[i].task].Priority
	}
	return math.MaxInt32 // gone, which the scheduler cannot know yet
}
