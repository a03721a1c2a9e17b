package sim

import (
	"maps"
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/bind"
	"hilbert.dev/hilbert/sim/judge"
	"hilbert.dev/hilbert/topology"
)

// agent is the agent of one node. It outlives the Node object, as the machine does.
type agent struct {
	shape topology.NUMAShape
	free  topology.NUMAFree
	// gpus is the node's devices, if there are any to give out; counters and left are what is left of them.
	gpus     topology.Shape
	counters topology.Free
	left     topology.DeviceFree
	owners   gpuOwners
	held     map[facts.UID]topology.Grant
	// broken are the pods that could not have what they were promised, refused those whose eviction is refused, as the scheduler told it last.
	broken, refused []facts.UID
	// said is its newest report.
	said *facts.NodeReport
	// headroom is what the node lends, firstHeadroom what that was at the beginning.
	headroom, firstHeadroom facts.Headroom
	// reportDue: a report is on the agenda. silent: the agent cannot be reached, and its report is stale.
	reportDue, silent bool
}

// nodeAgents are the agents of all nodes. When a pod is bound, its node's agent gives it the NUMA nodes and devices that the Binding promised, or
// others like them if those are gone, and reports that some time later:
//
//	0 s  a pod is bound to node n with a promise of CPUs of NUMA node 0
//	2 s  the agent of n admits it; NUMA node 0 is taken by then, so it gives CPUs of NUMA node 1
//	9 s  its report says so, and the watch carries that to the scheduler
//
// If nothing is left to give, the report says so, and the scheduler evicts the pod. The agents draw from a stream of their own.
type nodeAgents struct {
	faults     *Faults // nil: none
	draws      *stream
	clock      *clock
	violations *violations
	meter      *meter
	api        *model
	watches    *watches
	pods       evictor
}

// evictor ends pods that their node cannot keep.
type evictor interface {
	evict(pod int32)
}

