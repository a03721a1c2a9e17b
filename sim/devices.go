package sim

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
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

// sameHeld reports whether two grants are of the same devices. The amounts of a MIG instance need not be in a grant.
func sameHeld(a, b topology.Grant) bool {
	return a.GPUs == b.GPUs && a.NICs == b.NICs && a.Instance == b.Instance && (a.Instance > 0 || a.GPUs == 0 || a.Milli == b.Milli && a.Memory == b.Memory)
}

// judge says why a pod with this grant must not join the others on the node, NUMA nodes apart; empty when it may.
func (c *checker) judge(n *facts.Node, m *mirrored, grant topology.Grant, off ...facts.UID) string {
	others, told := c.occupants(n.Name, m, off...), c.reports[n.Name]
	if told == nil || told.report.Devices == nil {
		if grant.NICs != 0 || grant.Instance != 0 || grant.Memory != 0 || m.requirements.GPU.NIC.Count > 0 {
			return "devices of a node that says nothing of any"
		}
		return cmp.Or(judge(c.offered(n), others, m.requirements, grant), c.tooManyWhole(n, m, off))
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
		held = append(held, others[i].grant)
		others[i].grant.GPUs = 0
	}
	for _, h := range told.report.HeldDevices {
		if !here[h.UID] && !told.left[h.UID] {
			held = append(held, h.Grant)
		}
	}
	if why := judge(c.offered(n), others, &bare, given); why != "" {
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
	return badDevices(told.report.Devices, &bare.GPU, &grant, held)
}

// badDevices says what is wrong with the devices that a pod is given beside the others.
func badDevices(d *topology.Devices, r *topology.Request, g *topology.Grant, others []topology.Grant) string {
	if bits.OnesCount16(g.GPUs) != r.Count() || bits.OnesCount16(g.NICs) != int(r.NIC.Count) {
		return fmt.Sprintf("%d GPUs and %d network cards where %d and %d are asked for", bits.OnesCount16(g.GPUs), bits.OnesCount16(g.NICs), r.Count(), r.NIC.Count)
	}
	if g.GPUs>>len(d.GPU) != 0 || g.NICs>>len(d.NIC) != 0 || g.GPUs&d.ClosedGPUs != 0 || g.NICs&d.ClosedNICs != 0 {
		return "a device that is not there, or closed"
	}
	for i := range d.GPU {
		if g.GPUs>>i&1 == 1 {
			if why := badGPU(&d.GPU[i], r, g); why != "" {
				return fmt.Sprintf("GPU %d: %s", i, why)
			}
		}
	}
	for i := range d.NIC {
		if g.NICs>>i&1 == 1 && (r.NIC.RDMA && !d.NIC[i].RDMA || g.NIC.Bandwidth < r.NIC.Bandwidth || r.NIC.Function && !g.NIC.Function) {
			return fmt.Sprintf("network card %d is less than is asked for", i)
		}
	}
	if r.Near.Required && !r.Near.Relax && !isNear(d, r.Near.Level, g) {
		return "devices that are not as near as is required"
	}
	before := soldTwice(d, others)
	if why := soldTwice(d, append(slices.Clone(others), *g)); why != "" && before == "" {
		return why
	}
	return ""
}

// badGPU says what of a GPU is less than is asked for, or not charged as it is given.
func badGPU(gpu *topology.GPU, r *topology.Request, g *topology.Grant) string {
	switch grain := max(int16(gpu.Grain), 1); {
	case r.Milli == 0:
		if g.Milli != 1000 || gpu.Memory < r.Memory {
			return "it is not whole, or too small"
		}
	case g.Instance > 0:
		if int(g.Instance) > len(gpu.Instances) {
			return "no such instance"
		}
		if k := gpu.Instances[g.Instance-1]; int16(k.Milli) < r.Milli || k.Memory < r.Memory {
			return "the instance is too small"
		}
	case len(gpu.Instances) > 0:
		return "a slice beside instances"
	case g.Isolation < r.Isolation || !gpu.Strengths.Has(g.Isolation):
		return "it does not isolate so strongly"
	case g.Milli < r.Milli || g.Memory < r.Memory || g.Memory == 0 && gpu.Memory > 0:
		return "less than is asked for"
	case g.Isolation == topology.Soft && g.Milli%grain != 0 && g.Milli != 1000:
		return fmt.Sprintf("%d/1000, which is not rounded to the grain of %d", g.Milli, grain)
	case g.Isolation == topology.Accounting && g.Milli != r.Milli:
		return "more than is asked for"
	}
	return ""
}

// isNear reports whether all devices of a grant hang in one place.
func isNear(d *topology.Devices, level topology.Level, g *topology.Grant) bool {
	var places []uint8
	of := func(pciSwitch, numa, socket uint8) {
		places = append(places, [...]uint8{topology.Anywhere: 0, topology.SameSocket: socket, topology.SameNUMA: numa, topology.SameSwitch: pciSwitch}[level])
	}
	for i, x := range d.GPU {
		if g.GPUs>>i&1 == 1 {
			of(x.Switch, x.NUMANode, x.Socket)
		}
	}
	for i, x := range d.NIC {
		if g.NICs>>i&1 == 1 {
			of(x.Switch, x.NUMANode, x.Socket)
		}
	}
	return len(slices.Compact(places)) <= 1 // equal ones stand together if all are
}

// soldTwice counts what is held of every device.
func soldTwice(d *topology.Devices, all []topology.Grant) string {
	if d == nil {
		return ""
	}
	for i := range d.GPU {
		var on []topology.Grant
		for _, g := range all {
			if g.GPUs>>i&1 == 1 {
				on = append(on, g)
			}
		}
		if why := gpuSoldTwice(&d.GPU[i], on); why != "" {
			return fmt.Sprintf("GPU %d: %s", i, why)
		}
	}
	for i := range d.NIC {
		bandwidth, functions := int64(0), 0
		for _, g := range all {
			if g.NICs>>i&1 == 1 {
				bandwidth += int64(g.NIC.Bandwidth)
				if g.NIC.Function {
					functions++
				}
			}
		}
		if bandwidth > int64(d.NIC[i].Bandwidth) || functions > int(d.NIC[i].Functions) {
			return fmt.Sprintf("network card %d: %d Mbit/s and %d functions, of %d and %d", i, bandwidth, functions, d.NIC[i].Bandwidth, d.NIC[i].Functions)
		}
	}
	return ""
}

// gpuSoldTwice counts what is held of one GPU.
func gpuSoldTwice(gpu *topology.GPU, on []topology.Grant) string {
	milli, memory, whole, slices, soft := 0, int64(0), 0, 0, 0
	instances := make(map[int8]int)
	for _, g := range on {
		switch {
		case g.Instance > 0:
			if instances[g.Instance]++; instances[g.Instance] > 1 {
				return fmt.Sprintf("instance %d twice", g.Instance-1)
			}
		case g.Milli == 1000 && g.Isolation == topology.IsolationAny:
			whole++
		default:
			milli, memory, slices = milli+int(g.Milli), memory+int64(g.Memory), slices+1
			if g.Isolation == topology.Soft {
				soft++
			}
		}
	}
	switch {
	case whole > 1 || whole == 1 && slices+len(instances) > 0:
		return fmt.Sprintf("whole to %d, and parts to %d", whole, slices+len(instances))
	case milli > 1000 || memory > int64(gpu.Memory) || slices > int(gpu.Clients):
		return fmt.Sprintf("%d/1000 and %d MiB in %d slices, of %d MiB in %d", milli, memory, slices, gpu.Memory, gpu.Clients)
	case soft > 0 && soft < slices || slices > 0 && len(instances) > 0:
		return "parts that do not mix"
	}
	return ""
}
