package topology

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// MaxZones is the most NUMA nodes that a machine may promise from. A machine with more promises nothing by zone.
const MaxZones = 8

// Mebibyte is the unit of memory in the zone ledger.
const Mebibyte = 1 << 20

// Ruler is who decides which CPUs a container gets on a node.
type Ruler uint8

// The rulers of a node's CPUs and memory.
const (
	// RulerNone: nobody does. No agent has reported, or its report is too old to act on.
	RulerNone Ruler = iota
	// RulerAgent: our agent does, so zones can be promised.
	RulerAgent
	// RulerKubelet: the kubelet's CPU, memory or topology manager does. Nothing is promised by zone.
	RulerKubelet
)

// String is the ruler as the CustomNodeResource spells it.
func (r Ruler) String() string { return [...]string{"none", "agent", "kubelet"}[r] }

// ZoneShape is what the NUMA nodes of a machine can promise, by index. It is the same value in the scheduler's ledger and in the agent.
type ZoneShape struct {
	Ruler   Ruler
	Zones   uint8 // how many, at most MaxZones
	Threads uint8 // logical CPUs of one core: exclusive CPUs are given by whole cores
	Closed  uint8 // set of zones that give nothing new
	Zone    [MaxZones]ZoneCapacity
}

// ZoneCapacity is one NUMA node: its logical CPUs that may be given exclusively (whole cores, reserved ones left out), and its memory.
type ZoneCapacity struct {
	CPUs   uint16
	Socket uint8
	Memory uint32 // MiB
}

// Binding is how close a dedicated pod is kept to its memory.
type Binding uint8

// The bindings.
const (
	// Unbound: exclusive cores in as few zones as possible; memory from anywhere.
	Unbound Binding = iota
	// Bound: cores and memory from the same zones, as few as possible.
	Bound
	// Exclusive: whole zones, which nobody else uses.
	Exclusive
)

// String is the binding in words.
func (b Binding) String() string { return [...]string{"unbound", "NUMA-bound", "NUMA-exclusive"}[b] }

// ZoneRequest asks for exclusive CPUs.
type ZoneRequest struct {
	CPUs    uint16 // logical CPUs; rounded up to whole cores by the machine that gives them
	Binding Binding
	Memory  uint32 // MiB, charged to the zones of a pod that is bound
}

// IsZero reports whether no exclusive CPU is asked for.
func (r ZoneRequest) IsZero() bool { return r.CPUs == 0 }

// ZoneGrant is what a pod holds of each zone: logical CPUs, and MiB of memory if it is bound.
type ZoneGrant struct {
	CPUs   [MaxZones]uint16
	Memory [MaxZones]uint32
}

// IsZero reports whether nothing is granted.
func (g ZoneGrant) IsZero() bool { return g == ZoneGrant{} }

// Zones is the set of zones that the grant touches.
func (g ZoneGrant) Zones() (set uint8) {
	for z := range MaxZones {
		if g.CPUs[z] > 0 || g.Memory[z] > 0 {
			set |= 1 << z
		}
	}
	return set
}

// Excess is what the grant takes beyond the request: siblings of a core that is not filled, and the rest of zones that are held alone.
// Both are counted on the node, so that others are not promised them.
func (g ZoneGrant) Excess(r ZoneRequest) (cpus, memory int64) {
	if g.IsZero() {
		return 0, 0
	}
	for z := range MaxZones {
		cpus += int64(g.CPUs[z])
		memory += int64(g.Memory[z])
	}
	cpus -= int64(r.CPUs)
	if r.Binding == Unbound {
		return cpus, 0
	}
	return cpus, memory - int64(r.Memory)
}

