package rules

import (
	"math"

	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/schedule/fragment"
)

// scoreCPUWorth prefers, for a pod without a GPU, nodes without GPUs where it takes away the least room that frequent pods need (fragment.HostPrices). For
// example, a pod of 8 CPUs goes to a node with 12 free ones rather than to the only one where a pod of 32 still fits. It needs GPUWorth's price list,
// so it is 0 everywhere where GPUWorth has no weight, and before the first list.
func scoreCPUWorth(p *Profile, s *cluster.State, slot cluster.Slot, c *cluster.Class) int64 {
	if s.HasGPUs(slot) {
		return 0
	}
	request := fragment.Request{CPU: c.Amounts.Get(resource.CPU), Memory: c.Amounts.Get(resource.Memory)}
	return int64(math.Round(float64(MaxWorth * p.market.hosts.Worth(s.Free(slot, resource.CPU), s.Free(slot, resource.Memory), &request))))
}

// hostArrived counts a pod without a GPU.
func (m *Market) hostArrived(r *facts.Requirements) {
	if !m.pricesHosts {
		return
	}
	var request fragment.Request
	for _, q := range r.Requests {
		switch q.Name {
		case resource.NameCPU:
			request.CPU = q.Amount
		case resource.NameMemory:
			request.Memory = q.Amount
		}
	}
	m.hostMix.Add(&request)
	m.freshHosts++
}

func (m *Market) hostsDue() bool { return m.pricesHosts && m.freshHosts >= m.dueHosts }

// learnHosts finds prices of what is free on nodes without GPUs. Where nodes have GPUs, these must have prices first: with the first list other scores take
// their places.
func (m *Market) learnHosts(s *cluster.State) {
	nodes, gpus := m.nodes[:0], false
	for i := range s.Slots() {
		slot := cluster.Slot(i)
		switch node := s.Node(slot); {
		case node == nil:
		case s.HasGPUs(slot):
			gpus = true
		case !node.Unschedulable:
			nodes = append(nodes, fragment.Node{CPU: s.Free(slot, resource.CPU), Memory: s.Free(slot, resource.Memory)})
		}
	}
	m.nodes = nodes
	m.freshHosts = 0
	m.dueHosts = max(firstArrivals, min(int(m.hostMix.Seen())/2, len(nodes)*arrivalsPer))
	m.hosts.Learn(&m.hostMix, nodes)
	if m.revision > 0 || !gpus {
		m.revision++
	}
}
