package sim

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/sim/judge"
	"hilbert.dev/hilbert/topology"
)

// This file is what nodes' agents do: they take what was promised, or something like it, and report it some time later.

// agent is one node's. It outlives the Node object, as the machine does.
type agent struct {
	shape topology.NUMAShape
	free  topology.NUMAFree
	// gpus is its devices, if it gives them out; counters and left are what is left of them.
	gpus     topology.Shape
	counters topology.Free
	left     topology.DeviceFree
	rival    rival
	held     map[facts.UID]topology.Grant
	// said is what its report says now, as a list would give it.
	said *facts.NodeReport
	// headroom is what it lends, lent what that was at the beginning.
	headroom, lent facts.Headroom
	// due: a report is on the agenda. silent: it cannot be reached, and what it said has become stale.
	due, silent bool
}

// addAgents makes the agents of a workload.
func (a *model) addAgents(reports []facts.NodeReported) {
	for _, r := range reports {
		ag := &agent{shape: r.Report.NUMANodes, held: make(map[facts.UID]topology.Grant), said: r.Report}
		ag.equip(r.Report.Devices)
		ag.rival = newRival(r.Report.Devices)
		ag.headroom, ag.lent = r.Report.Headroom, r.Report.Headroom
		ag.free = topology.NewNUMAFree(&ag.shape)
		a.nodes[a.byName[r.Node]].agent = ag
	}
}

func (a *model) listReports() []facts.NodeReported {
	var list []facts.NodeReported
	for i := range a.nodes {
		if n := &a.nodes[i]; n.agent != nil {
			list = append(list, facts.NodeReported{Node: n.object.Name, Report: n.agent.said})
		}
	}
	return list
}

// take gives somebody NUMA nodes and devices.
func (ag *agent) take(uid facts.UID, g topology.Grant) {
	ag.held[uid] = g
	v := ag.view()
	v.Commit(&g)
}

// drop takes them back.
func (ag *agent) drop(uid facts.UID) bool {
	g, ok := ag.held[uid]
	if ok {
		v := ag.view()
		v.Release(&g)
		delete(ag.held, uid)
	}
	return ok
}

// Delays of agents, in virtual time.
const (
	admitDelay  = int64(3 * time.Second)
	reportDelay = int64(10 * time.Second)
	absence     = int64(time.Minute) // of one that is silent, or of what it gave to strangers
)

// starts lets the node's agent admit a pod that was bound there, a little later.
func (s *simulation) starts(i int32) {
	p := &s.api.pods[i]
	if s.api.nodes[p.node].agent != nil && s.api.requirements(p).Reclaimed {
		s.reportSoon(p.node)
	}
	if ag := s.api.nodes[p.node].agent; ag != nil && ag.admits(s.api.requirements(p)) {
		s.agenda.add(event{at: s.now + 1 + s.agents.Int64N(admitDelay), kind: evAdmit, arg: i})
	}
}

// admit gives a pod what it was promised; or something like it, if that is gone; or evicts it.
func (s *simulation) admit(i int32) {
	p := &s.api.pods[i]
	if !p.exists || p.finished {
		return
	}
	ag := s.api.nodes[p.node].agent
	if !s.kubeletAdmits(i) {
		return
	}
	gpus, numaNodes := ag.asks(s.api.requirements(p))
	grant := ag.promised(&p.grant)
	if _, also := ag.rival.given[p.uid]; also { // nobody asks the agent for what the kubelet gave
		gpus = topology.Request{NIC: gpus.NIC}
		grant = topology.Grant{NICs: grant.NICs, NIC: grant.NIC, NUMANodes: grant.NUMANodes}
	}
	if gpus.Count() == 0 && gpus.NIC.Count == 0 && (numaNodes.IsZero() || ag.shape.Ruler != topology.RulerAgent) {
		return // all that it has the kubelet gave
	}
	v := ag.view()
	kept := v.Fits(&gpus, &numaNodes, &grant)
	if s.o.Faults != nil && s.agents.IntN(permille) < s.o.Faults.AgentMoves {
		if g, ok := ag.elsewhere(&grant, &gpus, &numaNodes); ok {
			ag.collide(&g)
			ag.take(p.uid, g)
			s.meter.faults["promise moved at will"]++
			s.reportSoon(p.node)
			return
		}
	}
	ok := kept
	if !kept {
		grant, ok = v.Offer(&gpus, &numaNodes)
	}
	switch {
	case s.o.Faults == nil && !kept:
		s.violate("node %s cannot keep what pod %s was promised: %+v", s.api.nodes[p.node].object.Name, p.uid, p.grant)
	case !ok:
		s.meter.faults["promise broken"]++
		s.evict(i)
		return
	case !kept:
		s.meter.faults["promise moved"]++
	default:
		s.meter.faults["promise kept"]++
	}
	ag.collide(&grant)
	ag.take(p.uid, grant)
	s.reportSoon(p.node)
}

