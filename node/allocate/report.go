package allocate

import "hilbert.dev/hilbert/topology"

// Report is the state of the node's CPUs and memory. Zones are indices of topology.Machine.NUMA.
type Report struct {
	Mode     string
	Shape    topology.ZoneShape
	Free     topology.ZoneFree
	Reserved topology.CPUSet
	Held     []Held   // by UID
	Pools    []Pool   // by name
	Closed   []Closed // by zone
	// Unlabelled are the BestEffort pods without a QoS level, "namespace/name", ascending.
	Unlabelled []string
	Counts     Counts
}

// Held is what one pod has for itself.
type Held struct {
	UID, Namespace, Name string
	topology.Holding
	Moved bool
}

// Pool is CPUs that several pods share.
type Pool struct {
	Name string
	CPUs topology.CPUSet
	Pods int
}

// Closed is a zone that gives nothing new, and why.
type Closed struct {
	Zone int
	Why  Note
}

// Counts are since the first start; checkpoints carry them.
type Counts struct {
	Kept    uint64 `json:"kept"`    // promises kept
	Moved   uint64 `json:"moved"`   // promises moved to equivalent zones
	Broken  uint64 `json:"broken"`  // promises that could not be kept
	Forged  uint64 `json:"forged"`  // promises that nobody can have made
	Foreign uint64 `json:"foreign"` // dedicated pods without a promise
	Refused uint64 `json:"refused"` // pods refused, broken promises among them
}
