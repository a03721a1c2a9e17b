package sim

import (
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/topology"
)

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

// asks is the part of a pod's request that the agent gives out.
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

// promised is the part of a Binding's promise that the agent has to keep.
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

// otherGrant is a grant of other NUMA nodes and GPUs than those given.
func (ag *agent) otherGrant(not *topology.Grant, gpus *topology.Request, numaNodes *topology.NUMARequest) (topology.Grant, bool) {
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

// drawClaim is what a pod that no scheduler knows asks of an agent: cores, or a GPU and a network card. Now and then a GPU is closed as well.
func (na *nodeAgents) drawClaim(ag *agent) (gpus topology.Request, numaNodes topology.NUMARequest) {
	numaNodes.CPUs = numaClaim
	d := ag.gpus.Devices
	if d == nil || d.Owner != topology.OwnerHilbert {
		return gpus, numaNodes
	}
	switch na.draws.IntN(3) {
	case 0:
		return topology.Request{Whole: 1, NIC: topology.NICRequest{Count: 1, Bandwidth: 1000}}, topology.NUMARequest{}
	case 1:
		closed := *d
		closed.ClosedGPUs |= 1 << na.draws.IntN(max(len(d.GPU), 1))
		ag.gpus.Devices = &closed
		na.meter.faults["GPU closed"]++
	}
	return gpus, numaNodes
}

// reopenGPUs opens GPUs again that were closed by a fault.
func (ag *agent) reopenGPUs() {
	if d := ag.gpus.Devices; d != nil && d.ClosedGPUs != ag.foreignGPUs() {
		open := *d
		open.ClosedGPUs = ag.foreignGPUs()
		ag.gpus.Devices = &open
	}
}
