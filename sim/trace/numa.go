package trace

import (
	"math/rand/v2"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

const (
	numaThreads  = 2
	spareCPUs    = 2  // of a node, which no NUMA node promises
	kubeletOneIn = 10 // nodes: the kubelet rules
	silentOneIn  = 20 // nodes: nobody reports
	oldOneIn     = 10 // nodes: the agent keeps no shared pods in NUMA nodes
)

// divide gives each node its NUMA nodes, alike within a node.
func (s Synthetic) divide(w *Workload, random *rand.Rand) {
	for _, n := range w.Nodes {
		r := &facts.NodeReport{NUMANodes: topology.NUMAShape{Ruler: topology.RulerAgent, NUMANodes: uint8(s.NUMANodes), Threads: numaThreads}}
		cpus := (amount(n.Allocatable, resource.NameCPU)/1000 - spareCPUs) / int64(s.NUMANodes) / numaThreads * numaThreads
		memory := amount(n.Allocatable, resource.NameMemory) / topology.Mebibyte / int64(s.NUMANodes)
		for z := range s.NUMANodes {
			r.NUMANodes.NUMANode[z] = topology.NUMACapacity{CPUs: uint16(max(cpus, 0)), Socket: uint8(z / 2), Memory: uint32(memory)}
		}
		switch {
		case random.IntN(silentOneIn) == 0:
			continue
		case random.IntN(kubeletOneIn) == 0:
			r.NUMANodes.Ruler = topology.RulerKubelet
		}
		w.Reports = append(w.Reports, facts.NodeReported{Node: n.Name, Report: r})
	}
}

// dedicate makes so many percent of the pods dedicated: half of them anywhere, most of the others bound, and some to whole NUMA nodes.
func (s Synthetic) dedicate(w *Workload, random *rand.Rand) {
	type kind struct {
		of      *facts.Requirements
		binding topology.Binding
	}
	twins := make(map[kind]*facts.Requirements)
	for i := range w.Tasks {
		t := &w.Tasks[i]
		if random.IntN(100) >= s.Dedicated {
			continue
		}
		bindings := [...]topology.Binding{topology.Unbound, topology.Unbound, topology.Unbound, topology.Unbound, topology.Bound, topology.Bound, topology.Bound, topology.Exclusive}
		k := kind{t.Requirements, bindings[random.IntN(len(bindings))]}
		if twins[k] == nil {
			twins[k] = dedicatedTwin(k.of, k.binding)
		}
		t.Requirements = twins[k]
	}
}

// dedicatedTwin asks for as much as another, in whole CPUs of its own.
func dedicatedTwin(of *facts.Requirements, binding topology.Binding) *facts.Requirements {
	r := *of
	cpus := (amount(r.Requests, resource.NameCPU) + 999) / 1000
	memory := amount(r.Requests, resource.NameMemory)
	r.Requests = requests(cpus*1000, memory)
	r.NUMANodes = topology.NUMARequest{CPUs: uint16(cpus), Binding: binding}
	if binding != topology.Unbound {
		r.NUMANodes.Memory = uint32((memory + topology.Mebibyte - 1) / topology.Mebibyte)
	}
	return scored(&r)
}

// bind keeps so many percent of the pods that are not dedicated in NUMA nodes whose CPUs they share, and has agents that can do so, except a few. Some of these pods load the
// memory there, or suffer where others do.
func (s Synthetic) bind(w *Workload, random *rand.Rand) {
	for i := range w.Reports {
		shape := &w.Reports[i].Report.NUMANodes
		shape.BindsShared = shape.Ruler == topology.RulerAgent && random.IntN(oldOneIn) > 0
		shape.SeparatesBandwidth = shape.BindsShared && random.IntN(oldOneIn) > 0
	}
	type kind struct {
		of        *facts.Requirements
		bandwidth topology.Bandwidth
	}
	twins := make(map[kind]*facts.Requirements)
	for i := range w.Tasks {
		t := &w.Tasks[i]
		if !t.Requirements.NUMANodes.IsZero() || random.IntN(100) >= s.Bound {
			continue
		}
		bandwidths := [...]topology.Bandwidth{topology.BandwidthUnsaid, topology.BandwidthUnsaid, topology.BandwidthIntensive, topology.BandwidthSensitive}
		k := kind{t.Requirements, bandwidths[random.IntN(len(bandwidths))]}
		if twins[k] == nil {
			r := *k.of
			cpus, memory := amount(r.Requests, resource.NameCPU), amount(r.Requests, resource.NameMemory)
			r.NUMANodes = topology.NUMARequest{
				CPUs: uint16(max((cpus+999)/1000, 1)), Binding: topology.BoundShared, Memory: uint32((memory + topology.Mebibyte - 1) / topology.Mebibyte),
				Bandwidth: k.bandwidth,
			}
			twins[k] = &r
		}
		t.Requirements = twins[k]
	}
}