// ends lets the node's agent know that a pod has.
func (s *simulation) ends(i int32) {
	p := &s.api.pods[i]
	if p.node == nowhere {
		return
	}
	ag := s.api.nodes[p.node].agent
	if ag == nil {
		return
	}
	freed := ag.drop(p.uid)
	if ag.forget(p.uid) || freed && ag.contested() {
		s.lookSoon(p.node, ownerLook)
	}
	if freed || s.api.requirements(p).Reclaimed {
		s.reportSoon(p.node)
	}
}

func (s *simulation) reportSoon(node int32) {
	if ag := s.api.nodes[node].agent; !ag.due && !ag.silent {
		ag.due = true
		s.agenda.add(event{at: s.now + 1 + s.agents.Int64N(reportDelay), kind: evReport, arg: node})
	}
}

// reports writes a node's report.
func (s *simulation) reports(node int32) {
	ag := s.api.nodes[node].agent
	ag.due = false
	if ag.silent {
		return
	}
	ag.readBack()
	r := &facts.NodeReport{NUMANodes: ag.shape, Devices: ag.gpus.Devices}
	for _, uid := range slices.Sorted(maps.Keys(ag.held)) {
		g := ag.held[uid]
		if !g.NUMANodes.IsZero() || g.IsZero() {
			r.Held = append(r.Held, facts.HeldNUMA{UID: uid, Grant: g.NUMANodes})
		}
		if g.NUMANodes = (topology.NUMAGrant{}); !g.IsZero() {
			r.HeldDevices = append(r.HeldDevices, facts.HeldDevices{UID: uid, Grant: g})
		}
	}
	ag.rival.dialect.spoil(r)
	s.lending(&s.api.nodes[node], r)
	s.say(node, r)
}

func (s *simulation) say(node int32, r *facts.NodeReport) {
	n := &s.api.nodes[node]
	turned := ownerSaid(n.agent.said) != ownerSaid(r)
	n.agent.said = r
	s.api.revision++
	if turned {
		n.agent.rival.turned = s.api.revision
	}
	s.tell(watchReports, facts.NodeReported{Node: n.object.Name, Report: r})
}

// randomAgent returns a node with an agent that rules and is not silent, or nowhere.
func (s *simulation) randomAgent() int32 {
	start := s.agents.IntN(len(s.api.nodes))
	for i := range s.api.nodes {
		at := (start + i) % len(s.api.nodes)
		if ag := s.api.nodes[at].agent; ag != nil && ag.shape.Ruler == topology.RulerAgent && !ag.silent {
			return int32(at)
		}
	}
	return nowhere
}

