package allocate

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/topology"
	"hilbert.dev/hilbert/topology/cores"
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
	// Request is of a dedicated pod. Where a bound pod's memory is left zero, it is what the promise says.
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
	// Reclaimed is what a reclaimed pod's Binding says that it may have; zero: nobody said.
	Reclaimed spec.ReclaimedAmounts
	// Devices are the GPUs and network cards that the Binding's annotations promised, without NUMA nodes. DevicesForged says why they cannot be read. Near is
	// how close they must be to each other and to the NUMA nodes.
	Devices       topology.Grant
	DevicesForged string
	Near          topology.Near
	// Running: the pod runs already, and so has what it was promised of devices.
	Running bool
	// Fixed are the CPUs that the kubelet gave it for itself, in mode kubelet. In mode agent they are what a dedicated pod runs on already.
	Fixed topology.CPUSet
}

// Placement is where each container of a pod runs.
type Placement struct {
	CPUs topology.CPUSet
	Mems topology.CPUSet // NUMA nodes by ID; empty: leave them as they are
	// Idle is the pod's cgroup's cpu.idle, Weight its cpu.weight and MemoryMax its memory.max in bytes; 0: leave those as they are. The kernel
	// takes no weight from who is idle.
	Idle        bool
	Weight      int
	MemoryMax   int64
	OOMScoreAdj *int           // nil: leave it as it is
	Pool        string         // empty for a pod with CPUs of its own
	Devices     topology.Grant // without NUMA nodes
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
	Notes     []Note
}

// Manager decides for one node. It is not safe for concurrent use.
type Manager struct {
	params    Params
	machine   *topology.Machine
	alloc     *cores.Allocator
	pods      map[string]*pod            // by UID
	resources []resource                 // as in plugins
	wanted    [topology.MaxNUMANodes]int // as of SetReclaimed
	demands   map[string]int64           // as of SetDemands
	suppress  bool
	closed    map[int]Note
	counts    Counts
	devices   *topology.Devices         // as of SetDevices; nil: not known
	whose     bool                      // it is known who gives the GPUs out
	kubelet   map[string]KubeletDevices // as of SetKubeletDevices, by UID; nil: nobody can be asked
	// shutGPUs and shutNICs are as of CloseDevices.
	shutGPUs, shutNICs uint16
}

// pod is a pod that is known.
type pod struct {
	Pod
	pool  string // where it runs; empty: on CPUs of its own
	moved bool
	// devices is what it holds of GPUs and network cards, without NUMA nodes.
	devices      topology.Grant
	devicesMoved bool
	unsettled    bool // it runs with a promise, and it is not known yet whether that was ours to give
}

// New returns the Manager of a machine without pods. The error names what cannot be of the machine or the parameters.
func New(machine *topology.Machine, p Params) (*Manager, error) {
	if p.Mode != spec.ModeAgent && p.Mode != spec.ModeKubelet {
		return nil, fmt.Errorf("mode %q: want %s or %s", p.Mode, spec.ModeAgent, spec.ModeKubelet)
	}
	if p.ReservedCores < 0 || p.ReservedMemoryMiB < 0 || p.ReservedMemoryMiB > math.MaxUint32 || p.ReclaimedCores < 0 {
		return nil, fmt.Errorf("%d reserved cores, %d MiB, %d reclaimed cores: want none below 0", p.ReservedCores, p.ReservedMemoryMiB, p.ReclaimedCores)
	}
	alloc, err := cores.NewAllocator(machine, cores.Reserve(machine, p.ReservedCores), uint32(p.ReservedMemoryMiB))
	if err != nil {
		return nil, err
	}
	if p.Mode == spec.ModeKubelet {
		if err := alloc.SetRuler(topology.RulerKubelet); err != nil {
			return nil, err
		}
	}
	m := &Manager{params: p, machine: machine, alloc: alloc, pods: make(map[string]*pod), closed: make(map[int]Note)}
	for _, plugin := range plugins {
		m.resources = append(m.resources, plugin.new(m))
	}
	return m, nil
}

