package cluster

import (
	"cmp"
	"slices"

	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// NodeReport is what a node's agent says of its zones and devices. It is immutable: a change is a new one.
type NodeReport struct {
	// Zones is what can be promised. Without a ruler that is nothing.
	Zones topology.ZoneShape
	// Held is what pods hold of the zones, sorted by UID.
	Held []HeldZones
	// Devices is what GPUs and network cards there are; nil: nothing is said of them. Equal ones should share a pointer: those of two
	// reports count as the same only then.
	Devices *topology.Devices
	// HeldDevices is what pods hold of them, sorted by UID.
	HeldDevices []HeldDevices
	// DeviceNote says, for people, why devices give less than they could; empty where they do not.
	DeviceNote string
	// Why says, where there is no ruler, what is wrong with the report; one of a few phrases.
	Why string
	// Headroom is what reclaimed pods may hold of the node.
	Headroom Headroom
	// Wishes are the pods that the agent wants evicted, the first most.
	Wishes []Wish
}

// HeldZones is what one pod holds, as its node says.
type HeldZones struct {
	UID   UID
	Grant topology.ZoneGrant
}

// HeldDevices is what one pod holds of GPUs and network cards, as its node says. The grant has no zones.
type HeldDevices struct {
	UID   UID
	Grant topology.Grant
}

// The Whys of a report that nothing is promised by.
const (
	ReportStale     = "stale"     // it is too old to act on
	ReportMalformed = "malformed" // it cannot be read
)

// NodeReported: a node's agent says this of it. The node need not be known yet.
type NodeReported struct {
	Node   string
	Report *NodeReport
}

// NodeReportRemoved: nothing is said of the node any more.
type NodeReportRemoved struct{ Node string }

// ReportsListed is the complete, consistent set of reports: those not in it are removed.
type ReportsListed struct{ Reports []NodeReported }

func (NodeReported) event()      {}
func (NodeReportRemoved) event() {}
func (ReportsListed) event()     {}

// SameReport reports whether two reports say the same.
func SameReport(a, b *NodeReport) bool {
	return a.Zones == b.Zones && a.Why == b.Why && a.Headroom == b.Headroom && slices.Equal(a.Held, b.Held) && slices.Equal(a.Wishes, b.Wishes) &&
		a.Devices == b.Devices && a.DeviceNote == b.DeviceNote && slices.Equal(a.HeldDevices, b.HeldDevices)
}

// holds returns what the pod holds by the report; nil is no report.
func (r *NodeReport) holds(uid UID) (*topology.ZoneGrant, bool) {
	if r == nil || len(r.Held) == 0 {
		return nil, false
	}
	at, ok := slices.BinarySearchFunc(r.Held, uid, func(h HeldZones, uid UID) int { return cmp.Compare(h.UID, uid) })
	if !ok {
		return nil, false
	}
	return &r.Held[at].Grant, true
}

// zoneRow is what a state knows of a node's zones. Nodes of which nothing was ever said or granted have none.
type zoneRow struct {
	report *NodeReport // nil: none
	free   topology.ZoneFree
}

// Zones returns what a node's zones can promise and what is left of them; the caller must not change either. A node of which nothing is
// reported has no ruler and no zones.
func (s *State) Zones(slot Slot) (*topology.ZoneShape, *topology.ZoneFree) {
	row := s.zones[slot]
	switch {
	case row == nil:
		return &topology.ZoneShape{}, &topology.ZoneFree{}
	case row.report == nil:
		return &topology.ZoneShape{}, &row.free
	}
	return &row.report.Zones, &row.free
}

// Report returns what the node's agent says; nil: nothing.
func (s *State) Report(slot Slot) *NodeReport {
	if row := s.zones[slot]; row != nil {
		return row.report
	}
	return nil
}

// zoneRow returns the slot's row, made if need be.
func (s *State) zoneRow(slot Slot) *zoneRow {
	if s.zones[slot] == nil {
		s.zones[slot] = &zoneRow{}
	}
	return s.zones[slot]
}

// copyZones copies a row from another state; each has its own.
func (s *State) copyZones(slot Slot, from *zoneRow) {
	if from == nil {
		s.zones[slot] = nil
		return
	}
	*s.zoneRow(slot) = *from
}

// Offer chooses what of the node a pod of the class would be given: GPUs, and zones. ok is false when there is not enough of either, or no room
// for what whole cores and whole zones take beyond the request.
func (s *State) Offer(slot Slot, c *Class) (grant topology.Grant, ok bool) {
	if !c.GPU.IsZero() {
		if grant, ok = topology.OfferGPUs(s.nodes[slot].GPU, &s.gpus[slot], c.GPU); !ok {
			return grant, false
		}
	}
	if c.Zones.IsZero() {
		return grant, true
	}
	if s.Report(slot) == nil {
		return grant, false
	}
	shape, free := s.Zones(slot)
	grant.Zones, ok = topology.OfferZones(shape, free, c.Zones)
	return grant, ok && s.FitsExcess(slot, c, &grant.Zones)
}

// FitsExcess reports whether a node has room for the request of the class together with what a grant takes beyond it.
func (s *State) FitsExcess(slot Slot, c *Class, g *topology.ZoneGrant) bool {
	cpu, memory := Excess(c, g)
	return (cpu == 0 || c.Amounts.Get(resource.CPU)+cpu <= s.Free(slot, resource.CPU)) &&
		(memory == 0 || c.Amounts.Get(resource.Memory)+memory <= s.Free(slot, resource.Memory))
}

// Excess is what a grant of zones (nil: none) takes of the node beyond what pods of the class request, in millicores and bytes.
func Excess(c *Class, g *topology.ZoneGrant) (cpu, memory int64) {
	if g == nil || c.Zones.IsZero() { // it holds nothing, or what it did not ask for: the zones are charged, and they alone
		return 0, 0
	}
	cpus, mebibytes := g.Excess(c.Zones)
	return 1000 * max(cpus, 0), topology.Mebibyte * max(mebibytes, 0)
}

// moveZones charges a grant of zones, sign times.
func (s *State) moveZones(slot Slot, class *Class, g *topology.ZoneGrant, sign int64) {
	row := s.zoneRow(slot)
	if sign > 0 {
		row.free.Commit(g)
	} else {
		row.free.Release(g)
	}
	s.moveExcess(slot, class, g, sign)
}

func (s *State) moveExcess(slot Slot, class *Class, g *topology.ZoneGrant, sign int64) {
	cpu, memory := Excess(class, g)
	s.requested[resource.CPU][slot] += sign * cpu
	s.requested[resource.Memory][slot] += sign * memory
	s.scoreCPU[slot] += sign * cpu
	s.scoreMemory[slot] += sign * memory
}