// String renders the grant as the Binding's annotation has it, by zone: "0:8/4096Mi,1:8/4096Mi", or "0:8" where memory is not bound.
func (g ZoneGrant) String() string {
	var b strings.Builder
	for set := g.Zones(); set != 0; set &= set - 1 {
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
	return b.String()
}

// ParseZoneGrant reads what String wrote.
func ParseZoneGrant(text string) (ZoneGrant, error) {
	var g ZoneGrant
	for field := range strings.SplitSeq(text, ",") {
		zone, amounts, ok := strings.Cut(strings.TrimSpace(field), ":")
		z, err := strconv.ParseUint(zone, 10, 8)
		if !ok || err != nil || z >= MaxZones {
			return ZoneGrant{}, fmt.Errorf("zones %q: %q: want ZONE:CPUS or ZONE:CPUS/MEMORYMi, with a zone from 0 to %d", text, field, MaxZones-1)
		}
		if g.Zones()&(1<<z) != 0 {
			return ZoneGrant{}, fmt.Errorf("zones %q: zone %d stands twice", text, z)
		}
		cpus, memory, bound := strings.Cut(amounts, "/")
		n, err := strconv.ParseUint(cpus, 10, 16)
		if err != nil {
			return ZoneGrant{}, fmt.Errorf("zones %q: %q is no number of CPUs", text, cpus)
		}
		g.CPUs[z] = uint16(n)
		if bound {
			m, err := strconv.ParseUint(strings.TrimSuffix(memory, "Mi"), 10, 32)
			if err != nil || !strings.HasSuffix(memory, "Mi") {
				return ZoneGrant{}, fmt.Errorf("zones %q: %q is no amount of memory; want for example 4096Mi", text, memory)
			}
			g.Memory[z] = uint32(m)
		}
		if g.Zones()&(1<<z) == 0 {
			return ZoneGrant{}, fmt.Errorf("zones %q: zone %d is given nothing", text, z)
		}
	}
	return g, nil
}

// ZoneFree is what is left of each zone. It may be negative where a zone shrank or somebody else took more than was there.
type ZoneFree [MaxZones]ZoneRoom

// ZoneRoom is what is left of one zone.
type ZoneRoom struct {
	CPUs   int32
	Claims int32 // grants that touch the zone
	Memory int64 // MiB
}

// NewZoneFree is what an empty machine has.
func NewZoneFree(s *ZoneShape) (f ZoneFree) {
	for z := range s.Zones {
		f[z] = ZoneRoom{CPUs: int32(s.Zone[z].CPUs), Memory: int64(s.Zone[z].Memory)}
	}
	return f
}

// Commit takes a grant.
func (f *ZoneFree) Commit(g *ZoneGrant) { f.move(g, 1) }

// Release gives a grant back.
func (f *ZoneFree) Release(g *ZoneGrant) { f.move(g, -1) }

func (f *ZoneFree) move(g *ZoneGrant, sign int32) {
	for z := range MaxZones {
		if g.CPUs[z] == 0 && g.Memory[z] == 0 {
			continue
		}
		f[z].CPUs -= sign * int32(g.CPUs[z])
		f[z].Memory -= int64(sign) * int64(g.Memory[z])
		f[z].Claims += sign
	}
}

// Fits reports whether a grant answers the request and still fits: enough whole cores, memory where it is bound, whole and unused zones
// where it is exclusive, nothing of a zone that is closed.
func (f *ZoneFree) Fits(s *ZoneShape, r ZoneRequest, g *ZoneGrant) bool {
	if r.IsZero() {
		return g.IsZero()
	}
	switch s.Ruler {
	case RulerKubelet:
		return r.Binding == Unbound && g.IsZero()
	case RulerNone:
		return false
	case RulerAgent: // by zone, below
	}
	var cpus, memory int64
	for z := range MaxZones {
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
		return cpus == s.WholeCores(r) && memory == 0
	case Bound:
		return cpus == s.WholeCores(r) && memory == int64(r.Memory)
	default: // whole zones may have more than is asked for
		return cpus >= s.WholeCores(r) && memory >= int64(r.Memory)
	}
}

func (f *ZoneFree) fitsIn(s *ZoneShape, binding Binding, z int, g *ZoneGrant) bool {
	if z >= int(s.Zones) || s.Closed&(1<<z) != 0 || g.CPUs[z]%uint16(max(s.Threads, 1)) != 0 {
		return false
	}
	if binding == Exclusive {
		whole := s.Zone[z]
		return f[z].Claims == 0 && f[z].CPUs == int32(whole.CPUs) && g.CPUs[z] == whole.CPUs && g.Memory[z] == whole.Memory
	}
	// What is not asked for may be overdrawn.
	return (g.CPUs[z] == 0 || f[z].CPUs >= int32(g.CPUs[z])) && (g.Memory[z] == 0 || f[z].Memory >= int64(g.Memory[z]))
}

// WholeCores is the logical CPUs of the cores that a request fills or begins.
func (s *ZoneShape) WholeCores(r ZoneRequest) int64 {
	threads := int64(max(s.Threads, 1))
	return (int64(r.CPUs) + threads - 1) / threads * threads
}
