package fragment

import "hilbert.dev/hilbert/topology"

// Loss is the worth that a placement destroys, in thousandths of a GPU. free is what the node's GPUs have free, before and after are its free
// millicores, g is the grant that is taken. It is Score for a caller that has chosen the GPUs already; it does not check that the request fits.
func (p *Prices) Loss(free *topology.Free, before, after int64, g *topology.Grant) float64 {
	e := p.Exchange(free, g)
	return e.Loss(before, after)
}

// Exchange is what a grant does to the GPUs of a node: all that Loss needs to know beside the CPU. It holds as long as the price list. GPUs in
// another order make the same Exchange, to the last bit.
type Exchange struct {
	prices       *Prices
	before, left row     // the worth of the pieces
	falls        bool    // what the GPUs lose falls as the CPU's price grows
	parted       float64 // the worth of whole GPUs for being together that is lost
}

// Exchange is that of a grant on a node that has this free.
func (p *Prices) Exchange(free *topology.Free, g *topology.Grant) Exchange {
	e := Exchange{prices: p}
	var pieces [topology.MaxGPUs]exchanged
	count, whole, broken := 0, 0, 0
	for i, f := range free {
		switch taken := g.GPUs>>i&1 == 1; {
		case f <= 0:
		case f >= topology.FullGPU && !taken:
			whole++
		default:
			next := exchanged{free: f, left: f}
			if taken {
				next.left -= int32(g.Milli)
				if f >= topology.FullGPU {
					broken++
				}
			}
			at := count
			for ; at > 0 && next.before(pieces[at-1]); at-- { // sums of floats depend on the order
				pieces[at] = pieces[at-1]
			}
			pieces[at] = next
			count++
		}
	}
	for _, x := range pieces[:count] {
		addPiece(&e.before, p.piece(x.free))
		addPiece(&e.left, p.piece(x.left))
	}
	for l, worth := range p.free[parts] {
		several := float64(float64(whole) * worth)
		e.before[l] += several
		e.left[l] += several
	}
	e.parted = p.grouped(whole+broken) - p.grouped(whole)
	return e
}

// exchanged is a piece of a GPU and what is left of it.
type exchanged struct{ free, left int32 }

func (x exchanged) before(o exchanged) bool {
	return x.free > o.free || x.free == o.free && x.left > o.left
}

func addPiece(sum, piece *row) {
	for l := range sum {
		sum[l] += piece[l]
	}
}

// Loss is Prices.Loss, for a node whose CPU changes like this.
func (e *Exchange) Loss(before, after int64) float64 {
	return (e.prices.worth(&e.before, before)-e.prices.worth(&e.left, after))/float64(len(cpuFactors)) + e.parted
}

// Bound makes LeastLoss find a greater loss, where it can.
func (e *Exchange) Bound() {
	e.falls = true
	for l := 1; l < levels; l++ {
		e.falls = e.falls && e.before[l]-e.left[l] <= e.before[l-1]-e.left[l-1]+negligible/levels
	}
}

// LeastLoss is no greater than the Loss of any node that has between least and most millicores free, of which so many are taken. The more CPU there is,
// the less is a millicore worth, and the more is a GPU worth: the CPU costs the least on the node with the most, the GPUs on the node with the least.
func (e *Exchange) LeastLoss(least, most, taken int64) float64 {
	n := float64(len(cpuFactors))
	loss := (e.prices.worth(&e.before, least) - e.prices.worth(&e.left, most-taken)) / n
	if e.falls {
		cpu := e.prices.worth(&e.before, most) - e.prices.worth(&e.before, most-taken)
		gpus := e.prices.worth(&e.before, least-taken) - e.prices.worth(&e.left, least-taken)
		loss = max(loss, (cpu+gpus)/n)
	}
	return loss + e.parted - negligible
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
