package allocate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hilbert.dev/hilbert/api/spec"
	"hilbert.dev/hilbert/topology"
	"hilbert.dev/hilbert/topology/cores"
)

// CheckpointVersion is the version of the checkpoints that this package writes and reads.
const CheckpointVersion = 1

// Checkpoint is a Manager's state, ready for JSON.
type Checkpoint struct {
	Version int    `json:"version"`
	Machine string `json:"machine"` // a fingerprint of the CPUs
	Mode    string `json:"mode"`

	Pods      []PodState                 `json:"pods,omitempty"` // by UID
	Shared    map[string]topology.CPUSet `json:"shared,omitempty"`
	Reclaimed topology.CPUSet            `json:"reclaimed"`
	Wanted    [topology.MaxNUMANodes]int `json:"wanted"` // cores, as of SetReclaimed
	Demands   map[string]int64           `json:"demands,omitempty"`
	Suppress  bool                       `json:"suppress,omitempty"`
	Closed    []ClosedState              `json:"closed,omitempty"`
	Counts    Counts                     `json:"counts"`

	Sum string `json:"sum"` // of all other fields
}

// PodState is a pod: what it asked for, and what it got.
type PodState struct {
	UID        string        `json:"uid"`
	Namespace  string        `json:"namespace"`
	Name       string        `json:"name"`
	Level      spec.QoSLevel `json:"level,omitempty"`
	NUMA       string        `json:"numa,omitempty"`
	Pool       string        `json:"pool,omitempty"` // that it asked for
	Said       bool          `json:"said,omitempty"`
	Bandwidth  string        `json:"bandwidth,omitempty"`
	Measured   bool          `json:"measured,omitempty"`
	Invalid    string        `json:"invalid,omitempty"`
	Promise    string        `json:"promise,omitempty"`
	Forged     string        `json:"forged,omitempty"`
	MilliCPU   int64         `json:"milliCPU,omitempty"`
	BestEffort bool          `json:"bestEffort,omitempty"`

	MemoryLimit int64                 `json:"memoryLimit,omitempty"`
	Reclaimed   spec.ReclaimedAmounts `json:"reclaimed,omitzero"`

	Request topology.NUMARequest `json:"request,omitzero"`
	Fixed   topology.CPUSet      `json:"fixed,omitzero"`
	Runs    string               `json:"runs,omitempty"` // the pool that it runs in
	Grant   string               `json:"grant,omitempty"`
	CPUs    topology.CPUSet      `json:"cpus,omitzero"`
	Moved   bool                 `json:"moved,omitempty"`
	Devices *DeviceState         `json:"devices,omitempty"`
}

// ClosedState is a NUMA node that gives nothing new, and why.
type ClosedState struct {
	NUMANode int    `json:"numaNode"`
	Reason   string `json:"reason"`
	Message  string `json:"message"`
}

// Checkpoint is what Restore needs: a Manager that is restored from it decides as this one.
func (m *Manager) Checkpoint() *Checkpoint {
	pools := m.capacity.alloc.Pools()
	c := &Checkpoint{
		Version: CheckpointVersion, Machine: fingerprint(m.capacity.machine), Mode: m.capacity.params.Mode,
		Shared: pools.Shared, Reclaimed: pools.Reclaimed, Wanted: m.Pools.wanted, Demands: m.Pools.demands, Suppress: m.Pools.suppress, Counts: m.counts,
	}
	for _, uid := range m.pods.uids() {
		p := m.pods.known[uid]
		s := PodState{
			UID: uid, Namespace: p.Namespace, Name: p.Name, Level: p.QoS.Level, NUMA: p.QoS.NUMA, Pool: p.QoS.Pool, Said: p.QoS.Said, Bandwidth: p.QoS.Bandwidth, Measured: p.measured,
			Invalid: clean(p.Invalid), Promise: p.Promise.String(), Forged: clean(p.Forged), MilliCPU: p.MilliCPU, BestEffort: p.BestEffort,
			MemoryLimit: p.MemoryLimit, Reclaimed: p.Reclaimed, Request: p.Request, Fixed: p.Fixed, Runs: p.pool, Moved: p.moved,
			Devices: p.deviceState(),
		}
		if h, ok := m.capacity.alloc.Holding(uid); ok {
			s.Grant, s.CPUs = h.Grant.String(), h.CPUs
		}
		c.Pods = append(c.Pods, s)
	}
	for _, numa := range slices.Sorted(maps.Keys(m.capacity.closed)) {
		c.Closed = append(c.Closed, ClosedState{numa, m.capacity.closed[numa].Reason, clean(m.capacity.closed[numa].Message)})
	}
	c.Sum = c.checksum()
	return c
}

// clean leaves out what JSON cannot say, so that a checksum is the same when it is read.
func clean(text string) string { return strings.ToValidUTF8(text, "?") }

