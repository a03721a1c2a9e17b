package topology

import (
	"fmt"
	"math/bits"
)

// Contradiction says what is contradictory about a request, beside which exclusive CPUs are asked for (nil: none); empty if nothing is. Nothing is
// offered to a request with a contradiction.
func (r *Request) Contradiction(z *NUMARequest) string {
	gpus, nic := !r.IsZero(), &r.NIC
	switch {
	case r.Milli < 0 || r.Whole < 0:
		return "a negative number of GPUs"
	case r.Milli > 0 && r.Whole > 0:
		return fmt.Sprintf("%d and a part of a GPU: a pod has whole ones, or a part of one", r.Whole)
	case r.Milli >= FullGPU:
		return fmt.Sprintf("%d/%d of a GPU: a part is less than a whole one", r.Milli, FullGPU)
	case r.Whole > MaxGPUs:
		return fmt.Sprintf("%d GPUs: a node has at most %d", r.Whole, MaxGPUs)
	case r.Isolation > Hard:
		return "an isolation that does not exist"
	case r.Near.Level > SameSwitch:
		return "a level of nearness that does not exist"
	case r.Memory > 0 && !gpus:
		return "memory of a GPU without a GPU"
	case r.Isolation != IsolationAny && r.Milli == 0:
		return fmt.Sprintf("%s isolation without a part of a GPU: a whole one is nobody else's", r.Isolation)
	case nic.Count == 0 && *nic != NICRequest{}:
		return "bandwidth, functions or RDMA of a network card without a card"
	case nic.Count > MaxNICs:
		return fmt.Sprintf("%d network cards: a node has at most %d", nic.Count, MaxNICs)
	case r.Near.Level == Anywhere && (r.Near.Required || r.Near.Relax):
		return "nearness is required, and no level of it is named"
	case r.Near.Relax && !r.Near.Required:
		return "nearness is relaxed that is not required"
	case r.Near.Level != Anywhere && !gpus && nic.Count == 0 && (z == nil || z.IsZero()) && r.Resources == "":
		return "nearness of nothing: neither GPUs, network cards, exclusive CPUs nor what a plugin brings"
	}
	return ""
}

// Answers reports whether a grant's GPUs and network cards are ones that the request can have been given, whatever is left by now: as many, with no
// less of each. What does not answer was not promised to this request. NUMA nodes have Allocator.Answers.
func (g *Grant) Answers(r *Request) bool {
	if bits.OnesCount16(g.GPUs) != r.Count() || bits.OnesCount16(g.NICs) != int(r.NIC.Count) {
		return false
	}
	if r.NIC.Count > 0 && (g.NIC.Bandwidth != r.NIC.Bandwidth || g.NIC.Function != r.NIC.Function) {
		return false
	}
	switch {
	case r.Milli == 0:
		return g.GPUs == 0 || g.isWhole()
	case g.Instance > 0: // its amounts may not be known
		return g.Isolation == Hard && (g.Milli == 0 || g.Milli >= r.Milli)
	}
	return g.Milli >= r.Milli && g.Memory >= r.Memory && g.Isolation >= max(r.Isolation, Accounting) && g.Isolation < Hard
}
