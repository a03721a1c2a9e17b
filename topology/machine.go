package topology

// Machine is the hardware of a node: logical CPUs and how they share cores, caches, sockets and memory, and the PCIe devices that matter
// for placement. It is read once and never changed. Slices are sorted as their fields say.
type Machine struct {
	CPUs    []CPU      // the online ones, by ID
	NUMA    []NUMANode // by ID
	Devices []Device   // parents before children, siblings by address
}

// CPU is one logical CPU. Core, L3 and Socket are dense numbers from 0, unique in the machine; so siblings share Core.
type CPU struct {
	ID     int `json:"id"`
	Core   int `json:"core"`
	L3     int `json:"l3"` // -1: the kernel does not say
	Socket int `json:"socket"`
	NUMA   int `json:"numa"` // the node's ID
}

// NUMANode is a cell of memory with the CPUs near it.
type NUMANode struct {
	ID        int    `json:"id"`
	CPUs      CPUSet `json:"cpus"`      // none: memory alone
	Memory    int64  `json:"memory"`    // bytes
	Distances []int  `json:"distances"` // to each node of Machine.NUMA, as the firmware says (10 is itself); none: not known
}

// DeviceKind is what a PCIe device is for.
type DeviceKind string

// The kinds of devices. A Bridge counts because devices below one switch can exchange data without the CPU.
const (
	DeviceBridge DeviceKind = "Bridge"
	DeviceGPU    DeviceKind = "GPU"
	DeviceNIC    DeviceKind = "NIC"
	DeviceDisk   DeviceKind = "Disk"
)

// Device is a PCIe device.
type Device struct {
	Address string     `json:"address"` // "0000:3b:00.0"
	Kind    DeviceKind `json:"kind"`
	Parent  string     `json:"parent,omitempty"` // the address of the bridge above it; empty at the root
	NUMA    int        `json:"numa"`             // -1: the firmware does not say
	Vendor  string     `json:"vendor,omitempty"` // "0x10de"
	Model   string     `json:"model,omitempty"`  // "0x2330"
	// Names are the kernel's names for it: network interfaces, block devices.
	Names []string `json:"names,omitempty"`
	// RDMA devices on it, "mlx5_0".
	RDMA []string `json:"rdma,omitempty"`
	// PhysicalFunction is the address of the device that this is a virtual function of.
	PhysicalFunction string `json:"physicalFunction,omitempty"`
	// MaxVirtualFunctions is how many it can have.
	MaxVirtualFunctions int `json:"maxVirtualFunctions,omitempty"`
}

// AllCPUs is the set of the machine's logical CPUs.
func (m *Machine) AllCPUs() (s CPUSet) {
	for _, c := range m.CPUs {
		s.Add(c.ID)
	}
	return s
}

// Threads is the logical CPUs of a core: the most that any has.
func (m *Machine) Threads() int {
	count := make(map[int]int)
	most := 1
	for _, c := range m.CPUs {
		count[c.Core]++
		most = max(most, count[c.Core])
	}
	return most
}
