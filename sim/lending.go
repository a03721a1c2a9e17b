package sim

import (
	"cmp"
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/sim/judge"
)

// Headroom moves every lendInterval, half to one and a half, by up to lendStep permille of what it was at the beginning. It is at most lendMost times
// that.
const (
	lendInterval = int64(20 * time.Second)
	lendStep     = 300
	lendMost     = 2
)

// planLending puts the first move of every agent's headroom on the agenda.
func (na *nodeAgents) planLending() {
	for i := range na.api.nodes {
		if ag := na.api.nodes[i].agent; ag != nil && ag.headroom.State != facts.HeadroomUnsaid {
			na.clock.add(event{at: 1 + na.draws.Int64N(lendInterval), kind: evHeadroom, arg: int32(i)})
		}
	}
}

// moveHeadroom moves a node's headroom, and plans the next time while the workload lasts.
func (na *nodeAgents) moveHeadroom(node int32) {
	ag := na.api.nodes[node].agent
	h, first := &ag.headroom, &ag.firstHeadroom
	move := func(now, first int64) int64 {
		return min(max(now+first*(na.draws.Int64N(2*lendStep+1)-lendStep)/permille, 0), lendMost*first)
	}
	h.MilliCPU, h.Memory = move(h.MilliCPU, first.MilliCPU), move(h.Memory, first.Memory)
	na.reportSoon(node)
	if na.clock.now < na.meter.end {
		na.clock.add(event{at: na.clock.now + lendInterval/2 + na.draws.Int64N(lendInterval), kind: evHeadroom, arg: node})
	}
}

// dropHeadroom takes nine tenths of a node's headroom at once.
func (na *nodeAgents) dropHeadroom(node int32) {
	ag := na.api.nodes[node].agent
	ag.headroom.MilliCPU, ag.headroom.Memory = ag.headroom.MilliCPU/10, ag.headroom.Memory/10
	na.reportSoon(node)
}

// closeHeadroom closes a node to reclaimed pods for a while.
func (na *nodeAgents) closeHeadroom() {
	if node := na.random(); node != nowhere {
		ag := na.api.nodes[node].agent
		ag.headroom.State, ag.headroom.Note = facts.HeadroomClosed, "closed by the simulator"
		na.reportSoon(node)
		na.clock.add(event{at: na.clock.now + 1 + na.draws.Int64N(absence), kind: evAgentBack, arg: node})
	}
}

// dropAllHeadroom lets the online pods of all nodes use more at once, so that hardly anything is left to lend.
func (na *nodeAgents) dropAllHeadroom() {
	for i := range na.api.nodes {
		if ag := na.api.nodes[i].agent; ag != nil && ag.headroom.State != facts.HeadroomUnsaid {
			na.dropHeadroom(int32(i))
		}
	}
}

// addHeadroom adds to a report what the agent lends. If the reclaimed pods on the node hold more than that, it also requests the eviction of the
// newest, until the others fit.
func (na *nodeAgents) addHeadroom(n *node, r *facts.NodeReport) {
	ag := n.agent
	r.Headroom = ag.headroom
	if ag.headroom.State == facts.HeadroomUnsaid {
		return
	}
	cpu, memory := int64(0), int64(0)
	var list []*pod
	for _, i := range n.pods {
		p := &na.api.pods[i]
		if need := na.api.requirements(p); need.Reclaimed && !p.deleting {
			cpu, memory = cpu+judge.Request(need, spec.ResourceReclaimedCPU), memory+judge.Request(need, spec.ResourceReclaimedMemory)
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b *pod) int { return cmp.Or(cmp.Compare(b.bound, a.bound), cmp.Compare(a.uid, b.uid)) })
	for _, p := range list {
		if cpu <= ag.headroom.MilliCPU && memory <= ag.headroom.Memory {
			break
		}
		need := na.api.requirements(p)
		cpu, memory = cpu-judge.Request(need, spec.ResourceReclaimedCPU), memory-judge.Request(need, spec.ResourceReclaimedMemory)
		r.Evictions = append(r.Evictions, facts.EvictionRequest{
			UID: p.uid, Namespace: na.api.identity(p).Namespace, Name: p.name, Reason: "HeadroomFell",
			Urgent: na.faults != nil && na.draws.IntN(permille) < na.faults.UrgentEvictions,
		})
	}
}

// offered is the node with what its agent lends among what is allocatable, as the agent's newest report says.
func (n *node) offered() *facts.Node {
	if n.agent == nil {
		return n.object
	}
	return judge.WithHeadroom(n.object, &n.agent.said.Headroom)
}
