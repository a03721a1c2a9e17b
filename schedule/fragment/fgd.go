package fragment

import (
	"math"

	"hilbert.dev/hilbert/topology"
)

// CommonCover is the part of all arrivals that the published simulator's target workload covers.
const CommonCover = 0.95

// Target is the mix that FGD expects: common kinds and their parts.
type Target []Share

// Fragmentation is F_n(M), the GPU thousandths of the node that a pod drawn from the mix cannot use, expected. A pod that does not fit for its
// CPU, its model or the number of its GPUs can use none of them, and neither can one that asks for no GPU; another cannot use the GPUs that
// have less left than it asks for.
func (t Target) Fragmentation(n *Node) float64 {
	total := n.Free.Total(n.Shape)
	if total == 0 {
		return 0
	}
	sum := 0.0
	for i := range t {
		sum += t[i].Part * float64(total-usable(n, &t[i].Request, total))
	}
	return sum
}

// usable is the thousandths on GPUs that the request could take, 0 if it does not fit.
func usable(n *Node, r *Request, total int64) int64 {
	if r.GPU.IsZero() || n.CPU < r.CPU || !r.Models.Allows(n.Shape.Model) {
		return 0
	}
	need, each := int(r.GPU.Whole), int32(topology.FullGPU)
	if r.GPU.Milli > 0 {
		need, each = 1, int32(r.GPU.Milli)
	}
	for i := range n.Shape.GPUs {
		if n.Free[i] >= each {
			need--
		} else {
			total -= int64(max(n.Free[i], 0))
		}
	}
	if need > 0 {
		return 0
	}
	return total
}

// Gradient is FGD's score of a placement, 0 to 100, higher is better: how much fragmentation falls, through a sigmoid, cut to an integer as the
// published simulator does. gpu is where a fraction goes. measure is Fragmentation, or something that remembers it.
func Gradient(n *Node, r *Request, measure func(*Node) float64) (score, gpu int, ok bool) {
	if !n.Fits(r) {
		return 0, 0, false
	}
	before := measure(n)
	if r.GPU.Milli == 0 {
		after := *n
		after.Take(r, 0)
		return sigmoid(before - measure(&after)), 0, true
	}
	score = -1
	for i := range n.Shape.GPUs {
		if n.Free[i] < int32(r.GPU.Milli) || !n.first(i) {
			continue
		}
		after := *n
		after.Take(r, i)
		if s := sigmoid(before - measure(&after)); s > score {
			score, gpu = s, i
		}
	}
	return score, gpu, true
}

func sigmoid(fall float64) int { return int(100 / (1 + math.Exp(-fall/topology.FullGPU))) }
