package sim

import (
	"cmp"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/sim/judge"
	"hilbert.dev/hilbert/topology"
)

// This file is what agents do with GPUs and network cards, and how that is judged: naively, one device at a time.

// givesDevices reports whether the node's agent gives its GPUs out, so that node.status counts none.
func (n *node) givesDevices() bool { return n.agent != nil && n.agent.gpus.Devices != nil }

// equip gives the agent its devices, nil for none.
func (ag *agent) equip(d *topology.Devices) {
	if d == nil {
		return
	}
	ag.gpus = topology.Shape{GPUs: len(d.GPU), Shareable: true, Devices: d}
	ag.counters, ag.left = topology.NewFree(ag.gpus), topology.NewDeviceFree(d)
}

// view is the node as its agent sees it.
func (ag *agent) view() topology.View {
	v := topology.View{Shape: &ag.gpus, Free: &ag.counters, NUMANodes: &ag.shape, NUMAFree: &ag.free}
	if ag.gpus.Devices != nil {
		v.Devices = &ag.left
	}
	return v
}

// asks is the part of what a pod asks for that is the agent's to give.
func (ag *agent) asks(r *facts.Requirements) (gpus topology.Request, numaNodes topology.NUMARequest) {
	if ag.gpus.Devices != nil {
		gpus = r.GPU
	}
	if ag.owner() == topology.OwnerKubelet && gpus.Count() > 0 {
		gpus = topology.Request{NIC: gpus.NIC}
	}
	return gpus, r.NUMANodes
}

// admits reports whether the agent, or the kubelet beside it, has anything to give to a pod.
func (ag *agent) admits(r *facts.Requirements) bool {
	return ag.confirms(r) || ag.gpus.Devices != nil && !r.GPU.IsZero()
}

// confirms reports whether the agent has anything to give to a pod.
func (ag *agent) confirms(r *facts.Requirements) bool {
	gpus, _ := ag.asks(r)
	return ag.shape.Ruler == topology.RulerAgent && !r.NUMANodes.IsZero() || gpus.Count() > 0 || gpus.NIC.Count > 0
}

// promised is the part of a Binding's promise that is the agent's to keep.
func (ag *agent) promised(g *topology.Grant) topology.Grant {
	if ag.gpus.Devices == nil {
		return topology.Grant{NUMANodes: g.NUMANodes}
	}
	promise := *g
	ag.gpus.Devices.Complete(&promise)
	if ag.owner() == topology.OwnerKubelet {
		promise = topology.Grant{NICs: g.NICs, NIC: g.NIC, NUMANodes: g.NUMANodes}
	}
	return promise
}

// elsewhere is a grant of other NUMA nodes and GPUs than those of one.
func (ag *agent) elsewhere(not *topology.Grant, gpus *topology.Request, numaNodes *topology.NUMARequest) (topology.Grant, bool) {
	other := *ag
	for z := range topology.MaxNUMANodes {
		if not.NUMANodes.CPUs[z] > 0 {
			other.free[z].CPUs = 0
		}
	}
	if not.GPUs != 0 {
		closed := *ag.gpus.Devices
		closed.ClosedGPUs |= not.GPUs
		other.gpus.Devices = &closed
	}
	v := other.view()
	return v.Offer(gpus, numaNodes)
}

// claims is what somebody whom no scheduler knows asks of an agent: cores, or a GPU and a network card. Now and then a GPU fails instead.
func (s *simulation) claims(ag *agent) (gpus topology.Request, numaNodes topology.NUMARequest) {
	numaNodes.CPUs = numaClaim
	d := ag.gpus.Devices
	if d == nil || d.Owner != topology.OwnerHilbert {
		return gpus, numaNodes
	}
	switch s.agents.IntN(3) {
	case 0:
		return topology.Request{Whole: 1, NIC: topology.NICRequest{Count: 1, Bandwidth: 1000}}, topology.NUMARequest{}
	case 1:
		closed := *d
		closed.ClosedGPUs |= 1 << s.agents.IntN(max(len(d.GPU), 1))
		ag.gpus.Devices = &closed
		s.meter.faults["GPU closed"]++
	}
	return gpus, numaNodes
}

// reopen ends what has befallen GPUs.
func (ag *agent) reopen() {
	if d := ag.gpus.Devices; d != nil && d.ClosedGPUs != ag.alien() {
		open := *d
		open.ClosedGPUs = ag.alien()
		ag.gpus.Devices = &open
	}
}

// judge says why a pod with this grant must not join the others on the node, NUMA nodes apart; empty when it may.
func (c *checker) judge(n *facts.Node, m *mirrored, grant topology.Grant, off ...facts.UID) string {
	others, told := c.occupants(n.Name, m, off...), c.reports[n.Name]
	if told == nil || told.report.Devices == nil {
		if grant.NICs != 0 || grant.Instance != 0 || grant.Memory != 0 || m.requirements.GPU.NIC.Count > 0 {
			return "devices of a node that says nothing of any"
		}
		return cmp.Or(judge.Refusal(c.offered(n), others, m.requirements, grant), c.tooManyWhole(n, m, off))
	}
	if why := c.disowned(n, m, &grant, off); why != "" {
		return why
	}
	bare, given := *m.requirements, topology.Grant{NUMANodes: grant.NUMANodes}
	bare.GPU = topology.Request{}
	here := map[facts.UID]bool{m.uid: true}
	for _, o := range c.on[n.Name] {
		here[o.uid] = true
	}
	held := []topology.Grant{}
	for i := range others {
		held = append(held, others[i].Grant)
		others[i].Grant.GPUs = 0
	}
	for _, h := range told.report.HeldDevices {
		if !here[h.UID] && !told.left[h.UID] {
			held = append(held, h.Grant)
		}
	}
	if why := judge.Refusal(c.offered(n), others, &bare, given); why != "" {
		return why
	}
	if m.requirements.GPU.Count()+int(m.requirements.GPU.NIC.Count) == 0 {
		if grant.GPUs|grant.NICs != 0 {
			return "devices that it did not ask for"
		}
		return ""
	}
	bare.GPU = m.requirements.GPU
	if ownerSaid(told.report) == kubeletOwns { // the GPUs are judged: what is left are network cards
		bare.GPU, grant.GPUs = topology.Request{NIC: m.requirements.GPU.NIC}, 0
		for i := range held {
			held[i].GPUs = 0
		}
	}
	if bare.GPU.Count()+int(bare.GPU.NIC.Count) == 0 {
		return ""
	}
	if told.report.Why != "" {
		return "devices of a node whose report is too old"
	}
	return judge.DeviceRefusal(told.report.Devices, &bare.GPU, &grant, held)
}