// silence cuts an agent off for a while. What it said is stale after some time, which is what the shell tells.
func (s *simulation) silence() {
	if node := s.randomAgent(); node != nowhere {
		ag := s.api.nodes[node].agent
		ag.silent = true
		stale := *ag.said
		stale.NUMANodes.Ruler, stale.Why, stale.Evictions = topology.RulerNone, facts.ReportStale, nil
		if stale.Headroom.State != facts.HeadroomUnsaid {
			stale.Headroom.State = facts.HeadroomStale
		}
		if ownerSaid(&stale) == kubeletOwns && s.agents.IntN(2) == 0 {
			stale.Devices = nil // as the shell tells it: the kubelet counts, and says so itself
		}
		s.say(node, &stale)
		s.agenda.add(event{at: s.now + 1 + s.agents.Int64N(absence), kind: evAgentBack, arg: node})
	}
}

// claim gives cores to somebody whom no scheduler knows, for a while.
func (s *simulation) claim() {
	node := s.randomAgent()
	if node == nowhere {
		return
	}
	ag := s.api.nodes[node].agent
	v := ag.view()
	gpus, numaNodes := s.claims(ag)
	if g, ok := v.Offer(&gpus, &numaNodes); ok {
		ag.take(stranger, g)
		s.reportSoon(node)
		s.agenda.add(event{at: s.now + 1 + s.agents.Int64N(absence), kind: evAgentBack, arg: node})
	}
}

const (
	stranger  = facts.UID("stranger")
	numaClaim = 2
)

// agentBack ends what has befallen an agent.
func (s *simulation) agentBack(node int32) {
	ag := s.api.nodes[node].agent
	ag.silent = false
	if ag.headroom.State == facts.HeadroomClosed {
		ag.headroom.State, ag.headroom.Note = facts.HeadroomOpen, ""
	}
	ag.drop(stranger)
	ag.reopen()
	if ag.rival.recover() {
		s.countGPUs(node)
	}
	s.reportSoon(node)
}

// checkAgents counts what agents have given away anew, and at rest holds the ledger against it.
func (s *simulation) checkAgents(atRest bool) {
	for i := range s.api.nodes {
		n := &s.api.nodes[i]
		if n.agent == nil {
			continue
		}
		if why := judge.GivenTwice(n.agent.gpus.Devices, n.agent.allGiven()); why != "" {
			s.violate("node %s has given away %s", n.object.Name, why)
		}
		if uid := n.agent.givenTwice(); uid != "" {
			s.violate("pod %s on node %s has GPUs of the kubelet and of the agent", uid, n.object.Name)
		}
		if n.agent.shape.Ruler != topology.RulerAgent {
			continue
		}
		var cpus, memory [topology.MaxNUMANodes]int64
		for _, g := range n.agent.held {
			for z := range topology.MaxNUMANodes {
				cpus[z], memory[z] = cpus[z]+int64(g.NUMANodes.CPUs[z]), memory[z]+int64(g.NUMANodes.Memory[z])
			}
		}
		for z := range topology.MaxNUMANodes {
			if capacity := n.agent.shape.NUMANode[z]; cpus[z] > int64(capacity.CPUs) || memory[z] > int64(capacity.Memory) {
				s.violate("node %s has given away %d CPUs and %d MiB of NUMA node %d, which has %+v", n.object.Name, cpus[z], memory[z], z, capacity)
			}
		}
		if atRest && n.present {
			s.checkConfirmed(n)
		}
	}
}

// checkConfirmed: at rest the ledger has of every dedicated pod what its node says, and the node what it gave.
func (s *simulation) checkConfirmed(n *node) {
	for _, i := range n.pods {
		p := &s.api.pods[i]
		if !n.agent.confirms(s.api.requirements(p)) || n.agent.rival.given[p.uid].against {
			continue
		}
		given, ok := n.agent.held[p.uid]
		known := s.scheduler.Store().Pod(p.uid)
		if !ok || known == nil || !known.Confirmed() || known.Grant().NUMANodes != given.NUMANodes || n.agent.gpus.Devices != nil && !n.agent.sameHeld(known.Grant(), given) {
			s.violate("at rest, but pod %s on node %s holds %+v (%v), which the ledger does not know", p.uid, n.object.Name, given, ok)
		}
	}
}

