package allocate

import (
	"fmt"
	"math/bits"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/topology"
)

// devices gives GPUs and network cards. What is left of them follows from who holds what, so it keeps no book of its own. A promise is the whole
// request: the runtime is told of none.
type devices struct{ m *Manager }

func newDevices(m *Manager) resource { return devices{m} }

// hints leave out no NUMA node: how close a pod's devices and NUMA nodes have to be is judged of both together.
func (devices) hints(*pod) uint8 { return ^uint8(0) }

func (devices) admit(*pod)   {}
func (devices) release(*pod) {}
func (devices) reconcile()   {}

func (devices) place(p *pod, out *Placement) { out.Devices, out.Unsettled = p.devices, p.unsettled }

// SetDevices says what there is; nil: it is not known, and nothing is given by us. What pods hold they keep. whose: it is known who gives the GPUs out.
func (m *Manager) SetDevices(d *topology.Devices, whose bool) {
	m.devices, m.whose = d, whose
	for _, p := range m.pods {
		if p.unsettled {
			m.adoptDevices(p)
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

// SetKubeletDevices says what the kubelet gave to the pods that it lists, by UID; nil: there is no kubelet to ask. It is charged beside what we gave.
func (m *Manager) SetKubeletDevices(given map[string]KubeletDevices) { m.kubelet = given }

// adoptDevices gives a pod that runs already what it was promised, whatever fits: as soon as it is known that it was ours to give. If whole GPUs of a device
// plugin were taken for ours, the plugin would seem to sell what we gave, and nobody could give out any.
func (m *Manager) adoptDevices(p *pod) {
	given, listed := m.kubelet[p.UID]
	whole := p.Devices.GPUs != 0 && p.Devices.Milli == topology.FullGPU // else no plugin can have given it
	plugin := whole && (given.Any || m.whose && m.devices != nil && m.devices.Owner == topology.OwnerKubelet)
	p.unsettled = m.devices == nil || whole && !plugin && (!m.whose || m.kubelet != nil && !listed)
	switch {
	case m.devices == nil:
	case p.unsettled, plugin:
		p.devices = cardsOf(p.Devices)
	default:
		p.devices = p.Devices
		m.devices.Complete(&p.devices)
	}
}

// cardsOf is the part of a grant that is of network cards.
func cardsOf(g topology.Grant) topology.Grant { return topology.Grant{NICs: g.NICs, NIC: g.NIC} }

// ours is the part of a promise that is ours to give: a device plugin gives whole GPUs, by its own numbers.
func (m *Manager) ours(g topology.Grant) topology.Grant {
	if g.GPUs != 0 && m.devices.Owner == topology.OwnerKubelet && g.Milli == topology.FullGPU {
		return cardsOf(g)
	}
	return g
}

// CloseDevices keeps GPUs and network cards from giving anything new; OpenDevices lets them give again, as far as SetDevices has them open.
func (m *Manager) CloseDevices(gpus, nics uint16) {
	m.shutGPUs |= gpus
	m.shutNICs |= nics
}

// OpenDevices undoes CloseDevices.
func (m *Manager) OpenDevices(gpus, nics uint16) {
	m.shutGPUs &^= gpus
	m.shutNICs &^= nics
}

// Devices is what may be given, with what CloseDevices has closed; nil: nothing is known.
func (m *Manager) Devices() *topology.Devices {
	if m.devices == nil || m.shutGPUs|m.shutNICs == 0 {
		return m.devices
	}
	out := *m.devices
	out.ClosedGPUs |= m.shutGPUs & (1<<len(out.GPU) - 1)
	out.ClosedNICs |= m.shutNICs & (1<<len(out.NIC) - 1)
	return &out
}

// HeldDevices is what one pod has of GPUs and network cards.
type HeldDevices struct {
	UID, Namespace, Name string
	Grant                topology.Grant // that we gave, without NUMA nodes
	Moved                bool
	Given                topology.Grant // GPUs that the kubelet gave, as of SetKubeletDevices
}

// HeldDevices lists the pods that have some, by UID.
func (m *Manager) HeldDevices() (out []HeldDevices) {
	for _, uid := range m.Pods() {
		p, given := m.pods[uid], m.kubelet[uid].Grant
		m.devices.Complete(&given)
		if p.devices.GPUs|p.devices.NICs|given.GPUs != 0 {
			out = append(out, HeldDevices{UID: uid, Namespace: p.Namespace, Name: p.Name, Grant: p.devices, Moved: p.devicesMoved, Given: given})
		}
	}
	return out
}

// view is the node as the scheduler counts it: devices as they are held, and NUMA nodes as they were free.
func (m *Manager) view(numaNodes *topology.NUMAShape, free *topology.NUMAFree) topology.View {
	shape := topology.Shape{Devices: m.Devices()}
	compute, rest := topology.NewFree(shape), topology.NewDeviceFree(shape.Devices)
	v := topology.View{Shape: &shape, Free: &compute, Devices: &rest}
	for _, h := range m.HeldDevices() {
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
func (m *Manager) take(p *pod, free topology.NUMAFree) ([]Note, *Refusal) {
	g := p.Devices
	switch {
	case p.Running && g.GPUs|g.NICs != 0:
		m.adoptDevices(p)
		return nil, nil
	case g.GPUs|g.NICs == 0 && p.DevicesForged == "" || m.devices == nil:
		return nil, nil // counters alone: who gives them out is not us
	}
	if p.DevicesForged != "" {
		m.counts.Forged++
		return []Note{{spec.ReasonForgedPlacement, p.DevicesForged}}, nil
	}
	if g = m.ours(g); g.GPUs|g.NICs == 0 {
		return nil, nil
	}
	m.devices.Complete(&g)
	shape := m.alloc.Shape()
	v := m.view(&shape, &free)
	request, z := m.requested(p, &g), (*topology.NUMARequest)(nil)
	whole := g
	if h, ok := m.alloc.Holding(p.UID); ok && m.params.Mode == spec.ModeAgent {
		z, whole.NUMANodes = &h.Request, h.Grant
	}
	if v.Fits(&request, z, &whole) {
		p.devices = g
		m.counts.DevicesKept++
		return nil, nil
	}
	other, ok := v.Offer(&request, z)
	if ok && z != nil && other.NUMANodes != whole.NUMANodes {
		ok = m.reassignNUMA(p, other.NUMANodes)
	}
	if !ok {
		m.counts.DevicesBroken++
		return nil, &Refusal{spec.ReasonPromiseBroken, fmt.Sprintf("promised %s: %s", deviceText(&g), v.Refusal(&request, z))}
	}
	other.NUMANodes = topology.NUMAGrant{}
	p.devices, p.devicesMoved = other, other != g
	if !p.devicesMoved { // only its NUMA nodes had to go elsewhere
		m.counts.DevicesKept++
		return nil, nil
	}
	m.counts.DevicesMoved++
	return []Note{{spec.ReasonPromiseMoved, fmt.Sprintf("promised %s, which is gone; took %s", deviceText(&g), deviceText(&other))}}, nil
}

// rezone gives a pod that holds NUMA nodes others in their place.
func (m *Manager) reassignNUMA(p *pod, numaNodes topology.NUMAGrant) bool {
	m.alloc.Release(p.UID)
	o, ok := m.alloc.Offer(p.Request, numaNodes, m.among(p))
	p.moved = ok
	return ok && o.Kept && m.alloc.Commit(p.UID, o) == nil
}

// requested is the request that a promise answers, as far as can be told from it. What is given in its place has at least as much memory, and RDMA
// if the promised cards had it.
func (m *Manager) requested(p *pod, g *topology.Grant) topology.Request {
	r := topology.Request{Near: p.Near}
	switch {
	case g.GPUs == 0:
	case g.Milli == topology.FullGPU && g.Instance == 0:
		r.Whole = int8(bits.OnesCount16(g.GPUs))
	default:
		r.Milli, r.Memory, r.Isolation = g.Milli, g.Memory, g.Isolation
		if g.Milli == 0 { // an instance that is gone: any will be too small or too large, so none is taken
			r.Milli, r.Isolation = topology.FullGPU-1, topology.Hard
		}
	}
	if g.NICs == 0 {
		return r
	}
	r.NIC = topology.NICRequest{Count: uint8(bits.OnesCount16(g.NICs)), Bandwidth: g.NIC.Bandwidth, Function: g.NIC.Function, RDMA: true}
	for i := range m.devices.NIC {
		if g.NICs&(1<<i) != 0 && !m.devices.NIC[i].RDMA {
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