// Admit decides for a pod whose sandbox is made. The same pod again gets what it has; where the kubelet rules, CPUs that it gave since are taken note of.
//
// A dedicated pod's promise is kept if it still fits; else it gets an equivalent grant (Moved), else it is refused with ReasonPromiseBroken. One
// without a promise gets what fits, or is refused with ReasonInsufficientCores. All others run somewhere in any case. Promised devices are kept in the
// same way, together with the NUMA nodes: a pod gets both or is refused.
func (m *Manager) Admit(p Pod) Verdict {
	if known := m.pods[p.UID]; known != nil {
		var notes []Note
		if m.params.Mode == spec.ModeKubelet {
			notes = m.refix(known, p.Fixed)
		}
		return m.verdict(known, notes)
	}
	p.MilliCPU = max(p.MilliCPU, 0)
	n := &pod{Pod: p}
	notes, free, counts := m.level(n), m.alloc.Free(), m.counts
	var refused *Refusal
	if n.pool == "" {
		more, no := m.hold(n)
		notes, refused = append(notes, more...), no
	}
	if refused == nil { // NUMA nodes and devices, or neither
		more, no := m.take(n, free)
		notes, refused = append(notes, more...), no
		if refused != nil { // what was said of its NUMA nodes is undone
			counts.DevicesBroken = m.counts.DevicesBroken
			m.counts = counts
		}
	}
	if refused != nil {
		m.alloc.Release(n.UID)
		m.counts.Refused++
		return Verdict{Refused: refused, Notes: notes}
	}
	m.add(n)
	return m.verdict(n, notes)
}

// add counts a pod in, for all resources.
func (m *Manager) add(p *pod) {
	m.pods[p.UID] = p
	for _, r := range m.resources {
		r.admit(p)
	}
	m.reconcile()
}

func (m *Manager) reconcile() {
	for _, r := range m.resources {
		r.reconcile()
	}
}

// Confirm answers whether an admitted pod still has what it was given, when a container is made. A pod that was never admitted, or was
// released since, is refused.
func (m *Manager) Confirm(uid string) Verdict {
	if p := m.pods[uid]; p != nil {
		return m.verdict(p, nil)
	}
	return unknown(uid)
}

func unknown(uid string) Verdict {
	return Verdict{Refused: &Refusal{spec.ReasonPromiseBroken, fmt.Sprintf("pod %s is not admitted: nothing is kept for it", uid)}}
}

func (m *Manager) verdict(p *pod, notes []Note) Verdict {
	return Verdict{Placement: m.placement(p), Moved: p.moved || p.devicesMoved, Notes: notes}
}

// Resize changes a pod's CPU request. Cores of its own grow and shrink in its NUMA nodes first. If there is no room it keeps what it has, and a
// note says so.
func (m *Manager) Resize(uid string, milliCPU int64) Verdict {
	p := m.pods[uid]
	if p == nil {
		return unknown(uid)
	}
	var notes []Note
	if p.pool == "" && m.params.Mode == spec.ModeAgent {
		cpus := uint16(min(max(milliCPU, 0)+999, math.MaxUint16*1000) / 1000)
		if cpus == 0 || !m.alloc.Resize(uid, cpus) {
			note := Note{spec.ReasonInsufficientCores, fmt.Sprintf("asks for %d CPUs and keeps its %d: %s", cpus, p.Request.CPUs, m.left())}
			return m.verdict(p, []Note{note})
		}
		p.Request.CPUs = cpus
	}
	for _, r := range m.resources {
		r.release(p)
	}
	p.MilliCPU = max(milliCPU, 0)
	m.add(p)
	return m.verdict(p, notes)
}

// Release forgets a pod and frees what it held. False: it was not known.
func (m *Manager) Release(uid string) bool {
	p := m.pods[uid]
	if p == nil {
		return false
	}
	for _, r := range m.resources {
		r.release(p)
	}
	delete(m.pods, uid)
	m.alloc.Release(uid)
	m.reconcile()
	return true
}

