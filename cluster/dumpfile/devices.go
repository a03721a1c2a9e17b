package dumpfile

import (
	"errors"
	"fmt"
	"math/bits"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/topology"
)

// How GPUs and network cards, what is asked of them and what is granted stand in a file.

type (
	gpuOwnerText  topology.Owner
	isolationText topology.Isolation
	levelText     topology.Level
)

func (o gpuOwnerText) MarshalText() ([]byte, error) { return []byte(topology.Owner(o).String()), nil }

func (i isolationText) MarshalText() ([]byte, error) {
	return []byte(topology.Isolation(i).String()), nil
}
func (l levelText) MarshalText() ([]byte, error) { return []byte(topology.Level(l).String()), nil }

func (o *gpuOwnerText) UnmarshalText(text []byte) error {
	owner, ok := topology.ParseOwner(string(text))
	*o = gpuOwnerText(owner)
	return known(ok, "owner of GPUs", text)
}

func (i *isolationText) UnmarshalText(text []byte) error {
	isolation, ok := topology.ParseIsolation(string(text))
	*i = isolationText(isolation)
	return known(ok, "isolation", text)
}

func (l *levelText) UnmarshalText(text []byte) error {
	level, ok := topology.ParseLevel(string(text))
	*l = levelText(level)
	return known(ok, "level of nearness", text)
}

func known(ok bool, what string, text []byte) error {
	if !ok {
		return fmt.Errorf("no such %s: %q", what, text)
	}
	return nil
}

type gpuRequestRecord struct {
	Milli     int16         `json:"milli,omitempty"`
	Whole     int8          `json:"whole,omitempty"`
	Memory    uint32        `json:"memory,omitempty"`
	Isolation isolationText `json:"isolation,omitempty"`
	NIC       nicRecord     `json:"nic,omitzero"`
	Near      nearRecord    `json:"near,omitzero"`
	Tenant    uint64        `json:"tenant,omitempty"`
	Resources string        `json:"resources,omitempty"`
}

type nicRecord struct {
	Count     uint8  `json:"count,omitempty"`
	Bandwidth uint32 `json:"bandwidth,omitempty"`
	Function  bool   `json:"function,omitempty"`
	RDMA      bool   `json:"rdma,omitempty"`
}

type nearRecord struct {
	Level    levelText `json:"level,omitempty"`
	Required bool      `json:"required,omitempty"`
	Relax    bool      `json:"relax,omitempty"`
}

func writeGPURequest(r *topology.Request) gpuRequestRecord {
	return gpuRequestRecord{
		Milli: r.Milli, Whole: r.Whole, Memory: r.Memory, Isolation: isolationText(r.Isolation),
		NIC:  nicRecord{r.NIC.Count, r.NIC.Bandwidth, r.NIC.Function, r.NIC.RDMA},
		Near: nearRecord{levelText(r.Near.Level), r.Near.Required, r.Near.Relax}, Tenant: uint64(r.Tenant), Resources: string(r.Resources),
	}
}

func (r *gpuRequestRecord) request() topology.Request {
	return topology.Request{
		Milli: r.Milli, Whole: r.Whole, Memory: r.Memory, Isolation: topology.Isolation(r.Isolation),
		NIC:  topology.NICRequest{Count: r.NIC.Count, Bandwidth: r.NIC.Bandwidth, Function: r.NIC.Function, RDMA: r.NIC.RDMA},
		Near: topology.Near{Level: topology.Level(r.Near.Level), Required: r.Near.Required, Relax: r.Near.Relax}, Tenant: topology.Tenant(r.Tenant),
		Resources: topology.ResourceRequest(r.Resources),
	}
}

type shapeRecord struct {
	GPUs      int            `json:"gpus"`
	Model     string         `json:"model,omitempty"`
	Shareable bool           `json:"shareable,omitempty"`
	Devices   *devicesRecord `json:"devices,omitempty"`
}

type devicesRecord struct {
	Owner      gpuOwnerText      `json:"owner"`
	GPUs       []deviceGPURecord `json:"gpus,omitempty"`
	NICs       []deviceNICRecord `json:"nics,omitempty"`
	Links      []int             `json:"links,omitempty"`
	ClosedGPUs uint16            `json:"closedGPUs,omitempty"` // sets, by bits
	ClosedNICs uint16            `json:"closedNICs,omitempty"`

	SeveralNamespaces bool `json:"severalNamespaces,omitempty"`
}

type deviceGPURecord struct {
	Address   string           `json:"address,omitempty"`
	UUID      string           `json:"uuid,omitempty"`
	Model     string           `json:"model,omitempty"`
	Memory    uint32           `json:"memory,omitempty"`
	Grain     uint16           `json:"grain,omitempty"`
	Least     uint16           `json:"least,omitempty"`
	Clients   uint8            `json:"clients,omitempty"`
	Isolation []isolationText  `json:"isolation,omitempty"`
	Instances []instanceRecord `json:"instances,omitempty"`
	Switch    uint8            `json:"switch"` // places: 255 is not known
	NUMANode  uint8            `json:"numaNode"`
	Socket    uint8            `json:"socket"`
}

type instanceRecord struct {
	Name   string `json:"name"`
	Milli  uint16 `json:"milli"`
	Memory uint32 `json:"memory"`
}

type deviceNICRecord struct {
	Address   string `json:"address,omitempty"`
	Name      string `json:"name,omitempty"`
	Bandwidth uint32 `json:"bandwidth,omitempty"`
	Functions uint16 `json:"functions,omitempty"`
	RDMA      bool   `json:"rdma,omitempty"`
	Switch    uint8  `json:"switch"`
	NUMANode  uint8  `json:"numaNode"`
	Socket    uint8  `json:"socket"`
}

