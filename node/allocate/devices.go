package allocate

import (
	"fmt"
	"math/bits"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/topology"
)

// Devices gives GPUs and network cards. It owns what is known of them: which there are, what the kubelet gave out for device plugins, and which are closed.
// What is left of them follows from what pods hold, so it keeps no count of its own. A promise is the pod's whole request: the runtime is not told of one.
type Devices struct {
	pods       *pods
	capacity   *capacity
	dedicated  *dedicated // where NUMA nodes are changed to fit the devices
	counts     *Counts
	inventory  *topology.Devices         // as of Set; nil: not known
	ownerKnown bool                      // it is known which party gives the GPUs out
	kubelet    map[string]KubeletDevices // as of SetKubelet, by UID; nil: there is no kubelet to ask
	// closedGPUs and closedNICs are as of Close.
	closedGPUs, closedNICs uint16
}

// hints leave out no NUMA node: how close a pod's devices and NUMA nodes have to be is judged of both together.
func (*Devices) hints(*pod) uint8 { return ^uint8(0) }

func (*Devices) admit(*pod)   {}
func (*Devices) release(*pod) {}
func (*Devices) reconcile()   {}

func (*Devices) place(p *pod, out *Placement) { out.Devices, out.Unsettled = p.devices, p.unsettled }

// Set says what there is; nil: it is not known, and we give nothing. What pods hold they keep. ownerKnown: it is known which party gives the GPUs out.
func (ds *Devices) Set(inventory *topology.Devices, ownerKnown bool) {
	ds.inventory, ds.ownerKnown = inventory, ownerKnown
	for _, p := range ds.pods.known {
		if p.unsettled {
			ds.adopt(p)
		}
	}
}

// KubeletDevices is what the kubelet gave a pod of the GPUs, for a device plugin.
type KubeletDevices struct {
	// Any: some, whichever they are.
	Any bool
	// Grant is those that are known, and that a grant can say.
	Grant topology.Grant
}

// SetKubelet says what the kubelet gave to the pods that it lists, by UID; nil: there is no kubelet to ask. It is charged beside what we gave.
func (ds *Devices) SetKubelet(given map[string]KubeletDevices) { ds.kubelet = given }

// adopt gives a pod that runs already what it was promised, whatever fits: as soon as it is known that it was ours to give. If whole GPUs of a device
// plugin were taken for ours, the plugin would seem to sell what we gave, and neither party could give out any.
func (ds *Devices) adopt(p *pod) {
	given, listed := ds.kubelet[p.UID]
	whole := p.Devices.GPUs != 0 && p.Devices.Milli == topology.FullGPU // else no plugin can have given it
	plugin := whole && (given.Any || ds.ownerKnown && ds.inventory != nil && ds.inventory.Owner == topology.OwnerKubelet)
	p.unsettled = ds.inventory == nil || whole && !plugin && (!ds.ownerKnown || ds.kubelet != nil && !listed)
	switch {
	case ds.inventory == nil:
	case p.unsettled, plugin:
		p.devices = cardsOf(p.Devices)
	default:
		p.devices = p.Devices
		ds.inventory.Complete(&p.devices)
	}
}

// cardsOf is the part of a grant that is of network cards.
func cardsOf(g topology.Grant) topology.Grant { return topology.Grant{NICs: g.NICs, NIC: g.NIC} }

// ours is the part of a promise that is ours to give: a device plugin gives whole GPUs, by its own numbers.
func (ds *Devices) ours(g topology.Grant) topology.Grant {
	if g.GPUs != 0 && ds.inventory.Owner == topology.OwnerKubelet && g.Milli == topology.FullGPU {
		return cardsOf(g)
	}
	return g
}

// Close keeps GPUs and network cards from giving anything new. Open lets them give again, as far as Set has them open.
func (ds *Devices) Close(gpus, nics uint16) {
	ds.closedGPUs |= gpus
	ds.closedNICs |= nics
}

