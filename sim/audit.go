package sim

import (
	"hilbert.dev/hilbert/sim/check"
	"hilbert.dev/hilbert/sim/judge"
	"hilbert.dev/hilbert/sim/trace"
	"hilbert.dev/hilbert/topology"
)

// auditor counts anew what must be true of the API server's objects and of the nodes' agents: after a step, where steps are checked, and at the
// end of every run. It decides nothing that the run depends on.
type auditor struct {
	o          *Options
	w          *trace.Workload
	features   *features
	clock      *clock
	violations *violations
	api        *model
	process    *process
	check      *check.Checker // nil: steps are not checked
}

// inspect checks everything after a step.
func (a *auditor) inspect() {
	if a.check == nil || a.violations.first != nil || a.clock.step%a.o.CheckEvery != 0 {
		return
	}
	a.nodes()
	a.api.storage.check()
	if a.process.scheduler == nil {
		return
	}
	if err := a.process.scheduler.Verify(); err != nil {
		a.violations.add("the scheduler's own check: %v", err)
	}
	a.check.Compare(a.process.scheduler.Store())
	a.check.Obliged(a.process.scheduler.Store())
	if a.features.kept {
		a.owners()
	}
	a.heldBack()
}

// heldBack judges which pods are held back because too many wait that are unlike them.
func (a *auditor) heldBack() {
	most := 0
	if m := a.o.Config.MaxWaitingClasses; m != nil {
		most = *m
	}
	a.check.HeldBack(a.process.scheduler.Store(), most)
}

// nodes counts every node anew.
func (a *auditor) nodes() {
	for name := range a.api.tenants.Units {
		a.api.sawUnit(name, a.clock.now)
	}
	for i := range a.api.nodes {
		n := &a.api.nodes[i]
		if !n.present || n.raced {
			continue
		}
		if over := judge.Overcommitted(n.object, a.api.occupants(n)); over != "" {
			a.violations.add("node %s is over-committed: %s", n.object.Name, over)
		}
	}
	a.antiAffinity()
	a.agents(false)
}

// antiAffinity looks for two pods on one node of which one's required anti-affinity excludes the other, among those that our scheduler bound. It
// holds at every step, because two pods on one node are in the same domain of every key that the node has.
func (a *auditor) antiAffinity() {
	if a.check == nil || !a.features.constraints {
		return
	}
	for i := range a.api.nodes {
		n := &a.api.nodes[i]
		for _, at := range n.pods {
			p := &a.api.pods[at]
			if p.foreign || len(a.api.requirements(p).AntiAffinity) == 0 {
				continue
			}
			for _, other := range n.pods {
				q := &a.api.pods[other]
				if q == p || q.foreign {
					continue
				}
				if key := judge.AntiAffinity(a.api.resident(p), a.api.resident(q), n.object, n.object); key != "" {
					a.violations.add("pods %s and %s are both on node %s: anti-affinity of the first over %s", p.uid, q.uid, n.object.Name, key)
				}
			}
		}
	}
}

// agents counts anew what agents have given away; at rest it also compares the ledger with it.
func (a *auditor) agents(atRest bool) {
	for i := range a.api.nodes {
		n := &a.api.nodes[i]
		if n.agent == nil {
			continue
		}
		if why := judge.GivenTwice(n.agent.gpus.Devices, n.agent.allGiven()); why != "" {
			a.violations.add("node %s has given away %s", n.object.Name, why)
		}
		if uid := n.agent.givenTwice(); uid != "" {
			a.violations.add("pod %s on node %s has GPUs of the kubelet and of the agent", uid, n.object.Name)
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
				a.violations.add("node %s has given away %d CPUs and %d MiB of NUMA node %d, which has %+v", n.object.Name, cpus[z], memory[z], z, capacity)
			}
		}
		if atRest && n.present {
			a.confirmed(n)
		}
	}
}

// confirmed: at rest, for every pod that its agent gives something, the ledger has what the agent gave.
func (a *auditor) confirmed(n *node) {
	for _, i := range n.pods {
		p := &a.api.pods[i]
		if !n.agent.confirms(a.api.requirements(p)) || n.agent.owners.given[p.uid].conflicting {
			continue
		}
		given, ok := n.agent.held[p.uid]
		known := a.process.scheduler.Store().Pod(p.uid)
		if !ok || known == nil || !known.Confirmed() || known.Grant().NUMANodes != given.NUMANodes || n.agent.gpus.Devices != nil && !n.agent.sameHeld(known.Grant(), given) {
			a.violations.add("at rest, but pod %s on node %s holds %+v (%v), which the ledger does not know", p.uid, n.object.Name, given, ok)
		}
	}
}

// atRest checks what must hold when nothing is left to happen.
func (a *auditor) atRest() {
	a.nodes()
	if a.process.scheduler == nil {
		a.violations.add("no process runs at the end")
		return
	}
	if err := a.process.scheduler.Verify(); err != nil {
		a.violations.add("the scheduler's own check, at rest: %v", err)
	}
	if p := a.process.scheduler.Pending(); p.Active+p.Backoff+p.InFlight > 0 {
		a.violations.add("at rest, but %d pods are ready, %d back off and %d are in flight", p.Active, p.Backoff, p.InFlight)
	}
	a.ledger()
	a.promises()
	a.agents(true)
	rest := &restCheck{
		preempt: a.o.Preempt, checked: a.check != nil, w: a.w, features: a.features, clock: a.clock, violations: a.violations, api: a.api,
		scheduler: a.process.scheduler, used: a.api.usage(),
	}
	rest.reservations()
	rest.strandedPods()
	rest.tenants()
	if waiting := a.process.scheduler.Store().Waiting(); waiting.Due() {
		a.violations.add("at rest, but there is room for some of %d pods that are held back", waiting.Held())
	} else if a.check != nil {
		a.heldBack()
	}
}

// promises: at rest nothing of storage is promised to a pod, and each pod with claims that waits says why. With faults what it said may have been refused for good.
func (a *auditor) promises() {
	if n := a.process.scheduler.Store().Volumes().Promised(); n > 0 {
		a.violations.add("at rest, but %d claims are promised volumes or nodes", n)
	}
	for i := range a.api.pods {
		p := &a.api.pods[i]
		if a.o.Faults == nil && p.waits() && !p.gated && !p.finished && len(a.w.Tasks[p.task].Claims) > 0 && p.reported.Reason == "" {
			a.violations.add("at rest, but pod %s waits and does not say why", p.uid)
		}
	}
}

// ledger compares the ledger with the API server: at rest they agree.
func (a *auditor) ledger() {
	store := a.process.scheduler.Store()
	for i := range a.api.pods {
		p := &a.api.pods[i]
		if !p.exists || p.finished || !p.ours {
			continue
		}
		at, known := "", store.Pod(p.uid)
		if p.node != nowhere {
			at = a.api.nodes[p.node].object.Name
		}
		if known == nil {
			a.violations.add("at rest, but the ledger has lost pod %s", p.uid)
		} else if known.Node() != at {
			a.violations.add("at rest, but the ledger has pod %s on %q; the API server has it on %q", p.uid, known.Node(), at)
		}
	}
}
