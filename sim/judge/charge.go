package judge

import (
	"math/bits"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// Charge is what a pod costs its queues at least, by resource: what it requests.
func Charge(r *facts.Requirements) map[string]int64 {
	sum := map[string]int64{resource.NamePods: 1}
	for _, q := range r.Requests {
		sum[q.Name] += q.Amount
	}
	if milli := r.GPU.Total(); milli > 0 {
		sum[spec.ResourceGPUMilli] += milli
	}
	return sum
}

// ChargeOn is what a pod costs its queues on a node that gives it a grant: what it requests, and what whole cores, NUMA nodes and parts of GPUs take
// beyond that. It is at most what the node has; but a pod of ours costs what it requests where the node has nothing of it any more. said is what the
// node's agent reports, nil for nothing.
func ChargeOn(n *facts.Node, said *facts.NodeReport, o Occupant, ours bool) map[string]int64 {
	sum := Charge(o.Requirements)
	for _, name := range []string{resource.NameCPU, resource.NameMemory} {
		if more := beyondRequests(o.Requirements, &o.Grant.NUMANodes, name); more > 0 {
			sum[name] += more
		}
	}
	if o.Grant.GPUs != 0 {
		sum[spec.ResourceGPUMilli] = eachGPU(said, &o.Grant) * int64(bits.OnesCount16(o.Grant.GPUs))
	}
	for name, amount := range sum {
		has, _ := named(n.Allocatable, name)
		if name == spec.ResourceGPUMilli {
			has = int64(gpusOf(n, said)) * 1000
		}
		if name != resource.NamePods && !HeadroomOnly(name) && (has > 0 || !ours) {
			sum[name] = min(amount, has)
		}
	}
	return sum
}

// eachGPU is the thousandths that a grant takes of each of its GPUs.
func eachGPU(said *facts.NodeReport, g *topology.Grant) int64 {
	if g.Instance > 0 && said != nil && said.Devices != nil {
		gpu := said.Devices.GPU[bits.TrailingZeros16(g.GPUs)]
		return int64(gpu.Instances[g.Instance-1].Milli)
	}
	return int64(g.Milli)
}

// gpusOf is how many GPUs a node may give.
func gpusOf(n *facts.Node, said *facts.NodeReport) int {
	switch {
	case said == nil || said.Devices == nil:
		return n.GPU.GPUs
	case said.Devices.Owner == topology.OwnerKubelet:
		return min(n.GPU.GPUs, topology.MaxGPUs)
	case said.Devices.Owner == topology.OwnerHilbert && said.Why == "" && (n.GPU.GPUs == 0 || n.GPU.Shareable):
		return len(said.Devices.GPU)
	}
	return 0
}
