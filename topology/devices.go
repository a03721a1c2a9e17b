package topology

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

const (
	// MaxNICs is the most network cards of one node.
	MaxNICs = 16
	// NoPlace is the Switch, NUMA node or Socket of a device whose firmware does not say. Such a device is near to nothing but itself.
	NoPlace = 0xff
	// unknownGrain is taken for the grain of a GPU whose multiprocessors are not known.
	unknownGrain = 10
)

// Owner is the party that gives out a node's GPUs. There is exactly one, because two would give the same GPU to two pods. For example, while NVIDIA's
// device plugin offers nvidia.com/gpu the owner is the kubelet: which GPU a pod gets is decided after the Binding, so Hilbert counts GPUs there and
// promises none by number.
type Owner uint8

// The owners of a node's GPUs.
const (
	// OwnerNone: no known party, or several. No GPU is given.
	OwnerNone Owner = iota
	// OwnerHilbert: the agent gives whole GPUs, slices and instances, by switch.
	OwnerHilbert
	// OwnerKubelet: a device plugin. Whole GPUs are counted; the kubelet chooses which, so nothing can be placed near them.
	OwnerKubelet
)

var ownerNames = [...]string{
	"none", "hilbert", "kubelet",
}

// String is the owner as the CustomNodeResource spells it.
func (o Owner) String() string { return ownerNames[o] }

// ParseOwner reads what String wrote. False: no such owner.
func ParseOwner(text string) (Owner, bool) {
	i := slices.Index(ownerNames[:], text)
	return Owner(max(i, 0)), i >= 0
}

// Isolation is what keeps the slices of a GPU apart, in order of strength.
type Isolation uint8

// The strengths of isolation.
const (
	// IsolationAny: no isolation is asked for. A grant of whole GPUs has it too, because no other pod is on them.
	IsolationAny Isolation = iota
	// Accounting: the ledger counts, nothing enforces.
	Accounting
	// Soft: NVIDIA MPS limits threads and pinned memory: per process, cooperative, an upper bound, one fault domain.
	Soft
	// Hard: a MIG instance that exists.
	Hard
)

var isolationNames = [...]string{
	"", "accounting", "soft", "hard",
}

// String is the isolation as pods ask for it; empty for nothing.
func (i Isolation) String() string { return isolationNames[i] }

// ParseIsolation reads what String wrote. False: no such isolation.
func ParseIsolation(text string) (Isolation, bool) {
	i := slices.Index(isolationNames[:], text)
	return Isolation(max(i, 0)), i >= 0
}

// Strengths is a set of isolations.
type Strengths uint8

// StrengthsOf is the set of the isolations that are named.
func StrengthsOf(list ...Isolation) (s Strengths) {
	for _, i := range list {
		s |= 1 << i
	}
	return s
}

// Has reports whether the set has the isolation.
func (s Strengths) Has(i Isolation) bool { return s&(1<<i) != 0 }

// Level is how close devices and CPUs are to each other, the closest last.
type Level uint8

// The levels.
const (
	Anywhere   Level = iota // of the machine
	SameSocket              // one socket
	SameNUMA                // one NUMA node
	SameSwitch              // one PCIe switch
)

var levelNames = [...]string{
	"", "socket", "numa", "switch",
}

// String is the level as pods ask for it; empty for anywhere.
func (l Level) String() string { return levelNames[l] }

// ParseLevel reads what String wrote. False: no such level.
func ParseLevel(text string) (Level, bool) {
	i := slices.Index(levelNames[:], text)
	return Level(max(i, 0)), i >= 0
}

// Devices are a node's GPUs and network cards. A value is immutable and shared by pointer; a change makes a new value. The zero value has no
// devices.
type Devices struct {
	Owner Owner
	GPU   []GPU // by index, at most MaxGPUs; an index belongs to an address for as long as the agent's checkpoint lives
	NIC   []NIC // by index, at most MaxNICs
	// Links is how well two GPUs are connected, row by row, len(GPU) times len(GPU): more is better, and the diagonal is not read. Another
	// length, or none: all are connected alike.
	Links []uint8
	// ClosedGPUs and ClosedNICs are the sets of those that give nothing new. They stay charged to the pods that hold them.
	ClosedGPUs, ClosedNICs uint16
	// SeveralNamespaces: soft slices of one GPU may be of several tenants.
	SeveralNamespaces bool
}

