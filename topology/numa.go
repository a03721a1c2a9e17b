package topology

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// MaxNUMANodes is the most NUMA nodes that a machine may promise from. A machine with more promises nothing by NUMA node.
const MaxNUMANodes = 8

// Mebibyte is the unit of memory in the NUMA node ledger.
const Mebibyte = 1 << 20

// Ruler is the process that decides which CPUs a container gets on a node.
type Ruler uint8

// The rulers of a node's CPUs and memory.
const (
	// RulerNone: unknown. No agent has reported, or its report is too old to act on.
	RulerNone Ruler = iota
	// RulerAgent: Hilbert's agent, so NUMA nodes can be promised.
	RulerAgent
	// RulerKubelet: the kubelet's CPU, memory or topology manager. Nothing is promised by NUMA node.
	RulerKubelet
)

// String is the ruler as the CustomNodeResource spells it.
func (r Ruler) String() string { return [...]string{"none", "agent", "kubelet"}[r] }

// NUMAShape is what the NUMA nodes of a machine can promise, by index. It has amounts, and not which CPUs: the scheduler promises amounts, and the agent
// chooses the CPUs. It is the same value in the scheduler's ledger and in the agent.
type NUMAShape struct {
	Ruler       Ruler
	NUMANodes   uint8 // how many, at most MaxNUMANodes
	Threads     uint8 // logical CPUs of one core: exclusive CPUs are given by whole cores
	Closed      uint8 // set of NUMA nodes that give nothing new
	BindsShared bool  // the agent keeps pods of shared pools in their NUMA nodes too: requests with BoundShared are served
	// SeparatesBandwidth: the agent keeps pods that load a NUMA node's memory out of those of pods that suffer from it: requests that name a Bandwidth are served.
	SeparatesBandwidth bool
	NUMANode           [MaxNUMANodes]NUMACapacity
}

// NUMACapacity is one NUMA node: its logical CPUs that may be given exclusively (whole cores, reserved ones left out), and its memory.
type NUMACapacity struct {
	CPUs   uint16
	Socket uint8
	Memory uint32 // MiB
}

// Binding is how close a pod is kept to its memory, and whether its CPUs are its own.
type Binding uint8

// The bindings.
const (
	// Unbound: exclusive cores in as few NUMA nodes as possible; memory from anywhere.
	Unbound Binding = iota
	// Bound: cores and memory from the same NUMA nodes, as few as possible.
	Bound
	// Exclusive: whole NUMA nodes, which no other pod uses.
	Exclusive
	// BoundShared: CPUs that others use too, and memory, from the same NUMA nodes, as few as possible. Each of them is charged what the pod requests.
	BoundShared
)

// String is the binding in words.
func (b Binding) String() string {
	return [...]string{"unbound", "NUMA-bound", "NUMA-exclusive", "NUMA-bound, sharing CPUs"}[b]
}

// NUMARequest asks for CPUs of NUMA nodes, and says how close they must be to the pod's memory. For example, {CPUs: 5, Binding: Bound, Memory: 4096} on a
// machine with two threads per core is three cores and 4 GiB from as few NUMA nodes as possible. With BoundShared it is room for five CPUs there, and
// the pod shares all CPUs of the shared pool in those NUMA nodes.
type NUMARequest struct {
	CPUs    uint16 // logical CPUs; exclusive ones are rounded up to whole cores by the machine that gives them
	Binding Binding
	Memory  uint32 // MiB, charged to the NUMA nodes of a pod that is bound
	// Bandwidth says how the pod gets on with others at the memory of its NUMA nodes. It is left out where nothing is said, so that older checkpoints are read.
	Bandwidth Bandwidth `json:",omitempty"`
}

// serves reports whether the machine's agent can do what the request asks of it.
func (s *NUMAShape) serves(r NUMARequest) bool {
	return (r.Binding != BoundShared || s.BindsShared) && (r.Bandwidth == BandwidthUnsaid || s.SeparatesBandwidth)
}

// IsZero reports whether no CPU of a NUMA node is asked for.
func (r NUMARequest) IsZero() bool { return r.CPUs == 0 }

// NUMAGrant is what a pod holds of each NUMA node: logical CPUs, and MiB of memory if it is bound.
type NUMAGrant struct {
	CPUs   [MaxNUMANodes]uint16
	Memory [MaxNUMANodes]uint32
	// Bandwidth is the request's. It is counted in each NUMA node that the grant touches.
	Bandwidth Bandwidth
}

