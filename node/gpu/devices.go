package gpu

import (
	"slices"

	"hilbert.dev/hilbert/topology"
)

// Devices is what the allocator counts with: the View's GPUs by index, in the places and with the network cards of machine, which may be nil. soft
// says of a UUID whether an MPS daemon serves it now. What machine says of GPUs but their place does not count: the driver knows better.
func (v *View) Devices(p *Params, machine *topology.Devices, owner topology.Owner, soft func(uuid string) bool) *topology.Devices {
	out := &topology.Devices{Owner: owner, ClosedGPUs: v.Closed(), Links: v.Links, SeveralNamespaces: p.SeveralNamespaces}
	if machine != nil {
		out.NIC, out.ClosedNICs = machine.NIC, machine.ClosedNICs
	}
	for i := range v.Slots {
		out.GPU = append(out.GPU, v.device(p, i, soft))
		if machine == nil {
			continue
		}
		at := slices.IndexFunc(machine.GPU, func(g topology.GPU) bool { return g.Address == v.Slots[i].Address })
		if at >= 0 {
			g, place := &out.GPU[i], &machine.GPU[at]
			g.Switch, g.NUMANode, g.Socket = place.Switch, place.NUMANode, place.Socket
		}
	}
	return out
}

func (v *View) device(p *Params, i int, soft func(string) bool) topology.GPU {
	slot := &v.Slots[i]
	g := &slot.GPU
	sm := g.multiprocessors(p)
	out := topology.GPU{
		Address: slot.Address, UUID: g.UUID, Model: g.Model, Memory: g.Memory,
		Switch: topology.NoPlace, NUMANode: topology.NoPlace, Socket: topology.NoPlace,
	}
	if slot.Closed != "" && slices.ContainsFunc(v.Slots, func(s Slot) bool { return s.GPU.UUID == g.UUID && s.Address != slot.Address }) {
		out.UUID = "" // it names another one too, which may be open
	}
	if sm > 0 {
		// Rounded down, so that a slice of so many grains is never given more multiprocessors than grains.
		out.Grain = uint16(topology.FullGPU / int(sm))
		if g.partitionable() {
			out.Least = uint16(min((topology.FullGPU*g.leastMultiprocessors()+int(sm)-1)/int(sm), topology.FullGPU))
		}
	}
	if g.MIG == MIGOn {
		out.Instances = slot.instances(sm)
		out.Strengths = topology.StrengthsOf(topology.Hard)
		return out
	}
	served := soft != nil && g.UUID != "" && soft(g.UUID) && g.partitionable()
	switch {
	case g.Compute == ComputeDefault && served:
		out.Strengths = topology.StrengthsOf(topology.Accounting, topology.Soft)
	case g.Compute == ComputeDefault:
		out.Strengths = topology.StrengthsOf(topology.Accounting)
	case g.Compute == ComputeExclusive && served: // the one process is the MPS server
		out.Strengths = topology.StrengthsOf(topology.Soft)
	}
	if out.Strengths != 0 {
		out.Clients = min(p.Clients, 1<<7-1)
	}
	return out
}

// multiprocessors is how many a whole GPU has; 0: not known.
func (g *GPU) multiprocessors(p *Params) uint16 {
	if g.Multiprocessors > 0 {
		return g.Multiprocessors
	}
	return multiprocessorsOf(g.Model, p.Multiprocessors)
}

// leastMultiprocessors is how many a process has that MPS limits as far as it can: what CUDA's driver API says of cuDevSmResourceSplitByCount by compute
// capability, and what an H100 did (driver 580: 8 of 132 for whatever is below 7 %). An architecture that is not known is taken for a new one.
func (g *GPU) leastMultiprocessors() int {
	switch g.Architecture {
	case "Volta", "Turing":
		return 2
	case "Ampere", "Ada Lovelace":
		return 4
	}
	return 8
}

// partitionable reports whether MPS can limit threads on the GPU: since Volta. What is not known cannot.
func (g *GPU) partitionable() bool {
	switch g.Architecture {
	case "", "Kepler", "Maxwell", "Pascal":
		return false
	}
	return true
}

// instances are those of a GPU by index. One that is gone, whose share is not known, or whose memory others share, keeps its index and has nothing
// to give.
func (slot *Slot) instances(sm uint16) []topology.Instance {
	inside := make(map[int]int) // of each GPU instance: its compute instances
	for _, in := range slot.Instances {
		if !in.Gone {
			inside[in.GI]++
		}
	}
	out := make([]topology.Instance, len(slot.Instances))
	for k, in := range slot.Instances {
		out[k].Name = in.Profile
		if in.Gone || sm == 0 || in.Multiprocessors > sm || inside[in.GI] > 1 {
			continue
		}
		out[k].Milli, out[k].Memory = uint16(topology.FullGPU*int(in.Multiprocessors)/int(sm)), in.Memory
	}
	return out
}
