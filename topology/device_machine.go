package topology

// Place is where a device is attached, as GPU and NIC have it.
type Place struct{ Switch, NUMANode, Socket uint8 }

// PlacesOf returns where the GPUs and network cards of a machine are attached, by PCI address.
//
// Two devices are below one switch if they share a bridge that is not a root port: sysfs shows a switch as an upstream port below the root port,
// and downstream ports below that. So the number of a switch is that of the topmost bridge below a root port, in the order of Machine.Devices; what
// hangs at a root port, or at the host bridge itself, is below none, as is what would have the number NoPlace. NUMA nodes are indices of Machine.NUMA;
// a machine with more than MaxNUMANodes promises nothing by NUMA node, and nothing is near one. The socket is the one of the NUMA node's first CPU. On a machine
// with one NUMA node or one socket everything is near it, whatever the firmware says.
func PlacesOf(m *Machine) map[string]Place {
	above := make(map[string]string, len(m.Devices))
	for _, d := range m.Devices {
		above[d.Address] = d.Parent
	}
	numaNodes, sockets := nearNUMANodes(m)
	switches := make(map[string]uint8)
	places := make(map[string]Place)
	for _, d := range m.Devices {
		if d.Kind != DeviceGPU && d.Kind != DeviceNIC {
			continue
		}
		p := Place{Switch: NoPlace, NUMANode: NoPlace, Socket: NoPlace}
		if z, ok := numaNodes[d.NUMA]; ok {
			p.NUMANode = z
		}
		if s, ok := sockets[d.NUMA]; ok {
			p.Socket = s
		}
		if top := topBridge(above, d.Parent); top != "" {
			n, known := switches[top]
			if !known {
				n = uint8(min(len(switches), NoPlace))
				switches[top] = n
			}
			p.Switch = n
		}
		places[d.Address] = p
	}
	return places
}

// topBridge is the topmost of a bridge and the bridges above it that is not a root port; empty if there is none.
func topBridge(above map[string]string, bridge string) (top string) {
	for range len(above) { // a cycle of parents ends nowhere
		parent := above[bridge]
		if bridge == "" || parent == "" {
			return top
		}
		top, bridge = bridge, parent
	}
	return ""
}

// nearNUMANodes are the NUMA node and the socket of each NUMA node's ID; -1 is of devices that do not say, where there is but one.
func nearNUMANodes(m *Machine) (numaNodes, sockets map[int]uint8) {
	numaNodes, sockets = make(map[int]uint8), make(map[int]uint8)
	if len(m.NUMA) <= 1 {
		numaNodes[-1] = 0
	}
	if len(m.NUMA) <= MaxNUMANodes {
		for i, n := range m.NUMA {
			numaNodes[n.ID] = uint8(i)
		}
	}
	first := make(map[int]CPU)
	one := true
	for _, c := range m.CPUs {
		if f, ok := first[c.NUMA]; !ok || c.ID < f.ID {
			first[c.NUMA] = c
		}
		one = one && c.Socket == m.CPUs[0].Socket
	}
	for id, c := range first {
		sockets[id] = uint8(min(c.Socket, NoPlace))
	}
	if one && len(m.CPUs) > 0 {
		sockets[-1] = uint8(min(m.CPUs[0].Socket, NoPlace))
		for _, n := range m.NUMA {
			sockets[n.ID] = sockets[-1]
		}
	}
	return numaNodes, sockets
}

// DevicesOf is what a machine says of its GPUs and network cards: addresses, places, functions, RDMA. What the driver knows is missing, so that no GPU
// gives anything yet: the owner, memory, links, strengths; and the bandwidth of cards. Virtual functions are no cards of their own. Of more devices
// than can be told apart, the first are taken. Indices are those of a machine that is seen for the first time; an agent with a checkpoint takes
// PlacesOf instead.
func DevicesOf(m *Machine) *Devices {
	places := PlacesOf(m)
	d := &Devices{}
	for _, device := range m.Devices {
		p := places[device.Address]
		switch {
		case device.Kind == DeviceGPU && len(d.GPU) < MaxGPUs:
			d.GPU = append(d.GPU, GPU{Address: device.Address, Model: device.Model, Switch: p.Switch, NUMANode: p.NUMANode, Socket: p.Socket})
		case device.Kind == DeviceNIC && device.PhysicalFunction == "" && len(d.NIC) < MaxNICs:
			n := NIC{
				Address: device.Address, Functions: uint16(min(device.MaxVirtualFunctions, 1<<15-1)), RDMA: len(device.RDMA) > 0,
				Switch: p.Switch, NUMANode: p.NUMANode, Socket: p.Socket,
			}
			if len(device.Names) > 0 {
				n.Name = device.Names[0]
			}
			d.NIC = append(d.NIC, n)
		}
	}
	return d
}