// Open undoes Close.
func (ds *Devices) Open(gpus, nics uint16) {
	ds.closedGPUs &^= gpus
	ds.closedNICs &^= nics
}

// Inventory is what there is, with what Close has closed; nil: nothing is known.
func (ds *Devices) Inventory() *topology.Devices {
	if ds.inventory == nil || ds.closedGPUs|ds.closedNICs == 0 {
		return ds.inventory
	}
	out := *ds.inventory
	out.ClosedGPUs |= ds.closedGPUs & (1<<len(out.GPU) - 1)
	out.ClosedNICs |= ds.closedNICs & (1<<len(out.NIC) - 1)
	return &out
}

// HeldDevices is what one pod has of GPUs and network cards.
type HeldDevices struct {
	UID, Namespace, Name string
	Grant                topology.Grant // that we gave, without NUMA nodes
	Moved                bool
	Given                topology.Grant // GPUs that the kubelet gave, as of SetKubelet
}

// Held lists the pods that have some, by UID.
func (ds *Devices) Held() (out []HeldDevices) {
	for _, uid := range ds.pods.uids() {
		p, given := ds.pods.known[uid], ds.kubelet[uid].Grant
		ds.inventory.Complete(&given)
		if p.devices.GPUs|p.devices.NICs|given.GPUs != 0 {
			out = append(out, HeldDevices{UID: uid, Namespace: p.Namespace, Name: p.Name, Grant: p.devices, Moved: p.devicesMoved, Given: given})
		}
	}
	return out
}

// view is the node as the scheduler counts it: devices as they are held, and NUMA nodes as they were free.
func (ds *Devices) view(numaNodes *topology.NUMAShape, free *topology.NUMAFree) topology.View {
	shape := topology.Shape{Devices: ds.Inventory()}
	compute, rest := topology.NewFree(shape), topology.NewDeviceFree(shape.Devices)
	v := topology.View{Shape: &shape, Free: &compute, Devices: &rest}
	for _, h := range ds.Held() {
		for _, g := range []topology.Grant{h.Grant, h.Given} {
			if g.GPUs>>len(shape.Devices.GPU) == 0 && g.NICs>>len(shape.Devices.NIC) == 0 {
				v.Commit(&g)
			}
		}
	}
	v.NUMANodes, v.NUMAFree = numaNodes, free
	return v
}

// take gives a pod the devices that it was promised, or equivalent ones. free is what the NUMA nodes had before it took its own.
func (ds *Devices) take(p *pod, free topology.NUMAFree) ([]Note, *Refusal) {
	g := p.Devices
	switch {
	case p.Running && g.GPUs|g.NICs != 0:
		ds.adopt(p)
		return nil, nil
	case g.GPUs|g.NICs == 0 && p.DevicesForged == "" || ds.inventory == nil:
		return nil, nil // counters alone: we do not give them out
	}
	if p.DevicesForged != "" {
		ds.counts.Forged++
		return []Note{{spec.ReasonForgedPlacement, p.DevicesForged}}, nil
	}
	if g = ds.ours(g); g.GPUs|g.NICs == 0 {
		return nil, nil
	}
	ds.inventory.Complete(&g)
	shape := ds.capacity.alloc.Shape()
	v := ds.view(&shape, &free)
	request, z := ds.requested(p, &g), (*topology.NUMARequest)(nil)
	whole := g
	if h, ok := ds.capacity.alloc.Holding(p.UID); ok && !ds.capacity.kubeletRules() {
		z, whole.NUMANodes = &h.Request, h.Grant
	}
	if v.Fits(&request, z, &whole) {
		p.devices = g
		ds.counts.DevicesKept++
		return nil, nil
	}
	other, ok := v.Offer(&request, z)
	if ok && z != nil && other.NUMANodes != whole.NUMANodes {
		ok = ds.dedicated.reassign(p, other.NUMANodes)
	}
	if !ok {
		ds.counts.DevicesBroken++
		return nil, &Refusal{spec.ReasonPromiseBroken, fmt.Sprintf("promised %s: %s", deviceText(&g), v.Refusal(&request, z))}
	}
	other.NUMANodes = topology.NUMAGrant{}
	p.devices, p.devicesMoved = other, other != g
	if !p.devicesMoved { // only its NUMA nodes had to go elsewhere
		ds.counts.DevicesKept++
		return nil, nil
	}
	ds.counts.DevicesMoved++
	return []Note{{spec.ReasonPromiseMoved, fmt.Sprintf("promised %s, which is gone; took %s", deviceText(&g), deviceText(&other))}}, nil
}

