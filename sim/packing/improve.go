package packing

import "hilbert.dev/hilbert/schedule/fragment"

// When pods are moved because they would be better elsewhere.
const (
	// improveGap is how many arrivals lie between two looks.
	improveGap = 16
	// improveFrom is the part of the GPUs that is allocated before that pays.
	improveFrom = 0.8
	// improvePart is the part of the moves that may be spent so. The others are for pods that are refused.
	improvePart = 0.75
	// improveMoves is the most at one look.
	improveMoves = 8
	// improveLeast is the worth that a move must win, in GPU thousandths.
	improveLeast = 60
)

// valuer is a policy that knows what a node is worth.
type valuer interface {
	// gain is what a node would be worth more were it as after is, in the unit of scores.
	gain(node int, after *fragment.Node) float64
	// unit is how much of a score is a GPU thousandth.
	unit() float64
}

// improve moves pods that would be better elsewhere now, if moves are left for that.
func (r *run) improve(arrival int, allocated int64) {
	v, ok := r.policy.(valuer)
	if !ok || arrival%improveGap != 0 || float64(allocated) < improveFrom*float64(r.a.capacity) {
		return
	}
	best := func(kind int32) (int, int, float64, bool) {
		p, ok := r.best(kind)
		return p.node, p.gpu, p.score, ok
	}
	for range improveMoves {
		if r.removal.moves+1 > int(improvePart*r.o.Defragment*float64(r.running)) {
			return
		}
		step, _, ok := fragment.BestMove(r.tenancy(), improveLeast*v.unit(), best, v.gain)
		if !ok {
			return
		}
		r.move(&step)
	}
}
