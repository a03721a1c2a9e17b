package packing

import "math"

// blockSize is how many looks share a minimum.
const blockSize = 64

// ranking keeps the scores of one kind of pod for all looks. Lower is better; where it does not fit, and where no node looks so, it is infinite.
type ranking struct {
	blocks []*block
	cursor int  // how much of the log of looks was applied
	void   bool // whether all scores have to be computed
}

// block is some of the looks.
type block struct {
	score [blockSize]float64
	gpu   [blockSize]int8
	low   float64 // the lowest score
	stale bool    // whether that has to be found again
}

func newRanking() *ranking { return &ranking{void: true} }

// resize makes room for so many looks.
func (r *ranking) resize(looks int) {
	for len(r.blocks)*blockSize < looks {
		b := &block{low: math.Inf(1)}
		for i := range b.score {
			b.score[i] = math.Inf(1)
		}
		r.blocks = append(r.blocks, b)
	}
}

// set changes one score.
func (r *ranking) set(look int, score float64, gpu int8) {
	b, i := r.blocks[look/blockSize], look%blockSize
	switch old := b.score[i]; {
	case score <= b.low:
		b.low = score
	case old == b.low:
		b.stale = true
	}
	b.score[i], b.gpu[i] = score, gpu
}

// least is the lowest score; infinite where the pod fits nowhere.
func (r *ranking) least() float64 {
	least := math.Inf(1)
	for _, b := range r.blocks {
		if b.stale {
			b.low, b.stale = b.lowest(), false
		}
		least = min(least, b.low)
	}
	return least
}

// best is the first of the nodes with the lowest score; ok is false where the pod fits nowhere.
func (r *ranking) best(l *looks) (p place, ok bool) {
	p.score = r.least()
	if math.IsInf(p.score, 1) {
		return p, false
	}
	for at, b := range r.blocks {
		if b.low != p.score {
			continue
		}
		for i, score := range b.score {
			if score != p.score {
				continue
			}
			if node, _ := l.first(at*blockSize + i); !ok || node < p.node {
				p.node, p.gpu, ok = node, int(b.gpu[i]), true
			}
		}
	}
	return p, true
}

func (b *block) lowest() float64 {
	low := math.Inf(1)
	for _, s := range b.score {
		if s < low {
			low = s
		}
	}
	return low
}