// requested is the request that a promise answers, as far as can be told from it. What is given in its place has at least as much memory, and RDMA
// if the promised cards had it.
func (ds *Devices) requested(p *pod, g *topology.Grant) topology.Request {
	r := topology.Request{Near: p.Near}
	switch {
	case g.GPUs == 0:
	case g.Milli == topology.FullGPU && g.Instance == 0:
		r.Whole = int8(bits.OnesCount16(g.GPUs))
	default:
		r.Milli, r.Memory, r.Isolation, r.Tenant = g.Milli, g.Memory, g.Isolation, topology.TenantOf(p.Namespace)
		if g.Milli == 0 { // an instance that is gone: any will be too small or too large, so none is taken
			r.Milli, r.Isolation = topology.FullGPU-1, topology.Hard
		}
	}
	if g.NICs == 0 {
		return r
	}
	r.NIC = topology.NICRequest{Count: uint8(bits.OnesCount16(g.NICs)), Bandwidth: g.NIC.Bandwidth, Function: g.NIC.Function, RDMA: true}
	for i := range ds.inventory.NIC {
		if g.NICs&(1<<i) != 0 && !ds.inventory.NIC[i].RDMA {
			r.NIC.RDMA = false
		}
	}
	return r
}

func deviceText(g *topology.Grant) string {
	switch gpus, nics := g.GPUText(), g.NICText(); {
	case nics == "":
		return "GPUs " + gpus
	case gpus == "":
		return "network cards " + nics
	default:
		return "GPUs " + gpus + " and network cards " + nics
	}
}

// DeviceState is what a pod holds of devices, in a checkpoint.
type DeviceState struct {
	GPUs string `json:"gpus,omitempty"` // as the Binding's annotations have them
	NICs string `json:"nics,omitempty"`
	// Milli and Memory (MiB) are of an instance, which the text only numbers.
	Milli  int16  `json:"milli,omitempty"`
	Memory uint32 `json:"memory,omitempty"`
	Moved  bool   `json:"moved,omitempty"`
	// Unsettled: the pod runs with this promise, and it is not known yet whose the devices are.
	Unsettled bool `json:"unsettled,omitempty"`
}

func (p *pod) deviceState() *DeviceState {
	g := &p.devices
	if p.unsettled {
		g = &p.Devices
	}
	if g.GPUs|g.NICs == 0 {
		return nil
	}
	s := &DeviceState{GPUs: g.GPUText(), NICs: g.NICText(), Moved: p.devicesMoved, Unsettled: p.unsettled}
	if g.Instance > 0 {
		s.Milli, s.Memory = g.Milli, g.Memory
	}
	return s
}

func (p *pod) restoreDevices(s *DeviceState) error {
	if s == nil {
		return nil
	}
	g := &p.devices
	if p.unsettled = s.Unsettled; p.unsettled {
		g = &p.Devices
	}
	if s.GPUs != "" {
		if err := g.ParseGPUs(s.GPUs, nil); err != nil {
			return err
		}
		*g = g.For(topology.TenantOf(p.Namespace))
	}
	if s.NICs != "" {
		if err := g.ParseNICs(s.NICs, nil); err != nil {
			return err
		}
	}
	if g.Instance > 0 {
		g.Milli, g.Memory = s.Milli, s.Memory
	}
	p.devicesMoved = s.Moved
	return nil
}
