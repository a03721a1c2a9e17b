package report

import (
	"cmp"
	"math"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/node/allocate"
	"hilbert.dev/hilbert/node/gpu"
	"hilbert.dev/hilbert/node/gpu/kubelet"
	"hilbert.dev/hilbert/topology"
)

// Bounds of the definition in deploy/crds, in bytes, and of functions.
const (
	maxUUID      = 96
	maxModel     = 128
	maxName      = 63
	maxFunctions = 4096
	maxOthers    = 64
	maxResource  = 317
	maxDeviceID  = 128
)

// Devices lists GPUs and network cards, and the pods that hold them. view says why GPUs are closed, by the same index.
func Devices(m *topology.Machine, d *topology.Devices, view *gpu.View, held []allocate.HeldDevices) *spec.Devices {
	out := &spec.Devices{Owner: d.Owner.String(), SeveralNamespaces: d.SeveralNamespaces}
	for i := range d.GPU {
		out.GPUs = append(out.GPUs, gpuOf(m, d, view, i))
	}
	for i := range d.NIC {
		n := &d.NIC[i]
		said := spec.NIC{
			Index: i, Address: n.Address, Name: cut(n.Name, maxName), BandwidthMbit: int64(n.Bandwidth), Functions: min(int(n.Functions), maxFunctions),
			RDMA: n.RDMA, DevicePlace: place(m, n.Switch, n.NUMANode, n.Socket),
		}
		if d.ClosedNICs&(1<<i) != 0 {
			said.Closed = "Vanished: the kernel no longer knows it"
		}
		out.NICs = append(out.NICs, said)
	}
	for i := range held[:min(len(held), maxHeld)] {
		h, gpus := &held[i], &held[i].Grant
		a := spec.DeviceAllocation{Namespace: h.Namespace, Name: h.Name, UID: h.UID, NICs: h.Grant.NICText(), Moved: h.Moved}
		if gpus.GPUs == 0 && h.Given.GPUs != 0 {
			gpus, a.Owner = &h.Given, spec.OwnerKubelet
		}
		a.GPUs, a.Isolation = gpus.GPUText(), gpus.Isolation.String()
		if gpus.GPUs>>len(d.GPU) == 0 && h.Grant.NICs>>len(d.NIC) == 0 { // else the report could not be read
			out.Allocations = append(out.Allocations, a)
		}
	}
	return out
}

// KubeletDevices lays out what else is known of the kubelet's devices: why it does not say which it gave, and those that no allocation says. nil: nothing.
func KubeletDevices(unread string, rest []kubelet.Unaccounted) *spec.KubeletDevices {
	if unread == "" && len(rest) == 0 {
		return nil
	}
	out := &spec.KubeletDevices{Unread: cut(unread, maxMessage), More: min(max(len(rest)-maxOthers, 0), math.MaxUint16)}
	for _, r := range rest[:min(len(rest), maxOthers)] {
		said := spec.KubeletDevice{Namespace: r.Namespace, Name: r.Name, Resource: cut(r.Resource, maxResource), ID: cut(r.ID, maxDeviceID)}
		if r.GPU >= 0 {
			said.GPU = new(r.GPU)
		}
		out.Others = append(out.Others, said)
	}
	return out
}

func gpuOf(m *topology.Machine, d *topology.Devices, view *gpu.View, i int) spec.GPU {
	g, slot := &d.GPU[i], &view.Slots[i]
	out := spec.GPU{
		// Without a UUID it is closed, and the definition wants one.
		Index: i, UUID: cut(cmp.Or(g.UUID, "unknown:"+g.Address), maxUUID), Address: g.Address, Model: cut(g.Model, maxModel), MemoryMiB: int64(g.Memory),
		Multiprocessors: int(slot.GPU.Multiprocessors), Grain: int(g.Grain), LeastPart: int(g.Least), Clients: int(g.Clients), DevicePlace: place(m, g.Switch, g.NUMANode, g.Socket),
	}
	for _, strength := range []topology.Isolation{topology.Accounting, topology.Soft, topology.Hard} {
		if g.Strengths.Has(strength) {
			out.Isolation = append(out.Isolation, strength.String())
		}
	}
	if d.ClosedGPUs&(1<<i) != 0 {
		out.Closed = cut(string(cmp.Or(slot.Closed, gpu.Unreadable))+": "+slot.Why, maxMessage)
	}
	for k := range g.Instances {
		in := &g.Instances[k]
		said := spec.GPUInstance{
			Name: cut(cmp.Or(in.Name, "unknown"), maxName), UUID: cut(slot.Instances[k].UUID, maxUUID), Milli: int(in.Milli), MemoryMiB: int64(min(in.Memory, g.Memory)),
		}
		if said.Gone = slot.Instances[k].Gone; said.Gone {
			said.Milli, said.MemoryMiB = 0, 0
		}
		out.Instances = append(out.Instances, said)
	}
	if n := len(d.GPU); len(d.Links) == n*n {
		for _, link := range d.Links[i*n : (i+1)*n] {
			out.Links = append(out.Links, int(link))
		}
	}
	return out
}

// place is where a device hangs, in the report's numbers: those of NUMA nodes are the kernel's.
func place(m *topology.Machine, pciSwitch, numa, socket uint8) (out spec.DevicePlace) {
	if pciSwitch != topology.NoPlace {
		out.Switch = new(int(pciSwitch))
	}
	if int(numa) < len(m.NUMA) {
		out.NUMA = new(m.NUMA[numa].ID)
	}
	if socket != topology.NoPlace {
		out.Socket = new(int(socket))
	}
	return out
}