// checksum is of all fields except Sum.
func (c *Checkpoint) checksum() string {
	bare := *c
	bare.Sum = ""
	data, err := json.Marshal(&bare)
	if err != nil {
		return "" // no such checkpoint is written
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// fingerprint tells machines apart whose CPUs are not the same. Memory may differ from boot to boot.
func fingerprint(machine *topology.Machine) string {
	hash := sha256.New()
	for _, c := range machine.CPUs {
		fmt.Fprintln(hash, c)
	}
	for _, n := range machine.NUMA {
		fmt.Fprintln(hash, n.ID, n.CPUs)
	}
	return hex.EncodeToString(hash.Sum(nil)[:16])
}

// Restore takes over a checkpoint into a Manager without pods; nil is none. The notes say what could not be taken over: all of it if it is
// damaged, of another version or mode; else single pods, which the machine can no longer give what they had. Those pods are unknown
// then. The shell admits them again with what they run on as Fixed.
func (m *Manager) Restore(c *Checkpoint) (notes []Note) {
	lost := func(format string, args ...any) []Note {
		return append(notes, Note{spec.ReasonCheckpointLost, fmt.Sprintf(format, args...)})
	}
	switch {
	case c == nil:
		return nil
	case len(m.pods.known) > 0:
		return lost("a checkpoint came after %d pods", len(m.pods.known))
	case c.Version != CheckpointVersion:
		return lost("the checkpoint is of version %d, not %d", c.Version, CheckpointVersion)
	case c.Sum == "" || c.Sum != c.checksum():
		return lost("the checkpoint is damaged: its checksum does not match")
	case c.Mode != m.capacity.params.Mode:
		return lost("the checkpoint is of mode %s, now it is %s", c.Mode, m.capacity.params.Mode)
	}
	same := c.Machine == fingerprint(m.capacity.machine)
	if !same { // CPUs went or came, or the disk is in another machine
		notes = append(notes, Note{spec.ReasonMachineChanged, "it has other CPUs than before: pods that had some that are gone get others"})
	}
	m.Pools.wanted, m.Pools.demands, m.Pools.suppress, m.counts = c.Wanted, c.Demands, c.Suppress, c.Counts
	for _, z := range c.Closed {
		if !same {
			break // its number may be another's
		}
		m.CloseNUMANode(z.NUMANode, Note{z.Reason, z.Message})
	}
	for i := range c.Pods {
		if err := m.restore(&c.Pods[i]); err != nil && !same {
			notes = append(notes, Note{spec.ReasonMachineChanged, fmt.Sprintf("%s/%s: %v", c.Pods[i].Namespace, c.Pods[i].Name, err)})
		} else if err != nil {
			notes = lost("%s/%s: %v", c.Pods[i].Namespace, c.Pods[i].Name, err)
		}
	}
	m.pods.reconcile()
	m.capacity.alloc.AdoptPools(cores.Pools{Shared: c.Shared, Reclaimed: c.Reclaimed})
	return notes
}

func (m *Manager) restore(s *PodState) error {
	if m.pods.known[s.UID] != nil {
		return errors.New("it stands twice")
	}
	p := &pod{pool: s.Runs, moved: s.Moved, measured: s.Measured, Pod: Pod{
		UID: s.UID, Namespace: s.Namespace, Name: s.Name, QoS: spec.QoS{Level: s.Level, NUMA: s.NUMA, Pool: s.Pool, Said: s.Said, Bandwidth: s.Bandwidth},
		Invalid: s.Invalid, Forged: s.Forged, Request: s.Request, MilliCPU: s.MilliCPU, BestEffort: s.BestEffort, Fixed: s.Fixed, Reclaimed: s.Reclaimed,
		MemoryLimit: s.MemoryLimit,
	}}
	err := p.restoreDevices(s.Devices)
	if err != nil {
		return err
	}
	if s.Promise != "" {
		if p.Promise, err = topology.ParseNUMAGrant(s.Promise); err != nil {
			return err
		}
	}
	if p.Request.Bandwidth > topology.BandwidthSensitive {
		return fmt.Errorf("memory bandwidth %d is not known", p.Request.Bandwidth)
	}
	if p.Request.Binding == topology.BoundShared && (p.pool != spec.PoolShare || m.capacity.kubeletRules()) {
		return fmt.Errorf("it is bound to NUMA nodes and runs in pool %q", p.pool)
	}
	if p.holds() {
		h := cores.Holding{CPUs: s.CPUs}
		if !m.capacity.kubeletRules() {
			h.Request = s.Request
			if h.Grant, err = topology.ParseNUMAGrant(s.Grant); err != nil {
				return err
			}
			if s.Request.Binding == topology.Exclusive { // the NUMA nodes' memory may differ by now
				h.Grant = m.capacity.alloc.GrantOf(h.Request, h.CPUs)
			}
		}
		if err := m.capacity.alloc.Adopt(s.UID, h); err != nil {
			return err
		}
	}
	m.pods.known[p.UID] = p
	m.pods.admit(p)
	return nil
}