// GPU is one GPU. The unit of its compute is a thousandth.
type GPU struct {
	Address, UUID, Model string
	Memory               uint32 // MiB that may be given
	// Grain is the thousandths of compute of one multiprocessor: a soft slice is a multiple of it. 0: not known, then 10 is taken.
	Grain uint16
	// Least is the compute of the least soft slice, in thousandths: the driver gives no process less. A slice of less is charged as much. 0: of one grain.
	Least     uint16
	Clients   uint8      // the most pods that may share it softly or by accounting; 0: it is not shared
	Strengths Strengths  // that it gives to slices
	Instances []Instance // MIG instances that exist, at most MaxInstances; a GPU that has some gives them and nothing else
	// Switch, NUMA node and Socket say where it hangs: numbers of their own kind from 0, or NoPlace. NUMA node is an index of NUMAShape.NUMANode, Socket
	// is as NUMACapacity.Socket.
	Switch, NUMANode, Socket uint8
}

// Instance is a MIG instance: a part of a GPU that hardware keeps apart.
type Instance struct {
	Name   string // its profile, "1g.10gb"
	Milli  uint16 // thousandths of the GPU's compute
	Memory uint32 // MiB
}

// NIC is one network card.
type NIC struct {
	Address, Name            string
	Bandwidth                uint32 // Mbit/s that may be given
	Functions                uint16 // virtual functions that may be given
	RDMA                     bool
	Switch, NUMANode, Socket uint8 // as a GPU's
}

// Check returns the first thing that devices must not be: too many, of one address, of one UUID, with links of another size. What follows from
// devices that are not sound is not promised, but nothing panics.
func (d *Devices) Check() error {
	switch n := len(d.GPU); {
	case n > MaxGPUs:
		return fmt.Errorf("%d GPUs; at most %d can be told apart", n, MaxGPUs)
	case len(d.NIC) > MaxNICs:
		return fmt.Errorf("%d network cards; at most %d can be told apart", len(d.NIC), MaxNICs)
	case len(d.Links) != 0 && len(d.Links) != n*n:
		return fmt.Errorf("%d links for %d GPUs; want %d or none", len(d.Links), n, n*n)
	case d.ClosedGPUs>>n != 0 || d.ClosedNICs>>len(d.NIC) != 0:
		return errors.New("a device is closed that is not there")
	}
	addresses, uuids := make(map[string]bool), make(map[string]bool)
	for i := range d.GPU {
		g := &d.GPU[i]
		if g.Address != "" && addresses[g.Address] || g.UUID != "" && uuids[g.UUID] {
			return fmt.Errorf("GPU %d: address %q or UUID %q stands twice", i, g.Address, g.UUID)
		}
		addresses[g.Address], uuids[g.UUID] = true, true
		if len(g.Instances) > MaxInstances {
			return fmt.Errorf("GPU %d: %d instances; at most %d can be told apart", i, len(g.Instances), MaxInstances)
		}
		if g.Memory > MaxAmount {
			return fmt.Errorf("GPU %d: %d MiB; at most %d can be counted", i, g.Memory, MaxAmount)
		}
	}
	for i := range d.NIC {
		if n := &d.NIC[i]; n.Address != "" && addresses[n.Address] {
			return fmt.Errorf("network card %d: address %q stands twice", i, n.Address)
		}
		if b := d.NIC[i].Bandwidth; b > MaxAmount {
			return fmt.Errorf("network card %d: %d Mbit/s; at most %d can be counted", i, b, MaxAmount)
		}
		addresses[d.NIC[i].Address] = true
	}
	return nil
}

// Near is how close the GPUs, the network cards and the NUMA nodes of a pod's CPUs must or should be. Request.Near translates the words of the
// kubelet's topology manager.
type Near struct {
	Level    Level
	Required bool // else it is preferred
	// Relax, with Required: a machine that could not hold the request so closely even if it were empty may hold it at the next wider level
	// at which it could.
	Relax bool
}

// String is for people: "numa, required".
func (n Near) String() string {
	words := []string{n.Level.String()}
	switch {
	case n.Level == Anywhere:
		return "anywhere"
	case n.Required && n.Relax:
		words = append(words, "required where it can be")
	case n.Required:
		words = append(words, "required")
	default:
		words = append(words, "preferred")
	}
	return strings.Join(words, ", ")
}
