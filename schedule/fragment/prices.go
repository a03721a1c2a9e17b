package fragment

import (
	"hilbert.dev/hilbert/topology"
)

// Sizes of the tables. GPUs are counted in parts of a hundredth, the unit of accounting; CPU has levels of price.
const (
	parts        = 100
	milliPerPart = topology.FullGPU / parts
	levels       = 12
)

// row is the worth of a piece of a GPU, in thousandths, at each level of the CPU's price.
type row [levels]float64

// Prices is what free pieces of GPUs of one model, and the CPU beside them, are worth to the pods that are expected. A placement destroys worth, and the
// score GPUWorth prefers the node where it destroys the least. It is read-only and may be shared.
//
// Example: halves are common and a half on a whole GPU is worth as much as on a broken one. An idle GPU is worth 1000, a GPU with 500 left 500. A half
// on the idle GPU destroys 500 and leaves 500; a half on the broken one destroys 500 and leaves nothing: both lose nothing. If whole GPUs are in demand,
// the idle GPU is worth more than two halves, and breaking it loses the difference.
type Prices struct {
	cpu  row            // thousandths of a GPU for a millicore
	free [parts + 1]row // by hundredths free
	// together is what the square of the number of whole GPUs is worth.
	together float64
}

// togetherGPUs is how many GPUs Params.Together is about.
const togetherGPUs = 8

// grouped is what whole GPUs are worth for being on one node.
func (p *Prices) grouped(whole int) float64 { return p.together * float64(whole*whole) }

// cpuFactors are the factors on a node's CPU under which its worth is computed. The mean over them bends where a single one has a kink, so that CPU
// has a price before it is the last.
var cpuFactors = [...]float64{0.5, 0.8, 1.1, 1.5} //nolint:gochecknoglobals // a constant

// NodeState is what Score needs to know of a node before a placement. Compute it once and use it for any number of requests.
type NodeState struct {
	sum   row
	level [len(cpuFactors)]int8
	worth float64
	whole int // free GPUs of which nothing is held
}

// State computes a node's NodeState.
func (p *Prices) State(n *Node) (s NodeState) {
	for i := range n.Shape.GPUs {
		piece := p.piece(n.Free[i])
		if n.Free[i] >= topology.FullGPU {
			s.whole++
		}
		for l := range s.sum {
			s.sum[l] += piece[l]
		}
	}
	cpu := float64(max(n.CPU, 0))
	for v, factor := range cpuFactors {
		lowest := 0.0
		for l := range s.sum { // convex in the level
			if at := float64(p.cpu[l]*cpu*factor) + s.sum[l]; l == 0 || at < lowest {
				lowest, s.level[v] = at, int8(l)
			}
		}
		s.worth += lowest
	}
	s.worth += float64(ScoreUnit * p.grouped(s.whole))
	return s
}

// Worth is what the node is still good for: the GPU thousandths that can be filled, less what is paid for the requests that fill them.
func (s *NodeState) Worth() float64 { return s.worth / float64(len(cpuFactors)) }

func (p *Prices) piece(free int32) *row {
	return &p.free[min(max(free, 0), topology.FullGPU)/milliPerPart]
}

// ScoreUnit is how much of a score is a GPU thousandth of worth.
const ScoreUnit = float64(len(cpuFactors))

// Score is the worth that a placement destroys: lower is better. gpu is where a fraction goes. s is the node's state.
func (p *Prices) Score(n *Node, s *NodeState, r *Request) (loss float64, gpu int, ok bool) {
	if !n.Fits(r) {
		return 0, 0, false
	}
	cpu := float64(n.CPU - r.CPU)
	if r.GPU.Milli == 0 {
		return s.worth - p.after(s, cpu, float64(r.GPU.Whole), &p.free[parts], &p.free[0]) - float64(ScoreUnit*p.grouped(s.whole-int(r.GPU.Whole))), 0, true
	}
	milli := int32(r.GPU.Milli)
	for i := range n.Shape.GPUs {
		if n.Free[i] < milli || !n.first(i) {
			continue
		}
		whole := s.whole
		if n.Free[i] >= topology.FullGPU {
			whole--
		}
		after := p.after(s, cpu, 1, p.piece(n.Free[i]), p.piece(n.Free[i]-milli)) + float64(ScoreUnit*p.grouped(whole))
		if !ok || s.worth-after < loss {
			loss, gpu, ok = s.worth-after, i, true
		}
	}
	return loss, gpu, ok
}

// after is a node's worth when it has this much CPU left and several pieces were exchanged for others. For each factor the worth is convex in the
// level, so the walk from the old level ends at the lowest.
func (p *Prices) after(s *NodeState, cpu, several float64, old, left *row) float64 {
	sum := 0.0
	for v, factor := range cpuFactors {
		at := func(l int) float64 {
			return float64(p.cpu[l]*cpu*factor) + s.sum[l] + float64(several*(left[l]-old[l]))
		}
		from := int(s.level[v])
		best := at(from)
		l := from + 1
		for ; l < levels; l++ {
			x := at(l)
			if x >= best {
				break
			}
			best = x
		}
		if l == from+1 {
			for l = from - 1; l >= 0; l-- {
				x := at(l)
				if x >= best {
					break
				}
				best = x
			}
		}
		sum += best
	}
	return sum
}
