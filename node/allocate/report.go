package allocate

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/topology"
	"hilbert.dev/hilbert/topology/cores"
)

// Report is the state of the node's CPUs and memory. NUMA nodes are indices of topology.Machine.NUMA.
type Report struct {
	Mode     string
	Shape    topology.NUMAShape
	Free     topology.NUMAFree
	Reserved topology.CPUSet
	Held     []Held   // by UID
	Pools    []Pool   // by name
	Closed   []Closed // by NUMA node
	// Unlabelled are the BestEffort pods without a QoS level, "namespace/name", ascending.
	Unlabelled []string
	// Unseparated are the memory-intensive pods that run in NUMA nodes of bandwidth-sensitive ones, "namespace/name", ascending, those that were measured to be among them.
	Unseparated []string
	Counts      Counts
}

// Held is what one pod has of the NUMA nodes: for itself, or with topology.BoundShared as room in the pool that it shares.
type Held struct {
	UID, Namespace, Name string
	cores.Holding
	Moved bool
}

// Pool is CPUs that several pods share. One without cores of its own runs on those of others: see topology.Pools.Runs.
type Pool struct {
	Name string
	CPUs topology.CPUSet
	Pods int
}

// Closed is a NUMA node that gives nothing new, and why.
type Closed struct {
	NUMANode int
	Why      Note
}

// Counts are since the first start; checkpoints carry them.
type Counts struct {
	Kept    uint64 `json:"kept"`    // promises kept
	Moved   uint64 `json:"moved"`   // promises moved to equivalent NUMA nodes
	Broken  uint64 `json:"broken"`  // promises that could not be kept
	Forged  uint64 `json:"forged"`  // promises that no scheduler can have made
	Foreign uint64 `json:"foreign"` // dedicated pods without a promise
	Refused uint64 `json:"refused"` // pods refused, broken promises among them

	// Of promised devices. They are left out where they are zero, so that older checkpoints are read.
	DevicesKept   uint64 `json:"devicesKept,omitempty"`
	DevicesMoved  uint64 `json:"devicesMoved,omitempty"`
	DevicesBroken uint64 `json:"devicesBroken,omitempty"`
}

// Report is what is to be said of the node.
func (m *Manager) Report() Report {
	r := Report{
		Mode: m.capacity.params.Mode, Shape: m.capacity.alloc.Shape(), Free: m.capacity.alloc.Free(), Reserved: m.capacity.alloc.Reserved(), Counts: m.counts,
	}
	r.Held, r.Pools = m.Held(), m.Pools.List()
	for _, p := range m.pods.known {
		if p.BestEffort && !p.QoS.Said && p.Invalid == "" {
			r.Unlabelled = append(r.Unlabelled, p.Namespace+"/"+p.Name)
		}
	}
	slices.Sort(r.Unlabelled)
	r.Unseparated = m.unseparated()
	for _, numa := range slices.Sorted(maps.Keys(m.capacity.closed)) {
		r.Closed = append(r.Closed, Closed{numa, m.capacity.closed[numa]})
	}
	return r
}

// unseparated lists the memory-intensive pods that run in NUMA nodes of bandwidth-sensitive ones: those of a pool that has too few CPUs elsewhere, and those that hold something there
// because no scheduler was asked.
func (m *Manager) unseparated() (out []string) {
	free := m.capacity.alloc.Free()
	for uid, p := range m.pods.known {
		beside := false
		if h, ok := m.capacity.alloc.Holding(uid); ok {
			intensive := h.Grant.Bandwidth == topology.BandwidthIntensive || p.measured && p.QoS.Bandwidth == ""
			for set := h.Grant.NUMANodes(); set != 0 && intensive; set &= set - 1 {
				beside = beside || free[bits.TrailingZeros8(set)].Sensitive > 0
			}
		} else if p.pool != spec.PoolSystem {
			_, separated := m.Pools.separated(p, m.Pools.runs(p))
			beside = !separated
		}
		if beside {
			out = append(out, p.Namespace+"/"+p.Name)
		}
	}
	slices.Sort(out)
	return out
}

// Held lists the pods that have something of the NUMA nodes, by UID.
func (m *Manager) Held() (out []Held) {
	for uid, p := range m.pods.known {
		if h, ok := m.capacity.alloc.Holding(uid); ok {
			out = append(out, Held{UID: uid, Namespace: p.Namespace, Name: p.Name, Holding: h, Moved: p.moved})
		}
	}
	slices.SortFunc(out, func(x, y Held) int { return cmp.Compare(x.UID, y.UID) })
	return out
}