// IsZero reports whether nothing is granted.
func (g NUMAGrant) IsZero() bool { return g == NUMAGrant{} }

// NUMANodes is the set of NUMA nodes that the grant touches.
func (g NUMAGrant) NUMANodes() (set uint8) {
	for z := range MaxNUMANodes {
		if g.CPUs[z] > 0 || g.Memory[z] > 0 {
			set |= 1 << z
		}
	}
	return set
}

// Excess is what the grant takes beyond the request: siblings of a core that is not filled, and the rest of NUMA nodes that are held alone.
// Both are counted on the node, so that others are not promised them.
func (g NUMAGrant) Excess(r NUMARequest) (cpus, memory int64) {
	if g.IsZero() {
		return 0, 0
	}
	for z := range MaxNUMANodes {
		cpus += int64(g.CPUs[z])
		memory += int64(g.Memory[z])
	}
	cpus -= int64(r.CPUs)
	if r.Binding == Unbound {
		return cpus, 0
	}
	return cpus, memory - int64(r.Memory)
}

// String renders the grant as the Binding's annotation has it, by NUMA node: "0:8/4096Mi,1:8/4096Mi", or "0:8" where memory is not bound. What is said
// of memory bandwidth follows: "0:8/4096Mi,sensitive".
func (g NUMAGrant) String() string {
	var b strings.Builder
	for set := g.NUMANodes(); set != 0; set &= set - 1 {
		z := bits.TrailingZeros8(set)
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(z))
		b.WriteByte(':')
		b.WriteString(strconv.Itoa(int(g.CPUs[z])))
		if g.Memory[z] > 0 {
			b.WriteByte('/')
			b.WriteString(strconv.FormatUint(uint64(g.Memory[z]), 10))
			b.WriteString("Mi")
		}
	}
	if g.Bandwidth != BandwidthUnsaid && b.Len() > 0 {
		b.WriteByte(',')
		b.WriteString(g.Bandwidth.String())
	}
	return b.String()
}

// ParseNUMAGrant reads what String wrote.
func ParseNUMAGrant(text string) (NUMAGrant, error) {
	var g NUMAGrant
	amounts, bandwidth := cutBandwidth(text)
	for field := range strings.SplitSeq(amounts, ",") {
		numa, amounts, ok := strings.Cut(strings.TrimSpace(field), ":")
		z, err := strconv.ParseUint(numa, 10, 8)
		if !ok || err != nil || z >= MaxNUMANodes {
			return NUMAGrant{}, fmt.Errorf("NUMA %q: %q: want NUMA:CPUS or NUMA:CPUS/MEMORYMi, with a NUMA node from 0 to %d", text, field, MaxNUMANodes-1)
		}
		if g.NUMANodes()&(1<<z) != 0 {
			return NUMAGrant{}, fmt.Errorf("NUMA %q: NUMA node %d stands twice", text, z)
		}
		cpus, memory, bound := strings.Cut(amounts, "/")
		n, err := strconv.ParseUint(cpus, 10, 16)
		if err != nil {
			return NUMAGrant{}, fmt.Errorf("NUMA %q: %q is no number of CPUs", text, cpus)
		}
		g.CPUs[z] = uint16(n)
		if bound {
			m, err := strconv.ParseUint(strings.TrimSuffix(memory, "Mi"), 10, 32)
			if err != nil || !strings.HasSuffix(memory, "Mi") {
				return NUMAGrant{}, fmt.Errorf("NUMA %q: %q is no amount of memory; want for example 4096Mi", text, memory)
			}
			g.Memory[z] = uint32(m)
		}
		if g.NUMANodes()&(1<<z) == 0 {
			return NUMAGrant{}, fmt.Errorf("NUMA %q: NUMA node %d is given nothing", text, z)
		}
	}
	g.Bandwidth = bandwidth
	return g, nil
}

// NUMAFree is what is left of each NUMA node. It may be negative where a NUMA node shrank or another scheduler gave out more than there was.
type NUMAFree [MaxNUMANodes]NUMARoom

// NUMARoom is what is left of one NUMA node.
type NUMARoom struct {
	CPUs   int32
	Claims int32 // grants that touch the NUMA node
	Memory int64 // MiB

	Intensive, Sensitive int16 // of the grants, those with this Bandwidth
}

