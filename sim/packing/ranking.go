package packing

import "math"

// blockSize is how many nodes share a minimum.
const blockSize = 64

// ranking keeps the scores of one kind of pod for all nodes. Lower is better; a node where it does not fit has infinity.
type ranking struct {
	score  []float64
	gpu    []int8
	low    []float64 // of each block
	stale  []bool    // whether a block's minimum has to be found again
	cursor int       // how much of the log of changes was applied
	void   bool      // whether all scores have to be computed
}

func newRanking(nodes int) *ranking {
	blocks := (nodes + blockSize - 1) / blockSize
	return &ranking{score: make([]float64, nodes), gpu: make([]int8, nodes), low: make([]float64, blocks), stale: make([]bool, blocks), void: true}
}

// settle finds all minima, after all scores were computed.
func (r *ranking) settle() {
	for b := range r.low {
		r.low[b], r.stale[b] = r.lowest(b), false
	}
	r.void = false
}

// set changes one node's score.
func (r *ranking) set(node int, score float64, gpu int8) {
	b := node / blockSize
	switch old := r.score[node]; {
	case score <= r.low[b]:
		r.low[b] = score
	case old == r.low[b]:
		r.stale[b] = true
	}
	r.score[node], r.gpu[node] = score, gpu
}

// best is the first of the nodes with the lowest score; ok is false where the pod fits nowhere.
func (r *ranking) best() (node int, ok bool) {
	lowest, block := math.Inf(1), -1
	for b := range r.low {
		if r.stale[b] {
			r.low[b], r.stale[b] = r.lowest(b), false
		}
		if r.low[b] < lowest {
			lowest, block = r.low[b], b
		}
	}
	if block < 0 {
		return 0, false
	}
	for node = block * blockSize; r.score[node] != lowest; node++ {
	}
	return node, true
}

func (r *ranking) lowest(b int) float64 {
	low := math.Inf(1)
	for _, s := range r.score[b*blockSize : min((b+1)*blockSize, len(r.score))] {
		if s < low {
			low = s
		}
	}
	return low
}
