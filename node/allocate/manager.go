package allocate

import (
	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/topology"
)

// Params are what the node's configuration says of allocation.
type Params struct {
	ReservedCores     int    // physical cores for system_cores pods and the node's own services
	ReservedMemoryMiB int    // kept back from promises in each NUMA node
	ReclaimedCores    int    // the least that reclaimed pods have in each NUMA node
	Mode              string // spec.ModeAgent or spec.ModeKubelet
}

// Pod is what the shell knows of a pod when its sandbox is made.
type Pod struct {
	UID, Namespace, Name string
	QoS                  spec.QoS
	// Invalid says what could not be read of the QoS; the pod is treated as shared.
	Invalid string
	// Request is of a dedicated pod. With Memory left zero, a bound pod's memory is what its promise says.
	Request topology.ZoneRequest
	// Promise is what the Binding's annotation promised. Forged says why it cannot be read.
	Promise topology.ZoneGrant
	Forged  string
	// MilliCPU is the pod's CPU request; it sizes the pool of a shared pod.
	MilliCPU int64
	// BestEffort is the Kubernetes QoS class.
	BestEffort bool
	// Fixed are the CPUs that the kubelet gave it for itself, in mode kubelet. In mode agent they are what a dedicated pod runs on already.
	Fixed topology.CPUSet
}

// Placement is where each container of a pod runs.
type Placement struct {
	CPUs topology.CPUSet
	Mems topology.CPUSet // NUMA nodes by ID; empty: leave them as they are
	// Idle is the pod's cgroup's cpu.idle.
	Idle        bool
	OOMScoreAdj *int   // nil: leave it as it is
	Pool        string // empty for a pod with CPUs of its own
}

// Note is something to report of a pod or of the node. Reasons are the bounded ones of package spec.
type Note struct{ Reason, Message string }

// Refusal is why a pod cannot be.
type Refusal struct{ Reason, Message string }

// Verdict answers for a pod.
type Verdict struct {
	Placement Placement
	Moved     bool     // the promised zones were gone, and others were taken
	Refused   *Refusal // the pod cannot run here; Placement says nothing
	Notes     []Note
}

// Manager decides for one node. It is not safe for concurrent use.
type Manager struct{}

// New returns the Manager of a machine without pods.
func New(m *topology.Machine, p Params) (*Manager, error) { return &Manager{}, nil }

// Admit decides for a pod whose sandbox is made. The same pod again gets what it has.
func (m *Manager) Admit(p Pod) Verdict { return Verdict{} }

// Confirm answers whether an admitted pod still has what it was given, when a container is made.
func (m *Manager) Confirm(uid string) Verdict { return Verdict{} }

// Resize changes a pod's CPU request.
func (m *Manager) Resize(uid string, milliCPU int64) Verdict { return Verdict{} }

// Release forgets a pod and frees what it held. False: it was not known.
func (m *Manager) Release(uid string) bool { return false }

// Placement is where the pod's containers run now. False: it is not known.
func (m *Manager) Placement(uid string) (Placement, bool) { return Placement{}, false }

// Pods are the UIDs of the pods that are known, ascending.
func (m *Manager) Pods() []string { return nil }

// SetReclaimed says how many cores the reclaimed pool should have in each zone, at the least Params.ReclaimedCores.
func (m *Manager) SetReclaimed(cores [topology.MaxZones]int) {}

// CloseZone keeps a zone from giving anything new.
func (m *Manager) CloseZone(zone int, why Note) {}

// OpenZone lets a closed zone give again.
func (m *Manager) OpenZone(zone int) {}

// Report is what is to be said of the node.
func (m *Manager) Report() Report { return Report{} }

// Checkpoint is what Restore needs.
func (m *Manager) Checkpoint() *Checkpoint { return nil }

// Restore takes over a checkpoint into a Manager without pods. The notes say what could not be taken over; such pods are unknown, and are
// admitted again with what they run on as Fixed.
func (m *Manager) Restore(c *Checkpoint) []Note { return nil }
