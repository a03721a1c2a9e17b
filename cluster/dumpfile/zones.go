package dumpfile

import (
	"fmt"

	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/topology"
)

// How zones, what is asked of them and what is said about them stand in a file.

type (
	bindingText topology.Binding
	rulerText   topology.Ruler
	zonesText   topology.ZoneGrant // as the Binding's annotation has it
)

func (b bindingText) MarshalText() ([]byte, error) { return []byte(nameOf(bindingNames, b)), nil }
func (r rulerText) MarshalText() ([]byte, error)   { return []byte(nameOf(rulerNames, r)), nil }

func (z zonesText) MarshalText() ([]byte, error) { return []byte(topology.ZoneGrant(z).String()), nil }

func (b *bindingText) UnmarshalText(text []byte) (err error) {
	*b, err = named[bindingText](bindingNames, string(text))
	return err
}

func (r *rulerText) UnmarshalText(text []byte) (err error) {
	*r, err = named[rulerText](rulerNames, string(text))
	return err
}

func (z *zonesText) UnmarshalText(text []byte) error {
	g, err := topology.ParseZoneGrant(string(text))
	*z = zonesText(g)
	return err
}

type zoneRequestRecord struct {
	CPUs    uint16      `json:"cpus"`
	Binding bindingText `json:"binding"`
	Memory  uint32      `json:"memory,omitempty"`
}

type zoneRecord struct {
	CPUs   uint16 `json:"cpus"`
	Socket uint8  `json:"socket,omitempty"`
	Memory uint32 `json:"memory"`
	Closed bool   `json:"closed,omitempty"`
}

type heldRecord struct {
	UID   facts.UID `json:"uid"`
	Zones zonesText `json:"zones"`
}

type reportRecord struct {
	Node    string       `json:"node"`
	Ruler   rulerText    `json:"ruler"`
	Why     string       `json:"why,omitempty"`
	Threads uint8        `json:"threads,omitempty"`
	Zones   []zoneRecord `json:"zones,omitempty"`
	Held    []heldRecord `json:"held,omitempty"`

	Devices     *devicesRecord      `json:"devices,omitempty"`
	HeldDevices []heldDevicesRecord `json:"heldDevices,omitempty"`
	DeviceNote  string              `json:"deviceNote,omitempty"`

	Headroom headroomRecord `json:"headroom,omitzero"`
	Wishes   []wishRecord   `json:"wishes,omitempty"`
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

type wishRecord struct {
	UID       facts.UID `json:"uid"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Reason    string    `json:"reason"`
	Message   string    `json:"message,omitempty"`
	Urgent    bool      `json:"urgent,omitempty"`
}

func writeReport(r facts.NodeReported) reportRecord {
	shape := &r.Report.Zones
	out := reportRecord{Node: r.Node, Ruler: rulerText(shape.Ruler), Why: r.Report.Why, Threads: shape.Threads}
	for z, capacity := range shape.Zone[:shape.Zones] {
		out.Zones = append(out.Zones, zoneRecord{capacity.CPUs, capacity.Socket, capacity.Memory, shape.Closed&(1<<z) != 0})
	}
	out.Held = each(r.Report.Held, func(h facts.HeldZones) heldRecord { return heldRecord{h.UID, zonesText(h.Grant)} })
	out.Devices, out.DeviceNote = writeDevices(r.Report.Devices), r.Report.DeviceNote
	out.HeldDevices = each(r.Report.HeldDevices, func(h facts.HeldDevices) heldDevicesRecord { return heldDevicesRecord{h.UID, *writeGrant(&h.Grant)} })
	h := &r.Report.Headroom
	out.Headroom = headroomRecord{headroomText(h.State), h.MilliCPU, h.Memory, h.Note}
	out.Wishes = each(r.Report.Evictions, func(w facts.EvictionRequest) wishRecord { return wishRecord(w) })
	return out
}

func readReport(r *reportRecord) (facts.NodeReported, error) {
	out := facts.NodeReported{Node: r.Node, Report: &facts.NodeReport{Why: r.Why}}
	if len(r.Zones) > topology.MaxZones {
		return out, fmt.Errorf("report of node %s: %d zones; at most %d can be told apart", r.Node, len(r.Zones), topology.MaxZones)
	}
	shape := &out.Report.Zones
	shape.Ruler, shape.Threads, shape.Zones = topology.Ruler(r.Ruler), r.Threads, uint8(len(r.Zones))
	for z, capacity := range r.Zones {
		shape.Zone[z] = topology.ZoneCapacity{CPUs: capacity.CPUs, Socket: capacity.Socket, Memory: capacity.Memory}
		if capacity.Closed {
			shape.Closed |= 1 << z
		}
	}
	out.Report.Held = each(r.Held, func(h heldRecord) facts.HeldZones {
		return facts.HeldZones{UID: h.UID, Grant: topology.ZoneGrant(h.Zones)}
	})
	out.Report.Devices, out.Report.DeviceNote = r.Devices.devices(), r.DeviceNote
	for _, held := range r.HeldDevices {
		grant, err := held.Grant.grant()
		if err != nil {
			return out, fmt.Errorf("report of node %s: devices of pod %s: %w", r.Node, held.UID, err)
		}
		out.Report.HeldDevices = append(out.Report.HeldDevices, facts.HeldDevices{UID: held.UID, Grant: grant})
	}
	h := &r.Headroom
	out.Report.Headroom = facts.Headroom{State: facts.HeadroomState(h.State), MilliCPU: h.MilliCPU, Memory: h.Memory, Note: h.Note}
	out.Report.Evictions = each(r.Wishes, func(w wishRecord) facts.EvictionRequest { return facts.EvictionRequest(w) })
	return out, nil
}

func (r *zoneRequestRecord) request() topology.ZoneRequest {
	return topology.ZoneRequest{CPUs: r.CPUs, Binding: topology.Binding(r.Binding), Memory: r.Memory}
}
