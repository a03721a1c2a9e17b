package allocate

import (
	"fmt"
	"math"

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
	// Request is of a dedicated pod, or of a shared one that is bound (topology.BoundShared). Where a bound pod's memory is left zero, it is what the promise says.
	Request topology.NUMARequest
	// Promise is what the Binding's annotation promised. Forged says why it cannot be read.
	Promise topology.NUMAGrant
	Forged  string
	// MilliCPU is the pod's CPU request; it sizes the pool of a shared pod.
	MilliCPU int64
	// BestEffort is the Kubernetes QoS class.
	BestEffort bool
	// MemoryLimit is what the pod may hold, in bytes; 0: it has no limit.
	MemoryLimit int64
	// Reclaimed is what a reclaimed pod's Binding says that it may have; zero: it does not say.
	Reclaimed spec.ReclaimedAmounts
	// Devices are the GPUs and network cards that the Binding's annotations promised, without NUMA nodes. DevicesForged says why they cannot be read. Near is
	// how close they must be to each other and to the NUMA nodes.
	Devices       topology.Grant
	DevicesForged string
	Near          topology.Near
	// Running: the pod runs already, and so has what it was promised of devices.
	Running bool
	// Within, if not 0, is the set of NUMA nodes that its CPUs must come from, whatever was promised: the resources that plugins bring are near there.
	Within uint8
	// Fixed are the CPUs that the kubelet gave it for itself, in mode kubelet. In mode agent they are what a dedicated pod runs on already.
	Fixed topology.CPUSet
}

// Placement is where each container of a pod runs.
type Placement struct {
	CPUs topology.CPUSet
	Mems topology.CPUSet // NUMA nodes by ID; empty: leave them as they are
	// Idle is the pod's cgroup's cpu.idle, Weight its cpu.weight and MemoryMax its memory.max in bytes; 0: leave those as they are. The kernel
	// takes no weight from a cgroup that is idle.
	Idle      bool
	Weight    int
	MemoryMax int64
	Pool      string         // empty for a pod with CPUs of its own
	Devices   topology.Grant // without NUMA nodes
	// Unsettled: the pod runs with a promise of devices, and it is not known yet whose they are; Devices says nothing.
	Unsettled bool
}

// Note is something to report of a pod or of the node. Reasons are the bounded ones of package spec.
type Note struct{ Reason, Message string }

// Refusal is why a pod cannot be.
type Refusal struct{ Reason, Message string }

// Verdict answers for a pod.
type Verdict struct {
	Placement Placement
	Moved     bool     // the promised NUMA nodes were gone, and others were taken
	Refused   *Refusal // the pod cannot run here; Placement says nothing
	// Lost: the pod runs, and the CPUs that it had are gone from the machine. It has what is left of them, or runs in the shared pool, and should go.
	Lost  *Refusal
	Notes []Note
}

// Manager decides for one node. Each part of its state has an owner: the capacity knows who holds which CPUs, Pools divides the rest of the CPUs, Devices
// gives GPUs and network cards, and the pods know what was asked for. A Manager leads a pod through them, and takes all back if one of them refuses. It is
// not safe for concurrent use.
type Manager struct {
	Pools     *Pools
	Devices   *Devices
	capacity  *capacity
	dedicated *dedicated
	pods      *pods
	counts    Counts
}

// New returns the Manager of a machine without pods. The error names what cannot be of the machine or the parameters.
func New(machine *topology.Machine, p Params) (*Manager, error) {
	if p.Mode != spec.ModeAgent && p.Mode != spec.ModeKubelet {
		return nil, fmt.Errorf("mode %q: want %s or %s", p.Mode, spec.ModeAgent, spec.ModeKubelet)
	}
	if p.ReservedCores < 0 || p.ReservedMemoryMiB < 0 || p.ReservedMemoryMiB > math.MaxUint32 || p.ReclaimedCores < 0 {
		return nil, fmt.Errorf("%d reserved cores, %d MiB, %d reclaimed cores: want none below 0", p.ReservedCores, p.ReservedMemoryMiB, p.ReclaimedCores)
	}
	c, err := newCapacity(machine, p)
	if err != nil {
		return nil, err
	}
	m := &Manager{capacity: c, pods: &pods{known: make(map[string]*pod)}}
	m.dedicated = &dedicated{capacity: c, pods: m.pods, counts: &m.counts}
	m.Pools = &Pools{capacity: c, pods: m.pods, uses: make(map[string]use)}
	m.Devices = &Devices{capacity: c, pods: m.pods, dedicated: m.dedicated, counts: &m.counts}
	// A resource of your own goes here. It is code of this package, because a promise is kept only if all that hold it decide together.
	m.pods.resources = []resource{m.Pools, memory{c}, m.Devices}
	return m, nil
}