func writeShape(s *topology.Shape) shapeRecord {
	return shapeRecord{s.GPUs, s.Model, s.Shareable, writeDevices(s.Devices)}
}

func (r *shapeRecord) shape() topology.Shape {
	return topology.Shape{GPUs: r.GPUs, Model: r.Model, Shareable: r.Shareable, Devices: r.Devices.devices()}
}

func writeDevices(d *topology.Devices) *devicesRecord {
	if d == nil {
		return nil
	}
	return &devicesRecord{
		Owner: gpuOwnerText(d.Owner), ClosedGPUs: d.ClosedGPUs, ClosedNICs: d.ClosedNICs, SeveralNamespaces: d.SeveralNamespaces,
		Links: each(d.Links, func(l uint8) int { return int(l) }),
		NICs:  each(d.NIC, func(n topology.NIC) deviceNICRecord { return deviceNICRecord(n) }),
		GPUs: each(d.GPU, func(g topology.GPU) deviceGPURecord {
			out := deviceGPURecord{
				g.Address, g.UUID, g.Model, g.Memory, g.Grain, g.Least, g.Clients, nil,
				each(g.Instances, func(i topology.Instance) instanceRecord { return instanceRecord(i) }), g.Switch, g.NUMANode, g.Socket,
			}
			for i := topology.Accounting; i <= topology.Hard; i++ {
				if g.Strengths.Has(i) {
					out.Isolation = append(out.Isolation, isolationText(i))
				}
			}
			return out
		}),
	}
}

func (r *devicesRecord) devices() *topology.Devices {
	if r == nil {
		return nil
	}
	return &topology.Devices{
		Owner: topology.Owner(r.Owner), ClosedGPUs: r.ClosedGPUs, ClosedNICs: r.ClosedNICs, SeveralNamespaces: r.SeveralNamespaces,
		Links: each(r.Links, func(l int) uint8 { return uint8(l) }),
		NIC:   each(r.NICs, func(n deviceNICRecord) topology.NIC { return topology.NIC(n) }),
		GPU: each(r.GPUs, func(g deviceGPURecord) topology.GPU {
			strengths := each(g.Isolation, func(i isolationText) topology.Isolation { return topology.Isolation(i) })
			return topology.GPU{
				Address: g.Address, UUID: g.UUID, Model: g.Model, Memory: g.Memory, Grain: g.Grain, Least: g.Least, Clients: g.Clients,
				Strengths: topology.StrengthsOf(strengths...),
				Instances: each(g.Instances, func(i instanceRecord) topology.Instance { return topology.Instance(i) }),
				Switch:    g.Switch, NUMANode: g.NUMANode, Socket: g.Socket,
			}
		}),
	}
}

type grantRecord struct {
	GPUs      []int         `json:"gpus,omitempty"`
	Milli     int16         `json:"milli,omitempty"`
	Memory    uint32        `json:"memory,omitempty"`
	Isolation isolationText `json:"isolation,omitempty"`
	Instance  int8          `json:"instance,omitempty"` // 1 + its index
	NICs      []int         `json:"nics,omitempty"`
	Bandwidth uint32        `json:"bandwidth,omitempty"`
	Function  bool          `json:"function,omitempty"`
	NUMANodes numaText      `json:"numaNodes,omitzero"`
	Tenant    uint64        `json:"tenant,omitempty"`
	Resources resourcesText `json:"resources,omitempty"`
}

type heldDevicesRecord struct {
	UID   facts.UID   `json:"uid"`
	Grant grantRecord `json:"grant"`
}

func writeGrant(g *topology.Grant) *grantRecord {
	return &grantRecord{
		GPUs: members(g.GPUs), Milli: g.Milli, Memory: g.Memory, Isolation: isolationText(g.Isolation), Instance: g.Instance,
		NICs: members(g.NICs), Bandwidth: g.NIC.Bandwidth, Function: g.NIC.Function, NUMANodes: numaText(g.NUMANodes), Tenant: uint64(g.Tenant), Resources: resourcesText(g.Resources),
	}
}

func members(set uint16) (list []int) {
	for ; set != 0; set &= set - 1 {
		list = append(list, bits.TrailingZeros16(set))
	}
	return list
}

func (g *grantRecord) grant() (out topology.Grant, err error) {
	out = topology.Grant{
		Milli: g.Milli, Memory: g.Memory, Isolation: topology.Isolation(g.Isolation), Instance: g.Instance,
		NIC: topology.NICGrant{Bandwidth: g.Bandwidth, Function: g.Function}, NUMANodes: topology.NUMAGrant(g.NUMANodes), Tenant: topology.Tenant(g.Tenant), Resources: topology.ResourceGrant(g.Resources),
	}
	for _, gpu := range g.GPUs {
		if gpu < 0 || gpu >= topology.MaxGPUs {
			return out, fmt.Errorf("grant: %d is no GPU (0 to %d)", gpu, topology.MaxGPUs-1)
		}
		out.GPUs |= 1 << gpu
	}
	for _, nic := range g.NICs {
		if nic < 0 || nic >= topology.MaxNICs {
			return out, fmt.Errorf("grant: %d is no network card (0 to %d)", nic, topology.MaxNICs-1)
		}
		out.NICs |= 1 << nic
	}
	switch {
	case out.Instance < 0 || out.Instance > topology.MaxInstances:
		return out, fmt.Errorf("grant: %d is no MIG instance (1 to %d)", out.Instance, topology.MaxInstances)
	case out.IsZero():
		return out, errors.New("grant: it gives nothing")
	}
	return out, nil
}
