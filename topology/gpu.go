package topology

import (
	"math/bits"
	"strconv"
	"strings"
)

const (
	// MaxGPUs is the most GPUs of one node.
	MaxGPUs = 16
	// FullGPU is one whole GPU, in thousandths.
	FullGPU = 1000
)

// Shape is what a node's GPUs are: the part of a machine that does not change while pods come and go. Nodes with equal GPUs have equal Shapes.
type Shape struct {
	GPUs      int    // how many, at most MaxGPUs; with Devices it is not read
	Model     string // one model a node
	Shareable bool   // fractions may be given out; with Devices it is not read
	// Devices is what the node's agent reports of its GPUs and network cards. Nil: there are only counters.
	Devices *Devices
}

// count is how many GPUs there are.
func (s *Shape) count() int {
	if s.Devices != nil {
		return min(len(s.Devices.GPU), MaxGPUs)
	}
	return min(s.GPUs, MaxGPUs)
}

// Request asks for a part of one GPU (Milli 1 to 999, Whole 0), for whole ones (Milli 0), for network cards, or for both. For example,
// {Whole: 2, NIC: NICRequest{Count: 1}, Near: Near{Level: SameSwitch, Required: true}} is two whole GPUs and a card below one PCIe switch.
type Request struct {
	Milli int16
	Whole int8
	// Isolation is the least that must be given to a part of a GPU.
	Isolation Isolation
	// Memory is the MiB that each GPU must give. 0: a part has its share of the GPU's. Whole GPUs are given with all their memory; they must
	// have as much.
	Memory uint32
	NIC    NICRequest
	// Resources are what plugins bring. Nodes that do not count them by NUMA node give them by amount alone.
	Resources ResourceRequest
	// Tenant is whose a part of a GPU is to be; zero with whole ones.
	Tenant Tenant
	// Near is how close GPUs, network cards and exclusive CPUs must or should be. What the kubelet's topology manager calls
	//
	//	none              is Near{}
	//	best-effort       is Near{Level: SameNUMA}
	//	restricted        is Near{Level: SameNUMA, Required: true, Relax: true}
	//	single-numa-node  is Near{Level: SameNUMA, Required: true}
	//
	// A request that is larger than any NUMA node is refused under the last, and View.Refusal says so; under restricted it may have one
	// socket if it fits an empty one, else the machine.
	Near Near
}

// NICRequest asks for network cards. A card without a requested bandwidth or function is named in the grant, and not charged.
type NICRequest struct {
	Count     uint8
	RDMA      bool   // each must have it
	Function  bool   // a virtual function of each
	Bandwidth uint32 // Mbit/s of each
}

// IsZero reports whether no GPU is asked for.
func (r Request) IsZero() bool { return r.Milli == 0 && r.Whole == 0 }

// Count is how many GPUs are asked for, a part of one counted as one.
func (r Request) Count() int {
	if r.Milli > 0 {
		return 1
	}
	return int(r.Whole)
}

// NeedsReport reports whether the request can be met only by a node whose agent reports its devices.
func (r Request) NeedsReport() bool {
	return r.Memory > 0 || r.Isolation > Accounting || r.NIC.Count > 0 || r.Near.Required && r.Near.Level != Anywhere && r.Count() > 1
}

// Total is the thousandths asked for.
func (r Request) Total() int64 { return int64(r.Milli) + FullGPU*int64(r.Whole) }

// Grant is what a pod holds of a machine: GPUs, network cards, and parts of NUMA nodes. The zero Grant is nothing. It is what a Binding promises
// and what the agent confirms. For example, {GPUs: 0b100, Milli: 250, Memory: 10240, Isolation: Soft} is a quarter of GPU 2 with 10 GiB.
type Grant struct {
	GPUs  uint16 // a set
	Milli int16  // thousandths charged of each: what was asked for, rounded up to the grain if it is soft; an instance's; FullGPU
	// Memory is the MiB charged of each. 0 with whole GPUs: all that each has.
	Memory    uint32
	Isolation Isolation // what is given to a part of a GPU; IsolationAny: the GPUs are whole
	Instance  int8      // 1 + the index of the MIG instance; 0: none
	Tenant    Tenant    // of a soft slice, see For
	NICs      uint16    // a set
	NIC       NICGrant
	NUMANodes NUMAGrant
	// Resources are what plugins bring, of nodes that count it by NUMA node.
	Resources ResourceGrant
}

