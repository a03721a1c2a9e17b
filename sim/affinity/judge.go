package affinity

import (
	"math/bits"

	"hilbert.dev/hilbert/topology"
)

// This file judges what was chosen and what was refused. It knows what hangs where, and nothing of how the allocator chooses.

// oneSwitch reports whether all GPUs and all cards of a grant hang under one switch.
func oneSwitch(n *node, g *topology.Grant) bool {
	at := -1
	same := func(place uint8) bool {
		if at < 0 {
			at = int(place)
		}
		return at == int(place)
	}
	for i := range n.shape.Devices.GPU {
		if g.GPUs&(1<<i) != 0 && !same(n.shape.Devices.GPU[i].Switch) {
			return false
		}
	}
	for i := range n.shape.Devices.NIC {
		if g.NICs&(1<<i) != 0 && !same(n.shape.Devices.NIC[i].Switch) {
			return false
		}
	}
	return true
}

// oneZone reports whether all that is granted is of one zone: devices, cores and memory.
func oneNUMANode(n *node, g *topology.Grant) bool {
	var numaNodes uint8
	for i := range n.shape.Devices.GPU {
		if g.GPUs&(1<<i) != 0 {
			numaNodes |= 1 << n.shape.Devices.GPU[i].NUMANode
		}
	}
	for i := range n.shape.Devices.NIC {
		if g.NICs&(1<<i) != 0 {
			numaNodes |= 1 << n.shape.Devices.NIC[i].NUMANode
		}
	}
	numaNodes |= g.NUMANodes.NUMANodes()
	return numaNodes&(numaNodes-1) == 0
}

// sound reports whether what the allocator gave is what was asked for, and is still there.
func sound(n *node, h *holding) bool {
	g, a := &h.grant, h.ask
	if bits.OnesCount16(g.GPUs) != a.device.Count() || bits.OnesCount16(g.NICs) != int(a.device.NIC.Count) || g.NIC.Bandwidth != a.device.NIC.Bandwidth {
		return false
	}
	for i := range topology.MaxGPUs {
		if g.GPUs&(1<<i) != 0 && (i >= n.gpus || n.free[i] != topology.FullGPU) {
			return false
		}
	}
	for i := range topology.MaxNICs {
		if g.NICs&(1<<i) != 0 && (i >= cards || n.devices.Bandwidth[i] < int32(g.NIC.Bandwidth)) {
			return false
		}
	}
	cores, memory := 0, 0
	for z := range topology.MaxNUMANodes {
		if int32(g.NUMANodes.CPUs[z]) > max(n.numa[z].CPUs, 0) || int64(g.NUMANodes.Memory[z]) > max(n.numa[z].Memory, 0) {
			return false
		}
		cores, memory = cores+int(g.NUMANodes.CPUs[z]), memory+int(g.NUMANodes.Memory[z])
	}
	return cores == int(a.numa.CPUs) && memory == int(a.numa.Memory)
}

// fits looks by brute force for a way to give an instance what it asks for under a mode.
func fits(n *node, a *ask, m Mode) bool {
	switch {
	case !n.counts(a):
		return false
	case !m.aware():
		return n.bandwidth() >= int64(a.device.NIC.Count)*int64(a.device.NIC.Bandwidth)
	case m == Required && a.together():
		for at := range switches {
			if fitsAt(n, a, at) {
				return true
			}
		}
		return false
	}
	gpus, free := 0, 0
	for i := range n.shape.Devices.GPU {
		if n.free[i] == topology.FullGPU {
			gpus++
		}
	}
	for i := range n.shape.Devices.NIC {
		if n.devices.Bandwidth[i] >= int32(a.device.NIC.Bandwidth) {
			free++
		}
	}
	cores, memory := int32(0), int64(0)
	for z := range sockets {
		if n.numa[z].CPUs > 0 { // a NUMA node without a core gives no memory
			cores += n.numa[z].CPUs
			memory += max(n.numa[z].Memory, 0)
		}
	}
	return gpus >= a.device.Count() && free >= int(a.device.NIC.Count) && cores >= int32(a.numa.CPUs) && memory >= int64(a.numa.Memory)
}

// fitsAt is fits under one switch, and in its NUMA node.
func fitsAt(n *node, a *ask, at int) bool {
	gpus, free, numa := 0, 0, -1
	for i := range n.shape.Devices.GPU {
		if g := &n.shape.Devices.GPU[i]; int(g.Switch) == at && n.free[i] == topology.FullGPU {
			gpus, numa = gpus+1, int(g.NUMANode)
		}
	}
	for i := range n.shape.Devices.NIC {
		if c := &n.shape.Devices.NIC[i]; int(c.Switch) == at && n.devices.Bandwidth[i] >= int32(a.device.NIC.Bandwidth) {
			free, numa = free+1, int(c.NUMANode)
		}
	}
	return gpus >= a.device.Count() && free >= int(a.device.NIC.Count) && numa >= 0 &&
		n.numa[numa].CPUs >= int32(a.numa.CPUs) && n.numa[numa].Memory >= int64(a.numa.Memory)
}
