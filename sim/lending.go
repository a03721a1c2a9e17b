package sim

import (
	"cmp"
	"math"
	"slices"
	"time"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/schedule/bind"
	"hilbert.dev/hilbert/schedule/relief"
	"hilbert.dev/hilbert/sim/judge"
)

// This file is what agents lend: headroom that moves with the seed, and the evictions that they wish when it has fallen below what runs.

// Headroom moves at such intervals, by up to so many permille of what it was at the beginning; it may be at most twice that.
const (
	lendInterval = int64(20 * time.Second)
	lendStep     = 300
	lendMost     = 2
)

// planLending puts the first move of every agent's headroom on the agenda.
func (s *simulation) planLending() {
	for i := range s.api.nodes {
		if ag := s.api.nodes[i].agent; ag != nil && ag.headroom.State != facts.HeadroomUnsaid {
			s.agenda.add(event{at: 1 + s.agents.Int64N(lendInterval), kind: evLend, arg: int32(i)})
		}
	}
}

// lend moves a node's headroom, and plans the next time while the workload lasts.
func (s *simulation) lend(node int32) {
	ag := s.api.nodes[node].agent
	h, first := &ag.headroom, &ag.lent
	move := func(now, first int64) int64 {
		return min(max(now+first*(s.agents.Int64N(2*lendStep+1)-lendStep)/permille, 0), lendMost*first)
	}
	h.MilliCPU, h.Memory = move(h.MilliCPU, first.MilliCPU), move(h.Memory, first.Memory)
	s.reportSoon(node)
	if s.now < s.meter.end {
		s.agenda.add(event{at: s.now + lendInterval/2 + s.agents.Int64N(lendInterval), kind: evLend, arg: node})
	}
}

// fall takes nearly all of a node's headroom at once.
func (s *simulation) fall(node int32) {
	ag := s.api.nodes[node].agent
	ag.headroom.MilliCPU, ag.headroom.Memory = ag.headroom.MilliCPU/10, ag.headroom.Memory/10
	s.reportSoon(node)
}

// shut closes a node to reclaimed pods for a while.
func (s *simulation) shut() {
	if node := s.randomAgent(); node != nowhere {
		ag := s.api.nodes[node].agent
		ag.headroom.State, ag.headroom.Note = facts.HeadroomClosed, "closed by the simulator"
		s.reportSoon(node)
		s.agenda.add(event{at: s.now + 1 + s.agents.Int64N(absence), kind: evAgentBack, arg: node})
	}
}

// tide lets the online pods of all nodes rise together, so that hardly anything is left to lend.
func (s *simulation) tide() {
	for i := range s.api.nodes {
		if ag := s.api.nodes[i].agent; ag != nil && ag.headroom.State != facts.HeadroomUnsaid {
			s.fall(int32(i))
		}
	}
}

// lending adds to a report what the agent lends, and whom it wants gone: those who came last, until the others have room.
func (s *simulation) lending(n *node, r *facts.NodeReport) {
	ag := n.agent
	r.Headroom = ag.headroom
	if ag.headroom.State == facts.HeadroomUnsaid {
		return
	}
	cpu, memory := int64(0), int64(0)
	var list []*pod
	for _, i := range n.pods {
		p := &s.api.pods[i]
		if need := s.api.requirements(p); need.Reclaimed && !p.deleting {
			cpu, memory = cpu+judge.Request(need, spec.ResourceReclaimedCPU), memory+judge.Request(need, spec.ResourceReclaimedMemory)
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b *pod) int { return cmp.Or(cmp.Compare(b.bound, a.bound), cmp.Compare(a.uid, b.uid)) })
	for _, p := range list {
		if cpu <= ag.headroom.MilliCPU && memory <= ag.headroom.Memory {
			break
		}
		need := s.api.requirements(p)
		cpu, memory = cpu-judge.Request(need, spec.ResourceReclaimedCPU), memory-judge.Request(need, spec.ResourceReclaimedMemory)
		r.Evictions = append(r.Evictions, facts.EvictionRequest{
			UID: p.uid, Namespace: s.api.identity(p).Namespace, Name: p.name, Reason: "HeadroomFell",
			Urgent: s.o.Faults != nil && s.agents.IntN(permille) < s.o.Faults.UrgentWishes,
		})
	}
}

// relieve evicts a pod through the model's Eviction API.
func (s *simulation) relieve(w *bind.Write, result *bind.Result) {
	if s.o.Faults != nil && s.chance(s.o.Faults.WithheldEvictions) {
		result.Outcome, result.Message = bind.Withheld, "held back by the simulator's budget"
		return
	}
	s.meter.faults["eviction wished and done"]++
	s.evict(s.api.byUID[w.Pod])
}

// offered is the node with what its agent lends among what is allocatable, as the agent's newest report says.
func (n *node) offered() *facts.Node {
	if n.agent == nil {
		return n.object
	}
	return judge.WithHeadroom(n.object, &n.agent.said.Headroom)
}

// The checker's side.

// offered is the node with the headroom that the scheduler was told of.
func (c *checker) offered(n *facts.Node) *facts.Node {
	if told := c.reports[n.Name]; told != nil {
		return judge.WithHeadroom(n, &told.report.Headroom)
	}
	return n
}

// wished remembers an eviction that was begun.
type wished struct {
	at        int64
	node      string
	urgent    bool
	reclaimed int // pods of the level, then
}

// relieved judges an eviction that a node has wished.
func (c *checker) relieved(w *bind.Write) {
	m, told := c.pods[w.Pod], c.reports[w.Node]
	if m == nil || m.node != w.Node || told == nil || !m.requirements.Reclaimed || m.deleting {
		c.s.violate("pod %s is evicted at the wish of node %s, and must not be", w.Pod, w.Node)
		return
	}
	at := slices.IndexFunc(told.report.Evictions, func(x facts.EvictionRequest) bool { return x.UID == w.Pod })
	if at < 0 {
		c.s.violate("pod %s is evicted from node %s, which does not wish it", w.Pod, w.Node)
		return
	}
	now := wished{at: c.s.now, node: w.Node, urgent: told.report.Evictions[at].Urgent}
	for _, other := range c.pods {
		if other.node != "" && other.requirements.Reclaimed {
			now.reclaimed++
		}
	}
	c.evicted = append(c.evicted, now)
	most, began, last := 0, 0, now.reclaimed
	for i := len(c.evicted) - 1; i >= 0 && now.at-c.evicted[i].at < int64(time.Minute); i-- {
		e := &c.evicted[i]
		switch {
		case !e.urgent:
			began++
			last = max(last, e.reclaimed)
		case now.urgent && e.node == now.node && e != &c.evicted[len(c.evicted)-1] && now.at-e.at < int64(relief.UrgentInterval):
			c.s.violate("two urgent evictions from node %s within %v", now.node, time.Duration(now.at-e.at))
		}
	}
	cfg := c.s.o.Config.Evictions
	most = int(math.Ceil(max(cfg.PercentPerMinute/100*float64(last), 1))) + cfg.Burst
	if !now.urgent && began > most+c.returned(now.at) {
		c.s.violate("%d evictions within a minute, where %d reclaimed pods allow %d", began, last, most)
	}
}

// returned counts the evictions of the last minute that came to nothing.
func (c *checker) returned(now int64) (n int) {
	for _, at := range c.inVain {
		if now-at < int64(time.Minute) {
			n++
		}
	}
	return n
}