// Placement is where the pod's containers run now. False: it is not known.
func (m *Manager) Placement(uid string) (Placement, bool) {
	if p := m.pods[uid]; p != nil {
		return m.placement(p), true
	}
	return Placement{}, false
}

func (m *Manager) placement(p *pod) Placement {
	out := Placement{Pool: p.pool}
	for _, r := range m.resources {
		r.place(p, &out)
	}
	return out
}

// Pod is what a known pod asked for, and the pool that it runs in; none if it has CPUs of its own.
func (m *Manager) Pod(uid string) (asked Pod, pool string, known bool) {
	p := m.pods[uid]
	if p == nil {
		return Pod{}, "", false
	}
	return p.Pod, p.pool, true
}

// Pods are the UIDs of the pods that are known, ascending.
func (m *Manager) Pods() []string { return slices.Sorted(maps.Keys(m.pods)) }

// SetReclaimed says how many cores the reclaimed pool should have in each NUMA node, at the least Params.ReclaimedCores. Without reclaimed pods it
// has none, whatever is wanted.
func (m *Manager) SetReclaimed(cores [topology.MaxNUMANodes]int) {
	m.wanted = cores
	m.reconcile()
}

// SetDemands says what shared pools need, in millicores, in place of what their pods request. A pool that is not named, and SharePool, have what
// their pods request, or the rest.
func (m *Manager) SetDemands(milliCPU map[string]int64) {
	m.demands = maps.Clone(milliCPU)
	m.reconcile()
}

// Suppress says whether reclaimed pods are idle even on CPUs that they share with nobody.
func (m *Manager) Suppress(yes bool) { m.suppress = yes }

// Suppressed reports whether they are.
func (m *Manager) Suppressed() bool { return m.suppress }

// PoolNUMANode is how the CPUs of a NUMA node are divided between pools.
type PoolNUMANode struct {
	Shared, Reclaimed topology.CPUSet
}

// PoolNUMANodes are the pools' CPUs by NUMA node. CPUs that a pod holds, reserved ones, and those of NUMA nodes that somebody has alone are in neither.
func (m *Manager) PoolNUMANodes() []PoolNUMANode {
	pools := m.alloc.Pools()
	var shared topology.CPUSet
	for _, set := range pools.Shared {
		shared = shared.Union(set)
	}
	out := make([]PoolNUMANode, m.alloc.Shape().NUMANodes)
	for z := range out {
		numa := m.machine.NUMA[z].CPUs
		out[z] = PoolNUMANode{Shared: shared.Intersection(numa), Reclaimed: pools.Reclaimed.Intersection(numa)}
	}
	return out
}

// Demand is what the pods of each shared pool request together, in millicores.
func (m *Manager) Demand() map[string]int64 {
	milliCPU := make(map[string]int64)
	for _, p := range m.pods {
		if p.pool != "" && p.pool != spec.PoolReclaimed && p.pool != spec.PoolSystem {
			milliCPU[p.pool] += p.MilliCPU
		}
	}
	return milliCPU
}

// CloseNUMANode keeps a NUMA node from giving anything new. A number that is no NUMA node's is ignored.
func (m *Manager) CloseNUMANode(numa int, why Note) {
	if numa >= 0 && numa < int(m.alloc.Shape().NUMANodes) {
		m.alloc.Close(numa, true)
		m.closed[numa] = why
	}
}

// OpenNUMANode lets a closed NUMA node give again.
func (m *Manager) OpenNUMANode(numa int) {
	m.alloc.Close(numa, false)
	delete(m.closed, numa)
}

// Verify checks the invariants, those of the allocator among them. An error is a bug.
func (m *Manager) Verify() error {
	for uid, p := range m.pods {
		if _, holds := m.alloc.Holding(uid); holds != (p.pool == "") {
			return fmt.Errorf("pod %s of pool %q: holds CPUs of its own: %v", uid, p.pool, holds)
		}
	}
	for _, uid := range m.alloc.Holders() {
		if m.pods[uid] == nil {
			return fmt.Errorf("pod %s holds CPUs and is not known", uid)
		}
	}
	return m.alloc.Verify()
}
