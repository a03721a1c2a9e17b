package judge

import (
	"fmt"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/topology"
)

// NUMARefusal says why a pod must not be given these NUMA nodes beside what the others hold; empty if it may.
func NUMARefusal(s *topology.NUMAShape, r topology.NUMARequest, g topology.NUMAGrant, others []topology.NUMAGrant) string {
	cpus, memory := 0, int64(0)
	if r.Binding == topology.BoundShared && !s.BindsShared {
		return "NUMA nodes for a pod that shares CPUs, where the agent keeps none there"
	}
	if g.Bandwidth != r.Bandwidth || r.Bandwidth > 0 && !s.SeparatesBandwidth {
		return "NUMA nodes that are not separated by memory bandwidth"
	}
	for z := range topology.MaxNUMANodes {
		if g.CPUs[z] == 0 && g.Memory[z] == 0 {
			continue
		}
		cpus, memory = cpus+int(g.CPUs[z]), memory+int64(g.Memory[z])
		freeCPUs, freeMemory, alone := int(s.NUMANode[z].CPUs), int64(s.NUMANode[z].Memory), true
		for _, o := range others {
			freeCPUs, freeMemory = freeCPUs-int(o.CPUs[z]), freeMemory-int64(o.Memory[z])
			alone = alone && o.CPUs[z] == 0 && o.Memory[z] == 0
			if o.CPUs[z]+uint16(min(o.Memory[z], 1)) > 0 && o.Bandwidth > 0 && r.Bandwidth > 0 && o.Bandwidth != r.Bandwidth {
				return fmt.Sprintf("NUMA node %d, where a pod is %v of memory bandwidth, to one that is %v", z, o.Bandwidth, r.Bandwidth)
			}
		}
		switch {
		case z >= int(s.NUMANodes) || s.Closed>>z&1 == 1:
			return fmt.Sprintf("NUMA node %d, which gives nothing", z)
		case r.Binding != topology.BoundShared && int(g.CPUs[z])%int(s.Threads) != 0:
			return fmt.Sprintf("%d CPUs of NUMA node %d, which are no whole cores", g.CPUs[z], z)
		case g.CPUs[z] > 0 && int(g.CPUs[z]) > freeCPUs || g.Memory[z] > 0 && int64(g.Memory[z]) > freeMemory:
			return fmt.Sprintf("%d CPUs and %d MiB of NUMA node %d, which has %d and %d", g.CPUs[z], g.Memory[z], z, freeCPUs, freeMemory)
		case r.Binding == topology.Exclusive && (!alone || g.CPUs[z] != s.NUMANode[z].CPUs):
			return fmt.Sprintf("NUMA node %d, which it would not have for itself", z)
		}
	}
	if cpus < int(r.CPUs) || r.Binding != topology.Unbound && memory < int64(r.Memory) {
		return fmt.Sprintf("%d CPUs and %d MiB of NUMA nodes where %d and %d are asked for", cpus, memory, r.CPUs, r.Memory)
	}
	return ""
}

// beyondRequests is what a pod takes of a resource beyond its requests, because it holds whole cores or whole NUMA nodes.
func beyondRequests(r *facts.Requirements, g *topology.NUMAGrant, name string) int64 {
	if r.NUMANodes.CPUs == 0 || *g == (topology.NUMAGrant{}) {
		return 0
	}
	cpus, memory := -int64(r.NUMANodes.CPUs), -int64(r.NUMANodes.Memory)
	for z := range topology.MaxNUMANodes {
		cpus, memory = cpus+int64(g.CPUs[z]), memory+int64(g.Memory[z])
	}
	switch {
	case name == "cpu":
		return max(cpus, 0) * 1000
	case name == "memory" && r.NUMANodes.Binding != topology.Unbound:
		return max(memory, 0) << 20
	}
	return 0
}