// NICGrant is what a grant charges of each of its network cards.
type NICGrant struct {
	Bandwidth uint32 // Mbit/s
	Function  bool   // a virtual function
}

// IsZero reports whether nothing is granted.
func (g Grant) IsZero() bool {
	return g.GPUs == 0 && g.NICs == 0 && g.NUMANodes.IsZero() && g.Resources == ""
}

// isWhole reports whether the grant has its GPUs alone.
func (g *Grant) isWhole() bool {
	return g.Milli >= FullGPU && g.Isolation == IsolationAny && g.Instance == 0
}

// String renders the indices of the GPUs as the Binding's annotation has them: "0,3". NUMA nodes have an annotation, and a String, of their own.
func (g Grant) String() string {
	var b strings.Builder
	for set := g.GPUs; set != 0; set &= set - 1 {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(bits.TrailingZeros16(set)))
	}
	return b.String()
}

// Free is the thousandths left on each GPU of a node. A counter may be negative where a foreign scheduler over-committed it.
type Free [MaxGPUs]int32

// NewFree returns the counters of an empty node.
func NewFree(s Shape) Free {
	var f Free
	for i := range s.count() {
		f[i] = FullGPU
	}
	return f
}

// Total is the sum of what is left; negative counters count as nothing left.
func (f *Free) Total(s Shape) int64 {
	var total int64
	for i := range s.GPUs {
		total += int64(max(f[i], 0))
	}
	return total
}

// OfferGPUs chooses GPUs for a request: a fraction goes to the fullest GPU that still has room (best fit), whole ones are taken from the
// lowest index. ok is false when the request does not fit.
func OfferGPUs(s Shape, f *Free, r Request) (g Grant, ok bool) {
	switch {
	case r.IsZero():
		return Grant{}, true
	case r.Milli > 0:
		return offerFraction(s, f, r.Milli)
	}
	left := int(r.Whole)
	for i := 0; i < s.GPUs && left > 0; i++ {
		if f[i] == FullGPU {
			g.GPUs |= 1 << i
			left--
		}
	}
	g.Milli = FullGPU
	if left == 0 && s.counted() {
		left = f.lacking(s, g)
	}
	return g, left <= 0
}

// lacking is how many GPUs are idle beside those of a grant, less than others hold beyond what there is.
func (f *Free) lacking(s Shape, g Grant) int {
	lacking := int((f.debt() + FullGPU - 1) / FullGPU)
	for i := range s.GPUs {
		if f[i] == FullGPU && g.GPUs&(1<<i) == 0 {
			lacking--
		}
	}
	return lacking
}

func offerFraction(s Shape, f *Free, milli int16) (Grant, bool) {
	if !s.Shareable {
		return Grant{}, false
	}
	best := -1
	for i := range s.GPUs {
		if f[i] >= int32(milli) && (best < 0 || f[i] < f[best]) {
			best = i
		}
	}
	if best < 0 {
		return Grant{}, false
	}
	return Grant{GPUs: 1 << best, Milli: milli}, true
}

// Fits reports whether the GPUs of a grant still fit.
func (f *Free) Fits(s Shape, g Grant) bool {
	if bits.Len16(g.GPUs) > s.GPUs || (g.Milli < FullGPU && g.GPUs != 0 && !s.Shareable) {
		return false
	}
	for set := g.GPUs; set != 0; set &= set - 1 {
		if f[bits.TrailingZeros16(set)] < int32(g.Milli) {
			return false
		}
	}
	return true
}

// Commit takes the GPUs of a grant from the counters.
func (f *Free) Commit(g Grant) { f.move(g, -int32(g.Milli)) }

// Release gives the GPUs of a grant back.
func (f *Free) Release(g Grant) { f.move(g, int32(g.Milli)) }

func (f *Free) move(g Grant, milli int32) {
	for set := g.GPUs; set != 0; set &= set - 1 {
		f[bits.TrailingZeros16(set)] += milli
	}
}
