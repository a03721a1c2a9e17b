package replica

import (
	"hilbert.dev/hilbert/cluster/census"
	"hilbert.dev/hilbert/cluster/facts"
	"hilbert.dev/hilbert/resource"
	"hilbert.dev/hilbert/topology"
)

// Delta is what has changed of a ledger since the Delta before.
type Delta struct {
	_ struct{} `cbor:",toarray"`
	// Start: nothing of before holds any more.
	Start bool
	// More: rows are missing still; nothing may be decided before the Delta without More.
	More bool
	// Revision of the ledger that the copy has then, if there is no More.
	Revision uint64
	// Slots there are.
	Slots int32
	// Kinds are the names of resources by number, empty for vacant ones; nil: as before. GPUKind is in which queues count GPUs.
	Kinds   []string
	GPUKind resource.Kind
	// Definitions of what is counted, nil: as before.
	Definitions *census.Definitions
	// Rows of slots, each once.
	Rows []Row
	// ForgetClasses: classes of before are not named any more. Classes are those that later Pods may name.
	ForgetClasses bool
	Classes       []Class
}

// Row is a slot as it is now.
type Row struct {
	_    struct{} `cbor:",toarray"`
	Slot int32
	// Kind is what may have changed, as in the ledger's log.
	Kind uint8
	// Vacant: there is no node. Node is the node, nil: as before.
	Vacant bool
	Node   *facts.Node
	// Allocatable and Requested are by kind. Allocatable is nil where it is as before.
	Allocatable, Requested []int64
	ScoreCPU, ScoreMemory  int64
	Ports                  []facts.HostPort
	Disks                  []facts.Disk
	// GPUs are what is left of counted GPUs; nil: of a node without.
	GPUs     *topology.Free
	Reserved int32
	// Tallies are number and count in turn, ascending by number.
	Tallies []int32
	Beyond  *Beyond
}

// Beyond is what is known of a node beyond amounts.
type Beyond struct {
	_ struct{} `cbor:",toarray"`
	// Report is as far as placement reads it; nil: none, or with SameReport as before.
	Report     *facts.NodeReport
	SameReport bool
	NUMANodes  topology.NUMAFree
	// Shape and Devices are of a node whose report names devices; else nil. SameShape: as before.
	Shape      *topology.Shape
	SameShape  bool
	Devices    *topology.DeviceFree
	CoveredCPU int64
	// CoveredMemory and CoveredCPU are what pods request that the measured use covers.
	CoveredMemory int64
	// Brought is what plugins bring by NUMA node, and Resources what is left of it, nil for none.
	Brought   []topology.Resource
	Resources *topology.ResourceFree
}

// Class is a class of pods whose place depends on no volumes, claims or pods elsewhere, soft spread constraints apart.
type Class struct {
	_            struct{} `cbor:",toarray"`
	ID           uint32
	Requirements *facts.Requirements
	Amounts      resource.List
	Absent       string
	Reclaims     [facts.ReclaimedKinds]resource.Amount
	// Carries are the tallies of the terms that its pods carry.
	Carries []census.TallyID
	// Constrained: there are constraints, perhaps none of them spread constraints. Spread are the soft ones.
	Constrained bool
	Spread      []Spread
}

// Spread is a soft spread constraint of a class.
type Spread struct {
	_ struct{} `cbor:",toarray"`
	// At is where it stands in the requirements.
	At     int
	Self   int32
	Key    census.KeyID
	Tally  census.TallyID
	Census census.ID
}

// Pod is a pod to be decided on.
type Pod struct {
	_     struct{} `cbor:",toarray"`
	UID   facts.UID
	Class uint32
	// Counted are the tallies that it counts in.
	Counted []census.TallyID
}
