package check

import (
	"cmp"
	"math/bits"
	"slices"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/sim/judge"
	"hilbert.dev/hilbert/topology"
)

// candidate is a pod, and the place that the scheduler has chosen for it. It is judged by what the scheduler had been told by then. What
// happens afterwards breaks no constraint: pods leave, nodes go and come back, other schedulers bind where they like.
type candidate struct {
	mirror *mirror
	pod    *mirrored
	node   *facts.Node
	grant  topology.Grant
	// without are pods that count as gone: the victims, which leave before the pod is bound.
	without     []facts.UID
	constraints bool // between pods, anywhere in the workload
}

// refusal says why the pod must not have the place; empty if it may.
func (c *candidate) refusal() string {
	return cmp.Or(c.requestsAndDevices(), c.numaNodes(), c.neighbours())
}

// others are the pods that the scheduler ought to know on the node.
func (c *candidate) others() []judge.Occupant {
	return c.mirror.occupants(c.node.Name, c.pod, c.without...)
}

// requestsAndDevices checks everything but NUMA nodes and constraints between pods.
func (c *candidate) requestsAndDevices() string {
	n, m, grant := c.node, c.pod, c.grant
	others, told := c.others(), c.mirror.reports[n.Name]
	if told == nil || told.report.Devices == nil {
		if grant.NICs != 0 || grant.Instance != 0 || grant.Memory != 0 || m.requirements.GPU.NIC.Count > 0 {
			return "devices of a node that says nothing of any"
		}
		return cmp.Or(judge.Refusal(c.mirror.offered(n), others, m.requirements, grant), c.tooManyWhole())
	}
	if why := c.disowned(); why != "" {
		return why
	}
	bare, given := *m.requirements, topology.Grant{NUMANodes: grant.NUMANodes}
	bare.GPU = topology.Request{}
	here := map[facts.UID]bool{m.uid: true}
	for _, o := range c.mirror.on[n.Name] {
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
	if why := judge.Refusal(c.mirror.offered(n), others, &bare, given); why != "" {
		return why
	}
	if m.requirements.GPU.Count()+int(m.requirements.GPU.NIC.Count) == 0 {
		if grant.GPUs|grant.NICs != 0 {
			return "devices that it did not ask for"
		}
		return ""
	}
	bare.GPU = m.requirements.GPU
	if judge.OwnerSaid(told.report) == judge.OwnerKubelet { // disowned has judged the GPUs; network cards are left
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

// disowned says what is wrong with GPUs of a node whose agent does not give them out.
func (c *candidate) disowned() string {
	n, m, g := c.node, c.pod, &c.grant
	r, report := &m.requirements.GPU, c.mirror.reports[n.Name].report
	owner := judge.OwnerSaid(report)
	if r.IsZero() || owner == judge.OwnerAgent && n.GPU.GPUs == 0 {
		return ""
	}
	switch {
	case owner == judge.OwnerAgent:
		return "GPUs of an agent that a device plugin offers too"
	case owner == judge.OwnerNobody:
		return "GPUs that no party gives out"
	case r.Milli > 0 || g.Milli != topology.FullGPU || g.Memory > 0 || g.Isolation != topology.IsolationAny || g.Instance > 0:
		return "parts of GPUs that the kubelet gives out"
	case r.Near.Required && !r.Near.Relax && (r.Count()+int(r.NIC.Count) > 1 || !m.requirements.NUMANodes.IsZero()):
		return "nearness to GPUs that the kubelet will choose"
	case bits.OnesCount16(g.GPUs) != r.Count():
		return "another number of GPUs than is asked for"
	}
	for i := range report.Devices.GPU {
		if report.Devices.GPU[i].Memory < r.Memory {
			return "memory that not all GPUs have of which the kubelet chooses"
		}
	}
	return c.tooManyWhole()
}

// tooManyWhole says that the kubelet would have to give out more GPUs than it counts. It adds up what the pods ask for, not which GPUs they are
// recorded to hold.
func (c *candidate) tooManyWhole() string {
	n, m := c.node, c.pod
	if m.requirements.GPU.IsZero() || n.GPU.Shareable {
		return ""
	}
	if judge.WholeGPUs(c.others())+int(m.requirements.GPU.Whole) > n.GPU.GPUs {
		return "more GPUs than the kubelet counts"
	}
	return ""
}

// numaNodes says what is wrong with the NUMA nodes that a pod is given beside the others.
func (c *candidate) numaNodes() string {
	m, node, g := c.pod, c.node.Name, c.grant.NUMANodes
	r := m.requirements.NUMANodes
	told := c.mirror.reports[node]
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
	for _, o := range c.mirror.on[node] {
		here[o.uid] = true
		if o != m && !slices.Contains(c.without, o.uid) {
			others = append(others, c.mirror.holdsNUMANodes(o))
		}
	}
	for _, h := range told.report.Held {
		if !here[h.UID] && !told.left[h.UID] {
			others = append(others, h.Grant)
		}
	}
	return judge.NUMARefusal(&told.report.NUMANodes, r, g, others)
}

// neighbours checks the constraints between pods. What is kept for a pod counts as that pod would.
func (c *candidate) neighbours() string {
	if !c.constraints {
		return ""
	}
	m := c.pod
	var all judge.Population
	for _, n := range c.mirror.nodes {
		all.Nodes = append(all.Nodes, n)
	}
	for _, other := range c.mirror.pods {
		if at := c.mirror.nodes[other.node]; at != nil && other != m && !slices.Contains(c.without, other.uid) {
			all.Pods = append(all.Pods, other.resident(at))
		}
	}
	for _, k := range c.mirror.kept() {
		if at := c.mirror.nodes[k.Node]; at != nil && k.UID != m.uid && !slices.Contains(c.without, k.UID) {
			all.Pods = append(all.Pods, k.resident(at))
		}
	}
	return all.Refusal(m.resident(nil), c.node)
}
