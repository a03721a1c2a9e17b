package fragment

import "hilbert.dev/hilbert/topology"

// Loss is the worth that a placement destroys, in thousandths of a GPU. free is what the node's GPUs have free, before and after are its free
// millicores, g is the grant that is taken. It is Score for a caller that has chosen the GPUs already; it does not check that the request fits.
func (p *Prices) Loss(free *topology.Free, before, after int64, g *topology.Grant) float64 {
	var sum, left row
	whole := 0
	for i, f := range free {
		switch taken := g.GPUs>>i&1 == 1; {
		case f <= 0:
		case f >= topology.FullGPU && !taken:
			whole++
		case !taken:
			addPiece(&sum, p.piece(f))
			addPiece(&left, p.piece(f))
		default:
			addPiece(&sum, p.piece(f))
			addPiece(&left, p.piece(f-int32(g.Milli)))
		}
	}
	for l, worth := range p.free[parts] {
		several := float64(float64(whole) * worth)
		sum[l] += several
		left[l] += several
	}
	return (p.worth(&sum, before) - p.worth(&left, after)) / float64(len(cpuFactors))
}

func addPiece(sum, piece *row) {
	for l := range sum {
		sum[l] += piece[l]
	}
}

// worth is the worth of pieces with CPU beside them, summed over all CPU factors. It is convex in the level, and a greater factor has its minimum at
// a lower level.
func (p *Prices) worth(pieces *row, cpu int64) float64 {
	all, level := 0.0, levels-1
	for _, factor := range cpuFactors {
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
