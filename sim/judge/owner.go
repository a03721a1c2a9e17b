package judge

import (
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/topology"
)

// Ownership is which party gives out a node's GPUs, by its report.
type Ownership uint8

// What a report says of the owner of its node's GPUs.
const (
	OwnerUnsaid  Ownership = iota // the report has no devices
	OwnerAgent                    // Hilbert's agent
	OwnerKubelet                  // the kubelet, for a device plugin
	OwnerNobody                   // no party, or one that is not known
)

// OwnerSaid reads the owner from a report.
func OwnerSaid(r *facts.NodeReport) Ownership {
	if r.Devices == nil {
		return OwnerUnsaid
	}
	return [...]Ownership{topology.OwnerNone: OwnerNobody, topology.OwnerHilbert: OwnerAgent, topology.OwnerKubelet: OwnerKubelet}[r.Devices.Owner]
}
