package parse

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/topology"
)

const (
	// maxPlace is the highest number of a switch or socket.
	maxPlace = topology.NoPlace - 1
	// maxDeviceNote bounds what is kept of what is to be said of a node's devices, in bytes.
	maxDeviceNote = 512
)

// ReportedDevices is what a report says of GPUs and network cards, in the ledger's terms.
type ReportedDevices struct {
	// Devices is nil where nothing is said of them.
	Devices *topology.Devices
	// Held is what pods hold, sorted by UID.
	Held []facts.HeldDevices
	// Notes are, for people, why devices give nothing or not all; Odd: some of it is not the node's own word, but what cannot be believed.
	Notes []string
	Odd   bool
}

// NodeDevices turns what a node's agent says of GPUs and network cards into the ledger's terms.
//
// An agent that says nothing of them, as older ones do, has none to promise. A device that a newer agent describes in a word that is not known
// here gives nothing, and so do two with one address or UUID; an owner that is not known gives no GPU. An index that is not there is a closed
// device. What contradicts itself, or is held and cannot be read, is an error: nothing of it may be acted on.
func NodeDevices(s *spec.NodeStatus) (r ReportedDevices, err error) {
	if s.Devices == nil {
		return r, nil
	}
	numaNodes, err := numaNodes(s.Topology)
	if err != nil {
		return r, err
	}
	p := &deviceReader{said: s.Devices, numaNodes: numaNodes, devices: new(topology.Devices)}
	for _, step := range []func() error{p.owner, p.gpus, p.links, p.nics, p.allocations, p.kubelet} {
		if err := step(); err != nil {
			return ReportedDevices{}, fmt.Errorf("devices: %w", err)
		}
	}
	slices.SortFunc(p.held, func(a, b facts.HeldDevices) int { return cmp.Compare(a.UID, b.UID) })
	return ReportedDevices{Devices: p.devices, Held: p.held, Notes: p.notes, Odd: p.odd}, nil
}

// deviceReader reads what is said of one node's devices.
type deviceReader struct {
	said      *spec.Devices
	numaNodes []numaNode
	devices   *topology.Devices
	held      []facts.HeldDevices
	notes     []string
	odd       bool
}