// The checker's side: what the scheduler was told of NUMA nodes.

// reported is a node's report as told, and who of those that it names has left since.
type reported struct {
	report *facts.NodeReport
	left   map[facts.UID]bool
}

// toldReport mirrors an event about reports; false if it is none.
func (c *checker) toldReport(e facts.Event) bool {
	switch e := e.(type) {
	case facts.NodeReported:
		c.reports[e.Node] = &reported{e.Report, make(map[facts.UID]bool)}
	case facts.ReportsListed:
		clear(c.reports)
		for _, r := range e.Reports {
			c.toldReport(r)
		}
	default:
		return false
	}
	return true
}

// holds is what the pod holds of its node's NUMA nodes and devices: what the node says, or what was decided.
func (c *checker) holds(m *mirrored) topology.Grant {
	g := m.grant
	r := c.reports[m.node]
	if r == nil {
		return g
	}
	for _, h := range r.report.HeldDevices {
		if h.UID == m.uid && ownerSaid(r.report) == kubeletOwns {
			if h.Grant.NICs != 0 {
				g.NICs, g.NIC = h.Grant.NICs, h.Grant.NIC
			}
		} else if h.UID == m.uid && r.report.Devices != nil {
			g = h.Grant
			g.NUMANodes = m.grant.NUMANodes
		}
	}
	for _, h := range r.report.Held {
		if h.UID == m.uid {
			g.NUMANodes = h.Grant
		}
	}
	return g
}

func (c *checker) holdsNUMANodes(m *mirrored) topology.NUMAGrant { return c.holds(m).NUMANodes }

// moved takes note that a pod left a node, or came.
func (c *checker) moved(uid facts.UID, from, to string) {
	if r := c.reports[from]; r != nil {
		r.left[uid] = true
	}
	if r := c.reports[to]; r != nil {
		delete(r.left, uid)
	}
}

// badNUMANodes says what is wrong with the NUMA nodes that a pod is given beside the others.
func (c *checker) badNUMANodes(m *mirrored, node string, g topology.NUMAGrant, off ...facts.UID) string {
	r := m.requirements.NUMANodes
	told := c.reports[node]
	switch {
	case r.CPUs == 0 && g == topology.NUMAGrant{}:
		return ""
	case told == nil || told.report.NUMANodes.Ruler == topology.RulerNone:
		return "NUMA nodes of a node that promises nothing"
	case told.report.NUMANodes.Ruler == topology.RulerKubelet && r.Binding == topology.Unbound && g == topology.NUMAGrant{}:
		return ""
	case told.report.NUMANodes.Ruler == topology.RulerKubelet:
		return "NUMA nodes of a node where the kubelet rules"
	}
	var others []topology.NUMAGrant
	here := make(map[facts.UID]bool)
	for _, o := range c.on[node] {
		here[o.uid] = true
		if o != m && !slices.Contains(off, o.uid) {
			others = append(others, c.holdsNUMANodes(o))
		}
	}
	for _, h := range told.report.Held {
		if !here[h.UID] && !told.left[h.UID] {
			others = append(others, h.Grant)
		}
	}
	return judge.NUMARefusal(&told.report.NUMANodes, r, g, others)
}

// compareNUMANodes holds what the ledger has of a pod's NUMA nodes against what was told.
func (c *checker) compareNUMANodes(p *cluster.Pod, m *mirrored) {
	if want := c.holdsNUMANodes(m); p.Grant().NUMANodes != want {
		c.s.violate("the ledger has pod %s in NUMA nodes %q, it is in %q", p.UID, p.Grant().NUMANodes, want)
	}
	told := c.reports[m.node]
	if told != nil && told.report.NUMANodes.Ruler == topology.RulerAgent && m.requirements.NUMANodes.CPUs > 0 && p.Grant().NUMANodes.IsZero() {
		c.s.violate("pod %s is on node %s without NUMA nodes", p.UID, cmp.Or(m.node, "?"))
	}
}
