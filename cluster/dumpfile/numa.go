package dumpfile

import (
	"fmt"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/topology"
)

// How NUMA nodes, what is asked of them and what is said about them stand in a file.

type (
	bindingText topology.Binding
	rulerText   topology.Ruler
	numaText    topology.NUMAGrant // as the Binding's annotation has it

	bandwidthText topology.Bandwidth
	resourcesText topology.ResourceGrant // as the Binding's annotation has it
)

func (b bindingText) MarshalText() ([]byte, error) { return []byte(nameOf(bindingNames, b)), nil }
func (r rulerText) MarshalText() ([]byte, error)   { return []byte(nameOf(rulerNames, r)), nil }

func (z numaText) MarshalText() ([]byte, error) { return []byte(topology.NUMAGrant(z).String()), nil }

func (b bandwidthText) MarshalText() ([]byte, error) {
	return []byte(topology.Bandwidth(b).String()), nil
}

func (g *resourcesText) UnmarshalText(text []byte) error {
	grant, err := topology.ParseResourceGrant(string(text))
	*g = resourcesText(grant)
	return err
}

func (b *bandwidthText) UnmarshalText(text []byte) error {
	bandwidth, ok := topology.ParseBandwidth(string(text))
	if !ok {
		return fmt.Errorf("bandwidth %q: want intensive or sensitive", text)
	}
	*b = bandwidthText(bandwidth)
	return nil
}

func (b *bindingText) UnmarshalText(text []byte) (err error) {
	*b, err = named[bindingText](bindingNames, string(text))
	return err
}

func (r *rulerText) UnmarshalText(text []byte) (err error) {
	*r, err = named[rulerText](rulerNames, string(text))
	return err
}

func (z *numaText) UnmarshalText(text []byte) error {
	g, err := topology.ParseNUMAGrant(string(text))
	*z = numaText(g)
	return err
}

type numaRequestRecord struct {
	CPUs    uint16      `json:"cpus"`
	Binding bindingText `json:"binding"`
	Memory  uint32      `json:"memory,omitempty"`

	Bandwidth bandwidthText `json:"bandwidth,omitempty"`
}

type numaRecord struct {
	CPUs   uint16 `json:"cpus"`
	Socket uint8  `json:"socket,omitempty"`
	Memory uint32 `json:"memory"`
	Closed bool   `json:"closed,omitempty"`
}

type heldRecord struct {
	UID       facts.UID `json:"uid"`
	NUMANodes numaText  `json:"numaNodes"`
}

type reportRecord struct {
	Node      string       `json:"node"`
	Ruler     rulerText    `json:"ruler"`
	Why       string       `json:"why,omitempty"`
	Threads   uint8        `json:"threads,omitempty"`
	NUMANodes []numaRecord `json:"numaNodes,omitempty"`
	// BindsShared and SeparatesBandwidth are left out where they are not so, as in files of before.
	BindsShared        bool         `json:"bindsShared,omitempty"`
	SeparatesBandwidth bool         `json:"separatesBandwidth,omitempty"`
	Held               []heldRecord `json:"held,omitempty"`

	Devices     *devicesRecord      `json:"devices,omitempty"`
	HeldDevices []heldDevicesRecord `json:"heldDevices,omitempty"`
	DeviceNote  string              `json:"deviceNote,omitempty"`

	Headroom      headroomRecord        `json:"headroom,omitzero"`
	Usage         usageRecord           `json:"usage,omitzero"`
	Resources     []quantityRecord      `json:"resources,omitempty"`
	ByNUMANode    []resourceRecord      `json:"resourcesByNUMANode,omitempty"`
	HeldResources []heldResourcesRecord `json:"heldResources,omitempty"`
	Overcommit    overcommitRecord      `json:"overcommit,omitzero"`
	Evictions     []evictionRecord      `json:"wishes,omitempty"`
	Apart         []apartRecord         `json:"apart,omitempty"`
	Refused       []facts.UID           `json:"refused,omitempty"`
	Events        []nodeEventRecord     `json:"events,omitempty"`
}

type resourceRecord struct {
	Name    string           `json:"name"`
	Amounts topology.Amounts `json:"amounts"`
}

type heldResourcesRecord struct {
	UID   facts.UID     `json:"uid"`
	Grant resourcesText `json:"grant"`
}

type headroomText facts.HeadroomState

func (h headroomText) MarshalText() ([]byte, error) {
	return []byte(facts.HeadroomState(h).String()), nil
}

func (h *headroomText) UnmarshalText(text []byte) error {
	value, err := valueOf[facts.HeadroomState](string(text))
	*h = headroomText(value)
	return err
}

type headroomRecord struct {
	State    headroomText `json:"state"`
	MilliCPU int64        `json:"milliCPU,omitempty"`
	Memory   int64        `json:"memory,omitempty"`
	Note     string       `json:"note,omitempty"`
}

type overcommitRecord struct {
	ExtraCPU int64 `json:"extraCPU"`
	Percent  int   `json:"percent"`
}

type usageRecord struct {
	MilliCPU int64 `json:"milliCPU"`
	Memory   int64 `json:"memory"`
	Since    int64 `json:"since"`
}

type evictionRecord struct {
	UID       facts.UID `json:"uid"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Reason    string    `json:"reason"`
	Message   string    `json:"message,omitempty"`
	Urgent    bool      `json:"urgent,omitempty"`
	Broken    bool      `json:"broken,omitempty"`
}

type apartRecord struct {
	Victim  facts.UID `json:"victim"`
	Culprit facts.UID `json:"culprit"`
	Until   int64     `json:"until"`
}

type nodeEventRecord struct {
	UID       facts.UID `json:"uid,omitempty"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name,omitempty"`
	Reason    string    `json:"reason"`
	Message   string    `json:"message,omitempty"`
	Count     int32     `json:"count"`
	First     int64     `json:"first"`
	Last      int64     `json:"last"`
}

