package cluster

import (
	"slices"

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