// addAgents makes the agents of a workload.
func (a *model) addAgents(reports []facts.NodeReported) {
	for _, r := range reports {
		ag := &agent{shape: r.Report.NUMANodes, held: make(map[facts.UID]topology.Grant), said: r.Report}
		ag.equip(r.Report.Devices)
		ag.owners = newGPUOwners(r.Report.Devices)
		ag.headroom, ag.firstHeadroom = r.Report.Headroom, r.Report.Headroom
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

// take gives NUMA nodes and devices to a pod.
func (ag *agent) take(uid facts.UID, g topology.Grant) {
	ag.held[uid] = g
	v := ag.view()
	v.Commit(&g)
}

// drop takes back what a pod has; false if it has nothing.
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
	absence     = int64(time.Minute) // how long an agent is silent, and a foreign pod keeps what it got
)

// podBound lets the node's agent admit a pod that was bound there, a little later.
func (na *nodeAgents) podBound(i int32) {
	p := &na.api.pods[i]
	if na.api.nodes[p.node].agent != nil && na.api.requirements(p).Reclaimed {
		na.reportSoon(p.node)
	}
	if ag := na.api.nodes[p.node].agent; ag != nil && ag.admits(na.api.requirements(p)) {
		na.clock.add(event{at: na.clock.now + 1 + na.draws.Int64N(admitDelay), kind: evAdmit, arg: i})
	}
}

// admit gives a pod what it was promised. If that is gone, it gives something else that the pod's request allows; if there is nothing, it reports
// that.
func (na *nodeAgents) admit(i int32) {
	p := &na.api.pods[i]
	if !p.exists || p.finished {
		return
	}
	ag := na.api.nodes[p.node].agent
	if !na.kubeletAdmits(i) {
		return
	}
	gpus, numaNodes := ag.asks(na.api.requirements(p))
	grant := ag.promised(&p.grant)
	if _, also := ag.owners.given[p.uid]; also { // the kubelet gave the GPUs: the agent is not asked for them
		gpus = topology.Request{NIC: gpus.NIC}
		grant = topology.Grant{NICs: grant.NICs, NIC: grant.NIC, NUMANodes: grant.NUMANodes}
	}
	if gpus.Count() == 0 && gpus.NIC.Count == 0 && (numaNodes.IsZero() || ag.shape.Ruler != topology.RulerAgent) {
		return // the agent has nothing to give
	}
	v := ag.view()
	kept := v.Fits(&gpus, &numaNodes, &grant)
	if na.faults != nil && na.draws.IntN(permille) < na.faults.AgentMoves {
		if g, ok := ag.otherGrant(&grant, &gpus, &numaNodes); ok {
			ag.noteConflict(&g)
			ag.take(p.uid, g)
			na.meter.faults["promise moved at will"]++
			na.reportSoon(p.node)
			return
		}
	}
	ok := kept
	if !kept {
		grant, ok = v.Offer(&gpus, &numaNodes)
	}
	switch {
	case na.faults == nil && !kept:
		na.violations.add("node %s cannot keep what pod %s was promised: %+v", na.api.nodes[p.node].object.Name, p.uid, p.grant)
	case !ok:
		na.meter.faults["promise broken"]++
		ag.broken = append(ag.broken, p.uid)
		na.reportSoon(p.node)
		return
	case !kept:
		na.meter.faults["promise moved"]++
	default:
		na.meter.faults["promise kept"]++
	}
	ag.noteConflict(&grant)
	ag.take(p.uid, grant)
	na.reportSoon(p.node)
}

// podEnded lets the node's agent take back what a pod had.
func (na *nodeAgents) podEnded(i int32) {
	p := &na.api.pods[i]
	if p.node == nowhere {
		return
	}
	ag := na.api.nodes[p.node].agent
	if ag == nil {
		return
	}
	freed := ag.drop(p.uid)
	if ag.forgetKubelet(p.uid) || freed && ag.contested() {
		na.findOwnerSoon(p.node, ownerLook)
	}
	// Without a report that does not name it any more, the scheduler would be asked for ever to evict one that could not have what it was promised.
	if freed || na.api.requirements(p).Reclaimed || slices.Contains(ag.broken, p.uid) {
		na.reportSoon(p.node)
	}
}

func (na *nodeAgents) reportSoon(node int32) {
	if ag := na.api.nodes[node].agent; !ag.reportDue && !ag.silent {
		ag.reportDue = true
		na.clock.add(event{at: na.clock.now + 1 + na.draws.Int64N(reportDelay), kind: evReport, arg: node})
	}
}

// report writes a node's report.
func (na *nodeAgents) report(node int32) {
	ag := na.api.nodes[node].agent
	ag.reportDue = false
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
	ag.owners.version.rewrite(r)
	na.addHeadroom(&na.api.nodes[node], r)
	na.addBroken(&na.api.nodes[node], r)
	r.Refused = ag.refused
	na.publish(node, r)
}

// addBroken adds to a report the pods that are still there though they cannot have what they were promised.
func (na *nodeAgents) addBroken(n *node, r *facts.NodeReport) {
	n.agent.broken = slices.DeleteFunc(n.agent.broken, func(uid facts.UID) bool {
		i, ok := na.api.byUID[uid]
		return !ok || na.api.pods[i].deleting || na.api.pods[i].finished
	})
	for _, uid := range n.agent.broken {
		if !slices.ContainsFunc(r.Evictions, func(e facts.EvictionRequest) bool { return e.UID == uid }) {
			p := &na.api.pods[na.api.byUID[uid]]
			r.Evictions = append(r.Evictions, facts.EvictionRequest{
				UID: uid, Namespace: na.api.identity(p).Namespace, Name: p.name, Reason: spec.ReasonPromiseBroken, Urgent: true, Broken: true,
			})
		}
	}
}

// refusalsTold is what an agent is told of its requests that are refused; the watch of reports shows it.
func (na *nodeAgents) refusalsTold(w *bind.Write) {
	node := na.api.byName[w.Node]
	ag := na.api.nodes[node].agent
	ag.refused = nil
	for _, p := range w.Refused {
		ag.refused = append(ag.refused, p.UID)
	}
	told := *ag.said
	told.Refused = ag.refused
	na.publish(node, &told)
}

func (na *nodeAgents) publish(node int32, r *facts.NodeReport) {
	n := &na.api.nodes[node]
	turned := judge.OwnerSaid(n.agent.said) != judge.OwnerSaid(r)
	n.agent.said = r
	na.api.revision++
	if turned {
		n.agent.owners.changed = na.api.revision
	}
	na.watches.tell(watchReports, facts.NodeReported{Node: n.object.Name, Report: r})
}

// random returns a node whose agent assigns NUMA nodes and is not silent, or nowhere.
func (na *nodeAgents) random() int32 {
	start := na.draws.IntN(len(na.api.nodes))
	for i := range na.api.nodes {
		at := (start + i) % len(na.api.nodes)
		if ag := na.api.nodes[at].agent; ag != nil && ag.shape.Ruler == topology.RulerAgent && !ag.silent {
			return int32(at)
		}
	}
	return nowhere
}

// silence cuts an agent off for a while. Its report becomes stale, which is what the real shell tells the scheduler.
func (na *nodeAgents) silence() {
	if node := na.random(); node != nowhere {
		ag := na.api.nodes[node].agent
		ag.silent = true
		stale := *ag.said
		stale.NUMANodes.Ruler, stale.Why, stale.Evictions = topology.RulerNone, facts.ReportStale, nil
		if stale.Headroom.State != facts.HeadroomUnsaid {
			stale.Headroom.State = facts.HeadroomStale
		}
		if judge.OwnerSaid(&stale) == judge.OwnerKubelet && na.draws.IntN(2) == 0 {
			stale.Devices = nil // as the shell tells it: node.status has the kubelet's count
		}
		na.publish(node, &stale)
		na.clock.add(event{at: na.clock.now + 1 + na.draws.Int64N(absence), kind: evAgentBack, arg: node})
	}
}

// claim gives cores to a pod that no scheduler knows, for a while.
func (na *nodeAgents) claim() {
	node := na.random()
	if node == nowhere {
		return
	}
	ag := na.api.nodes[node].agent
	v := ag.view()
	gpus, numaNodes := na.drawClaim(ag)
	if g, ok := v.Offer(&gpus, &numaNodes); ok {
		ag.take(stranger, g)
		na.reportSoon(node)
		na.clock.add(event{at: na.clock.now + 1 + na.draws.Int64N(absence), kind: evAgentBack, arg: node})
	}
}

const (
	stranger  = facts.UID("stranger")
	numaClaim = 2
)

// restore ends the faults of an agent.
func (na *nodeAgents) restore(node int32) {
	ag := na.api.nodes[node].agent
	ag.silent = false
	if ag.headroom.State == facts.HeadroomClosed {
		ag.headroom.State, ag.headroom.Note = facts.HeadroomOpen, ""
	}
	ag.drop(stranger)
	ag.reopenGPUs()
	if ag.owners.recover() {
		na.countGPUs(node)
	}
	na.reportSoon(node)
}