func (p *deviceReader) note(format string, args ...any) {
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

// doubt notes something that is not the node's own word.
func (p *deviceReader) doubt(format string, args ...any) {
	p.odd = true
	p.note(format, args...)
}

func (p *deviceReader) owner() error {
	owner, ok := topology.ParseOwner(p.said.Owner)
	p.devices.Owner, p.devices.SeveralNamespaces = owner, p.said.SeveralNamespaces
	switch {
	case !ok:
		p.doubt("owner %q is not known here, so that no GPU is given", p.said.Owner)
	case owner != topology.OwnerHilbert && p.said.Reason != "":
		p.note("owner %s: %s", owner, p.said.Reason)
	}
	return nil
}

// gpus lays the GPUs out by index.
func (p *deviceReader) gpus() error {
	d := p.devices
	var there, closed uint16
	for i := range p.said.GPUs {
		said := &p.said.GPUs[i]
		if said.Index < 0 || said.Index >= topology.MaxGPUs || there&(1<<said.Index) != 0 {
			return fmt.Errorf("GPU %d: want each index once, from 0 to %d", said.Index, topology.MaxGPUs-1)
		}
		gpu, err := p.gpu(said)
		if err != nil {
			return fmt.Errorf("GPU %d: %w", said.Index, err)
		}
		for len(d.GPU) <= said.Index {
			d.GPU = append(d.GPU, topology.GPU{Switch: topology.NoPlace, NUMANode: topology.NoPlace, Socket: topology.NoPlace})
		}
		d.GPU[said.Index] = gpu
		there |= 1 << said.Index
		if said.Closed != "" {
			closed |= 1 << said.Index
			p.note("GPU %d: %s", said.Index, said.Closed)
		}
		if word := p.strengths(said, &d.GPU[said.Index]); word != "" {
			closed |= 1 << said.Index
			p.doubt("GPU %d: isolation %q is not known here, so that it gives nothing", said.Index, word)
		}
	}
	d.ClosedGPUs = closed | ^there&(1<<len(d.GPU)-1) | p.twins()
	return nil
}

// gpu reads one GPU, but for its strengths and links.
func (p *deviceReader) gpu(said *spec.GPU) (gpu topology.GPU, err error) {
	switch {
	case said.MemoryMiB < 0 || said.MemoryMiB > topology.MaxAmount:
		return gpu, fmt.Errorf("%d MiB of memory: want 0 to %d", said.MemoryMiB, topology.MaxAmount)
	case said.Grain < 0 || said.Grain > topology.FullGPU:
		return gpu, fmt.Errorf("grain %d: want 0 to %d", said.Grain, topology.FullGPU)
	case said.LeastPart < 0 || said.LeastPart > topology.FullGPU:
		return gpu, fmt.Errorf("leastPart %d: want 0 to %d", said.LeastPart, topology.FullGPU)
	case said.Clients < 0 || said.Clients > math.MaxInt8:
		return gpu, fmt.Errorf("%d clients: want 0 to %d", said.Clients, math.MaxInt8)
	case len(said.Instances) > topology.MaxInstances:
		return gpu, fmt.Errorf("%d instances: want at most %d", len(said.Instances), topology.MaxInstances)
	}
	gpu = topology.GPU{
		Address: said.Address, UUID: said.UUID, Model: said.Model,
		Memory: uint32(said.MemoryMiB), Grain: uint16(said.Grain), Least: uint16(said.LeastPart), Clients: uint8(said.Clients),
	}
	for i := range said.Instances {
		in := &said.Instances[i]
		if in.Gone { // it keeps its number, and gives nothing, whatever else is said of it
			gpu.Instances = append(gpu.Instances, topology.Instance{Name: in.Name})
			continue
		}
		if in.Milli < 0 || in.Milli > topology.FullGPU || in.MemoryMiB < 0 || in.MemoryMiB > said.MemoryMiB {
			return gpu, fmt.Errorf("instance %d: %d thousandths and %d MiB of a GPU with %d MiB", i, in.Milli, in.MemoryMiB, said.MemoryMiB)
		}
		gpu.Instances = append(gpu.Instances, topology.Instance{Name: in.Name, Milli: uint16(in.Milli), Memory: uint32(in.MemoryMiB)})
	}
	gpu.Switch, gpu.NUMANode, gpu.Socket, err = p.place(&said.DevicePlace)
	return gpu, err
}

// strengths reads which isolations a GPU gives, and returns the first word that is none.
func (p *deviceReader) strengths(said *spec.GPU, gpu *topology.GPU) string {
	for _, word := range said.Isolation {
		i, ok := topology.ParseIsolation(word)
		if !ok || i == topology.IsolationAny {
			return cmp.Or(word, "(none)")
		}
		gpu.Strengths |= topology.StrengthsOf(i)
	}
	return ""
}

// twins is the set of GPUs that have an address or a UUID in common with another.
func (p *deviceReader) twins() (set uint16) {
	all := p.devices.GPU
	for i := range all {
		for j := range i {
			a, b := &all[i], &all[j]
			if a.UUID != "" && a.UUID == b.UUID || a.Address != "" && a.Address == b.Address {
				set |= 1<<i | 1<<j
				p.doubt("GPU %d and GPU %d have the same address %q or UUID %q, so that both give nothing", j, i, a.Address, a.UUID)
			}
		}
	}
	return set
}

// place reads where a device hangs. A NUMA node that is not promised from is no place.
func (p *deviceReader) place(said *spec.DevicePlace) (bridge, numa, socket uint8, err error) {
	bridge, numa, socket = topology.NoPlace, topology.NoPlace, topology.NoPlace
	if said.Switch != nil {
		if *said.Switch < 0 || *said.Switch > maxPlace {
			return bridge, numa, socket, fmt.Errorf("switch %d: want 0 to %d", *said.Switch, maxPlace)
		}
		bridge = uint8(*said.Switch)
	}
	if said.Socket != nil {
		if *said.Socket < 0 || *said.Socket > maxPlace {
			return bridge, numa, socket, fmt.Errorf("socket %d: want 0 to %d", *said.Socket, maxPlace)
		}
		socket = uint8(*said.Socket)
	}
	if said.NUMA == nil || len(p.numaNodes) > topology.MaxNUMANodes {
		return bridge, numa, socket, nil
	}
	at := slices.IndexFunc(p.numaNodes, func(z numaNode) bool { return z.number == *said.NUMA })
	if at < 0 {
		return bridge, numa, socket, fmt.Errorf("NUMA node %d: the report has no such NUMA node", *said.NUMA)
	}
	return bridge, uint8(at), socket, nil
}

// links reads how well GPUs are connected. A GPU of which it is not said, where it is of another, is connected worst.
func (p *deviceReader) links() error {
	n := len(p.devices.GPU)
	for i := range p.said.GPUs {
		said := &p.said.GPUs[i]
		if len(said.Links) == 0 {
			continue
		}
		if len(said.Links) != n {
			return fmt.Errorf("GPU %d: %d links: want %d, one for each index", said.Index, len(said.Links), n)
		}
		if p.devices.Links == nil {
			p.devices.Links = make([]uint8, n*n)
		}
		for j, link := range said.Links {
			if link < 0 || link > math.MaxUint8 {
				return fmt.Errorf("GPU %d: link %d: want 0 to %d", said.Index, link, math.MaxUint8)
			}
			p.devices.Links[said.Index*n+j] = uint8(link)
		}
	}
	return nil
}

// nics lays the network cards out by index.
func (p *deviceReader) nics() error {
	d := p.devices
	var there uint16
	for i := range p.said.NICs {
		said := &p.said.NICs[i]
		if said.Index < 0 || said.Index >= topology.MaxNICs || there&(1<<said.Index) != 0 {
			return fmt.Errorf("network card %d: want each index once, from 0 to %d", said.Index, topology.MaxNICs-1)
		}
		if said.BandwidthMbit < 0 || said.BandwidthMbit > topology.MaxAmount || said.Functions < 0 || said.Functions > math.MaxInt16 {
			return fmt.Errorf("network card %d: %d Mbit/s and %d functions: want 0 to %d and 0 to %d",
				said.Index, said.BandwidthMbit, said.Functions, topology.MaxAmount, math.MaxInt16)
		}
		nic := topology.NIC{
			Address: said.Address, Name: said.Name, Bandwidth: uint32(said.BandwidthMbit), Functions: uint16(said.Functions), RDMA: said.RDMA,
		}
		var err error
		if nic.Switch, nic.NUMANode, nic.Socket, err = p.place(&said.DevicePlace); err != nil {
			return fmt.Errorf("network card %d: %w", said.Index, err)
		}
		for len(d.NIC) <= said.Index {
			d.NIC = append(d.NIC, topology.NIC{Switch: topology.NoPlace, NUMANode: topology.NoPlace, Socket: topology.NoPlace})
		}
		for j := range d.NIC {
			if nic.Address != "" && d.NIC[j].Address == nic.Address {
				d.ClosedNICs |= 1<<j | 1<<said.Index
				p.doubt("network cards %d and %d have the same address %q, so that both give nothing", j, said.Index, nic.Address)
			}
		}
		for j := range d.GPU {
			if nic.Address != "" && d.GPU[j].Address == nic.Address {
				d.ClosedGPUs |= 1 << j
				d.ClosedNICs |= 1 << said.Index
				p.doubt("GPU %d and network card %d have the same address %q, so that both give nothing", j, said.Index, nic.Address)
			}
		}
		d.NIC[said.Index] = nic
		there |= 1 << said.Index
		if said.Closed != "" {
			d.ClosedNICs |= 1 << said.Index
			p.note("network card %d: %s", said.Index, said.Closed)
		}
	}
	d.ClosedNICs |= ^there & (1<<len(d.NIC) - 1)
	return nil
}

// allocations reads who holds what. What cannot be read would be given to others: it is an error.
func (p *deviceReader) allocations() error {
	seen := make(map[string]bool, len(p.said.Allocations))
	for i := range p.said.Allocations {
		a := &p.said.Allocations[i]
		var err error
		switch {
		case a.UID == "" || seen[a.UID]:
			err = errors.New("its UID is missing, or stands twice")
		case a.GPUs == "" && a.NICs == "":
			err = errors.New("it is of nothing")
		default:
			err = p.allocation(a)
		}
		if err != nil {
			return fmt.Errorf("the allocation of %s/%s: %w", a.Namespace, a.Name, err)
		}
		seen[a.UID] = true
	}
	return nil
}

func (p *deviceReader) allocation(a *spec.DeviceAllocation) error {
	held := facts.HeldDevices{UID: facts.UID(a.UID)}
	g, d := &held.Grant, p.devices
	if a.GPUs != "" {
		if err := g.ParseGPUs(a.GPUs, nil); err != nil {
			return err
		}
	}
	*g = g.For(topology.TenantOf(a.Namespace))
	if a.NICs != "" {
		if err := g.ParseNICs(a.NICs, nil); err != nil {
			return err
		}
	}
	if g.GPUs>>len(d.GPU) != 0 || g.NICs>>len(d.NIC) != 0 {
		return fmt.Errorf("GPUs %q, network cards %q: the report has no such device", a.GPUs, a.NICs)
	}
	// One that is gone, or of which it is not known how much it is, is its holder's all the same.
	if d.Complete(g); g.Instance > 0 && int(g.Instance) > len(d.GPU[bits.TrailingZeros16(g.GPUs)].Instances) {
		return fmt.Errorf("GPUs %q: the report has no such instance", a.GPUs)
	}
	if _, ok := topology.ParseIsolation(a.Isolation); !ok {
		d.ClosedGPUs |= g.GPUs
		p.doubt("GPUs %q of %s/%s: isolation %q is not known here, so that they give nothing more", a.GPUs, a.Namespace, a.Name, a.Isolation)
	}
	p.held = append(p.held, held)
	return nil
}

// kubelet notes what is not known of the devices that the kubelet gave to pods. It counts them itself, so that nothing else follows from it.
func (p *deviceReader) kubelet() error {
	k := p.said.Kubelet
	if k == nil {
		return nil
	}
	if k.Unread != "" {
		p.note("which devices the kubelet gave to pods is not read: %s", k.Unread)
	}
	for i := range k.Others {
		if o := &k.Others[i]; o.GPU == nil {
			p.note("the kubelet gave %s/%s %s %q, and it is not known which GPU that is", o.Namespace, o.Name, o.Resource, o.ID)
		}
	}
	return nil
}

// deviceNote joins notes, as much as is kept of them.
func deviceNote(notes []string) string {
	text := strings.Join(notes, "; ")
	return strings.ToValidUTF8(text[:min(len(text), maxDeviceNote)], "")
}

// deviceSets gives nodes with the same devices the same pointer, as long as they are like each other: what tells one node's devices from another's,
// addresses and UUIDs, is the agent's affair and not kept.
type deviceSets struct {
	known map[string]*topology.Devices
	key   specKey
}

func (s *deviceSets) get(d *topology.Devices) *topology.Devices {
	if d == nil {
		return nil
	}
	k := &s.key
	k.reset()
	k.deviceSet(d)
	if known, ok := s.known[string(k.bytes)]; ok {
		return known
	}
	for i := range d.GPU {
		d.GPU[i].Address, d.GPU[i].UUID = "", ""
	}
	for i := range d.NIC {
		d.NIC[i].Address, d.NIC[i].Name = "", ""
	}
	if s.known == nil || len(s.known) >= maxMemo {
		s.known = make(map[string]*topology.Devices)
	}
	s.known[string(k.bytes)] = d
	return d
}

// deviceSet spells out all of a node's devices but their names.
func (k *specKey) deviceSet(d *topology.Devices) {
	k.num(int64(d.Owner))
	k.num(int64(len(d.GPU)))
	for i := range d.GPU {
		g := &d.GPU[i]
		k.str(g.Model)
		for _, n := range [...]int64{
			int64(g.Memory), int64(g.Grain), int64(g.Least), int64(g.Clients), int64(g.Strengths), int64(g.Switch), int64(g.NUMANode), int64(g.Socket), int64(len(g.Instances)),
		} {
			k.num(n)
		}
		for j := range g.Instances {
			in := &g.Instances[j]
			k.str(in.Name)
			k.num(int64(in.Milli))
			k.num(int64(in.Memory))
		}
	}
	k.num(int64(len(d.NIC)))
	for i := range d.NIC {
		n := &d.NIC[i]
		k.flag(n.RDMA)
		for _, v := range [...]int64{int64(n.Bandwidth), int64(n.Functions), int64(n.Switch), int64(n.NUMANode), int64(n.Socket)} {
			k.num(v)
		}
	}
	k.str(string(d.Links))
	k.num(int64(d.ClosedGPUs))
	k.flag(d.SeveralNamespaces)
	k.num(int64(d.ClosedNICs))
}
