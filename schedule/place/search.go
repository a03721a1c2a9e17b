package place

import (
	"hilbert.dev/hilbert/cluster"
	"hilbert.dev/hilbert/resource"
)

// ask is what a search asks of a tree: a class, in the numbers that bounds are made of.
type ask struct {
	class                 *cluster.Class
	cpu, memory           float64 // requested
	scoreCPU, scoreMemory float64
	offset                int64 // what the normalised scores add to the nodes of the tree being searched
	best                  cluster.Slot
	bestKey               int64
	local                 [localScores]int64 // weights
	measured              []rawValues
	placer                *Placer
	forest                *forest
}

func (q *ask) reset(p *Placer, f *forest, c *cluster.Class) {
	*q = ask{
		measured: q.measured,
		class:    c, placer: p, forest: f, best: cluster.NoSlot, local: p.profile.local,
		cpu: float64(c.Amounts.Get(resource.CPU)), memory: float64(c.Amounts.Get(resource.Memory)),
		scoreCPU: float64(c.ScoreCPU), scoreMemory: float64(c.ScoreMemory),
	}
}

// lacks reports whether no node in the box has room.
func (q *ask) lacks(hi *point) bool {
	return hi[axisFreeCPU] < q.cpu || hi[axisFreeMemory] < q.memory || hi[axisFreePods] < 1
}

// bound is a key that no node in the box exceeds; nothing when none of them has room.
func (q *ask) bound(lo, hi *point) int64 {
	if q.lacks(hi) {
		return nothing
	}
	score := q.offset
	for i, weight := range q.local {
		if weight != 0 {
			score += weight * LocalScores[i].Bound(q, lo, hi)
		}
	}
	return score<<tieBits | int64(hi[axisTie])
}

// nothing is below every key.
const nothing = int64(-1) << 62

// search looks for a better node below a tree's node, whose bound it has been worth to open.
func (q *ask) search(t *tree, id int32) {
	n := &t.nodes[id]
	if n.left == noNode {
		for _, slot := range n.slots {
			q.try(slot)
		}
		return
	}
	left, right := n.left, n.right
	l, r := &t.nodes[left].box, &t.nodes[right].box
	a, b := q.bound(&l.lo, &l.hi), q.bound(&r.lo, &r.hi)
	if a < b {
		left, right, a, b = right, left, b, a
	}
	if q.worth(a) {
		q.search(t, left)
	}
	if q.worth(b) {
		q.search(t, right)
	}
}

// try looks at one node.
func (q *ask) try(slot cluster.Slot) {
	p := &q.forest.points[slot]
	if q.worth(q.bound(p, p)) {
		q.consider(slot)
	}
}

// worth reports whether something with this bound could be better than the best so far.
func (q *ask) worth(bound int64) bool {
	return bound != nothing && (q.best == cluster.NoSlot || bound >= q.bestKey)
}

// consider takes a node if it is feasible and better than the best so far.
func (q *ask) consider(slot cluster.Slot) {
	s := &q.placer.snapshot.State
	if !fitsIn(Local, s, slot, q.class) {
		return
	}
	key := (q.offset+q.placer.profile.localScore(s, slot, q.class))<<tieBits | int64(q.placer.tie(slot))
	if q.best == cluster.NoSlot || key > q.bestKey || key == q.bestKey && slot < q.best {
		q.best, q.bestKey = slot, key
	}
}

// any reports whether some node below has room for the class.
func (q *ask) any(t *tree, id int32) bool {
	n := &t.nodes[id]
	if q.lacks(&n.box.hi) {
		return false
	}
	if n.left == noNode {
		for _, slot := range n.slots {
			if fitsIn(Local, &q.placer.snapshot.State, slot, q.class) {
				return true
			}
		}
		return false
	}
	return q.any(t, n.left) || q.any(t, n.right)
}

// margin covers the rounding of the bounds' arithmetic.
const margin = 1e-6

func boundLeastAllocated(q *ask, lo, _ *point) int64 {
	cpu := MaxScore * (1 - lo[axisCPU] - q.scoreCPU*lo[axisInvCPU])
	memory := MaxScore * (1 - lo[axisMemory] - q.scoreMemory*lo[axisInvMemory])
	return (floor(cpu) + floor(memory)) / 2
}

func boundMostAllocated(q *ask, _, hi *point) int64 {
	cpu := MaxScore * (hi[axisCPU] + q.scoreCPU*hi[axisInvCPU])
	memory := MaxScore * (hi[axisMemory] + q.scoreMemory*hi[axisInvMemory])
	return (min(floor(cpu), MaxScore) + min(floor(memory), MaxScore)) / 2
}

// floor rounds down, a little generously, and not below 0.
func floor(x float64) int64 {
	if x < 0 {
		return 0
	}
	return int64(x + margin)
}

// boundBalancedAllocation: with d the difference of the shares before and δ what the pod adds to it, the score grows with |d| − |d+δ|.
// For a given δ that is monotone in d, so d is best at one end of the box; for a given d, δ is best where d+δ is nearest to 0.
func boundBalancedAllocation(q *ask, lo, hi *point) int64 {
	if q.cpu == 0 && q.memory == 0 {
		return 0
	}
	least := q.cpu*lo[axisInvCPU] - q.memory*hi[axisInvMemory]
	most := q.cpu*hi[axisInvCPU] - q.memory*lo[axisInvMemory]
	gain := max(evening(lo[axisSkew], least, most), evening(hi[axisSkew], least, most))
	// Both balances are rounded down, the one after and the one before, so their difference may be one more.
	return MaxScore/2 + (MaxScore/2+int64(MaxScore/2*gain+1+margin+MaxScore)-MaxScore)/2
}

// evening is the greatest |d| − |d+δ| for δ between least and most.
func evening(d, least, most float64) float64 {
	after := d + min(max(-d, least), most)
	return abs(d) - abs(after)
}

func abs(x float64) float64 {
	if x < 0 {
		return -x
	}
	return x
}

func boundGPUPacking(_ *ask, lo, hi *point) int64 {
	if hi[axisNoGPU] > 0 {
		return MaxScore
	}
	return MaxScore - int64(lo[axisFreeGPU])*MaxScore/(topologyGPUs)
}