func writeReport(r facts.NodeReported) reportRecord {
	shape := &r.Report.NUMANodes
	out := reportRecord{Node: r.Node, Ruler: rulerText(shape.Ruler), Why: r.Report.Why, Threads: shape.Threads, BindsShared: shape.BindsShared, SeparatesBandwidth: shape.SeparatesBandwidth}
	for z, capacity := range shape.NUMANode[:shape.NUMANodes] {
		out.NUMANodes = append(out.NUMANodes, numaRecord{capacity.CPUs, capacity.Socket, capacity.Memory, shape.Closed&(1<<z) != 0})
	}
	out.Held = each(r.Report.Held, func(h facts.HeldNUMA) heldRecord { return heldRecord{h.UID, numaText(h.Grant)} })
	out.Devices, out.DeviceNote = writeDevices(r.Report.Devices), r.Report.DeviceNote
	out.HeldDevices = each(r.Report.HeldDevices, func(h facts.HeldDevices) heldDevicesRecord { return heldDevicesRecord{h.UID, *writeGrant(&h.Grant)} })
	h := &r.Report.Headroom
	out.Headroom = headroomRecord{headroomText(h.State), h.MilliCPU, h.Memory, h.Note}
	out.Usage, out.Overcommit = usageRecord(r.Report.Usage), overcommitRecord(r.Report.Overcommit)
	out.Evictions = each(r.Report.Evictions, func(w facts.EvictionRequest) evictionRecord { return evictionRecord(w) })
	out.Refused, out.Resources = r.Report.Refused, each(r.Report.Resources, writeQuantity)
	out.ByNUMANode = each(r.Report.ByNUMANode, func(a topology.Resource) resourceRecord { return resourceRecord(a) })
	out.HeldResources = each(r.Report.HeldResources, func(h facts.HeldResources) heldResourcesRecord {
		return heldResourcesRecord{h.UID, resourcesText(h.Grant)}
	})
	out.Apart = each(r.Report.Apart, func(a facts.Apart) apartRecord { return apartRecord(a) })
	out.Events = each(r.Report.Events, func(e facts.NodeEvent) nodeEventRecord { return nodeEventRecord(e) })
	return out
}

func readReport(r *reportRecord) (facts.NodeReported, error) {
	out := facts.NodeReported{Node: r.Node, Report: &facts.NodeReport{Why: r.Why}}
	if len(r.NUMANodes) > topology.MaxNUMANodes {
		return out, fmt.Errorf("report of node %s: %d NUMA nodes; at most %d can be told apart", r.Node, len(r.NUMANodes), topology.MaxNUMANodes)
	}
	shape := &out.Report.NUMANodes
	shape.Ruler, shape.Threads, shape.NUMANodes = topology.Ruler(r.Ruler), r.Threads, uint8(len(r.NUMANodes))
	shape.BindsShared, shape.SeparatesBandwidth = r.BindsShared, r.SeparatesBandwidth
	for z, capacity := range r.NUMANodes {
		shape.NUMANode[z] = topology.NUMACapacity{CPUs: capacity.CPUs, Socket: capacity.Socket, Memory: capacity.Memory}
		if capacity.Closed {
			shape.Closed |= 1 << z
		}
	}
	out.Report.Held = each(r.Held, func(h heldRecord) facts.HeldNUMA {
		return facts.HeldNUMA{UID: h.UID, Grant: topology.NUMAGrant(h.NUMANodes)}
	})
	out.Report.Devices, out.Report.DeviceNote = r.Devices.devices(), r.DeviceNote
	for _, held := range r.HeldDevices {
		grant, err := held.Grant.grant()
		if err != nil {
			return out, fmt.Errorf("report of node %s: devices of pod %s: %w", r.Node, held.UID, err)
		}
		out.Report.HeldDevices = append(out.Report.HeldDevices, facts.HeldDevices{UID: held.UID, Grant: grant})
	}
	out.Report.Resources = each(r.Resources, readQuantity)
	out.Report.ByNUMANode = each(r.ByNUMANode, func(a resourceRecord) topology.Resource { return topology.Resource(a) })
	out.Report.HeldResources = each(r.HeldResources, func(h heldResourcesRecord) facts.HeldResources {
		return facts.HeldResources{UID: h.UID, Grant: topology.ResourceGrant(h.Grant)}
	})
	h := &r.Headroom
	out.Report.Headroom = facts.Headroom{State: facts.HeadroomState(h.State), MilliCPU: h.MilliCPU, Memory: h.Memory, Note: h.Note}
	out.Report.Usage, out.Report.Overcommit = facts.Usage(r.Usage), facts.Overcommit(r.Overcommit)
	out.Report.Evictions = each(r.Evictions, func(w evictionRecord) facts.EvictionRequest { return facts.EvictionRequest(w) })
	out.Report.Refused = r.Refused
	out.Report.Apart = each(r.Apart, func(a apartRecord) facts.Apart { return facts.Apart(a) })
	out.Report.Events = each(r.Events, func(e nodeEventRecord) facts.NodeEvent { return facts.NodeEvent(e) })
	return out, nil
}

func (r *numaRequestRecord) request() topology.NUMARequest {
	return topology.NUMARequest{CPUs: r.CPUs, Binding: topology.Binding(r.Binding), Memory: r.Memory, Bandwidth: topology.Bandwidth(r.Bandwidth)}
}