// Admit decides for a pod whose sandbox is made. The same pod again gets what it has; where the kubelet rules, CPUs that it gave since are taken note of.
//
// A dedicated pod's promise is kept if it still fits; else it gets an equivalent grant (Moved), else it is refused with ReasonPromiseBroken. One
// without a promise gets what fits, or is refused with ReasonInsufficientCores. All others run somewhere in any case. Promised devices are kept in the
// same way, together with the NUMA nodes: a pod gets both or is refused.
func (m *Manager) Admit(p Pod) Verdict {
	if known := m.pods.known[p.UID]; known != nil {
		var notes []Note
		if m.capacity.kubeletRules() {
			notes = m.dedicated.refix(known, p.Fixed)
		}
		return m.verdict(known, notes)
	}
	p.MilliCPU, p.Devices = max(p.MilliCPU, 0), p.Devices.For(topology.TenantOf(p.Namespace))
	n := &pod{Pod: p}
	notes, free, counts := m.level(n), m.capacity.alloc.Free(), m.counts
	var refused *Refusal
	if n.holds() {
		more, no := m.dedicated.hold(n)
		notes, refused = append(notes, more...), no
	}
	if refused == nil { // NUMA nodes and devices, or neither
		more, no := m.Devices.take(n, free)
		notes, refused = append(notes, more...), no
		if refused != nil { // what was said of its NUMA nodes is undone
			counts.DevicesBroken = m.counts.DevicesBroken
			m.counts = counts
		}
	}
	if refused != nil {
		m.capacity.alloc.Release(n.UID)
		m.counts.Refused++
		return Verdict{Refused: refused, Notes: notes}
	}
	m.pods.add(n)
	v := m.verdict(n, notes)
	v.Lost = n.lost
	return v
}

// Confirm answers whether an admitted pod still has what it was given, when a container is made. A pod that was never admitted, or was
// released since, is refused.
func (m *Manager) Confirm(uid string) Verdict {
	if p := m.pods.known[uid]; p != nil {
		return m.verdict(p, nil)
	}
	return unknown(uid)
}

func unknown(uid string) Verdict {
	return Verdict{Refused: &Refusal{spec.ReasonPromiseBroken, fmt.Sprintf("pod %s is not admitted: nothing is kept for it", uid)}}
}

func (m *Manager) verdict(p *pod, notes []Note) Verdict {
	return Verdict{Placement: m.pods.placement(p), Moved: p.moved || p.devicesMoved, Notes: notes}
}

// Resize changes a pod's CPU request. Cores of its own grow and shrink in its NUMA nodes first. If there is no room it keeps what it has, and a
// note says so.
func (m *Manager) Resize(uid string, milliCPU int64) Verdict {
	p := m.pods.known[uid]
	if p == nil {
		return unknown(uid)
	}
	var notes []Note
	if p.holds() && !m.capacity.kubeletRules() {
		cpus := uint16(min(max(milliCPU, 0)+999, math.MaxUint16*1000) / 1000)
		if cpus == 0 || !m.capacity.alloc.Resize(uid, cpus) {
			note := Note{spec.ReasonInsufficientCores, fmt.Sprintf("asks for %d CPUs and keeps its %d: %s", cpus, p.Request.CPUs, m.capacity.left())}
			return m.verdict(p, []Note{note})
		}
		p.Request.CPUs = cpus
	}
	m.pods.release(p)
	p.MilliCPU = max(milliCPU, 0)
	m.pods.add(p)
	return m.verdict(p, notes)
}

// Release forgets a pod and frees what it held. False: it was not known.
func (m *Manager) Release(uid string) bool {
	p := m.pods.known[uid]
	if p == nil {
		return false
	}
	m.pods.release(p)
	delete(m.pods.known, uid)
	m.capacity.alloc.Release(uid)
	m.pods.reconcile()
	return true
}

// Placement is where the pod's containers run now. False: it is not known.
func (m *Manager) Placement(uid string) (Placement, bool) {
	if p := m.pods.known[uid]; p != nil {
		return m.pods.placement(p), true
	}
	return Placement{}, false
}

// Pod is what a known pod asked for, and the pool that it runs in; none if it has CPUs of its own.
func (m *Manager) Pod(uid string) (asked Pod, pool string, known bool) {
	p := m.pods.known[uid]
	if p == nil {
		return Pod{}, "", false
	}
	return p.Pod, p.pool, true
}

// UIDs are those of the pods that are known, ascending.
func (m *Manager) UIDs() []string { return m.pods.uids() }

// CloseNUMANode keeps a NUMA node from giving anything new. A number that is no NUMA node's is ignored.
func (m *Manager) CloseNUMANode(numa int, why Note) { m.capacity.close(numa, why) }

// OpenNUMANode lets a closed NUMA node give again.
func (m *Manager) OpenNUMANode(numa int) { m.capacity.open(numa) }

// Verify checks the invariants, those of the allocator among them. An error is a bug.
func (m *Manager) Verify() error {
	if err := m.pods.verify(m.capacity); err != nil {
		return err
	}
	return m.capacity.alloc.Verify()
}