// suits reports whether a pod with the bandwidth may be given something of the NUMA node beside the pods that are there.
func (m *NUMARoom) suits(b Bandwidth) bool {
	return (b != BandwidthIntensive || m.Sensitive == 0) && (b != BandwidthSensitive || m.Intensive == 0)
}

// NewNUMAFree is what an empty machine has.
func NewNUMAFree(s *NUMAShape) (f NUMAFree) {
	for z := range s.NUMANodes {
		f[z] = NUMARoom{CPUs: int32(s.NUMANode[z].CPUs), Memory: int64(s.NUMANode[z].Memory)}
	}
	return f
}

// Commit takes a grant.
func (f *NUMAFree) Commit(g *NUMAGrant) { f.move(g, 1) }

// Release gives a grant back.
func (f *NUMAFree) Release(g *NUMAGrant) { f.move(g, -1) }

func (f *NUMAFree) move(g *NUMAGrant, sign int32) {
	for z := range MaxNUMANodes {
		if g.CPUs[z] == 0 && g.Memory[z] == 0 {
			continue
		}
		f[z].CPUs -= sign * int32(g.CPUs[z])
		f[z].Memory -= int64(sign) * int64(g.Memory[z])
		f[z].Claims += sign
		switch g.Bandwidth {
		case BandwidthUnsaid: // it gets on with all
		case BandwidthIntensive:
			f[z].Intensive += int16(sign)
		case BandwidthSensitive:
			f[z].Sensitive += int16(sign)
		}
	}
}

// Fits reports whether a grant answers the request and still fits: enough whole cores, memory where it is bound, whole and unused NUMA nodes
// where it is exclusive, nothing of a NUMA node that is closed or has pods that its bandwidth does not suit.
func (f *NUMAFree) Fits(s *NUMAShape, r NUMARequest, g *NUMAGrant) bool {
	if r.IsZero() {
		return g.IsZero()
	}
	switch s.Ruler {
	case RulerKubelet:
		return r.Binding == Unbound && g.IsZero()
	case RulerNone:
		return false
	case RulerAgent: // by NUMA node, below
	}
	if !s.serves(r) || g.Bandwidth != r.Bandwidth {
		return false
	}
	var cpus, memory int64
	for z := range MaxNUMANodes {
		if g.CPUs[z] == 0 && g.Memory[z] == 0 {
			continue
		}
		if !f.fitsIn(s, r.Binding, z, g) {
			return false
		}
		cpus += int64(g.CPUs[z])
		memory += int64(g.Memory[z])
	}
	switch r.Binding {
	case Unbound:
		return cpus == s.Charged(r) && memory == 0
	case Bound, BoundShared:
		return cpus == s.Charged(r) && memory == int64(r.Memory)
	default: // whole NUMA nodes may have more than is asked for
		return cpus >= s.Charged(r) && memory >= int64(r.Memory)
	}
}

func (f *NUMAFree) fitsIn(s *NUMAShape, binding Binding, z int, g *NUMAGrant) bool {
	if z >= int(s.NUMANodes) || s.Closed&(1<<z) != 0 || g.CPUs[z]%uint16(s.grain(binding)) != 0 || !f[z].suits(g.Bandwidth) {
		return false
	}
	if binding == Exclusive {
		whole := s.NUMANode[z]
		return f[z].Claims == 0 && f[z].CPUs == int32(whole.CPUs) && g.CPUs[z] == whole.CPUs && g.Memory[z] == whole.Memory
	}
	// What is not asked for may be overdrawn.
	return (g.CPUs[z] == 0 || f[z].CPUs >= int32(g.CPUs[z])) && (g.Memory[z] == 0 || f[z].Memory >= int64(g.Memory[z]))
}

// Charged is the logical CPUs that a request takes of the NUMA nodes: those of the cores that it fills or begins, or where it shares CPUs as many as it asks for.
func (s *NUMAShape) Charged(r NUMARequest) int64 {
	grain := int64(s.grain(r.Binding))
	return (int64(r.CPUs) + grain - 1) / grain * grain
}

// grain is the fewest logical CPUs that are given to a pod of the binding: exclusive ones come by whole cores.
func (s *NUMAShape) grain(b Binding) int32 {
	if b == BoundShared {
		return 1
	}
	return int32(max(s.Threads, 1))
}
