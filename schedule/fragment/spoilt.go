package fragment

import "hilbert.dev/hilbert/topology"

// Spoilt is the worth that a placement destroys, in thousandths of a GPU: on a node with these GPUs free it takes a grant's part of each of the
// grant's, and leaves so many of the millicores that there are before. It is Score for who has chosen the GPUs; what fits, and which models a
// request allows, is not looked at.
func (p *Prices) Spoilt(free *topology.Free, before, after int64, g *topology.Grant) float64 {
	var sum, left row
	whole := 0
	for i, f := range free {
		switch taken := g.GPUs>>i&1 == 1; {
		case f <= 0:
		case f >= topology.FullGPU && !taken:
			whole++
		case !taken:
			add(&sum, p.piece(f))
			add(&left, p.piece(f))
		default:
			add(&sum, p.piece(f))
			add(&left, p.piece(f-int32(g.Milli)))
		}
	}
	for l, worth := range p.free[parts] {
		several := float64(float64(whole) * worth)
		sum[l] += several
		left[l] += several
	}
	return (p.worth(&sum, before) - p.worth(&left, after)) / float64(len(views))
}

func add(sum, piece *row) {
	for l := range sum {
		sum[l] += piece[l]
	}
}

// worth is the worth in all views of pieces with CPU beside them. It is convex in the level, and the more CPU a view sees, the lower is the level
// with the least.
func (p *Prices) worth(pieces *row, cpu int64) float64 {
	all, level := 0.0, levels-1
	for _, factor := range views {
		seen := float64(max(cpu, 0)) * factor
		lowest := float64(p.cpu[level]*seen) + pieces[level]
		for level > 0 {
			below := float64(p.cpu[level-1]*seen) + pieces[level-1]
			if below > lowest {
				break
			}
			lowest, level = below, level-1
		}
		all += lowest
	}
	return all
}
